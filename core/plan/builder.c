/* SPDX-License-Identifier: MIT */
/* The builder: buffers, parameters, gradients and ops of the program being written. */
#include "core/plan/builder.h"

#include <string.h>

#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"
#include "core/plan/parts.h"
#include "core/plan/rows.h"
#include "core/ops/codec.h"
#include "core/base/glob.h"
#include "core/plan/optimizer.h"
#include "core/plan/compile.h"

static const char where[] = "emit";

void bp_build_init(bp_builder *builder, bp_graph *graph, const bp_spec *spec,
                   bp_parameter *parameters, uint32_t parameter_limit)
{
    *builder = (bp_builder){.graph = graph,
                            .spec = spec,
                            .parameters = parameters,
                            .parameter_limit = parameter_limit,
                            .mode = BP_MODE_TRAIN,
                            .label = "",
                            .stage = UINT32_MAX,
                            .action = UINT32_MAX,
                            .output_class = BP_CLASS_WORKSPACE,
                            .rows = bp_size_mul(spec->batch, bp_spec_rank_tokens(spec))};
}

const char *bp_build_name(const bp_builder *builder, uint32_t index)
{
    return builder->names + builder->parameters[index].name;
}

bool compile_goes_fp8(const bp_builder *builder, uint32_t index)
{
    return builder->spec->weights == BP_WEIGHT_FP8 && bp_adapter_dense(builder, index);
}

static uint32_t make_buffer(bp_builder *builder, const bp_buffer *prototype, const char *name)
{
    uint32_t index = BP_NO_BUFFER;
    if (builder->status == BP_OK) {
        builder->status = bp_graph_buffer(builder->graph, prototype, name, &index);
    }
    return index;
}

/* A buffer called "<first>.<second>". */
static uint32_t make_joined(bp_builder *builder, const bp_buffer *prototype, const char *first,
                            const char *second)
{
    uint32_t index = BP_NO_BUFFER;
    if (builder->status == BP_OK) {
        builder->status = bp_graph_buffer_of(builder->graph, prototype, first, second, &index);
    }
    return index;
}

static bp_ref whole(uint32_t buffer, bp_dtype dtype)
{
    return (bp_ref){buffer, dtype, 0};
}

/* Beside adapters only they are trained, the biases that are asked for, and the head of a task,
 * which no base has (PEFT saves every module whose name ends in "classifier"). */
static bool frozen_by_adapters(const bp_builder *builder, const char *name,
                               const bp_parameter *parameter)
{
    return builder->spec->lora.rank > 0 && parameter->base == BP_NO_PARAMETER &&
           parameter->head != BP_HEAD_TASK && !bp_adapter_trains_bias(builder, name);
}

bool bp_build_corrects(const bp_parameter *parameter)
{
    return parameter->routes && parameter->rank == 1;
}

bp_dtype bp_build_type(const bp_spec *spec, const bp_parameter *parameter)
{
    return bp_build_corrects(parameter) ? BP_F32 : spec->working;
}

/* What the spec's rules say of a parameter. */
static void apply_rules(const bp_builder *builder, const char *name, bool still,
                        bp_parameter *parameter)
{
    const bp_spec *spec = builder->spec;
    bool frozen = frozen_by_adapters(builder, name, parameter);
    bool train = false;
    for (uint32_t i = 0; i < spec->rule_count; i++) {
        const bp_parameter_rule *rule = &spec->rules[i];
        if (!bp_glob_match(rule->glob, name)) {
            continue;
        }
        frozen = frozen || rule->kind == BP_RULE_FREEZE;
        if (rule->kind == BP_RULE_TRAIN) {
            train = true;
            parameter->row_first = rule->row_first;
            parameter->row_count = rule->row_count;
        }
        if (rule->sets_rate) {
            double peak = spec->optimizer_options.learning_rate;
            parameter->rate_scale = peak > 0.0 ? rule->learning_rate / peak : 0.0;
        }
        parameter->weight_decay = rule->sets_decay ? rule->weight_decay : parameter->weight_decay;
        parameter->optim_bits = rule->sets_bits ? rule->optim_bits : parameter->optim_bits;
    }
    parameter->trainable = (train || !frozen) && !parameter->statistic && !parameter->constant &&
                           !bp_build_corrects(parameter);
    parameter->row_count = parameter->trainable ? parameter->row_count : 0;
    parameter->fixed =
        spec->offload.fixed && !parameter->trainable && (!parameter->statistic || still);
}

