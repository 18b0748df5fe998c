/* SPDX-License-Identifier: MIT */
/* The pen: buffers, parameters, gradients and ops of the program being written. */
#include "core/plan/emit.h"

#include <string.h>

#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"
#include "core/plan/rows.h"
#include "core/ops/codec.h"
#include "core/base/glob.h"
#include "core/plan/optimizer.h"
#include "core/plan/compile.h"

static const char where[] = "emit";

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

const char *bp_emit_name(const bp_emit *emit, uint32_t index)
{
    return emit->names + emit->parameters[index].name;
}

static uint32_t make_buffer(bp_emit *emit, const bp_buffer *prototype, const char *name)
{
    uint32_t index = BP_NO_BUFFER;
    if (emit->status == BP_OK) {
        emit->status = bp_graph_buffer(emit->graph, prototype, name, &index);
    }
    return index;
}

/* A buffer called "<first>.<second>". */
static uint32_t make_joined(bp_emit *emit, const bp_buffer *prototype, const char *first,
                            const char *second)
{
    uint32_t index = BP_NO_BUFFER;
    if (emit->status == BP_OK) {
        emit->status = bp_graph_buffer_of(emit->graph, prototype, first, second, &index);
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

/* Beside adapters only they are trained, the biases that are asked for, and the head of a task,
 * which no base has (PEFT saves every module whose name ends in "classifier"). */
static bool frozen_by_adapters(const bp_emit *emit, const char *name, const bp_parameter *parameter)
{
    bool own = begins_with(name, "score.") || begins_with(name, "classifier.") ||
               begins_with(name, "pre_classifier.") || begins_with(name, "qa_outputs.");
    return emit->spec->lora.rank > 0 && parameter->base == BP_NO_PARAMETER && !own &&
           !bp_adapter_trains_bias(emit, name);
}

/* What the spec's rules say of a parameter. */
static void apply_rules(const bp_emit *emit, const char *name, bp_parameter *parameter)
{
    const bp_spec *spec = emit->spec;
    bool frozen = frozen_by_adapters(emit, name, parameter);
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
    parameter->trainable = (train || !frozen) && !parameter->statistic;
    parameter->fixed = spec->offload.fixed && !parameter->trainable && !parameter->statistic;
}

/* The weight as a buffer, and what has its shape: master, gradient, state. */
static bp_buffer weight_buffer(const bp_emit *emit, const bp_parameter *parameter)
{
    /* The base of adapters is read again; what is only frozen belongs to the checkpoint's model. */
    const bool base = !parameter->trainable && !parameter->statistic && emit->spec->lora.rank > 0;
    return (bp_buffer){.class_of = BP_CLASS_WEIGHTS,
                       .scope = base ? bp_rows_scope(emit, parameter) : BP_SCOPE_PERSISTENT,
                       .dtype = emit->spec->working,
                       .rank = parameter->rank,
                       .shape = {parameter->shape[0], parameter->shape[1], parameter->shape[2],
                                 parameter->shape[3]}};
}

/* This rank's part of a tensor of a trained parameter that is shared out, `unit` bytes for every
 * unit of the map and `whole` for all elements. */
static bp_buffer shared_part(const bp_emit *emit, uint32_t index, bp_buffer prototype,
                             uint64_t unit, uint64_t whole)
{
    const bp_parameter *parameter = &emit->parameters[index];
    const uint64_t end = parameter->share.first + parameter->share.count;
    if (emit->shards.ranks == 0) {
        return prototype;
    }
    const uint64_t first = end == 0 ? 0 : parameter->share.first / BP_SHARD_UNIT * unit;
    const uint64_t last = end == parameter->count ? whole : end / BP_SHARD_UNIT * unit;
    prototype.part = (bp_buffer_part){whole, first < last ? first : last, unit, index};
    prototype.bytes = last - prototype.part.first;
    return prototype;
}

static void choose_master(const bp_emit *emit, uint32_t index)
{
    bp_parameter *parameter = &emit->parameters[index];
    bp_master form = emit->spec->master;
    form = form == BP_MASTER_SPLIT8 && parameter->rank < 2 ? BP_MASTER_SPLIT : form;
    form = compile_goes_fp8(emit, index) ? BP_MASTER_FP8 : form;
    parameter->master_form =
        parameter->trainable && emit->spec->optimizer != NULL ? form : BP_MASTER_WEIGHT;
}

/* The tensor beside the weight that holds the rest of its exact value. */
static void make_master(bp_emit *emit, uint32_t index, const char *name)
{
    bp_parameter *parameter = &emit->parameters[index];
    const bp_master form = parameter->master_form;
    const uint64_t width = bp_master_bytes(form);
    if (width == 0 || emit->status != BP_OK) {
        return;
    }
    bp_buffer prototype = weight_buffer(emit, parameter);
    prototype.class_of = BP_CLASS_MASTER;
    prototype.space = parameter->aside ? compile_offload_space(emit) : BP_SPACE_DEVICE;
    prototype.dtype = form == BP_MASTER_FP32 ? BP_F32 : form == BP_MASTER_SPLIT8 ? BP_U8 : BP_U16;
    prototype = shared_part(emit, index, prototype, width * BP_SHARD_UNIT,
                            bp_size_mul(parameter->count, width));
    parameter->master = make_joined(emit, &prototype, name, "master");
}

void bp_emit_master(bp_emit *emit, uint32_t index)
{
    make_master(emit, index, bp_emit_name(emit, index));
}

static bp_buffer codes_buffer(uint64_t bytes, bp_dtype dtype)
{
    return (bp_buffer){.class_of = BP_CLASS_WEIGHTS,
                       .scope = BP_SCOPE_CONSTANT,
                       .dtype = dtype,
                       .rank = 1,
                       .shape = {bytes}};
}

static bp_space space_of(const bp_emit *emit, const bp_parameter *parameter)
{
    return parameter->fixed       ? BP_SPACE_HOST
           : parameter->offloaded ? compile_offload_space(emit)
                                  : BP_SPACE_DEVICE;
}

/* A weight as codes and scales. */
static void make_quantised(bp_emit *emit, bp_parameter *parameter, const char *name)
{
    const bp_quantised form = emit->spec->quantised;
    const uint64_t rows = parameter->shape[emit->spec->model->input_major ? 1 : 0];
    const uint64_t nested = bp_quantised_nested(parameter->count, form);
    bp_buffer codes = codes_buffer(bp_quantised_codes(parameter->count, form), BP_U8);
    bp_buffer scales = codes_buffer(bp_quantised_scales(rows, parameter->count, form), BP_U8);
    bp_buffer second = codes_buffer(nested, BP_F32);
    codes.space = scales.space = second.space = space_of(emit, parameter);
    parameter->quantised = form;
    parameter->weight = make_buffer(emit, &codes, name);
    parameter->scales =
        make_joined(emit, &scales, name, form == BP_QUANTISED_INT8 ? "SCB" : "absmax");
    if (nested > 0) {
        parameter->nested = make_joined(emit, &second, name, "nested_absmax");
    }
}

static void make_weight(bp_emit *emit, uint32_t index, const char *name)
{
    bp_parameter *parameter = &emit->parameters[index];
    choose_master(emit, index);
    bp_buffer prototype = weight_buffer(emit, parameter);
    if (parameter->master_form == BP_MASTER_FP8) {
        prototype.dtype = BP_U8;
        prototype.rank = 1;
        memset(prototype.shape, 0, sizeof prototype.shape);
        prototype.shape[0] = bp_fp8_bytes(parameter->count);
    }
    prototype.space = space_of(emit, parameter);
    parameter->weight = make_buffer(emit, &prototype, name);
    if (!bp_emit_shared(emit)) {
        make_master(emit, index, name);
    }
}

static void make_tensors(bp_emit *emit, uint32_t index, const char *name)
{
    bp_parameter *parameter = &emit->parameters[index];
    parameter->aside = compile_goes_aside(emit, index);
    parameter->gradient_offloaded = compile_gradient_goes(emit, index);
    parameter->offloaded =
        parameter->trainable ? compile_goes_along(emit, index) : compile_is_offloaded(emit, index);
    if (emit->spec->quantised == BP_QUANTISED_NONE || !bp_adapter_dense(emit, index)) {
        make_weight(emit, index, name);
    } else if (parameter->trainable && emit->spec->optimizer != NULL) {
        emit->status = bp_error_set(emit->graph->error, BP_ERR_USAGE, where,
                                    "a quantised weight cannot be trained", name);
        bp_error_prefix(emit->graph->error, "trainable");
    } else {
        make_quantised(emit, parameter, name);
    }
}

/* Notes where the name of a parameter is. A graph that counts has none, so the emitter keeps it. */
static void note_name(bp_emit *emit, bp_parameter *parameter, const char *name)
{
    const size_t bytes = strlen(name) + 1;
    if (emit->status != BP_OK) {
        return;
    }
    if (!bp_graph_counts(emit->graph)) {
        emit->names = emit->graph->names;
        parameter->name = emit->graph->buffers[parameter->weight].name;
        return;
    }
    if (bytes > emit->names_limit - emit->names_used) {
        emit->status = bp_error_set(emit->graph->error, BP_ERR_FIT, where,
                                    "the names of a model's parameters are too long", name);
        return;
    }
    memcpy(emit->names + emit->names_used, name, bytes);
    parameter->name = emit->names_used;
    emit->names_used += (uint32_t)bytes;
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
    *parameter = (bp_parameter){.init = info->init,
                                .deviation = info->deviation,
                                .decay = info->decay,
                                .embedding = info->embedding,
                                .statistic = info->statistic,
                                .depthwise = info->depthwise,
                                .input_major = info->input_major,
                                .together = info->together > 0 ? info->together : 1,
                                .rate_scale = 1.0,
                                .adapter = BP_NO_PARAMETER,
                                .rows = BP_NO_PARAMETER,
                                .base = info->adapts ? info->base : BP_NO_PARAMETER,
                                .rank = info->rank,
                                .count = 1};
    for (uint32_t i = 0; i < info->rank && i < BP_RANK_MAX; i++) {
        parameter->shape[i] = info->shape[i];
        parameter->count = bp_size_mul(parameter->count, info->shape[i]);
    }
    parameter->share = (bp_share){0, parameter->count};
    const bp_optimizer_options *options = &emit->spec->optimizer_options;
    parameter->weight_decay = options->decay_all || info->decay ? options->weight_decay : 0.0;
    apply_rules(emit, info->name, parameter);
    make_tensors(emit, index, info->name);
    note_name(emit, parameter, info->name);
    emit->weights_end = emit->graph->used.buffers;
}

bool bp_emit_quantised(const bp_emit *emit, uint32_t index)
{
    return emit->status == BP_OK && emit->parameters[index].quantised != BP_QUANTISED_NONE;
}

bool bp_emit_fp8(const bp_emit *emit, uint32_t index)
{
    return emit->status == BP_OK && emit->parameters[index].master_form == BP_MASTER_FP8;
}

bool bp_emit_trainable(const bp_emit *emit, uint32_t index)
{
    return emit->status == BP_OK && emit->parameters[index].trainable;
}

static bp_buffer matrix_buffer(bp_class class_of, bp_scope scope, bp_dtype dtype, uint64_t rows,
                               uint64_t width)
{
    return (bp_buffer){
        .class_of = class_of, .scope = scope, .dtype = dtype, .rank = 2, .shape = {rows, width}};
}

bp_ref bp_emit_buffer(bp_emit *emit, bp_class class_of, bp_dtype dtype, uint64_t rows,
                      uint64_t width, const char *name)
{
    const bp_buffer prototype = matrix_buffer(class_of, BP_SCOPE_PROGRAM, dtype, rows, width);
    return whole(make_joined(emit, &prototype, emit->label, name), dtype);
}

bp_ref bp_emit_tensor(bp_emit *emit, bp_class class_of, bp_dtype dtype, uint32_t rank,
                      const uint64_t *shape, const char *name)
{
    bp_buffer prototype = {
        .class_of = class_of, .scope = BP_SCOPE_PROGRAM, .dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank && i < BP_RANK_MAX; i++) {
        prototype.shape[i] = shape[i];
    }
    return whole(make_joined(emit, &prototype, emit->label, name), dtype);
}

/* The next carried buffer that prefill made; one of a graph that counts has no number of its own.
 */
static uint32_t shared_carried(bp_emit *emit)
{
    const bp_graph *graph = emit->graph;
    uint32_t index = emit->carried_next;
    emit->carried_asked++;
    if (bp_graph_counts(graph)) {
        return index;
    }
    while (graph->buffers[index].scope != BP_SCOPE_CARRIED ||
           graph->buffers[index].program != BP_PROGRAM_PREFILL) {
        index++;
    }
    emit->carried_next = index + 1;
    return index;
}

bp_ref bp_emit_carried(bp_emit *emit, bp_class class_of, bp_dtype dtype, uint64_t rows,
                       uint64_t width, const char *name)
{
    const bp_buffer prototype = matrix_buffer(class_of, BP_SCOPE_CARRIED, dtype, rows, width);
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    if (emit->graph->program == BP_PROGRAM_DECODE && emit->carried_asked < emit->carried) {
        return whole(shared_carried(emit), dtype);
    }
    const uint32_t index = make_joined(emit, &prototype, emit->label, name);
    if (emit->graph->program == BP_PROGRAM_PREFILL) {
        emit->carried_next = emit->carried == 0 ? index : emit->carried_next;
        emit->carried++;
    }
    return whole(index, dtype);
}

static uint32_t make_state(bp_emit *emit, uint32_t index, bp_buffer prototype, const char *name)
{
    prototype.class_of = BP_CLASS_OPTIMIZER;
    prototype.scope = BP_SCOPE_PERSISTENT;
    prototype.space = emit->parameters[index].aside ? compile_offload_space(emit) : BP_SPACE_DEVICE;
    return make_joined(emit, &prototype, bp_emit_name(emit, index), name);
}

uint32_t bp_emit_state(bp_emit *emit, uint32_t parameter, bp_dtype dtype, const char *name)
{
    if (emit->status != BP_OK) {
        return BP_NO_BUFFER;
    }
    bp_buffer shape = weight_buffer(emit, &emit->parameters[parameter]);
    const uint64_t width = bp_dtype_bytes(dtype);
    shape.dtype = dtype;
    shape = shared_part(emit, parameter, shape, width * BP_SHARD_UNIT,
                        bp_size_mul(emit->parameters[parameter].count, width));
    return make_state(emit, parameter, shape, name);
}

uint32_t bp_emit_state_bytes(bp_emit *emit, uint32_t parameter, uint64_t bytes, uint64_t unit,
                             const char *name)
{
    if (emit->status != BP_OK) {
        return BP_NO_BUFFER;
    }
    const bp_buffer shape = {.dtype = BP_U8, .rank = 1, .shape = {bytes}};
    return make_state(emit, parameter, shared_part(emit, parameter, shape, unit, bytes), name);
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

bp_ref bp_emit_weight(bp_emit *emit, uint32_t index)
{
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    const bp_parameter *parameter = &emit->parameters[index];
    const bool codes =
        parameter->quantised != BP_QUANTISED_NONE || parameter->master_form == BP_MASTER_FP8;
    if (parameter->held == 0) {
        bp_emit_unheld(emit, index, "a parameter is asked for that was not acquired");
        return BP_ABSENT;
    }
    const bool gathered = parameter->gathered != BP_NO_BUFFER;
    return whole(gathered ? parameter->gathered : parameter->weight,
                 codes ? BP_U8 : emit->spec->working);
}

bp_ref bp_emit_scales(const bp_emit *emit, uint32_t index)
{
    const bp_parameter *parameter = &emit->parameters[index];
    const bool brought = parameter->gathered_scales != BP_NO_BUFFER;
    return whole(brought ? parameter->gathered_scales : parameter->scales, BP_U8);
}

bp_ref bp_emit_nested(const bp_emit *emit, uint32_t index)
{
    const bp_parameter *parameter = &emit->parameters[index];
    const bool brought = parameter->gathered_nested != BP_NO_BUFFER;
    return whole(brought ? parameter->gathered_nested : parameter->nested, BP_F32);
}

bp_ref bp_emit_update_weight(bp_emit *emit, uint32_t index, uint64_t first)
{
    const bool shared = emit->status == BP_OK && bp_emit_weight_shared(emit, index);
    const bp_parameter *parameter = &emit->parameters[index];
    const uint64_t own = shared ? first - parameter->share.first : first;
    bp_ref weight = bp_emit_weight(emit, index);
    weight.offset += bp_master_weight_bytes(weight.dtype, parameter->master_form, own);
    return weight;
}

static uint32_t owner_of(const bp_emit *emit, uint32_t buffer)
{
    uint32_t low = 0;
    uint32_t high = emit->parameter_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const bool before = emit->parameters[middle].weight <= buffer;
        low = before ? middle : low;
        high = before ? high : middle;
    }
    return low;
}

/* What an op touches of parameters is held. */
static void require_held(bp_emit *emit, uint32_t operands, const bp_ref *refs)
{
    const uint32_t first = emit->parameter_count > 0 ? emit->parameters[0].weight : UINT32_MAX;
    for (uint32_t i = 0; i < operands && emit->status == BP_OK; i++) {
        const uint32_t buffer = refs[i].buffer;
        if (buffer >= first && buffer < emit->weights_end) {
            const uint32_t owner = owner_of(emit, buffer);
            if (emit->parameters[owner].held == 0) {
                bp_emit_unheld(emit, owner, "an op touches a parameter that is not acquired");
            }
        }
    }
}

bp_ref bp_ref_at(bp_ref ref, uint64_t elements)
{
    ref.offset += elements * bp_dtype_bytes(ref.dtype);
    return ref;
}

/* The operands of one tuple with buffers for workspaces, of the size that the device asks for. */
static void make_workspaces(bp_emit *emit, bp_kernel kernel, const bp_ref *from,
                            const void *scalars, bp_ref *refs)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    const bp_device *device = emit->spec->device;
    uint8_t dtypes[BP_OPERANDS_MAX];
    for (uint32_t i = 0; i < info->operand_count; i++) {
        refs[i] = from[i];
        dtypes[i] = (uint8_t)refs[i].dtype;
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        if (!info->operand[i].workspace) {
            continue;
        }
        uint64_t bytes = device->workspace(&emit->spec->device_options, kernel, scalars, dtypes);
        refs[i] = BP_ABSENT;
        if (bytes > 0) {
            refs[i] = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_U8, bytes, 1, info->name);
        }
    }
}

