/* SPDX-License-Identifier: MIT */
/* Between weight files and a runtime: match every name first, then let the data flow. */
#include "tools/formats/hf/hf_weights.h"

#include <string.h>

#include "core/plan/adapter.h"
#include "core/base/digest.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_model.h"
#include "tools/formats/hf/hf_counts.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/hf/weight_target.h"
#include "tools/formats/peft/peft_names.h"
#include "tools/formats/files/stream_file.h"

#define DATA_BYTES 1048576
#define DATA_LEAST (3 * BP_VIEW_WORK_MIN)
#define CACHED     ((size_t)32768) /* elements that are read, looked at and put from the cache */

#define CARRIED (2 * BP_HF_COUNTS) /* handles of tensors that are carried on begin here */

enum { CARRIED_MOST = 8 };

static const char where[] = "weights";
static const char too_small[] = "the memory for writing weights is too small";

typedef struct loading {
    bp_runtime *runtime;
    const bp_hf_location *location;
    bool adapters; /* the files hold adapters, and parameters that are trained beside them */
    bool divides;  /* a file of `module` alone, or of all that is no module's, is written */
    const char *module;
    uint32_t *numbers; /* of the parameters that the files hold */
    uint32_t count;
    bp_tensor_set set;
    bp_wanted *wanted;
    const bp_tensor_naming *naming;
    bp_staging room; /* what the tables left of the scratch */
    bp_tensor_set carried;
    const bp_tensor_entry *carries[CARRIED_MOST]; /* tensors of that set, and their parts */
    uint32_t carried_part[CARRIED_MOST];
    uint32_t carried_count;
} loading;

static const bp_parameter *parameter_of(const loading *l, uint32_t parameter)
{
    return &l->runtime->plan->builder.parameters[l->numbers[parameter]];
}

static const char *hf_weights_name_of(const bp_runtime *runtime, uint32_t parameter)
{
    return bp_graph_name(&runtime->plan->graph,
                         runtime->plan->builder.parameters[parameter].weight);
}

static bp_status hf_weights_no_room(const bp_hf_location *location, uint64_t needed,
                                    const char *text)
{
    return bp_error_limit(location->error, BP_ERR_FIT, where, text, location->path,
                          bp_size_signed(location->scratch.capacity), BP_LIMIT_LEAST,
                          bp_size_signed(needed));
}

bool bp_hf_of_module(const char *name)
{
    return bp_name_matches("#_Dense.linear.*", name);
}

/* Whether a file that is written is the one of this parameter. */
static bool hf_weights_here(const loading *l, uint32_t parameter)
{
    const char *name = hf_weights_name_of(l->runtime, parameter);
    return !l->divides || (l->module != NULL ? strncmp(name, l->module, strlen(l->module)) == 0
                                             : !bp_hf_of_module(name));
}

/* Numbers the parameters that a file may hold: of adapters all, and of the model's own, which files
 * without adapters hold, beside adapters those that are trained, or all that may come with them. */
static bp_status number_parameters(loading *l, bool all)
{
    const bp_builder *builder = &l->runtime->plan->builder;
    const uint64_t bytes = (uint64_t)builder->parameter_count * sizeof *l->numbers;
    l->numbers = bp_room_take(&l->room, bytes);
    l->count = 0;
    if (l->numbers == NULL) {
        return hf_weights_no_room(l->location, bytes + 8,
                                  "the memory for reading weights is too small");
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bool own = builder->parameters[i].base == BP_NO_PARAMETER;
        if ((l->adapters ? !own || all || builder->parameters[i].trainable : own) &&
            hf_weights_here(l, i)) {
            l->numbers[l->count++] = i;
        }
    }
    return BP_OK;
}

/* An adapter's A of experts, (experts, r, in), is (experts * r, in) in a file; B, (experts, out,
 * r), the transposed of (experts, out * r). */
static void want_experts(loading *l, uint32_t p)
{
    const uint64_t *shape = parameter_of(l, p)->shape;
    bp_wanted *wanted = &l->wanted[p];
    const bool b = bp_adapter_transposed(&l->runtime->plan->builder, l->numbers[p]);
    wanted->rank = 2;
    wanted->shape[0] = b ? shape[0] : shape[0] * shape[1];
    wanted->shape[1] = b ? shape[1] * shape[2] : shape[2];
    wanted->shape[2] = shape[1];
}

/* The runtime's parameters as what a file must hold. */
static bp_status list_wanted(loading *l)
{
    l->wanted = bp_room_take(&l->room, (uint64_t)l->count * sizeof *l->wanted);
    if (l->wanted == NULL) {
        return hf_weights_no_room(l->location, (uint64_t)l->count * sizeof *l->wanted + 8,
                                  "the memory for reading weights is too small");
    }
    for (uint32_t p = 0; p < l->count; p++) {
        const bp_parameter *parameter = parameter_of(l, p);
        l->wanted[p] = (bp_wanted){.name = hf_weights_name_of(l->runtime, l->numbers[p]),
                                   .rank = parameter->rank};
        memcpy(l->wanted[p].shape, parameter->shape, sizeof parameter->shape);
        if (parameter->base != BP_NO_PARAMETER && parameter->rank == 3) {
            want_experts(l, p);
        }
    }
    return BP_OK;
}

