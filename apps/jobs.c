/* jobs: child processes.  See jobs.h. */
#include "jobs.h"
#include "error.h"
#include "file.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Our environment with the job's variables instead of those of the same names; free the array. */
static char **environment_with(char *const *variables)
{
    size_t n = 0, used = 0;
    while (environ[n]) { n++; }
    char **all = mot_alloc((n + MOT_JOB_VARIABLES_MAX + 1) * sizeof(*all));
    for (size_t i = 0; i < n; i++) {
        int replaced = 0;
        for (char *const *v = variables; *v; v++) {
            const size_t name = (size_t)(strchr(*v, '=') - *v) + 1;
            replaced |= strncmp(environ[i], *v, name) == 0;
        }
        if (!replaced) { all[used++] = environ[i]; }
    }
    for (char *const *v = variables; *v; v++) { all[used++] = *v; }
    all[used] = NULL;
    return all;
}

/* In a process group of its own, so that a limit ends what it has started too. */
static void start(struct mot_job *job)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    MOT_ASSERT(posix_spawn_file_actions_init(&files) == 0);
    MOT_ASSERT(posix_spawnattr_init(&attributes) == 0);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, job->out, flags, 0666);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, job->err, flags, 0666);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    char **environment = environment_with(job->variables);
    const int error =
        posix_spawn(&job->pid, job->argv[0], &files, &attributes, job->argv, environment);
    free(environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    job->start_s = now_s();
    if (error) {
        job->pid = 0;
        job->error = mot_fail(error, "%s: %s", job->argv[0], strerror(error));
    }
}

/* 1 when it has ended and has been reaped. */
static int has_ended(struct mot_job *job)
{
    if (job->limit_s > 0.0 && !job->timed_out && now_s() - job->start_s > job->limit_s) {
        job->timed_out = 1;
        kill(-job->pid, SIGKILL);
    }
    const pid_t pid = waitpid(job->pid, &job->status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR)) { return 0; }
    job->seconds = now_s() - job->start_s;
    job->pid = 0;
    return 1;
}

static void end_all(struct mot_job *jobs, int n)
{
    for (int i = 0; i < n; i++) {
        if (jobs[i].pid <= 0) { continue; }
        kill(-jobs[i].pid, SIGKILL);
        while (waitpid(jobs[i].pid, &jobs[i].status, 0) < 0 && errno == EINTR) {}
        jobs[i].pid = 0;
    }
}

int mot_jobs_run(struct mot_job *jobs, int n, int at_once, const volatile int *stop,
                 void (*ended)(void *context, int i), void *context)
{
    MOT_ASSERT(at_once >= 1);
    int next = 0, running = 0;
    while ((next < n || running > 0) && !*stop) {
        int any = 0;
        for (; next < n && running < at_once; next++) {
            if (jobs[next].argv == NULL) { continue; }
            start(&jobs[next]);
            if (jobs[next].error) {
                ended(context, next);
            } else {
                running++;
            }
        }
        for (int i = 0; i < next; i++) {
            if (jobs[i].pid == 0 || !has_ended(&jobs[i])) { continue; }
            running--;
            any = 1;
            ended(context, i);
        }
        if (!any && running > 0) { usleep(2000); }
    }
    end_all(jobs, next);
    return *stop != 0;
}

void mot_job_free(struct mot_job *job)
{
    for (char **word = job->argv; word && *word; word++) { free(*word); }
    for (char **v = job->variables; *v; v++) { free(*v); }
    free(job->argv);
    free(job->out);
    free(job->err);
    memset(job, 0, sizeof(*job));
}

/* The last line of a file that holds more than blanks, without "motley: "; "" when there is none.
 * To free. */
static char *last_line(const char *path)
{
    enum { BYTES_MAX = 64 << 20 };
    char *bytes = NULL, *line;
    size_t n = 0;
    if (access(path, R_OK) != 0 || mot_file_read(path, BYTES_MAX, &bytes, &n) != 0) {
        return mot_strdup("");
    }
    while (n > 0 && strchr(" \t\r\n", bytes[n - 1])) { bytes[--n] = '\0'; }
    line = strrchr(bytes, '\n');
    line = line ? line + 1 : bytes;
    if (strncmp(line, "motley: ", 8) == 0) { line += 8; }
    char *copy = mot_format("%.400s", line);
    free(bytes);
    return copy;
}

char *mot_job_failure(const struct mot_job *job)
{
    if (job->error) { return mot_format("could not be started: %s", strerror(-job->error)); }
    if (job->timed_out) { return mot_format("took longer than %g s", job->limit_s); }
    if (WIFEXITED(job->status) && WEXITSTATUS(job->status) == 0) { return NULL; }
    char *said = last_line(job->err), *text;
    const char *between = said[0] ? ": " : "";
    if (WIFSIGNALED(job->status)) {
        const char *name = sigabbrev_np(WTERMSIG(job->status));
        text = mot_format("killed by SIG%s%s%s", name ? name : "?", between, said);
    } else {
        text = mot_format("exit %d%s%s", WEXITSTATUS(job->status), between, said);
    }
    free(said);
    return text;
}
