/* options: defaults, file and flags into one config; strictness (each bad value is refused with the
 * place and the cause in the message); the config written as YAML reads back the same, for random
 * texts and numbers too; --help.  Run it alone: ./test_options */
#include "error.h"
#include "file.h"
#include "options.h"
#include "rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct config {
    int batch;
    int64_t tokens;
    double rate, top;
    int shuffle, scale;
    char *output, *model;
    struct mot_list rewards;
};

#define AT(field) offsetof(struct config, field)
static const struct mot_option table[] = {
    {"batch_size", MOT_OPTION_INT, AT(batch), "8", NULL, 1, 4096, "prompts", "Prompts a step.",
     "Data"},
    {"max_tokens", MOT_OPTION_INT64, AT(tokens), "-1", NULL, 0, 0, "tokens", "Budget.", NULL},
    {"learning_rate", MOT_OPTION_FLOAT, AT(rate), "1e-6", NULL, 0, 1, NULL,
     "Step size of AdamW, a sentence that is long enough to be wrapped when the line is full.",
     "Optimiser"},
    {"top_p", MOT_OPTION_FLOAT, AT(top), "none", NULL, 0.1, 1, NULL, "Nucleus.", NULL},
    {"shuffle", MOT_OPTION_BOOL, AT(shuffle), "true", NULL, 0, 0, NULL, "Shuffle.", NULL},
    {"scale_rewards", MOT_OPTION_CHOICE, AT(scale), "group", "group=true|batch|none=false", 0, 0,
     NULL, "How.", NULL},
    {"output_dir", MOT_OPTION_STRING, AT(output), "", NULL, 0, 0, NULL, "Where.", NULL},
    {"model", MOT_OPTION_STRING, AT(model), "m", NULL, 0, 0, NULL, "What.", NULL},
    {"reward_funcs", MOT_OPTION_LIST, AT(rewards), "", NULL, 0, 0, NULL, "Rewards.", NULL},
    {0}};
static const struct mot_option needed[] = {
    {"model", MOT_OPTION_STRING, 0, NULL, NULL, 0, 0, NULL, "What.", NULL}, {0}};

static char yaml_path[] = MOT_BINARY_DIR "/test_options_XXXXXX";
static struct config config;
static struct mot_list positional;

#define message_is(text)  assert_string_equal(mot_last_message(), text)
#define message_has(text) assert_non_null(strstr(mot_last_message(), text))

/* Parses the words after the table; ended by NULL. */
static int parse(const char *word, ...)
{
    char *argv[32] = {(char *)"motley"};
    int argc = 1;
    va_list args;
    va_start(args, word);
    for (; word; word = va_arg(args, const char *)) { argv[argc++] = (char *)word; }
    va_end(args);
    memset(&config, 0xaa, sizeof(config));
    return mot_options_parse(table, &config, argc, argv, 1, &positional, "usage: motley");
}

static int parse_yaml_n(const char *yaml, size_t n)
{
    assert_int_equal(mot_file_write(yaml_path, yaml, n), 0);
    return parse("--config", yaml_path, NULL);
}

static int parse_yaml(const char *yaml)
{
    return parse_yaml_n(yaml, strlen(yaml));
}

static void release(void)
{
    mot_options_free(table, &config);
    mot_list_free(&positional);
}

