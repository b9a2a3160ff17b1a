/* A task graph on the classes of a machine that is not its own. */
#ifndef MOT_GRAPH_ADAPT_H
#define MOT_GRAPH_ADAPT_H
#include "graph.h"
#include "machine.h"

/* Gives the graph the machine's classes, with their workers, memories and links, and the durations
 * of those of its own that stand for them:
 *
 * - what `like` says (NULL: nothing): "A100=gpu, L4=gpu*2.5" lets A100 take the durations of the
 *   graph's class gpu, and L4 those times 2.5;
 * - the graph's class of the same name, whatever the case of its letters;
 * - a cpu: the graph's processors, which is the first class whose name begins with "cpu", else the
 *   first without a link;
 * - a gpu: the graph's one other class, or the one that no class has the name of; as the machine's
 *   first gpu class has it that takes it, times the ratio of their peaks (float32, with the
 *   efficiencies).  Where the graph has processors only: theirs, times the ratio of the peaks of
 *   the machine's first cpu class and this one.
 *
 * 0; or -EINVAL with one message: `like` names what is not there, several classes might stand for
 * one, a task runs on a class only that stands for none, or a task's data fit no class that runs
 * it.  explain: tells (mot_info) what stands for what where names differ. */
int mot_graph_adapt(struct mot_graph *graph, const struct mot_machine *machine, const char *like,
                    int explain);
#endif
