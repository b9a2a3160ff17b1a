/* checkpoint: peers row 41.  kill -9 at the first, second, ... of each kind of system call that a
 * save makes: afterwards a checkpoint verifies, it is the one before or the new one, and the next
 * save works and leaves no rubbish.  Three saves: beside an older one, over one of the same step,
 * and the same on a file system that cannot exchange two names.
 * The program runs itself as `test_checkpoint_kill save DIR GENERATION KEEP` under strace, which
 * sends the signal.  Exit 77 where strace is missing or may not trace.
 * Run it alone: ./test_checkpoint_kill */
#include "checkpoint.h"
#include "error.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP = 7, BYTES = 3000, CALLS_MAX = 200 };

static void check(int holds, const char *what, const char *call, int when)
{
    if (holds) { return; }
    printf("FAIL: %s (killed at %s %d): %s\n", what, call, when, mot_last_message());
    exit(1);
}

/* Writes `name` with a byte that says which generation of the save wrote it, by plain write(2)s. */
static void write_plain(const char *folder, const char *name, int generation)
{
    char *path = mot_format("%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < BYTES; i++) { fputc('0' + generation, file); }
    MOT_ASSERT(fclose(file) == 0);
    free(path);
}

static int save(const char *directory, int64_t step, int generation, int keep)
{
    char *path;
    const int status = mot_checkpoint_begin(directory, step, &path);
    if (status) { return status; }
    write_plain(path, "a", generation);
    write_plain(path, "b", generation);
    return mot_checkpoint_commit(directory, step, path, keep);
}

/* The generation of the newest checkpoint, both files of which must be of one; 0: none. */
static int newest_generation(const char *directory)
{
    char *path, *bytes;
    int64_t step;
    size_t n;
    if (mot_checkpoint_newest(directory, &path, &step) != 1) { return 0; }
    int generation = 0;
    for (const char *name = "a"; *name && generation >= 0; name = *name == 'a' ? "b" : "") {
        char *file = mot_format("%s/%s", path, name);
        if (mot_file_read(file, BYTES, &bytes, &n)) { return -1; }
        for (size_t i = 0; i < n; i++) {
            if (generation == 0) { generation = bytes[i] - '0'; }
            if (n != BYTES || bytes[i] - '0' != generation) { generation = -1; }
        }
        free(bytes);
        free(file);
    }
    free(path);
    return generation;
}

static int has_rubbish(const char *directory)
{
    DIR *open_directory = opendir(directory);
    int found = 0;
    for (const struct dirent *d; (d = readdir(open_directory));) {
        found |= d->d_name[0] == '.' && strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
    }
    closedir(open_directory);
    return found;
}

/* Runs argv; 0 exited with 0, 1 killed by SIGKILL, -1 else. */
static int run(char *const argv[])
{
    const pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    int status;
    MOT_ASSERT(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) { return 1; }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

struct scenario {
    const char *name;
    int over_same_step; /* the saved step exists already */
    int keep;
    int without_exchange;
};

/* One save that is killed at the when-th `call`; 1 when it was, 0 when it ran to its end before. */
static int one_kill(const char *self, const char *directory, const struct scenario *scenario,
                    const char *call, int when)
{
    char *ready = mot_format("%s-%s", directory, scenario->over_same_step ? "same" : "older");
    char *const copy[] = {(char *)"cp", (char *)"-r", ready, (char *)directory, NULL};
    MOT_ASSERT(mot_remove_tree(directory) == 0 && run(copy) == 0);
    free(ready);
    const int before = scenario->over_same_step ? 2 : 1;
    char *inject = mot_format("inject=?%s:signal=KILL:when=%d", call, when);
    char keep[16];
    snprintf(keep, sizeof(keep), "%d", scenario->keep);
    char *const argv[] = {
        (char *)"strace",
        (char *)"-o",
        (char *)"/dev/null",
        (char *)"-e",
        inject,
        (char *)"-e",
        (char *)(scenario->without_exchange ? "inject=renameat2:error=EINVAL" : "signal=none"),
        (char *)self,
        (char *)"save",
        (char *)directory,
        (char *)"3",
        keep,
        NULL};
    const int killed = run(argv);
    free(inject);
    check(killed >= 0, "the save went wrong", call, when);
    const int generation = newest_generation(directory);
    check(killed ? generation == before || generation == 3 : generation == 3, "no valid checkpoint",
          call, when);
    check(save(directory, STEP + 1, 4, 0) == 0 && newest_generation(directory) == 4,
          "the next save fails", call, when);
    check(!has_rubbish(directory), "leftovers stay", call, when);
    return killed;
}

static int kills(const char *self, const char *directory)
{
    static const struct scenario scenarios[] = {{"beside an older one", 0, 1, 0},
                                                {"over the same step", 1, 0, 0},
                                                {"over it, without exchange", 1, 0, 1}};
    static const char *const calls[] = {"write",  "fsync",    "rename", "renameat", "renameat2",
                                        "unlink", "unlinkat", "rmdir",  "mkdir",    "close"};
    int total = 0;
    for (size_t s = 0; s < sizeof(scenarios) / sizeof(scenarios[0]); s++) {
        for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
            if (scenarios[s].without_exchange && strcmp(calls[c], "renameat2") == 0) { continue; }
            if (s > 0 && strcmp(calls[c], "close") == 0) { continue; } /* slow: once is enough */
            int when = 1;
            for (; one_kill(self, directory, &scenarios[s], calls[c], when); when++) {
                check(when < CALLS_MAX, "no end", calls[c], when);
            }
            total += when - 1;
        }
        printf("saved %s: a valid checkpoint after each kill (%d so far)\n", scenarios[s].name,
               total);
    }
    return total;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "save") == 0) {
        return save(argv[2], STEP, atoi(argv[3]), atoi(argv[4])) ? 1 : 0;
    }
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* of the traced program: LSan cannot be traced */
    char *const probe[] = {(char *)"strace",
                           (char *)"-o",
                           (char *)"/dev/null",
                           (char *)"-e",
                           (char *)"inject=?rename:error=EINVAL",
                           (char *)"true",
                           NULL};
    if (run(probe) != 0) {
        printf("skipped: strace is missing or may not trace here\n");
        return 77;
    }
    char self[4096] = "", root[] = MOT_BINARY_DIR "/test_checkpoint_kill_XXXXXX";
    MOT_ASSERT(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 && mkdtemp(root));
    char *directory = mot_format("%s/ck", root);
    char *older = mot_format("%s-older", directory), *same = mot_format("%s-same", directory);
    MOT_ASSERT(save(older, 1, 1, 0) == 0 && save(same, 1, 1, 0) == 0
               && save(same, STEP, 2, 0) == 0);
    free(older);
    free(same);
    const int total = kills(self, directory);
    mot_remove_tree(root);
    free(directory);
    if (total < 20) { printf("FAIL: only %d kills took place\n", total); }
    return total < 20;
}
