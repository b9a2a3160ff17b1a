/* motley convert IN OUT: a GGUF file or a HF directory becomes a HF directory with float32 weights
 * and the tokenizer, which transformers loads. */
#include "error.h"
#include "file.h"
#include "model.h"
#include "tiny_model.h"
#include "tokenizer.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mot_app_convert(int argc, char **argv);

static const char usage[] =
    "usage: motley convert IN OUT\n\n"
    "Reads a model (a GGUF file, a HF directory with config.json and safetensors, or the embedded\n"
    "tiny:SEED) and writes it as a HF directory: config.json, generation_config.json, "
    "model.safetensors (float32) and the\n"
    "tokenizer's files.  OUT must be a new name or an empty directory; on failure there is no "
    "OUT.\n";

/* 1 when the directory has no entries but . and .. (or cannot be listed). */
static int is_empty(const char *path)
{
    DIR *directory = opendir(path);
    int entries = 0;
    while (directory && readdir(directory)) { entries++; }
    if (directory) { closedir(directory); }
    return entries <= 2;
}

/* 0 when OUT is a free name or an empty directory. */
static int check_out(const char *out)
{
    struct stat status;
    if (lstat(out, &status) != 0) { return 0; }
    if (stat(out, &status) != 0 || !S_ISDIR(status.st_mode)) {
        return mot_fail(EEXIST, "%s: exists and is no directory; name a new one", out);
    }
    if (!is_empty(out)) {
        return mot_fail(ENOTEMPTY, "%s: is not empty and is not overwritten; name a new directory",
                        out);
    }
    return 0;
}

/* The tokenizer, or NULL for a HF directory that has none. */
static int load_tokenizer(const char *in, struct mot_tokenizer **tokenizer)
{
    if (mot_tiny_model_is(in)) {
        *tokenizer = mot_tokenizer_bytes();
        return 0;
    }
    char *directory = mot_format("%s/.", in), *file = mot_format("%s/tokenizer.json", in);
    const int without = access(directory, F_OK) == 0 && access(file, F_OK) != 0;
    free(directory);
    free(file);
    *tokenizer = NULL;
    if (!without) { return mot_tokenizer_load(in, tokenizer); }
    mot_warn("%s: no tokenizer.json there, so OUT will have no tokenizer either", in);
    return 0;
}

/* Everything goes to a directory beside OUT first, so OUT is whole or not there. */
static int write_out(const char *out, const struct mot_model *model,
                     const struct mot_tokenizer *tokenizer)
{
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/') { n--; }
    char *temporary = mot_format("%.*s.tmp-%ld", (int)n, out, (long)getpid());
    int status = mot_make_directories(temporary);
    if (!status) {
        status = mot_model_save(temporary, &model->info, &model->layout, model->groups);
    }
    if (!status && tokenizer) { status = mot_tokenizer_save(tokenizer, temporary); }
    if (!status && rename(temporary, out) != 0) {
        const int error = errno;
        status = mot_fail(error, "%s: cannot be created: %s", out, strerror(error));
    }
    if (status) { mot_remove_tree(temporary); }
    free(temporary);
    return status;
}

static int convert(const char *in, const char *out)
{
    struct mot_tokenizer *tokenizer;
    struct mot_model model;
    const int tiny = mot_tiny_model_is(in);
    int status = check_out(out);
    if (!status && !tiny) { status = mot_model_read_info(in, &model.info); } /* a model at all? */
    if (!status) { status = load_tokenizer(in, &tokenizer); }
    if (status) { return status; }
    status = tiny ? mot_tiny_model_init(in, &model) : mot_model_load(in, &model);
    if (!status) {
        status = write_out(out, &model, tokenizer);
        if (!status) {
            mot_info("%s: %s with %zu parameters, written to %s", in, model.info.architecture,
                     model.layout.parameters, out);
        }
        mot_model_destroy(&model);
    }
    if (tokenizer) { mot_tokenizer_destroy(tokenizer); }
    return status;
}

int mot_app_convert(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') {
            mot_fail(EINVAL, "convert: unknown option '%s'; motley convert --help", argv[i]);
            return 2;
        }
    }
    if (argc != 3 || argv[1][0] == 0 || argv[2][0] == 0) {
        mot_fail(EINVAL, "convert: IN and OUT are needed; motley convert --help");
        return 2;
    }
    return convert(argv[1], argv[2]) ? 1 : 0;
}
