/* SPDX-License-Identifier: MIT */
/* Events in, text out. */
#include "tools/formats/hf/hf_config_copy.h"

#include <string.h>

enum { TEXT_BYTES = 262144, BUFFER_BYTES = 4096 };

/* Dense layers outside the blocks stay floats: transformers, which would have codes of them too,
 * is told of each, by its name in every class of model that has one. */
#define NOT_QUANTISED                                                                              \
    "[\"lm_head\", \"score\", \"classifier\", \"pooler\", \"bert.pooler\", \"cls\"]"

typedef struct copying {
    bp_json json;
    bp_text text;
    bp_config_change change;
    bool seen;  /* a dtype was replaced */
    bool put;   /* and so was the member of change.key */
    bool first; /* nothing stands in the innermost container yet */
    bool value; /* a key was just written */
} copying;

static void new_line(copying *c, uint32_t depth)
{
    bp_text_char(&c->text, '\n');
    bp_text_repeat(&c->text, ' ', 2 * (size_t)depth);
}

/* What stands before a key, a value or an end at `depth`. */
static void separate(copying *c, uint32_t depth)
{
    if (c->value || depth == 0) {
        c->value = false;
        return;
    }
    if (!c->first) {
        bp_text_char(&c->text, ',');
    }
    c->first = false;
    new_line(c, depth);
}

static void put_word(copying *c, const char *word, uint32_t depth)
{
    separate(c, depth);
    bp_text_string(&c->text, word);
}

static void put_begin(copying *c, char bracket, uint32_t depth)
{
    separate(c, depth);
    bp_text_char(&c->text, bracket);
    c->first = true;
}

static void put_end(copying *c, char bracket, uint32_t depth)
{
    if (!c->first) {
        new_line(c, depth);
    }
    bp_text_char(&c->text, bracket);
    c->first = false;
}

static void hf_config_copy_put_pair(copying *c, const char *key, size_t length)
{
    separate(c, 1);
    bp_text_json_bytes(&c->text, key, length);
    bp_text_string(&c->text, ": ");
    bp_text_json(&c->text, c->change.dtype);
    c->seen = true;
}

static void put_member(copying *c)
{
    separate(c, 1);
    bp_text_json(&c->text, c->change.key);
    bp_text_string(&c->text, ": ");
    bp_text_string(&c->text, c->change.value);
    c->put = true;
}

/* As transformers writes it; what stands for the other number of bits is its default. */
static void put_quantised(copying *c)
{
    const bp_quantised form = c->change.quantised;
    const bool eight = form == BP_QUANTISED_INT8;
    if (form == BP_QUANTISED_NONE) {
        return;
    }
    separate(c, 1);
    bp_text_string(&c->text, "\"quantization_config\": {\"quant_method\": \"bitsandbytes\", "
                             "\"load_in_4bit\": ");
    bp_text_string(&c->text, eight ? "false" : "true");
    bp_text_string(&c->text, ", \"load_in_8bit\": ");
    bp_text_string(&c->text, eight ? "true" : "false");
    bp_text_string(&c->text, ", \"bnb_4bit_quant_type\": ");
    bp_text_string(&c->text,
                   bp_quantised_codebook(form) == bp_fp4 || eight ? "\"fp4\"" : "\"nf4\"");
    bp_text_string(&c->text, ", \"bnb_4bit_use_double_quant\": ");
    bp_text_string(&c->text, bp_quantised_nests(form) ? "true" : "false");
    if (!eight && bp_quantised_block(form) != BP_NF4_BLOCK) {
        bp_text_string(&c->text, ", \"bnb_4bit_blocksize\": ");
        bp_text_u64(&c->text, bp_quantised_block(form));
    }
    bp_text_string(&c->text,
                   ", \"bnb_4bit_quant_storage\": \"uint8\", "
                   "\"bnb_4bit_compute_dtype\": \"float32\", "
                   "\"llm_int8_threshold\": 6.0, \"llm_int8_skip_modules\": " NOT_QUANTISED ", "
                   "\"llm_int8_has_fp16_weight\": false, "
                   "\"llm_int8_enable_fp32_cpu_offload\": false}");
}