/* Files that carry digests of their tensors, as checkpoints do, are held to them. */
static bp_status check_one_digest(loading *l, const bp_tensor_entry *entry, uint32_t part)
{
    char key[sizeof BP_SAFETENSORS_DIGEST + BP_TENSOR_NAME_MAX];
    memcpy(key, BP_SAFETENSORS_DIGEST, sizeof BP_SAFETENSORS_DIGEST);
    memcpy(key + sizeof BP_SAFETENSORS_DIGEST - 1, entry->name, strlen(entry->name) + 1);
    const char *stored = bp_tensor_set_metadata(&l->set, part, key);
    uint64_t wanted;
    uint64_t found;
    if (stored == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_tensor_set_digest(&l->set, part, entry, l->room, &found));
    if (bp_digest_parse(stored, &wanted) && wanted == found) {
        return BP_OK;
    }
    bp_status status = bp_error_set(l->location->error, BP_ERR_DATA, where,
                                    "the tensor's bytes do not match its digest: the file is "
                                    "damaged",
                                    entry->name);
    bp_error_prefix(l->location->error, l->location->path);
    return status;
}

static bp_status check_digest(loading *l, const bp_tensor_view *view)
{
    const uint64_t pieces = view->in.rule != NULL ? bp_tensor_pieces_count(&view->in) : 0;
    for (uint64_t i = 0; i < pieces; i++) {
        char name[BP_TENSOR_NAME_MAX];
        uint32_t part = 0;
        const bool named = bp_tensor_pieces_name(&view->in, i, name);
        const bp_tensor_entry *entry = named ? bp_tensor_set_find(&l->set, name, &part) : NULL;
        if (entry != NULL) { /* it was there when names were matched */
            BP_TRY(check_one_digest(l, entry, part));
        }
    }
    return pieces > 0 ? BP_OK : check_one_digest(l, view->entry, view->part);
}

static bp_status match_all(loading *l, const bp_tensor_naming *naming, unsigned allow,
                           bp_tensor_watch watch)
{
    const bp_model_config config = bp_family_adopt(&l->runtime->plan->spec);
    const uint32_t heads = bp_family_count(&config, BP_ROLE_HEADS);
    const uint32_t kv_heads = bp_family_count(&config, BP_ROLE_KV_HEADS);
    const bp_match match = {
        .set = &l->set,
        .naming = naming,
        .wanted = l->wanted,
        .count = l->count,
        .heads = {heads, kv_heads != 0 ? kv_heads : heads, bp_gguf_position_first(&config)},
        .input_major = l->runtime->plan->spec.model->input_major,
        .allow = allow,
        .untied = bp_family_untied(&config),
        .work = l->room,
        .watch = watch,
        .user = l->location->user};
    return bp_tensor_match(&match);
}

static bp_status find_naming(const loading *l, bool gguf, const bp_tensor_naming **naming)
{
    const bp_family *family = bp_family_adopt(&l->runtime->plan->spec).family;
    if (family == NULL) {
        return bp_error_set(l->location->error, BP_ERR_USAGE, where,
                            "no table has the file names of this model's tensors",
                            l->runtime->plan->spec.model->name);
    }
    *naming = l->adapters ? &bp_peft_naming : &family->naming;
    if (!l->adapters && gguf && family->gguf != NULL) {
        *naming = family->gguf->naming;
    }
    return BP_OK;
}

/* Of the model's own parameters an adapter's file holds those that it brings with it. What a run
 * leaves as it is would be lost when it saves its adapters. */
static bp_status keep_present(loading *l)
{
    const bp_builder *builder = &l->runtime->plan->builder;
    uint32_t kept = 0;
    for (uint32_t p = 0; p < l->count; p++) {
        const uint32_t number = l->numbers[p];
        const bool own = builder->parameters[number].base == BP_NO_PARAMETER;
        char theirs[BP_TENSOR_NAME_MAX];
        const bool there =
            !own || bp_peft_has(&l->set, hf_weights_name_of(l->runtime, number), theirs);
        if (own && there && !builder->parameters[number].trainable &&
            l->runtime->plan->spec.optimizer) {
            return bp_error_set(l->location->error, BP_ERR_USAGE, where,
                                "the adapter brings this parameter with it, and the run would not "
                                "train it; --trainable NAME does",
                                theirs);
        }
        if (there) {
            l->numbers[kept++] = number;
        }
    }
    l->count = kept;
    return BP_OK;
}

