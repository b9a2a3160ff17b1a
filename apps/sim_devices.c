/* sim_devices: how many devices of each class there are, and which stage they are for. */
#include "error.h"
#include "machine.h"
#include "sim.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Tasks by name too, which a machine file may give durations for. */
static const char *const generating[] = {"generate", "rollout.generate", "rollout.prefill"};
static const char *const training[] = {"gradient", "train.gradient"};

static void divide(struct mot_machine *m, int class, int generate, int train)
{
    int trains = class;
    if (generate > 0 && train > 0) {
        char *name = mot_format("%s-train", m->classes[class].name);
        trains = mot_machine_split(m, class, generate, name);
        free(name);
    }
    for (size_t i = 0; i < sizeof(training) / sizeof(training[0]) && generate > 0; i++) {
        mot_machine_forbid(m, class, training[i]);
    }
    for (size_t i = 0; i < sizeof(generating) / sizeof(generating[0]) && train > 0; i++) {
        mot_machine_forbid(m, trains, generating[i]);
    }
}

/* A number of devices at *at, which moves on; -1: there is none. */
static int read_count(const char **at)
{
    char *end;
    if (!isdigit((unsigned char)**at)) { return -1; }
    const long n = strtol(*at, &end, 10);
    *at = end;
    return n <= MOT_MACHINE_DEVICES_MAX ? (int)n : -1;
}

/* "CLASS=N" or "CLASS=G+T", n bytes without blanks around. */
static int read_item(struct mot_machine *m, const char *item, size_t n)
{
    const char *equals = memchr(item, '=', n), *at = equals ? equals + 1 : item;
    const int first = equals ? read_count(&at) : -1, two = first >= 0 && *at == '+';
    if (two) { at++; }
    const int second = two ? read_count(&at) : 0;
    if (first < 0 || second < 0 || at != item + n) {
        return mot_fail(EINVAL, "devices: '%.*s' is not CLASS=N or CLASS=GENERATE+TRAIN (0 to %d)",
                        (int)n, item, MOT_MACHINE_DEVICES_MAX);
    }
    const int class = mot_machine_class_find(m, item, (size_t)(equals - item));
    if (class < 0) {
        return mot_fail(EINVAL, "devices: %s has no class '%.*s'", m->path, (int)(equals - item),
                        item);
    }
    const int error = mot_machine_set_count(m, class, first + second);
    if (!error && two && first + second > 0) { divide(m, class, first, second); }
    return error;
}

int mot_sim_devices(struct mot_machine *machine, const char *text)
{
    int error = 0;
    while (!error && text != NULL && *text) {
        text += strspn(text, " ");
        const size_t length = strcspn(text, ",");
        size_t n = length;
        while (n > 0 && text[n - 1] == ' ') { n--; }
        error = read_item(machine, text, n);
        text += length + (text[length] == ',');
    }
    return error;
}
