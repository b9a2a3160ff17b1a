/* Which of the known chat forms a Jinja text spells.  See chat_template_jinja.h.
 *
 * Templates without tools are compared whole, in a canonical spelling (no comments, white space or
 * trimming dashes, one kind of quotes, message['role'] for message.role).  Those with tools, which
 * come in many editions that differ in what we never use, must have the turns and conditions we
 * know, and neither a string, a filter nor a slice that we do not. */
#include "chat_template_jinja.h"
#include "error.h"
#include <stdlib.h>
#include <string.h>

/* ---- The canonical spelling ------------------------------------------------------------------ */

/* All occurrences of from become to, which is no longer. */
static void replace(char *text, const char *from, const char *to)
{
    const size_t n = strlen(from), m = strlen(to);
    for (char *p = text; (p = strstr(p, from)) != NULL; p += m) {
        memcpy(p, to, m);
        memmove(p + m, p + n, strlen(p + n) + 1);
    }
}

static void drop_comments(char *text)
{
    for (char *p = text, *end; (p = strstr(p, "{#")) && (end = strstr(p, "#}"));) {
        memmove(p, end + 2, strlen(end + 2) + 1);
    }
}

/* One character of a string literal at p, escapes undone; returns how many it took. */
static size_t literal_char(const char *p, char *out)
{
    const int escaped = p[0] == '\\' && p[1] && strchr("n\\'\"", p[1]);
    *out = !escaped ? p[0] : p[1] == 'n' ? '\n' : p[1];
    return escaped ? 2 : 1;
}

static int is_space(char c)
{
    return c && strchr(" \t\r\n", c) != NULL;
}

/* How much of the white space at p, which follows the block that ends before it, leaves no trace:
 * Jinja with trim_blocks and lstrip_blocks, as transformers runs it. */
static size_t silent_space(const char *jinja, const char *p)
{
    const size_t n = strspn(p, " \t\r\n");
    const char *next = p + n;
    const int after = p - jinja >= 3 && p[-3] == '-', tag = p - jinja >= 2 && p[-2] == '%';
    if (after || (*next == '{' && next[1] && next[2] == '-')) { return n; }
    if (!*next) { return n == 1 && *p == '\n' ? 1 : 0; }
    const size_t line = tag && *p == '\n' ? 1 : 0;
    const int blanks = strspn(p + line, " \t") == n - line;
    return blanks && (n == line || (next[0] == '{' && next[1] == '%')) ? n : 0;
}

/* What stands between blocks stays, unless it is silent; blocks lose their white space outside
 * literals; literals are spelled as they read, between single quotes. */
static char *canonical(const char *jinja)
{
    static const char *const spellings[][2] = {{"{%-", "{%"},
                                               {"-%}", "%}"},
                                               {"{{-", "{{"},
                                               {"-}}", "}}"},
                                               {"{%generation%}", ""},
                                               {"{%endgeneration%}", ""},
                                               {"'<|im_end|>'+'\n'", "'<|im_end|>\n'"}};
    char *copy = mot_strdup(jinja);
    drop_comments(copy);
    char *text = mot_alloc(2 * strlen(copy) + 1), *to = text, quote = 0;
    int inside = 0;
    for (const char *p = copy; *p;) {
        const int role = inside && !quote && strncmp(p, "message.role", 12) == 0;
        if (role || (inside && !quote && strncmp(p, "message.content", 15) == 0)) {
            const char *name = role ? "message['role']" : "message['content']";
            memcpy(to, name, strlen(name));
            to += strlen(name);
            p += role ? 12 : 15;
        } else if (quote && *p != quote) {
            p += literal_char(p, to++);
        } else if (inside && (*p == '\'' || *p == '"')) {
            quote = quote ? 0 : *p;
            *to++ = '\'';
            p++;
        } else if (!inside && is_space(*p) && silent_space(copy, p) > 0) {
            p += silent_space(copy, p);
        } else {
            if (p[0] == '{' && (p[1] == '{' || p[1] == '%')) { inside = 1; }
            if (p > copy && p[0] == '}' && (p[-1] == '}' || p[-1] == '%')) { inside = 0; }
            if (!inside || !is_space(*p)) { *to++ = *p; }
            p++;
        }
    }
    *to = 0;
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        replace(text, spellings[i][0], spellings[i][1]);
    }
    free(copy);
    return text;
}

