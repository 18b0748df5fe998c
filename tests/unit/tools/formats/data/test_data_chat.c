/* SPDX-License-Identifier: MIT */
/* Conversations to tokens and what of them is learned, against TRL's masks
 * (tools/golden/formats/chat.py), and rows that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/formats/golden_words.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/formats/tokenizer_fixture.h"
#include "tools/formats/chat/chat_template.h"
#include "tools/formats/data/data_chat.h"
#include "tools/formats/data/data_chat_maker.h"

enum { TEXT = 1 << 16 };

static const bp_chat_token tokens_known[] = {{"bos_token", "<s>", 3},
                                             {"eos_token", "<|im_end|>", 10}};

typedef struct fixture {
    golden_words words;
    memory_store store;
    bp_data_file file;
    bp_data data;
    bp_data_chat work;
    bp_tokens tokens;
    bp_error error;
    void *scratch;
} fixture;

static void fixture_begin(fixture *d, bool words)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->store);
    d->scratch = malloc(BP_DATA_CHAT_SCRATCH + 64);
    assert_non_null(d->scratch);
    if (words) {
        golden_words_open(&d->words, "tests/golden/chat");
    }
}

static void fixture_end(fixture *d)
{
    bp_tokens_close(&d->tokens);
    bp_data_close(&d->data);
    assert_int_equal(d->store.open_files, 0);
    memory_store_free(&d->store);
    golden_words_close(&d->words);
    free(d->scratch);
}

static bp_encoder *other_encoder; /* instead of the golden one */

static bp_status make(fixture *d, const char *text, size_t length, const char *template_name,
                      bp_chat_loss loss)
{
    const char *source = bp_chat_template_named(template_name);
    source = source != NULL ? source : template_name;
    const bool words = d->words.room != NULL;
    memory_store_put(&d->store, "rows.jsonl", text, length);
    d->file = (bp_data_file){.path = "rows.jsonl"};
    assert_int_equal(bp_data_open(&d->data, &d->store.store, &d->file, 1, BP_DATA_AUTO, &d->error),
                     BP_OK);
    d->work = (bp_data_chat){.data = &d->data,
                             .path = "tokens",
                             .encoder = words ? &d->words.encoder : NULL,
                             .vocabulary = words ? d->words.need.tokens : 256,
                             .source = source,
                             .source_length = strlen(source),
                             .tokens = tokens_known,
                             .token_count = 2,
                             .now = {2024, 7, 26, 0, 0, 0},
                             .loss = loss,
                             .scratch = d->scratch,
                             .error = &d->error};
    if (other_encoder != NULL) {
        d->work.encoder = other_encoder;
        d->work.vocabulary = 303; /* of open_characters */
    }
    return bp_data_chat_open(&d->work, &d->tokens);
}

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(TEXT);
    assert_non_null(bytes);
    *length = fread(bytes, 1, TEXT - 1, file);
    bytes[*length] = '\0';
    fclose(file);
    return bytes;
}

/* A line of masks.txt: name, row, and the ids doubled, plus one where they are learned. */
static void compare_row(fixture *d, uint64_t row, char *numbers)
{
    bp_source *source = &d->tokens.source;
    bp_example example;
    int32_t id = 0;
    uint8_t learned = 0;
    uint64_t i = 0;
    assert_int_equal(source->example(source, row, &example), BP_OK);
    for (char *end = numbers; *numbers != '\0' && *numbers != '\n'; numbers = end, i++) {
        const long want = strtol(numbers, &end, 10);
        assert_true(i < example.count);
        assert_int_equal(source->read(source, example.first + i, 1, &id), BP_OK);
        assert_int_equal(source->targets(source, example.first + i, 1, &learned), BP_OK);
        assert_int_equal(2 * id + learned, want);
    }
    assert_int_equal(i, example.count);
}

