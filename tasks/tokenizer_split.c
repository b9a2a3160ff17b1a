/* Pre-tokenizer: regexes cut the text into words, which merges never cross.
 *
 * tokenizer.json writes them for Oniguruma, we run PCRE2 with Unicode properties.  Where the two
 * differ the pattern is rewritten (\s: Unicode's White_Space, which PCRE2's is not) or refused
 * with a message (\w, \b, anchors, nested character classes, ...): better no ids than other ids.
 * Matching is compiled to machine code where PCRE2 can, and its work is limited, so that a
 * hostile pattern or text ends in a message. */
#include "error.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

const char mot_split_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                              "|\\s+(?!\\S)|\\s+";
#define MODERN(digits)                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const char mot_split_llama3[] = MODERN("{1,3}");
const char mot_split_qwen2[] = MODERN("");

enum { PATTERN_MAX = 65536 };

struct translation {
    char *out;
    size_t n;
    int in_class;    /* between [ and ] */
    int class_start; /* right after [ or [^: a ] here is a character */
};

static void put(struct translation *t, const char *text)
{
    const size_t n = strlen(text);
    memcpy(t->out + t->n, text, n);
    t->n += n;
}

/* What follows a backslash; returns the reason to refuse it, or NULL. */
static const char *translate_escape(struct translation *t, char c)
{
    if (c == 's') {
        put(t, t->in_class ? "\\t-\\r\\x{85}\\p{Z}" : "[\\t-\\r\\x{85}\\p{Z}]");
    } else if (c == 'S' && !t->in_class) {
        put(t, "[^\\t-\\r\\x{85}\\p{Z}]");
    } else if (c == 0
               || (strchr("pPdDrnftx", c) == NULL
                   && (c == 'S' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z')
                       || (c >= 'a' && c <= 'z')))) {
        return "an escape that is not supported";
    } else {
        put(t, (char[]){'\\', c, 0});
    }
    return NULL;
}

/* One character that is no escape; next is the one after it. */
static const char *translate_plain(struct translation *t, char c, char next)
{
    if (t->in_class) {
        if (c == '[') { return "a character class inside another, which is not supported"; }
        if (c == '&' && next == '&') { return "a class intersection, which is not supported"; }
        if (c == ']' && !t->class_start) { t->in_class = 0; }
        if (c != '^' || !t->class_start) { t->class_start = 0; }
    } else if (c == '[') {
        t->in_class = t->class_start = 1;
    } else if (c == '^' || c == '$') {
        return "an anchor, which is not supported";
    } else if (c == '}' && next == '+') {
        return "}+, which is not supported";
    }
    put(t, (char[]){c, 0});
    return NULL;
}

/* The pattern for PCRE2 (mot_alloc'ed), or NULL and *why. */
static char *translate(const char *pattern, const char **why)
{
    struct translation t = {.out = mot_alloc(20 * strlen(pattern) + 1)};
    *why = NULL;
    for (const char *p = pattern; *p && !*why; p++) {
        if (*p == '\\') {
            *why = translate_escape(&t, *++p);
            t.class_start = 0;
            if (*why) { break; }
            const char *brace = strchr("pPx", *p) && p[1] == '{' ? strchr(p, '}') : NULL;
            while (brace && p < brace) { put(&t, (char[]){*++p, 0}); }
        } else {
            *why = translate_plain(&t, *p, p[1]);
        }
    }
    if (*why) {
        free(t.out);
        return NULL;
    }
    t.out[t.n] = 0;
    return t.out;
}

