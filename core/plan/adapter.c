/* SPDX-License-Identifier: MIT */
/* Adapters of a model's weights. */
#include "core/plan/adapter.h"

#include <math.h>
#include <string.h>

#include "core/plan/rows.h"

#define NAME_BYTES 200

static const char where[] = "lora";
static const char prefix[] = "base_model.model.";
static const char weight_end[] = ".weight";
static const char bias_end[] = ".bias";

uint32_t bp_adapter_parameters(const bp_spec *spec)
{
    uint32_t count = spec->model->parameter_count(&spec->config);
    const uint32_t each = spec->lora.magnitudes ? 3 : 2;
    return spec->lora.rank > 0 ? (1 + each) * count : count;
}

uint32_t bp_adapter_stage(const bp_builder *builder, uint32_t parameter)
{
    const bp_model *model = builder->spec->model;
    const bp_parameter *p = &builder->parameters[parameter];
    uint32_t base = p->base != BP_NO_PARAMETER ? p->base : parameter;
    return model->parameter_stage != NULL ? model->parameter_stage(&builder->spec->config, base)
                                          : 0;
}

size_t bp_adapter_module_length(const char *name)
{
    size_t length = strlen(name), end = sizeof weight_end - 1;
    bool is = length > end && strcmp(name + length - end, weight_end) == 0;
    return is ? length - end : 0;
}

bool bp_adapter_ends_with(const char *name, size_t length, const char *target)
{
    size_t end = strlen(target);
    if (end > length || memcmp(name + length - end, target, end) != 0) {
        return false;
    }
    return end == length || name[length - end - 1] == '.';
}

bool bp_adapter_dense(const bp_builder *builder, uint32_t parameter)
{
    uint32_t stage = bp_adapter_stage(builder, parameter);
    uint32_t stages = builder->spec->model->stages(&builder->spec->config);
    const bp_parameter *p = &builder->parameters[parameter];
    bool own = p->base == BP_NO_PARAMETER && p->head != BP_HEAD_OUTPUT;
    return own && p->rank == 2 && !p->embedding && !p->routes && stage > 0 && stage + 1 < stages;
}

bool bp_adapter_table(const bp_builder *builder, uint32_t parameter)
{
    const bp_parameter *p = &builder->parameters[parameter];
    return p->base == BP_NO_PARAMETER && p->rank == 2 && p->embedding &&
           p->shape[0] == builder->spec->config.vocabulary;
}

bool bp_adapter_convolution(const bp_builder *builder, uint32_t parameter)
{
    const bp_parameter *p = &builder->parameters[parameter];
    return p->base == BP_NO_PARAMETER && p->rank == 4;
}

bool bp_adapter_experts(const bp_builder *builder, uint32_t parameter)
{
    const bp_parameter *p = &builder->parameters[parameter];
    return p->base == BP_NO_PARAMETER && p->rank == 3 && p->routes;
}

static const char *const expert_ends[] = {"experts.gate_up_proj", "experts.down_proj"};

bool bp_adapter_names_experts(const char *target, const char *name)
{
    bool names = false;
    for (size_t i = 0; i < sizeof expert_ends / sizeof expert_ends[0]; i++) {
        names = names || bp_adapter_ends_with(target, strlen(target), expert_ends[i]);
    }
    return names && (name == NULL || bp_adapter_ends_with(name, strlen(name), target));
}

static bool names_one(const bp_lora *lora, const char *name)
{
    bool found = false;
    for (uint32_t t = 0; t < lora->target_count; t++) {
        found = found || bp_adapter_names_experts(lora->targets[t], name);
    }
    return found && lora->rank > 0;
}