/* verifies formats-23.429b */
static void masks_are_trls(void **state)
{
    size_t length;
    size_t lines;
    char *rows = read_file("tests/golden/chat/rows.jsonl", &length);
    char *masks = read_file("tests/golden/chat/masks.txt", &lines);
    char opened[32] = "";
    fixture d;
    unsigned compared = 0;
    (void)state;
    for (char *line = masks; *line != '\0'; compared++) {
        char name[32];
        unsigned row;
        int used;
        assert_int_equal(sscanf(line, "%31s %u%n", name, &row, &used), 2);
        if (strcmp(name, opened) != 0) {
            if (opened[0] != '\0') {
                fixture_end(&d);
            }
            fixture_begin(&d, true);
            assert_int_equal(make(&d, rows, length, name, BP_CHAT_ASSISTANT), BP_OK);
            assert_int_equal(d.work.conversations, 24);
            memcpy(opened, name, sizeof opened);
        }
        compare_row(&d, row, line + used);
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(compared, 96);
    fixture_end(&d);
    free(rows);
    free(masks);
}

/* What is learned of the one conversation of the data, by bytes. */
static void assert_learned(const char *row, const char *template_name, bp_chat_loss loss,
                           const char *whole, const char *learned)
{
    fixture d;
    char text[512];
    size_t count = 0;
    fixture_begin(&d, false);
    bp_status status = make(&d, row, strlen(row), template_name, loss);
    if (status != BP_OK) {
        print_error("%s: %s: %s\n", row, d.error.name, d.error.text);
    }
    assert_int_equal(status, BP_OK);
    bp_source *source = &d.tokens.source;
    assert_int_equal(source->count, strlen(whole));
    for (size_t i = 0; i < source->count; i++) {
        int32_t id;
        uint8_t marked;
        assert_int_equal(source->read(source, i, 1, &id), BP_OK);
        assert_int_equal(source->targets(source, i, 1, &marked), BP_OK);
        assert_int_equal(id, whole[i]);
        if (marked != 0) {
            text[count++] = (char)id;
        }
    }
    text[count] = '\0';
    assert_string_equal(text, learned);
    fixture_end(&d);
}

#define MARKED                                                                                     \
    "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}{% generation %}"        \
    "{{ m.content }};{% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}"
#define PLAIN                                                                                      \
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + ';' }}{% endfor %}"                   \
    "{% if add_generation_prompt %}a:{% endif %}"
#define TALK                                                                                       \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"p\"},{\"role\":\"assistant\",\"content\":"    \
    "\"q\"},{\"role\":\"user\",\"content\":\"r\"},{\"role\":\"assistant\",\"content\":\"s\"}]}\n"

/* verifies formats-23.429b */
static void each_form_of_row_and_loss(void **state)
{
    static const char *const templates[] = {PLAIN, MARKED};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *own = templates[i];
        assert_learned(TALK, own, BP_CHAT_ASSISTANT, "u:p;a:q;u:r;a:s;", "q;s;");
        assert_learned(TALK, own, BP_CHAT_COMPLETION, "u:p;a:q;u:r;a:s;", "s;");
        assert_learned(TALK, own, BP_CHAT_ALL, "u:p;a:q;u:r;a:s;", "u:p;a:q;u:r;a:s;");
        assert_learned("{\"conversations\":[{\"from\":\"human\",\"value\":\"p\"},{\"from\":\"gpt\","
                       "\"value\":\"q\"}]}",
                       own, BP_CHAT_ASSISTANT, "u:p;a:q;", "q;");
        assert_learned("[{\"instruction\":\"i\",\"input\":\"x\",\"output\":\"o\"}]", own,
                       BP_CHAT_ASSISTANT, "u:i\n\nx;a:o;", "o;");
        assert_learned("{\"instruction\":\"i\",\"input\":\"\",\"output\":\"o\",\"system\":null}",
                       own, BP_CHAT_ASSISTANT, "u:i;a:o;", "o;");
        assert_learned("{\"prompt\":[{\"role\":\"user\",\"content\":\"p\"},{\"role\":\"assistant\","
                       "\"content\":\"q\"}],\"completion\":[{\"role\":\"assistant\",\"content\":"
                       "\"s\"}]}",
                       own, BP_CHAT_COMPLETION, "u:p;a:q;a:s;", "s;");
        /* All is the prompt: what of it would be learned of a conversation. */
        assert_learned("{\"prompt\":[{\"role\":\"user\",\"content\":\"p\"},{\"role\":\"assistant\","
                       "\"content\":\"q\"}],\"completion\":[]}",
                       own, BP_CHAT_COMPLETION, "u:p;a:q;", "q;");
        assert_learned("{\"system\":\"y\",\"instruction\":\"i\",\"output\":\"o\",\"tools\":[]}",
                       own, BP_CHAT_ASSISTANT, "s:y;u:i;a:o;", "o;");
        assert_learned(
            "{\"conversation\":[{\"role\":\"user\",\"content\":\"p\"},{\"role\":\"assistant\","
            "\"content\":\"q\"}],\"tools\":\"[]\",\"chat_template_kwargs\":{\"a\":1}}",
            own, BP_CHAT_ASSISTANT, "u:p;a:q;", "q;");
        assert_learned("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                       "\"p\"},{\"type\":\"text\",\"text\":\"z\"}]},{\"role\":\"assistant\","
                       "\"content\":\"q\"}]}",
                       own, BP_CHAT_ASSISTANT, "u:pz;a:q;", "q;");
    }
}

