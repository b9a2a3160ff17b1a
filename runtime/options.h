/* Option tables: one row per option; the command line, the YAML file and --help all read it.
 * A config is a plain struct; the table says where each option lies in it.
 *
 * On the command line: --name value, --name=value, --name for true, --no_name for false; a list
 * takes the words up to the next "--"; "--" alone ends the options.  Dash and underscore are equal,
 * the last of several wins.  A value that begins with "--" must be written --name=value.
 * In the file: one mapping of scalars and of sequences of scalars (YAML 1.1), each key once; a
 * number that is null has its default.  Names, types and limits are checked the same way; a scalar
 * must parse whole (10abc, 1_000 or 1.5 for a whole number are errors). */
#ifndef MOT_OPTIONS_H
#define MOT_OPTIONS_H
#include "nearest_name.h"
#include <stddef.h>
#include <stdio.h>

enum mot_option_type {
    MOT_OPTION_INT,    /* int */
    MOT_OPTION_INT64,  /* int64_t */
    MOT_OPTION_FLOAT,  /* double; "none" is NaN where the default is "none" */
    MOT_OPTION_BOOL,   /* int: true/false/yes/no/on/off/1/0; the bare flag --name means true */
    MOT_OPTION_STRING, /* char *, owned by the config; NULL when the text is empty */
    MOT_OPTION_CHOICE, /* int: index in choices */
    MOT_OPTION_LIST,   /* struct mot_list: strings; "a b c" (several words), "[a, b]" or "a,b" */
    MOT_OPTION_ROWS,   /* no option: see MOT_ROWS */
    MOT_OPTION_DEFAULT /* no option: see MOT_DEFAULT */
};

/* One word is split at the commas outside (), [], {} and quotes; several words, and the items of a
 * sequence in the file, are not split. */
struct mot_list {
    char **item;
    int n;
};

struct mot_option {
    const char *name; /* "learning_rate": --learning_rate, and the key in the YAML file */
    enum mot_option_type type;
    size_t offset;            /* in the config struct */
    const char *default_text; /* as the user would write it; NULL: the option must be given */
    const void *domain;       /* CHOICE: "group|batch|none"; "none=false": a second spelling;
                               * ROWS: the other table; else NULL */
    double min, max;          /* INT, INT64, FLOAT; both 0: no limits */
    const char *unit;         /* "tokens", "s"; NULL */
    const char *help;         /* one sentence */
    const char *section;      /* heading of --help; NULL: as the row before */
};

/* Puts in the rows of another table, whose config lies at that offset of this one. */
#define MOT_ROWS(at, table)                                              \
    {                                                                    \
        "", MOT_OPTION_ROWS, (at), NULL, (table), 0, 0, NULL, NULL, NULL \
    }
/* Gives an option of rows above another default. */
#define MOT_DEFAULT(name, text)                                             \
    {                                                                       \
        (name), MOT_OPTION_DEFAULT, 0, (text), NULL, 0, 0, NULL, NULL, NULL \
    }

/* The table ends with a row whose name is NULL.  Fills *config with the defaults, then the YAML
 * file named by --config FILE, then the command line (argv[first]...), so that flags win.  Words
 * without "--" are collected in *positional (may be NULL: then they are an error).
 * 0; 1 when --help was printed; a negative errno with a message that names file and line, or the
 * flag, and for an unknown name the nearest one.  Unless 0 is returned the config's strings and
 * lists are freed and empty. */
int mot_options_parse(const struct mot_option *table, void *config, int argc, char **argv,
                      int first, struct mot_list *positional, const char *usage);
void mot_options_free(const struct mot_option *table, void *config);
void mot_list_free(struct mot_list *list);
/* The config as YAML, every option, in table order: reading it back gives the same config. */
int mot_options_write_yaml(const struct mot_option *table, const void *config, FILE *file);
/* The first option in which two configs differ, but for those whose names are in except (ended by
 * NULL): a sentence "name is A, was B", to free.  NULL when there is none. */
char *mot_options_difference(const struct mot_option *table, const void *now, const void *was,
                             const char *const *except);
void mot_options_print_help(const struct mot_option *table, const char *usage, FILE *file);
#endif