bool bp_adapter_experts_module(const bp_lora *lora, const char *name, char *module, size_t room)
{
    static const char last[] = "down_proj", wrapped[] = ".base_layer";
    const char *end = strrchr(name, '.');
    const size_t length = end != NULL ? (size_t)(end - name) : 0;
    char other[NAME_BYTES];
    if (!names_one(lora, name) || length + sizeof wrapped > room ||
        length + 1 + sizeof last > sizeof other) {
        return false;
    }
    memcpy(other, name, length + 1);
    memcpy(other + length + 1, last, sizeof last);
    const bool first = strcmp(other, name) != 0 && names_one(lora, other);
    memcpy(module, name, length);
    memcpy(module + length, first ? wrapped : "", first ? sizeof wrapped : 1);
    return true;
}

bool bp_adapter_transposed(const bp_builder *builder, uint32_t parameter)
{
    const uint32_t base = builder->parameters[parameter].base;
    if (base == BP_NO_PARAMETER) {
        return false;
    }
    const uint32_t a = builder->parameters[base].adapter;
    return builder->parameters[base].embedding
               ? a == parameter
               : bp_adapter_experts(builder, base) && a != parameter;
}

double bp_adapter_scale(const bp_lora *lora, bp_lora_part part)
{
    const double rank = (double)part.rank;
    return part.alpha / (lora->rank_stabilized ? sqrt(rank) : rank);
}

bp_lora_part bp_adapter_part_of(const bp_lora *lora, const char *name, size_t length)
{
    return lora->choose != NULL ? lora->choose(lora, name, length)
                                : (bp_lora_part){lora->rank, lora->alpha};
}

bp_lora_part bp_adapter_part(const bp_builder *builder, uint32_t parameter)
{
    const char *name = bp_build_name(builder, parameter);
    /* Weights of experts are parameters that a target names, not modules: their whole name. */
    const size_t length =
        bp_adapter_experts(builder, parameter) ? strlen(name) : bp_adapter_module_length(name);
    return bp_adapter_part_of(&builder->spec->lora, name, length);
}

static bool is_target(const char *target, const char *name, size_t length)
{
    return strcmp(target, "all-linear") == 0 || bp_adapter_ends_with(name, length, target);
}

/* The same as is_adapted of experts. */
static bool expert_adapted(const bp_builder *builder, uint32_t index, uint64_t *used)
{
    const bp_lora *lora = &builder->spec->lora;
    bool found = false;
    for (uint32_t t = 0; t < lora->target_count; t++) {
        if (bp_adapter_names_experts(lora->targets[t], bp_build_name(builder, index))) {
            found = true;
            *used |= UINT64_C(1) << (t % 64);
        }
    }
    return found;
}

/* Whether one of the targets names the weight; marks which did in `used` (one bit per target). */
static bool is_adapted(const bp_builder *builder, uint32_t index, uint64_t *used)
{
    const bp_lora *lora = &builder->spec->lora;
    const char *name = bp_build_name(builder, index);
    size_t length = bp_adapter_module_length(name);
    bool found = false;
    if (bp_adapter_experts(builder, index)) {
        return expert_adapted(builder, index, used);
    }
    const bool table = bp_adapter_table(builder, index);
    const bool named = table || bp_adapter_convolution(builder, index);
    const bool takes = named || bp_adapter_dense(builder, index);
    if (length == 0 || !takes || (lora->usual && builder->parameters[index].depthwise)) {
        return false;
    }
    if (named && lora->target_count == 1 && strcmp(lora->targets[0], "all-linear") == 0) {
        return false;
    }
    if (lora->choose != NULL) {
        return bp_adapter_part(builder, index).rank > 0;
    }
    for (uint32_t t = 0; t < lora->target_count; t++) {
        if (named ? bp_adapter_ends_with(name, length, lora->targets[t])
                  : is_target(lora->targets[t], name, length)) {
            found = true;
            *used |= UINT64_C(1) << (t % 64);
        }
    }
    return found;
}

