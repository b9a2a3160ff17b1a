/* Rewards: a table of completion and answer to score for each built-in one, wrong and malformed
 * ones included (peers row 16); equal scores on any thread, errors counted and never a silent 0
 * (peers row 14); unknown names and settings are messages; texts of a megabyte that invite
 * quadratic time, deep recursion or a read past the end. */
#include "answer_text.h"
#include "error.h"
#include "reward.h"
#include "rng.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct row {
    const char *option, *completion, *answer;
    double value; /* -1: an error */
};

#define TAIL_10  "and so on "
#define TAIL_100 TAIL_10 TAIL_10 TAIL_10 TAIL_10 TAIL_10 TAIL_10 TAIL_10 TAIL_10 TAIL_10 TAIL_10
#define TAIL_500 TAIL_100 TAIL_100 TAIL_100 TAIL_100 TAIL_100
#define MINUS    "\xe2\x88\x92"
#define EURO     "\xe2\x82\xac"

static const struct row rows[] = {
    {"exact", "42", "42", 1},
    {"exact", " \t42\r\n", "42", 1},
    {"exact", "42", "\n42 ", 1},
    {"exact", "42.", "42", 0},
    {"exact", "", "42", 0},
    {"exact", "", "", 1},
    {"exact", "  ", "", 1},
    {"exact", "4 2", "42", 0},
    {"exact", "Paris", "paris", 0},
    {"exact:ignore_case", "PaRiS ", "paris", 1},
    {"exact:ignore_case", "Pari", "paris", 0},
    {"exact:ignore_case", "[", "{", 0},
    {"exact", "42", NULL, -1},

    {"number", "The answer is 42", "42", 1},
    {"number", "42 is it", "42", 1},
    {"number", "first 41, then 42", "42", 1},
    {"number", "first 42, then 41", "42", 0},
    {"number", "4", "42", 0},
    {"number", "142", "42", 0},
    {"number", "no number", "42", 0},
    {"number", "", "42", 0},
    {"number", "1,234", "1234", 1},
    {"number", "1234", "1,234", 1},
    {"number", "12,345,678.90", "12345678.9", 1},
    {"number", "1,2,3", "123", 0},
    {"number", "1,2,3", "3", 1},
    {"number", "1234,567", "567", 1},
    {"number", "1,2345", "2345", 1},
    {"number", "in 2010,2011", "2011", 1},
    {"number", "$18.00", "18", 1},
    {"number", "18.", "18", 1},
    {"number", "18.5.", "18.5", 1},
    {"number", "3.5.2", "2", 1},
    {"number", "-3", "-3", 1},
    {"number", MINUS "3", "-3", 1},
    {"number", "3", "-3", 0},
    {"number", "+3", "3", 1},
    {"number", "10-3", "3", 1},
    {"number", "x-3", "3", 1},
    {"number", "(1)-3", "3", 1},
    {"number", "10 -- 3", "3", 1},
    {"number", "a--3", "3", 1},
    {"number", "10 - 3", "3", 1},
    {"number", "7" MINUS "3", "3", 1},
    {"number", "=-3", "-3", 1},
    {"number", "**-3**", "-3", 1},
    {"number", "-$5", "-5", 1},
    {"number", "$-5", "-5", 1},
    {"number", "\\$5", "5", 1},
    {"number", "-" EURO "5", "-5", 1},
    {"number", "50%", "50", 1},
    {"number", "50%-60", "60", 1},
    {"number", ".5", "0.5", 1},
    {"number", "0.50", ".5", 1},
    {"number", "-0", "0", 1},
    {"number", "-0.0", "0", 1},
    {"number", "-0.5", "0.5", 0},
    {"number", "007", "7", 1},
    {"number", "0,007", "7", 1},
    {"number", "0.1", "0.10000000000000000001", 0},
    {"number", "9007199254740993", "9007199254740992", 0},
    {"number", "0.30000000000000004", "0.3", 0},
    {"number", "1000", "100", 0},
    {"number", "0.01", "0.1", 0},
    {"number", "1.05", "1.5", 0},
    {"number", "10", "1", 0},
    {"number",
     "\xff\xfe"
     "42\xff",
     "42", 1},
    {"number", "42", "so 41\n#### 42\nof 43", 1},
    {"number", "42", "none", -1},
    {"number", "42", "", -1},
    {"number", "42", NULL, -1},

    {"gsm8k", "#### 42", "42", 1},
    {"gsm8k:strict", "#### 42", "42", 1},
    {"gsm8k", "#### 42" TAIL_500, "42", 1},
    {"gsm8k", "#### 42 of 50", "42", 1},
    {"gsm8k", "####42", "42", 1},
    {"gsm8k", "#### \t42", "42", 1},
    {"gsm8k", "#### $1,234.00", "1234", 1},
    {"gsm8k", "#### -3", "-3", 1},
    {"gsm8k", "#### " MINUS "3", "-3", 1},
    {"gsm8k", "#### -$3", "-3", 1},
    {"gsm8k", "#### $-3", "-3", 1},
    {"gsm8k", "#### " EURO "3", "3", 1},
    {"gsm8k", "#### 18.", "18", 1},
    {"gsm8k", "#### 41\n#### 42", "42", 1},
    {"gsm8k", "#### 42\n#### 41", "42", 0},
    {"gsm8k", "#### 42\n#### none", "42", 1},
    {"gsm8k", "##### 42", "42", 1},
    {"gsm8k", "### 42", "42", 0},
    {"gsm8k", "####", "42", 0},
    {"gsm8k", "####\n42", "42", 0},
    {"gsm8k", "#### x 42", "42", 0},
    {"gsm8k", "#### --42", "42", 0},
    {"gsm8k", "42", "42", 0},
    {"gsm8k", "\\boxed{42}", "42", 0},
    {"gsm8k", "#### 18", "She makes 9 * 2 = $<<9*2=18>>18.\n#### 18", 1},
    {"gsm8k", "#### 9", "She makes 9 * 2 = $<<9*2=18>>18.\n#### 18", 0},
    {"gsm8k", "#### 9", "nothing", -1},
    {"gsm8k:flexible", "42", "#### 42", 1},
    {"gsm8k:flexible", "#### 42" TAIL_500, "42", 1},
    {"gsm8k:flexible", "\\boxed{1,234}", "1234", 1},
    {"gsm8k:flexible", "$18.00", "18", 1},
    {"gsm8k:flexible", "-3", "-3", 1},
    {"gsm8k:flexible", "it is 18.", "18", 1},
    {"gsm8k:flexible", "18 and then 19", "18", 0},
    {"gsm8k:flexible", "", "18", 0},
    {"gsm8k:flexible", "18", NULL, -1},

    {"boxed", "so \\boxed{42}.", "42", 1},
    {"boxed", "\\boxed{41} no, \\boxed{42}", "42", 1},
    {"boxed", "\\boxed{42} no, \\boxed{41}", "42", 0},
    {"boxed", "\\boxed{42} and \\boxed{4", "42", 1},
    {"boxed", "\\boxed{42", "42", 0},
    {"boxed", "\\boxed 42", "42", 0},
    {"boxed", "boxed{42}", "42", 0},
    {"boxed", "\\unboxed{42}", "42", 0},
    {"boxed", "\\fbox{42}", "42", 1},
    {"boxed", "\\boxed {42}", "42", 1},
    {"boxed", "{\\boxed{42}", "42", 1},
    {"boxed", "}\\boxed{42}}}", "42", 1},
    {"boxed", "\\boxed{\\boxed{42}}", "42", 1},
    {"boxed", "\\boxed{\\frac{1}{2}}", "\\frac{1}{2}", 1},
    {"boxed", "\\boxed{\\dfrac{1}{2}}", "\\frac{1}{2}", 1},
    {"boxed", "\\boxed{\\frac{12}{3}}", "\\frac{1}{23}", 0},
    {"boxed", "\\boxed{\\{1\\}}", "\\{1\\}", 1},
    {"boxed", "\\boxed{\\}}", "\\}", 1},
    {"boxed", "\\boxed{a\\\\}", "a\\\\", 1},
    {"boxed", "\\boxed{1,234}", "1234", 1},
    {"boxed", "\\boxed{1{,}234}", "1234", 1},
    {"boxed", "\\boxed{10,\\!000}", "10000", 1},
    {"boxed", "\\boxed{\\$18.00}", "18", 1},
    {"boxed", "\\boxed{50\\%}", "50", 1},
    {"boxed", "\\boxed{90^\\circ}", "90", 1},
    {"boxed", "\\boxed{-3}", MINUS "3", 1},
    {"boxed", "\\boxed{1,2}", "1, 2", 1},
    {"boxed", "\\boxed{1,2}", "12", 0},
    {"boxed", "\\boxed{\\left( 1, 2 \\right)}", "(1,2)", 1},
    {"boxed", "\\boxed{\\leftarrow}", "arrow", 0},
    {"boxed", "\\boxed{\\text{red}}", "red", 1},
    {"boxed", "\\boxed{x^2 + 1}", "x^2+1", 1},
    {"boxed", "\\boxed{x.}", "x", 1},
    {"boxed", "\\boxed{}", "42", 0},
    {"boxed", "\\boxed{}", "", 1},
    {"boxed", "\\boxed{--5}", "5", 0},
    {"boxed", "\\boxed{18}", "9 * 2 = 18\n#### 18", 1},
    {"boxed", "\\boxed{-18}", "9 * 2 = 18\n#### -18", 1},
    {"boxed", "\\boxed{x}", "Then $\\boxed{x}$.", 1},
    {"boxed", "42", "42", 0},
    {"boxed", "\\boxed{42}", NULL, -1},

    {"format:<think>.*</think>\\s*<answer>.*</answer>", "<think>a\nb</think>\n<answer>1</answer>",
     NULL, 1},
    {"format:<think>.*</think>\\s*<answer>.*</answer>", "<think>a</think><answer>1</answer> and",
     NULL, 0},
    {"format:<think>.*</think>\\s*<answer>.*</answer>", "so <think>a</think><answer>1</answer>",
     NULL, 0},
    {"format:a*", "", NULL, 1},
    {"format:a*", "aaa", NULL, 1},
    {"format:a*", "aab", NULL, 0},
    {"format:a|ab", "ab", NULL, 1},
    {"format:.*b.*", "abc", NULL, 1},
    {"format:^\\d+$", "42", NULL, 1},
    {"format:\\d+:\\d+", "4:2", NULL, 1},
    {"format:.", "\xc3\xa9", NULL, 1},
    {"format:.*", "\xff\xfe", NULL, 0},
    {"format:.*", "ab\xff", NULL, 0},
    {"format:.*",
     "\xff"
     "ab",
     NULL, 0},
    {"format:(a|aa)+", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", NULL, -1},
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* The score of text (n bytes) by the reward that option names. */
static struct mot_score score_of(const char *option, const char *text, size_t n, const char *answer)
{
    const struct mot_reward *reward;
    const char *settings;
    void *state = NULL;
    MOT_ASSERT(mot_reward_find(option, &reward, &settings) == 0); /* cmocka's are for one thread */
    MOT_ASSERT(!reward->open || reward->open(settings, &state) == 0);
    const struct mot_reward_input input = {
        .prompt = "", .completion = text, .completion_bytes = n, .answer = answer, .ended = 1};
    struct mot_score score = {.value = -7.0, .abstains = 1, .error = 1};
    reward->score(state, &input, &score);
    if (reward->close) { reward->close(state); }
    return score;
}

/* 1 when the row's score is right; says what is wrong otherwise.  The completion is copied to the
 * end of a block of its own size, so that the address sanitizer sees a read past it. */
static int is_right(const struct row *row)
{
    const size_t n = strlen(row->completion);
    char *text = mot_alloc(n + 1);
    memcpy(text, row->completion, n + 1);
    const struct mot_score score = score_of(row->option, text, n, row->answer);
    free(text);
    const double value = score.error ? -1 : score.value;
    const int right = value == row->value && !score.abstains;
    if (!right) {
        print_error("%s of \"%.60s\" with answer \"%.60s\": want %g, got %g\n", row->option,
                    row->completion, row->answer ? row->answer : "NULL", row->value, value);
    }
    return right;
}

static void test_scores(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_ROWS; i++) { wrong += !is_right(&rows[i]); }
    assert_int_equal(wrong, 0);
}

static void *score_all(void *wrong)
{
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < N_ROWS; i++) { *(int *)wrong += !is_right(&rows[i]); }
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    enum { N = 4 };
    pthread_t thread[N];
    int wrong[N] = {0};
    for (int i = 0; i < N; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, score_all, &wrong[i]), 0);
    }
    for (int i = 0; i < N; i++) { pthread_join(thread[i], NULL); }
    for (int i = 0; i < N; i++) { assert_int_equal(wrong[i], 0); }
}

