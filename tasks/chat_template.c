/* Chat messages to text, for the ChatML family: each turn is
 *
 *   <|im_start|>ROLE \n CONTENT <|im_end|> \n
 *
 * and models differ in the system prompt they assume and in how they show reasoning.  Jinja texts
 * are recognised (chat_template_jinja.c), never interpreted. */
#include "chat_template.h"
#include "chat_template_jinja.h"
#include "error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum chat_thinking {
    THINKING_NONE, /* contents as they are */
    THINKING_KEPT, /* Qwen3: reasoning of earlier turns is dropped, the last turn's is shown */
    THINKING_OFF   /* and the answer begins with an empty reasoning (enable_thinking false) */
};

struct mot_chat_template {
    const char *name, *default_system;
    enum chat_thinking thinking;
    const char *end;
};

static const struct mot_chat_template forms[] = {
#define MOT_CHAT(name, default_system, thinking, end) {name, default_system, thinking, end},
#include "chat_template_table.h"
#undef MOT_CHAT
};
enum { N_FORMS = sizeof(forms) / sizeof(forms[0]) };

static const struct mot_chat_template *by_name(const char *name)
{
    for (int i = 0; i < N_FORMS; i++) {
        if (strcmp(forms[i].name, name) == 0) { return &forms[i]; }
    }
    return NULL;
}

static const struct mot_chat_template *recognise(const char *jinja)
{
    char *prompt = NULL;
    const enum mot_jinja_form form = mot_jinja_recognise(jinja, &prompt);
    if (form == MOT_JINJA_CHATML) { return by_name("chatml"); }
    if (form == MOT_JINJA_QWEN3) { return by_name("qwen3"); }
    const struct mot_chat_template *chat = NULL;
    for (int i = 0; i < N_FORMS && form == MOT_JINJA_CHATML_DEFAULT; i++) {
        const char *known = forms[i].default_system;
        if (known && strcmp(known, prompt) == 0) { chat = &forms[i]; }
    }
    free(prompt);
    return chat;
}

int mot_chat_template_find(const char *jinja_or_name, const struct mot_chat_template **found)
{
    const struct mot_chat_template *chat = NULL;
    if (jinja_or_name) {
        chat = by_name(jinja_or_name);
        if (!chat) { chat = recognise(jinja_or_name); }
    }
    if (chat) {
        *found = chat;
        return 0;
    }
    char list[512] = "";
    for (int i = 0; i < N_FORMS; i++) {
        strncat(list, i ? " " : "", sizeof(list) - strlen(list) - 1);
        strncat(list, forms[i].name, sizeof(list) - strlen(list) - 1);
    }
    if (!jinja_or_name) {
        return mot_fail(
            EINVAL, "the model has no chat template; choose one with --chat_template (%s)", list);
    }
    return mot_fail(EINVAL,
                    "chat template \"%.60s%s\" is not known; choose one with --chat_template "
                    "(%s)",
                    jinja_or_name, strlen(jinja_or_name) > 60 ? "..." : "", list);
}

const char *mot_chat_template_name(const struct mot_chat_template *chat)
{
    return chat->name;
}

const char *mot_chat_template_end(const struct mot_chat_template *chat)
{
    return chat->end;
}

/* ---- Rendering ------------------------------------------------------------------------------- */

static const char *role_of(const json_t *message)
{
    return json_string_value(json_object_get(message, "role"));
}

static const char *content_of(const json_t *message)
{
    return json_string_value(json_object_get(message, "content"));
}

