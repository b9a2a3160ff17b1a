/* graph_read: a file's format is recognised, its reader called, each graph checked.  See graph.h
 * and graph_formats.h. */
#include "error.h"
#include "file.h"
#include "graph_formats.h"
#include "json.h"
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 1 << 30 };

static const struct {
    const char *help;
    const struct mot_graph_format *format;
} formats[] = {
#define MOT_GRAPH_FORMAT(name, help) {help, &mot_graph_format_##name},
#include "graph_formats_table.h"
#undef MOT_GRAPH_FORMAT
};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

struct mot_graph *mot_graphs_add(struct mot_graphs *graphs)
{
    /* Grows by doubling: room for the next power of two. */
    if ((graphs->n & (graphs->n - 1)) == 0) {
        const size_t room = graphs->n ? 2 * (size_t)graphs->n : 1;
        graphs->graph = mot_realloc(graphs->graph, room * sizeof(*graphs->graph));
    }
    struct mot_graph *graph = &graphs->graph[graphs->n++];
    memset(graph, 0, sizeof(*graph));
    return graph;
}

void mot_graphs_free(struct mot_graphs *graphs)
{
    for (int g = 0; g < graphs->n; g++) { mot_graph_free(&graphs->graph[g]); }
    free(graphs->graph);
    memset(graphs, 0, sizeof(*graphs));
}

const char *mot_graph_place(const struct mot_graph_text *text, const json_t *value)
{
    static _Thread_local char place[512];
    snprintf(place, sizeof(place), "%.400s:%d", text->path,
             text->lines && value ? mot_json_lines_find(text->lines, value) : 1);
    return place;
}

static int read_text(const struct mot_graph_text *text, struct mot_graphs *graphs)
{
    for (int i = 0; i < FORMATS; i++) {
        if (!formats[i].format->recognises(text)) { continue; }
        int status = formats[i].format->read(text, graphs);
        for (int g = 0; !status && g < graphs->n; g++) {
            status = mot_graph_check(&graphs->graph[g]);
        }
        if (!status && graphs->n == 0) {
            status = mot_fail(EINVAL, "%s:1: there is no graph in it", text->path);
        }
        return status;
    }
    char list[512] = "";
    for (int i = 0; i < FORMATS; i++) {
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? "; " : "",
                 formats[i].help);
    }
    return mot_fail(EINVAL, "%s:1: no task graph of a form that is read (%s)", text->path, list);
}

int mot_graphs_read(const char *path, int workers, struct mot_graphs *graphs)
{
    if (mot_graph_is_made(path)) { return mot_graph_make(path, graphs); }
    const int standard_input = strcmp(path, "-") == 0;
    struct mot_graph_text text = {.path = standard_input ? "standard input" : path,
                                  .workers = workers};
    char *bytes;
    int status =
        mot_file_read(standard_input ? "/dev/stdin" : path, FILE_MAX_BYTES, &bytes, &text.n);
    if (status) { return status; }
    text.bytes = bytes;
    const size_t blank = strspn(bytes, " \t\r\n");
    struct mot_json_lines *lines = NULL;
    if (bytes[blank] == '{' || bytes[blank] == '[') {
        status = mot_json_parse(bytes, text.n, text.path, 0, &text.json);
        if (!status) { text.lines = lines = mot_json_lines_create(text.json, bytes, text.n); }
    }
    struct mot_graphs found = {NULL, 0};
    if (!status) { status = read_text(&text, &found); }
    mot_json_lines_destroy(lines);
    json_decref(text.json);
    free(bytes);
    if (status) {
        mot_graphs_free(&found);
        return status;
    }
    *graphs = found;
    return 0;
}
