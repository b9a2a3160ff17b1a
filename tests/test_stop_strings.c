/* Stop strings: an answer ends with the first token that completes one of them, wherever it lies
 * and however the answer is cut into chunks; what was drawn before is that of the run without.
 * The model is the byte-level one, untrained, so its answers are random bytes: stop strings of one
 * to three bytes are taken out of them. */
#include "program.h"

enum { ANSWERS = 8, TOKENS = 100 };

#define COMMAND                                                                                \
    "generate --model tiny:3 --prompt 12+30= --samples 8 --temperature 1 --json --ignore_eos " \
    "--max_completion_length 100 "

/* The ids of one answer as bytes; special tokens have no text. */
struct answer {
    int n;
    int byte[TOKENS]; /* -1: special */
};

static void answer_load(const json_t *line, struct answer *a)
{
    const json_t *ids = json_object_get(line, "completion_ids");
    a->n = (int)json_array_size(ids);
    MOT_ASSERT(a->n <= TOKENS);
    for (int i = 0; i < a->n; i++) {
        const json_int_t id = json_integer_value(json_array_get(ids, (size_t)i));
        a->byte[i] = id < 256 ? (int)id : -1;
    }
}

/* Tokens up to the end of the first stop string, 0 without one: the plain way. */
static int expected_end(const struct answer *a, const char *const *stop, int n_stop)
{
    char text[TOKENS];
    size_t bytes = 0;
    for (int n = 1; n <= a->n; n++) {
        if (a->byte[n - 1] >= 0) { text[bytes++] = (char)a->byte[n - 1]; }
        for (int i = 0; i < n_stop; i++) {
            if (memmem(text, bytes, stop[i], strlen(stop[i]))) { return n; }
        }
    }
    return 0;
}

/* A piece of `length` letters or digits that stands in the answer's text, or 0. */
static int find_piece(const struct answer *a, int length, char *piece)
{
    int n = 0;
    for (int i = TOKENS / 3; i < a->n; i++) {
        if (a->byte[i] < 0) { continue; }
        const char c = (char)a->byte[i];
        const int plain =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        n = plain ? n + 1 : 0;
        if (plain) { piece[n - 1] = c; }
        if (n == length) {
            piece[n] = 0;
            return 1;
        }
    }
    return 0;
}

static int check_run(const char *stop_words, const char *const *stop, int n_stop, int chunk,
                     const struct answer *whole)
{
    int stopped = 0;
    program_must(0, COMMAND "--chunk %d --stop %s", chunk, stop_words);
    json_t *lines = lines_load("@/stdout");
    MOT_ASSERT(json_array_size(lines) == ANSWERS);
    for (int i = 0; i < ANSWERS; i++) {
        struct answer got;
        const json_t *line = json_array_get(lines, (size_t)i);
        answer_load(line, &got);
        const int end = expected_end(&whole[i], stop, n_stop);
        const int n = end > 0 ? end : whole[i].n;
        const int same =
            got.n == n && memcmp(got.byte, whole[i].byte, (size_t)n * sizeof(int)) == 0;
        if (!same || strcmp(text_at(line, "end"), end > 0 ? "stop" : "length") != 0) {
            printf("FAIL: chunk %d, stop %s, answer %d: %d tokens, expected %d (%s)\n", chunk,
                   stop_words, i, got.n, n, text_at(line, "end"));
            exit(1);
        }
        stopped += end > 0;
    }
    json_decref(lines);
    return stopped;
}

int main(void)
{
    static const int chunks[] = {0, 1, 4, 64};
    static struct answer whole[ANSWERS];
    scratch_begin("test_stop_strings");
    program_must(0, COMMAND "--chunk 64");
    json_t *lines = lines_load("@/stdout");
    for (int i = 0; i < ANSWERS; i++) { answer_load(json_array_get(lines, (size_t)i), &whole[i]); }
    json_decref(lines);

    int pieces[4] = {0}, stopped = 0;
    for (int i = 0; i < ANSWERS; i++) {
        const int length = 1 + i % 3;
        char piece[2][8] = {"", "zzzzzz"}, words[32];
        if (!find_piece(&whole[i], length, piece[0])) { continue; }
        pieces[length]++;
        const char *const stop[] = {piece[0], piece[1]};
        snprintf(words, sizeof(words), "%s %s", piece[0], piece[1]);
        stopped += check_run(words, stop, 2, chunks[i % 4], whole);
    }
    printf("pieces of 1, 2, 3 bytes: %d, %d, %d; answers stopped: %d\n", pieces[1], pieces[2],
           pieces[3], stopped);
    fflush(stdout);
    MOT_ASSERT(pieces[1] > 0 && pieces[2] > 0 && stopped > 4);
    return 0;
}
