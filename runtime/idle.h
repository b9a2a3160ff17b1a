/* Idle CPU workers sleep; private to runtime/.  See idle.c. */
#ifndef MOT_IDLE_H
#define MOT_IDLE_H
void mot_idle_start(void); /* after starpu_init() */
void mot_idle_stop(void);  /* before starpu_shutdown() */
void mot_idle_busy(void);  /* the calling worker has taken a task */
#endif
