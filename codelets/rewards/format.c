/* format: 1 when the whole completion matches a regular expression, else 0: "format:PATTERN".
 *
 * PCRE2 syntax, UTF-8, the dot matches a newline too.  The whole completion must match, as if the
 * pattern stood between \A(?: and )\z: a format is the form of a text, and a pattern that also fits
 * the empty text ("a*") would otherwise be found everywhere.  To search, write ".*PATTERN.*"; to
 * allow white space at the end, "PATTERN\s*".  Bytes that are not UTF-8 match nothing but are no
 * error (PCRE2_MATCH_INVALID_UTF).
 * A match that takes more steps or memory than the limits below is an error, counted as such: a
 * pattern like "(a|aa)+" on a long row of a must not stop the run. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "error.h"
#include "reward.h"
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    MATCH_STEPS_MAX = 2 * 1000 * 1000, /* about a tenth of a second */
    MATCH_HEAP_MAX_KIB = 64 * 1024
};

/* The compiled pattern and the limits are read only while matching: shared by all threads. */
struct format {
    pcre2_code *code;
    pcre2_match_context *limits;
};

static void format_close(void *state)
{
    struct format *format = state;
    if (!format) { return; }
    pcre2_match_context_free(format->limits);
    pcre2_code_free(format->code);
    free(format);
}

static int format_open(const char *settings, void **state)
{
    if (!settings || !settings[0]) {
        return mot_fail(EINVAL, "reward format: the pattern is missing; write \"format:PATTERN\"");
    }
    const uint32_t options = PCRE2_MATCH_INVALID_UTF | PCRE2_UCP | PCRE2_DOTALL | PCRE2_ANCHORED
                             | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C;
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)settings, PCRE2_ZERO_TERMINATED, options, &error, &offset, NULL);
    if (!code) {
        char message[256];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)message, sizeof(message));
        return mot_fail(EINVAL, "reward format: %s at character %zu of the pattern \"%.100s\"",
                        message, (size_t)offset + 1, settings);
    }
    struct format *format = mot_alloc(sizeof(*format));
    *format = (struct format){code, pcre2_match_context_create(NULL)};
    MOT_ASSERT(format->limits);
    pcre2_set_match_limit(format->limits, MATCH_STEPS_MAX);
    pcre2_set_heap_limit(format->limits, MATCH_HEAP_MAX_KIB);
    *state = format;
    return 0;
}

static void format_score(void *state, const struct mot_reward_input *input, struct mot_score *score)
{
    const struct format *format = state;
    *score = (struct mot_score){0};
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    MOT_ASSERT(match);
    const int result = pcre2_match(format->code, (PCRE2_SPTR)input->completion,
                                   input->completion_bytes, 0, 0, match, format->limits);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
    /* Around bytes that are not UTF-8 PCRE2 takes each valid stretch for a text of its own. */
    score->value = result >= 0 && span[0] == 0 && span[1] == input->completion_bytes;
    pcre2_match_data_free(match);
    score->error = result < 0 && result != PCRE2_ERROR_NOMATCH;
}

const struct mot_reward mot_reward_format = {
    .name = "format",
    .help = "1 when the whole completion matches the regular expression of format:PATTERN (PCRE2; "
            "the dot matches newlines)",
    .open = format_open,
    .close = format_close,
    .score = format_score,
};
