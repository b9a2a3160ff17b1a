/* For tests that drive the real program, build/motley: start it, end it, read what it wrote,
 * compare runs.  Everything lies in the test's scratch directory (scratch.h), "@" in a command
 * line. */
#ifndef MOT_PROGRAM_H
#define MOT_PROGRAM_H
#include "json.h"
#include "scratch.h"
#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* ---- Running --------------------------------------------------------------------------------- */

static inline void milliseconds_sleep(double ms)
{
    const struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000L};
    nanosleep(&time, NULL);
}

static inline double milliseconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* text with each "@" replaced by the scratch directory; free() it. */
static inline char *program_words(const char *text)
{
    struct bytes out = {0};
    for (const char *c = text; *c; c++) {
        if (*c == '@') {
            bytes_put(&out, scratch_directory, strlen(scratch_directory));
        } else {
            bytes_put(&out, c, 1);
        }
    }
    bytes_put(&out, "", 1);
    return (char *)out.at;
}

/* Starts motley with the words of a command line: blanks part them (no quotes; "~" stands for a
 * blank in a word).  Its output goes to @/stdout and @/stderr. */
static inline pid_t program_start(const char *line)
{
    char *words = program_words(line), *argv[160] = {(char *)"motley"}, *rest = NULL;
    int n = 1;
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        MOT_ASSERT(n < 159);
        argv[n++] = w;
        for (char *c = w; *c; c++) { *c = *c == '~' ? ' ' : *c; }
    }
    char *out = scratch_path("stdout"), *err = scratch_path("stderr");
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_addopen(&files, 2, err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    pid_t pid;
    MOT_ASSERT(posix_spawn(&pid, MOT_BINARY_DIR "/motley", &files, NULL, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&files);
    free(words);
    free(out);
    free(err);
    return pid;
}

static char program_errors[16384]; /* what the last program that was waited for said */

/* Its exit code; 128 + the signal that killed it. */
static inline int program_wait(pid_t pid)
{
    int status;
    MOT_ASSERT(waitpid(pid, &status, 0) == pid);
    char *path = scratch_path("stderr");
    size_t n;
    char *bytes = scratch_read(path, &n);
    snprintf(program_errors, sizeof(program_errors), "%s", bytes);
    free(bytes);
    free(path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int program_run(const char *line)
{
    return program_wait(program_start(line));
}

/* 1 when it has ended; program_wait is still to be called. */
static inline int program_has_ended(pid_t pid)
{
    siginfo_t info = {0};
    MOT_ASSERT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0);
    return info.si_pid == pid;
}

/* Runs it; any other exit code ends the test. */
static inline void program_must(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *line;
    MOT_ASSERT(vasprintf(&line, format, arguments) >= 0);
    va_end(arguments);
    const int got = program_run(line);
    if (got != code) {
        printf("FAIL: exit %d, not %d: motley %s\n%s", got, code, line, program_errors);
        exit(1);
    }
    free(line);
}

/* ---- What it wrote --------------------------------------------------------------------------- */

/* The values of a JSON lines file ("@/run/metrics.jsonl") as an array. */
static inline json_t *lines_load(const char *name)
{
    char *path = program_words(name), *text, *rest = NULL, why[200];
    size_t n;
    json_t *lines = json_array();
    text = scratch_read(path, &n);
    for (char *l = strtok_r(text, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
        json_t *value = mot_json_decode(l, strlen(l), why, sizeof(why));
        if (!value) { printf("FAIL: %s: %s: %s\n", path, why, l); }
        MOT_ASSERT(value);
        json_array_append_new(lines, value);
    }
    free(text);
    free(path);
    return lines;
}

static inline int lines_count(const char *name)
{
    char *path = program_words(name);
    FILE *file = fopen(path, "r");
    int lines = 0;
    for (int c; file && (c = getc(file)) != EOF;) { lines += c == '\n'; }
    if (file) { fclose(file); }
    free(path);
    return lines;
}

static inline double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) { printf("FAIL: no number \"%s\"\n", key); }
    MOT_ASSERT(json_is_number(value));
    return json_number_value(value);
}

static inline const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    MOT_ASSERT(text);
    return text;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static inline int files_equal(const char *a, const char *b)
{
    static char blocks[2][1 << 16];
    FILE *x = fopen(a, "r"), *y = fopen(b, "r");
    int equal = x && y;
    for (size_t n = 1, m; equal && n > 0;) {
        n = fread(blocks[0], 1, sizeof(blocks[0]), x);
        m = fread(blocks[1], 1, sizeof(blocks[1]), y);
        equal = n == m && memcmp(blocks[0], blocks[1], n) == 0;
    }
    if (x) { fclose(x); }
    if (y) { fclose(y); }
    if (!equal) { printf("differ: %s, %s\n", a, b); }
    return equal;
}

/* The same of files in the scratch directory ("@/a"). */
static inline int names_equal(const char *name_a, const char *name_b)
{
    char *a = program_words(name_a), *b = program_words(name_b);
    const int equal = files_equal(a, b);
    free(a);
    free(b);
    return equal;
}

/* rm -rf "@/name". */
static inline void name_remove(const char *name)
{
    char *path = program_words(name);
    MOT_ASSERT(mot_remove_tree(path) == 0);
    free(path);
}

/* Files of directory a are in b, with the same bytes; returns their number, -1 when not. */
static inline int directory_within(const char *a, const char *b)
{
    DIR *directory = opendir(a);
    int files = directory ? 0 : -1;
    for (const struct dirent *d; files >= 0 && (d = readdir(directory));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) { continue; }
        char *x = mot_format("%s/%s", a, d->d_name), *y = mot_format("%s/%s", b, d->d_name);
        struct stat s, t;
        if (stat(x, &s) != 0 || stat(y, &t) != 0 || S_ISDIR(s.st_mode) != S_ISDIR(t.st_mode)) {
            printf("not in both: %s, %s\n", x, y);
            files = -1;
        } else {
            const int n = S_ISDIR(s.st_mode) ? directory_within(x, y) : files_equal(x, y);
            files = n < 0 || (n == 0 && !S_ISDIR(s.st_mode)) ? -1 : files + n;
        }
        free(x);
        free(y);
    }
    if (directory) { closedir(directory); }
    return files;
}