static void note_table(bp_emit *emit)
{
    const bp_device *device = emit->spec->device;
    const bp_op *op = &emit->graph->newest;
    if (!emit->tables && device->table_bytes != NULL) {
        emit->tables = device->table_bytes(op->kernel, op->tuples) > 0;
    }
}

void bp_emit_tuple(bp_emit *emit, const bp_ref *refs, const void *scalars)
{
    const bp_kernel_info *info = bp_kernel_describe(emit->graph->newest.kernel);
    require_held(emit, info->operand_count, refs);
    if (emit->status == BP_OK) {
        emit->status = bp_graph_tuple(emit->graph, refs, scalars);
        note_table(emit);
    }
}

void bp_emit_op(bp_emit *emit, bp_kernel kernel, uint32_t tuples, const bp_ref *refs,
                const void *scalars)
{
    const bp_op prototype = {
        .kernel = kernel, .tuples = 1, .stage = emit->stage, .action = emit->action};
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    require_held(emit, tuples * info->operand_count, refs);
    for (uint32_t t = 0; t < tuples && emit->status == BP_OK; t++) {
        bp_ref own[BP_OPERANDS_MAX];
        const bp_scalar *values = (const bp_scalar *)scalars + (size_t)t * info->scalar_count;
        make_workspaces(emit, kernel, refs + (size_t)t * info->operand_count, values, own);
        if (emit->status == BP_OK) {
            emit->status = t == 0 ? bp_graph_op(emit->graph, &prototype, own, values)
                                  : bp_graph_tuple(emit->graph, own, values);
        }
        note_table(emit);
    }
}