typedef struct refused_row {
    const char *text;
    const char *said;
    const char *place;
} refused_row;

static const refused_row refused[] = {
    {TALK "{\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}]}",
     "the role of a message is unknown: expected system, developer, user, assistant or tool",
     "rows.jsonl:2"},
    {"{\"messages\":[]}", "the conversation is no list of messages, or an empty one", ":1"},
    {"{\"messages\":[{\"content\":\"x\"}]}", "a message has no role (`role`, or `from`)", ":1"},
    {"{\"messages\":[{\"role\":\"user\"}]}", "a message has no text (`content`, or `value`)", ":1"},
    {"{\"messages\":[3]}", "a message is an object of role and content", ":1"},
    {"{\"messages\":3}", "the conversation is no list of messages, or an empty one", ":1"},
    {TALK TALK "{\"x\":1}",
     "the row has no conversation: `messages`, `conversations`, or `instruction` and `output`",
     ":3"},
    {"{\"instruction\":\"x\"}", "`instruction` and `output` are strings", ":1"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":\"{\"}",
     "`tools` is a string that is no JSON", ":1"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":7}", "`tools` is no list",
     ":1"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":\"3\"}", "`tools` is no list",
     ":1"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[3]}]}", "a part of a message is no text",
     ":1"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":3}]}]}",
     "a part of a message is no text", ":1"},
    {"{\"messages\":[{\"role\":3,\"content\":\"x\"}]}", "a message has no role (`role`, or `from`)",
     ":1"},
    {"{\"conversations\":[{\"from\":3,\"value\":\"x\"}]}",
     "a message has no role (`role`, or `from`)", ":1"},
    {"{\"conversations\":[]}", "the conversation is no list of messages, or an empty one", ":1"},
    {"{\"conversations\":[3]}", "a message is an object of role and content", ":1"},
    {"{\"instruction\":\"x\",\"output\":3}", "`instruction` and `output` are strings", ":1"},
    {"{\"instruction\":[],\"output\":\"x\"}", "`instruction` and `output` are strings", ":1"},
    {"{\"prompt\":[],\"completion\":[]}",
     "the conversation is no list of messages, or an empty one", ":1"},
    {"{\"prompt\":[],\"completion\":3}",
     "the row has no conversation: `messages`, `conversations`, or `instruction` and `output`",
     ":1"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
     "the data holds no conversation of which something is learned", "rows.jsonl"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}",
     "a comma or a closing bracket is missing", "rows.jsonl: byte 42"},
};

/* verifies formats-16.301b */
static void bad_rows_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        fixture d;
        fixture_begin(&d, false);
        bp_status status =
            make(&d, refused[i].text, strlen(refused[i].text), PLAIN, BP_CHAT_ASSISTANT);
        if (strstr(d.error.name, refused[i].place) == NULL ||
            strcmp(d.error.text, refused[i].said) != 0) {
            print_error("%s: %s: %s\n", refused[i].text, d.error.name, d.error.text);
        }
        assert_int_equal(status, BP_ERR_DATA);
        assert_non_null(strstr(d.error.name, refused[i].place));
        assert_string_equal(d.error.text, refused[i].said);
        fixture_end(&d);
    }
}

#define META   "\xe2\x96\x81"
#define SPACED "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" META "\""

/* As Llama 2's tokenizer.json has it. */
#define PREPENDED                                                                                  \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"    \
    "\"" META "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" META       \
    "\"}]},"

