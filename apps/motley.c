/* motley: the command line program; finds the subcommand and calls it.
 *
 * To add one: apps/NAME.c with int mot_app_NAME(int argc, char **argv) (argv[0] is the subcommand's
 * name; returns 0, or 1 for bad input, 2 for bad usage), its line in subcommands_table.h and in
 * CMakeLists.txt. */
#include "motley.h"
#include "nearest_name.h"
#include <stdio.h>
#include <string.h>

#ifdef STARPU_SIMGRID
#    undef main /* StarPU's headers rename it; here mot_simulate() starts the simulation */
#endif

#define MOT_SUBCOMMAND(name, help) int mot_app_##name(int argc, char **argv);
#include "subcommands_table.h"
#undef MOT_SUBCOMMAND

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} subcommands[] = {
#define MOT_SUBCOMMAND(name, help) {#name, help, mot_app_##name},
#include "subcommands_table.h"
#undef MOT_SUBCOMMAND
    {NULL, NULL, NULL},
};

static void print_help(FILE *file)
{
    fprintf(file, "Motley " MOT_VERSION ": reinforcement learning of language models on unlike "
                  "devices.\n\nusage: motley SUBCOMMAND [options]\n\n");
    for (int i = 0; subcommands[i].name != NULL; i++) {
        fprintf(file, "  %-10s %s\n", subcommands[i].name, subcommands[i].help);
    }
    fprintf(file, "\nmotley SUBCOMMAND --help lists its options; motley --version.\n"
                  "STARPU_SCHED=NAME chooses the scheduling policy.\n");
}

/* The exit code, unless results could not be written (a full disk, a closed pipe). */
static int written(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) { return code; }
    mot_fail(errno ? errno : EIO, "standard output: not all results could be written");
    return code ? code : 1;
}

int main(int argc, char **argv)
{
    mot_program_begin(argv);
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(stdout);
        return written(0);
    }
    if (strcmp(word, "--version") == 0) {
        printf("motley " MOT_VERSION "\n");
        return written(0);
    }
    const char *names[sizeof(subcommands) / sizeof(subcommands[0])];
    for (int i = 0; (names[i] = subcommands[i].name) != NULL; i++) {
        if (strcmp(word, names[i]) == 0) { return written(subcommands[i].run(argc - 1, argv + 1)); }
    }
    const char *near = mot_nearest_name(word, names);
    mot_fail(EINVAL, "unknown subcommand '%s'%s%s%s; motley --help lists them", word,
             near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 2;
}
