/* Chat templates: what is recognised and what is refused, and the exact text of each form (taken
 * from the models' Jinja templates rendered with jinja2): peers row 23 (none of these writes a
 * BOS).
 * Run: test_chat_template (needs no data). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chat_template.h"
#include "error.h"

#define GENERATION "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
#define LOOP_REST                                                                   \
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'" \
    " + '\n'}}{% endfor %}" GENERATION
#define TURNS "{% for message in messages %}" LOOP_REST
#define DEFAULT(prompt)                                                        \
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" prompt \
    "<|im_end|>\\n' }}{% endif %}" TURNS
/* A template with tools, in the manner of Qwen2.5 (think "") and Qwen3. */
#define TOOLS(front, think, end)                                                                 \
    "{#- Tools. #}\n{%- if tools %}\n    {{- tools | tojson }}\n{%- endif %}\n" front            \
    "{%- for message in messages %}\n    {%- if (message.role == \"user\") or (message.role == " \
    "\"system\" and not loop.first) %}\n        {{- '<|im_start|>' + message.role + '\\n' + "    \
    "message.content + '<|im_end|>' + '\\n' }}\n    {%- elif message.tool_calls %}" think        \
    "{%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"                             \
    "    {{- '<|im_start|>assistant\\n' }}\n" end "{%- endif %}\n"
#define TOOLS_DEFAULT(prompt)                                                          \
    TOOLS("{%- if messages[0]['role'] != 'system' %}{{- '<|im_start|>system\\n" prompt \
          "<|im_end|>\\n' }}{%- endif %}",                                             \
          "", "")
#define QWEN3(condition)                                                                        \
    TOOLS("", "{%- if " condition " %}{{- '<think>\\n' }}{%- endif %}",                         \
          "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n" \
          "</think>\\n\\n' }}{%- endif %}")
#define LAST_QUERY "loop.index0 > ns.last_query_index"

static void recognised(const char *jinja, const char *name)
{
    const struct mot_chat_template *chat = NULL;
    assert_int_equal(mot_chat_template_find(jinja, &chat), 0);
    assert_string_equal(mot_chat_template_name(chat), name);
}

static void refused(const char *jinja)
{
    const struct mot_chat_template *chat = NULL;
    if (jinja) { print_message("%.200s\n", jinja); }
    assert_true(mot_chat_template_find(jinja, &chat) < 0);
    assert_null(chat);
    assert_non_null(strstr(mot_last_message(), "--chat_template"));
    assert_non_null(strstr(mot_last_message(), "smollm2"));
}

