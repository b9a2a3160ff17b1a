/* Progress of long work on standard error: on a terminal one line that is rewritten in place and
 * steps aside for messages, elsewhere a plain line every few seconds, with mot_set_quiet(1)
 * nothing.
 *
 *   grpo 12/60  reward 0.52  812 tokens/s  3:20 left
 *
 * One at a time may be shown; any thread may update it. */
#ifndef MOT_PROGRESS_H
#define MOT_PROGRESS_H
#include <stdint.h>

struct mot_progress;

/* total 0: not known, no time left is shown.  label is copied. */
struct mot_progress *mot_progress_create(int64_t total, const char *label);
/* done of total units are done; text, copied, is what else is to be seen (NULL: as before).  The
 * first call sets where the clock starts: with done = the step resumed from, before any work, if
 * need be. */
void mot_progress_update(struct mot_progress *progress, int64_t done, const char *text);
/* So many more tokens were worked on; shown per second since the clock started. */
void mot_progress_add_tokens(struct mot_progress *progress, int64_t tokens);
/* Shows the last state, leaves it standing, frees.  NULL is allowed. */
void mot_progress_finish(struct mot_progress *progress);
#endif
