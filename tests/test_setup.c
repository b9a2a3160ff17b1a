/* tools/setup, run with the system's commands replaced by small scripts: where all is installed it
 * needs no root, whatever the distribution offers of what is optional; where something is missing
 * and sudo refuses it says so in time; it reads apt's answers in any language.
 * Run it alone: ./test_setup */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scratch.h"
#include <cmocka.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* A machine: a user without root, whose every call of sudo is written to @/asked and refused. */
struct machine {
    const char *absent;       /* a package that is not installed */
    const char *offered;      /* what apt-cache knows a candidate of */
    const char *starpu_check; /* exit code of pkg-config --atleast-version */
};

static void command_write(const char *name, const char *script)
{
    char *file = mot_format("%s/%s", scratch_directory, name);
    char *text = mot_format("#!/bin/sh\n%s\n", script);
    scratch_write(file, text, strlen(text));
    assert_int_equal(chmod(file, 0755), 0);
    free(file);
    free(text);
}

static void machine_make(const struct machine *m)
{
    char *script = mot_format("for p; do :; done\n[ \"$p\" = '%s' ] || echo installed", m->absent);
    command_write("dpkg-query", script);
    free(script);
    script =
        mot_format("word=Installationskandidat\n[ \"$LC_ALL\" = C ] && word=Candidate\n"
                   "[ \"$2\" = '%s' ] && echo \"  $word: 1.4.7-1\" || echo \"  $word: (none)\"",
                   m->offered);
    command_write("apt-cache", script);
    free(script);
    script =
        mot_format("case $1 in --atleast*) exit %s;; --modv*) echo 1.4.7;; *) echo '%s';; esac",
                   m->starpu_check, scratch_directory);
    command_write("pkg-config", script);
    free(script);
    script = mot_format("echo \"$*\" >>'%s/asked'; exit 1", scratch_directory);
    command_write("sudo", script);
    free(script);
    command_write("apt-get", "exit 1");
    command_write("id", "echo 1000");
}

/* Exit code of tools/setup on that machine.  *asked: what it wanted of root; *said: its output. */
static int setup_run(const struct machine *m, char **asked, char **said)
{
    machine_make(m);
    char *path = scratch_path("asked"), *output = scratch_path("said");
    scratch_write(path, "", 0);
    char *line =
        mot_format("cd '%s' && PATH='%s':\"$PATH\" LANG=de_DE.UTF-8 LC_ALL= MOTLEY_STARPU= "
                   "'%s/tools/setup' >'%s' 2>&1",
                   scratch_directory, scratch_directory, MOT_SOURCE_DIR, output);
    const int status = system(line);
    size_t n;
    *asked = scratch_read(path, &n);
    *said = scratch_read(output, &n);
    free(line);
    free(path);
    free(output);
    return WEXITSTATUS(status);
}

static void expect(const struct machine *m, int code, const char *asked, const char *said)
{
    char *got_asked, *got_said;
    const int got = setup_run(m, &got_asked, &got_said);
    const int same = *asked ? strstr(got_asked, asked) != NULL : *got_asked == '\0';
    if (got != code || !same || !strstr(got_said, said)) {
        fail_msg("exit %d, asked root: %s, said: %s", got, got_asked, got_said);
    }
    free(got_asked);
    free(got_said);
}

static void test_all_is_installed(void **state)
{
    (void)state;
    char *folder = scratch_path("share/starpu/perfmodels/sampling");
    char *line = mot_format("mkdir -p '%s'", folder);
    assert_int_equal(system(line), 0);
    const struct machine whole = {"nothing", "nothing", "0"};
    expect(&whole, 0, "", "setup: done");
    const struct machine no_format = {"clang-format-14", "nothing", "0"};
    expect(&no_format, 0, "", "not here, not needed: clang-format-14");
    const struct machine refused = {"clang-format-14", "clang-format-14", "0"};
    expect(&refused, 0, "install clang-format-14", "setup: done");
    free(line);
    free(folder);
}

static void test_without_the_model_folder(void **state)
{
    (void)state;
    char *folder = scratch_path("share");
    assert_int_equal(mot_remove_tree(folder), 0);
    const struct machine whole = {"nothing", "nothing", "0"};
    expect(&whole, 0, "mkdir -p", "setup: done");
    free(folder);
}

static void test_something_is_missing(void **state)
{
    (void)state;
    const struct machine no_yaml = {"libyaml-dev", "nothing", "0"};
    expect(&no_yaml, 1, "install libyaml-dev", "some packages could not be installed");
    const struct machine starpu_offered = {"libstarpu-dev", "libstarpu-dev", "1"};
    expect(&starpu_offered, 1, "install libstarpu-dev", "libstarpu-dev could not be installed");
}

int main(void)
{
    scratch_begin("test_setup");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_installed),
        cmocka_unit_test(test_without_the_model_folder),
        cmocka_unit_test(test_something_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
