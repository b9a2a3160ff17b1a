/* The progress line.  See progress.h. */
#include "progress.h"
#include "error.h"
#include "utf8.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 512, COLUMNS_DEFAULT = 80 };
#define PLAIN_PERIOD_S    5.0
#define TERMINAL_PERIOD_S 0.1
#define CLEAR_LINE        "\r\033[K"

struct mot_progress {
    int64_t total, done, first_done, tokens;
    double start_s, shown_s; /* shown_s < 0: never */
    int started;             /* the first update was there */
    int is_current;          /* what is shown is what is known */
    int on_terminal;
    char label[64], text[TEXT_BYTES];
};

/* Guards every progress and the standard error of the terminal; held while a message is written. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mot_progress *shown; /* on the terminal */

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* "3:20" or "2:03:20". */
static void format_time(double seconds, char *text, size_t bytes)
{
    const int64_t s = (int64_t)(seconds + 0.5);
    if (s < 3600) {
        snprintf(text, bytes, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
    } else {
        snprintf(text, bytes, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60,
                 s % 60);
    }
}

static void format_line(const struct mot_progress *p, char *line, size_t bytes)
{
    const double elapsed_s = now_s() - p->start_s;
    char total[32] = "", rate[40] = "", left[48] = "";
    if (p->total > 0) { snprintf(total, sizeof(total), "/%" PRId64, p->total); }
    if (p->tokens > 0 && elapsed_s > 0.0) {
        snprintf(rate, sizeof(rate), "  %.0f tokens/s", (double)p->tokens / elapsed_s);
    }
    const int64_t worked = p->done - p->first_done;
    if (worked > 0 && p->total > p->done) {
        char time[32];
        format_time(elapsed_s / (double)worked * (double)(p->total - p->done), time, sizeof(time));
        snprintf(left, sizeof(left), "  %s left", time);
    }
    snprintf(line, bytes, "%s %" PRId64 "%s%s%s%s%s", p->label, p->done, total,
             *p->text ? "  " : "", p->text, rate, left);
}

/* Cut to the terminal's width (a wrapped line cannot be rewritten), without control characters. */
static void fit(char *line)
{
    struct winsize size;
    const int known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    int columns = known ? size.ws_col - 1 : COLUMNS_DEFAULT - 1;
    while (*line && columns-- > 0) {
        const int n = mot_utf8_length(line, strlen(line));
        if (n == 0 || (unsigned char)*line < 0x20 || *line == 0x7f) { *line = '?'; }
        line += n ? n : 1;
    }
    *line = 0;
}

/* With the mutex held. */
static void draw(struct mot_progress *p)
{
    char line[TEXT_BYTES + 256];
    format_line(p, line, sizeof(line));
    fit(line);
    fprintf(stderr, CLEAR_LINE "%s", line);
    fflush(stderr);
    p->shown_s = now_s();
    p->is_current = 1;
}

/* Around each line that error.c writes: takes the progress line away, puts it back. */
static void around_message(int before)
{
    if (before) {
        pthread_mutex_lock(&mutex);
        if (shown && shown->shown_s >= 0.0) { fputs(CLEAR_LINE, stderr); }
    } else {
        if (shown && shown->shown_s >= 0.0) { draw(shown); }
        pthread_mutex_unlock(&mutex);
    }
}

static int is_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && !(kind && strcmp(kind, "dumb") == 0);
}

struct mot_progress *mot_progress_create(int64_t total, const char *label)
{
    struct mot_progress *p = mot_alloc_zeroed(1, sizeof(*p));
    p->total = total;
    p->shown_s = -1.0;
    p->start_s = now_s();
    snprintf(p->label, sizeof(p->label), "%s", label);
    p->on_terminal = is_terminal() && !mot_is_quiet();
    if (p->on_terminal) {
        pthread_mutex_lock(&mutex);
        MOT_ASSERT(!shown);
        shown = p;
        pthread_mutex_unlock(&mutex);
        mot_set_message_hook(around_message);
    }
    return p;
}

/* Shows the state when it is time, or at once; with the mutex held, which a plain line lets go. */
static void show(struct mot_progress *p, int at_once)
{
    const double period_s = p->on_terminal ? TERMINAL_PERIOD_S : PLAIN_PERIOD_S;
    if (p->shown_s >= 0.0 && !at_once && now_s() - p->shown_s < period_s) { return; }
    if (p->on_terminal) {
        draw(p);
        return;
    }
    char line[TEXT_BYTES + 256];
    format_line(p, line, sizeof(line));
    p->shown_s = now_s();
    p->is_current = 1;
    pthread_mutex_unlock(&mutex);
    mot_info("%s", line);
    pthread_mutex_lock(&mutex);
}

void mot_progress_update(struct mot_progress *p, int64_t done, const char *text)
{
    pthread_mutex_lock(&mutex);
    if (!p->started) {
        p->started = 1;
        p->first_done = done;
        p->start_s = now_s();
    }
    p->done = done;
    p->is_current = 0;
    if (text) { snprintf(p->text, sizeof(p->text), "%s", text); }
    show(p, 0);
    pthread_mutex_unlock(&mutex);
}

void mot_progress_add_tokens(struct mot_progress *p, int64_t tokens)
{
    pthread_mutex_lock(&mutex);
    p->tokens += tokens;
    pthread_mutex_unlock(&mutex);
}

void mot_progress_finish(struct mot_progress *p)
{
    if (!p) { return; }
    pthread_mutex_lock(&mutex);
    if (p->started && !p->is_current) { show(p, 1); }
    if (p->on_terminal) {
        if (p->shown_s >= 0.0) { fputs("\n", stderr); }
        shown = NULL;
    }
    pthread_mutex_unlock(&mutex);
    free(p);
}
