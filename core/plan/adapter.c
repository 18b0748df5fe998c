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

uint32_t bp_adapter_stage(const bp_emit *emit, uint32_t parameter)
{
    const bp_model *model = emit->spec->model;
    const bp_parameter *p = &emit->parameters[parameter];
    uint32_t base = p->base != BP_NO_PARAMETER ? p->base : parameter;
    return model->parameter_stage != NULL ? model->parameter_stage(&emit->spec->config, base) : 0;
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

bool bp_adapter_dense(const bp_emit *emit, uint32_t parameter)
{
    uint32_t stage = bp_adapter_stage(emit, parameter);
    uint32_t stages = emit->spec->model->stages(&emit->spec->config);
    const bp_parameter *p = &emit->parameters[parameter];
    bool own = p->base == BP_NO_PARAMETER;
    return own && p->rank == 2 && !p->embedding && stage > 0 && stage + 1 < stages;
}

bool bp_adapter_table(const bp_emit *emit, uint32_t parameter)
{
    const bp_parameter *p = &emit->parameters[parameter];
    return p->base == BP_NO_PARAMETER && p->rank == 2 && p->embedding &&
           p->shape[0] == emit->spec->config.vocabulary;
}

bool bp_adapter_convolution(const bp_emit *emit, uint32_t parameter)
{
    const bp_parameter *p = &emit->parameters[parameter];
    return p->base == BP_NO_PARAMETER && p->rank == 4;
}

bool bp_adapter_turned(const bp_emit *emit, uint32_t parameter)
{
    const uint32_t base = emit->parameters[parameter].base;
    return base != BP_NO_PARAMETER && emit->parameters[base].embedding &&
           emit->parameters[base].adapter == parameter;
}

double bp_adapter_scale(const bp_lora *lora, bp_lora_part part)
{
    const double rank = (double)part.rank;
    return part.alpha / (lora->rank_stabilized ? sqrt(rank) : rank);
}

bp_lora_part bp_adapter_part(const bp_emit *emit, uint32_t parameter)
{
    const bp_lora *lora = &emit->spec->lora;
    const char *name = bp_emit_name(emit, parameter);
    return lora->choose != NULL ? lora->choose(lora, name, bp_adapter_module_length(name))
                                : (bp_lora_part){lora->rank, lora->alpha};
}

static bool is_target(const char *target, const char *name, size_t length)
{
    return strcmp(target, "all-linear") == 0 || bp_adapter_ends_with(name, length, target);
}

/* Whether one of the targets names the weight; marks which did in `used` (one bit per target). */
static bool is_adapted(const bp_emit *emit, uint32_t index, uint64_t *used)
{
    const bp_lora *lora = &emit->spec->lora;
    const char *name = bp_emit_name(emit, index);
    size_t length = bp_adapter_module_length(name);
    bool found = false;
    const bool table = bp_adapter_table(emit, index);
    const bool named = table || bp_adapter_convolution(emit, index);
    const bool takes = named || bp_adapter_dense(emit, index);
    if (length == 0 || !takes || (lora->usual && emit->parameters[index].depthwise)) {
        return false;
    }
    if (named && lora->target_count == 1 && strcmp(lora->targets[0], "all-linear") == 0) {
        return false;
    }
    if (lora->choose != NULL) {
        return bp_adapter_part(emit, index).rank > 0;
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

bool bp_adapter_wraps_bias(const bp_emit *emit, const char *name)
{
    const size_t length = strlen(name), end = sizeof bias_end - 1;
    uint64_t used = 0;
    if (length <= end || strcmp(name + length - end, bias_end) != 0) {
        return false;
    }
    /* Not the last: a bias that is being published has no name yet. */
    for (uint32_t i = emit->parameter_count - 1; i > 0; i--) {
        const char *other = bp_emit_name(emit, i - 1);
        if (bp_adapter_module_length(other) == length - end &&
            memcmp(other, name, length - end) == 0) {
            return is_adapted(emit, i - 1, &used);
        }
    }
    return false;
}

bool bp_adapter_trains_bias(const bp_emit *emit, const char *name)
{
    const bp_lora *lora = &emit->spec->lora;
    return (lora->bias == BP_LORA_BIAS_ALL && strstr(name, "bias") != NULL) ||
           (lora->bias == BP_LORA_BIAS_ADAPTED && bp_adapter_wraps_bias(emit, name));
}

/* `form` without a name, that of which parameter it adapts, and what all adapters have. */
static void publish_one(bp_emit *emit, uint32_t base, const char *module, size_t length,
                        const char *end, const bp_parameter_info *form)
{
    char name[NAME_BYTES];
    bp_parameter_info info = *form;
    if (sizeof prefix + length + strlen(end) > sizeof name) {
        emit->status = bp_error_set(emit->graph->error, BP_ERR_FIT, where,
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
    bp_emit_parameter(emit, &info);
}

static bool refuses_magnitudes(bp_emit *emit, const char *name)
{
    if (emit->spec->lora.magnitudes) {
        emit->status = bp_error_set(emit->graph->error, BP_ERR_USAGE, where,
                                    "magnitudes are of dense layers; adapters of a table of tokens "
                                    "and of convolutions have none",
                                    name);
        bp_error_prefix(emit->graph->error, "use-dora");
    }
    return emit->spec->lora.magnitudes;
}

static void publish_table(bp_emit *emit, uint32_t base)
{
    const uint64_t *shape = emit->parameters[base].shape;
    const char *name = bp_emit_name(emit, base);
    const uint64_t rows = shape[0], width = shape[1];
    const uint64_t rank = bp_adapter_part(emit, base).rank;
    const size_t length = bp_adapter_module_length(name);
    if (refuses_magnitudes(emit, name)) {
        return;
    }
    emit->parameters[base].adapter = emit->parameter_count;
    publish_one(emit, base, name, length, ".lora_embedding_A",
                &(bp_parameter_info){.rank = 2, .shape = {rows, rank}, .init = BP_INIT_ZEROS});
    publish_one(emit, base, name, length, ".lora_embedding_B",
                &(bp_parameter_info){
                    .rank = 2, .shape = {width, rank}, .init = BP_INIT_NORMAL, .deviation = 1.0});
}

static bp_status rows_refuse(const bp_emit *emit, const char *text, const char *name)
{
    const bp_status status = bp_error_set(emit->graph->error, BP_ERR_USAGE, where, text, name);
    bp_error_prefix(emit->graph->error, "trainable-token-indices");
    return status;
}

/* The trained rows of the table of tokens, where there are some. */
static void publish_rows(bp_emit *emit, uint32_t count)
{
    uint32_t base = 0;
    while (base < count && !bp_rows_table(emit, base)) {
        base++;
    }
    if (base == count) {
        emit->status = rows_refuse(emit, "this model has no table of tokens", NULL);
        return;
    }
    const bp_parameter *table = &emit->parameters[base];
    const char *name = bp_emit_name(emit, base);
    if (table->adapter != BP_NO_PARAMETER || table->trainable) {
        emit->status = rows_refuse(emit,
                                   table->trainable
                                       ? "the whole table is trained, and some of its rows as well"
                                       : "the table has an adapter, and trained rows as well",
                                   name);
        return;
    }
    emit->parameters[base].rows = emit->parameter_count;
    publish_one(emit, base, name, bp_adapter_module_length(name),
                ".token_adapter.trainable_tokens_delta",
                &(bp_parameter_info){.rank = 2,
                                     .shape = {emit->spec->lora.token_count, table->shape[1]},
                                     .init = BP_INIT_ROWS,
                                     .embedding = true});
}

/* A: the base's own window, to r channels; B: 1 x 1. */
static void publish_convolution(bp_emit *emit, uint32_t base)
{
    const bp_parameter *p = &emit->parameters[base];
    const char *name = bp_emit_name(emit, base);
    const uint64_t out = p->shape[0], rank = bp_adapter_part(emit, base).rank;
    const uint64_t fan = bp_size_mul(p->shape[1], bp_size_mul(p->shape[2], p->shape[3]));
    const size_t length = bp_adapter_module_length(name);
    const bp_parameter_info a = {.rank = 4,
                                 .shape = {rank, p->shape[1], p->shape[2], p->shape[3]},
                                 .init = BP_INIT_NORMAL,
                                 .deviation = 1.0 / sqrt(3.0 * (double)fan)};
    if (refuses_magnitudes(emit, name)) {
        return;
    }
    if (p->depthwise) {
        emit->status = bp_error_set(emit->graph->error, BP_ERR_USAGE, where,
                                    "a convolution of each channel by itself has no adapter here; "
                                    "name others, or leave it out (exclude-modules)",
                                    name);
        bp_error_prefix(emit->graph->error, "target-modules");
        return;
    }
    emit->parameters[base].adapter = emit->parameter_count;
    publish_one(emit, base, name, length, ".lora_A.weight", &a);
    publish_one(emit, base, name, length, ".lora_B.weight",
                &(bp_parameter_info){.rank = 4, .shape = {out, rank, 1, 1}, .init = BP_INIT_ZEROS});
}

static void publish_adapter(bp_emit *emit, uint32_t base)
{
    if (emit->parameters[base].embedding) {
        publish_table(emit, base);
        return;
    }
    if (bp_adapter_convolution(emit, base)) {
        publish_convolution(emit, base);
        return;
    }
    const uint64_t *shape = emit->parameters[base].shape;
    const char *name = bp_emit_name(emit, base);
    const bool input_major = emit->spec->model->input_major;
    const uint64_t in = shape[input_major ? 0 : 1];
    const uint64_t out = shape[input_major ? 1 : 0];
    const uint64_t rank = bp_adapter_part(emit, base).rank;
    const size_t length = bp_adapter_module_length(name);
    emit->parameters[base].adapter = emit->parameter_count;
    publish_one(emit, base, name, length, ".lora_A.weight",
                &(bp_parameter_info){.rank = 2,
                                     .shape = {rank, in},
                                     .init = BP_INIT_NORMAL,
                                     .deviation = 1.0 / sqrt(3.0 * (double)in)});
    publish_one(emit, base, name, length, ".lora_B.weight",
                &(bp_parameter_info){.rank = 2, .shape = {out, rank}, .init = BP_INIT_ZEROS});
    if (emit->spec->lora.magnitudes) {
        publish_one(emit, base, name, length, ".lora_magnitude_vector",
                    &(bp_parameter_info){.rank = 1, .shape = {out}, .init = BP_INIT_NORMS});
    }
}

void bp_adapter_norms(bp_emit *emit, uint32_t weight, bp_ref norms)
{
    if (emit->status != BP_OK) {
        return;
    }
    const bp_parameter *p = &emit->parameters[weight];
    const uint32_t a = p->adapter;
    const bool codes = p->quantised != BP_QUANTISED_NONE;
    const bool turned = emit->spec->model->input_major;
    const bp_ref held = bp_emit_acquire(emit, weight, BP_FOR_FORWARD);
    const bp_weight_norms_operands operands = {
        .norms = norms,
        .weight = codes ? BP_ABSENT : held,
        .codes = codes ? held : BP_ABSENT,
        .scales = codes ? bp_emit_scales(emit, weight) : BP_ABSENT,
        .nested = codes ? bp_emit_nested(emit, weight) : BP_ABSENT,
        .a = bp_emit_acquire(emit, a, BP_FOR_FORWARD),
        .b = bp_emit_acquire(emit, a + 1, BP_FOR_FORWARD)};
    const bp_weight_norms_scalars scalars = {
        .rows = (int64_t)p->shape[turned ? 1 : 0],
        .columns = (int64_t)p->shape[turned ? 0 : 1],
        .rank = (int64_t)emit->parameters[a].shape[0],
        .turned = turned && !codes,
        .form = (int64_t)p->quantised,
        .factor = bp_adapter_scale(&emit->spec->lora, bp_adapter_part(emit, weight))};
    bp_emit_weight_norms(emit, &operands, &scalars);
    bp_emit_release(emit, a + 1);
    bp_emit_release(emit, a);
    bp_emit_release(emit, weight);
}

void bp_adapter_publish(bp_emit *emit)
{
    const bp_lora *lora = &emit->spec->lora;
    const uint32_t count = emit->parameter_count;
    uint64_t used = 0;
    bool any = false;
    for (uint32_t i = 0; i < count && lora->rank > 0 && emit->status == BP_OK; i++) {
        if (is_adapted(emit, i, &used)) {
            publish_adapter(emit, i);
            any = true;
        }
    }
    if (lora->rank > 0 && lora->token_count > 0 && emit->status == BP_OK) {
        publish_rows(emit, count);
    }
    if (lora->choose != NULL) {
        if (lora->rank > 0 && !any && emit->status == BP_OK) {
            emit->status = bp_error_set(emit->graph->error, BP_ERR_USAGE, where,
                                        "no dense layer of this model's blocks and no convolution "
                                        "is chosen for an adapter",
                                        lora->target_count > 0 ? lora->targets[0] : "");
            bp_error_prefix(emit->graph->error, "target-modules");
        }
        return;
    }
    for (uint32_t t = 0; t < lora->target_count && lora->rank > 0 && emit->status == BP_OK; t++) {
        if ((used >> (t % 64) & 1) == 0) {
            emit->status = bp_error_set(emit->graph->error, BP_ERR_USAGE, where,
                                        "the target names no dense layer of this model's blocks "
                                        "(all-linear is all of them) and no convolution",
                                        lora->targets[t]);
            bp_error_prefix(emit->graph->error, "target-modules");
        }
    }
}
