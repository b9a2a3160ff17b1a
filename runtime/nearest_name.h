/* "Did you mean": the known name that a mistyped one most likely stands for. */
#ifndef MOT_NEAREST_NAME_H
#define MOT_NEAREST_NAME_H

/* Of the names (ended by NULL) the nearest to word, or NULL when none is near: more than a third of
 * the word's letters would have to change.  Upper and lower case, dash and underscore are equal; a
 * swap of neighbours is one change.  The first of equally near ones.  Borrows from names. */
const char *mot_nearest_name(const char *word, const char *const *names);
#endif