/* One compiled pattern, matched on several threads at once. */
static void *match_shared(void *argument)
{
    void **shared = argument; /* reward, state, how often wrong */
    const struct mot_reward *reward = shared[0];
    for (int i = 0; i < 2000; i++) {
        const char *text = i % 2 ? "<a>1</a>" : "<a>1</b>";
        const struct mot_reward_input input = {.completion = text, .completion_bytes = 8};
        struct mot_score score;
        reward->score(shared[1], &input, &score);
        if (score.error || score.value != i % 2) { __atomic_fetch_add((int *)shared[2], 1, 0); }
    }
    return NULL;
}

static void test_shared_state(void **state)
{
    (void)state;
    const struct mot_reward *reward;
    const char *settings;
    void *format;
    int wrong = 0;
    assert_int_equal(mot_reward_find("format:<a>.*</a>", &reward, &settings), 0);
    assert_int_equal(reward->open(settings, &format), 0);
    void *shared[] = {(void *)reward, format, &wrong};
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) { pthread_create(&thread[i], NULL, match_shared, shared); }
    for (int i = 0; i < 4; i++) { pthread_join(thread[i], NULL); }
    reward->close(format);
    assert_int_equal(wrong, 0);
}

/* option is refused by find or open, with a message that holds part. */
static void assert_refused(const char *option, const char *part)
{
    const struct mot_reward *reward;
    const char *settings;
    void *state = NULL;
    int result = mot_reward_find(option, &reward, &settings);
    if (result == 0) { result = reward->open(settings, &state); }
    assert_int_equal(result, -EINVAL);
    if (!strstr(mot_last_message(), part)) { fail_msg("%s: %s", option, mot_last_message()); }
}

