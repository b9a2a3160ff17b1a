/* Start and stop of one external program.  See subprocess.h.
 * posix_spawn, not fork: the training process may hold gigabytes, whose page tables fork would
 * copy. */
#include "subprocess.h"
#include "error.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* argv under /bin/sh's name with these standard input and output; 0 or errno. */
static int spawn(char *const argv[], int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    MOT_ASSERT(posix_spawn_file_actions_init(&actions) == 0);
    MOT_ASSERT(posix_spawnattr_init(&attributes) == 0);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK
                                              | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    const int error = posix_spawn(pid, "/bin/sh", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

int mot_subprocess_start(const char *command, struct mot_subprocess *process)
{
    int in[2], out[2]; /* [0] is read, [1] is written */
    if (pipe2(in, O_CLOEXEC) < 0) {
        return mot_fail(errno, "cannot start '%s': no pipe: %s", command, strerror(errno));
    }
    if (pipe2(out, O_CLOEXEC) < 0) {
        const int error = errno;
        close_pair(in);
        return mot_fail(error, "cannot start '%s': no pipe: %s", command, strerror(error));
    }
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    pid_t pid;
    const int error = spawn(argv, in[0], out[1], &pid);
    if (error) {
        close_pair(in);
        close_pair(out);
        return mot_fail(error, "cannot start '%s': %s", command, strerror(error));
    }
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    *process = (struct mot_subprocess){pid, in[1], out[0]};
    return 0;
}

/* 1 when the process has ended; it stays to be reaped, so that its number stays its own. */
static int has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

int mot_subprocess_stop(struct mot_subprocess *process, int grace_ms)
{
    if (process->in >= 0) { close(process->in); }
    if (process->out >= 0) { close(process->out); }
    int status = 0;
    if (process->pid > 0) {
        for (; grace_ms > 0 && !has_ended(process->pid); grace_ms -= 5) { usleep(5000); }
        kill(-process->pid, SIGKILL); /* before the reaping: the group's number is still its own */
        while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {}
    }
    *process = (struct mot_subprocess){0, -1, -1};
    return status;
}

int mot_subprocess_check(const char *command)
{
    const char *start = command + strspn(command, " \t");
    const size_t n = strcspn(start, " \t\n");
    char *word = mot_format("%.*s", (int)n, start);
    int status = 0, ended = 0;
    if (n == 0) {
        status = mot_fail(EINVAL, "the program to run is missing");
    } else if (word[strcspn(word, "$`'\"\\|&;<>()*?[]{}~=#!%")] == 0) {
        const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        char *const argv[] = {(char *)"sh", (char *)"-c", (char *)"command -v \"$1\"",
                              (char *)"sh", word,         NULL};
        pid_t pid;
        if (null >= 0 && spawn(argv, null, null, &pid) == 0) {
            while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) {}
        }
        if (null >= 0) { close(null); }
        if (ended) { status = mot_fail(ENOENT, "there is no program '%s'", word); }
    }
    free(word);
    return status;
}
