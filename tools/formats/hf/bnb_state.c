/* SPDX-License-Identifier: MIT */
/* quant_state and quantization_config, read and written. */
#include "tools/formats/hf/bnb_state.h"

#include <string.h>

#include "arena/json_write.h"
#include "core/base/json.h"
#include "core/base/number.h"
#include "core/ops/quantised.h"
#include "tools/formats/hf/bnb.h"

#define SIDE_MOST (INT64_C(1) << 40)

static const char where[] = "quant_state";

/* Members, one bit each. */
enum {
    SEEN_TYPE = 1,
    SEEN_BLOCK = 2,
    SEEN_DTYPE = 4,
    SEEN_SHAPE = 8,
    SEEN_NESTED_BLOCK = 16,
    SEEN_NESTED_DTYPE = 32,
    SEEN_OFFSET = 64,
    SEEN_PLAIN = 15,
    SEEN_NESTED = 112
};

static bp_status take_shape(bp_json *json, bp_json_event *event, bp_bnb_state *state)
{
    uint64_t sides[2] = {0, 0};
    uint32_t count = 0;
    bool good = event->kind == BP_JSON_ARRAY_BEGIN;
    while (good) {
        BP_TRY(bp_json_next(json, event));
        if (event->kind == BP_JSON_ARRAY_END) {
            break;
        }
        good = event->kind == BP_JSON_NUMBER && event->integer && event->i64 > 0 &&
               event->i64 < SIDE_MOST && count < 2;
        if (good) {
            sides[count++] = (uint64_t)event->i64;
        }
    }
    if (!good || count != 2) {
        return bp_json_refuse(json, "the shape of a quantised weight must be that of a matrix");
    }
    state->rows = sides[0];
    state->columns = sides[1];
    return BP_OK;
}

static bp_status take_dtype(bp_json *json, const bp_json_event *event, bp_dtype *dtype)
{
    static const struct {
        const char *name;
        bp_dtype dtype;
    } names[] = {{"float32", BP_F32}, {"float16", BP_F16}, {"bfloat16", BP_BF16}};
    for (size_t i = 0; event->kind == BP_JSON_TEXT && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i].name, event->text) == 0) {
            *dtype = names[i].dtype;
            return BP_OK;
        }
    }
    return bp_json_refuse(json, "the dtype must be float32, float16 or bfloat16");
}

static bp_status expect_number(bp_json *json, const bp_json_event *event, int64_t right,
                               const char *text)
{
    bool good = event->kind == BP_JSON_NUMBER && event->integer && event->i64 == right;
    return good ? BP_OK : bp_json_refuse(json, text);
}

static bp_status take_type(bp_json *json, const bp_json_event *event, bool *fp4)
{
    *fp4 = event->kind == BP_JSON_TEXT && strcmp(event->text, "fp4") == 0;
    return *fp4 || (event->kind == BP_JSON_TEXT && strcmp(event->text, "nf4") == 0)
               ? BP_OK
               : bp_json_refuse(json, "this quant_type is not implemented (nf4 and fp4 are)");
}

static bp_status take_block(bp_json *json, const bp_json_event *event, uint64_t *block)
{
    const bool number = event->kind == BP_JSON_NUMBER && event->integer && event->i64 > 0;
    *block = number ? (uint64_t)event->i64 : 0;
    return bp_quantised_with_block(BP_QUANTISED_NF4, *block) != BP_QUANTISED_NONE
               ? BP_OK
               : bp_json_refuse(json, "this blocksize is not implemented (32, 64 .. 4096 are)");
}

static bp_status take_offset(bp_json *json, const bp_json_event *event, bp_bnb_state *state)
{
    if (event->kind != BP_JSON_NUMBER || event->real <= -3e38 || event->real >= 3e38) {
        return bp_json_refuse(json, "nested_offset must be a number that a float holds");
    }
    state->offset = event->real;
    return BP_OK;
}