/* What trains some rows of a parameter; NULL: nothing is in the way. */
static const char *rows_refused(const bp_spec *spec, const bp_parameter *parameter)
{
    const bp_optimizer *optimizer = spec->optimizer;
    const bool table = parameter->embedding ||
                       (parameter->head == BP_HEAD_OUTPUT && spec->model->sliced_tables != NULL);
    const bool along = spec->offload.weights || spec->offload.states || spec->offload.bases;
    return (parameter->rank != 2 && parameter->rank != 4) || parameter->depthwise || table
               ? "rows are trained of matrices and of convolutions over all channels"
           : spec->working != BP_F32 || spec->lora.rank > 0 || spec->quantised != BP_QUANTISED_NONE
               ? "rows are trained in fp32 without adapters and quantised weights"
           : optimizer != NULL && (optimizer->whole_tensors || optimizer->average != NULL)
               ? "rows are trained by rules of single elements without averages of weights"
           : spec->ranks > 1 || bp_spec_virtual_ranks(spec) > 1 || spec->gradient_int8 || along
               ? "rows are trained without ranks, --gradient-int8 and offloaded weights or states"
               : NULL;
}

static void parameter_check_rows(bp_builder *builder, const bp_parameter *parameter,
                                 const char *name)
{
    const uint64_t first = parameter->row_first, count = parameter->row_count;
    const uint64_t most = parameter->shape[0];
    if (count == 0 || builder->status != BP_OK) {
        return;
    }
    const char *text = rows_refused(builder->spec, parameter);
    if (text != NULL) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, where, text, name);
    } else if (first >= most || count > most - first) {
        builder->status = bp_error_limit(
            builder->graph->error, BP_ERR_USAGE, where, "a parameter has no such row", name,
            bp_size_signed(bp_size_add(first, count) - 1), BP_LIMIT_MOST, bp_size_signed(most) - 1);
    }
    if (builder->status != BP_OK) {
        bp_error_prefix(builder->graph->error, "trainable");
    }
}

/* The weight as a buffer, and what has its shape: master, gradient, state. */
static bp_buffer weight_buffer(const bp_builder *builder, const bp_parameter *parameter)
{
    /* The base of adapters is read again; what is only frozen belongs to the checkpoint's model. */
    const bool base =
        !parameter->trainable && !parameter->statistic && builder->spec->lora.rank > 0;
    return (bp_buffer){.class_of = BP_CLASS_WEIGHTS,
                       .scope = base ? bp_rows_scope(builder, parameter) : BP_SCOPE_PERSISTENT,
                       .dtype = bp_build_type(builder->spec, parameter),
                       .rank = parameter->rank,
                       .shape = {parameter->shape[0], parameter->shape[1], parameter->shape[2],
                                 parameter->shape[3]}};
}

/* This rank's part of a tensor of a trained parameter that is shared out, `unit` bytes for every
 * unit of the map and `whole` for all elements. */
static bp_buffer shared_part(const bp_builder *builder, uint32_t index, bp_buffer prototype,
                             uint64_t unit, uint64_t whole)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t end = parameter->share.first + parameter->share.count;
    if (builder->shards.ranks == 0) {
        return prototype;
    }
    const uint64_t first = end == 0 ? 0 : parameter->share.first / BP_SHARD_UNIT * unit;
    const uint64_t last = end == parameter->count ? whole : end / BP_SHARD_UNIT * unit;
    prototype.part = (bp_buffer_part){whole, first < last ? first : last, unit, index};
    prototype.bytes = last - prototype.part.first;
    return prototype;
}

static void choose_master(const bp_builder *builder, uint32_t index)
{
    bp_parameter *parameter = &builder->parameters[index];
    bp_master form = builder->spec->master;
    form = form == BP_MASTER_SPLIT8 && parameter->rank < 2 ? BP_MASTER_SPLIT : form;
    form = compile_goes_fp8(builder, index) ? BP_MASTER_FP8 : form;
    parameter->master_form =
        parameter->trainable && builder->spec->optimizer != NULL ? form : BP_MASTER_WEIGHT;
}

/* The tensor beside the weight that holds the rest of its exact value. */
static void make_master(bp_builder *builder, uint32_t index, const char *name)
{
    bp_parameter *parameter = &builder->parameters[index];
    const bp_master form = parameter->master_form;
    const uint64_t width = bp_master_bytes(form);
    if (width == 0 || builder->status != BP_OK) {
        return;
    }
    bp_buffer prototype = weight_buffer(builder, parameter);
    prototype.class_of = BP_CLASS_MASTER;
    prototype.space = parameter->aside ? compile_offload_space(builder) : BP_SPACE_DEVICE;
    prototype.dtype = form == BP_MASTER_FP32 ? BP_F32 : form == BP_MASTER_SPLIT8 ? BP_U8 : BP_U16;
    prototype = shared_part(builder, index, prototype, width * BP_SHARD_UNIT,
                            bp_size_mul(parameter->count, width));
    parameter->master = make_joined(builder, &prototype, name, "master");
}

void bp_build_master(bp_builder *builder, uint32_t index)
{
    make_master(builder, index, bp_build_name(builder, index));
}