static void test_defaults_and_flags(void **state)
{
    (void)state;
    assert_int_equal(parse(NULL), 0);
    assert_int_equal(config.batch, 8);
    assert_int_equal(config.tokens, -1);
    assert_true(config.rate == 1e-6);
    assert_true(isnan(config.top));
    assert_int_equal(config.shuffle, 1);
    assert_int_equal(config.scale, 0);
    assert_null(config.output);
    assert_string_equal(config.model, "m");
    assert_int_equal(config.rewards.n, 0);
    release();

    assert_int_equal(parse("in", "--batch-size", "4", "--learning_rate=2e-3", "--no_shuffle",
                           "--max-tokens", "-5", "--top_p", ".5", "--model=--x", "--reward_funcs",
                           "a,b", "c", "--scale-rewards", "none", "--", "--out", "-", NULL),
                     0);
    assert_int_equal(config.batch, 4);
    assert_true(config.rate == 2e-3);
    assert_int_equal(config.shuffle, 0);
    assert_int_equal(config.tokens, -5);
    assert_true(config.top == 0.5);
    assert_string_equal(config.model, "--x");
    assert_int_equal(config.rewards.n, 2);
    assert_string_equal(config.rewards.item[0], "a,b");
    assert_int_equal(config.scale, 2);
    assert_int_equal(positional.n, 3);
    assert_string_equal(positional.item[1], "--out");
    release();
    assert_int_equal(parse("--shuffle", "x", "--batch_size", "1", "--batch_size", "2", NULL), 0);
    assert_int_equal(config.shuffle, 1);
    assert_int_equal(config.batch, 2);
    assert_string_equal(positional.item[0], "x");
    release();
    assert_int_equal(parse("--shuffle", "off", "--top_p", "none", "--output_dir=", NULL), 0);
    assert_int_equal(config.shuffle, 0);
    assert_null(config.output);
    release();
}

static void test_lists(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int n;
        const char *items[3];
    } cases[] = {
        {"a,b", 2, {"a", "b"}},
        {"[a, 'b, c']", 2, {"a", "b, c"}},
        {"", 0, {0}},
        {"[]", 0, {0}},
        {"command[processes=2,timeout=3]:x, y", 2, {"command[processes=2,timeout=3]:x", "y"}},
        {"format:a{1,2}", 1, {"format:a{1,2}"}},
        {"\"a,b\",c", 2, {"a,b", "c"}},
        {"don't,stop", 2, {"don't", "stop"}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse("--reward_funcs", cases[i].text, NULL), 0);
        assert_int_equal(config.rewards.n, cases[i].n);
        for (int k = 0; k < cases[i].n; k++) {
            assert_string_equal(config.rewards.item[k], cases[i].items[k]);
        }
        release();
    }
}

static void test_bad_flags(void **state)
{
    (void)state;
    const char *const numbers[] = {"10abc",
                                   "1.5",
                                   "",
                                   " 1",
                                   "1_000",
                                   "0x10",
                                   "1e3",
                                   "010",
                                   "0",
                                   "4097",
                                   "99999999999999999999",
                                   "nan"};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_int_equal(parse("--batch_size", numbers[i], NULL), -EINVAL);
        const int is_number = strcmp(numbers[i], "0") == 0 || strcmp(numbers[i], "4097") == 0;
        message_has("--batch_size: '");
        message_has(is_number ? "' is out of range: 1 to 4096 prompts"
                              : "' is not a whole number (1 to 4096 prompts)");
        assert_null(config.model);
    }
    const char *const floats[] = {"1e", "1e400", "inf", "0x1p-3", "1-6",
                                  ".",  "1,5",   "2",   "-0.1",   "none"};
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++) {
        assert_int_equal(parse("--learning_rate", floats[i], NULL), -EINVAL);
        const int is_number = strcmp(floats[i], "2") == 0 || strcmp(floats[i], "-0.1") == 0;
        message_has(is_number ? "is out of range: 0 to 1" : "is not a number (0 to 1)");
    }
    assert_int_equal(parse("--lerning-rate", "1", NULL), -EINVAL);
    message_is("unknown option --lerning-rate; did you mean learning_rate? (--help lists all)");
    assert_int_equal(parse("--confg=x", NULL), -EINVAL);
    message_has("did you mean config?");
    assert_int_equal(parse("--no_batch_size", NULL), -EINVAL);
    assert_int_equal(parse("-b", "1", NULL), -EINVAL);
    assert_int_equal(parse("--batch_size", "--shuffle", NULL), -EINVAL);
    message_has("--batch_size: a value is needed");
    assert_int_equal(parse("--batch_size", NULL), -EINVAL);
    assert_int_equal(parse("--scale_rewards", "x", NULL), -EINVAL);
    message_is("--scale_rewards: 'x' is not one of: group, batch, none");
    assert_int_equal(parse("--shuffle=2", NULL), -EINVAL);
    assert_int_equal(parse("--model", "\xc0\x80", NULL), -EINVAL);
    assert_int_equal(parse("--reward_funcs", "a", "\xed\xa0\x80", NULL), -EINVAL);
    assert_int_equal(parse("--config", NULL), -EINVAL);
    assert_int_equal(parse("--config", "a", "--config=b", NULL), -EINVAL);
    assert_int_equal(parse("--config", "/nowhere/x.yaml", NULL), -ENOENT);
    char *argv[] = {(char *)"motley", NULL}, *model = NULL;
    assert_int_equal(mot_options_parse(needed, &model, 1, argv, 1, NULL, NULL), -EINVAL);
    message_has("--model is needed");
    char *extra[] = {(char *)"motley", (char *)"--model=m", (char *)"x", NULL};
    assert_int_equal(mot_options_parse(needed, &model, 3, extra, 1, NULL, NULL), -EINVAL);
    assert_null(model);
}