/* Parameters that are held while ops on them are written. */

void bp_emit_unheld(bp_emit *emit, uint32_t index, const char *text)
{
    emit->status =
        bp_error_set(emit->graph->error, BP_ERR_INTERNAL, where, text, bp_emit_name(emit, index));
    bp_error_prefix(emit->graph->error, emit->label);
}

static bp_ref emit_hold(bp_emit *emit, uint32_t index, bp_purpose purpose)
{
    emit->parameters[index].held++;
    emit->held++;
    emit->acquired[purpose]++;
    return bp_emit_weight(emit, index);
}

bp_ref bp_emit_acquire_update(bp_emit *emit, uint32_t index)
{
    if (emit->status != BP_OK || index == BP_NO_PARAMETER) {
        return BP_ABSENT;
    }
    return emit_hold(emit, index, BP_FOR_UPDATE);
}

bp_ref bp_emit_acquire(bp_emit *emit, uint32_t index, bp_purpose purpose)
{
    if (purpose == BP_FOR_UPDATE) {
        return bp_emit_acquire_update(emit, index);
    }
    if (emit->status != BP_OK || index == BP_NO_PARAMETER) {
        return BP_ABSENT;
    }
    if (emit->flying != NULL) {
        compile_pump(emit);
    }
    if (emit->parameters[index].held == 0 && bp_emit_weight_shared(emit, index)) {
        compile_gather(emit, index);
    }
    if (emit->status == BP_OK && emit->parameters[index].held == 0 &&
        emit->parameters[index].offloaded) {
        compile_fetch(emit, index);
    }
    if (emit->status == BP_OK && emit->parameters[index].held == 0 &&
        compile_averages(emit, index)) {
        compile_average(emit, index);
    }
    return emit_hold(emit, index, purpose);
}

