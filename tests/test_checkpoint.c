/* checkpoint: peers row 41.  A commit appears whole, the newest that verifies is found, a flipped
 * byte, a missing, longer or foreign file, a torn manifest are named and passed over; leftovers go;
 * old ones are pruned but never in favour of a damaged one; a full disk is an error and leaves the
 * old file.  Run it alone: ./test_checkpoint */
#include "checkpoint.h"
#include "error.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = MOT_BINARY_DIR "/test_checkpoint_XXXXXX";
static char directory[sizeof(root) + 16];
static char long_text[512];

#define message_has(text) assert_non_null(strstr(mot_last_message(), text))

/* DIR/name, valid until the next but three calls. */
static const char *in(const char *name)
{
    static char paths[4][sizeof(directory) + 64];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof(paths[next]), "%s/%s", directory, name);
    return paths[next];
}

static void put(const char *folder, const char *name, const char *text)
{
    char *path = mot_format("%s/%s", folder, name);
    assert_int_equal(mot_file_write(path, text, strlen(text)), 0);
    free(path);
}

static void save(int64_t step, int keep)
{
    char *path, *sub;
    assert_int_equal(mot_checkpoint_begin(directory, step, &path), 0);
    put(path, "weights", "0123456789");
    sub = mot_format("%s/more", path);
    assert_int_equal(mot_make_directories(sub), 0);
    put(sub, "state", "state");
    put(sub, "empty", "");
    free(sub);
    assert_int_equal(mot_checkpoint_commit(directory, step, path, keep), 0);
}

/* The newest valid step, 0 without one. */
static int64_t newest(void)
{
    char *path;
    int64_t step = 0;
    const int found = mot_checkpoint_newest(directory, &path, &step);
    if (found == 1) { free(path); }
    assert_true(found == 0 || found == 1);
    return step;
}

static int there(const char *name)
{
    return access(in(name), F_OK) == 0;
}

static int fresh_directory(void **state)
{
    (void)state;
    return mot_remove_tree(directory);
}

static void test_save_and_find(void **state)
{
    (void)state;
    assert_int_equal(newest(), 0); /* no directory */
    save(5, 0);
    save(20, 0);
    save(100, 0);
    assert_int_equal(newest(), 100);
    assert_int_equal(mot_checkpoint_verify(in("step-20")), 0);
    put(in("step-20"), "note", "a file that nobody listed");
    assert_int_equal(mot_checkpoint_verify(in("step-20")), 0);
    assert_int_equal(mkdir(in("step-0200"), 0777), 0); /* not a name of ours */
    assert_int_equal(mkdir(in("step-x"), 0777), 0);
    assert_int_equal(newest(), 100);
    save(100, 2); /* again: replaces, and keeps 100 and 20 */
    assert_int_equal(newest(), 100);
    assert_false(there("step-5"));
    assert_true(there("step-20"));
    assert_false(there(".tmp-step-100"));
    save(101, 1);
    assert_false(there("step-20"));
    assert_false(there("step-100"));
    assert_int_equal(newest(), 101);
}

static void flip(const char *path, long offset)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, offset, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, offset, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void test_damage(void **state)
{
    (void)state;
    save(1, 0);
    const char *const manifests[] = {"",
                                     "{",
                                     "[]",
                                     "{\"files\":[]}",
                                     "{\"files\":[1]}",
                                     "{\"files\":[{\"name\":\"../step-1/weights\",\"bytes\":10,"
                                     "\"crc32\":2793719750}]}",
                                     "{\"files\":[{\"name\":\"more\",\"bytes\":10,\"crc32\":1}]}"};
    for (int i = 0; i < 11; i++) {
        save(2, 0);
        assert_int_equal(newest(), 2);
        if (i == 0) { flip(in("step-2/weights"), 9); }
        if (i == 1) { unlink(in("step-2/more/state")); }
        if (i == 2) { put(in("step-2"), "weights", "0123456789x"); }
        if (i == 3) { unlink(in("step-2/manifest.json")); }
        if (i >= 4) { put(in("step-2"), "manifest.json", manifests[i - 4]); }
        assert_int_equal(newest(), 1);
        message_has(i == 0 || i == 2 ? "step-2/weights: "
                    : i == 1         ? "step-2/more/state: "
                    : i == 10        ? "step-2/more: "
                                     : "step-2/manifest.json: ");
        message_has("passed over");
        assert_int_equal(mot_checkpoint_verify(in("step-2")), -EBADMSG);
    }
    save(2, 0);
    for (long offset = 0; offset < 200; offset++) { /* whatever byte of the manifest: no crash */
        flip(in("step-2/manifest.json"), offset);
        newest();
        flip(in("step-2/manifest.json"), offset);
    }
    assert_int_equal(newest(), 2);
}

