/* Directories that survive kill -9: written under a temporary name, fsynced, renamed.  A manifest
 * lists every file with size and CRC-32, so a reader knows a whole directory from a torn one. */
#ifndef MOT_CHECKPOINT_H
#define MOT_CHECKPOINT_H
#include <stddef.h>
#include <stdint.h>
#include "file.h"

/* Makes DIR/.tmp-step-N (removing leftovers of killed runs) and returns its path in *path
 * (mot_alloc'ed); the caller writes files into it. */
int mot_checkpoint_begin(const char *directory, int64_t step, char **path);
/* Writes manifest.json, fsyncs all files and the directory, renames to DIR/step-N (an existing one of
 * that name is replaced only after the new one is whole), fsyncs DIR, then removes all but the newest
 * keep checkpoints that verify (keep 0: all stay).  Frees path. */
int mot_checkpoint_commit(const char *directory, int64_t step, char *path, int keep);
void mot_checkpoint_abort(char *path);
/* 0 when manifest and files agree, else -EBADMSG with a message naming the file. */
int mot_checkpoint_verify(const char *path);
/* Newest checkpoint that verifies: 1 and *path, *step; 0 when there is none (torn ones are named in
 * a warning each). */
int mot_checkpoint_newest(const char *directory, char **path, int64_t *step);
#endif