static bp_buffer codes_buffer(uint64_t bytes, bp_dtype dtype)
{
    return (bp_buffer){.class_of = BP_CLASS_WEIGHTS,
                       .scope = BP_SCOPE_CONSTANT,
                       .dtype = dtype,
                       .rank = 1,
                       .shape = {bytes}};
}

static bp_space space_of(const bp_builder *builder, const bp_parameter *parameter)
{
    return parameter->fixed       ? BP_SPACE_HOST
           : parameter->offloaded ? compile_offload_space(builder)
                                  : BP_SPACE_DEVICE;
}

/* The form in which a file stores a parameter; NONE: in none of those that are kept. */
static bp_quantised stored_form(const bp_spec *spec, const char *name)
{
    uint32_t low = 0, high = spec->stored_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(spec->stored[middle].name, name);
        if (order == 0) {
            return spec->stored[middle].form;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return BP_QUANTISED_NONE;
}

bp_matrices bp_build_matrices(const bp_spec *spec, const bp_parameter *parameter)
{
    const uint64_t *shape = parameter->shape;
    if (parameter->rank == 3) {
        return (bp_matrices){shape[0], shape[parameter->input_major ? 2 : 1],
                             shape[parameter->input_major ? 1 : 2]};
    }
    const bool turned = spec->model->input_major;
    return (bp_matrices){1, shape[turned ? 1 : 0], shape[turned ? 0 : 1]};
}

uint64_t bp_build_scale_bytes(const bp_spec *spec, const bp_parameter *parameter)
{
    const bp_matrices m = bp_build_matrices(spec, parameter);
    return bp_size_mul(m.count,
                       bp_quantised_scales(m.out, bp_size_mul(m.out, m.in), parameter->quantised));
}

uint64_t bp_build_nested_floats(const bp_spec *spec, const bp_parameter *parameter)
{
    const bp_matrices m = bp_build_matrices(spec, parameter);
    return bp_size_mul(m.count,
                       bp_quantised_nested(bp_size_mul(m.out, m.in), parameter->quantised));
}

/* Blocks: the matrix is (out, in), whose rows they have to fill, on a device that reads them. */
static bool blocks_fit(bp_builder *builder, const bp_parameter *parameter, bp_quantised form,
                       const char *name)
{
    const uint64_t row = bp_build_matrices(builder->spec, parameter).in;
    bp_error *error = builder->graph->error;
    if (builder->status != BP_OK || !bp_quantised_packed(form)) {
        return builder->status == BP_OK;
    }
    if (!builder->spec->device->blocks) {
        const char *type = bp_quantised_name(form);
        builder->status = bp_error_set(error, BP_ERR_DEVICE, where,
                                       "the device has no products with weights of this type, and "
                                       "--dequantize keeps them as floats",
                                       name);
        bp_error_found(error, type, strlen(type));
        bp_error_prefix(error, builder->spec->device->name);
    } else if (!bp_quantised_row(row, form)) {
        builder->status = bp_error_limit(error, BP_ERR_DATA, where,
                                         "the rows of a packed weight are no whole blocks", name,
                                         bp_size_signed(bp_packed_of_form(form)->elements),
                                         BP_LIMIT_DIVISOR, bp_size_signed(row));
    }
    return builder->status == BP_OK;
}

/* Codes of experts lie one behind the other, so that an expert's begin with a block. */
static bool experts_fit(bp_builder *builder, const bp_parameter *parameter, bp_quantised form,
                        const char *name)
{
    const bp_matrices m = bp_build_matrices(builder->spec, parameter);
    if (bp_quantised_four(form) && (m.out * m.in) % bp_quantised_block(form) != 0) {
        builder->status = bp_error_limit(builder->graph->error, BP_ERR_USAGE, where,
                                         "an expert's matrix is no whole number of blocks", name,
                                         bp_size_signed(bp_quantised_block(form)), BP_LIMIT_DIVISOR,
                                         bp_size_signed(m.out * m.in));
    }
    return blocks_fit(builder, parameter, form, name);
}

/* A weight as codes and scales. */
static void make_quantised(bp_builder *builder, bp_parameter *parameter, bp_quantised form,
                           const char *name)
{
    parameter->quantised = form;
    const uint64_t nested = bp_build_nested_floats(builder->spec, parameter);
    bp_buffer codes = codes_buffer(bp_quantised_codes(parameter->count, form), BP_U8);
    bp_buffer scales = codes_buffer(bp_build_scale_bytes(builder->spec, parameter), BP_U8);
    bp_buffer second = codes_buffer(nested, BP_F32);
    codes.space = scales.space = second.space = space_of(builder, parameter);
    parameter->weight = make_buffer(builder, &codes, name);
    if (bp_quantised_scaled(form)) {
        parameter->scales =
            make_joined(builder, &scales, name, form == BP_QUANTISED_INT8 ? "SCB" : "absmax");
    }
    if (nested > 0) {
        parameter->nested = make_joined(builder, &second, name, "nested_absmax");
    }
}

static void make_weight(bp_builder *builder, uint32_t index, const char *name)
{
    bp_parameter *parameter = &builder->parameters[index];
    choose_master(builder, index);
    bp_buffer prototype = weight_buffer(builder, parameter);
    if (parameter->master_form == BP_MASTER_FP8) {
        prototype.dtype = BP_U8;
        prototype.rank = 1;
        memset(prototype.shape, 0, sizeof prototype.shape);
        prototype.shape[0] = bp_fp8_bytes(parameter->count);
    }
    prototype.space = space_of(builder, parameter);
    parameter->weight = make_buffer(builder, &prototype, name);
    if (!bp_build_shared(builder)) {
        make_master(builder, index, name);
    }
}

/* Whether a matrix gives a language model's logits and nothing else, by products that read blocks:
 * of 16 bits they make no fp32, which sampled and kept logits are. */
static bool gives_logits(const bp_builder *builder, const bp_parameter *parameter)
{
    const bp_spec *spec = builder->spec;
    const bool wide = spec->generate_context > 0 || spec->keep_logits ||
                      spec->policy_temperature > 0.0 || spec->lora.token_count > 0;
    return parameter->head == BP_HEAD_OUTPUT && !parameter->embedding && !parameter->offloaded &&
           parameter->rank == 2 && parameter->shape[0] == spec->config.vocabulary &&
           spec->config.task == BP_TASK_CAUSAL_LM && (spec->working == BP_F32 || !wide);
}

/* Whether a table's rows go out as they are. In 16 bits a value of a block is rounded in another
 * way than a float that is read, so that an offloaded table, of floats, would have other bits. */
static bool looks_up(const bp_builder *builder, const bp_parameter *parameter)
{
    const bp_spec *spec = builder->spec;
    return parameter->unpacks && !parameter->offloaded && spec->working == BP_F32 &&
           !(spec->noise > 0.0) && spec->lora.token_count == 0;
}

static void make_tensors(bp_builder *builder, uint32_t index, const char *name)
{
    bp_parameter *parameter = &builder->parameters[index];
    parameter->aside = compile_goes_aside(builder, index);
    parameter->gradient_offloaded = compile_gradient_goes(builder, index);
    const bool trained = parameter->trainable && builder->spec->optimizer != NULL;
    parameter->offloaded =
        trained ? compile_goes_along(builder, index) : compile_is_offloaded(builder, index);
    const bool experts = bp_adapter_experts(builder, index);
    const bp_quantised form = experts ? builder->spec->experts : builder->spec->quantised;
    const bp_quantised stored = experts ? BP_QUANTISED_NONE : stored_form(builder->spec, name);
    const bool coded = form != BP_QUANTISED_NONE || stored != BP_QUANTISED_NONE;
    const bool dense = coded && (experts || bp_adapter_dense(builder, index));
    const bool packs = dense || gives_logits(builder, parameter) || looks_up(builder, parameter);
    if (packs && !trained && stored != BP_QUANTISED_NONE) {
        if (blocks_fit(builder, parameter, stored, name)) {
            make_quantised(builder, parameter, stored, name);
        }
    } else if (!dense || form == BP_QUANTISED_NONE) {
        make_weight(builder, index, name);
    } else if (trained) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                                       "a quantised weight cannot be trained", name);
        bp_error_prefix(builder->graph->error, "trainable");
    } else if (!experts || experts_fit(builder, parameter, form, name)) {
        make_quantised(builder, parameter, form, name);
    }
}