static void test_yaml(void **state)
{
    (void)state;
    assert_int_equal(parse_yaml("# TRL\nbatch-size: 16\nlearning_rate: 1e-5 # small\nshuffle: No\n"
                                "top_p: ~\nscale_rewards: False\noutput_dir: 'a: b'\nmodel: null\n"
                                "reward_funcs:\n  - exact\n  - \"command:x,y\"\n"),
                     0);
    assert_int_equal(config.batch, 16);
    assert_true(config.rate == 1e-5);
    assert_true(isnan(config.top));
    assert_int_equal(config.shuffle, 0);
    assert_int_equal(config.scale, 2);
    assert_string_equal(config.output, "a: b");
    assert_null(config.model);
    assert_int_equal(config.rewards.n, 2);
    assert_string_equal(config.rewards.item[1], "command:x,y");
    release();
    const char *const fine[] = {"",
                                "\n\n",
                                "# nothing\n",
                                "---\n",
                                "---\n...\n",
                                "{}",
                                "top_p: None",
                                "top_p:\n",
                                "output_dir: \"null\"",
                                "\xef\xbb\xbf"
                                "batch_size: 2",
                                "{batch_size: 2, reward_funcs: [a, b]}",
                                "scale_rewards: null"};
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        assert_int_equal(parse_yaml(fine[i]), 0);
        release();
    }
    assert_int_equal(parse("--batch_size", "3", "--config", yaml_path, NULL), 0);
    assert_int_equal(config.batch, 3); /* the flag wins, wherever it stands */
    release();
}

static void test_null_number(void **state)
{
    (void)state;
    assert_int_equal(parse_yaml("batch_size: null\nlearning_rate: ~\ntop_p: null\n"), 0);
    assert_int_equal(config.batch, 8);
    assert_true(config.rate == 1e-6 && isnan(config.top));
    release();
}

