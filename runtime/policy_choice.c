/* Scheduling policies by name.  See policy_choice.h. */
#include "policy_choice.h"
#include "error.h"
#include "nearest_name.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct starpu_sched_policy **(*list_function)(void);
typedef struct starpu_sched_policy *(*find_function)(const char *);

/* What STARPU_SCHED_LIB offers: a policy by name, and the list (NULL without such a function). */
struct library {
    find_function find;
    struct starpu_sched_policy *const *list;
};

static int library_open(struct library *library)
{
    memset(library, 0, sizeof(*library));
    const char *path = getenv("STARPU_SCHED_LIB");
    if (!path || !*path) { return 0; }
    struct stat
        info; /* dlopen would wait at a named pipe; a name without a slash is searched for */
    if (strchr(path, '/') && stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return mot_fail(EINVAL, "STARPU_SCHED_LIB: %s is no file", path);
    }
    void *handle = dlopen(path, RTLD_NOW); /* never closed: the policy's code runs from it */
    if (!handle) {
        return mot_fail(EINVAL, "STARPU_SCHED_LIB: cannot load %s: %s", path, dlerror());
    }
    *(void **)&library->find = dlsym(handle, "starpu_get_sched_lib_policy");
    list_function list = NULL;
    *(void **)&list = dlsym(handle, "starpu_get_sched_lib_policies");
    library->list = list ? list() : NULL;
    if (!library->find) {
        return mot_fail(EINVAL, "STARPU_SCHED_LIB: %s has no function starpu_get_sched_lib_policy",
                        path);
    }
    return 0;
}

static struct starpu_sched_policy *find_in(struct starpu_sched_policy *const *list,
                                           const char *name)
{
    for (; list && *list; list++) {
        if ((*list)->policy_name && strcmp((*list)->policy_name, name) == 0) { return *list; }
    }
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All known names, sorted, ended by NULL.  The array is the caller's, the names are not. */
static const char **known_names(struct starpu_sched_policy *const *const lists[], int n_lists)
{
    size_t n = 0;
    const char **names = mot_alloc_zeroed(1, sizeof(*names));
    for (int i = 0; i < n_lists; i++) {
        for (struct starpu_sched_policy *const *p = lists[i]; p && *p; p++) {
            if (!(*p)->policy_name) { continue; }
            names = mot_realloc(names, (n + 2) * sizeof(*names));
            names[n++] = (*p)->policy_name;
            names[n] = NULL;
        }
    }
    qsort(names, n, sizeof(*names), compare_names);
    return names;
}

static int fail_unknown(const char *name, const char **names)
{
    char *list = mot_strdup("");
    for (int i = 0; names[i]; i++) {
        char *longer = mot_format("%s%s%s", list, i ? ", " : "", names[i]);
        free(list);
        list = longer;
    }
    const char *near = mot_nearest_name(name, names);
    const int error =
        mot_fail(EINVAL, "unknown scheduling policy \"%s\"%s%s%s; known: %s", name,
                 near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "", list);
    free(list);
    return error;
}

int mot_policy_find(const char *name, struct starpu_sched_policy *const *more,
                    struct starpu_sched_policy **policy)
{
    struct library library;
    const int error = library_open(&library);
    if (error) { return error; }
    struct starpu_sched_policy *found = library.find ? library.find(name) : NULL;
    if (!found) { found = find_in(more, name); }
    if (!found) { found = find_in(starpu_sched_get_predefined_policies(), name); }
    if (found) {
        *policy = found;
        return 0;
    }
    struct starpu_sched_policy *const *const lists[] = {library.list, more,
                                                        starpu_sched_get_predefined_policies()};
    const char **names = known_names(lists, 3);
    const int unknown = fail_unknown(name, names);
    free(names);
    return unknown;
}