/* A tokenizer over characters whose added token takes white space with it on its right. */
static void open_characters(tokenizer_fixture *t, const char *settings)
{
    static char json[JSON_MAX];
    size_t at =
        (size_t)snprintf(json, sizeof json,
                         "{\"added_tokens\":[{\"id\":300,\"content\":\"<e>\",\"special\":true,"
                         "\"rstrip\":true}],%s\"model\":{\"type\":\"BPE\","
                         "\"byte_fallback\":true,\"vocab\":{",
                         settings);
    for (unsigned byte = 0; byte < 256; byte++) {
        at += (size_t)snprintf(json + at, sizeof json - at, "\"<0x%02X>\":%u,", byte, byte);
    }
    snprintf(json + at, sizeof json - at,
             "\"" META "\":256,\"x\":301,\"" META "x\":302},\"merges\":[\"" META " x\"]}}");
    fixture_init(t);
    fixture_put(t, "tokenizer.json", json);
    if (fixture_open(t) != BP_OK) {
        fail_msg("%s: %s", t->error.name, t->error.text);
    }
    fixture_encoder(t, BP_ENCODER_WORD_MIN);
}

/* White space that an added token takes with it is of no token; where tokens have what the text has
 * not, nobody knows which are learned. */
/* verifies formats-16.301b */
static void pieces_are_found_in_the_text(void **state)
{
    (void)state;
    static const char never[] = SPACED ",\"prepend_scheme\":\"never\"},";
    static const char always[] = SPACED ",\"prepend_scheme\":\"always\"},";
    static const struct {
        const char *settings, *source;
        uint64_t learned; /* 0: refused */
    } rows[] = {
        {never, "{% for m in messages %}<e> \n\t{{ m.content }}{% endfor %}", 6},
        /* a space that the tokenizer puts before each text, by itself and as a part of " x" */
        {always, "{% for m in messages %}<e>{% endfor %}x", 3},
        {always, "{% for m in messages %}<e>yyy{% endfor %}", 10},
        {always, "{% for m in messages %}<e> x{% endfor %}", 4},
        {always, "x{% for m in messages %}<e>{% endfor %}", 3},
        {PREPENDED, "{% for m in messages %}<e>yyy{% endfor %}", 10},
        {PREPENDED, "y{% for m in messages %}<e>{% endfor %}", 4},
        {never, "{% for m in messages %}<e>" META "{% endfor %}y",
         0}, /* a space where there is none */
        {never, "{% for m in messages %}y{% endfor %}" META, 0},
    };
    static const char row[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\\r \\npq\"},{\"role\":"
        "\"assistant\",\"content\":\"rs\"}]}";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture d;
        tokenizer_fixture t;
        open_characters(&t, rows[i].settings);
        fixture_begin(&d, false);
        other_encoder = &t.encoder;
        const bp_status status = make(&d, row, strlen(row), rows[i].source, BP_CHAT_ALL);
        other_encoder = NULL;
        if (d.work.learned != rows[i].learned || (status == BP_OK) != (rows[i].learned > 0)) {
            fail_msg("%zu: %d %s: %s %llu", i, status, d.error.name, d.error.text,
                     (unsigned long long)d.work.learned);
        }
        assert_true(status == BP_OK || strstr(d.error.text, "changes the text") != NULL);
        fixture_end(&d);
        fixture_free(&t);
    }
}

/* The template's own refusal names the row. */
/* verifies formats-16.301b */
static void a_template_refuses_a_row(void **state)
{
    fixture d;
    (void)state;
    fixture_begin(&d, false);
    const char *rows = TALK "{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}";
    assert_int_equal(make(&d, rows, strlen(rows), "gemma", BP_CHAT_ASSISTANT), BP_ERR_DATA);
    assert_non_null(strstr(d.error.name, "rows.jsonl:2"));
    assert_non_null(strstr(d.error.name, "must alternate"));
    fixture_end(&d);
}