static void test_refused(void **state)
{
    (void)state;
    assert_refused("gsm8", "did you mean \"gsm8k\"");
    assert_refused("zzzzzzzz", "boxed, ");
    assert_refused("zzzzzzzz", ", gsm8k, ");
    assert_refused("", "unknown reward \"\"");
    assert_refused(":", "unknown reward \"\"");
    assert_refused("exac:x", "did you mean \"exact\"");
    assert_refused("number:x", "takes no settings");
    assert_refused("number:", "takes no settings");
    assert_refused("boxed:x", "takes no settings");
    assert_refused("exact:x", "unknown setting \"x\"");
    assert_refused("exact:", "unknown setting");
    assert_refused("gsm8k:strict ", "unknown setting");
    assert_refused("format", "pattern is missing");
    assert_refused("format:", "pattern is missing");
    assert_refused("format:a(b", "missing closing parenthesis at character 4");
    assert_refused("format:\xff", "UTF-8");
    assert_refused("format:[z-a]", "range out of order");
}

static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < mot_reward_count(); i++) {
        const struct mot_reward *reward = mot_reward_at(i), *found;
        const char *settings;
        assert_true(!reward->score != !reward->begin);
        assert_non_null(reward->help);
        assert_int_equal(mot_reward_find(reward->name, &found, &settings), 0);
        assert_ptr_equal(found, reward);
        assert_null(settings);
        if (i > 0) { assert_true(strcmp(mot_reward_at(i - 1)->name, reward->name) < 0); }
    }
}

