/* Task records: one JSON line per finished task.  See motley.h.
 * Start and end come from StarPU's profiling where it was on when the task was submitted: a GPU
 * task ends later than its codelet returns.  Else they are the times of pop and callback. */
#include "task.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 18 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static FILE *file;
static char *path_open;
static const char *(*name_stage)(int stage);

int mot_record_open(const char *path)
{
    pthread_mutex_lock(&mutex);
    MOT_ASSERT(!file);
    file = fopen(path, "we");
    if (file) {
        setvbuf(file, NULL, _IOFBF, BUFFER_BYTES);
        path_open = mot_strdup(path);
    }
    const int error = file ? 0 : mot_fail(errno, "%s: cannot write: %s", path, strerror(errno));
    pthread_mutex_unlock(&mutex);
    if (!error && starpu_is_initialized()) { mot_record_started(name_stage); }
    return error;
}

void mot_record_started(const char *(*stage_name)(int stage))
{
    pthread_mutex_lock(&mutex);
    name_stage = stage_name;
    if (file) { starpu_profiling_status_set(STARPU_PROFILING_ENABLE); }
    pthread_mutex_unlock(&mutex);
}

int mot_record_close(void)
{
    int error = 0;
    pthread_mutex_lock(&mutex);
    if (file) {
        const int failed = ferror(file);
        if ((fclose(file) != 0) || failed) {
            error = mot_fail(EIO, "%s: not all task records could be written", path_open);
        }
        free(path_open);
        path_open = NULL;
        file = NULL;
        if (starpu_is_initialized()) { starpu_profiling_status_set(STARPU_PROFILING_DISABLE); }
    }
    pthread_mutex_unlock(&mutex);
    return error;
}

void mot_record_flush(void)
{
    if (pthread_mutex_trylock(&mutex) != 0) { return; } /* called when things hang */
    if (file) { fflush(file); }
    pthread_mutex_unlock(&mutex);
}

/* A JSON string; names are ours, so that a replaced control character does no harm. */
static void write_string(const char *text)
{
    putc('"', file);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') { putc('\\', file); }
        putc((unsigned char)*c < 0x20 ? '?' : *c, file);
    }
    putc('"', file);
}

void mot_record_task(const struct mot_task_state *state, const struct starpu_task *task)
{
    const struct starpu_profiling_task_info *info = task ? task->profiling_info : NULL;
    double start_us = state->start_us, end_us = starpu_timing_now();
    int worker = state->worker;
    if (info && info->workerid >= 0) {
        start_us = starpu_timing_timespec_to_us((struct timespec *)&info->start_time);
        end_us = starpu_timing_timespec_to_us((struct timespec *)&info->end_time);
        worker = info->workerid;
    }
    const struct mot_hint *hint = &state->hint;
    pthread_mutex_lock(&mutex);
    if (file) {
        fputs("{\"name\":", file);
        write_string(state->name);
        fputs(",\"stage\":", file);
        if (name_stage) {
            write_string(name_stage(hint->stage));
        } else {
            fprintf(file, "%d", hint->stage);
        }
        fprintf(file,
                ",\"step\":%d,\"group\":%d,\"version\":%d,\"worker\":%d,\"submit_us\":%.1f,"
                "\"start_us\":%.1f,\"end_us\":%.1f,\"rows\":%d,\"tokens\":%d}\n",
                hint->step, hint->group, hint->version, worker, state->submit_us, start_us, end_us,
                hint->rows, hint->tokens);
    }
    pthread_mutex_unlock(&mutex);
}
