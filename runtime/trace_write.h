/* The file a recording becomes: Chrome trace event JSON in array form, an event a line, in gzip
 * members that each hold whole lines.  trace_write.c says which event means what.  One thread at a
 * time. */
#ifndef MOT_TRACE_WRITE_H
#define MOT_TRACE_WRITE_H
#include "trace.h"

struct mot_trace_writer;

/* 0, or a negative errno with a message when path cannot be written. */
int mot_trace_writer_open(const char *path, const char *(*stage_name)(int stage),
                          struct mot_trace_writer **writer);
/* The next message of a ring, which is left in it.  StarPU runs. */
void mot_trace_writer_message(struct mot_trace_writer *w, struct mot_trace_ring *ring);
/* To be called now and then: notes memory in use, and ends a gzip member when it is due, or now. */
void mot_trace_writer_round(struct mot_trace_writer *w, int now);
/* The end event with these totals, to which its own are added.  0, or a negative errno with a
 * message when any write failed. */
int mot_trace_writer_close(struct mot_trace_writer *w, struct mot_trace_stats *stats);
#endif
