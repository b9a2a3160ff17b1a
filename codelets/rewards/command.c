/* command: an external program scores: "command:PROGRAM ARGS" or
 * "command:[processes=4,timeout=10] PROGRAM ARGS".
 *
 * The program is run by /bin/sh, in `processes` copies, and gets one JSON object a line on its
 * standard input:
 *   {"prompt": text, "completion": text, "answer": text or null, "ids": [ids of the completion],
 *    "ended": bool, and the data row's other columns}
 * It answers each line with one line: a number, {"reward": number}, or null, none, {"reward":
 * null}: it abstains.  It must flush after each line.  An answer that is none of these, NaN or
 * infinite, no answer within `timeout` seconds (the program is then killed), or an end of the
 * program is an error of the verifier: counted, never a silent 0.  Standard error goes to the
 * terminal. Nothing waits: begin() writes to the pool's queue, the pool's thread reports.  See
 * process_pool.h. */
#include "error.h"
#include "json.h"
#include "process_pool.h"
#include "reward.h"
#include "subprocess.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PROCESSES_DEFAULT = 4, PROCESSES_MAX = 256, WARNINGS_MAX = 5 };
#define TIMEOUT_DEFAULT_S 10.0
#define TIMEOUT_MAX_S     86400.0

struct command {
    char *program;
    struct mot_pool *pool;
    atomic_int warnings; /* the first few errors are shown, all are counted */
};

/* One question under way. */
struct question {
    struct command *command;
    void (*finished)(void *context, const struct mot_score *score);
    void *context;
};

struct settings {
    int processes;
    double timeout_s;
};

/* One "key=value" of length n. */
static int parse_setting(const char *text, size_t n, struct settings *settings)
{
    char *setting = mot_format("%.*s", (int)n, text);
    char *equals = strchr(setting, '='), *end = NULL;
    const double value = equals ? strtod(equals + 1, &end) : 0.0;
    int status = -EINVAL;
    const int parsed = equals && end != equals + 1 && *end == 0;
    if (equals) { *equals = 0; }
    if (parsed && strcmp(setting, "processes") == 0 && value >= 1.0 && value <= PROCESSES_MAX
        && value == floor(value)) {
        settings->processes = (int)value;
        status = 0;
    } else if (parsed && strcmp(setting, "timeout") == 0 && value > 0.0 && value <= TIMEOUT_MAX_S) {
        settings->timeout_s = value;
        status = 0;
    }
    if (status) {
        mot_fail(EINVAL, "reward command: \"%.*s\" is neither processes=1..%d nor timeout=SECONDS",
                 n < 60 ? (int)n : 60, text, PROCESSES_MAX);
    }
    free(setting);
    return status;
}

/* "[processes=4,timeout=10] PROGRAM": *program is PROGRAM's start, inside text. */
static int parse_settings(const char *text, struct settings *settings, const char **program)
{
    *settings = (struct settings){PROCESSES_DEFAULT, TIMEOUT_DEFAULT_S};
    *program = text;
    if (*text != '[' || text[1] == ' ') { return 0; } /* "[ " is a test of the shell */
    text++;
    while (*text != ']') {
        const size_t n = strcspn(text, ",]");
        if (text[n] == 0) { return mot_fail(EINVAL, "reward command: \"]\" is missing"); }
        const int status = parse_setting(text, n, settings);
        if (status) { return status; }
        text += n + (text[n] == ',');
    }
    *program = text + 1 + strspn(text + 1, " ");
    return 0;
}

static int command_open(const char *settings_text, void **state)
{
    struct settings settings;
    const char *program;
    if (!settings_text || !*settings_text) {
        return mot_fail(EINVAL, "reward command: the program is missing; write "
                                "\"command:PROGRAM ARGS\"");
    }
    int status = parse_settings(settings_text, &settings, &program);
    if (!status) { status = mot_subprocess_check(program); }
    if (status) { return -EINVAL; }
    struct mot_pool *pool;
    status = mot_pool_create(program, settings.processes, settings.timeout_s, &pool);
    if (status) { return status; }
    struct command *command = mot_alloc_zeroed(1, sizeof(*command));
    command->program = mot_strdup(program);
    command->pool = pool;
    *state = command;
    return 0;
}

