/* For tests that look at what ran where: a recording's tasks as JSON objects.  After program.h. */
#ifndef TEST_RECORDING_H
#define TEST_RECORDING_H
#include "trace_read.h"

/* The tasks of "@/run/trace.json.gz" as an array of {"name", "stage", "step", "group", "worker",
 * "start_us", "end_us", "rows", "tokens"}.  The recording must be whole. */
static inline json_t *recorded_tasks(const char *name)
{
    char *path = program_words(name);
    struct mot_recording *r;
    MOT_ASSERT(mot_recording_read(path, &r) == 0);
    MOT_ASSERT(!r->ends_early);
    json_t *tasks = json_array();
    for (int i = 0; i < r->n_tasks; i++) {
        const struct mot_recorded_task *t = &r->tasks[i];
        json_array_append_new(tasks,
                              json_pack("{s:s, s:s*, s:i, s:i, s:i, s:f, s:f, s:i, s:i}", "name",
                                        t->name, "stage", t->stage, "step", t->step, "group",
                                        t->group, "worker", t->worker, "start_us", t->start_us,
                                        "end_us", t->end_us, "rows", t->rows, "tokens", t->tokens));
    }
    mot_recording_free(r);
    free(path);
    return tasks;
}
#endif
