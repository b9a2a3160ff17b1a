/* The table of rewards, and finding one by what the user wrote.  See reward.h. */
#include "reward.h"
#include "error.h"
#include "nearest_name.h"
#include <stdlib.h>
#include <string.h>

#define MOT_REWARD(name) extern const struct mot_reward mot_reward_##name;
#include "rewards_table.h"
#undef MOT_REWARD

static const struct mot_reward *const rewards[] = {
#define MOT_REWARD(name) &mot_reward_##name,
#include "rewards_table.h"
#undef MOT_REWARD
};
enum { N_REWARDS = sizeof(rewards) / sizeof(rewards[0]) };

int mot_reward_count(void)
{
    return N_REWARDS;
}

const struct mot_reward *mot_reward_at(int index)
{
    MOT_ASSERT(index >= 0 && index < N_REWARDS);
    return rewards[index];
}

/* The message for a name that is not in the table. */
static int fail_unknown(const char *name)
{
    const char *names[N_REWARDS + 1] = {NULL};
    size_t bytes = 1;
    for (int i = 0; i < N_REWARDS; i++) {
        names[i] = rewards[i]->name;
        bytes += strlen(names[i]) + 2;
    }
    char *list = mot_alloc(bytes);
    char *end = list;
    *end = '\0';
    for (int i = 0; i < N_REWARDS; i++) {
        if (i > 0) { end = stpcpy(end, ", "); }
        end = stpcpy(end, names[i]);
    }
    const char *nearest = mot_nearest_name(name, names);
    const int result = mot_fail(EINVAL, "unknown reward \"%.60s\"%s%s%s; there are: %s", name,
                                nearest ? ", did you mean \"" : "", nearest ? nearest : "",
                                nearest ? "\"" : "", list);
    free(list);
    return result;
}

int mot_reward_find(const char *option, const struct mot_reward **reward, const char **settings)
{
    MOT_ASSERT(option && reward && settings);
    const size_t length = strcspn(option, ":");
    for (int i = 0; i < N_REWARDS; i++) {
        const struct mot_reward *r = rewards[i];
        if (strlen(r->name) != length || memcmp(r->name, option, length) != 0) { continue; }
        if (option[length] == ':' && !r->open) {
            return mot_fail(EINVAL, "reward %s takes no settings, found \":%.60s\"", r->name,
                            option + length + 1);
        }
        *reward = r;
        *settings = option[length] == ':' ? option + length + 1 : NULL;
        return 0;
    }
    char *name = mot_strdup(option);
    name[length] = '\0';
    const int result = fail_unknown(name);
    free(name);
    return result;
}