/* Opens the files at `path` and finds every parameter in them. */
static bp_status open_and_match(loading *l, const char *path, unsigned allow, bp_tensor_watch watch)
{
    const bp_tensor_naming *naming = NULL;
    bool gguf;
    BP_TRY(bp_gguf_look(l->location->store, path, &gguf, l->location->error));
    BP_TRY(find_naming(l, gguf, &naming));
    BP_TRY((gguf ? bp_gguf_open_set : bp_hf_open)(&l->set, l->location->store, path, &l->room,
                                                  l->location->error));
    for (uint32_t i = 0; !gguf && !l->adapters && i < l->location->module_count; i++) {
        const bp_hf_module *module = &l->location->modules[i];
        BP_TRY(bp_hf_add(&l->set, module->path, module->prefix, &l->room));
    }
    l->naming = naming;
    if (l->adapters) {
        const bp_family *family = bp_family_adopt(&l->runtime->plan->spec).family;
        const bp_builder *builder = &l->runtime->plan->builder;
        const char *layer = NULL;
        for (uint32_t i = 0; layer == NULL && i < builder->parameter_count; i++) {
            const char *name = hf_weights_name_of(l->runtime, i);
            const bool own = builder->parameters[i].base == BP_NO_PARAMETER;
            layer = own && bp_peft_in_layer(name) ? name : NULL;
        }
        BP_TRY(bp_peft_complete(&l->set, &family->naming, layer, &l->room));
        BP_TRY(keep_present(l));
    }
    BP_TRY(list_wanted(l));
    if (l->room.capacity < DATA_LEAST) {
        return hf_weights_no_room(l->location,
                                  l->location->scratch.capacity - l->room.capacity + DATA_LEAST + 8,
                                  "the memory for reading weights is too small");
    }
    return match_all(l, naming, allow, watch);
}

/* Whether every value stays finite in the type that the weight is kept in: what is at least half a
 * step beyond the largest of that type does not. */
static bool fits(bp_dtype dtype, const float *values, size_t count)
{
    const float beyond = dtype == BP_F16 ? 65520.0f : 0x1.ffp127f;
    return dtype == BP_F32 || bp_quantised_largest(values, count, 0.0f) < beyond;
}

/* The type that values must fit: 8 bits are made from fp16, 4 bits from any float. */
static bp_dtype hf_weights_type_of(const loading *l, uint32_t parameter)
{
    const bp_parameter *p = parameter_of(l, parameter);
    bool plain = p->quantised == BP_QUANTISED_NONE;
    return p->master_form == BP_MASTER_FP8     ? BP_BF16
           : plain                             ? l->runtime->plan->graph.buffers[p->weight].dtype
           : p->quantised == BP_QUANTISED_INT8 ? BP_F16
           : bp_quantised_packed(p->quantised) ? l->runtime->plan->spec.working
                                               : BP_F32;
}

static bp_status hf_weights_not_finite(const loading *l, uint32_t parameter)
{
    return bp_error_set(l->location->error, BP_ERR_DATA, where,
                        "a weight is infinite or not a number",
                        l->wanted[parameter].view.entry->name);
}

static bp_status check_values(const loading *l, uint32_t parameter, const float *values,
                              size_t count)
{
    const bp_dtype dtype = hf_weights_type_of(l, parameter); /* fp32, bf16 or fp16 */
    if (!bp_elements_finite(BP_F32, values, count)) {
        return hf_weights_not_finite(l, parameter);
    }
    if (!fits(dtype, values, count)) {
        return bp_error_set(l->location->error, BP_ERR_DATA, where,
                            "a weight is too large for the type that weights are kept in",
                            l->wanted[parameter].view.entry->name);
    }
    return BP_OK;
}

/* The one place where values become a weight and its master, or codes. */
static bp_status put_values(const loading *l, uint32_t parameter, uint32_t pass, uint64_t first,
                            const float *values, size_t count)
{
    if (pass == 0) { /* a later one sees the same values */
        BP_TRY(check_values(l, parameter, values, count));
    }
    if (parameter_of(l, parameter)->quantised != BP_QUANTISED_NONE) {
        return bp_runtime_quantise(l->runtime, l->numbers[parameter], pass, first, values, count);
    }
    return bp_runtime_put_weight(l->runtime, l->numbers[parameter], first, values, count);
}

/* A third of the room is what the file is read through, the rest holds what goes on. */
static bp_status flow_once(loading *l, uint32_t parameter, const bp_tensor_view *view,
                           uint32_t pass)
{
    size_t third = l->room.capacity / 3 / 8 * 8;
    bp_staging work = {l->room.memory, third};
    float *values = (float *)(void *)((char *)l->room.memory + third);
    size_t room = 2 * third / sizeof *values;
    room = bp_tensor_view_scattered(view) || room < CACHED ? room : CACHED;
    const bp_quantised form = parameter_of(l, parameter)->quantised;
    const size_t block = bp_quantised_four(form) ? (size_t)bp_quantised_block(form) : 0;
    const size_t unit = block > BP_FP8_BLOCK ? block : BP_FP8_BLOCK; /* 32 divides both */
    size_t most = room / unit * unit;
    uint64_t elements = bp_tensor_view_elements(view);
    for (uint64_t first = 0; first < elements;) {
        uint64_t left = elements - first;
        size_t count = left < most ? (size_t)left : most;
        BP_TRY(bp_tensor_view_read(&l->set, view, first, count, BP_F32, values, work));
        BP_TRY(put_values(l, parameter, pass, first, values, count));
        first += count;
    }
    return BP_OK;
}

/* The same where the weight has no master and can be reached: the file is read to its place, and
 * looked at while it is in the cache. */
