/* YAML files with more levels than an option table has: a strict reader into a tree that knows the
 * line of everything, for machine and workload files.
 *
 * One document of mappings, lists and scalars.  Anchors, aliases, tags, duplicate keys, empty keys
 * and an empty file are errors.  Every getter marks what it has read; mot_yaml_finish then finds
 * the key that nobody asked for.  A message is one line that begins with "file:line: ". */
#ifndef MOT_YAML_TREE_H
#define MOT_YAML_TREE_H

enum mot_yaml_kind { MOT_YAML_SCALAR, MOT_YAML_LIST, MOT_YAML_MAP };

struct mot_yaml {
    enum mot_yaml_kind kind;
    const char *file; /* of the whole tree */
    const char *key;  /* under which it lies in a mapping, else NULL */
    int line;
    char *text;    /* scalar, else NULL */
    int is_quoted; /* the scalar is not plain: a text whatever it looks like */
    int n;         /* items of a list, values of a mapping */
    struct mot_yaml **items;
    int is_read; /* asked for by a getter */
};

/* The file as a tree; *root is a mapping.  0 or a negative errno with a message; to free. */
int mot_yaml_load(const char *path, struct mot_yaml **root);
void mot_yaml_free(struct mot_yaml *root);

/* The value of key in a mapping; NULL when it is not there. */
struct mot_yaml *mot_yaml_find(struct mot_yaml *map, const char *key);
/* The same, of this kind.  With required, a key that is not there is an error; without, *value is
 * NULL then.  0 or -EINVAL with a message, as all that follow. */
int mot_yaml_get(struct mot_yaml *map, const char *key, enum mot_yaml_kind kind, int required,
                 struct mot_yaml **value);
/* Where the key is not there: an error when fallback is NULL, else *value = *fallback. */
int mot_yaml_number(struct mot_yaml *map, const char *key, double min, double max,
                    const double *fallback, double *value);
int mot_yaml_int(struct mot_yaml *map, const char *key, int min, int max, const int *fallback,
                 int *value);
int mot_yaml_bool(struct mot_yaml *map, const char *key, int fallback, int *value);
/* A text that is not empty, borrowed from the tree; NULL when it is not there and not required. */
int mot_yaml_text(struct mot_yaml *map, const char *key, int required, const char **value);
/* The number a scalar holds. */
int mot_yaml_value(struct mot_yaml *scalar, double min, double max, double *value);

/* An error that names file and line of a node. */
int mot_yaml_fail(const struct mot_yaml *node, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));
/* Every key of the mapping, not of those below it, has been asked for; else an error with the
 * nearest of known (names, ended by NULL). */
int mot_yaml_finish(const struct mot_yaml *map, const char *const *known);
#endif
