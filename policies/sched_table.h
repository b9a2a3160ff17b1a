/* Every scheduling policy of ours, one line each, alphabetical: MOT_SCHED(NAME).  Included more
 * than once: no guard. */
MOT_SCHED(eft)
MOT_SCHED(heteroprio)
MOT_SCHED(motley)
MOT_SCHED(multiprio)
MOT_SCHED(qa)
MOT_SCHED(steal)