static bp_status flow_in_place(loading *l, uint32_t parameter, const bp_tensor_view *view)
{
    const bp_buffer *buffer = &l->runtime->plan->graph.buffers[parameter_of(l, parameter)->weight];
    const size_t width = bp_dtype_bytes(buffer->dtype);
    const uint64_t elements = bp_tensor_view_elements(view);
    unsigned char *to = bp_runtime_reach(l->runtime, buffer, 0, elements, width);
    const uint64_t most = bp_tensor_view_scattered(view) ? elements : CACHED;
    for (uint64_t first = 0; first < elements;) {
        uint64_t left = elements - first;
        size_t count = (size_t)(left < most ? left : most);
        void *at = to + first * width;
        BP_TRY(bp_tensor_view_read(&l->set, view, first, count, buffer->dtype, at, l->room));
        if (!bp_elements_finite(buffer->dtype, at, count)) {
            return hf_weights_not_finite(l, parameter);
        }
        first += count;
    }
    return BP_OK;
}

static bool goes_in_place(const loading *l, uint32_t parameter)
{
    const bp_parameter *p = parameter_of(l, parameter);
    const bp_buffer *buffer = &l->runtime->plan->graph.buffers[p->weight];
    return p->master == BP_NO_BUFFER && /* it is no code: its type is one that files have */
           bp_runtime_reach(l->runtime, buffer, 0, p->count, bp_dtype_bytes(buffer->dtype)) != NULL;
}

/* Bytes of a file to an offset of a buffer. */
static bp_status read_to(loading *l, bp_bnb_tensor from, const bp_buffer *to, uint64_t offset)
{
    const uint64_t bytes = from.entry->bytes;
    void *at = bp_runtime_reach(l->runtime, to, offset, bytes, 1);
    if (at != NULL) {
        return bp_tensor_set_read(&l->set, from.part, from.entry, 0, at, (size_t)bytes);
    }
    for (uint64_t done = 0; done < bytes;) {
        uint64_t left = bytes - done;
        size_t some = left < l->room.capacity ? (size_t)left : l->room.capacity;
        BP_TRY(bp_tensor_set_read(&l->set, from.part, from.entry, done, l->room.memory, some));
        BP_TRY(bp_runtime_write(l->runtime, to, offset + done, l->room.memory, some));
        done += some;
    }
    return BP_OK;
}

static bp_status copy_tensor(loading *l, bp_bnb_tensor from, uint32_t buffer, uint64_t offset)
{
    const bp_buffer *to = &l->runtime->plan->graph.buffers[buffer];
    if (offset + from.entry->bytes != to->bytes) {
        return bp_error_set(l->location->error, BP_ERR_DATA, where,
                            "a part of a quantised weight has another size", from.entry->name);
    }
    return read_to(l, from, to, offset);
}

/* Codes that a file holds in the form in which they are kept, bit for bit. */
static bp_status copy_codes(loading *l, uint32_t parameter, const bp_bnb *bnb)
{
    const bp_parameter *p = parameter_of(l, parameter);
    float head[BP_NESTED_SCALES];
    if (bnb->form != p->quantised) {
        return bp_error_set(l->location->error, BP_ERR_DATA, where,
                            "the weight is quantised in another form than the run keeps it in",
                            bnb->codes.entry->name);
    }
    BP_TRY(copy_tensor(l, bnb->codes, p->weight, 0));
    BP_TRY(copy_tensor(l, bnb->scales, p->scales, 0));
    if (p->nested == BP_NO_BUFFER) {
        return BP_OK;
    }
    BP_TRY(bp_bnb_nested(&l->set, bnb, head));
    BP_TRY(bp_runtime_write(l->runtime, &l->runtime->plan->graph.buffers[p->nested], 0, head,
                            sizeof head));
    return copy_tensor(l, bnb->nested, p->nested, sizeof head);
}

/* Every value of some packed rows stays finite in the working type. */
static bp_status check_packed_rows(const loading *l, uint32_t parameter, const uint8_t *rows,
                                   uint64_t bytes)
{
    const bp_packed_type *block = bp_packed_of_form(parameter_of(l, parameter)->quantised);
    float values[BP_PACKED_GROUP];
    for (uint64_t at = 0; at < bytes; at += block->bytes) {
        for (uint32_t group = 0; group < block->elements / BP_PACKED_GROUP; group++) {
            block->read(rows + at, group, values);
            BP_TRY(check_values(l, parameter, values, BP_PACKED_GROUP));
        }
    }
    return BP_OK;
}

/* Blocks as the file holds them: to their place, or where it cannot be reached piece by piece. */
static bp_status flow_rows(loading *l, uint32_t parameter)
{
    const bp_parameter *p = parameter_of(l, parameter);
    const bp_tensor_view *view = &l->wanted[parameter].view;
    const bp_buffer *to = &l->runtime->plan->graph.buffers[p->weight];
    const bp_packed_type *block = bp_packed_of_form(p->quantised);
    if (view->entry->packed != block->type || view->entry->rank != 2) {
        return bp_error_set(l->location->error, BP_ERR_DATA, where,
                            "the weight is of another type than the run keeps it in",
                            view->entry->name);
    }
    const uint64_t rows = view->entry->shape[0];
    const uint64_t bytes = bp_packed_bytes(block, view->entry->shape[1]);
    const uint64_t most = l->room.capacity / bytes;
    if (most == 0) {
        return hf_weights_no_room(l->location, bytes,
                                  "the memory for reading weights is too small");
    }
    for (uint64_t row = 0; row < rows;) {
        const uint64_t some = rows - row < most ? rows - row : most;
        uint8_t *place = to->part.whole != 0
                             ? NULL
                             : bp_runtime_reach(l->runtime, to, row * bytes, some * bytes, 1);
        uint8_t *at = place != NULL ? place : l->room.memory;
        BP_TRY(bp_tensor_view_rows(&l->set, view, row, some, at));
        BP_TRY(check_packed_rows(l, parameter, at, some * bytes));
        BP_TRY(place != NULL ? BP_OK
                             : bp_runtime_write_gathered(l->runtime, to, row * bytes, at,
                                                         (size_t)(some * bytes)));
        row += some;
    }
    return BP_OK;
}