static void test_recognition(void **state)
{
    (void)state;
    recognised(TURNS, "chatml");
    recognised(DEFAULT("You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
               "smollm2");
    recognised(DEFAULT("You are a helpful assistant"), "qwen1.5");
    recognised(DEFAULT("You are a helpful assistant."), "qwen2");
    recognised(DEFAULT("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
               "qwen2.5");
    recognised(TOOLS("", "", ""), "chatml");
    recognised(TOOLS_DEFAULT("You are Qwen, created by Alibaba Cloud. You are a helpful "
                             "assistant."),
               "qwen2.5");
    recognised(QWEN3(LAST_QUERY), "qwen3");
    recognised("qwen3-no-think", "qwen3-no-think");
    recognised("none", "none");
    refused(NULL);
    refused("");
    refused("chatmll");
    refused(DEFAULT("You are a pirate."));
    refused("{{ bos_token }}" TURNS);
    refused("{% set x = '' %}{% if not x %}You are a pirate{% endif %}" TURNS);
    refused("{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}");
    refused("<|im_start|><|im_end|>");
    refused("{{ '<think>' }}" TURNS);
    /* Near to what is known, but another text. */
    refused("Hello. " TURNS);
    refused("{{ 'Hello. ' }}" TURNS);
    refused(TURNS "\n\n");
    refused(TURNS " .");
    refused(TURNS "{{ 'Sure: ' }}");
    refused("{% for message in messages[-1:] %}" LOOP_REST);
    refused("{% for message in messages %}{% if message['role'] != 'system' %}" LOOP_REST);
    refused("{% for message in messages %}{{'<|im_start|>' + message['role'] + ' ' + "
            "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}" GENERATION);
    refused("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
            "message['content']|lower + '<|im_end|>' + '\n'}}{% endfor %}" GENERATION);
    refused(TOOLS_DEFAULT("You are a pirate."));
    refused(TOOLS("{{- 'Hello.' }}", "", ""));
    refused(TOOLS("Hello.", "", ""));
    refused(TOOLS("", "", "{{- messages[-1:] }}"));
    refused(TOOLS("", "{{- message.content | upper }}", ""));
    refused(QWEN3("true"));
    refused("{{ '");
    refused("{#");
}

/* Renders the messages, given as JSON, and compares. */
static void renders(const char *name, const char *messages, int generation_prompt,
                    const char *expected)
{
    const struct mot_chat_template *chat = NULL;
    json_t *list = json_loads(messages, 0, NULL);
    char *text = NULL;
    assert_non_null(list);
    assert_int_equal(mot_chat_template_find(name, &chat), 0);
    assert_int_equal(mot_chat_template_render(chat, list, generation_prompt, &text), 0);
    assert_string_equal(text, expected);
    assert_string_equal(mot_chat_template_end(chat), "<|im_end|>");
    free(text);
    json_decref(list);
}

#define U(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define A(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define S(text) "{\"role\":\"system\",\"content\":\"" text "\"}"

static void test_text(void **state)
{
    (void)state;
    renders("chatml", "[" U("hi") "]", 1,
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    renders("chatml", "[" U("hi") "]", 0, "<|im_start|>user\nhi<|im_end|>\n");
    renders("smollm2", "[" U(" hi ") "]", 1,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\n");
    renders(
        "smollm2", "[" S("s") "," U("a") "," A("b") "," U("c") "]", 1,
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
        "b<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n");
    renders(
        "qwen2.5", "[" U("a") "," S("mid") "]", 0,
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
        "assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>system\nmid<|im_end|>\n");
}

static void test_thinking(void **state)
{
    (void)state;
    renders(
        "qwen3", "[" U("a") "," A("<think>\\nwhy\\n</think>\\n\\nyes") "," U("b") "]", 1,
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n<|im_start|>user\n"
        "b<|im_end|>\n<|im_start|>assistant\n");
    renders("qwen3", "[" U("a") "," A("<think>\\nwhy\\n</think>\\n\\nyes") "]", 0,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\nwhy\n</think>\n\nyes"
            "<|im_end|>\n");
    renders("qwen3", "[" U("a") "," A("\\nyes") "]", 0,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nyes"
            "<|im_end|>\n");
    renders("qwen3-no-think", "[" U("a") "]", 1,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

static void bad_messages(const char *messages, const char *words)
{
    const struct mot_chat_template *chat = NULL;
    json_t *list = json_loads(messages, 0, NULL);
    char *text = NULL;
    assert_int_equal(mot_chat_template_find("chatml", &chat), 0);
    assert_true(mot_chat_template_render(chat, list, 1, &text) < 0);
    assert_null(text);
    assert_non_null(strstr(mot_last_message(), words));
    json_decref(list);
}

static void test_bad_messages(void **state)
{
    (void)state;
    bad_messages("[]", "at least one");
    bad_messages("{}", "list");
    bad_messages("[5]", "messages[0]");
    bad_messages("[" U("a") ",{\"content\":\"x\"}]", "messages[1].role");
    bad_messages("[" U("a") ",{\"role\":\"tool\",\"content\":\"x\"}]", "tool");
    bad_messages("[{\"role\":\"user\",\"content\":[1]}]", "messages[0].content");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recognition),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_bad_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