/* The second time the file is there; with another template it is made anew. */
/* verifies formats-56.3c1c */
static void the_token_file_is_used_again(void **state)
{
    fixture d;
    (void)state;
    fixture_begin(&d, false);
    assert_int_equal(make(&d, TALK, strlen(TALK), "chatml", BP_CHAT_ASSISTANT), BP_OK);
    assert_true(d.work.built);
    bp_tokens_close(&d.tokens);
    assert_int_equal(bp_data_chat_open(&d.work, &d.tokens), BP_OK);
    assert_false(d.work.built);
    bp_tokens_close(&d.tokens);
    d.work.loss = BP_CHAT_ALL;
    assert_int_equal(bp_data_chat_open(&d.work, &d.tokens), BP_OK);
    assert_true(d.work.built);
    fixture_end(&d);
}

/* What decides whether data is conversations: the keys of its first object. */
/* verifies formats-23.429b */
static void conversations_are_known_by_their_keys(void **state)
{
    static const struct {
        const char *text;
        bool is;
    } rows[] = {
        {"{\"messages\": []}", true},
        {"{\"n\": {\"a\": [1, {}]}, \"conversations\": 3}", true},
        {"{\"conversation\": [[[]]], \"b\": {\"c\": {}}}", true},
        {"{\"prompt\": [], \"completion\": [1]}", true},
        {"{\"prompt\": \"p\", \"completion\": \"c\"}", false},
        {"{\"prompt\": [], \"completion\": \"c\"}", false},
        {"{\"instruction\": \"i\", \"output\": \"o\"}", true},
        {"{\"instruction\": \"i\"}", false},
        {"{\"output\": \"i\"}", false},
        {"{\"messages\": [], \"text\": \"t\"}", false},
        {"{\"texts\": \"t\", \"Text\": \"t\"}", false},
        {"[]", false},
        {"", false},
        {"{\"messages\": [", false},
        {"{\"messages\": [], ", false},
        {"{\"messages", false},
        {"{\"a\": \"1\" 2}", false},
        {"no json at all", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture d;
        bool is = !rows[i].is;
        fixture_begin(&d, false);
        memory_store_put(&d.store, "rows.jsonl", rows[i].text, strlen(rows[i].text));
        d.file = (bp_data_file){.path = "rows.jsonl"};
        if (bp_data_open(&d.data, &d.store.store, &d.file, 1, BP_DATA_JSONL, &d.error) == BP_OK) {
            assert_int_equal(bp_data_chat_is(&d.data, &d.error, d.scratch, &is), BP_OK);
            assert_int_equal(is, rows[i].is);
            assert_int_equal(d.error.code, BP_OK); /* what is wrong is said by who reads it */
        }
        fixture_end(&d);
    }
}

/* A template by itself, in tokenizer_config.json, in parts, in a list, or not there. */
/* verifies formats-14.5095 */
static void templates_are_found(void **state)
{
    (void)state;
    enum { LONG = 40000 };
    static char text[LONG + 200], to[BP_JINJA_SOURCE_MAX + 1];
    static uint64_t scratch[BP_CHAT_TEMPLATE_SCRATCH / 8 + 1];
    static const char *const configs[][3] = {
        {"{\"chat_template\": \"", "\"}", ""},
        {"{\"chat_template\": [{\"name\": \"x\", \"template\": \"", "\"}]}", ""},
        {"{\"chat_template\": [{\"name\": 3, \"template\": \"", "\"}]}", "a chat template is a"},
        {"{\"chat_template\": 3, \"more\": \"", "\"}", ""},
    };
    for (size_t i = 0; i < 8; i++) {
        memory_store memory;
        faulty_store faulty;
        bp_error error = {.code = BP_OK};
        size_t length = 0, at = (size_t)sprintf(text, "%s", configs[i % 4][0]);
        const size_t more = i < 4 ? 5 : LONG;
        memset(text + at, 'w', more);
        at += more;
        at += (size_t)sprintf(text + at, "%s", configs[i % 4][1]);
        memory_store_init(&memory);
        faulty_store_init(&faulty, &memory.store);
        memory_store_put(&memory, "tokenizer_config.json", text, at);
        bp_status status = bp_chat_template_find(&faulty.store, "", to, &length, scratch, &error);
        if (i % 4 == 2) {
            assert_int_equal(status, BP_ERR_DATA);
            assert_non_null(strstr(error.text, configs[2][2]));
        } else {
            assert_int_equal(status, BP_OK);
            assert_int_equal(length, i % 4 == 3 ? 0 : more);
        }
        /* Where the store cannot say that it is there, there is none. */
        faulty_store_arm(&faulty, FAULT_EXISTS, 2, false);
        error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_chat_template_find(&faulty.store, "", to, &length, scratch, &error),
                         BP_OK);
        assert_int_equal(length, 0);
        memory_store_put(&memory, "chat_template.jinja", "own", 3);
        faulty_store_arm(&faulty, FAULT_EXISTS, 1, false);
        status = bp_chat_template_find(&faulty.store, "", to, &length, scratch, &error);
        assert_int_equal(status, i % 4 == 2 ? BP_ERR_DATA : BP_OK);
        error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_chat_template_find(&faulty.store, "", to, &length, scratch, &error),
                         BP_OK);
        assert_int_equal(length, 3);
        memory_store_free(&memory);
    }
}

