/* Damaged tokenizer.json and JSON lines never crash: thousands of byte flips, cuts, copies and
 * swapped words, each of which either loads (and then encodes and decodes without harm) or ends
 * in one message.
 * Run: test_text_fuzz [mutations] (needs no data; meant for the sanitizers too). */
#include "dataset.h"
#include "error.h"
#include "file.h"
#include "rng.h"
#include "tokenizer.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char tokenizer_json[] =
    "{\"added_tokens\":[{\"id\":7,\"content\":\"<|im_start|>\",\"special\":true,\"normalized\":"
    "false},"
    "{\"id\":8,\"content\":\"<|im_end|>\",\"special\":true,\"lstrip\":true}],\"normalizer\":{"
    "\"type\":"
    "\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t)|[^\\\\r\\\\n\\\\p{"
    "L}]?"
    "\\\\p{L}+|\\\\p{N}{1,3}|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
    "{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
    "false,\"use_regex\":false}]},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":"
    "[{\"SpecialToken\":{\"id\":\"<|im_start|>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\"}}],"
    "\"special_tokens\":{\"<|im_start|>\":{\"ids\":[7]}}},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"ignore_merges\":false,\"unk_token\":\"c\",\"vocab\":{\"a\":0,"
    "\"b\":"
    "1,\"c\":2,\"\\u0120\":3,\"ab\":4,\"abc\":5,\"\\u0120ab\":6},\"merges\":[\"a "
    "b\",[\"ab\",\"c\"],"
    "\"\\u0120 ab\"]}}";

static const char rows[] =
    "{\"prompt\": \"What is 2 + 2?\", \"answer\": \"4\", \"completion\": \"4\"}\n"
    "{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": "
    "\"\\u00e9\\ud83d\\ude42\"}], \"ground_truth\": 4.5, \"completion\": [{\"role\": "
    "\"assistant\", "
    "\"content\": \"x\"}]}\n{\"input_ids\": [1, 2, 3], \"level\": {\"a\": [null, true]}}\n";

static const char *const words[] = {"null",        "[]",    "{}",       "-1",       "1e999",
                                    "99999999999", "\"\"",  "true",     "\"type\"", "\"BPE\"",
                                    ",",           "]",     "}",        "[[[[[[[[", "\\ud800",
                                    "\xff",        "(a+)+", "\\\\p{L}", "0"};

static uint32_t draw(uint32_t mutation, uint32_t which, uint32_t bound)
{
    return mot_uniform_int(7, MOT_RNG_TEST, mutation, which, 0, bound);
}

/* One or two changes of text (capacity is ample); returns the new length. */
static size_t mutate(char *text, size_t n, uint32_t m)
{
    const uint32_t changes = 1 + draw(m, 0, 2);
    for (uint32_t i = 0; i < changes && n > 1; i++) {
        const size_t at = draw(m, 10 * i + 1, (uint32_t)n);
        const uint32_t kind = draw(m, 10 * i + 2, 6);
        const uint32_t pick = draw(m, 10 * i + 3, 256);
        if (kind == 0) {
            text[at] = (char)pick;
        } else if (kind == 1) {
            text[at] = (char)(text[at] ^ 1 << pick % 8);
        } else if (kind == 2 && pick < 64) {
            n = at;
        } else if (kind == 3) {
            const size_t cut = pick % 16 < n - at ? pick % 16 : n - at;
            memmove(text + at, text + at + cut, n - at - cut);
            n -= cut;
        } else {
            const char *word = words[pick % (sizeof(words) / sizeof(words[0]))];
            const size_t length = strlen(word), over = kind == 4 ? length : 0;
            const size_t gone = over < n - at ? over : n - at;
            memmove(text + at + length, text + at + gone, n - at - gone);
            memcpy(text + at, word, length);
            n += length - gone;
        }
    }
    return n;
}