/* Experts' blocks of a file in the order of GGUF's, piece by piece. */
static bp_status flow_blocks(loading *l, uint32_t parameter)
{
    const bp_parameter *p = parameter_of(l, parameter);
    const bp_mxfp4 *mx = &l->wanted[parameter].view.mx;
    const bp_buffer *to = &l->runtime->plan->graph.buffers[p->weight];
    const bp_packed_type *block = bp_packed_of_form(p->quantised);
    if (mx->blocks.entry == NULL || p->quantised != BP_QUANTISED_MXFP4) {
        return bp_error_set(l->location->error, BP_ERR_DATA, where,
                            "config.json says that experts are in blocks of MXFP4, and these are "
                            "not: --dequantize reads floats",
                            l->wanted[parameter].view.entry->name);
    }
    const uint64_t blocks = p->count / block->elements;
    const uint64_t most = l->room.capacity / (2 * (uint64_t)block->bytes);
    uint8_t *at = l->room.memory, *work = at + most * block->bytes;
    for (uint64_t first = 0; first < blocks;) {
        const uint64_t some = blocks - first < most ? blocks - first : most;
        BP_TRY(bp_mxfp4_blocks(&l->set, mx, first, (size_t)some, at, work));
        BP_TRY(check_packed_rows(l, parameter, at, some * block->bytes));
        BP_TRY(bp_runtime_write_gathered(l->runtime, to, first * block->bytes, at,
                                         (size_t)(some * block->bytes)));
        first += some;
    }
    return BP_OK;
}

/* What is quantised is read as (out, in), once per pass. */
static bp_status flow(loading *l, uint32_t parameter)
{
    const bp_quantised form = parameter_of(l, parameter)->quantised;
    const bp_tensor_heads heads = {1, 1, 0};
    bp_tensor_view view = l->wanted[parameter].view;
    if (form == BP_QUANTISED_NONE) {
        return goes_in_place(l, parameter) ? flow_in_place(l, parameter, &view)
                                           : flow_once(l, parameter, &view, 0);
    }
    const bool experts = parameter_of(l, parameter)->rank == 3;
    if (bp_quantised_packed(form)) {
        return experts ? flow_blocks(l, parameter) : flow_rows(l, parameter);
    }
    if (view.bnb.form != BP_QUANTISED_NONE) {
        return copy_codes(l, parameter, &view.bnb);
    }
    const bool turned = experts ? parameter_of(l, parameter)->input_major
                                : l->runtime->plan->spec.model->input_major;
    if (turned && !bp_tensor_view_transpose(&view, BP_LAYOUT_TRANSPOSED, heads)) {
        return bp_error_set(l->location->error, BP_ERR_USAGE, where,
                            "a tensor of this form cannot be quantised", view.entry->name);
    }
    for (uint32_t pass = 0; pass < bp_quantised_passes(form); pass++) {
        BP_TRY(flow_once(l, parameter, &view, pass));
    }
    return BP_OK;
}

/* Files hold codes of all dense layers of the blocks, or of none: to quantise the rest, which was
 * left out on purpose, would change what the model computes. */
static bp_status hf_weights_check_quantised(const loading *l)
{
    const char *floats = NULL;
    bool codes = false;
    for (uint32_t p = 0; p < l->count; p++) {
        const bp_tensor_view *view = &l->wanted[p].view;
        const bp_quantised form = parameter_of(l, p)->quantised;
        if (view->entry == NULL || form == BP_QUANTISED_NONE || bp_quantised_packed(form) ||
            parameter_of(l, p)->rank == 3) { /* bitsandbytes leaves experts */
            continue;
        }
        bool coded = view->bnb.form != BP_QUANTISED_NONE;
        codes = codes || coded;
        floats = coded || floats != NULL ? floats : view->entry->name;
    }
    if (!codes || floats == NULL) {
        return BP_OK;
    }
    bp_status status = bp_error_set(l->location->error, BP_ERR_DATA, where,
                                    "this weight is not quantised and others are, which is not "
                                    "implemented (export --dtype fp32 makes floats of all)",
                                    floats);
    bp_error_prefix(l->location->error, l->location->path);
    return status;
}

/* Whether the file's tensor of this parameter, if there is one, is read. */
static bool is_taken(const loading *l, uint32_t p)
{
    const bool follows =
        l->location->state_follows && bp_runtime_in_state(l->runtime, l->numbers[p]);
    const bool there = l->location->base_there && bp_runtime_in_base(l->runtime, l->numbers[p]);
    return l->wanted[p].view.entry != NULL && !follows && !there;
}