/* The value of a member whose number in `keys` is given. */
static bp_status bnb_state_take_value(bp_json *json, bp_json_event *event, unsigned member,
                                      bp_bnb_state *state)
{
    bp_dtype ignored;
    switch (member) {
    case SEEN_TYPE:
        return take_type(json, event, &state->fp4);
    case SEEN_BLOCK:
        return take_block(json, event, &state->block);
    case SEEN_DTYPE:
        return take_dtype(json, event, &state->dtype);
    case SEEN_SHAPE:
        return take_shape(json, event, state);
    case SEEN_NESTED_BLOCK:
        return expect_number(json, event, BP_NESTED_BLOCK,
                             "this nested_blocksize is not implemented (256 is)");
    case SEEN_NESTED_DTYPE:
        return take_dtype(json, event, &ignored);
    default:
        return take_offset(json, event, state);
    }
}

static unsigned member_of(const char *key)
{
    static const char *const keys[] = {"quant_type",       "blocksize",    "dtype",        "shape",
                                       "nested_blocksize", "nested_dtype", "nested_offset"};
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i], key) == 0) {
            return 1u << i;
        }
    }
    return 0;
}

static bp_status take_object(bp_json *json, bp_bnb_state *state)
{
    bp_json_event event;
    unsigned seen = 0;
    BP_TRY(bp_json_next(json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(json, "quant_state must be a JSON object");
    }
    for (;;) {
        BP_TRY(bp_json_next(json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        unsigned member = member_of(event.text);
        if (member == 0 || (seen & member) != 0) {
            return bp_json_refuse(json, "quant_state has a member that is not known, or twice");
        }
        seen |= member;
        BP_TRY(bp_json_next(json, &event));
        BP_TRY(bnb_state_take_value(json, &event, member, state));
    }
    bool plain = (seen & SEEN_PLAIN) == SEEN_PLAIN;
    state->nested = (seen & SEEN_NESTED) == SEEN_NESTED;
    if (!plain || (!state->nested && (seen & SEEN_NESTED) != 0)) {
        return bp_json_refuse(json, "a member of quant_state is missing");
    }
    return bp_json_next(json, &event);
}

bp_status bp_bnb_state_read(const char *text, size_t length, bp_bnb_state *state, bp_error *error)
{
    char room[BP_JSON_TEXT_MIN];
    bp_json_span span = {text, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    const bp_json_memory memory = {.text = room, .text_bytes = sizeof room, .max_depth = 4};
    bp_json json;
    *state = (bp_bnb_state){.dtype = BP_F32};
    BP_TRY(bp_json_init(&json, &source, &memory, error));
    return take_object(&json, state);
}

static const char *bnb_state_name_of(bp_dtype dtype)
{
    return dtype == BP_F32 ? "float32" : dtype == BP_F16 ? "float16" : "bfloat16";
}

size_t bp_bnb_state_write(const bp_bnb_state *state, char text[BP_BNB_STATE_MAX])
{
    bp_text out;
    bp_json_writer json;
    bp_text_init(&out, NULL, NULL, text, BP_BNB_STATE_MAX);
    bp_json_put_begin(&json, &out, BP_JSON_SPACED);
    bp_json_put_open(&json, NULL, '{');
    bp_json_put_text(&json, "quant_type", state->fp4 ? "fp4" : "nf4");
    bp_json_put_u64(&json, "blocksize", state->block);
    bp_json_put_text(&json, "dtype", bnb_state_name_of(state->dtype));
    bp_json_put_open(&json, "shape", '[');
    bp_json_put_u64(&json, NULL, state->rows);
    bp_json_put_u64(&json, NULL, state->columns);
    bp_json_put_close(&json);
    if (state->nested) {
        bp_json_put_u64(&json, "nested_blocksize", 256);
        bp_json_put_text(&json, "nested_dtype", "float32");
        bp_json_put_member(&json, "nested_offset");
        bp_number_put(&out, state->offset);
    }
    bp_json_put_close(&json);
    size_t length = (size_t)out.written;
    bp_status fits = bp_text_flush(&out);
    (void)fits; /* it is far shorter */
    return length;
}

/* What quantization_config says. */
typedef struct configured {
    bool method;
    bool mxfp4; /* the method is gpt-oss', whose tensors say the rest (mxfp4.h) */
    bool four;
    bool eight;
    bool nested;
    bool nf4;
    bool fp4;
    bool good;
    uint64_t block; /* bnb_4bit_blocksize, which only Bedplate writes */
} configured;

static bp_status take_setting(bp_json *json, const char *key, configured *c)
{
    static const char *const flags[] = {"load_in_4bit", "load_in_8bit",
                                        "bnb_4bit_use_double_quant"};
    static const char *const words[][2] = {{"quant_method", "bitsandbytes"},
                                           {"bnb_4bit_quant_type", "nf4"},
                                           {"bnb_4bit_quant_storage", "uint8"}};
    bool *places[] = {&c->four, &c->eight, &c->nested};
    bool *found[] = {&c->method, &c->nf4, NULL};
    bp_json_event event;
    if (strcmp(key, "bnb_4bit_blocksize") == 0) {
        BP_TRY(bp_json_next(json, &event));
        return take_block(json, &event, &c->block);
    }
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(key, flags[i]) == 0) {
            BP_TRY(bp_json_next(json, &event));
            *places[i] = event.kind == BP_JSON_TRUE;
            return event.kind == BP_JSON_TRUE || event.kind == BP_JSON_FALSE
                       ? BP_OK
                       : bp_json_refuse(json, "this member of quantization_config must be true or "
                                              "false");
        }
    }
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(key, words[i][0]) == 0) {
            BP_TRY(bp_json_next(json, &event));
            bool right = event.kind == BP_JSON_TEXT && strcmp(event.text, words[i][1]) == 0;
            if (found[i] != NULL) {
                *found[i] = right;
                c->mxfp4 = c->mxfp4 || (found[i] == &c->method && event.kind == BP_JSON_TEXT &&
                                        strcmp(event.text, "mxfp4") == 0);
                c->fp4 = found[i] == &c->nf4 && event.kind == BP_JSON_TEXT &&
                         strcmp(event.text, "fp4") == 0;
            } else if (!right) {
                c->good = false;
            }
            return event.kind == BP_JSON_TEXT
                       ? BP_OK
                       : bp_json_refuse(json, "this member of quantization_config must be a text");
        }
    }
    return bp_json_skip(json);
}

