/* A whole file as read-only memory, so that a model larger than half the memory can be
 * converted tensor by tensor.  Files that somebody truncates while they are mapped are not
 * survived (SIGBUS). */
#ifndef MOT_MAPPED_FILE_H
#define MOT_MAPPED_FILE_H
#include <stddef.h>

struct mot_mapped_file {
    char *path;
    const unsigned char *bytes; /* NULL when the file is empty */
    size_t n;
};

/* 0, or a negative errno with a message naming the file (missing, no regular file, ...). */
int mot_mapped_file_open(struct mot_mapped_file *file, const char *path);
void mot_mapped_file_close(struct mot_mapped_file *file); /* all-zero is allowed */
#endif