static bp_status load_all(loading *l)
{
    BP_TRY(open_and_match(l, l->location->path, l->location->allow, l->location->watch));
    BP_TRY(hf_weights_check_quantised(l));
    for (uint32_t p = 0; p < l->count; p++) {
        if (is_taken(l, p)) {
            BP_TRY(check_digest(l, &l->wanted[p].view));
        }
    }
    for (uint32_t p = 0; p < l->count; p++) {
        bp_status status = is_taken(l, p) ? flow(l, p) : BP_OK;
        if (status == BP_ERR_DATA) {
            bp_error_prefix(l->location->error, l->location->path);
        }
        BP_TRY(status);
        if (is_taken(l, p)) {
            bp_runtime_given(l->runtime, l->numbers[p]);
        }
    }
    return l->location->state_follows
               ? BP_OK
               : bp_hf_counts_load(l->runtime, &l->set, l->naming, l->location->error);
}

uint64_t bp_hf_scratch(const bp_runtime *runtime)
{
    /* Twice the tensors: a file may hold two mask buffers per layer, which has twelve parameters.
     * A quantised weight has five tensors beside it. */
    uint64_t each = runtime->plan->spec.config.quantised != BP_QUANTISED_NONE ? 6 : 2;
    uint64_t tensors = each * (uint64_t)runtime->plan->builder.parameter_count + 16;
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count; i++) {
        const bp_parameter *parameter = &runtime->plan->builder.parameters[i];
        tensors += parameter->rank == 3 ? BP_PIECES_SIDES * parameter->shape[0] : 0;
    }
    return DATA_BYTES + BP_HF_INDEX_WORK + BP_SAFETENSORS_WORK +
           tensors * (sizeof(bp_tensor_entry) + sizeof(bp_wanted) + 256);
}

static loading hf_weights_part_of(bp_runtime *runtime, const bp_hf_location *location,
                                  bool adapters)
{
    return (loading){
        .runtime = runtime, .location = location, .adapters = adapters, .room = location->scratch};
}

static bp_status load_part(loading l)
{
    BP_TRY(number_parameters(&l, true));
    bp_status status = load_all(&l);
    bp_status closed = bp_tensor_set_close(&l.set);
    return status != BP_OK ? status : closed;
}

bp_status bp_hf_weights_load(bp_runtime *runtime, const bp_hf_location *location)
{
    return load_part(hf_weights_part_of(runtime, location, false));
}

bp_status bp_hf_adapters_load(bp_runtime *runtime, const bp_hf_location *location)
{
    return load_part(hf_weights_part_of(runtime, location, true));
}

/* The element type that each parameter has in the source; the form's own where it says nothing. */
static bp_status find_types(loading l, const bp_hf_scheme *form, uint8_t *types)
{
    for (uint32_t p = 0; p < l.count; p++) {
        types[p] = (uint8_t)(bp_build_corrects(parameter_of(&l, p)) ? BP_F32 : form->dtype);
    }
    if (form->source == NULL) {
        return BP_OK;
    }
    bp_status status = open_and_match(
        &l, form->source, BP_ALLOW_MISSING | BP_ALLOW_UNEXPECTED | BP_ALLOW_SHAPE, NULL);
    for (uint32_t p = 0; status == BP_OK && p < l.count; p++) {
        const bp_tensor_view *view = &l.wanted[p].view;
        const bool plain = view->entry != NULL && view->bnb.form == BP_QUANTISED_NONE &&
                           bp_tensor_readable(bp_tensor_view_dtype(view));
        types[p] = plain ? (uint8_t)bp_tensor_view_dtype(view) : types[p];
    }
    bp_status closed = bp_tensor_set_close(&l.set);
    return status != BP_OK ? status : closed;
}

/* Elements of a weight, exactly as its master holds them, in the type of the file. */
static bp_status give(void *user, const bp_tensor_entry *entry, uint64_t offset, void *to,
                      size_t bytes)
{
    loading *l = user;
    float values[1024];
    const bool own = BP_PIECES_TAKEN(entry->handle);
    if (!own && entry->handle >= CARRIED) {
        const size_t index = (size_t)(entry->handle - CARRIED);
        return bp_tensor_set_read(&l->carried, l->carried_part[index], l->carries[index], offset,
                                  to, bytes);
    }
    if (!own && entry->handle >= BP_HF_COUNTS) { /* no piece cuts its 8 bytes (write_file) */
        return bp_hf_counts_give(l->runtime, entry, to);
    }
    size_t size = bp_dtype_bytes(entry->dtype);
    unsigned char *out = to;
    const uint32_t number = (uint32_t)BP_PIECES_REST(entry->handle);
    uint64_t first = offset / size;
    if (BP_PIECES_TAKEN(entry->handle)) { /* those of files of Hugging Face lie in one run each */
        const uint64_t count = entry->shape[0] * entry->shape[1];
        first += BP_PIECES_INDEX(entry->handle) * count;
    }
    for (size_t left = bytes / size; left > 0;) {
        size_t count = left < 1024 ? left : 1024;
        BP_TRY(bp_adapter_transposed(&l->runtime->plan->builder, number)
                   ? bp_peft_get_transposed(l->runtime, number, first, values, count)
                   : bp_runtime_get_trained(l->runtime, number, first, values, count));
        if (!bp_elements_convert(BP_F32, values, entry->dtype, out, count)) {
            return bp_error_set(l->location->error, BP_ERR_DATA, where,
                                "a weight is too large for the type it is to be saved in",
                                entry->name);
        }
        out += count * size;
        first += count;
        left -= count;
    }
    return BP_OK;
}

