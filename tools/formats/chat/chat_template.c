/* SPDX-License-Identifier: MIT */
/* Chat templates by name and from a model's directory. */
#include "tools/formats/chat/chat_template.h"

#include <string.h>

#include "core/base/storage.h"

enum { KEYS = 1024, TEXT = 16384, DEPTH = 16 };

typedef struct named_template {
    const char *name;
    const char *text;
} named_template;

#define CHATML                                                                                     \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"   \
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

/* Without a system message there is one. */
#define CHATML_TOLD(words)                                                                         \
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\n" words                         \
    "<|im_end|>\\n' }}{% endif %}" CHATML

/* The system message, if the first is one, as `told`, and the others as `rest`. */
#define APART                                                                                      \
    "{% set told = none %}{% set rest = messages %}{% if messages[0].role == 'system' %}"          \
    "{% set told = messages[0].content %}{% set rest = messages[1:] %}{% endif %}"

#define ALTERNATE                                                                                  \
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles " \
    "must alternate user/assistant/user/assistant/...') }}{% endif %}"

#define ENDED_BY_EOS                                                                               \
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"

#define GEMMA_TURN                                                                                 \
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
#define GEMMA_END                                                                                  \
    "{{ m.content | trim + '<end_of_turn>\\n' }}{% endfor %}"                                      \
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"

static const named_template named[] = {
    {"chatml", CHATML},
    {"qwen2.5",
     CHATML_TOLD("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")},
    {"smollm2",
     CHATML_TOLD("You are a helpful AI assistant named SmolLM, trained by Hugging Face")},
    {"llama2", APART "{% for m in rest %}" ALTERNATE
                     "{% set said = m.content %}{% if loop.first and told is not none %}"
                     "{% set said = '<<SYS>>\\n' + told + '\\n<</SYS>>\\n\\n' + said %}{% endif %}"
                     "{% if m.role == 'user' %}{{ bos_token + '[INST] ' + said | trim + ' [/INST]' "
                     "}}{% else %}{{ ' ' + said | trim + ' ' + eos_token }}{% endif %}"
                     "{% endfor %}"},
    {"llama3", "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + "
               "'<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}"
               "{% if add_generation_prompt %}"
               "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"llama3.1", APART
     "{{ bos_token + '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge "
     "Date: December 2023\\nToday Date: ' + strftime_now('%d %b %Y') + '\\n\\n' + (told or '') | "
     "trim + '<|eot_id|>' }}{% for m in rest %}{{ '<|start_header_id|>' + m.role + "
     "'<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}"
     "{% if add_generation_prompt %}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"mistral",
     APART "{{ bos_token }}{% for m in rest %}" ALTERNATE
           "{% if m.role == 'user' %}{{ '[INST] ' + (told + '\\n\\n' if told is not none and "
           "loop.first else '') + m.content + ' [/INST]' }}{% else %}"
           "{{ m.content + eos_token }}{% endif %}{% endfor %}"},
    {"mistral-v3", APART "{{ bos_token }}{% for m in rest %}" ALTERNATE
                         "{% if m.role == 'user' %}{{ '[INST] ' + (told + '\\n\\n' if told is not "
                         "none and (loop.last or loop.revindex == 2) else '') + m.content + "
                         "'[/INST]' }}{% else %}{{ ' ' + m.content | trim + eos_token }}{% endif %}"
                         "{% endfor %}"},
    {"mistral-nemo",
     APART "{{ bos_token }}{% for m in rest %}" ALTERNATE
           "{% if m.role == 'user' %}{{ '[INST]' + (told + '\\n\\n' if told is not none and "
           "(loop.last or loop.revindex == 2) else '') + m.content + '[/INST]' }}"
           "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}"},
    {"gemma", "{{ bos_token }}{% if messages[0].role == 'system' %}"
              "{{ raise_exception('System role not supported') }}{% endif %}"
              "{% for m in messages %}" ALTERNATE GEMMA_TURN GEMMA_END},
    {"gemma3",
     APART "{{ bos_token }}{% for m in rest %}" ALTERNATE GEMMA_TURN
           "{% if loop.first and told is not none %}{{ told + '\\n\\n' }}{% endif %}" GEMMA_END},
    {"phi3", "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}"
             "{% endfor %}" ENDED_BY_EOS},
    {"phi4", "{% for m in messages %}{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + "
             "'<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}"
             "{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"},
    {"phi4-mini", "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}"
                  "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}"
                  "{{ eos_token }}{% endif %}"},
    {"zephyr", "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' "
               "}}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
    {"alpaca",
     APART "{{ told if told else 'Below is an instruction that describes a task. Write a response "
           "that appropriately completes the request.' }}{% for m in rest %}"
           "{{ ('\\n\\n### Instruction:\\n' if m.role == 'user' else '\\n\\n### Response:\\n') + "
           "m.content + (eos_token if m.role == 'assistant' else '') }}{% endfor %}"
           "{% if add_generation_prompt %}{{ '\\n\\n### Response:\\n' }}{% endif %}"},
};

const char *bp_chat_template_name(uint32_t i)
{
    return i < sizeof named / sizeof named[0] ? named[i].name : NULL;
}

const char *bp_chat_template_named(const char *name)
{
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (strcmp(named[i].name, name) == 0) {
            return named[i].text;
        }
    }
    return NULL;
}