enum { HOSTILE_BYTES = 1000 * 1000 };

/* HOSTILE_BYTES bytes of pattern again and again, and zero-terminated. */
static char *repeated(const char *pattern, size_t n_pattern)
{
    char *text = mot_alloc(HOSTILE_BYTES + 1);
    for (size_t i = 0; i < HOSTILE_BYTES; i++) { text[i] = pattern[i % n_pattern]; }
    text[HOSTILE_BYTES] = '\0';
    return text;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Quadratic time on a megabyte would be minutes; linear is milliseconds, also under a sanitizer. */
static void test_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        size_t n;
    } patterns[] = {{"9", 1},        {"\\", 1},        {"{", 1},          {"}", 1},   {"{}", 2},
                    {"\\boxed{", 7}, {"\\boxed{}", 8}, {"\\boxed{\\", 8}, {"#", 1},   {"#### ", 5},
                    {"#### -", 6},   {"1,", 2},        {"1,234", 5},      {",", 1},   {".", 1},
                    {"-", 1},        {"$", 1},         {" ", 1},          {"\0", 1},  {"1\0", 2},
                    {MINUS, 3},      {"\xe2\x88", 2},  {"\xff", 1},       {"1.2", 3}, {"0", 1},
                    {" {", 2},       {"\\left", 5},    {"\\text{", 6},    {"<a>", 3}, {"a", 1}};
    static const char *const options[] = {"boxed",          "exact",  "format:(<a>)*",  "gsm8k",
                                          "gsm8k:flexible", "number", "format:(a|aa)+b"};
    const double start = seconds();
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        char *text = repeated(patterns[i].pattern, patterns[i].n);
        for (size_t j = 0; j < sizeof(options) / sizeof(options[0]); j++) {
            const struct mot_score short_answer = score_of(options[j], text, HOSTILE_BYTES, "42");
            assert_true(short_answer.value == 0.0 || short_answer.value == 1.0);
            score_of(options[j], text, HOSTILE_BYTES, text);
        }
        free(text);
    }
    assert_true(seconds() - start < 60.0);
}

