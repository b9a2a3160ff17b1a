/* Jinja chat templates, recognised and never interpreted.  Strict: what is not known to give the
 * text that chat_template.c renders is unknown.  Private to chat_template.c. */
#ifndef MOT_CHAT_TEMPLATE_JINJA_H
#define MOT_CHAT_TEMPLATE_JINJA_H

enum mot_jinja_form {
    MOT_JINJA_UNKNOWN,
    MOT_JINJA_CHATML,         /* turns as they are */
    MOT_JINJA_CHATML_DEFAULT, /* with a system prompt put in front where the messages have none */
    MOT_JINJA_QWEN3           /* reasoning of earlier turns cut out */
};
/* *prompt: the default system prompt for MOT_JINJA_CHATML_DEFAULT, to free; else NULL. */
enum mot_jinja_form mot_jinja_recognise(const char *jinja, char **prompt);
#endif