/* Notes where the name of a parameter is. A graph that counts has none, so the emitter keeps it. */
static void note_name(bp_builder *builder, bp_parameter *parameter, const char *name)
{
    const size_t bytes = strlen(name) + 1;
    if (builder->status != BP_OK) {
        return;
    }
    if (!bp_graph_counts(builder->graph)) {
        builder->names = builder->graph->names;
        parameter->name = builder->graph->buffers[parameter->weight].name;
        return;
    }
    if (bytes > builder->names_limit - builder->names_used) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_FIT, where,
                                       "the names of a model's parameters are too long", name);
        return;
    }
    memcpy(builder->names + builder->names_used, name, bytes);
    parameter->name = builder->names_used;
    builder->names_used += (uint32_t)bytes;
}

void bp_build_parameter(bp_builder *builder, const bp_parameter_info *info)
{
    if (builder->status != BP_OK) {
        return;
    }
    if (builder->parameter_count == builder->parameter_limit) {
        builder->status =
            bp_error_set(builder->graph->error, BP_ERR_INTERNAL, where,
                         "the model publishes more parameters than it announced", info->name);
        return;
    }
    const uint32_t index = builder->parameter_count++;
    bp_parameter *parameter = &builder->parameters[index];
    *parameter = (bp_parameter){.init = info->init,
                                .deviation = info->deviation,
                                .decay = info->decay,
                                .embedding = info->embedding,
                                .statistic = info->statistic,
                                .constant = info->constant,
                                .depthwise = info->depthwise,
                                .unpacks = info->unpacks,
                                .routes = info->routes,
                                .head = info->head,
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
    const bp_optimizer_options *options = &builder->spec->optimizer_options;
    parameter->weight_decay = options->decay_all || info->decay ? options->weight_decay : 0.0;
    apply_rules(builder, info->name, info->still, parameter);
    parameter_check_rows(builder, parameter, info->name);
    parameter->share = bp_build_trained(parameter);
    make_tensors(builder, index, info->name);
    note_name(builder, parameter, info->name);
    builder->weights_end = builder->graph->used.buffers;
}

bool bp_build_quantised(const bp_builder *builder, uint32_t index)
{
    return builder->status == BP_OK && builder->parameters[index].quantised != BP_QUANTISED_NONE;
}

bool bp_build_fp8(const bp_builder *builder, uint32_t index)
{
    return builder->status == BP_OK && builder->parameters[index].master_form == BP_MASTER_FP8;
}

bool bp_build_trainable(const bp_builder *builder, uint32_t index)
{
    return builder->status == BP_OK && builder->parameters[index].trainable;
}

static bp_buffer matrix_buffer(bp_class class_of, bp_scope scope, bp_dtype dtype, uint64_t rows,
                               uint64_t width)
{
    return (bp_buffer){
        .class_of = class_of, .scope = scope, .dtype = dtype, .rank = 2, .shape = {rows, width}};
}

bp_ref bp_build_buffer(bp_builder *builder, bp_class class_of, bp_dtype dtype, uint64_t rows,
                       uint64_t width, const char *name)
{
    const bp_buffer prototype = matrix_buffer(class_of, BP_SCOPE_PROGRAM, dtype, rows, width);
    return whole(make_joined(builder, &prototype, builder->label, name), dtype);
}

bp_ref bp_build_tensor(bp_builder *builder, bp_class class_of, bp_dtype dtype, uint32_t rank,
                       const uint64_t *shape, const char *name)
{
    bp_buffer prototype = {
        .class_of = class_of, .scope = BP_SCOPE_PROGRAM, .dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank && i < BP_RANK_MAX; i++) {
        prototype.shape[i] = shape[i];
    }
    return whole(make_joined(builder, &prototype, builder->label, name), dtype);
}

/* The next carried buffer that prefill made; one of a graph that counts has no number of its own.
 */
static uint32_t shared_carried(bp_builder *builder)
{
    const bp_graph *graph = builder->graph;
    uint32_t index = builder->carried_next;
    builder->carried_asked++;
    if (bp_graph_counts(graph)) {
        return index;
    }
    while (graph->buffers[index].scope != BP_SCOPE_CARRIED ||
           graph->buffers[index].program != BP_PROGRAM_PREFILL) {
        index++;
    }
    builder->carried_next = index + 1;
    return index;
}

bp_ref bp_build_carried(bp_builder *builder, bp_class class_of, bp_dtype dtype, uint64_t rows,
                        uint64_t width, const char *name)
{
    const bp_buffer prototype = matrix_buffer(class_of, BP_SCOPE_CARRIED, dtype, rows, width);
    if (builder->status != BP_OK) {
        return BP_ABSENT;
    }
    if (builder->graph->program == BP_PROGRAM_DECODE && builder->carried_asked < builder->carried) {
        return whole(shared_carried(builder), dtype);
    }
    const uint32_t index = make_joined(builder, &prototype, builder->label, name);
    if (builder->graph->program == BP_PROGRAM_PREFILL) {
        builder->carried_next = builder->carried == 0 ? index : builder->carried_next;
        builder->carried++;
    }
    return whole(index, dtype);
}

static uint32_t make_state(bp_builder *builder, uint32_t index, bp_buffer prototype,
                           const char *name)
{
    prototype.class_of = BP_CLASS_OPTIMIZER;
    prototype.scope = BP_SCOPE_PERSISTENT;
    prototype.space =
        builder->parameters[index].aside ? compile_offload_space(builder) : BP_SPACE_DEVICE;
    return make_joined(builder, &prototype, bp_build_name(builder, index), name);
}

uint32_t bp_build_state(bp_builder *builder, uint32_t parameter, bp_dtype dtype, const char *name)
{
    if (builder->status != BP_OK) {
        return BP_NO_BUFFER;
    }
    bp_buffer shape = weight_buffer(builder, &builder->parameters[parameter]);
    const uint64_t width = bp_dtype_bytes(dtype);
    const uint64_t rows = builder->parameters[parameter].row_count;
    shape.shape[0] = rows > 0 ? rows : shape.shape[0];
    shape.dtype = dtype;
    shape = shared_part(builder, parameter, shape, width * BP_SHARD_UNIT,
                        bp_size_mul(builder->parameters[parameter].count, width));
    return make_state(builder, parameter, shape, name);
}

uint32_t bp_build_state_bytes(bp_builder *builder, uint32_t parameter, uint64_t bytes,
                              uint64_t unit, const char *name)
{
    if (builder->status != BP_OK) {
        return BP_NO_BUFFER;
    }
    const bp_buffer shape = {.dtype = BP_U8, .rank = 1, .shape = {bytes}};
    return make_state(builder, parameter, shared_part(builder, parameter, shape, unit, bytes),
                      name);
}

bp_ref bp_build_persistent(bp_builder *builder, bp_dtype dtype, uint64_t count, const char *name)
{
    const bp_buffer prototype = {.class_of = BP_CLASS_OPTIMIZER,
                                 .scope = BP_SCOPE_PERSISTENT,
                                 .dtype = dtype,
                                 .rank = 1,
                                 .shape = {count}};
    return whole(make_buffer(builder, &prototype, name), dtype);
}

bp_ref bp_build_weight(bp_builder *builder, uint32_t index)
{
    if (builder->status != BP_OK) {
        return BP_ABSENT;
    }
    const bp_parameter *parameter = &builder->parameters[index];
    const bool codes =
        parameter->quantised != BP_QUANTISED_NONE || parameter->master_form == BP_MASTER_FP8;
    return whole(parameter->weight, codes ? BP_U8 : bp_build_type(builder->spec, parameter));
}

bp_ref bp_build_scales(const bp_builder *builder, uint32_t index)
{
    return whole(builder->parameters[index].scales, BP_U8);
}

bp_ref bp_build_nested(const bp_builder *builder, uint32_t index)
{
    return whole(builder->parameters[index].nested, BP_F32);
}

bp_ref bp_build_update_weight(bp_builder *builder, uint32_t index, uint64_t first)
{
    const bool shared = builder->status == BP_OK && bp_build_weight_shared(builder, index);
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t own = shared ? first - parameter->share.first : first;
    bp_ref weight = bp_build_weight(builder, index);
    weight.offset += bp_master_weight_bytes(weight.dtype, parameter->master_form, own);
    return weight;
}

bp_ref bp_ref_at(bp_ref ref, uint64_t elements)
{
    ref.offset += elements * bp_dtype_bytes(ref.dtype);
    return ref;
}

/* A device without the kernel: said before anything is planned. */
static void refuse_kernel(bp_builder *builder, const bp_kernel_info *info, const uint8_t *dtypes)
{
    bp_error *error = builder->graph->error;
    const char *type = bp_dtype_name(bp_kernel_working(info, dtypes));
    builder->status =
        bp_error_set(error, BP_ERR_DEVICE, where,
                     "the device has no kernel of this name for the type", info->name);
    bp_error_found(error, type, strlen(type));
    bp_error_prefix(error, builder->spec->device->name);
}

/* The operands of one tuple with buffers for workspaces, of the size that the device asks for. */
static void make_workspaces(bp_builder *builder, bp_kernel kernel, const bp_ref *from,
                            const void *scalars, bp_ref *refs)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    const bp_device *device = builder->spec->device;
    uint8_t dtypes[BP_OPERANDS_MAX];
    for (uint32_t i = 0; i < info->operand_count; i++) {
        refs[i] = from[i];
        dtypes[i] = (uint8_t)refs[i].dtype;
    }
    if (device->supports != NULL &&
        !device->supports(&builder->spec->device_options, kernel, dtypes)) {
        refuse_kernel(builder, info, dtypes);
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        if (!info->operand[i].workspace) {
            continue;
        }
        uint64_t bytes = device->workspace(&builder->spec->device_options, kernel, scalars, dtypes);
        refs[i] = BP_ABSENT;
        if (bytes > 0) {
            refs[i] = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_U8, bytes, 1, info->name);
        }
    }
}