/* The plain, quadratic search that mot_boxed_last must agree with; braces and names only. */
static const char *slow_boxed(const char *text, size_t *n)
{
    for (const char *box = text + strlen(text); box-- > text;) {
        if (strncmp(box, "\\boxed{", 7) != 0) { continue; }
        int depth = 0;
        for (const char *end = box + 6; *end; end++) {
            depth += (*end == '{') - (*end == '}');
            if (depth > 0) { continue; }
            *n = (size_t)(end - (box + 7));
            return box + 7;
        }
    }
    return NULL;
}

/* Random texts of the pieces that the rewards look for: the box is the one the plain search finds,
 * a text that is one number ends in that number, and nothing crashes. */
static void test_random(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "\\boxed{", "{", "}", "1",   "23",   "456", ",",  ".",      "-", "####", " ",
        "$",        "%", "x", MINUS, "\xff", "0",   "\n", "\\text", "+", EURO,   "\xe2"};
    enum { N_PIECES = sizeof(pieces) / sizeof(pieces[0]) };
    static const char *const options[] = {"boxed", "gsm8k", "gsm8k:flexible", "format:(.|1)*x"};
    for (uint32_t i = 0; i < 20000; i++) {
        char text[256] = "";
        const uint32_t length = mot_uniform_int(1, MOT_RNG_TEST, i, 0, 0, 16);
        for (uint32_t j = 0; j < length; j++) {
            strcat(text, pieces[mot_uniform_int(1, MOT_RNG_TEST, i, 1, j, N_PIECES)]);
        }
        const size_t n = strlen(text);
        size_t n_slow = 0, n_fast = 0;
        const char *slow = slow_boxed(text, &n_slow), *fast = NULL;
        mot_boxed_last(text, n, &fast, &n_fast);
        assert_ptr_equal(slow, fast);
        assert_int_equal(n_slow, n_fast);
        struct mot_number whole, last;
        if (mot_number_whole(text, n, &whole)) {
            assert_true(mot_number_last(text, n, &last) && mot_numbers_equal(&whole, &last));
        }
        for (int j = 0; j < 4; j++) { score_of(options[j], text, n, text); }
    }
}

/* A megabyte of digits is still compared exactly. */
static void test_long_numbers(void **state)
{
    (void)state;
    char *text = repeated("9", 1), *answer = repeated("9", 1);
    assert_true(score_of("number", text, HOSTILE_BYTES, answer).value == 1.0);
    answer[HOSTILE_BYTES / 2] = '8';
    assert_true(score_of("number", text, HOSTILE_BYTES, answer).value == 0.0);
    free(text);
    free(answer);
}

/* A completion may hold zero bytes: what comes after them counts. */
static void test_zero_bytes(void **state)
{
    (void)state;
    assert_true(score_of("number",
                         "41\0"
                         "42",
                         5, "42")
                    .value
                == 1.0);
    assert_true(score_of("exact", "42\0", 3, "42").value == 0.0);
    assert_true(score_of("gsm8k", "\0#### 42", 8, "42").value == 1.0);
    assert_true(score_of("boxed", "\0\\boxed{42}\0", 12, "42").value == 1.0);
    assert_true(score_of("format:a.b", "a\0b", 3, NULL).value == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),       cmocka_unit_test(test_threads),
        cmocka_unit_test(test_shared_state), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_table),        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_long_numbers), cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
