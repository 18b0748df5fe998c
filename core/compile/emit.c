/* SPDX-License-Identifier: MIT */
/* The pen: buffers, parameters, gradients and ops of the program being written. */
#include "core/compile/emit.h"

#include <string.h>

#include "core/compile/adapter.h"
#include "core/number/codec.h"
#include "core/file/glob.h"

#define NAME_MAX_BYTES 160

static const char where[] = "emit";

/* "<first>.<second>", cut to fit; buffer names only serve readers and the state's order. */
static void join_name(char *to, const char *first, const char *second)
{
    size_t used = 0;
    for (const char *c = first; *c != '\0' && used < NAME_MAX_BYTES / 2; c++) {
        to[used++] = *c;
    }
    to[used++] = '.';
    for (const char *c = second; *c != '\0' && used < NAME_MAX_BYTES - 1; c++) {
        to[used++] = *c;
    }
    to[used] = '\0';
}

void bp_emit_init(bp_emit *emit, bp_graph *graph, const bp_spec *spec, bp_parameter *parameters,
                  uint32_t parameter_limit)
{
    *emit = (bp_emit){.graph = graph,
                      .spec = spec,
                      .parameters = parameters,
                      .parameter_limit = parameter_limit,
                      .mode = BP_MODE_TRAIN,
                      .label = "",
                      .stage = UINT32_MAX,
                      .action = UINT32_MAX,
                      .output_class = BP_CLASS_WORKSPACE,
                      .rows = (uint64_t)spec->batch * spec->sequence};
}

static uint32_t make_buffer(bp_emit *emit, const bp_buffer *prototype, const char *name)
{
    uint32_t index = BP_NO_BUFFER;
    if (emit->status == BP_OK) {
        emit->status = bp_graph_buffer(emit->graph, prototype, name, &index);
    }
    return index;
}

static bp_ref whole(uint32_t buffer, bp_dtype dtype)
{
    return (bp_ref){buffer, dtype, 0};
}