/* The pieces in which a file has a parameter; false: it is one tensor. */
static bool hf_weights_pieces(const loading *l, uint32_t p, bp_tensor_pieces *pieces)
{
    const bp_family *family = bp_family_adopt(&l->runtime->plan->spec).family;
    const bp_parameter *parameter = parameter_of(l, p);
    const char *ours = hf_weights_name_of(l->runtime, l->numbers[p]);
    char theirs[BP_TENSOR_NAME_MAX];
    if (family == NULL || l->adapters || parameter->rank != 3) {
        return false;
    }
    const bp_tensor_rule *rule = bp_tensor_name(&family->naming, ours, theirs);
    return rule != NULL && bp_tensor_in_pieces(rule->form) &&
           bp_tensor_pieces_of(pieces, rule, ours, parameter->rank, parameter->shape);
}

/* Tensors that a file has more than there are parameters. */
static uint64_t count_pieces(const loading *l)
{
    uint64_t more = 0;
    bp_tensor_pieces pieces;
    for (uint32_t p = 0; p < l->count; p++) {
        more += hf_weights_pieces(l, p, &pieces) ? bp_tensor_pieces_count(&pieces) - 1 : 0;
    }
    return more;
}

/* Lists those of a parameter; their names take of the room. */
static bp_status list_pieces(loading *l, uint32_t p, bp_dtype type, const bp_tensor_pieces *pieces,
                             bp_tensor_entry *entries)
{
    for (uint64_t i = 0; i < bp_tensor_pieces_count(pieces); i++) {
        char theirs[BP_TENSOR_NAME_MAX];
        const bool named = bp_tensor_pieces_name(pieces, i, theirs);
        const size_t bytes = named ? strlen(theirs) + 1 : 0;
        char *name = bp_room_take(&l->room, bytes);
        if (!named || name == NULL) {
            return hf_weights_no_room(l->location, bytes, too_small);
        }
        memcpy(name, theirs, bytes);
        entries[i] = (bp_tensor_entry){
            .name = name, .dtype = type, .handle = BP_PIECES_HANDLE((uint64_t)l->numbers[p], i)};
        entries[i].rank = bp_tensor_pieces_shape(pieces, entries[i].shape);
    }
    return BP_OK;
}

/* The name that the family's files have for a parameter in one tensor; NULL: no room for it. */
/* Whether a file has a parameter as a number without a dimension. */
static bool is_number(const loading *l, uint32_t p)
{
    const bp_family *family = bp_family_adopt(&l->runtime->plan->spec).family;
    char theirs[BP_TENSOR_NAME_MAX];
    const bp_tensor_rule *rule =
        family != NULL && !l->adapters
            ? bp_tensor_name(&family->naming, hf_weights_name_of(l->runtime, l->numbers[p]), theirs)
            : NULL;
    return rule != NULL && rule->form == BP_LAYOUT_NUMBER;
}

static const char *name_in_file(loading *l, uint32_t p)
{
    const bp_family *family = bp_family_adopt(&l->runtime->plan->spec).family;
    const char *ours = hf_weights_name_of(l->runtime, l->numbers[p]);
    char theirs[BP_TENSOR_NAME_MAX];
    if (l->module != NULL) {
        return ours + strlen(l->module);
    }
    if (family == NULL || l->adapters) {
        return ours;
    }
    const bp_tensor_rule *rule = bp_tensor_name(&family->naming, ours, theirs);
    if (rule == NULL || rule->form != BP_LAYOUT_PLAIN || strcmp(ours, theirs) == 0) {
        return ours;
    }
    const size_t bytes = strlen(theirs) + 1;
    char *name = bp_room_take(&l->room, bytes);
    return name != NULL ? memcpy(name, theirs, bytes) : NULL;
}

static bp_status list_weights(loading *l, const uint8_t *types, bp_tensor_entry *entries)
{
    for (uint32_t p = 0; p < l->count; p++) {
        const bp_parameter *parameter = parameter_of(l, p);
        bp_tensor_entry *entry = entries++;
        bp_tensor_pieces pieces;
        if (hf_weights_pieces(l, p, &pieces)) {
            BP_TRY(list_pieces(l, p, (bp_dtype)types[p], &pieces, entry));
            entries = entry + bp_tensor_pieces_count(&pieces);
            continue;
        }
        const char *name = name_in_file(l, p);
        if (name == NULL) {
            return hf_weights_no_room(l->location, BP_TENSOR_NAME_MAX, too_small);
        }
        *entry = (bp_tensor_entry){.name = name,
                                   .dtype = (bp_dtype)types[p],
                                   .rank = is_number(l, p) ? 0 : parameter->rank,
                                   .handle = l->numbers[p]};
        memcpy(entry->shape, parameter->shape, parameter->rank * sizeof parameter->shape[0]);
        const bool transposed = bp_adapter_transposed(&l->runtime->plan->builder, l->numbers[p]);
        if (l->adapters && parameter->base != BP_NO_PARAMETER && parameter->rank == 3) {
            entry->rank = 2;
            entry->shape[0] =
                transposed ? parameter->shape[1] : parameter->shape[0] * parameter->shape[1];
            entry->shape[1] =
                transposed ? parameter->shape[2] * parameter->shape[0] : parameter->shape[2];
        } else if (transposed) {
            entry->shape[0] = parameter->shape[1];
            entry->shape[1] = parameter->shape[0];
        }
    }
    return BP_OK;
}

