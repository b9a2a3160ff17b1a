/* Running a function in a child process, for what may only happen once in a process or ends it. */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The exit status of the child (128 + signal when killed); the first bytes of what it wrote to
 * standard error are in text. */
static int child_run(int (*function)(void), char *text, size_t bytes)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0) { abort(); }
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        exit(function());
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], text + n, bytes - 1 - n)) > 0) { n += (size_t)got; }
    text[n] = '\0';
    close(ends[0]);
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
#endif