static bp_status hf_config_copy_put_key(copying *c, const bp_json_event *event)
{
    bool dtype = c->change.dtype != NULL &&
                 (strcmp(event->text, "torch_dtype") == 0 || strcmp(event->text, "dtype") == 0);
    bool codes = c->change.requantised && strcmp(event->text, "quantization_config") == 0;
    if (event->depth == 1 && codes) {
        return bp_json_skip(&c->json);
    }
    if (event->depth == 1 && dtype) {
        hf_config_copy_put_pair(c, event->text, event->length);
        return bp_json_skip(&c->json);
    }
    if (event->depth == 1 && c->change.key != NULL && strcmp(event->text, c->change.key) == 0) {
        put_member(c);
        return bp_json_skip(&c->json);
    }
    separate(c, event->depth);
    bp_text_json_bytes(&c->text, event->text, event->length);
    bp_text_string(&c->text, ": ");
    c->value = true;
    return BP_OK;
}

static bp_status put_event(copying *c, const bp_json_event *event)
{
    switch (event->kind) {
    case BP_JSON_OBJECT_BEGIN:
        put_begin(c, '{', event->depth);
        return BP_OK;
    case BP_JSON_ARRAY_BEGIN:
        put_begin(c, '[', event->depth);
        return BP_OK;
    case BP_JSON_OBJECT_END:
        if (event->depth == 0 && !c->seen && c->change.dtype != NULL) {
            hf_config_copy_put_pair(c, "torch_dtype", strlen("torch_dtype"));
        }
        if (event->depth == 0) {
            if (c->change.key != NULL && !c->put) {
                put_member(c);
            }
            put_quantised(c);
        }
        put_end(c, '}', event->depth);
        return BP_OK;
    case BP_JSON_ARRAY_END:
        put_end(c, ']', event->depth);
        return BP_OK;
    case BP_JSON_KEY:
        return hf_config_copy_put_key(c, event);
    case BP_JSON_TEXT:
        separate(c, event->depth);
        bp_text_json_bytes(&c->text, event->text, event->length);
        return BP_OK;
    case BP_JSON_TEXT_PART:
        return bp_json_refuse(&c->json, "a string is longer than 256 KiB");
    case BP_JSON_NUMBER:
        put_word(c, event->text, event->depth);
        return BP_OK;
    default:
        put_word(c,
                 event->kind == BP_JSON_TRUE    ? "true"
                 : event->kind == BP_JSON_FALSE ? "false"
                                                : "null",
                 event->depth);
        return BP_OK;
    }
}

bp_status bp_hf_config_copy(const bp_json_source *source, const char *dtype, void *scratch,
                            bp_sink sink, void *user, bp_error *error)
{
    const bp_config_change change = {.dtype = dtype};
    return bp_hf_config_change(source, &change, scratch, sink, user, error);
}

bp_status bp_hf_config_change(const bp_json_source *source, const bp_config_change *change,
                              void *scratch, bp_sink sink, void *user, bp_error *error)
{
    copying c = {.change = *change};
    char *buffer = scratch;
    char *text = buffer + BUFFER_BYTES;
    bp_json_memory memory = {.text = text,
                             .text_bytes = TEXT_BYTES,
                             .keys = text + TEXT_BYTES,
                             .keys_bytes = BP_CONFIG_COPY_SCRATCH - BUFFER_BYTES - TEXT_BYTES,
                             .max_depth = BP_JSON_DEPTH_MAX};
    bp_json_event event;
    BP_TRY(bp_json_init(&c.json, source, &memory, error));
    bp_text_init(&c.text, sink, user, buffer, BUFFER_BYTES);
    BP_TRY(bp_json_next(&c.json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&c.json, "the file must hold one JSON object");
    }
    while (event.kind != BP_JSON_END) {
        BP_TRY(put_event(&c, &event));
        BP_TRY(bp_json_next(&c.json, &event));
    }
    bp_text_char(&c.text, '\n');
    return bp_text_flush(&c.text);
}