static void note_table(bp_builder *builder)
{
    const bp_device *device = builder->spec->device;
    const bp_op *op = &builder->graph->newest;
    if (!builder->tables && device->table_bytes != NULL) {
        builder->tables = device->table_bytes(op->kernel, op->tuples) > 0;
    }
}

void bp_build_tuple(bp_builder *builder, const bp_ref *refs, const void *scalars)
{
    if (builder->status != BP_OK) {
        return; /* the op that this belongs to was not written: the newest is another */
    }
    const bp_kernel kernel = builder->graph->newest.kernel;
    const uint32_t operands = bp_kernel_describe(kernel)->operand_count;
    bp_ref own[BP_OPERANDS_MAX];
    memcpy(own, refs, operands * sizeof *refs);
    bp_passes_operands(builder, kernel, operands, own);
    if (builder->status == BP_OK) {
        builder->status = bp_graph_tuple(builder->graph, own, scalars);
        note_table(builder);
    }
}

void bp_build_op(bp_builder *builder, bp_kernel kernel, uint32_t tuples, const bp_ref *refs,
                 const void *scalars)
{
    const bp_op prototype = {
        .kernel = kernel, .tuples = 1, .stage = builder->stage, .action = builder->action};
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    for (uint32_t t = 0; t < tuples && builder->status == BP_OK; t++) {
        bp_ref own[BP_OPERANDS_MAX];
        const bp_scalar *values = (const bp_scalar *)scalars + (size_t)t * info->scalar_count;
        make_workspaces(builder, kernel, refs + (size_t)t * info->operand_count, values, own);
        bp_passes_operands(builder, kernel, info->operand_count, own);
        if (builder->status == BP_OK) {
            builder->status = t == 0 ? bp_graph_op(builder->graph, &prototype, own, values)
                                     : bp_graph_tuple(builder->graph, own, values);
        }
        note_table(builder);
    }
}