/* ---- Templates without tools ----------------------------------------------------------------- */

static int is_plain(const char *text, const char *prompt)
{
    static const char *const begin[] = {
        "", "{%ifnotadd_generation_promptisdefined%}{%setadd_generation_prompt=false%}{%endif%}"};
    static const char loop[] = "{%formessageinmessages%}";
    static const char turns[] =
        "{{'<|im_start|>'+message['role']+'\n'+message['content']+'<|im_end|>\n'}}{%endfor%}"
        "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\n'}}{%endif%}";
    int same = 0;
    for (int i = 0; i < 4 && !same; i++) {
        const int inside = i % 2; /* the default stands in the loop */
        char *front = mot_strdup("");
        if (*prompt) {
            free(front);
            front = mot_format("{%%if%smessages[0]['role']!='system'%%}{{'<|im_start|>system\n%s"
                               "<|im_end|>\n'}}{%%endif%%}",
                               inside ? "loop.firstand" : "", prompt);
        }
        char *known = mot_format("%s%s%s%s%s", begin[i / 2], inside ? "" : front, loop,
                                 inside ? front : "", turns);
        same = strcmp(text, known) == 0;
        free(known);
        free(front);
    }
    return same;
}

/* ---- Templates with tools -------------------------------------------------------------------- */

/* Strings of the templates of Qwen2.5 and Qwen3, without their white space. */
static int is_known_literal(const char *text, const char *prompt)
{
    static const char *const known[] = {
        "",
        "system",
        "user",
        "assistant",
        "tool",
        "role",
        "content",
        "<|im_start|>",
        "<|im_end|>",
        "<|im_start|>system",
        "<|im_start|>user",
        "<|im_start|>assistant",
        "<think>",
        "</think>",
        "<think></think>",
        "<tool_response>",
        "</tool_response>",
        "<tool_call>{\"name\":\"",
        "\",\"arguments\":",
        "}</tool_call>",
        "#ToolsYoumaycalloneormorefunctionstoassistwiththeuserquery.Youareprovidedwithfunction"
        "signatureswithin<tools></tools>XMLtags:<tools>",
        "</tools>Foreachfunctioncall,returnajsonobjectwithfunctionnameandargumentswithin"
        "<tool_call></tool_call>XMLtags:<tool_call>{\"name\":<function-name>,\"arguments\":"
        "<args-json-object>}</tool_call><|im_end|>"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(text, known[i]) == 0) { return 1; }
    }
    char *packed = mot_strdup(prompt), *to = packed;
    for (const char *p = prompt; *p; p++) {
        if (!is_space(*p)) { *to++ = *p; }
    }
    *to = 0;
    char *whole = mot_format("<|im_start|>system%s<|im_end|>", packed);
    const int same = *prompt && (strcmp(text, packed) == 0 || strcmp(text, whole) == 0);
    free(whole);
    free(packed);
    return same;
}

/* The literal that begins at p, checked; returns its end, NULL for an unknown or endless one. */
static const char *check_literal(const char *p, const char *prompt)
{
    const char quote = *p++;
    char *text = mot_alloc(strlen(p) + 1), *to = text;
    while (*p && *p != quote) {
        char c;
        p += literal_char(p, &c);
        if (!is_space(c)) { *to++ = c; }
    }
    *to = 0;
    const int good = *p && is_known_literal(text, prompt);
    free(text);
    return good ? p + 1 : NULL;
}

