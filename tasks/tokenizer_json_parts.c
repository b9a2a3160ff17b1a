/* The parts of tokenizer.json that say how text becomes words: normalizer, pre_tokenizer,
 * post_processor, decoder (format: Hugging Face tokenizers, tokenizers/src/{normalizers,
 * pre_tokenizers,processors,decoders}).  What changes ids and is not known here is refused by
 * name. */
#include "error.h"
#include "json.h"
#include "tokenizer_internal.h"
#include <string.h>

enum { NESTING_MAX = 8 };

/* One part being read. */
struct part {
    struct mot_tokenizer *tokenizer;
    const char *path, *field; /* for messages */
    int byte_level;           /* how many ByteLevel parts were met */
    int sequences;            /* post_processor: whether the text itself was met */
};

static int refuse(const struct part *part, const char *what, const char *which)
{
    return mot_fail(EINVAL, "%s: %s: %s%s is not supported", part->path, part->field, what, which);
}

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "(no type)";
}

/* Calls each() with the object, or with each of its members when it is a Sequence. */
static int for_each(struct part *part, const json_t *object, const char *members, int depth,
                    int (*each)(struct part *, const json_t *))
{
    if (json_is_null(object) || !object) { return 0; }
    if (!json_is_object(object)) { return refuse(part, "what is not an object", ""); }
    if (strcmp(type_of(object), "Sequence") != 0) { return each(part, object); }
    const json_t *list = json_object_get(object, members);
    if (!json_is_array(list) || depth == NESTING_MAX) {
        return refuse(part, "a Sequence without members, or nested too deep,", "");
    }
    size_t i;
    json_t *member;
    json_array_foreach(list, i, member)
    {
        const int status = for_each(part, member, members, depth + 1, each);
        if (status) { return status; }
    }
    return 0;
}

static int read_normalizer(struct part *part, const json_t *object)
{
    if (strcmp(type_of(object), "NFC") != 0) { return refuse(part, "type ", type_of(object)); }
    part->tokenizer->nfc = 1;
    return 0;
}

static int add_split(struct part *part, const char *pattern, int literal)
{
    char where[512];
    snprintf(where, sizeof(where), "%s: %s", part->path, part->field);
    return mot_splitter_add(&part->tokenizer->splitter, pattern, literal, where);
}

/* Reads a member that is true or false; absent is the default. */
static int flag(const json_t *object, const char *key, int absent)
{
    const json_t *value = json_object_get(object, key);
    return value ? json_is_true(value) : absent;
}

static int read_split(struct part *part, const json_t *object)
{
    const char *behavior = json_string_value(json_object_get(object, "behavior"));
    if (!behavior || strcmp(behavior, "Isolated") != 0 || flag(object, "invert", 0)) {
        return refuse(part, "Split other than Isolated, or inverted,", "");
    }
    const json_t *pattern = json_object_get(object, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *string = json_string_value(json_object_get(pattern, "String"));
    if (!regex && !string) { return refuse(part, "Split without a pattern", ""); }
    return add_split(part, regex ? regex : string, regex == NULL);
}

static int read_pre_tokenizer(struct part *part, const json_t *object)
{
    const char *type = type_of(object);
    if (part->byte_level) { return refuse(part, "a part after ByteLevel: ", type); }
    if (strcmp(type, "Split") == 0) { return read_split(part, object); }
    if (strcmp(type, "Digits") == 0) {
        return add_split(part, flag(object, "individual_digits", 0) ? "\\p{N}" : "\\p{N}+", 0);
    }
    if (strcmp(type, "ByteLevel") != 0) { return refuse(part, "type ", type); }
    if (flag(object, "add_prefix_space", 1)) { return refuse(part, "add_prefix_space", ""); }
    part->byte_level = 1;
    return flag(object, "use_regex", 1) ? add_split(part, mot_split_gpt2, 0) : 0;
}

static int read_decoder(struct part *part, const json_t *object)
{
    return strcmp(type_of(object), "ByteLevel") == 0 ? 0 : refuse(part, "type ", type_of(object));
}

/* Appends the ids of the special token that the template names. */
static int add_prefix(struct part *part, const json_t *object, const char *name)
{
    struct mot_tokenizer *tokenizer = part->tokenizer;
    const json_t *special =
        json_object_get(json_object_get(object, "special_tokens"), name ? name : "");
    const json_t *ids = json_object_get(special, "ids");
    if (!json_is_array(ids)) { return refuse(part, "a template token without ids: ", name); }
    size_t i;
    json_t *id;
    json_array_foreach(ids, i, id)
    {
        const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        size_t n;
        if (!mot_vocab_bytes(&tokenizer->vocab, value, &n)) {
            return mot_fail(EINVAL, "%s: %s: an id that is no token", part->path, part->field);
        }
        const int room = (int)(sizeof(tokenizer->prefix) / sizeof(tokenizer->prefix[0]));
        if (tokenizer->n_prefix == room) { return refuse(part, "a longer prefix", ""); }
        tokenizer->prefix[tokenizer->n_prefix++] = (int32_t)value;
    }
    return 0;
}

/* TemplateProcessing's "single": special tokens, and the text as Sequence A. */
static int read_template(struct part *part, const json_t *object)
{
    const json_t *single = json_object_get(object, "single");
    size_t i;
    json_t *item;
    if (!json_is_array(single)) { return refuse(part, "a template that is not a list", ""); }
    json_array_foreach(single, i, item)
    {
        const json_t *token = json_object_get(item, "SpecialToken");
        if (json_object_get(item, "Sequence")) {
            part->sequences++;
            continue;
        }
        if (!token || part->sequences) {
            return refuse(part, "a template with tokens behind the text", "");
        }
        const char *name = json_string_value(json_object_get(token, "id"));
        if (!name) { return refuse(part, "a template token without id", ""); }
        const int status = add_prefix(part, object, name);
        if (status) { return status; }
    }
    return part->sequences == 1 ? 0 : refuse(part, "a template without one text", "");
}

static int read_post_processor(struct part *part, const json_t *object)
{
    if (strcmp(type_of(object), "ByteLevel") == 0) { return 0; } /* offsets only */
    if (strcmp(type_of(object), "TemplateProcessing") != 0 || part->sequences) {
        return refuse(part, "type ", type_of(object));
    }
    return read_template(part, object);
}

int mot_tokenizer_parse_parts(struct mot_tokenizer *tokenizer, const json_t *root, const char *path)
{
    struct part part = {.tokenizer = tokenizer, .path = path, .field = "normalizer"};
    int status =
        for_each(&part, json_object_get(root, part.field), "normalizers", 0, read_normalizer);
    if (status) { return status; }
    part.field = "pre_tokenizer";
    status =
        for_each(&part, json_object_get(root, part.field), "pretokenizers", 0, read_pre_tokenizer);
    if (status) { return status; }
    if (!part.byte_level) { return refuse(&part, "a tokenizer without ByteLevel", ""); }
    part.field = "decoder";
    status = for_each(&part, json_object_get(root, part.field), "decoders", 0, read_decoder);
    if (status) { return status; }
    part.field = "post_processor";
    return for_each(&part, json_object_get(root, part.field), "processors", 0, read_post_processor);
}