static void write_file(const char *path, const char *text, size_t n)
{
    unlink(path); /* a new file: some file systems flush one that is truncated and written again */
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || close(fd) != 0) {
        perror(path);
        exit(1);
    }
}

/* A tokenizer that loaded must work. */
static void use(const struct mot_tokenizer *tokenizer)
{
    static const char text[] = "abc ab 12's <|im_end|> \xff\xc3 e\xcc\x81<|im_start|>\n";
    struct mot_ids ids = {NULL, 0};
    if (mot_tokenizer_encode(tokenizer, text, sizeof(text), 1, &ids) == 0) {
        for (size_t i = 0; i < ids.n; i++) {
            if (ids.id[i] < 0 || ids.id[i] >= mot_tokenizer_vocab_size(tokenizer)) {
                printf("FAIL: id %d out of range\n", (int)ids.id[i]);
                exit(1);
            }
        }
        free(mot_tokenizer_decode(tokenizer, ids.id, ids.n, 0, NULL));
    }
    mot_ids_free(&ids);
}

int main(int argc, char **argv)
{
    const int mutations = argc > 1 ? atoi(argv[1]) : 4000;
    char folder[] = "/tmp/motley-test-XXXXXX", text[8192];
    int loaded[2] = {0, 0}, said_twice = 0;
    if (!mkdtemp(folder)) { return 1; }
    char *json = mot_format("%s/tokenizer.json", folder), *data = mot_format("%s/data", folder);
    char *messages = mot_format("%s/messages", folder);
    if (!freopen(messages, "w", stderr)) { return 1; }
    struct mot_tokenizer *bytes = mot_tokenizer_bytes();
    struct mot_dataset_options options = {.tokenizer = bytes, .with_completion = 1};
    if (mot_chat_template_find("chatml", &options.chat)) { return 1; }
    for (int m = 0; m < mutations; m++) {
        struct mot_tokenizer *tokenizer = NULL;
        struct mot_dataset dataset;
        memcpy(text, tokenizer_json, sizeof(tokenizer_json));
        const size_t n = m ? mutate(text, sizeof(tokenizer_json) - 1, (uint32_t)m) : strlen(text);
        write_file(json, text, n);
        long before = ftell(stderr);
        const int status = mot_tokenizer_load(json, &tokenizer);
        said_twice += status == 0 ? ftell(stderr) != before : ftell(stderr) == before;
        if (tokenizer) {
            loaded[0]++;
            use(tokenizer);
            mot_tokenizer_destroy(tokenizer);
        }
        memcpy(text, rows, sizeof(rows));
        const size_t n_rows = m ? mutate(text, sizeof(rows) - 1, (uint32_t)m) : strlen(text);
        write_file(data, text, n_rows);
        before = ftell(stderr);
        const int status_rows = mot_dataset_load(data, &options, &dataset);
        said_twice += status_rows == 0 ? ftell(stderr) != before : ftell(stderr) == before;
        if (status_rows == 0) {
            loaded[1]++;
            mot_dataset_destroy(&dataset);
        }
    }
    fflush(stderr);
    FILE *said = fopen(messages, "r");
    int lines = 0, wrong = 0;
    char line[16384];
    while (said && fgets(line, sizeof(line), said)) {
        lines++;
        wrong += strncmp(line, "motley: ", 8) != 0
                 || (!strstr(line, folder) && !strstr(line, "tokenizer: a pre-tokenizer regex"));
        if (wrong == 1) { printf("first wrong line: %s", line); }
    }
    if (said) { fclose(said); }
    printf(
        "%d mutations: %d tokenizers and %d data sets loaded, %d messages, %d wrong, %d silent\n",
        mutations, loaded[0], loaded[1], lines, wrong, said_twice);
    mot_tokenizer_destroy(bytes);
    mot_remove_tree(folder);
    free(json);
    free(data);
    free(messages);
    return wrong != 0 || said_twice != 0 || loaded[0] == 0 || loaded[1] == 0;
}