/* What of a conversation is learned where a template writes what others do not: nothing of the
 * contents, other heads for each turn, turns shorter than any head. */
#define ASKS(head) "{% if add_generation_prompt %}" head "{% endif %}"

/* verifies formats-14.5095 */
static void odd_templates_are_learned_of(void **state)
{
    (void)state;
    static const char row[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
        "\"content\": \"ab\"}, {\"role\": \"user\", \"content\": \"r\"}, {\"role\": "
        "\"assistant\", \"content\": \"c\"}]}\n";
    static const struct {
        const char *source;
        bp_chat_loss loss;
        uint64_t learned; /* bytes, the end token among them */
        bp_status status;
    } cases[] = {
        {"{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}" ASKS("a:"),
         BP_CHAT_ASSISTANT, 5, BP_OK},
        {"{% for m in messages %}{{ loop.index }}:{{ m.content }};{% endfor %}" ASKS("2:"),
         BP_CHAT_ASSISTANT, 7, BP_OK},
        {"{% for m in messages %}{{ loop.index }}:{{ m.content }};{% endfor %}" ASKS("2:"),
         BP_CHAT_COMPLETION, 4, BP_OK},
        {"{% for m in messages %}{% if m.content|length > 1 %}LONG HEAD {{ m.content }}{% else %}"
         "{{ m.content }}{% endif %};{% endfor %}" ASKS("LONG HEAD "),
         BP_CHAT_ASSISTANT, 5, BP_OK},
        {"{% for m in messages %}x{% endfor %}", BP_CHAT_ASSISTANT, 2, BP_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture d;
        fixture_begin(&d, false);
        const bp_status status = make(&d, row, strlen(row), cases[i].source, cases[i].loss);
        if (status != cases[i].status || d.work.learned != cases[i].learned) {
            fail_msg("%zu: %d %s: %s %llu", i, status, d.error.name, d.error.text,
                     (unsigned long long)d.work.learned);
        }
        fixture_end(&d);
    }
}

/* A row too large for its room is bad data, also where nobody wants to hear of it. */
/* verifies formats-16.301b */
static void too_large_rows_are_bad_data(void **state)
{
    (void)state;
    static bp_chat_maker maker;
    static bp_data_chat work;
    for (int heard = 0; heard < 2; heard++) {
        bp_error own = {.code = BP_ERR_FIT};
        work = (bp_data_chat){.error = heard != 0 ? &own : NULL};
        maker.work = &work;
        maker.reader = (bp_data_reader){.path = "a.jsonl", .error = work.error};
        assert_int_equal(bp_chat_maker_named(&maker, BP_ERR_FIT),
                         heard != 0 ? BP_ERR_DATA : BP_ERR_FIT);
        assert_true(heard == 0 || (own.code == BP_ERR_DATA && strstr(own.name, "a.jsonl") != NULL));
        assert_int_equal(bp_chat_maker_named(&maker, BP_ERR_STORE), BP_ERR_STORE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_trls),
        cmocka_unit_test(each_form_of_row_and_loss),
        cmocka_unit_test(bad_rows_are_named),
        cmocka_unit_test(conversations_are_known_by_their_keys),
        cmocka_unit_test(a_template_refuses_a_row),
        cmocka_unit_test(pieces_are_found_in_the_text),
        cmocka_unit_test(the_token_file_is_used_again),
        cmocka_unit_test(templates_are_found),
        cmocka_unit_test(odd_templates_are_learned_of),
        cmocka_unit_test(too_large_rows_are_bad_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
