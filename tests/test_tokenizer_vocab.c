/* The tokenizer gives the ids of the original ones: peers row 24.
 *
 * The vectors are llama.cpp's (MOTLEY_DATA/vocab/ggml-vocab-*.gguf.{inp,out}, made with Hugging
 * Face's tokenizers): 46 texts for each of gpt-2, qwen2 and llama-bpe.  Each text must also come
 * back from decode, byte for byte.  A SentencePiece vocabulary must be refused in one line.
 * Skipped (77) without MOTLEY_DATA.   Run: MOTLEY_DATA=... test_tokenizer_vocab */
#include "error.h"
#include "file.h"
#include "tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\n__ggml_vocab_test__\n"

static int bad;

/* Compares ids with the numbers of the line; returns 1 when they are the same. */
static int is_expected(const struct mot_ids *ids, const char *line, const char *end)
{
    size_t i = 0;
    for (char *next; line < end; line = next, i++) {
        const long expected = strtol(line, &next, 10);
        if (next == line || next > end) { break; }
        if (i >= ids->n || ids->id[i] != expected) { return 0; }
    }
    return i == ids->n;
}

static void check_text(const struct mot_tokenizer *tokenizer, const char *name, int number,
                       const char *text, size_t n, const char *line, const char *line_end)
{
    struct mot_ids ids = {NULL, 0};
    if (mot_tokenizer_encode(tokenizer, text, n, 0, &ids) || !is_expected(&ids, line, line_end)) {
        printf("%s: case %d: got", name, number);
        for (size_t i = 0; i < ids.n; i++) { printf(" %d", (int)ids.id[i]); }
        printf("\n  expected %.*s\n", (int)(line_end - line), line);
        bad = 1;
    }
    size_t length;
    char *back = mot_tokenizer_decode(tokenizer, ids.id, ids.n, 0, &length);
    if (length != n || memcmp(back, text, n) != 0) {
        printf("%s: case %d: decodes to '%s'\n", name, number, back);
        bad = 1;
    }
    free(back);
    mot_ids_free(&ids);
}

static char *read_file(const char *folder, const char *name, const char *suffix, size_t *n)
{
    char *path = mot_format("%s/vocab/ggml-vocab-%s.gguf%s", folder, name, suffix), *bytes = NULL;
    if (mot_file_read(path, 1 << 20, &bytes, n)) { exit(1); }
    free(path);
    return bytes;
}

static void check_vocabulary(const char *folder, const char *name)
{
    char *path = mot_format("%s/vocab/ggml-vocab-%s.gguf", folder, name);
    struct mot_tokenizer *tokenizer = NULL;
    if (mot_tokenizer_load(path, &tokenizer)) { exit(1); }
    size_t n_in, n_out;
    char *in = read_file(folder, name, ".inp", &n_in),
         *out = read_file(folder, name, ".out", &n_out);
    int number = 0;
    const char *line = out, *text = in, *end = in + n_in;
    while (text < end) {
        const char *mark = memmem(text, (size_t)(end - text), MARK, strlen(MARK));
        const char *text_end = mark ? mark : end;
        const char *newline = strchr(line, '\n');
        const char *line_end = newline ? newline : line + strlen(line);
        check_text(tokenizer, name, number++, text, (size_t)(text_end - text), line, line_end);
        text = mark ? mark + strlen(MARK) : end;
        line = newline ? newline + 1 : line_end;
    }
    printf("%-10s %d cases %s\n", name, number, bad ? "FAIL" : "ok");
    bad |= number != 46;
    free(in);
    free(out);
    free(path);
    mot_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const char *folder = getenv("MOTLEY_DATA");
    if (!folder) {
        printf("skipped: MOTLEY_DATA names no folder with vocab/\n");
        return 77;
    }
    check_vocabulary(folder, "gpt-2");
    check_vocabulary(folder, "qwen2");
    check_vocabulary(folder, "llama-bpe");

    char *path = mot_format("%s/vocab/ggml-vocab-llama-spm.gguf", folder);
    struct mot_tokenizer *tokenizer = NULL;
    if (mot_tokenizer_load(path, &tokenizer) == 0 || !strstr(mot_last_message(), "SentencePiece")) {
        printf("llama-spm is not refused as SentencePiece\n");
        bad = 1;
    }
    free(path);
    return bad;
}
