/* One option's value: text to the config struct and back.  Private to options*.c. */
#ifndef MOT_OPTION_VALUE_H
#define MOT_OPTION_VALUE_H
#include "options.h"

/* Where a value was written, for messages. */
struct mot_option_place {
    const char *file; /* NULL: the command line, or the table's own default */
    int line;         /* from 1 */
};

/* The rows of a table with those of MOT_ROWS and the defaults of MOT_DEFAULT put in; to free.  The
 * functions below take rows of such a table. */
struct mot_option *mot_options_flatten(const struct mot_option *table);
/* Position in the table of this name (dash and underscore equal), or -1. */
int mot_option_find(const struct mot_option *table, const char *name, size_t length);
/* "; did you mean x?" or "", to free.  is_flag: --config and --help are names too. */
char *mot_option_suggestion(const struct mot_option *table, const char *name, int is_flag);
/* "1 to 4096 tokens", "at least 1 tokens", "tokens" or "", to free.  A max from 2^30 on and a min
 * below -2^62 are "no limit" to the reader. */
char *mot_option_limits(const struct mot_option *row);

/* Parses one word and stores it, freeing what was there.  plain: not quoted, so that null and ~
 * mean "nothing" as in YAML.  0 or -EINVAL with a message. */
int mot_option_set(const struct mot_option *row, void *config, const char *text, int plain,
                   struct mot_option_place place);
/* A list's items as they are, copied. */
int mot_option_set_items(const struct mot_option *row, void *config, char **items, int n,
                         struct mot_option_place place);
int mot_option_is_bool_text(const char *text);
/* The value as the user would write it, unquoted; not for lists.  To free. */
char *mot_option_text(const struct mot_option *row, const void *config);
/* First spelling of choice i of "a|b=c|d"; NULL past the end.  To free. */
char *mot_option_choice(const char *choices, int i);

/* options_yaml.c: the file's values into the config, given[row] = 1 for each. */
int mot_options_read_yaml(const struct mot_option *table, void *config, const char *path,
                          char *given);
#endif