static bp_status write_file(loading *l, bp_safetensors_plan *plan)
{
    const bp_hf_location *location = l->location;
    bp_safetensors_writer writer;
    char name[BP_STORE_PATH_MAX];
    if (l->room.capacity < 64) {
        return hf_weights_no_room(location, 64, too_small);
    }
    l->room.capacity = l->room.capacity / 8 * 8; /* so that no piece cuts an element */
    BP_TRY(bp_replace_name(name, location->path, location->error));
    BP_TRY(bp_safetensors_layout(plan, location->error));
    BP_TRY(bp_safetensors_begin(&writer, location->store, name, plan, location->error));
    bp_status status = bp_safetensors_write(&writer, l->room, give, l);
    status = status == BP_OK ? bp_safetensors_end(&writer) : status;
    if (status != BP_OK) {
        bp_replace_abandon(location->store, location->path);
        return status;
    }
    return bp_replace_end(location->store, location->path, location->error);
}

/* What is trained beside adapters gets the name that PEFT gives it. */
static bp_status name_for_peft(loading *l, bp_tensor_entry *entries)
{
    for (uint32_t p = 0; p < l->count; p++) {
        char theirs[BP_TENSOR_NAME_MAX];
        const bool named = bp_peft_name(&l->runtime->plan->builder, entries[p].name, theirs);
        const size_t bytes = named ? strlen(theirs) + 1 : 0;
        char *name = bp_room_take(&l->room, bytes);
        if (!named || name == NULL) {
            return hf_weights_no_room(l->location, bytes, too_small);
        }
        memcpy(name, theirs, bytes);
        entries[p].name = name;
    }
    return BP_OK;
}

/* Lists the tensors that are carried on behind the model's own. */
static void list_carried(loading *l, const bp_hf_scheme *form, const char *first,
                         bp_tensor_entry *entries)
{
    bp_error unheard = {.code = BP_OK};
    bool gguf = true;
    if (form->carried == NULL ||
        bp_gguf_look(l->location->store, form->carried, &gguf, &unheard) != BP_OK || gguf ||
        bp_hf_open(&l->carried, l->location->store, form->carried, &l->room, &unheard) != BP_OK) {
        return;
    }
    l->carried.error = l->location->error;
    for (uint32_t p = 0; p < l->carried.part_count; p++) {
        const bp_tensor_part *part = &l->carried.parts[p];
        for (size_t i = 0; i < part->entry_count && l->carried_count < CARRIED_MOST; i++) {
            const bp_tensor_entry *theirs = &part->entries[i];
            const char *const *pattern = form->patterns;
            while (*pattern != NULL && !bp_name_matches(*pattern, theirs->name)) {
                pattern++;
            }
            const char *name =
                *pattern != NULL ? bp_carried_name(&l->room, first, theirs->name) : NULL;
            if (name != NULL) {
                bp_tensor_entry *entry = &entries[l->carried_count];
                *entry = *theirs;
                entry->name = name;
                entry->handle = CARRIED + l->carried_count;
                l->carried_part[l->carried_count] = p;
                l->carries[l->carried_count++] = theirs;
            }
        }
    }
}

static bp_status save_part(loading l, const bp_hf_scheme *form)
{
    BP_TRY(number_parameters(&l, false));
    const size_t count = l.count + (size_t)count_pieces(&l);
    const uint32_t counts = bp_hf_counts(l.runtime);
    const uint64_t table = ((uint64_t)count + counts + CARRIED_MOST) * sizeof(bp_tensor_entry);
    uint8_t *types = bp_room_take(&l.room, l.count);
    bp_tensor_entry *entries = bp_room_take(&l.room, table);
    if (types == NULL || entries == NULL) {
        return hf_weights_no_room(l.location, count + table + 80, too_small);
    }
    BP_TRY(find_types(l, form, types));
    if (form->first != NULL) {
        *form->first = (bp_dtype)types[0];
    }
    BP_TRY(list_weights(&l, types, entries));
    BP_TRY(l.adapters ? name_for_peft(&l, entries) : BP_OK);
    BP_TRY(bp_hf_counts_list(l.runtime, entries + count, &l.room, l.location->error));
    list_carried(&l, form, entries[0].name, entries + count + counts);
    bp_safetensors_plan plan = {.entries = entries,
                                .entry_count = count + counts + l.carried_count,
                                .groups = form->noted,
                                .group_count = form->noted != NULL};
    const bp_status status = write_file(&l, &plan);
    const bp_status closed = bp_tensor_set_close(&l.carried);
    return status != BP_OK ? status : closed;
}

bp_status bp_hf_weights_save(bp_runtime *runtime, const bp_hf_location *location,
                             const bp_hf_scheme *form)
{
    loading l = hf_weights_part_of(runtime, location, false);
    l.divides = true;
    l.module = form->module;
    return save_part(l, form);
}

bp_status bp_hf_adapters_save(bp_runtime *runtime, const bp_hf_location *location,
                              const bp_hf_scheme *form)
{
    return save_part(hf_weights_part_of(runtime, location, true), form);
}
