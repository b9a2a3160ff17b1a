/* What a program does first, mot_program_begin() in motley.h: it sees to its standard streams, and
 * to how long an OpenMP thread spins before it sleeps.
 *
 * libgomp spins 300000 times by default, several milliseconds, while a thread waits for the rest of
 * its team.  On a box that does anything else at the same time (a reward program, a compiler) the
 * spinning thread keeps the late one off its core: measured with two threads on two cores beside
 * one busy process, the same loop took 12 s with 100000 spins and 0.7 to 2 s with 1000 to 10000.
 * libgomp reads the environment once, when it is loaded, so the program starts itself again.  (An
 * entry in .preinit_array runs early enough, but the C library then forgets what it has set.) */
#include "motley.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef _OPENMP
/* libgomp complains of a wrong OMP_NUM_THREADS in lines of its own when it is loaded, before main()
 * and again after the program has started itself, so it must not see one.  This runs before any
 * library's constructors: no functions of theirs here, nor of the sanitizers'. */
static const char *wrong_threads;

/* "4", or "4,2" for nested teams; blanks around numbers. */
__attribute__((no_sanitize("address", "undefined", "thread"))) static int
are_counts(const char *text)
{
    for (;; text++) {
        long value = 0;
        while (*text == ' ') { text++; }
        for (; *text >= '0' && *text <= '9'; text++) {
            value = value < 1000000 ? 10 * value + *text - '0' : value;
        }
        while (*text == ' ') { text++; }
        if (value < 1 || (*text != ',' && *text != 0)) { return 0; }
        if (*text == 0) { return 1; }
    }
}

__attribute__((no_sanitize("address", "undefined", "thread"))) static void
hide_wrong_threads(int argc, char **argv, char **environment)
{
    static const char name[] = "OMP_NUM_THREADS=";
    (void)argc, (void)argv;
    char **kept = environment;
    for (char **e = environment; *e; e++) {
        size_t n = 0;
        while (name[n] && (*e)[n] == name[n]) { n++; }
        if (name[n] || are_counts(*e + n)) {
            *kept++ = *e;
        } else {
            wrong_threads = *e + n;
        }
    }
    *kept = NULL;
}
__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(int, char **,
                                                            char **) = hide_wrong_threads;
#endif

/* A stream that the caller has closed would be the next file that is opened, and take messages or
 * results into it.  What is put there instead fails as a closed one does. */
static void hold_closed_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) { (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY); }
    }
}

void mot_program_begin(char **argv)
{
    hold_closed_streams();
#ifdef _OPENMP
    if (wrong_threads) {
        mot_warn("OMP_NUM_THREADS: '%s' is no number of threads; it is as if not set",
                 wrong_threads);
    }
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) { return; }
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0) { return; }
    path[length] = '\0';
    if (setenv("GOMP_SPINCOUNT", "10000", 0) != 0) { return; } /* 0.3 to 0.5 ms */
    execv(path, argv); /* comes back only when it fails: slower, no error */
#else
    (void)argv;
#endif
}