static bool begins_with(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

/* Beside adapters only they are trained, and a classifier, which no base has. */
static bool frozen_by_adapters(const bp_spec *spec, const char *name, const bp_parameter *parameter)
{
    bool own = begins_with(name, "score.") || begins_with(name, "classifier.");
    return spec->lora.rank > 0 && parameter->base == BP_NO_PARAMETER && !own;
}

/* What the spec's rules say of a parameter. */
static void apply_rules(const bp_spec *spec, const char *name, bp_parameter *parameter)
{
    bool frozen = frozen_by_adapters(spec, name, parameter);
    bool train = false;
    for (uint32_t i = 0; i < spec->rule_count; i++) {
        const bp_parameter_rule *rule = &spec->rules[i];
        if (!bp_glob_match(rule->glob, name)) {
            continue;
        }
        frozen = frozen || rule->kind == BP_RULE_FREEZE;
        train = train || rule->kind == BP_RULE_TRAIN;
        if (rule->sets_rate) {
            double peak = spec->optimizer_options.learning_rate;
            parameter->rate_scale = peak > 0.0 ? rule->learning_rate / peak : 0.0;
        }
        parameter->weight_decay = rule->sets_decay ? rule->weight_decay : parameter->weight_decay;
        parameter->optim_bits = rule->sets_bits ? rule->optim_bits : parameter->optim_bits;
    }
    parameter->trainable = train || !frozen;
}

/* The tensor beside the weight that holds the rest of its exact value. */
static void make_master(bp_emit *emit, bp_parameter *parameter, const char *name)
{
    bp_master form = emit->spec->master;
    form = form == BP_MASTER_SPLIT8 && parameter->rank < 2 ? BP_MASTER_SPLIT : form;
    bool updated = parameter->trainable && emit->spec->optimizer != NULL;
    parameter->master_form = updated ? form : BP_MASTER_WEIGHT;
    if (bp_master_bytes(parameter->master_form) == 0) {
        return;
    }
    char full[NAME_MAX_BYTES];
    join_name(full, name, "master");
    bp_buffer prototype = emit->graph->buffers[parameter->weight];
    prototype.class_of = BP_CLASS_MASTER;
    prototype.dtype = form == BP_MASTER_FP32                       ? BP_F32
                      : parameter->master_form == BP_MASTER_SPLIT8 ? BP_U8
                                                                   : BP_U16;
    parameter->master = make_buffer(emit, &prototype, full);
}

static uint32_t codes_buffer(bp_emit *emit, uint64_t bytes, bp_dtype dtype, const char *name)
{
    const bp_buffer prototype = {.class_of = BP_CLASS_WEIGHTS,
                                 .scope = BP_SCOPE_CONSTANT,
                                 .dtype = dtype,
                                 .rank = 1,
                                 .shape = {bytes}};
    return make_buffer(emit, &prototype, name);
}

/* A weight as codes and scales. */
static void make_quantised(bp_emit *emit, bp_parameter *parameter, const char *name)
{
    const bp_quantised form = emit->spec->quantised;
    const uint64_t rows = parameter->shape[emit->spec->model->input_major ? 1 : 0];
    const uint64_t nested = bp_quantised_nested(parameter->count, form);
    char full[NAME_MAX_BYTES];
    parameter->quantised = form;
    parameter->weight = codes_buffer(emit, bp_quantised_codes(parameter->count, form), BP_U8, name);
    join_name(full, name, form == BP_QUANTISED_INT8 ? "SCB" : "absmax");
    parameter->scales =
        codes_buffer(emit, bp_quantised_scales(rows, parameter->count, form), BP_U8, full);
    if (nested > 0) {
        join_name(full, name, "nested_absmax");
        parameter->nested = codes_buffer(emit, nested, BP_F32, full);
    }
}

static void make_weight(bp_emit *emit, bp_parameter *parameter, const char *name)
{
    bp_buffer prototype = {.class_of = BP_CLASS_WEIGHTS,
                           .scope = BP_SCOPE_PERSISTENT,
                           .dtype = emit->spec->working,
                           .rank = parameter->rank,
                           .shape = {parameter->shape[0], parameter->shape[1]}};
    /* The base of adapters is read again from where it came; what is only frozen belongs to the
     * model that a snapshot holds. */
    if (!parameter->trainable && emit->spec->lora.rank > 0) {
        prototype.scope = BP_SCOPE_CONSTANT;
    }
    parameter->weight = make_buffer(emit, &prototype, name);
    if (emit->status == BP_OK) {
        make_master(emit, parameter, name);
    }
}

static void make_tensors(bp_emit *emit, uint32_t index, const char *name)
{
    bp_parameter *parameter = &emit->parameters[index];
    if (emit->spec->quantised == BP_QUANTISED_NONE || !bp_adapter_dense(emit, index)) {
        make_weight(emit, parameter, name);
    } else if (parameter->trainable && emit->spec->optimizer != NULL) {
        emit->status = bp_error_set(emit->graph->error, BP_ERR_USAGE, where,
                                    "a quantised weight cannot be trained", name);
        bp_error_prefix(emit->graph->error, "trainable");
    } else {
        make_quantised(emit, parameter, name);
    }
}

void bp_emit_parameter(bp_emit *emit, const bp_parameter_info *info)
{
    if (emit->status != BP_OK) {
        return;
    }
    if (emit->parameter_count == emit->parameter_limit) {
        emit->status = bp_error_set(emit->graph->error, BP_ERR_INTERNAL, where,
                                    "the model publishes more parameters than it said", info->name);
        return;
    }
    const uint32_t index = emit->parameter_count++;
    bp_parameter *parameter = &emit->parameters[index];
    const uint64_t width = info->rank > 1 ? info->shape[1] : 1;
    *parameter = (bp_parameter){.init = info->init,
                                .deviation = info->deviation,
                                .decay = info->decay,
                                .embedding = info->embedding,
                                .rate_scale = 1.0,
                                .adapter = BP_NO_PARAMETER,
                                .base = info->adapts ? info->base : BP_NO_PARAMETER,
                                .rank = info->rank,
                                .shape = {info->shape[0], info->rank > 1 ? info->shape[1] : 0},
                                .count = bp_size_mul(info->shape[0], width)};
    const bp_optimizer_options *options = &emit->spec->optimizer_options;
    bool decays = options->decay_all || info->decay;
    parameter->weight_decay = decays ? options->weight_decay : 0.0;
    apply_rules(emit->spec, info->name, parameter);
    make_tensors(emit, index, info->name);
}

bool bp_emit_quantised(const bp_emit *emit, uint32_t index)
{
    return emit->status == BP_OK && emit->parameters[index].quantised != BP_QUANTISED_NONE;
}

bool bp_emit_trainable(const bp_emit *emit, uint32_t index)
{
    return emit->status == BP_OK && emit->parameters[index].trainable;
}

bp_ref bp_emit_buffer(bp_emit *emit, bp_class class_of, bp_dtype dtype, uint64_t rows,
                      uint64_t width, const char *name)
{
    char full[NAME_MAX_BYTES];
    join_name(full, emit->label, name);
    bp_buffer prototype = {.class_of = class_of,
                           .scope = BP_SCOPE_PROGRAM,
                           .dtype = dtype,
                           .rank = 2,
                           .shape = {rows, width}};
    return whole(make_buffer(emit, &prototype, full), dtype);
}

bp_ref bp_emit_carried(bp_emit *emit, bp_class class_of, bp_dtype dtype, uint64_t rows,
                       uint64_t width, const char *name)
{
    char full[NAME_MAX_BYTES];
    join_name(full, emit->label, name);
    for (uint32_t i = 0; i < emit->graph->used.buffers; i++) {
        bool carried = emit->graph->buffers[i].scope == BP_SCOPE_CARRIED;
        if (carried && strcmp(bp_graph_name(emit->graph, i), full) == 0) {
            return whole(i, dtype);
        }
    }
    bp_buffer prototype = {.class_of = class_of,
                           .scope = BP_SCOPE_CARRIED,
                           .dtype = dtype,
                           .rank = 2,
                           .shape = {rows, width}};
    return whole(make_buffer(emit, &prototype, full), dtype);
}

static uint32_t make_state(bp_emit *emit, uint32_t parameter, const bp_buffer *shape,
                           const char *name)
{
    char full[NAME_MAX_BYTES];
    join_name(full, bp_graph_name(emit->graph, emit->parameters[parameter].weight), name);
    bp_buffer prototype = *shape;
    prototype.class_of = BP_CLASS_OPTIMIZER;
    prototype.scope = BP_SCOPE_PERSISTENT;
    return make_buffer(emit, &prototype, full);
}

uint32_t bp_emit_state(bp_emit *emit, uint32_t parameter, bp_dtype dtype, const char *name)
{
    if (emit->status != BP_OK) {
        return BP_NO_BUFFER;
    }
    bp_buffer shape = emit->graph->buffers[emit->parameters[parameter].weight];
    shape.dtype = dtype;
    return make_state(emit, parameter, &shape, name);
}

uint32_t bp_emit_state_bytes(bp_emit *emit, uint32_t parameter, uint64_t bytes, const char *name)
{
    if (emit->status != BP_OK) {
        return BP_NO_BUFFER;
    }
    const bp_buffer shape = {.dtype = BP_U8, .rank = 1, .shape = {bytes}};
    return make_state(emit, parameter, &shape, name);
}

bp_ref bp_emit_persistent(bp_emit *emit, bp_dtype dtype, uint64_t count, const char *name)
{
    const bp_buffer prototype = {.class_of = BP_CLASS_OPTIMIZER,
                                 .scope = BP_SCOPE_PERSISTENT,
                                 .dtype = dtype,
                                 .rank = 1,
                                 .shape = {count}};
    return whole(make_buffer(emit, &prototype, name), dtype);
}

bp_ref bp_emit_weight(const bp_emit *emit, uint32_t index)
{
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    uint32_t buffer = emit->parameters[index].weight;
    return whole(buffer, emit->graph->buffers[buffer].dtype);
}

/* With one micro-batch per group gradients are born in backward, used by the update, and gone;
 * with several they live from the first micro-batch to the update. */
static void make_gradient(bp_emit *emit, bp_parameter *parameter)
{
    char full[NAME_MAX_BYTES];
    join_name(full, bp_graph_name(emit->graph, parameter->weight), "grad");
    bp_buffer prototype = emit->graph->buffers[parameter->weight];
    const bool grouped = emit->spec->accumulation > 1 && !emit->spec->gradient_int8 &&
                         emit->spec->gradient_release == BP_RELEASE_NONE;
    prototype.class_of = BP_CLASS_GRADIENTS;
    prototype.scope = grouped ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM;
    prototype.dtype = emit->spec->gradient;
    parameter->gradient = make_buffer(emit, &prototype, full);
}

bp_ref bp_emit_gradient(bp_emit *emit, uint32_t index, int64_t *accumulate)
{
    *accumulate = 0;
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    bp_parameter *parameter = &emit->parameters[index];
    if (parameter->gradient == BP_NO_BUFFER) {
        make_gradient(emit, parameter);
    }
    *accumulate = parameter->gradient_written ? 1 : 0;
    parameter->gradient_written = true;
    return whole(parameter->gradient, emit->spec->gradient);
}

bp_ref bp_emit_sum(bp_emit *emit, uint32_t index, uint64_t first)
{
    char full[NAME_MAX_BYTES];
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    bp_parameter *parameter = &emit->parameters[index];
    if (parameter->sum == BP_NO_BUFFER) {
        const bp_buffer prototype = {
            .class_of = BP_CLASS_GRADIENTS,
            .scope = emit->spec->accumulation > 1 ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM,
            .dtype = BP_U8,
            .rank = 1,
            .shape = {bp_codec_bytes(parameter->count, BP_CODEC_COMPANDED8)}};
        join_name(full, bp_graph_name(emit->graph, parameter->weight), "grad8");
        parameter->sum = make_buffer(emit, &prototype, full);
    }
    return (bp_ref){parameter->sum, BP_U8, bp_codec_bytes(first, BP_CODEC_COMPANDED8)};
}

bp_ref bp_ref_at(bp_ref ref, uint64_t elements)
{
    ref.offset += elements * bp_dtype_bytes(ref.dtype);
    return ref;
}

/* Replaces the workspace operands of one tuple by buffers of the size that the device asks for. */
static void make_workspaces(bp_emit *emit, bp_kernel kernel, bp_ref *refs, const void *scalars)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    uint8_t dtypes[BP_OPERANDS_MAX];
    for (uint32_t i = 0; i < info->operand_count; i++) {
        dtypes[i] = (uint8_t)refs[i].dtype;
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        if (!info->operand[i].workspace) {
            continue;
        }
        const bp_device *device = emit->spec->device;
        uint64_t bytes = device->workspace(&emit->spec->device_options, kernel, scalars, dtypes);
        if (bytes == 0) {
            refs[i] = BP_ABSENT;
        } else {
            refs[i] = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_U8, bytes, 1, info->name);
        }
    }
}

void bp_emit_op(bp_emit *emit, bp_kernel kernel, uint32_t tuples, const bp_ref *refs,
                const void *scalars)
{
    if (emit->status != BP_OK) {
        return;
    }
    const bp_op prototype = {
        .kernel = kernel, .tuples = tuples, .stage = emit->stage, .action = emit->action};
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    emit->status = bp_graph_op(emit->graph, &prototype, refs, scalars);
    if (emit->status != BP_OK) {
        return;
    }
    const bp_op *op = &emit->graph->ops[emit->graph->used.ops - 1];
    for (uint32_t t = 0; t < tuples; t++) {
        make_workspaces(emit, kernel, emit->graph->refs + op->operand + t * info->operand_count,
                        emit->graph->scalars + op->scalar + t * info->scalar_count);
    }
}
