/* Directories that survive kill -9: written under a temporary name, fsynced, renamed.  A manifest
 * lists every file with size and CRC-32, so a reader knows a whole directory from a torn one.
 *
 *   DIR/.tmp-step-N   being written, or left by a killed run
 *   DIR/step-N        whole: .../manifest.json {"step", "files": [{"name", "bytes", "crc32"}]}
 *   DIR/.old-step-N   what a new step-N replaces, for a moment; only where the file system cannot
 *                     exchange two names
 *
 * At every moment of a save the checkpoint before it, or the new one, is found by
 * mot_checkpoint_newest. One writer per directory. */
#ifndef MOT_CHECKPOINT_H
#define MOT_CHECKPOINT_H
#include "file.h"
#include <stddef.h>
#include <stdint.h>

/* 0 when the file system of directory has room for bytes, else -ENOSPC with a message that says how
 * much is missing.  To be asked before any work is done. */
int mot_checkpoint_check_space(const char *directory, int64_t bytes);
/* Makes DIR/.tmp-step-N (removing leftovers of killed runs) and returns its path in *path
 * (mot_alloc'ed); the caller writes files into it, in subdirectories too. */
int mot_checkpoint_begin(const char *directory, int64_t step, char **path);
/* Writes manifest.json, fsyncs all files and the directory, renames to DIR/step-N (an existing one
 * of that name is replaced only after the new one is whole), fsyncs DIR, then removes all but the
 * newest keep checkpoints that verify (keep 0: all stay; the one just written always stays; of
 * older ones only the sizes are checked here).  Frees path, also on failure, when its files are
 * removed. */
int mot_checkpoint_commit(const char *directory, int64_t step, char *path, int keep);
/* Removes what was begun.  Frees path. */
void mot_checkpoint_abort(char *path);
/* 0 when manifest and files agree, else -EBADMSG with a message naming the file.  Files that the
 * manifest does not list do no harm. */
int mot_checkpoint_verify(const char *path);
/* Newest checkpoint that verifies: 1 and *path (mot_alloc'ed), *step; 0 when there is none, or no
 * directory (torn ones are named in a warning each). */
int mot_checkpoint_newest(const char *directory, char **path, int64_t *step);
#endif