static bp_status config_refuse(bp_error *error, const char *found)
{
    bp_status status = bp_error_set(error, BP_ERR_DATA, where, "this value is not supported",
                                    "quantization_config");
    bp_error_found(error, found, strlen(found));
    bp_error_right(error, "null, or bitsandbytes' load_in_8bit, or load_in_4bit with "
                          "bnb_4bit_quant_type nf4 or fp4 in uint8, or mxfp4");
    return status;
}

bp_status bp_bnb_config_read(bp_json *json, bp_json_event *event, bp_quantised *form,
                             bp_quantised *experts, bp_error *error)
{
    configured c = {.good = true, .block = BP_NF4_BLOCK};
    *form = *experts = BP_QUANTISED_NONE;
    if (event->kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event->kind != BP_JSON_OBJECT_BEGIN) {
        return config_refuse(error, event->kind == BP_JSON_TEXT ? event->text : "no object");
    }
    for (;;) {
        char key[64];
        BP_TRY(bp_json_next(json, event));
        if (event->kind == BP_JSON_OBJECT_END) {
            break;
        }
        size_t length = event->length < sizeof key ? event->length : sizeof key - 1;
        memcpy(key, event->text, length);
        key[length] = '\0';
        BP_TRY(take_setting(json, key, &c));
    }
    if (c.mxfp4 && c.good && !c.four && !c.eight) {
        *experts = BP_QUANTISED_MXFP4;
        return BP_OK;
    }
    if (!c.method || !c.good || c.four == c.eight || (c.four && !c.nf4 && !c.fp4)) {
        return config_refuse(error, c.method ? "another form" : "another quant_method");
    }
    const bp_quantised plain = c.fp4 ? BP_QUANTISED_FP4 : BP_QUANTISED_NF4;
    const bp_quantised nested = c.fp4 ? BP_QUANTISED_FP4_DOUBLE : BP_QUANTISED_NF4_DOUBLE;
    *form =
        c.eight ? BP_QUANTISED_INT8 : bp_quantised_with_block(c.nested ? nested : plain, c.block);
    return BP_OK;
}
