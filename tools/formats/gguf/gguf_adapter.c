/* SPDX-License-Identifier: MIT */
/* The pairs of a merge, written apart from the model. */
#include "tools/formats/gguf/gguf_adapter.h"

#include <string.h>

#include "arena/text.h"
#include "tools/formats/files/stream_file.h"
#include "tools/formats/peft/merge.h"

enum { PIECE = 256 };

static const char where[] = "gguf";

typedef struct adapter_writing {
    const bp_weight_source *source;
    bp_gguf_adapter *adapter;
    bp_gguf_writer writer;
    bp_error *error;
    float alpha; /* of all */
} adapter_writing;

static const bp_merge_pair *adapter_pair(const adapter_writing *e, size_t i)
{
    return &e->source->merge->pairs[i];
}

static bp_status adapter_no_form(const adapter_writing *e, size_t i, const char *text)
{
    return bp_error_set(e->error, BP_ERR_USAGE, where, text, e->source->list[i].name);
}

/* The parameter as the model's file has it: its name there, and the order of its rows. */
static bp_status adapter_view(const adapter_writing *e, size_t i, char name[BP_TENSOR_NAME_MAX],
                              bp_tensor_view *view)
{
    const bp_wanted *wanted = &e->source->list[i];
    const bp_merge_pair *pair = adapter_pair(e, i);
    const bp_tensor_rule *rule = bp_tensor_name(e->adapter->family->naming, wanted->name, name);
    *view = (bp_tensor_view){.rank = wanted->rank};
    memcpy(view->shape, wanted->shape, sizeof wanted->shape);
    if (pair->rows != NULL || pair->whole != NULL) {
        return adapter_no_form(e, i,
                               "GGUF adapters hold no rows, heads and biases that were trained "
                               "beside them; --merge writes them with the model");
    }
    if (pair->factor != NULL) {
        return adapter_no_form(e, i,
                               "GGUF adapters hold no magnitudes (DoRA); --merge writes them with "
                               "the model");
    }
    if (rule == NULL || wanted->rank != 2 || bp_tensor_in_pieces(rule->form) ||
        strcmp(name, "token_embd.weight") == 0 ||
        !bp_tensor_view_transpose(view, rule->form, e->source->heads)) {
        return adapter_no_form(e, i,
                               "the format has no adapter of this tensor; --merge writes it with "
                               "the model");
    }
    return BP_OK;
}

/* NAME.lora_a or NAME.lora_b; what is too long the writer refuses. */
static void adapter_put(adapter_writing *e, const char *name, const char *end, uint64_t rows,
                        uint64_t columns)
{
    char joined[BP_TENSOR_NAME_MAX + 8];
    const uint64_t shape[2] = {rows, columns};
    bp_text text;
    bp_text_init(&text, NULL, NULL, joined, sizeof joined);
    bp_text_string(&text, name);
    bp_text_string(&text, end);
    bp_text_char(&text, '\0');
    const bp_status fits = bp_text_flush(&text);
    (void)fits; /* a name, and seven characters */
    bp_gguf_put_tensor(&e->writer, joined, 2, shape, BP_F32);
    e->adapter->tensors++;
    e->adapter->parameters += rows * columns;
}

/* Rows of B in the file's order, times what the common alpha lacks. */
static bp_status adapter_put_b(adapter_writing *e, const bp_merge_pair *pair,
                               const bp_tensor_view *view)
{
    float row[PIECE];
    const float lacks = pair->scale * (float)pair->rank / e->alpha;
    for (uint64_t out = 0; out < pair->out; out++) {
        const float *from = pair->b + bp_merge_row(view, out) * pair->rank;
        for (uint32_t first = 0; first < pair->rank; first += PIECE) {
            const uint32_t left = pair->rank - first, some = left < PIECE ? left : PIECE;
            for (uint32_t k = 0; k < some; k++) {
                row[k] = from[first + k] * lacks;
            }
            BP_TRY(bp_gguf_data_add(&e->writer, row, some * sizeof *row));
        }
    }
    return BP_OK;
}

static bp_status adapter_put_all(adapter_writing *e, bool data)
{
    for (size_t i = 0; i < e->source->count; i++) {
        const bp_merge_pair *pair = adapter_pair(e, i);
        char name[BP_TENSOR_NAME_MAX];
        bp_tensor_view view;
        if (!bp_merge_changes(e->source->merge, i)) {
            continue;
        }
        BP_TRY(adapter_view(e, i, name, &view));
        if (!data) {
            adapter_put(e, name, ".lora_a", pair->rank, pair->in);
            adapter_put(e, name, ".lora_b", pair->out, pair->rank);
            continue;
        }
        BP_TRY(
            bp_gguf_data_add(&e->writer, pair->a, (size_t)(pair->rank * pair->in) * sizeof(float)));
        BP_TRY(bp_gguf_data_pad(&e->writer));
        BP_TRY(adapter_put_b(e, pair, &view));
        BP_TRY(bp_gguf_data_pad(&e->writer));
    }
    return BP_OK;
}

static bp_status adapter_write(adapter_writing *e)
{
    bp_gguf_writer *w = &e->writer;
    const char *architecture = e->adapter->family->architecture, *name = e->adapter->name;
    for (size_t i = 0; i < e->source->count && e->alpha == 0.0f; i++) {
        const bp_merge_pair *pair = adapter_pair(e, i);
        e->alpha = pair->a != NULL ? pair->scale * (float)pair->rank : 0.0f;
    }
    bp_gguf_put_string(w, "general.architecture", architecture, strlen(architecture));
    bp_gguf_put_string(w, "general.type", "adapter", 7);
    bp_gguf_put_string(w, "adapter.type", "lora", 4);
    if (name[0] != '\0') {
        bp_gguf_put_string(w, "general.name", name, strlen(name));
    }
    bp_gguf_put_u32(w, "general.file_type", 0);
    bp_gguf_put_u32(w, "general.quantization_version", 2);
    bp_gguf_put_f32(w, "adapter.lora.alpha", e->alpha);
    BP_TRY(adapter_put_all(e, false));
    BP_TRY(bp_gguf_data(w));
    return adapter_put_all(e, true);
}

bp_status bp_gguf_adapter_export(const bp_weight_source *source, bp_gguf_adapter *adapter,
                                 bp_weight_target *target)
{
    adapter_writing e = {.source = source, .adapter = adapter, .error = target->error};
    char name[BP_STORE_PATH_MAX];
    adapter->tensors = adapter->parameters = 0;
    BP_TRY(bp_replace_name(name, target->path, target->error));
    BP_TRY(bp_gguf_begin(&e.writer, target->store, name, target->error));
    bp_status status = adapter_write(&e);
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
    return bp_replace_end(target->store, target->path, target->error);
}
