/* One external program with a pipe to its standard input and one from its standard output; its
 * standard error is ours.  It is a process group of its own, so that stopping it stops what it
 * started too, and Ctrl-C on the terminal does not reach it.  No descriptor of ours leaks into
 * it. */
#ifndef MOT_SUBPROCESS_H
#define MOT_SUBPROCESS_H
#include <sys/types.h>

struct mot_subprocess {
    pid_t pid; /* 0: none */
    int in;    /* we write; non-blocking; -1 when closed */
    int out;   /* we read; non-blocking; -1 when closed */
};

/* Runs command by /bin/sh -c.  0, or a negative errno with a message; a program that is not there
 * is no error here: the shell says so and exits with 127.  A thread that writes to `in` must have
 * SIGPIPE blocked or ignored. */
int mot_subprocess_start(const char *command, struct mot_subprocess *process);
/* Kills the group (after grace_ms in which it may end by itself, its input closed), reaps it,
 * closes the pipes.  Returns the status of waitpid; 0 when there was none. */
int mot_subprocess_stop(struct mot_subprocess *process, int grace_ms);
/* 0 when the first word of command is a program or a word of the shell, else -ENOENT and a message.
 * Commands that begin in a more intricate way are taken as right. */
int mot_subprocess_check(const char *command);
#endif
