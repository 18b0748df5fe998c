/* SPDX-License-Identifier: MIT */
/* Events in, text out. */
#include "tools/formats/hf/hf_config_copy.h"

#include <string.h>

#include "arena/json_write.h"

enum { TEXT_BYTES = 262144, BUFFER_BYTES = 4096 };

/* Dense layers outside the blocks stay floats, and so do experts and their router: transformers,
 * which would have codes of them too, is told of each, by its name in every class of model that has
 * one. */
#define NOT_QUANTISED                                                                              \
    "[\"lm_head\", \"score\", \"classifier\", \"pooler\", \"bert.pooler\", \"cls\", \"gate\", "    \
    "\"mlp.experts\", \"block_sparse_moe.experts\"]"

typedef struct copying {
    bp_json json;
    bp_text text;
    bp_json_writer to;
    bp_config_change change;
    bool seen; /* a dtype was replaced */
    bool put;  /* and so was the member of change.key */
} copying;

static void put_dtype(copying *c, const char *key, size_t length)
{
    bp_json_put_key(&c->to, key, length);
    bp_json_put_text(&c->to, NULL, c->change.dtype);
    c->seen = true;
}

static void put_changed(copying *c)
{
    bp_json_put_value(&c->to, c->change.key, c->change.value);
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
    bp_json_put_open(&c->to, "quantization_config", '{');
    bp_json_put_text(&c->to, "quant_method", "bitsandbytes");
    bp_json_put_flag(&c->to, "load_in_4bit", !eight);
    bp_json_put_flag(&c->to, "load_in_8bit", eight);
    bp_json_put_text(&c->to, "bnb_4bit_quant_type",
                     bp_quantised_codebook(form) == bp_fp4 || eight ? "fp4" : "nf4");
    bp_json_put_flag(&c->to, "bnb_4bit_use_double_quant", bp_quantised_nests(form));
    if (!eight && bp_quantised_block(form) != BP_NF4_BLOCK) {
        bp_json_put_u64(&c->to, "bnb_4bit_blocksize", bp_quantised_block(form));
    }
    bp_json_put_text(&c->to, "bnb_4bit_quant_storage", "uint8");
    bp_json_put_text(&c->to, "bnb_4bit_compute_dtype", "float32");
    bp_json_put_value(&c->to, "llm_int8_threshold", "6.0");
    bp_json_put_value(&c->to, "llm_int8_skip_modules", NOT_QUANTISED);
    bp_json_put_flag(&c->to, "llm_int8_has_fp16_weight", false);
    bp_json_put_flag(&c->to, "llm_int8_enable_fp32_cpu_offload", false);
    bp_json_put_close(&c->to);
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
        put_dtype(c, event->text, event->length);
        return bp_json_skip(&c->json);
    }
    if (event->depth == 1 && c->change.key != NULL && strcmp(event->text, c->change.key) == 0) {
        put_changed(c);
        return bp_json_skip(&c->json);
    }
    bp_json_put_key(&c->to, event->text, event->length);
    return BP_OK;
}

/* What the object has to have and has not had. */
static void put_missing(copying *c)
{
    if (!c->seen && c->change.dtype != NULL) {
        put_dtype(c, "torch_dtype", strlen("torch_dtype"));
    }
    if (c->change.key != NULL && !c->put) {
        put_changed(c);
    }
    put_quantised(c);
}

static bp_status put_event(copying *c, const bp_json_event *event)
{
    switch (event->kind) {
    case BP_JSON_OBJECT_BEGIN:
        bp_json_put_lines(&c->to, NULL, '{');
        return BP_OK;
    case BP_JSON_ARRAY_BEGIN:
        bp_json_put_lines(&c->to, NULL, '[');
        return BP_OK;
    case BP_JSON_OBJECT_END:
    case BP_JSON_ARRAY_END:
        if (event->depth == 0) {
            put_missing(c);
        }
        bp_json_put_close(&c->to);
        return BP_OK;
    case BP_JSON_KEY:
        return hf_config_copy_put_key(c, event);
    case BP_JSON_TEXT:
        bp_json_put_bytes(&c->to, NULL, event->text, event->length);
        return BP_OK;
    case BP_JSON_TEXT_PART:
        return bp_json_refuse(&c->json, "a string is longer than 256 KiB");
    case BP_JSON_NUMBER:
        bp_json_put_value(&c->to, NULL, event->text);
        return BP_OK;
    case BP_JSON_NULL:
        bp_json_put_value(&c->to, NULL, "null");
        return BP_OK;
    default:
        bp_json_put_flag(&c->to, NULL, event->kind == BP_JSON_TRUE);
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
    bp_json_put_begin(&c.to, &c.text, BP_JSON_SPACED);
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
