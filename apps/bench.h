/* The benches that have a file of their own. */
#ifndef MOT_BENCH_H
#define MOT_BENCH_H
int mot_bench_record(int argc, char **argv);
int mot_bench_sim(int argc, char **argv);
#endif
