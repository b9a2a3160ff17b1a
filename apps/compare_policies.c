/* compare_policies: names of policies on the command line.  See compare.h. */
#include "compare.h"
#include "error.h"
#include "policies.h"
#include "policy_choice.h"
#include <stdlib.h>
#include <string.h>

/* StarPU's, as a comparison needs them: with the queues that change results most. */
static const char *const baselines[] = {"eager",
                                        "prio",
                                        "lws",
                                        "dmda",
                                        "dmdas",
                                        "dmdasd",
                                        "modular-heft",
                                        "modular-heft:5",
                                        "modular-heft:2",
                                        "heteroprio",
                                        "modular-heteroprio",
                                        NULL};

/* ":5" or ":cold" behind a name. */
static int read_suffix(const char *word, const char *suffix, struct mot_compared_policy *policy)
{
    if (strcmp(policy->name, "heteroprio") == 0 && strcmp(suffix, "cold") == 0) {
        policy->has_memory = 0;
        return 0;
    }
    char *end;
    const long depth = strtol(suffix, &end, 10);
    if (strncmp(policy->name, "modular-", 8) == 0 && suffix[0] >= '0' && suffix[0] <= '9' && !*end
        && depth >= 1 && depth <= 1000000) {
        policy->depth = (int)depth;
        return 0;
    }
    return mot_fail(EINVAL,
                    "policies: '%s': only modular policies take a number (of tasks queued for a "
                    "worker, at least 1), only heteroprio takes :cold",
                    word);
}

static int add(struct mot_comparison *c, const char *word)
{
    for (int i = 0; i < c->n_policies; i++) {
        if (strcmp(c->policies[i].label, word) == 0) { return 0; }
    }
    const size_t length = strcspn(word, ":");
    struct mot_compared_policy policy = {.name = mot_format("%.*s", (int)length, word)};
    policy.has_memory = strcmp(policy.name, "heteroprio") == 0;
    struct starpu_sched_policy *found;
    int error = mot_policy_find(policy.name, mot_policies, &found);
    if (!error && word[length] == ':') { error = read_suffix(word, word + length + 1, &policy); }
    if (error) {
        free(policy.name);
        return error;
    }
    policy.label = mot_strdup(word);
    const size_t n = (size_t)c->n_policies + 1;
    c->policies = mot_realloc(c->policies, n * sizeof(*c->policies));
    c->policies[c->n_policies++] = policy;
    return 0;
}

static int add_all(struct mot_comparison *c)
{
    int error = 0;
    for (int i = 0; !error && baselines[i]; i++) { error = add(c, baselines[i]); }
    for (int i = 0; !error && mot_policies[i]; i++) {
        error = add(c, mot_policies[i]->policy_name);
    }
    return error;
}

int mot_compared_policies(char *const *words, int n, struct mot_comparison *c)
{
    int error = n > 0 ? 0 : mot_fail(EINVAL, "policies: none is named");
    for (int i = 0; !error && i < n; i++) {
        error = strcmp(words[i], "all") == 0 ? add_all(c) : add(c, words[i]);
    }
    return error;
}
