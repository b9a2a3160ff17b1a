/* graph_stg: graphs of the Standard Task Graph Set (Tobita and Kasahara 2002): identical
 * processors, no transfers.  Text, "#" begins a comment:
 *
 *     3                    tasks; a second number, where there is one, is of processors
 *     0  0  0              number, time, number of predecessors, those
 *     1  7  1  0
 *     2  5  1  0
 *     3  4  2  1 2
 *     4  0  1  3
 *
 * The set counts tasks without an entry and an exit of no time, which are lines all the same: n + 2
 * lines then, and those two tasks are left out here.  Files with n lines are read as they are.  In
 * files with communication each predecessor is followed by its cost, which becomes the edge's
 * bytes. One unit of time is a millisecond.  Without a number of processors (in the first line, or
 * a comment "processors: 4") it must be asked for. */
#include "error.h"
#include "graph_formats.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where reading stands: numbers one by one, and the line they are on. */
struct reader {
    const struct mot_graph_text *text;
    const char *at, *end;
    int line;
    int processors; /* that a comment tells; 0: none has */
};

static int recognises(const struct mot_graph_text *text)
{
    const char *c = text->bytes;
    if (text->json) { return 0; }
    while (*c) {
        c += strspn(c, " \t\r\n");
        if (*c != '#') { break; }
        c += strcspn(c, "\n");
    }
    return isdigit((unsigned char)*c) != 0;
}

static void read_comment(struct reader *r, size_t n)
{
    for (size_t i = 0; i + 10 < n; i++) {
        if (strncasecmp(r->at + i, "processors", 10) == 0) {
            const char *number = r->at + i + 10;
            number += strspn(number, " \t:=");
            const long count = number < r->at + n ? strtol(number, NULL, 10) : 0;
            if (count > 0 && count <= MOT_GRAPH_WORKERS_MAX) { r->processors = (int)count; }
        }
    }
}

/* To the next number, over comments; same_line: not beyond this line.  0 where there is none. */
static int find_number(struct reader *r, int same_line)
{
    while (r->at < r->end) {
        if (*r->at == '\n') {
            if (same_line) { return 0; }
            r->line++;
            r->at++;
        } else if (*r->at == '#') {
            const size_t n = strcspn(r->at, "\n");
            read_comment(r, n);
            r->at += n;
        } else if (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') {
            r->at++;
        } else {
            return 1;
        }
    }
    return 0;
}

/* A number in min..max; whole: without a fraction. */
static int read_number(struct reader *r, const char *what, int whole, double min, double max,
                       double *value)
{
    char *end;
    if (!find_number(r, 1)) {
        return mot_fail(EINVAL, "%s:%d: the line ends where %s should be", r->text->path, r->line,
                        what);
    }
    *value = strtod(r->at, &end);
    const int ends = *end == 0 || strchr(" \t\r\n#", *end) != NULL;
    if (end == r->at || !ends || !(*value >= min && *value <= max)
        || (whole && *value != floor(*value))) {
        return mot_fail(EINVAL, "%s:%d: '%.*s' is not %s (a %snumber from %g to %g)", r->text->path,
                        r->line, (int)(strcspn(r->at, " \t\r\n#") % 40), r->at, what,
                        whole ? "whole " : "", min, max);
    }
    r->at = end;
    return 0;
}

/* One task's line.  first: the number of the first line's task; edges are in the file's numbers. */
static int read_task(struct reader *r, int lines, int index, int *first, struct mot_graph *graph,
                     int *capacity)
{
    double number, ms, count;
    struct mot_graph_task *task = &graph->tasks[index];
    task->line = r->line;
    int status = read_number(r, "the task's number", 1, 0.0, MOT_GRAPH_TASKS_MAX, &number);
    if (!status && index == 0) { *first = (int)number; }
    if (!status && (int)number != *first + index) {
        return mot_fail(EINVAL, "%s:%d: task %g where %d should be", r->text->path, r->line, number,
                        *first + index);
    }
    if (!status) { status = read_number(r, "its time", 0, 0.0, 1e15, &ms); }
    if (!status) { status = read_number(r, "how many come before", 1, 0.0, lines, &count); }
    if (status) { return status; }
    task->name = mot_format("%d", (int)number);
    task->ms[0] = ms;
    /* Twice as many numbers as predecessors: each with a cost. */
    struct reader ahead = *r;
    int numbers = 0;
    while (find_number(&ahead, 1)) {
        ahead.at += strcspn(ahead.at, " \t\r\n#");
        numbers++;
    }
    const int costs = numbers == 2 * (int)count && count > 0.0;
    for (int i = 0; i < (int)count; i++) {
        double before, bytes = 0.0;
        status = read_number(r, "a task before it", 1, *first, *first + lines - 1, &before);
        if (!status && costs) { status = read_number(r, "a cost", 0, 0.0, 1e15, &bytes); }
        if (status) { return status; }
        mot_graph_add_edge(graph, capacity, (int)before - *first, index, bytes, task->line);
    }
    if (find_number(r, 1)) {
        return mot_fail(EINVAL, "%s:%d: more numbers than the %g tasks before it", r->text->path,
                        r->line, count);
    }
    return 0;
}

