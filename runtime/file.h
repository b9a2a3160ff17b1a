/* Files and directories as long runs need them: whole or not there, every error reported.
 * Unless it says otherwise a function returns 0, or a negative errno with a message that names the
 * file; outputs are untouched on failure. */
#ifndef MOT_FILE_H
#define MOT_FILE_H
#include <stddef.h>
#include <stdint.h>

/* Replaces path: temporary name beside it, fsync, rename, fsync of the directory.  A reader sees
 * the old bytes or the new ones, never a part.  What is there and no regular file (a device, a
 * pipe) is not replaced but written into. */
int mot_file_write(const char *path, const void *bytes, size_t n);
/* The line and a newline in one write(2), so that lines of several writers to an O_APPEND file do
 * not mix. */
int mot_file_append_line(int fd, const char *line);
/* Opens an output, making it where it is not: to be written anew, or (append) at its end.  Never
 * blocks, as open(2) of a named pipe that nobody reads would: that is an error.  A file descriptor,
 * or a negative errno with a message. */
int mot_file_open_output(const char *path, int append);
/* Before any work: whether mot_file_write() could make or replace path, as far as permissions tell.
 */
int mot_file_check_output(const char *path);
/* Opens an input that was named by the user: a regular file, or a pipe that is open already
 * (/dev/stdin, /dev/fd/N).  Never blocks, as open(2) of a named pipe would, and refuses what is
 * neither.  A file descriptor to read from, or a negative errno with a message. */
int mot_file_open_input(const char *path);
/* All of it, at most max_bytes (else -EFBIG); a zero byte follows that *n does not count.  *bytes
 * is mot_alloc'ed.  Opens as mot_file_open_input; pipes are read to their end. */
int mot_file_read(const char *path, size_t max_bytes, char **bytes, size_t *n);
/* fsync of a file or directory. */
int mot_file_sync(const char *path);
/* mkdir -p. */
int mot_make_directories(const char *path);
/* rm -rf; nothing there is no error.  Does not follow symbolic links. */
int mot_remove_tree(const char *path);
/* CRC-32 of zlib: start with 0, feed the result back to go on. */
uint32_t mot_crc32(uint32_t crc, const void *bytes, size_t n);
/* Free bytes, for this user, of the file system that holds path or its nearest existing parent. */
int64_t mot_free_disk_bytes(const char *path);
#endif
