/* How long an OpenMP thread spins before it sleeps.  See mot_program_begin() in motley.h.
 *
 * libgomp spins 300000 times by default, several milliseconds, while a thread waits for the rest of
 * its team.  On a box that does anything else at the same time (a reward program, a compiler) the
 * spinning thread keeps the late one off its core: measured with two threads on two cores beside
 * one busy process, the same loop took 12 s with 100000 spins and 0.7 to 2 s with 1000 to 10000.
 * libgomp reads the environment once, when it is loaded, so the program starts itself again.  (An
 * entry in .preinit_array runs early enough, but the C library then forgets what it has set.) */
#include "motley.h"
#include <stdlib.h>
#include <unistd.h>

void mot_program_begin(char **argv)
{
#ifdef _OPENMP
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
