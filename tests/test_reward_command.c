/* Reward command: peers rows 13, 14, 15.  Numbers, objects and abstentions are read; each way to
 * fail is an error that is counted, never a silent 0; a verifier that sleeps for ever is killed at
 * the limit and the next answer is scored; what the program is sent; settings and their messages.
 * Run it alone: ./test_reward_command */
#include "error.h"
#include "reward.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct answer {
    int done;
    struct mot_score score;
};

static void finished(void *context, const struct mot_score *score)
{
    struct answer *answer = context;
    pthread_mutex_lock(&mutex);
    answer->score = *score;
    answer->done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static const struct mot_reward *reward;

static void *opened(const char *option)
{
    const char *settings;
    void *state = NULL;
    assert_int_equal(mot_reward_find(option, &reward, &settings), 0);
    assert_null(reward->score);
    assert_int_equal(reward->open(settings, &state), 0);
    return state;
}

static struct mot_score score_of(void *state, const char *completion, const json_t *columns)
{
    static const int32_t ids[] = {7, 11};
    const struct mot_reward_input input = {.prompt = "2+2?",
                                           .completion = completion,
                                           .completion_bytes = strlen(completion),
                                           .answer = "4",
                                           .columns = columns,
                                           .ids = ids,
                                           .n_ids = 2,
                                           .ended = 1};
    struct answer answer = {0};
    reward->begin(state, &input, finished, &answer);
    pthread_mutex_lock(&mutex);
    while (!answer.done) { pthread_cond_wait(&changed, &mutex); }
    pthread_mutex_unlock(&mutex);
    assert_int_equal(answer.done, 1);
    return answer.score;
}

static void test_replies(void **state)
{
    (void)state;
    enum { ABSTAINS = 1000, ERROR };
    const struct {
        const char *reply;
        double want;
    } cases[] = {{"1", 1},
                 {"-0.25", -0.25},
                 {" 1e-3 ", 1e-3},
                 {"{\"reward\": 0.5}", 0.5},
                 {"{\"reward\": 1, \"why\": [1, 2]}", 1},
                 {"none", ABSTAINS},
                 {"None", ABSTAINS},
                 {"null", ABSTAINS},
                 {"{\"reward\": null}", ABSTAINS},
                 {"{\"reward\": \"none\"}", ABSTAINS},
                 {"\"none\"", ABSTAINS},
                 {"", ERROR},
                 {"nan", ERROR},
                 {"inf", ERROR},
                 {"1e300", ERROR},
                 {"true", ERROR},
                 {"1 2", ERROR},
                 {"10abc", ERROR},
                 {"nonetheless", ERROR},
                 {"{\"score\": 1}", ERROR},
                 {"{\"reward\": 1, \"reward\": 0}", ERROR},
                 {"[1]", ERROR},
                 {"Traceback (most recent call last):", ERROR}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *option =
            mot_format("command:[processes=1] while read -r l; do echo '%s'; done", cases[i].reply);
        void *command = opened(option);
        for (int k = 0; k < 2; k++) {
            const struct mot_score score = score_of(command, "4", NULL);
            assert_int_equal(score.error, cases[i].want == ERROR);
            assert_int_equal(score.abstains, cases[i].want == ABSTAINS);
            if (cases[i].want < ABSTAINS) { assert_true(score.value == cases[i].want); }
        }
        reward->close(command);
        free(option);
    }
}

/* peers row 15 */
static void test_sleeps_for_ever(void **state)
{
    (void)state;
    void *command = opened("command:[processes=1,timeout=0.3] while read -r l; do case $l in "
                           "*hang*) sleep 1000;; *die*) exit 1;; esac; echo 1; done");
    assert_int_equal(score_of(command, "hang", NULL).error, 1);
    assert_int_equal(score_of(command, "good", NULL).error, 0);
    assert_int_equal(score_of(command, "die", NULL).error, 1);
    const struct mot_score score = score_of(command, "good", NULL);
    assert_int_equal(score.error, 0);
    assert_true(score.value == 1.0);
    reward->close(command);
}

/* What arrives at the program, kept in a file. */
static void test_request(void **state)
{
    (void)state;
    char path[] = MOT_BINARY_DIR "/test_reward_command_XXXXXX";
    close(mkstemp(path));
    char *option =
        mot_format("command:[processes=1] while read -r l; do printf '%%s' \"$l\" >%s; echo 0; "
                   "done",
                   path);
    void *command = opened(option);
    json_t *columns = json_pack("{s:s, s:f, s:[i,i]}", "prompt", "hidden", "x", 0.1, "list", 1, 2);
    assert_int_equal(score_of(command, "a\n\"b\" \xff\xc3\xa9", columns).error, 0);
    json_t *sent = json_load_file(path, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(sent, "prompt")), "2+2?");
    assert_string_equal(json_string_value(json_object_get(sent, "completion")),
                        "a\n\"b\" \xef\xbf\xbd\xc3\xa9");
    assert_string_equal(json_string_value(json_object_get(sent, "answer")), "4");
    assert_int_equal(json_array_size(json_object_get(sent, "ids")), 2);
    assert_true(json_is_true(json_object_get(sent, "ended")));
    assert_true(json_real_value(json_object_get(sent, "x")) == 0.1);
    assert_int_equal(json_array_size(json_object_get(sent, "list")), 2);
    json_decref(sent);
    json_decref(columns);
    reward->close(command);
    free(option);
    unlink(path);
}

static void test_settings(void **state)
{
    (void)state;
    const char *const bad[] = {"command",
                               "command:",
                               "command:[processes=0] cat",
                               "command:[processes=1.5] cat",
                               "command:[timeout=0] cat",
                               "command:[timeout=nan] cat",
                               "command:[what=1] cat",
                               "command:[timeout=1 cat",
                               "command:[timeout=1]",
                               "command:no-such-program-here"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *settings;
        void *command = NULL;
        assert_int_equal(mot_reward_find(bad[i], &reward, &settings), 0);
        assert_int_equal(reward->open(settings, &command), -EINVAL);
        assert_null(command);
    }
    assert_non_null(strstr(mot_last_message(), "no-such-program-here"));
    reward->close(NULL);
    void *command = opened("command:[ 1 = 1 ] && while read -r l; do echo 3; done");
    assert_true(score_of(command, "x", NULL).value == 3.0);
    reward->close(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_sleeps_for_ever),
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_settings),
    };
    alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
