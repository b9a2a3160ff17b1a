/* Reading a recording: all of it in memory, as what was recorded.  See motley.h for making one, and
 * trace_write.c for what the file is. */
#ifndef MOT_TRACE_READ_H
#define MOT_TRACE_READ_H
#include <stddef.h>
#include <stdint.h>

/* As enum mot_trace_mode of trace.h. */
enum mot_recorded_mode {
    MOT_RECORDED_R,       /* reads content `version` of the datum */
    MOT_RECORDED_W,       /* overwrites it: makes `version` */
    MOT_RECORDED_RW,      /* reads version - 1, makes `version` */
    MOT_RECORDED_COMMUTE, /* as RW, in an order that did not matter */
    MOT_RECORDED_REDUX    /* adds to `version`, beside others */
};

struct mot_recorded_access {
    uint32_t data, version;
    double bytes;
    enum mot_recorded_mode mode;
};

/* Times in microseconds of one clock; submit <= ready <= popped <= start <= end. */
struct mot_recorded_task {
    uint32_t number;    /* in the order of submission, from 1 */
    uint32_t by;        /* the task whose callback or body submitted it; 0: none */
    char *name, *stage; /* stage: NULL for tasks without a hint, whose numbers below are -1 or 0 */
    int worker, step, group, version, rows, tokens, size_class;
    double flop, bytes; /* of the hint; 0: not told */
    double submit_us, ready_us, popped_us, start_us, end_us;
    int n_accesses;
    struct mot_recorded_access *accesses; /* in the order of the task's buffers, scratch left out */
};

enum mot_recorded_end {
    MOT_RECORDED_EXACT,
    MOT_RECORDED_AT_MOST, /* when the first task that waited for it began */
    MOT_RECORDED_UNKNOWN  /* end_us is start_us */
};
struct mot_recorded_transfer {
    uint32_t data; /* 0: not known */
    int from, to;  /* memory nodes */
    double bytes, start_us, end_us;
    enum mot_recorded_end end;
};

/* A counter event: "memory" of a node, "tasks/waiting", "tasks/ready", a value of the program. */
struct mot_recorded_value {
    char *name;
    int node; /* -1: none */
    double time_us, value;
};

struct mot_recorded_decision {
    uint32_t task;
    int worker, n_candidates;
    double time_us;
    char *veto; /* NULL: none */
    struct {
        int worker;
        double estimate_us;
    } * candidates;
};

struct mot_recording {
    char *policy;
    int simulated;
    int ends_early; /* no end event: the program was killed */
    uint64_t waits; /* threads that had to wait for the writer, and how long */
    double waited_us, writer_cpu_s;
    int n_workers, n_nodes, n_tasks, n_transfers, n_values, n_decisions, n_data;
    struct mot_recorded_worker {
        char *name, *kind; /* kind: "CPU", "CUDA", "HIP", "OpenCL" */
        int device, node;
    } * workers;
    struct mot_recorded_node {
        char *name;
        double bytes; /* of its memory; -1: no limit known */
    } * nodes;
    struct mot_recorded_task *tasks; /* by number */
    struct mot_recorded_transfer *transfers;
    struct mot_recorded_value *values;
    struct mot_recorded_decision *decisions;
    struct mot_recorded_datum {
        char *name; /* NULL: not named */
        double bytes;
    } * data; /* (n_data), by number; [0] is none */
};

/* Reads path, gzipped or not, in array form.  A file that ends in the middle of things is read up
 * to there and says so (ends_early).  0, or a negative errno with a message that names file and
 * line: no such file, not a recording of ours, values out of range. */
int mot_recording_read(const char *path, struct mot_recording **recording);
void mot_recording_free(struct mot_recording *recording);

/* What a worker did between the first submission and the last end: running tasks' bodies, waiting
 * for the inputs of the task it had taken, and neither. */
struct mot_recorded_usage {
    double busy_us, transfer_us, idle_us;
};
/* (n_workers) usage; returns the makespan.  A body that begins before the one before it on that
 * worker has ended counts once. */
double mot_recording_usage(const struct mot_recording *recording, struct mot_recorded_usage *usage);
#endif