bp_ref bp_build_acquire(bp_builder *builder, uint32_t index, bp_purpose purpose)
{
    if (builder->status != BP_OK || index == BP_NO_PARAMETER) {
        return BP_ABSENT;
    }
    bp_passes_marker(builder, BP_OP_ACQUIRE, index, purpose);
    return bp_build_weight(builder, index);
}

bp_ref bp_build_acquire_routed(bp_builder *builder, uint32_t index, bp_purpose purpose,
                               const bp_routed *routed)
{
    builder->passes.routed = routed;
    const bp_ref weight = bp_build_acquire(builder, index, purpose);
    builder->passes.routed = NULL;
    return weight;
}

bp_ref bp_build_acquire_update(bp_builder *builder, uint32_t index)
{
    return bp_build_acquire(builder, index, BP_FOR_UPDATE);
}

void bp_build_release(bp_builder *builder, uint32_t index)
{
    if (builder->status == BP_OK && index != BP_NO_PARAMETER) {
        bp_passes_marker(builder, BP_OP_RELEASE, index, BP_PURPOSES);
    }
}

/* Where gradients go: buffers that backward adds to and the update reads. */

static uint32_t gradient_buffer(bp_builder *builder, uint32_t index, const bp_buffer *prototype,
                                const char *name)
{
    uint32_t buffer = BP_NO_BUFFER;
    if (builder->status == BP_OK) {
        builder->status = bp_graph_buffer_of(builder->graph, prototype,
                                             bp_build_name(builder, index), name, &buffer);
    }
    return buffer;
}