/* Lines with numbers that are left. */
static int count_lines(const struct reader *r)
{
    struct reader ahead = *r;
    int lines = 0;
    while (find_number(&ahead, 0)) {
        lines++;
        ahead.at += strcspn(ahead.at, "\n#");
    }
    return lines;
}

/* Takes the entry and the exit out of the graph, with their edges. */
static void leave_out_ends(struct mot_graph *graph)
{
    const int last = graph->n_tasks - 1;
    double *ms = graph->tasks[0].ms; /* the block that all durations are in */
    free(graph->tasks[0].name);
    free(graph->tasks[last].name);
    memmove(graph->tasks, graph->tasks + 1, (size_t)(last - 1) * sizeof(*graph->tasks));
    graph->n_tasks -= 2;
    memmove(ms, ms + 1, (size_t)graph->n_tasks * sizeof(*ms));
    for (int t = 0; t < graph->n_tasks; t++) { graph->tasks[t].ms = ms + t; }
    int n = 0;
    for (int e = 0; e < graph->n_edges; e++) {
        struct mot_graph_edge edge = graph->edges[e];
        if (edge.before == 0 || edge.before == last || edge.after == 0 || edge.after == last) {
            continue;
        }
        edge.before--;
        edge.after--;
        graph->edges[n++] = edge;
    }
    graph->n_edges = n;
}

/* Entry and exit as the set has them: of no time, nothing before the first and after the last. */
static int has_ends(const struct mot_graph *graph)
{
    const int last = graph->n_tasks - 1;
    int good = last >= 2 && graph->tasks[0].ms[0] == 0.0 && graph->tasks[last].ms[0] == 0.0;
    for (int e = 0; e < graph->n_edges; e++) {
        good = good && graph->edges[e].after != 0 && graph->edges[e].before != last;
    }
    return good;
}

static int read_all(const struct mot_graph_text *text, struct mot_graphs *graphs)
{
    struct reader r = {text, text->bytes, text->bytes + text->n, 1, 0};
    double tasks, processors = 0.0;
    find_number(&r, 0);
    int status = read_number(&r, "the number of tasks", 1, 1.0, MOT_GRAPH_TASKS_MAX - 2, &tasks);
    if (!status && find_number(&r, 1)) {
        status =
            read_number(&r, "the number of processors", 1, 1.0, MOT_GRAPH_WORKERS_MAX, &processors);
    }
    if (!status && find_number(&r, 1)) {
        status = mot_fail(EINVAL, "%s:%d: more than a number of tasks and one of processors",
                          text->path, r.line);
    }
    if (status) { return status; }
    const int lines = count_lines(&r);
    if (lines != (int)tasks && lines != (int)tasks + 2) {
        return mot_fail(EINVAL,
                        "%s:%d: %d tasks are announced, %d lines of tasks follow (%d or, "
                        "with entry and exit, %d are needed)",
                        text->path, r.line, (int)tasks, lines, (int)tasks, (int)tasks + 2);
    }
    struct mot_graph *graph = mot_graphs_add(graphs);
    const char *name = strrchr(text->path, '/');
    mot_graph_begin(graph, text->path, name ? name + 1 : text->path, 1, lines);
    graph->line = 1;
    int first = 0, capacity = 0;
    for (int i = 0; i < lines; i++) {
        find_number(&r, 0);
        status = read_task(&r, lines, i, &first, graph, &capacity);
        if (status) { return status; }
    }
    find_number(&r, 0); /* the comments at the end */
    if (lines == (int)tasks + 2 && has_ends(graph)) { leave_out_ends(graph); }
    const int workers = text->workers > 0   ? text->workers
                        : processors >= 1.0 ? (int)processors
                                            : r.processors;
    if (workers < 1 && text->workers == 0) {
        return mot_fail(EINVAL, "%s:1: the file does not say how many processors; --workers does",
                        text->path);
    }
    graph->classes[0].name = mot_strdup("processor");
    graph->classes[0].workers = workers > 0 ? workers : 1;
    return 0;
}

const struct mot_graph_format mot_graph_format_stg = {recognises, read_all};
