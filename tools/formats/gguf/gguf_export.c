/* SPDX-License-Identifier: MIT */
/* Tensors of a model in GGUF's names, order and types. */
#include "tools/formats/gguf/gguf_export.h"

#include <math.h>
#include <string.h>

#include "core/ops/block_write.h"
#include "tools/formats/files/stream_file.h"

#define FREQUENCIES_MAX      512              /* heads up to 1024 wide */
#define PACKED_MOST          (127 * 65504.0f) /* 127 steps of half precision's largest */
#define QUANTISATION_VERSION 2u               /* gguf-py's GGML_QUANT_VERSION */

typedef struct exporting {
    const bp_weight_source *source;
    const bp_gguf_model *model;
    const bp_weight_target *target;
    bp_gguf_writer writer;
} exporting;

/* The type of a tensor in the file (prepare_tensors of convert_hf_to_gguf.py). Norms and biases are
 * vectors. */
static bool always_f32(const char *name, const bp_tensor_view *view)
{
    return view->rank < 2 || strcmp(name, "position_embd.weight") == 0 ||
           strcmp(name, "token_types.weight") == 0 ||
           bp_name_matches("blk.#.ffn_gate_inp.weight", name) ||
           bp_name_matches("blk.#.*.bias", name);
}

static bp_dtype gguf_export_type_of(const exporting *e, const char *name,
                                    const bp_tensor_view *view)
{
    return always_f32(name, view) ? BP_F32
           : e->target->keep      ? bp_tensor_view_dtype(view)
                                  : e->target->dtype;
}

/* LlamaFileType */
static uint32_t file_type(const bp_packed_type *packed, bp_dtype dtype)
{
    static const uint8_t packed_types[] = {
        [2] = 2, [3] = 3, [6] = 8, [7] = 9, [8] = 7, [12] = 14, [13] = 16, [14] = 18};
    if (packed != NULL) {
        return packed_types[packed->type];
    }
    return dtype == BP_F32 ? 0u : dtype == BP_F16 ? 1u : 32u;
}

/* The type of the first matrix that may have another than F32. */
static bp_status main_type(const exporting *e, bp_dtype *dtype)
{
    *dtype = BP_F32;
    for (size_t i = 0; i < e->source->count; i++) {
        char name[BP_TENSOR_NAME_MAX];
        bp_tensor_view view;
        BP_TRY(bp_weight_source_view(e->source, i, 0, e->model->family->naming, name, &view));
        if (strcmp(name, "token_embd.weight") == 0) {
            *dtype = gguf_export_type_of(e, name, &view);
        }
    }
    return BP_OK;
}

static void gguf_export_put_token(bp_gguf_writer *w, const char *key, int64_t token)
{
    if (token >= 0) {
        bp_gguf_put_u32(w, key, (uint32_t)token);
    }
}

/* The tokens that end a text, as far as there are keys. */
static void put_ends(bp_gguf_writer *w, const bp_gguf_model *model)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const bp_model_config *config = model->config;
    size_t key = 0;
    gguf_export_put_token(w, keys[key++], config->eos_token);
    for (uint32_t i = 0; i < config->more_eos_count && key < 3; i++) {
        if (config->more_eos[i] >= 0 && config->more_eos[i] != config->eos_token) {
            gguf_export_put_token(w, keys[key++], config->more_eos[i]);
        }
    }
}

static bp_status put_keys(exporting *e)
{
    const bp_gguf_model *model = e->model;
    bp_gguf_writer *w = &e->writer;
    const char *architecture = model->family->architecture;
    bp_dtype dtype;
    BP_TRY(main_type(e, &dtype));
    bp_gguf_put_string(w, "general.architecture", architecture, strlen(architecture));
    bp_gguf_put_string(w, "general.type", "model", 5);
    if (model->name[0] != '\0') {
        bp_gguf_put_string(w, "general.name", model->name, strlen(model->name));
    }
    model->family->put(w, architecture, model->config);
    bp_gguf_put_u32(w, "general.file_type", file_type(e->target->packed, dtype));
    bp_gguf_put_u32(w, "general.quantization_version", QUANTISATION_VERSION);
    if (model->put_tokenizer != NULL) {
        BP_TRY(model->put_tokenizer(model->user, w));
    }
    gguf_export_put_token(w, "tokenizer.ggml.bos_token_id", model->config->bos_token);
    put_ends(w, model);
    gguf_export_put_token(w, "tokenizer.ggml.unknown_token_id", model->unknown_token);
    gguf_export_put_token(w, "tokenizer.ggml.padding_token_id", model->config->pad_token);
    if (model->chat_template_bytes > 0) {
        bp_gguf_put_string(w, "tokenizer.chat_template", model->chat_template,
                           model->chat_template_bytes);
    }
    return BP_OK;
}