bool bp_adapter_wraps_bias(const bp_builder *builder, const char *name)
{
    const size_t length = strlen(name), end = sizeof bias_end - 1;
    uint64_t used = 0;
    if (length <= end || strcmp(name + length - end, bias_end) != 0) {
        return false;
    }
    /* Not the last: a bias that is being published has no name yet. */
    for (uint32_t i = builder->parameter_count - 1; i > 0; i--) {
        const char *other = bp_build_name(builder, i - 1);
        if (bp_adapter_module_length(other) == length - end &&
            memcmp(other, name, length - end) == 0) {
            return is_adapted(builder, i - 1, &used);
        }
    }
    return false;
}

bool bp_adapter_trains_bias(const bp_builder *builder, const char *name)
{
    const bp_lora *lora = &builder->spec->lora;
    return (lora->bias == BP_LORA_BIAS_ALL && strstr(name, "bias") != NULL) ||
           (lora->bias == BP_LORA_BIAS_ADAPTED && bp_adapter_wraps_bias(builder, name));
}

/* `form` without a name, that of which parameter it adapts, and what all adapters have. */
static void publish_one(bp_builder *builder, uint32_t base, const char *module, size_t length,
                        const char *end, const bp_parameter_info *form)
{
    char name[NAME_BYTES];
    bp_parameter_info info = *form;
    if (sizeof prefix + length + strlen(end) > sizeof name) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_FIT, where,
                                       "the name of a module is too long", module);
        return;
    }
    memcpy(name, prefix, sizeof prefix - 1);
    memcpy(name + sizeof prefix - 1, module, length);
    memcpy(name + sizeof prefix - 1 + length, end, strlen(end) + 1);
    info.name = name;
    info.decay = true;
    info.adapts = true;
    info.base = base;
    bp_build_parameter(builder, &info);
}

static bool refuses_magnitudes(bp_builder *builder, const char *name)
{
    if (builder->spec->lora.magnitudes) {
        builder->status =
            bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                         "magnitudes are of dense layers; adapters of a token embedding "
                         "and of convolutions have none",
                         name);
        bp_error_prefix(builder->graph->error, "use-dora");
    }
    return builder->spec->lora.magnitudes;
}

static void publish_table(bp_builder *builder, uint32_t base)
{
    const uint64_t *shape = builder->parameters[base].shape;
    const char *name = bp_build_name(builder, base);
    const uint64_t rows = shape[0], width = shape[1];
    const uint64_t rank = bp_adapter_part(builder, base).rank;
    const size_t length = bp_adapter_module_length(name);
    if (refuses_magnitudes(builder, name)) {
        return;
    }
    builder->parameters[base].adapter = builder->parameter_count;
    publish_one(builder, base, name, length, ".lora_embedding_A",
                &(bp_parameter_info){.rank = 2, .shape = {rows, rank}, .init = BP_INIT_ZEROS});
    publish_one(builder, base, name, length, ".lora_embedding_B",
                &(bp_parameter_info){
                    .rank = 2, .shape = {width, rank}, .init = BP_INIT_NORMAL, .deviation = 1.0});
}

static bp_status rows_refuse(const bp_builder *builder, const char *text, const char *name)
{
    const bp_status status = bp_error_set(builder->graph->error, BP_ERR_USAGE, where, text, name);
    bp_error_prefix(builder->graph->error, "trainable-token-indices");
    return status;
}

/* The trained rows of the token embedding, where there are some. */
static void publish_rows(bp_builder *builder, uint32_t count)
{
    uint32_t base = 0;
    while (base < count && !bp_rows_table(builder, base)) {
        base++;
    }
    if (base == count) {
        builder->status = rows_refuse(builder, "this model has no token embedding", NULL);
        return;
    }
    const bp_parameter *table = &builder->parameters[base];
    const char *name = bp_build_name(builder, base);
    if (table->adapter != BP_NO_PARAMETER || table->trainable) {
        builder->status = rows_refuse(
            builder,
            table->trainable ? "the whole table is trained, and some of its rows as well"
                             : "the table has an adapter, and trained rows as well",
            name);
        return;
    }
    builder->parameters[base].rows = builder->parameter_count;
    publish_one(builder, base, name, bp_adapter_module_length(name),
                ".token_adapter.trainable_tokens_delta",
                &(bp_parameter_info){.rank = 2,
                                     .shape = {builder->spec->lora.token_count, table->shape[1]},
                                     .init = BP_INIT_ROWS,
                                     .embedding = true});
}