int mot_splitter_add(struct mot_splitter *splitter, const char *pattern, int literal,
                     const char *where)
{
    if (splitter->n == MOT_TOKENIZER_MAX_STEPS) {
        return mot_fail(EINVAL, "%s: more than %d splits", where, MOT_TOKENIZER_MAX_STEPS);
    }
    if (strlen(pattern) == 0 || strlen(pattern) > PATTERN_MAX) {
        return mot_fail(EINVAL, "%s: a pattern of %zu bytes (1 to %d are allowed)", where,
                        strlen(pattern), PATTERN_MAX);
    }
    const char *why = NULL;
    char *translated = literal ? mot_strdup(pattern) : translate(pattern, &why);
    if (!translated) { return mot_fail(EINVAL, "%s: the regex has %s", where, why); }
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                                     literal ? PCRE2_UTF | PCRE2_LITERAL
                                             : PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                                     &error, &at, NULL);
    free(translated);
    if (!code) {
        char text[128];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof(text));
        return mot_fail(EINVAL, "%s: the regex does not compile: %s", where, text);
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where it cannot, matching interprets */
    if (!splitter->context) {
        splitter->context = pcre2_match_context_create(NULL);
        MOT_ASSERT(splitter->context != NULL);
        pcre2_set_heap_limit(splitter->context, 256 * 1024); /* KiB */
    }
    splitter->step[splitter->n++] =
        (struct mot_split){.pattern = mot_strdup(pattern), .literal = literal, .code = code};
    return 0;
}

void mot_splitter_free(struct mot_splitter *splitter)
{
    for (int i = 0; i < splitter->n; i++) {
        free(splitter->step[i].pattern);
        pcre2_code_free(splitter->step[i].code);
    }
    pcre2_match_context_free(splitter->context);
}

/* One call of mot_splitter_run. */
struct run {
    const struct mot_splitter *splitter;
    pcre2_match_data *data[MOT_TOKENIZER_MAX_STEPS];
    pcre2_match_context *context;
    mot_piece_function *piece;
    void *argument;
};

static int match_failed(int error)
{
    char text[128];
    pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof(text));
    return mot_fail(EINVAL, "tokenizer: a pre-tokenizer regex fails on the text: %s", text);
}

/* Cuts text by step and hands the pieces to the next one. */
static int run_step(const struct run *run, int step, const char *text, size_t n)
{
    if (step == run->splitter->n) {
        run->piece(run->argument, text, n);
        return 0;
    }
    const pcre2_code *code = run->splitter->step[step].code;
    pcre2_match_data *data = run->data[step];
    size_t done = 0, from = 0;
    int status = 0;
    while (from < n && status == 0) {
        int found =
            pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, data, run->context);
        if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
            found = pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                                data, run->context);
        }
        if (found == PCRE2_ERROR_NOMATCH) { break; }
        if (found < 0) { return match_failed(found); }
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
        const size_t start = ends[0], end = ends[1];
        if (start < from || end < start) { return match_failed(PCRE2_ERROR_BADOFFSET); }
        if (start > done) { status = run_step(run, step + 1, text + done, start - done); }
        if (end > start && status == 0) {
            status = run_step(run, step + 1, text + start, end - start);
        }
        done = from = end;
        if (end == start) { /* an empty match cuts; go on after the next character */
            do {
                from++;
            } while (from < n && ((unsigned char)text[from] & 0xc0) == 0x80);
        }
    }
    return status || done == n ? status : run_step(run, step + 1, text + done, n - done);
}

int mot_splitter_run(const struct mot_splitter *splitter, const char *text, size_t n,
                     mot_piece_function *piece, void *argument)
{
    if (n == 0) { return 0; }
    struct run run = {.splitter = splitter, .piece = piece, .argument = argument};
    if (splitter->n > 0) {
        run.context = pcre2_match_context_copy(splitter->context);
        MOT_ASSERT(run.context != NULL);
        const size_t limit = 1000000 + 8 * n; /* one long run of spaces must pass */
        pcre2_set_match_limit(run.context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    }
    for (int i = 0; i < splitter->n; i++) {
        run.data[i] = pcre2_match_data_create(1, NULL);
        MOT_ASSERT(run.data[i] != NULL);
    }
    const int status = run_step(&run, 0, text, n);
    for (int i = 0; i < splitter->n; i++) { pcre2_match_data_free(run.data[i]); }
    pcre2_match_context_free(run.context);
    return status;
}