void bp_emit_release(bp_emit *emit, uint32_t index)
{
    if (emit->status != BP_OK || index == BP_NO_PARAMETER) {
        return;
    }
    if (emit->parameters[index].held == 0) {
        bp_emit_unheld(emit, index, "a parameter is released that was not acquired");
        return;
    }
    emit->parameters[index].held--;
    emit->held--;
    if (emit->parameters[index].held == 0) {
        emit->parameters[index].gathered = BP_NO_BUFFER;
        emit->parameters[index].gathered_scales = BP_NO_BUFFER;
        emit->parameters[index].gathered_nested = BP_NO_BUFFER;
    }
}

void bp_emit_settled(bp_emit *emit)
{
    for (uint32_t i = 0; emit->held > 0 && i < emit->parameter_count; i++) {
        if (emit->status == BP_OK && emit->parameters[i].held > 0) {
            bp_emit_unheld(emit, i, "a parameter was acquired and not released");
        }
    }
}

/* The parameter that a buffer of theirs belongs to: they lie in the order of publication. */

/* Weights that are evaluated at an average: it is formed of one parameter after the
 * other while it is held, and never written over what training goes on with. */

bool compile_averages(const bp_emit *emit, uint32_t index)
{
    const bp_optimizer *optimizer = emit->spec->optimizer;
    return optimizer != NULL && optimizer->average != NULL && emit->parameters[index].trainable &&
           emit->mode != BP_MODE_TRAIN && emit->graph->program != BP_PROGRAM_INITIALIZE;
}

