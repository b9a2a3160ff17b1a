/* Loops over the calling thread's OpenMP team.  Every loop gives the same bits for any number of
 * threads: iterations write apart, and sums over iterations are joined afterwards in a fixed order.
 * `worth` says whether the work pays for waking a team (about 5 microseconds).  Without OpenMP the
 * loops are plain loops. */
#ifndef MOT_PARALLEL_H
#define MOT_PARALLEL_H
#ifdef _OPENMP
#    include <omp.h>
#    define MOT_PRAGMA(text) _Pragma(#    text)
#    define MOT_PARALLEL_FOR(worth)   MOT_PRAGMA(omp parallel for schedule(static) if (worth))
#    define MOT_PARALLEL_TASKS(worth) MOT_PRAGMA(omp parallel for schedule(dynamic, 1) if (worth))
static inline int mot_team_size(void)
{
    return omp_get_max_threads();
}
/* Sets the calling thread's team size; returns the former. */
static inline int mot_team_set(int threads)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
}
static inline int mot_team_rank(void)
{
    return omp_get_thread_num();
}
#else
#    define MOT_PARALLEL_FOR(worth)   (void)(worth);
#    define MOT_PARALLEL_TASKS(worth) (void)(worth);
static inline int mot_team_size(void)
{
    return 1;
}
static inline int mot_team_set(int threads)
{
    (void)threads;
    return 1;
}
static inline int mot_team_rank(void)
{
    return 0;
}
#endif
#define MOT_WORTH_A_TEAM   32768 /* element operations */
#define MOT_CEIL_DIV(n, d) (((n) + (d)-1) / (d))
static inline int mot_min(int a, int b)
{
    return a < b ? a : b;
}
#endif