static int is_known_filter(const char *p)
{
    p += strspn(p, " ");
    return strncmp(p, "tojson", 6) == 0 || strncmp(p, "length", 6) == 0;
}

/* Between {{ or {% and its end nothing but known strings, filters and slices; outside nothing. */
static int has_known_parts(const char *jinja, const char *prompt)
{
    int inside = 0;
    for (const char *p = jinja; *p;) {
        if (!inside && (strncmp(p, "{{", 2) == 0 || strncmp(p, "{%", 2) == 0)) {
            inside = 1;
            p += 2;
        } else if (inside && (strncmp(p, "}}", 2) == 0 || strncmp(p, "%}", 2) == 0)) {
            inside = 0;
            p += 2;
        } else if (inside && (*p == '\'' || *p == '"')) {
            p = check_literal(p, prompt);
            if (!p) { return 0; }
        } else if ((inside && *p == '|' && !is_known_filter(p + 1))
                   || (inside && *p == ':' && strncmp(p - 1, "[::-1]", 6) != 0
                       && strncmp(p - 2, "[::-1]", 6) != 0)
                   || (!inside && !is_space(*p))) {
            return 0;
        } else {
            p++;
        }
    }
    return !inside;
}

static enum mot_jinja_form recognise_with_tools(const char *jinja, const char *text,
                                                const char *prompt)
{
    static const char *const needed[] = {
        "(message['role']=='user')or(message['role']=='system'andnotloop.first)",
        "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\n'}}"};
    char *code = mot_strdup(jinja);
    drop_comments(code);
    const int known = has_known_parts(code, prompt);
    free(code);
    for (int i = 0; i < 2; i++) {
        if (!known || !strstr(text, needed[i])) { return MOT_JINJA_UNKNOWN; }
    }
    const int turn =
        strstr(text, "{{'<|im_start|>'+message['role']+'\n'+message['content']+'<|im_end|>\n'}}")
        || strstr(text, "{{'<|im_start|>'+message['role']+'\n'+content+'<|im_end|>\n'}}");
    if (!turn) { return MOT_JINJA_UNKNOWN; }
    if (!strstr(text, "think")) { return *prompt ? MOT_JINJA_CHATML_DEFAULT : MOT_JINJA_CHATML; }
    const int qwen3 = !*prompt && strstr(text, "{%ifloop.index0>ns.last_query_index%}")
                      && strstr(text, "enable_thinkingisfalse%}{{'<think>\n\n</think>\n\n'}}");
    return qwen3 ? MOT_JINJA_QWEN3 : MOT_JINJA_UNKNOWN;
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* The default system prompt, spelled in one literal as <|im_start|>system\nPROMPT<|im_end|> in the
 * canonical text, to free; "" when there is none. */
static char *find_prompt(const char *text)
{
    static const char opening[] = "'<|im_start|>system\n", closing[] = "<|im_end|>";
    for (const char *p = text; (p = strstr(p, opening)) != NULL;) {
        p += strlen(opening);
        const char *end = strstr(p, closing);
        const size_t n = end ? (size_t)(end - p) : 0;
        if (n > 0 && !memchr(p, '\'', n)) { return mot_format("%.*s", (int)n, p); }
    }
    return mot_strdup("");
}

enum mot_jinja_form mot_jinja_recognise(const char *jinja, char **prompt)
{
    char *text = canonical(jinja), *found = find_prompt(text);
    enum mot_jinja_form form = MOT_JINJA_UNKNOWN;
    if (strstr(text, "tool_calls")) {
        form = recognise_with_tools(jinja, text, found);
    } else if (is_plain(text, found)) {
        form = *found ? MOT_JINJA_CHATML_DEFAULT : MOT_JINJA_CHATML;
    }
    *prompt = form == MOT_JINJA_CHATML_DEFAULT ? mot_strdup(found) : NULL;
    free(found);
    free(text);
    return form;
}