void compile_average(bp_emit *emit, uint32_t index)
{
    const bp_spec *spec = emit->spec;
    bp_parameter *parameter = &emit->parameters[index];
    const bool master = parameter->master != BP_NO_BUFFER;
    const bp_ref x = bp_emit_tensor(emit, BP_CLASS_WORKSPACE, spec->working, parameter->rank,
                                    parameter->shape, "averaged");
    const bp_averaged_weight_operands operands = {
        .x = x,
        .weight = {parameter->weight, spec->working, 0},
        .master = master ? (bp_ref){parameter->master, BP_U8, 0} : BP_ABSENT,
        .state1 = {parameter->state[0], BP_U8, 0}};
    const bp_averaged_weight_scalars scalars = {
        .count = (int64_t)parameter->count,
        .form = (int64_t)spec->optimizer->state_form(spec, parameter),
        .master_form = (int64_t)parameter->master_form,
        .factor = spec->optimizer->average(&spec->optimizer_options)};
    parameter->held++; /* what it is made of is read */
    bp_emit_averaged_weight(emit, &operands, &scalars);
    parameter->held--;
    parameter->gathered = x.buffer;
}

/* Where gradients go: buffers that backward adds to and the update reads.  What is
 * added up over a group may wait in the offload tier. Then a backward stage adds to a buffer that
 * it has for itself, which begins with what is there, and goes there at the stage's end; the norm
 * and the update bring it part by part. */

