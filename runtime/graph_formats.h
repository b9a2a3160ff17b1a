/* The readers of task graph files, and what they share.  To add one: graph_NAME.c with a
 * mot_graph_format_NAME, its line in graph_formats_table.h and in CMakeLists.txt, and a case in
 * tests/test_graph.c. */
#ifndef MOT_GRAPH_FORMATS_H
#define MOT_GRAPH_FORMATS_H
#include "graph.h"
#include "json_lines.h"
#include <jansson.h>

/* One file's content. */
struct mot_graph_text {
    const char *path; /* for messages */
    const char *bytes;
    size_t n;
    json_t *json; /* parsed, or NULL: it does not begin like JSON */
    const struct mot_json_lines *lines;
    int workers; /* asked for; 0: what the file says */
};

struct mot_graph_format {
    /* 1 when it looks like this format, however damaged. */
    int (*recognises)(const struct mot_graph_text *text);
    /* Graphs into an empty *graphs, not yet checked.  0, or a negative errno with a message; the
     * caller frees *graphs in either case. */
    int (*read)(const struct mot_graph_text *text, struct mot_graphs *graphs);
};
#define MOT_GRAPH_FORMAT(name, help) extern const struct mot_graph_format mot_graph_format_##name;
#include "graph_formats_table.h"
#undef MOT_GRAPH_FORMAT

/* Graphs that need no file (graph_made.c): 1 where the path is the name of one; its graph. */
int mot_graph_is_made(const char *path);
int mot_graph_make(const char *path, struct mot_graphs *graphs);

/* An empty graph at the end of the list. */
struct mot_graph *mot_graphs_add(struct mot_graphs *graphs);
/* "path:line" of a JSON value, for the messages of mot_json_get_*; valid until the next call of the
 * same thread. */
const char *mot_graph_place(const struct mot_graph_text *text, const json_t *value);
#endif