/* Tensor `number` of factors of the rotary frequencies, for models that scale them. */
static size_t factors_of(const exporting *e, uint32_t number, const char **name,
                         float factors[FREQUENCIES_MAX])
{
    const bp_gguf_family *family = e->model->family;
    return family->factors == NULL
               ? 0
               : family->factors(e->model->config, number, name, factors, FREQUENCIES_MAX);
}

static bp_status gguf_export_add(void *user, const void *elements, size_t bytes)
{
    return bp_gguf_data_add(user, elements, bytes);
}

/* Elements on their way into blocks. */
typedef struct packing {
    bp_gguf_writer *writer;
    const bp_packed_type *type;
    uint32_t held; /* values that are no whole block yet */
    float values[BP_PACKED_ELEMENTS];
    const char *name;
    bp_error *error;
} packing;

/* The block of the values that are held. Its steps are in half precision: numbers beyond what a
 * type has steps for, and NaNs, are in no block. */
static bp_status packing_make(const packing *p, uint8_t block[BP_PACKED_ELEMENTS])
{
    float values[BP_PACKED_ELEMENTS];
    bool fits = true;
    for (uint32_t i = 0; i < p->held; i++) {
        fits = fits && fabsf(p->values[i]) <= PACKED_MOST;
    }
    if (fits) {
        bp_block_writer_of(p->type)(p->values, block);
        bp_packed_values(p->type, block, 0, p->held, values);
    }
    for (uint32_t i = 0; i < p->held; i++) {
        if (!fits || !isfinite(values[i])) {
            return bp_error_set(p->error, BP_ERR_DATA, "gguf",
                                "a weight is not a number, or too large for the type that is asked "
                                "for",
                                p->name);
        }
    }
    return BP_OK;
}

static bp_status gguf_export_pack(void *user, const void *elements, size_t bytes)
{
    packing *p = user;
    const float *from = elements;
    uint8_t block[BP_PACKED_ELEMENTS];
    for (size_t left = bytes / sizeof *from; left > 0;) {
        const size_t room = p->type->elements - p->held, some = left < room ? left : room;
        memcpy(p->values + p->held, from, some * sizeof *from);
        p->held += (uint32_t)some;
        from += some;
        left -= some;
        if (p->held == p->type->elements) {
            BP_TRY(packing_make(p, block));
            p->held = 0;
            BP_TRY(bp_gguf_data_add(p->writer, block, p->type->bytes));
        }
    }
    return BP_OK;
}

/* Rows that are no whole blocks of 256 have the blocks of 32 that llama.cpp takes for them. */
static const bp_packed_type *packed_for(const bp_packed_type *asked, uint64_t row)
{
    static const uint32_t smaller[][2] = {{12, 6}, {13, 7}, {14, 8}}; /* Q5_0, Q5_1, Q8_0 */
    for (size_t i = 0; i < sizeof smaller / sizeof smaller[0]; i++) {
        if (asked->type == smaller[i][0] && row % asked->elements != 0) {
            return bp_packed_of(smaller[i][1]);
        }
    }
    return asked;
}

/* A matrix in blocks, or its data. */
static bp_status put_packed(exporting *e, size_t i, const char *name, const bp_tensor_view *view,
                            bool data)
{
    const uint64_t row = view->shape[view->rank - 1];
    packing p = {.writer = &e->writer,
                 .type = packed_for(e->target->packed, row),
                 .name = name,
                 .error = e->target->error};
    if (row % p.type->elements != 0) {
        return bp_error_limit(e->target->error, BP_ERR_USAGE, "gguf",
                              "the rows of a tensor are no whole blocks of the type that is asked "
                              "for",
                              name, (int64_t)p.type->elements, BP_LIMIT_DIVISOR,
                              bp_size_signed(row));
    }
    if (!data) {
        bp_gguf_put_packed(&e->writer, name, view->rank, view->shape, p.type);
        return BP_OK;
    }
    BP_TRY(
        bp_weight_source_stream(e->source, i, view, BP_F32, e->target->work, gguf_export_pack, &p));
    return bp_gguf_data_pad(&e->writer);
}