static uint32_t gradient_buffer(bp_emit *emit, uint32_t index, const bp_buffer *prototype,
                                const char *name)
{
    uint32_t buffer = BP_NO_BUFFER;
    if (emit->status == BP_OK) {
        emit->status =
            bp_graph_buffer_of(emit->graph, prototype, bp_emit_name(emit, index), name, &buffer);
    }
    return buffer;
}

/* And not its sum in 8 bits. */
bool bp_emit_gradient_offloaded(const bp_emit *emit, uint32_t index)
{
    return emit->parameters[index].gradient_offloaded && !emit->spec->gradient_int8;
}

bp_ref bp_emit_bring_gradient(bp_emit *emit, uint32_t index, uint64_t first, uint64_t count)
{
    const bp_dtype dtype = emit->spec->gradient;
    const uint64_t width = bp_dtype_bytes(dtype);
    bp_ref part = bp_emit_bring(emit, emit->parameters[index].gradient, first * width,
                                count * width, "brought_gradient");
    part.dtype = dtype;
    return part;
}

/* With one micro-batch per group gradients are born in backward, used by the update, and gone;
 * with several they live from the first micro-batch to the update. */
void compile_make_gradient(bp_emit *emit, uint32_t index)
{
    bp_parameter *parameter = &emit->parameters[index];
    const bool grouped = emit->spec->accumulation > 1 && !emit->spec->gradient_int8 &&
                         !bp_spec_whole_group(emit->spec);
    const bool below = bp_emit_gradient_offloaded(emit, index);
    const bp_buffer prototype = {.class_of = BP_CLASS_GRADIENTS,
                                 .scope = grouped ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM,
                                 .space = below ? compile_offload_space(emit) : BP_SPACE_DEVICE,
                                 .dtype = emit->spec->gradient,
                                 .rank = parameter->rank,
                                 .shape = {parameter->shape[0], parameter->shape[1],
                                           parameter->shape[2], parameter->shape[3]}};
    parameter->gradient = gradient_buffer(emit, index, &prototype, "grad");
}

