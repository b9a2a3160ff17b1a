/* Machines as text: what devices there are, what connects them, how fast they are, and how far from
 * what anybody expects of them.  tests/machines/ has examples; README.md there says every key.
 *
 * A machine is a list of boxes (nodes) with devices of a few classes.  Main memory is in the first
 * box; the processors of its CPU class work in it, every other device has a memory of its own, at
 * the end of its link, which for other boxes begins at the network.
 *
 * A task's duration is that of the first that a class's `stages` names (the task's name, then its
 * stage), else that of the roofline: start + the longer of operations at the peak of the dtype and
 * bytes at the memory's speed, both times the class's efficiency.  That is what is expected;
 * `truth` says how what happens differs from it. */
#ifndef MOT_MACHINE_H
#define MOT_MACHINE_H
#include "dtype.h"
#include <stdint.h>

enum { MOT_MACHINE_DTYPES = MOT_BF16 + 1, MOT_MACHINE_DEVICES_MAX = 4096 };

/* A measured stage: seconds = s + s_per_token tokens + s_per_row rows + the longer of operations at
 * flop_per_s and bytes at bytes_per_s; what is 0 does not count. */
struct mot_machine_stage {
    char *name; /* a stage, or a task's name "<stage>.<codelet>" */
    int never;  /* the class cannot run it */
    double s, s_per_token, s_per_row, flop_per_s, bytes_per_s;
};

struct mot_machine_class {
    char *name;
    int line; /* of the file; 0: unknown */
    int is_cpu;
    int node;                              /* index */
    int count;                             /* in each of the node's boxes */
    double flop_per_s[MOT_MACHINE_DTYPES]; /* peak; 0: unknown, float32's where that is known */
    double bytes_per_s;                    /* of its memory */
    double flop_efficiency, bandwidth_efficiency;
    double memory_bytes;   /* of each device; of the CPU class all of main memory */
    double start_s;        /* of every task */
    double price_per_hour; /* of each device; NAN: unknown */
    double watts, idle_watts;
    int link; /* between memory of the box and the device; -1: none (the CPU class) */
    int peer; /* between two devices of the class in a box; -1: the node's, or main memory */
    int n_stages;
    struct mot_machine_stage *stages;
};

struct mot_machine_link {
    char *name;
    double bytes_per_s, latency_s;
    int shared; /* by all devices of the class in a box, or all boxes of the node; else one each */
};

struct mot_machine_node {
    char *name;
    int count; /* boxes */
    int link;  /* from the first box's memory; -1: the first node's, or the machine has one box */
    int peer;  /* between any two GPUs in a box; -1: only where a class has one */
};

/* How durations differ from what is expected.  Each is a factor on those of a class (-1: of all) in
 * a stage (NULL: in all). */
struct mot_machine_truth {
    char *stage;
    int class;
    int device;         /* of the class, 0 ...; -1: all */
    double factor;      /* bias, or of an outlier, or of a device that slows down */
    double sigma;       /* log-normal noise of mean 1 */
    double probability; /* of the factor, per task: 1 but for outliers */
    double from_s;      /* for tasks that start after that time */
};

struct mot_machine_device {
    int class, number; /* 0 ... among all of the class */
    int node, box;     /* box: 0 ... in the node */
};

struct mot_machine {
    char *path, *name;
    int line; /* of the classes in the file */
    int n_nodes, n_links, n_classes, n_truths;
    struct mot_machine_node *nodes;
    struct mot_machine_link *links;
    struct mot_machine_class *classes;
    struct mot_machine_truth *truths;
    int n_devices, n_cpus; /* the first n_cpus are the processors in main memory */
    struct mot_machine_device *devices;
};

/* known: names that stages may have besides task names with a dot, ended by NULL.  0, or a negative
 * errno with "file:line: ...". */
int mot_machine_load(const char *path, const char *const *known, struct mot_machine *machine);
void mot_machine_free(struct mot_machine *machine);

/* The class of that name; -1: there is none. */
int mot_machine_class_find(const struct mot_machine *machine, const char *name, size_t length);
/* Other numbers of devices than the file's: so many of a gpu class, as many in a box as before
 * where its node has several boxes; 0 takes the class away, and those after it are one less.  0, or
 * -EINVAL with a message. */
int mot_machine_set_count(struct mot_machine *machine, int class, int count);
/* Makes all devices of a class but the first `left` (1 or more) a class of their own: its index. */
int mot_machine_split(struct mot_machine *machine, int class, int left, const char *name);
/* The class cannot run a stage, or task, of that name. */
void mot_machine_forbid(struct mot_machine *machine, int class, const char *name);

/* "H800-3": the class and the number of a device. */
void mot_machine_device_name(const struct mot_machine *machine, int device, char *name,
                             size_t bytes);

/* What a duration is computed from. */
struct mot_machine_work {
    const char *task, *stage; /* names */
    double flop, bytes;       /* bytes: as of the dtype */
    double tokens, rows;
    enum mot_dtype dtype;
};
/* Seconds that a device of the class is expected to take; INFINITY: it cannot run it. */
double mot_machine_expected_s(const struct mot_machine *machine, int class,
                              const struct mot_machine_work *work);
/* The factor by which a task on a device (of n_devices) that starts at now_s differs from that: a
 * function of these and of seed and key, which tells tasks apart, alone. */
double mot_machine_truth_factor(const struct mot_machine *machine, int device, const char *stage,
                                double now_s, uint64_t seed, uint64_t key);
/* The least that factor can be on the class: over its devices, and over time. */
double mot_machine_least_factor(const struct mot_machine *machine, int class, const char *stage,
                                uint64_t seed, uint64_t key);
int mot_machine_class_devices(const struct mot_machine *machine, int class);
#endif