static void test_bad_yaml(void **state)
{
    (void)state;
    const struct {
        const char *yaml;
        int line;
        const char *message;
    } cases[] = {
        {"batch_size: 10abc", 1, "batch_size: '10abc' is not a whole number"},
        {"\nbatch_size: 1.5", 2, "'1.5' is not a whole number"},
        {"batch_size: 1_000", 1, "'1_000' is not"},
        {"batch_size:", 1, "'' is not a whole number"},
        {"learning_rate: 2", 1, "is out of range: 0 to 1"},
        {"shuffle: maybe", 1, "is not true or false"},
        {"shuffle: true\n# c\nshuffle: true", 3, "shuffle is given twice"},
        {"batch_size: 1\nbatch-size: 1", 2, "batch-size is given twice"},
        {"shuffle: true\n\nshufle: true", 3, "unknown option shufle; did you mean shuffle?"},
        {"config: x", 1, "unknown option config"},
        {"model: {a: 1}", 1, "a mapping inside a mapping"},
        {"model:\n  a: 1", 2, "a mapping inside a mapping"},
        {"model: [a]", 1, "one value is needed, not a list"},
        {"reward_funcs: [[a]]", 1, "an item of a list"},
        {"reward_funcs:\n- a\n- {b: 1}", 3, "an item of a list"},
        {"model: &a x", 1, "anchors"},
        {"model: *a", 1, "aliases"},
        {"batch_size: !!int 5", 1, "tags"},
        {"&a {}", 1, "anchors"},
        {"model: \"a\\0b\"", 1, "zero byte"},
        {"model: x\n---\nmodel: y", 2, "second document"},
        {"- a", 1, "name: value"},
        {"just text", 1, "name: value"},
        {"model: x\n\ttab: y", 2, "not YAML"},
        {"model: 'x", 1, "not YAML"},
        {"model: b: c", 1, "not YAML"},
        {"? [a]\n: b", 1, "a name is needed"},
        {"model: \xff", 1, "not YAML"},
        {"model: x\nbatch_size: 3 4", 2, "'3 4' is not"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse_yaml(cases[i].yaml), -EINVAL);
        char *place = mot_format("%s:%d: ", yaml_path, cases[i].line);
        if (!strstr(mot_last_message(), place)) { printf("wanted %s\n", place); }
        message_has(place);
        message_has(cases[i].message);
        free(place);
    }
    char *deep = malloc(500000);
    memset(deep, '[', 500000);
    assert_int_equal(parse_yaml_n(deep, 500000), -EINVAL);
    free(deep);
    assert_int_equal(parse_yaml_n("model: a\0b", 10), -EINVAL);
}

/* Random texts, with quotes, breaks and wide characters, and random numbers come back. */
static void test_round_trip(void **state)
{
    (void)state;
    static const char *const pieces[] = {"a",
                                         " ",
                                         "\n",
                                         "\"",
                                         "'",
                                         "#",
                                         ": ",
                                         "\\",
                                         "é",
                                         "\xef\xbb\xbf",
                                         "\xe2\x80\xa8",
                                         "\xf0\x9f\x98\x80",
                                         "\t",
                                         "-",
                                         "\x01",
                                         "%",
                                         "null",
                                         ","};
    enum { N_PIECES = sizeof(pieces) / sizeof(pieces[0]) };
    for (uint32_t round = 0; round < 300; round++) {
        char texts[3][80] = {"", "", ""};
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t n = mot_uniform_int(1, MOT_RNG_TEST, round, k, 0, 9);
            for (uint32_t i = 0; i < n; i++) {
                strcat(texts[k],
                       pieces[mot_uniform_int(1, MOT_RNG_TEST, round, k, i + 1, N_PIECES)]);
            }
        }
        assert_int_equal(parse("--shuffle=no", NULL), 0);
        free(config.model);
        config.model = mot_strdup(texts[0]);
        config.rewards.item = mot_alloc(2 * sizeof(char *));
        config.rewards.item[0] = mot_strdup(texts[1]);
        config.rewards.item[1] = mot_strdup(texts[2]);
        config.rewards.n = 2;
        config.rate = mot_uniform(2, MOT_RNG_TEST, round, 0, 0) * pow(10.0, -(double)(round % 30));
        config.top = round % 2 ? (double)NAN : 0.1 + 0.3 / (round + 1.0);
        config.tokens = INT64_MIN + (int64_t)round;
        config.scale = (int)(round % 3);
        const struct config was = config;
        FILE *file = fopen(yaml_path, "w");
        assert_int_equal(mot_options_write_yaml(table, &was, file), 0);
        fclose(file);
        assert_int_equal(parse("--config", yaml_path, NULL), 0);
        assert_string_equal(config.model ? config.model : "", was.model);
        assert_int_equal(config.rewards.n, 2);
        assert_string_equal(config.rewards.item[0], was.rewards.item[0]);
        assert_string_equal(config.rewards.item[1], was.rewards.item[1]);
        assert_true(config.rate == was.rate);
        assert_true(config.top == was.top || (isnan(config.top) && isnan(was.top)));
        assert_int_equal(config.tokens, was.tokens);
        assert_int_equal(config.scale, was.scale);
        assert_int_equal(config.shuffle, 0);
        release();
        config = was;
        mot_options_free(table, &config);
    }
    assert_int_equal(parse(NULL), 0);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        assert_int_equal(mot_options_write_yaml(table, &config, full), -ENOSPC);
        fclose(full);
    }
    release();
}