int mot_chat_template_problem(const struct mot_chat_template *chat, const json_t *messages,
                              char *why, size_t why_bytes)
{
    if (!chat->end) {
        snprintf(why, why_bytes, "messages need a chat template; choose one with --chat_template");
        return 1;
    }
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        snprintf(why, why_bytes, "messages: a list of at least one message is needed");
        return 1;
    }
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message)
    {
        const char *role = role_of(message);
        if (!json_is_object(message)) {
            snprintf(why, why_bytes, "messages[%zu] is no object with role and content", i);
        } else if (!role) {
            snprintf(why, why_bytes, "messages[%zu].role is missing or no string", i);
        } else if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0
                   && strcmp(role, "assistant") != 0) {
            snprintf(why, why_bytes,
                     "messages[%zu].role: \"%.40s\" is not one of system, user, assistant", i,
                     role);
        } else if (!content_of(message)) {
            snprintf(why, why_bytes, "messages[%zu].content is missing or no string", i);
        } else {
            continue;
        }
        return 1;
    }
    return 0;
}

/* Qwen3: what of an assistant's content is behind its reasoning, and the reasoning (n bytes). */
static const char *split_thinking(const char *content, const char **reasoning, size_t *n)
{
    const char *answer = content, *close = strstr(content, "</think>");
    *reasoning = "";
    *n = 0;
    if (!close) { return answer; }
    for (const char *p = close; p; p = strstr(p, "</think>")) { answer = p += strlen("</think>"); }
    const char *start = content; /* behind the last <think> before the first </think> */
    for (const char *p = content; (p = strstr(p, "<think>")) != NULL && p < close;) {
        start = p += strlen("<think>");
    }
    while (start < close && *start == '\n') { start++; }
    while (close > start && close[-1] == '\n') { close--; }
    *reasoning = start;
    *n = (size_t)(close - start);
    return answer + strspn(answer, "\n");
}

/* The index of the last user message that is no tool's response; the last message without one. */
static size_t last_query(const json_t *messages)
{
    const size_t n = json_array_size(messages);
    static const char opening[] = "<tool_response>", closing[] = "</tool_response>";
    for (size_t i = n; i-- > 0;) {
        const json_t *message = json_array_get(messages, i);
        const char *content = content_of(message);
        const size_t length = strlen(content);
        const int is_tool = strncmp(content, opening, strlen(opening)) == 0
                            && length >= strlen(closing)
                            && strcmp(content + length - strlen(closing), closing) == 0;
        if (strcmp(role_of(message), "user") == 0 && !is_tool) { return i; }
    }
    return n - 1;
}

static void put_message(FILE *out, const struct mot_chat_template *chat, const json_t *messages,
                        size_t i)
{
    const json_t *message = json_array_get(messages, i);
    const char *role = role_of(message), *content = content_of(message), *reasoning;
    size_t n;
    fprintf(out, "<|im_start|>%s\n", role);
    if (chat->thinking != THINKING_NONE && strcmp(role, "assistant") == 0) {
        content = split_thinking(content, &reasoning, &n);
        if (i > last_query(messages) && (i + 1 == json_array_size(messages) || n > 0)) {
            content += strspn(content, "\n");
            fprintf(out, "<think>\n%.*s\n</think>\n\n", (int)n, reasoning);
        }
    }
    fprintf(out, "%s%s\n", content, chat->end);
}

int mot_chat_template_render(const struct mot_chat_template *chat, const json_t *messages,
                             int generation_prompt, char **text)
{
    char why[256];
    if (mot_chat_template_problem(chat, messages, why, sizeof(why))) {
        return mot_fail(EINVAL, "%s", why);
    }
    char *bytes = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&bytes, &n);
    MOT_ASSERT(out != NULL);
    if (chat->default_system && strcmp(role_of(json_array_get(messages, 0)), "system") != 0) {
        fprintf(out, "<|im_start|>system\n%s%s\n", chat->default_system, chat->end);
    }
    for (size_t i = 0; i < json_array_size(messages); i++) { put_message(out, chat, messages, i); }
    if (generation_prompt) {
        fprintf(out, "<|im_start|>assistant\n");
        if (chat->thinking == THINKING_OFF) { fprintf(out, "<think>\n\n</think>\n\n"); }
    }
    MOT_ASSERT(fclose(out) == 0);
    *text = bytes;
    return 0;
}