static void command_close(void *state)
{
    struct command *command = state;
    if (!command) { return; }
    mot_pool_destroy(command->pool);
    free(command->program);
    free(command);
}

/* The reward in a reply.  0, or -1: it is none. */
static int parse_reply(const char *reply, struct mot_score *score)
{
    char why[160];
    reply += strspn(reply, " \t");
    if (strncasecmp(reply, "none", 4) == 0 && reply[4 + strspn(reply + 4, " \t")] == 0) {
        score->abstains = 1;
        return 0;
    }
    json_t *value = mot_json_decode(reply, strlen(reply), why, sizeof(why));
    const json_t *reward = json_is_object(value) ? json_object_get(value, "reward") : value;
    const int is_none =
        json_is_null(reward)
        || (json_is_string(reward) && strcasecmp(json_string_value(reward), "none") == 0);
    int status = 0;
    if (is_none) {
        score->abstains = 1;
    } else if (json_is_number(reward) && isfinite((float)json_number_value(reward))) {
        score->value = json_number_value(reward);
    } else {
        status = -1;
    }
    json_decref(value);
    return status;
}

static void replied(void *context, int status, const char *reply)
{
    struct question *question = context;
    struct command *command = question->command;
    struct mot_score score = {0};
    const int unreadable = status == 0 && parse_reply(reply, &score) != 0;
    score.error = status != 0 || unreadable;
    const int shown = score.error && status != -ECANCELED
                      && atomic_fetch_add(&command->warnings, 1) < WARNINGS_MAX;
    if (shown && unreadable) {
        mot_warn("reward command '%.60s': '%.60s' is no reward (a number, {\"reward\": number} or "
                 "none)",
                 command->program, reply);
    } else if (shown) {
        mot_warn("reward command '%.60s': %s", command->program,
                 status == -ETIMEDOUT  ? "no answer in time; killed and started again"
                 : status == -EMSGSIZE ? "an endless line; killed and started again"
                                       : "ended without an answer");
    }
    question->finished(question->context, &score);
    free(question);
}

/* The request, one line.  A column named like one of ours does not hide it. */
static char *request_line(const struct mot_reward_input *input)
{
    json_t *ids = json_array();
    for (int i = 0; i < input->n_ids; i++) {
        json_array_append_new(ids, json_integer(input->ids[i]));
    }
    json_t *object = json_object();
    json_object_set_new(object, "prompt", mot_json_string(input->prompt, strlen(input->prompt)));
    json_object_set_new(object, "completion",
                        mot_json_string(input->completion, input->completion_bytes));
    json_object_set_new(object, "answer",
                        input->answer ? mot_json_string(input->answer, strlen(input->answer))
                                      : json_null());
    json_object_set_new(object, "ids", ids);
    json_object_set_new(object, "ended", json_boolean(input->ended));
    json_t *columns = json_deep_copy(input->columns); /* shared between threads: no references */
    const char *key;
    json_t *value;
    json_object_foreach(columns, key, value)
    {
        if (!json_object_get(object, key)) { json_object_set(object, key, value); }
    }
    char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)); /* columns: exact */
    MOT_ASSERT(line);
    json_decref(columns);
    json_decref(object);
    return line;
}

static void command_begin(void *state, const struct mot_reward_input *input,
                          void (*finished)(void *context, const struct mot_score *score),
                          void *context)
{
    struct command *command = state;
    struct question *question = mot_alloc(sizeof(*question));
    *question = (struct question){command, finished, context};
    char *line = request_line(input);
    mot_pool_submit(command->pool, line, replied, question);
    free(line);
}

const struct mot_reward mot_reward_command = {
    .name = "command",
    .help = "what the program of command:PROGRAM ARGS, or of command:[processes=4,timeout=10] "
            "PROGRAM ARGS, answers to a JSON line {\"prompt\", \"completion\", \"answer\", ...}: a "
            "number, {\"reward\": number}, or none; timeout in seconds",
    .open = command_open,
    .close = command_close,
    .begin = command_begin,
};
