/* Text files line by line, lines of any content but bounded length: for JSON lines and the like. */
#ifndef MOT_LINE_READER_H
#define MOT_LINE_READER_H
#include <stddef.h>
#include <stdio.h>

enum { MOT_LINE_BYTES_MAX = 64 << 20 }; /* what a line of our input files may have */

struct mot_line_reader {
    FILE *file;
    char *path; /* for messages; "standard input" for "-" */
    char *line; /* the current line without its newline; a zero byte follows */
    size_t n;   /* bytes of it */
    int number; /* of the current line; 1 is the first */
    size_t capacity, max_bytes;
};

/* path "-" is standard input.  0, or a negative errno with a message. */
int mot_line_reader_open(struct mot_line_reader *reader, const char *path, size_t max_bytes);
/* 1 and the next line; 0 at the end of the file; a negative errno with a message "file:line: ..."
 * when it cannot be read or is longer than max_bytes.  The last line needs no newline; a carriage
 * return before it stays. */
int mot_line_reader_next(struct mot_line_reader *reader);
void mot_line_reader_close(struct mot_line_reader *reader);
#endif