/* The tensors of a parameter in the table, or their data. */
static bp_status put_parameter(exporting *e, size_t i, bool data)
{
    const bp_tensor_naming *naming = e->model->family->naming;
    const uint64_t tensors = bp_weight_source_tensors(e->source, i, naming);
    for (uint64_t k = 0; k < tensors; k++) {
        char name[BP_TENSOR_NAME_MAX];
        bp_tensor_view view;
        BP_TRY(bp_weight_source_view(e->source, i, k, naming, name, &view));
        const bp_dtype type = gguf_export_type_of(e, name, &view);
        if (e->target->packed != NULL && !always_f32(name, &view)) {
            BP_TRY(put_packed(e, i, name, &view, data));
            continue;
        }
        if (!data) {
            bp_gguf_put_tensor(&e->writer, name, view.rank, view.shape, type);
            continue;
        }
        BP_TRY(bp_weight_source_stream(e->source, i, &view, type, e->target->work, gguf_export_add,
                                       &e->writer));
        BP_TRY(bp_gguf_data_pad(&e->writer));
    }
    return BP_OK;
}

static bp_status put_tensors(exporting *e)
{
    float factors[FREQUENCIES_MAX];
    const char *factors_name = "";
    uint64_t count;
    for (uint32_t k = 0; (count = factors_of(e, k, &factors_name, factors)) > 0; k++) {
        if (count > FREQUENCIES_MAX) {
            return bp_error_limit(e->target->error, BP_ERR_USAGE, "gguf",
                                  "heads are wider than rotary scaling is implemented for",
                                  "head_dim", 2 * (int64_t)count, BP_LIMIT_MOST,
                                  2 * FREQUENCIES_MAX);
        }
        bp_gguf_put_tensor(&e->writer, factors_name, 1, &count, BP_F32);
    }
    for (size_t i = 0; i < e->source->count; i++) {
        BP_TRY(put_parameter(e, i, false));
    }
    return BP_OK;
}

static bp_status put_data(exporting *e)
{
    float factors[FREQUENCIES_MAX];
    const char *factors_name;
    size_t count;
    BP_TRY(bp_gguf_data(&e->writer));
    for (uint32_t k = 0; (count = factors_of(e, k, &factors_name, factors)) > 0; k++) {
        BP_TRY(bp_gguf_data_add(&e->writer, factors, count * sizeof factors[0]));
        BP_TRY(bp_gguf_data_pad(&e->writer));
    }
    for (size_t i = 0; i < e->source->count; i++) {
        BP_TRY(put_parameter(e, i, true));
    }
    return BP_OK;
}

static bp_status gguf_export_write_all(exporting *e)
{
    BP_TRY(put_keys(e));
    BP_TRY(put_tensors(e));
    return put_data(e);
}

bp_status bp_gguf_export(const bp_weight_source *source, const bp_gguf_model *model,
                         bp_weight_target *target)
{
    exporting e = {.source = source, .model = model, .target = target};
    char name[BP_STORE_PATH_MAX];
    if (target->work.capacity < BP_TARGET_WORK_MIN) {
        return bp_error_limit(target->error, BP_ERR_FIT, "gguf",
                              "the memory for writing weights is too small", target->path,
                              (int64_t)target->work.capacity, BP_LIMIT_LEAST, BP_TARGET_WORK_MIN);
    }
    if (model->family->exports != NULL) {
        BP_TRY(model->family->exports(model->config, target->error));
    }
    BP_TRY(bp_replace_name(name, target->path, target->error));
    BP_TRY(bp_gguf_begin(&e.writer, target->store, name, target->error));
    bp_status status = gguf_export_write_all(&e);
    if (status == BP_OK) {
        status = bp_gguf_end(&e.writer);
    } else {
        bp_gguf_abandon(&e.writer);
    }
    if (status != BP_OK) {
        bp_replace_abandon(target->store, target->path);
        return status;
    }
    target->bytes = e.writer.at;
    for (size_t i = 0; i < source->count; i++) { /* pieces of parameters */
        target->beside += bp_weight_source_tensors(source, i, model->family->naming) - 1;
    }
    return bp_replace_end(target->store, target->path, target->error);
}