/* 1 when both hold the same files with the same bytes, at least one. */
static inline int directories_equal(const char *name_a, const char *name_b)
{
    char *a = program_words(name_a), *b = program_words(name_b);
    const int n = directory_within(a, b), m = directory_within(b, a);
    if (n < 1 || n != m) { printf("differ: %s (%d files), %s (%d)\n", name_a, n, name_b, m); }
    free(a);
    free(b);
    return n >= 1 && n == m;
}

/* Metrics that timing decides. */
static inline int metric_is_timing(const char *key)
{
    static const char *const begins[] = {
        "timing_s/",       "step_time",           "idle/", "device/", "perf/max_memory",
        "perf/throughput", "perf/generate_tasks", NULL};
    for (int i = 0; begins[i]; i++) {
        if (strncmp(key, begins[i], strlen(begins[i])) == 0) { return 1; }
    }
    return 0;
}

/* 1 when two metrics.jsonl have the same lines, timing left out. */
static inline int metrics_equal(const char *name_a, const char *name_b)
{
    json_t *lines[2] = {lines_load(name_a), lines_load(name_b)};
    for (int f = 0; f < 2; f++) {
        size_t i;
        json_t *line, *value;
        json_array_foreach(lines[f], i, line)
        {
            const char *key;
            void *next;
            json_object_foreach_safe(line, next, key, value)
            {
                if (metric_is_timing(key)) { json_object_del(line, key); }
            }
        }
    }
    int equal = json_array_size(lines[0]) > 0 && json_equal(lines[0], lines[1]);
    for (size_t i = 0; !equal && i < json_array_size(lines[0]); i++) {
        json_t *a = json_array_get(lines[0], i), *b = json_array_get(lines[1], i), *value;
        const char *key;
        if (json_equal(a, b)) { continue; }
        printf("%s and %s differ in line %zu:", name_a, name_b, i + 1);
        json_object_foreach(a, key, value)
        {
            if (!json_equal(value, json_object_get(b, key))) { printf(" %s", key); }
        }
        printf("\n");
        break;
    }
    json_decref(lines[0]);
    json_decref(lines[1]);
    return equal;
}

/* ---- Verdict --------------------------------------------------------------------------------- */

static int failures;

static inline void check(int holds, const char *format, ...)
{
    if (holds) { return; }
    va_list arguments;
    va_start(arguments, format);
    printf("FAIL: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    failures++;
}
#endif