/* A: the base's own window, to r channels; B: 1 x 1. */
static void publish_convolution(bp_builder *builder, uint32_t base)
{
    const bp_parameter *p = &builder->parameters[base];
    const char *name = bp_build_name(builder, base);
    const uint64_t out = p->shape[0], rank = bp_adapter_part(builder, base).rank;
    const uint64_t fan = bp_size_mul(p->shape[1], bp_size_mul(p->shape[2], p->shape[3]));
    const size_t length = bp_adapter_module_length(name);
    const bp_parameter_info a = {.rank = 4,
                                 .shape = {rank, p->shape[1], p->shape[2], p->shape[3]},
                                 .init = BP_INIT_NORMAL,
                                 .deviation = 1.0 / sqrt(3.0 * (double)fan)};
    if (refuses_magnitudes(builder, name)) {
        return;
    }
    if (p->depthwise) {
        builder->status =
            bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                         "a convolution of each channel by itself has no adapter here; "
                         "name others, or leave it out (exclude-modules)",
                         name);
        bp_error_prefix(builder->graph->error, "target-modules");
        return;
    }
    builder->parameters[base].adapter = builder->parameter_count;
    publish_one(builder, base, name, length, ".lora_A.weight", &a);
    publish_one(builder, base, name, length, ".lora_B.weight",
                &(bp_parameter_info){.rank = 4, .shape = {out, rank, 1, 1}, .init = BP_INIT_ZEROS});
}

/* The A and B of all experts. */
static void publish_experts(bp_builder *builder, uint32_t base)
{
    const bp_lora *lora = &builder->spec->lora;
    const uint64_t *shape = builder->parameters[base].shape;
    const char *name = bp_build_name(builder, base);
    const uint64_t rank = bp_adapter_part(builder, base).rank;
    const bool input_major = builder->parameters[base].input_major;
    const uint64_t in = shape[input_major ? 1 : 2], out = shape[input_major ? 2 : 1];
    char module[NAME_BYTES];
    if (lora->magnitudes || lora->dropout > 0.0) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                                       "adapters of experts have no magnitudes and no dropout, as "
                                       "in PEFT",
                                       name);
        bp_error_prefix(builder->graph->error, lora->magnitudes ? "use-dora" : "lora-dropout");
        return;
    }
    if (!bp_adapter_experts_module(lora, name, module, sizeof module)) {
        return;
    }
    const size_t length = strlen(module);
    builder->parameters[base].adapter = builder->parameter_count;
    publish_one(builder, base, module, length, ".lora_A.weight",
                &(bp_parameter_info){.rank = 3,
                                     .shape = {shape[0], rank, in},
                                     .init = BP_INIT_NORMAL,
                                     .deviation = 1.0 / sqrt(3.0 * (double)in)});
    publish_one(
        builder, base, module, length, ".lora_B.weight",
        &(bp_parameter_info){.rank = 3, .shape = {shape[0], out, rank}, .init = BP_INIT_ZEROS});
}