/* A damaged checkpoint newer than ours must not push ours or the good one before it out. */
static void test_prune_damaged(void **state)
{
    (void)state;
    save(1, 0);
    save(2, 0);
    save(9, 0);
    flip(in("step-9/weights"), 3);
    save(3, 2);
    assert_int_equal(newest(), 3);
    assert_true(there("step-2"));
    assert_false(there("step-1"));
    assert_false(there("step-9"));
}

static void test_leftovers(void **state)
{
    (void)state;
    save(1, 0);
    char *path;
    assert_int_equal(mot_checkpoint_begin(directory, 2, &path), 0);
    put(path, "weights", "half");
    free(path); /* as if killed */
    assert_true(there(".tmp-step-2"));
    assert_int_equal(rename(in("step-1"), in(".old-step-1")), 0);
    assert_int_equal(newest(), 1); /* between the two renames of a replacement */
    assert_int_equal(mot_checkpoint_begin(directory, 3, &path), 0);
    assert_false(there(".tmp-step-2"));
    assert_true(there("step-1"));
    assert_false(there(".old-step-1"));
    mot_checkpoint_abort(path);
    assert_false(there(".tmp-step-3"));
    assert_int_equal(newest(), 1);

    assert_int_equal(mot_checkpoint_begin(directory, 4, &path), 0);
    put(path, "weights", "x");
    char *link = mot_format("%s/link", path);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    free(link);
    assert_int_equal(mot_checkpoint_commit(directory, 4, path, 0), -EINVAL);
    message_has("link");
    assert_false(there(".tmp-step-4"));
    assert_int_equal(newest(), 1);
}

/* A file-size limit stands for the full disk: a write stops half way. */
static void test_disk_full(void **state)
{
    (void)state;
    assert_true(mot_free_disk_bytes(in("not/there/yet")) > 0);
    assert_int_equal(mot_checkpoint_check_space(directory, 1), 0);
    assert_int_equal(mot_checkpoint_check_space(directory, INT64_MAX), -ENOSPC);
    message_has("MB free");
    assert_int_equal(mot_make_directories(directory), 0);
    put(directory, "file", "old");
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 60;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(mot_file_write(in("file"), long_text, sizeof(long_text)), -EFBIG);
    message_has("cannot write");
    char *path;
    assert_int_equal(mot_checkpoint_begin(directory, 1, &path), 0);
    put(path, "weights", "01234567890123456789");
    assert_int_equal(mot_checkpoint_commit(directory, 1, path, 0), -EFBIG); /* the manifest */
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(newest(), 0);
    assert_false(there("file.tmp"));
    char *bytes;
    size_t n;
    assert_int_equal(mot_file_read(in("file"), 3, &bytes, &n), 0);
    assert_string_equal(bytes, "old");
    free(bytes);
    const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        assert_int_equal(mot_file_append_line(fd, "{}"), -ENOSPC);
        message_has("/dev/full");
        close(fd);
    }
    assert_int_equal(mot_make_directories(in("file/sub")), -ENOTDIR);
    assert_int_equal(mot_checkpoint_begin(in("file"), 1, &path), -ENOTDIR);
}

int main(void)
{
    if (!mkdtemp(root)) { return 1; }
    snprintf(directory, sizeof(directory), "%s/run/ck", root);
    memset(long_text, 'x', sizeof(long_text));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_save_and_find, fresh_directory),
        cmocka_unit_test_setup(test_damage, fresh_directory),
        cmocka_unit_test_setup(test_prune_damaged, fresh_directory),
        cmocka_unit_test_setup(test_leftovers, fresh_directory),
        cmocka_unit_test_setup(test_disk_full, fresh_directory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mot_remove_tree(root);
    return failed;
}
