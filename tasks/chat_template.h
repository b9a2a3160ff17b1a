/* Chat messages to the text a model was tuned on.  The forms are recognised, not interpreted: an
 * unknown Jinja template is an error that names --chat_template as the way out. */
#ifndef MOT_CHAT_TEMPLATE_H
#define MOT_CHAT_TEMPLATE_H
#include <jansson.h>

/* One form; the rows of chat_template_table.h. */
struct mot_chat_template;

/* Recognises the Jinja text, or a name ("chatml", "smollm2", "qwen2", "none"...).  0, or -EINVAL
 * with a message that lists the names. */
int mot_chat_template_find(const char *jinja_or_name, const struct mot_chat_template **found);
const char *mot_chat_template_name(const struct mot_chat_template *chat);
/* What ends an assistant's turn ("<|im_end|>"), or NULL. */
const char *mot_chat_template_end(const struct mot_chat_template *chat);

/* What is wrong with the messages, in why; returns 1, or 0 when they can be rendered.  Prints
 * nothing: for callers that know the file and line. */
int mot_chat_template_problem(const struct mot_chat_template *chat, const json_t *messages,
                              char *why, size_t why_bytes);
/* messages: array of {"role", "content"}.  Ends with the opening of the assistant's turn when
 * generation_prompt is 1.  0 and *text (mot_alloc'ed), or -EINVAL with a message. */
int mot_chat_template_render(const struct mot_chat_template *chat, const json_t *messages,
                             int generation_prompt, char **text);
#endif