static void publish_adapter(bp_builder *builder, uint32_t base)
{
    if (bp_adapter_experts(builder, base)) {
        publish_experts(builder, base);
        return;
    }
    if (builder->parameters[base].embedding) {
        publish_table(builder, base);
        return;
    }
    if (bp_adapter_convolution(builder, base)) {
        publish_convolution(builder, base);
        return;
    }
    const uint64_t *shape = builder->parameters[base].shape;
    const char *name = bp_build_name(builder, base);
    const bool input_major = builder->spec->model->input_major;
    const uint64_t in = shape[input_major ? 0 : 1];
    const uint64_t out = shape[input_major ? 1 : 0];
    const uint64_t rank = bp_adapter_part(builder, base).rank;
    const size_t length = bp_adapter_module_length(name);
    builder->parameters[base].adapter = builder->parameter_count;
    publish_one(builder, base, name, length, ".lora_A.weight",
                &(bp_parameter_info){.rank = 2,
                                     .shape = {rank, in},
                                     .init = BP_INIT_NORMAL,
                                     .deviation = 1.0 / sqrt(3.0 * (double)in)});
    publish_one(builder, base, name, length, ".lora_B.weight",
                &(bp_parameter_info){.rank = 2, .shape = {out, rank}, .init = BP_INIT_ZEROS});
    if (builder->spec->lora.magnitudes) {
        publish_one(builder, base, name, length, ".lora_magnitude_vector",
                    &(bp_parameter_info){.rank = 1, .shape = {out}, .init = BP_INIT_NORMS});
    }
}

void bp_adapter_norms(bp_builder *builder, uint32_t weight, bp_ref norms)
{
    if (builder->status != BP_OK) {
        return;
    }
    const bp_parameter *p = &builder->parameters[weight];
    const uint32_t a = p->adapter;
    const bool codes = p->quantised != BP_QUANTISED_NONE;
    const bool transposed = builder->spec->model->input_major;
    const bp_ref held = bp_build_acquire(builder, weight, BP_FOR_FORWARD);
    const bp_weight_norms_operands operands = {
        .norms = norms,
        .weight = codes ? BP_ABSENT : held,
        .codes = codes ? held : BP_ABSENT,
        .scales = codes ? bp_build_scales(builder, weight) : BP_ABSENT,
        .nested = codes ? bp_build_nested(builder, weight) : BP_ABSENT,
        .a = bp_build_acquire(builder, a, BP_FOR_FORWARD),
        .b = bp_build_acquire(builder, a + 1, BP_FOR_FORWARD)};
    const bp_weight_norms_scalars scalars = {
        .rows = (int64_t)p->shape[transposed ? 1 : 0],
        .columns = (int64_t)p->shape[transposed ? 0 : 1],
        .rank = (int64_t)builder->parameters[a].shape[0],
        .transposed = transposed && !codes,
        .form = (int64_t)p->quantised,
        .factor = bp_adapter_scale(&builder->spec->lora, bp_adapter_part(builder, weight))};
    bp_build_weight_norms(builder, &operands, &scalars);
    bp_build_release(builder, a + 1);
    bp_build_release(builder, a);
    bp_build_release(builder, weight);
}

void bp_adapter_publish(bp_builder *builder)
{
    const bp_lora *lora = &builder->spec->lora;
    const uint32_t count = builder->parameter_count;
    uint64_t used = 0;
    bool any = false;
    for (uint32_t i = 0; i < count && lora->rank > 0 && builder->status == BP_OK; i++) {
        if (is_adapted(builder, i, &used)) {
            publish_adapter(builder, i);
            any = true;
        }
    }
    if (lora->rank > 0 && lora->token_count > 0 && builder->status == BP_OK) {
        publish_rows(builder, count);
    }
    if (lora->choose != NULL) {
        if (lora->rank > 0 && !any && builder->status == BP_OK) {
            builder->status =
                bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                             "no dense layer of this model's blocks and no convolution "
                             "is chosen for an adapter",
                             lora->target_count > 0 ? lora->targets[0] : "");
            bp_error_prefix(builder->graph->error, "target-modules");
        }
        return;
    }
    for (uint32_t t = 0; t < lora->target_count && lora->rank > 0 && builder->status == BP_OK;
         t++) {
        if ((used >> (t % 64) & 1) == 0) {
            builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, where,
                                           "the target names no dense layer of this model's blocks "
                                           "(all-linear is all of them), no experts "
                                           "(experts.gate_up_proj) and no convolution",
                                           lora->targets[t]);
            bp_error_prefix(builder->graph->error, "target-modules");
        }
    }
}
