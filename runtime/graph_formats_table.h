/* Every file format that becomes a task graph, one line each, tried in this order:
 * MOT_GRAPH_FORMAT(NAME, what it is).  NAME's reader is graph_NAME.c (graph_formats.h).  No guard:
 * included more than once. */
MOT_GRAPH_FORMAT(small_dags, "Motley's own JSON form: an array of graphs, or one graph")
MOT_GRAPH_FORMAT(wfcommons, "a workflow of WfCommons or WfInstances, JSON of schema 1.3 to 1.6")
MOT_GRAPH_FORMAT(stg, "a graph of Kasahara's Standard Task Graph Set")
MOT_GRAPH_FORMAT(recording, "a recording that MOTLEY_TRACE or --trace made, gzipped")