/* With one micro-batch per group gradients are born in backward, used by the update, and gone;
 * with several they live from the first micro-batch to the update. */
void compile_make_gradient(bp_builder *builder, uint32_t index)
{
    bp_parameter *parameter = &builder->parameters[index];
    const bool grouped = builder->spec->accumulation > 1 && !builder->spec->gradient_int8 &&
                         !bp_spec_whole_group(builder->spec);
    const bool below = bp_build_gradient_offloaded(builder, index);
    const bp_buffer prototype = {.class_of = BP_CLASS_GRADIENTS,
                                 .scope = grouped ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM,
                                 .space = below ? compile_offload_space(builder) : BP_SPACE_DEVICE,
                                 .dtype = builder->spec->gradient,
                                 .rank = parameter->rank,
                                 .shape = {parameter->shape[0], parameter->shape[1],
                                           parameter->shape[2], parameter->shape[3]}};
    bp_buffer rows = prototype;
    rows.shape[0] = parameter->row_count > 0 ? parameter->row_count : rows.shape[0];
    parameter->gradient = gradient_buffer(builder, index, &rows, "grad");
}

static void refuse_gradient_outside(bp_builder *builder, uint32_t index)
{
    if (builder->status == BP_OK) {
        builder->status = bp_error_set(
            builder->graph->error, BP_ERR_USAGE, bp_token_lanes_option(builder->spec),
            "the gradient of this parameter is not added up part by part of the tokens",
            bp_build_name(builder, index));
    }
}