/* The buffer that this stage adds to, of a gradient that is offloaded. */
static bp_ref gradient_here(bp_emit *emit, uint32_t index, bool written)
{
    bp_parameter *parameter = &emit->parameters[index];
    const bp_dtype dtype = emit->spec->gradient;
    if (parameter->gradient_here == BP_NO_BUFFER) {
        const bp_ref here = written ? bp_emit_bring_gradient(emit, index, 0, parameter->count)
                                    : bp_emit_buffer(emit, BP_CLASS_WORKSPACE, dtype,
                                                     parameter->count, 1, "gradient_here");
        parameter->gradient_here = here.buffer;
    }
    return (bp_ref){parameter->gradient_here, dtype, 0};
}

void compile_offload_gradients(bp_emit *emit)
{
    for (uint32_t i = 0; i < emit->parameter_count && emit->spec->offload.gradients > 0; i++) {
        bp_parameter *parameter = &emit->parameters[i];
        if (emit->status == BP_OK && parameter->gradient_here != BP_NO_BUFFER) {
            bp_emit_put_back(emit, (bp_ref){parameter->gradient_here, BP_U8, 0},
                             parameter->gradient, 0,
                             parameter->count * bp_dtype_bytes(emit->spec->gradient));
        }
        parameter->gradient_here = BP_NO_BUFFER;
    }
}

