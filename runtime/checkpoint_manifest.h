/* The manifest of a checkpoint directory: written last, checked first.  Private to
 * checkpoint*.c. */
#ifndef MOT_CHECKPOINT_MANIFEST_H
#define MOT_CHECKPOINT_MANIFEST_H
#include <stdint.h>

enum { MOT_MANIFEST_WHY_BYTES = 1024 };

/* Writes path/manifest.json over all files below path; files, directories and manifest are on the
 * disk when this returns 0, else a negative errno with a message.  A link or a device among the
 * files is an error. */
int mot_manifest_write(const char *path, int64_t step);
/* 0 when all files are there with the manifest's sizes and, unless only_sizes, CRCs; else -1 and
 * the reason, naming the file, in why.  Prints nothing. */
int mot_manifest_check(const char *path, int only_sizes, char why[MOT_MANIFEST_WHY_BYTES]);
#endif