static bp_ref gradient_of(bp_builder *builder, uint32_t index, int64_t *accumulate)
{
    bp_parameter *parameter = &builder->parameters[index];
    if (builder->lanes.outside) {
        refuse_gradient_outside(builder, index);
        return BP_ABSENT;
    }
    if (parameter->gradient == BP_NO_BUFFER) {
        compile_make_gradient(builder, index);
    }
    const bool written = parameter->gradient_written;
    *accumulate = written ? 1 : 0;
    if (written && parameter->gradient_stage != builder->stage &&
        compile_orders_stages(builder->spec)) {
        builder->status = bp_error_set(
            builder->graph->error, BP_ERR_USAGE, "shard",
            "two stages share this parameter, whose gradient would be added up in another order; "
            "take as many --virtual-ranks as --gradient-accumulation-steps, or --shard none or "
            "optimizer",
            bp_build_name(builder, index));
        return BP_ABSENT;
    }
    parameter->gradient_stage = builder->stage;
    parameter->gradient_written = true;
    return bp_build_gradient_offloaded(builder, index)
               ? compile_gradient_here(builder, index, written)
               : (bp_ref){parameter->gradient, builder->spec->gradient, 0};
}

/* The F32 sum over chunks, which begins with what was there. */
static bp_ref chunk_sum_of(bp_builder *builder, uint32_t index, int64_t *accumulate)
{
    bp_parameter *parameter = &builder->parameters[index];
    if (parameter->chunk_sum != BP_NO_BUFFER) {
        *accumulate = 1;
        return (bp_ref){parameter->chunk_sum, BP_F32, 0};
    }
    const bp_buffer prototype = {.class_of = BP_CLASS_WORKSPACE,
                                 .scope = BP_SCOPE_PROGRAM,
                                 .dtype = BP_F32,
                                 .rank = 1,
                                 .shape = {parameter->count}};
    parameter->chunk_into = gradient_of(builder, index, accumulate);
    parameter->chunk_sum = gradient_buffer(builder, index, &prototype, "chunk_sum");
    const bp_ref sum = {parameter->chunk_sum, BP_F32, 0};
    if (*accumulate != 0) {
        const bp_tree_add_operands widened = {.y = sum, .x = parameter->chunk_into, .z = BP_ABSENT};
        const bp_tree_add_scalars count = {.count = (int64_t)parameter->count};
        bp_build_tree_add(builder, &widened, &count);
    }
    return sum;
}

bp_ref bp_build_gradient(bp_builder *builder, uint32_t index, int64_t *accumulate)
{
    bp_share rows;
    const bp_ref gradient = bp_build_gradient_rows(builder, index, &rows, accumulate);
    if (builder->status == BP_OK && builder->parameters[index].row_count > 0) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                                       "rows are trained of matrices and of convolutions over all "
                                       "channels",
                                       bp_build_name(builder, index));
        bp_error_prefix(builder->graph->error, "trainable");
    }
    return gradient;
}

bp_ref bp_build_gradient_rows(bp_builder *builder, uint32_t index, bp_share *rows,
                              int64_t *accumulate)
{
    *accumulate = 0;
    *rows = (bp_share){0, 0};
    if (builder->status != BP_OK) {
        return BP_ABSENT;
    }
    const bp_parameter *parameter = &builder->parameters[index];
    const bool some = parameter->row_count > 0;
    *rows = (bp_share){some ? parameter->row_first : 0,
                       some ? parameter->row_count : parameter->shape[0]};
    return builder->chunks && builder->spec->gradient != BP_F32
               ? chunk_sum_of(builder, index, accumulate)
               : gradient_of(builder, index, accumulate);
}

void bp_build_chunks_begin(bp_builder *builder)
{
    builder->chunks = true;
}

void bp_build_chunks_end(bp_builder *builder)
{
    builder->chunks = false;
    for (uint32_t i = 0; builder->status == BP_OK && i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        if (parameter->chunk_sum == BP_NO_BUFFER) {
            continue;
        }
        const bp_store_values_operands rounded = {.y = parameter->chunk_into,
                                                  .master = BP_ABSENT,
                                                  .x = {parameter->chunk_sum, BP_F32, 0}};
        const bp_store_values_scalars count = {
            .count = (int64_t)parameter->count, .form = BP_MASTER_WEIGHT, .even = 1};
        bp_build_store_values(builder, &rounded, &count);
        parameter->chunk_sum = BP_NO_BUFFER;
    }
}

bp_ref bp_build_sum(bp_builder *builder, uint32_t index, uint64_t first)
{
    if (builder->status != BP_OK) {
        return BP_ABSENT;
    }
    bp_parameter *parameter = &builder->parameters[index];
    if (parameter->sum == BP_NO_BUFFER) {
        const bool below = parameter->gradient_offloaded;
        const bp_buffer prototype = {
            .class_of = BP_CLASS_GRADIENTS,
            .scope = builder->spec->accumulation > 1 ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM,
            .space = below ? compile_offload_space(builder) : BP_SPACE_DEVICE,
            .dtype = BP_U8,
            .rank = 1,
            .shape = {bp_codec_bytes(parameter->count, BP_CODEC_COMPANDED8)}};
        parameter->sum = gradient_buffer(builder, index, &prototype, "grad8");
    }
    return (bp_ref){parameter->sum, BP_U8, bp_codec_bytes(first, BP_CODEC_COMPANDED8)};
}