bp_ref bp_emit_gradient(bp_emit *emit, uint32_t index, int64_t *accumulate)
{
    *accumulate = 0;
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    bp_parameter *parameter = &emit->parameters[index];
    if (parameter->gradient == BP_NO_BUFFER) {
        compile_make_gradient(emit, index);
    }
    const bool written = parameter->gradient_written;
    *accumulate = written ? 1 : 0;
    if (written && parameter->gradient_stage != emit->stage && compile_orders_stages(emit->spec)) {
        emit->status = bp_error_set(
            emit->graph->error, BP_ERR_USAGE, "shard",
            "two stages share this parameter, whose gradient would be added up in another order; "
            "take as many --virtual-ranks as --gradient-accumulation-steps, or --shard none or "
            "optimizer",
            bp_emit_name(emit, index));
        return BP_ABSENT;
    }
    parameter->gradient_stage = emit->stage;
    parameter->gradient_written = true;
    return bp_emit_gradient_offloaded(emit, index)
               ? gradient_here(emit, index, written)
               : (bp_ref){parameter->gradient, emit->spec->gradient, 0};
}

bp_ref bp_emit_sum(bp_emit *emit, uint32_t index, uint64_t first)
{
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    bp_parameter *parameter = &emit->parameters[index];
    if (parameter->sum == BP_NO_BUFFER) {
        const bool below = parameter->gradient_offloaded;
        const bp_buffer prototype = {
            .class_of = BP_CLASS_GRADIENTS,
            .scope = emit->spec->accumulation > 1 ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM,
            .space = below ? compile_offload_space(emit) : BP_SPACE_DEVICE,
            .dtype = BP_U8,
            .rank = 1,
            .shape = {bp_codec_bytes(parameter->count, BP_CODEC_COMPANDED8)}};
        parameter->sum = gradient_buffer(emit, index, &prototype, "grad8");
    }
    return (bp_ref){parameter->sum, BP_U8, bp_codec_bytes(first, BP_CODEC_COMPANDED8)};
}

/* Declared inputs and their bytes. */

uint32_t bp_input_declare(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    return spec->model->inputs(spec, rows);
}

uint64_t bp_input_bytes(const bp_spec *spec, const bp_input *input)
{
    const uint32_t evaluated = spec->evaluate ? bp_spec_eval_batch(spec) : 0;
    const uint32_t batch = evaluated > spec->batch ? evaluated : spec->batch;
    uint64_t elements = bp_size_mul(batch, bp_input_elements(input));
    const uint64_t prompt = input->decodes ? bp_compile_prefill_rows(spec) : 0;
    const uint64_t written = input->decodes && prompt > 0 ? bp_spec_decode_rows(spec) : 0;
    elements = elements > prompt ? elements : prompt;
    elements = elements > written ? elements : written;
    return bp_size_align(bp_size_mul(elements, bp_dtype_bytes(input->dtype)),
                         bp_device_alignment(&spec->device_options));
}

bool bp_input_declared(const bp_spec *spec, bp_input_from from)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].from == from) {
            return true;
        }
    }
    return false;
}