static void test_help(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    mot_options_print_help(table, "usage: motley grpo", file);
    fclose(file);
    assert_ptr_equal(strstr(text, "usage: motley grpo\n\nData\n  --batch_size N"), text);
    assert_non_null(strstr(text, "Prompts a step. [1 to 4096 prompts; default 8]\n"));
    assert_non_null(strstr(text, "[group, batch or none; default group]"));
    assert_non_null(strstr(text, "\nOptimiser\n"));
    assert_non_null(strstr(text, "--config TEXT"));
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        assert_true(length <= 100);
        line += length + 1;
    }
    free(text);
    assert_int_equal(parse("--nonsense", "--help", NULL), 1); /* help comes first */
    assert_null(config.model);
}

static void test_nearest_name(void **state)
{
    (void)state;
    const char *const names[] = {"eager", "dmda", "dmdas", "heteroprio", NULL};
    assert_string_equal(mot_nearest_name("eagre", names), "eager");
    assert_string_equal(mot_nearest_name("DMDA", names), "dmda");
    assert_string_equal(mot_nearest_name("hetero-prio", names), "heteroprio");
    assert_null(mot_nearest_name("x", names));
    assert_null(mot_nearest_name("", names));
    assert_null(mot_nearest_name("something else", names));
    char longest[5000];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    assert_null(mot_nearest_name(longest, names));
}

/* Rows of another table lie at their offset, with another default where one is given; each entry
 * point sees them. */
static void test_rows_of_another_table(void **state)
{
    (void)state;
    struct whole {
        int first;
        struct config inner;
    } whole;
    static const struct mot_option outer[] = {
        {"first", MOT_OPTION_INT, offsetof(struct whole, first), "1", NULL, 0, 9, NULL, "F.", "A"},
        MOT_ROWS(offsetof(struct whole, inner), table),
        MOT_DEFAULT("output_dir", "run"),
        MOT_DEFAULT("batch_size", "2"),
        {0},
    };
    char *argv[] = {(char *)"motley", (char *)"--max_tokens", (char *)"7"};
    memset(&whole, 0xaa, sizeof(whole));
    assert_int_equal(mot_options_parse(outer, &whole, 3, argv, 1, NULL, NULL), 0);
    assert_int_equal(whole.first, 1);
    assert_int_equal(whole.inner.batch, 2);
    assert_int_equal(whole.inner.tokens, 7);
    assert_string_equal(whole.inner.output, "run");

    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    assert_int_equal(mot_options_write_yaml(outer, &whole, file), 0);
    mot_options_print_help(outer, NULL, file);
    fclose(file);
    assert_non_null(strstr(text, "batch_size: 2\n"));
    assert_non_null(strstr(text, "--batch_size N"));
    assert_non_null(strstr(text, "default run]"));
    free(text);
    mot_options_free(outer, &whole); /* strings of the inner one too: see the leak checker */
    assert_null(whole.inner.output);
}

int main(void)
{
    close(mkstemp(yaml_path));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_and_flags),
        cmocka_unit_test(test_rows_of_another_table),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_bad_flags),
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_null_number),
        cmocka_unit_test(test_bad_yaml),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_nearest_name),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(yaml_path);
    return failed;
}