/* ---- of a directory ---- */

/* A string, of which what fits is kept. */
static bp_status take_text(bp_json *json, const bp_json_event *first, char *to, size_t *length)
{
    bp_json_event event = *first;
    *length = 0;
    for (;;) {
        if (event.length > BP_JINJA_SOURCE_MAX - *length) {
            return bp_json_refuse(json, "the chat template is longer than can be");
        }
        memcpy(to + *length, event.text, event.length);
        *length += event.length;
        if (event.kind != BP_JSON_TEXT_PART) {
            return BP_OK;
        }
        BP_TRY(bp_json_next(json, &event));
    }
}

/* Of a list of {"name": .., "template": ..} the one that is called default, else the last. */
static bp_status take_list(bp_json *json, char *to, size_t *length)
{
    bp_json_event event;
    bool chosen = false;
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_OBJECT_BEGIN) {
        bool usual = false;
        BP_TRY(bp_json_next(json, &event));
        while (event.kind == BP_JSON_KEY) {
            const bool name = strcmp(event.text, "name") == 0;
            if (!name && (chosen || strcmp(event.text, "template") != 0)) {
                BP_TRY(bp_json_skip(json));
                BP_TRY(bp_json_next(json, &event));
                continue;
            }
            BP_TRY(bp_json_next(json, &event));
            if (event.kind != BP_JSON_TEXT && event.kind != BP_JSON_TEXT_PART) {
                return bp_json_refuse(json, "a chat template is a string");
            }
            usual = usual || (name && strcmp(event.text, "default") == 0);
            if (!name) {
                BP_TRY(take_text(json, &event, to, length));
            }
            BP_TRY(bp_json_next(json, &event));
        }
        chosen = chosen || usual;
        BP_TRY(bp_json_next(json, &event));
    }
    return BP_OK;
}

static bp_status take_template(bp_json *json, char *to, size_t *length)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(json, "the file is no object");
    }
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        if (strcmp(event.text, "chat_template") != 0) {
            BP_TRY(bp_json_skip(json));
        } else {
            BP_TRY(bp_json_next(json, &event));
            if (event.kind == BP_JSON_TEXT || event.kind == BP_JSON_TEXT_PART) {
                return take_text(json, &event, to, length);
            }
            return event.kind == BP_JSON_ARRAY_BEGIN ? take_list(json, to, length) : BP_OK;
        }
        BP_TRY(bp_json_next(json, &event));
    }
    return BP_OK;
}

static bp_status read_config(bp_store *store, const char *path, char *to, size_t *length,
                             void *scratch, bp_error *error)
{
    bp_json json;
    bp_storage_reader reader = {.store = store, .path = path, .error = error};
    const size_t keys = (size_t)bp_json_keys_bytes(KEYS);
    char *text = (char *)scratch + keys;
    const bp_json_memory memory = {text, TEXT, NULL, 0, DEPTH};
    reader.buffer = text + TEXT;
    reader.capacity = BP_CHAT_TEMPLATE_SCRATCH - keys - TEXT;
    if (store->open_read(store, path, &reader.file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = store->file_size(store, reader.file, &reader.end) == BP_OK
                           ? BP_OK
                           : bp_storage_failed(error, store, "size", path);
    const bp_json_source source = {bp_storage_fill, &reader, UINT64_MAX};
    status = status == BP_OK ? bp_json_init(&json, &source, &memory, error) : status;
    status = status == BP_OK ? take_template(&json, to, length) : status;
    (void)store->close(store, reader.file); /* nothing was written */
    return status;
}

bp_status bp_chat_template_find(bp_store *store, const char *directory, char *to, size_t *length,
                                void *scratch, bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    *length = 0;
    BP_TRY(bp_storage_join(path, directory, "chat_template.jinja", error));
    if (store->exists(store, path, &there) == BP_OK && there) {
        return bp_storage_read_small(store, path, to, BP_JINJA_SOURCE_MAX, length, error);
    }
    BP_TRY(bp_storage_join(path, directory, "tokenizer_config.json", error));
    if (store->exists(store, path, &there) != BP_OK || !there) {
        return BP_OK;
    }
    return read_config(store, path, to, length, scratch, error);
}
