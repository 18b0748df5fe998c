/* SPDX-License-Identifier: MIT */
/* States, ops and checks of every update rule. */
#include "optim/rule.h"

#include <math.h>

#include "optim/clip.h"
#include "optim/partials.h"

static const bp_optimizer *optimizer_of(const bp_spec *spec)
{
    return spec->optimizer;
}

uint32_t bp_rule_states(const bp_rule *rule, const bp_optimizer_options *options)
{
    uint32_t states = 0;
    while (states < BP_RULE_STATES && rule->state_names[states] != NULL) {
        states++;
    }
    return rule->momentum_state && options->momentum <= 0.0 ? states - 1 : states;
}

static uint32_t states_of(const bp_spec *spec)
{
    return bp_rule_states(optimizer_of(spec)->rule, &spec->optimizer_options);
}

static bp_status check_argument(const bp_optimizer *self, const bp_optimizer_options *options,
                                const bp_rule_argument *argument, bp_error *error)
{
    if (argument->range == BP_RULE_FLAG) {
        return BP_OK;
    }
    double found = *(const double *)(const void *)((const char *)options + argument->offset);
    bool fraction = argument->range == BP_RULE_FRACTION;
    bool inside = found >= 0.0 && found < (fraction ? 1.0 : (double)INFINITY);
    if (!inside) {
        return bp_error_set(error, BP_ERR_USAGE, self->name,
                            fraction ? "has to be at least 0 and below 1"
                                     : "has to be a number of at least 0",
                            argument->name);
    }
    return BP_OK;
}

bp_status bp_rule_check(const bp_optimizer *self, const bp_optimizer_options *options,
                        bp_error *error)
{
    static const bp_rule_argument common[] = {
        {"learning-rate", offsetof(bp_optimizer_options, learning_rate), BP_RULE_NOT_NEGATIVE, 1},
        {"weight-decay", offsetof(bp_optimizer_options, weight_decay), BP_RULE_NOT_NEGATIVE, 1},
        {"max-grad-norm", offsetof(bp_optimizer_options, max_grad_norm), BP_RULE_NOT_NEGATIVE, 1}};
    const bp_rule *rule = self->rule;
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) {
        BP_TRY(check_argument(self, options, &common[i], error));
    }
    for (uint32_t i = 0; i < rule->argument_count; i++) {
        BP_TRY(check_argument(self, options, &rule->arguments[i], error));
    }
    if (options->percentile > BP_RULE_PERCENTILE) {
        return bp_error_limit(error, BP_ERR_USAGE, self->name, "has to be 1 to 99, or 0 for none",
                              "percentile-clipping", options->percentile, BP_LIMIT_MOST,
                              BP_RULE_PERCENTILE);
    }
    if (self->form != BP_CODEC_F32 && bp_rule_states(rule, options) == 0) {
        return bp_error_set(error, BP_ERR_USAGE, self->name,
                            "without momentum it has no state to store in 8 bits; take --optim sgd "
                            "or --optim-args momentum=0.9",
                            "optim");
    }
    const bool moves = options->momentum > 0.0 && options->dampening <= 0.0;
    if (options->nesterov && rule->kernel == BP_KERNEL_sgd && !moves) {
        return bp_error_set(error, BP_ERR_USAGE, self->name,
                            "nesterov needs a momentum above 0 and no dampening", "nesterov");
    }
    return BP_OK;
}

bp_codec bp_rule_codec(const bp_spec *spec, const bp_parameter *parameter)
{
    bp_codec form = optimizer_of(spec)->form;
    switch (parameter->optim_bits) {
    case 32:
        return BP_CODEC_F32;
    case 8:
        return form == BP_CODEC_COMPANDED8 ? BP_CODEC_COMPANDED8 : BP_CODEC_BLOCK8;
    case 4:
        return BP_CODEC_BLOCK4;
    default:
        break;
    }
    bool small = parameter->count < BP_RULE_LEAST_STATE || parameter->embedding;
    return small ? BP_CODEC_F32 : form;
}

uint64_t bp_rule_state_bytes(const bp_spec *spec, const bp_parameter *parameter, uint64_t elements)
{
    return states_of(spec) * bp_codec_bytes(elements, bp_rule_codec(spec, parameter));
}

void bp_rule_declare_one(bp_builder *builder, uint32_t index)
{
    const bp_rule *rule = optimizer_of(builder->spec)->rule;
    const uint32_t states = states_of(builder->spec);
    bp_parameter *parameter = &builder->parameters[index];
    const bp_codec form = bp_rule_codec(builder->spec, parameter);
    if (states == 0 && parameter->optim_bits % 32 != 0 && builder->status == BP_OK) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, rule->name,
                                       "without momentum the rule has no state to store in fewer "
                                       "bits; take --optim-args momentum=0.9, or no optim_bits",
                                       "param-override");
    }
    for (uint32_t k = 0; k < states && parameter->trainable; k++) {
        parameter->state[k] =
            form == BP_CODEC_F32
                ? bp_build_state(builder, index, BP_F32, rule->state_names[k])
                : bp_build_state_bytes(builder, index,
                                       bp_codec_bytes(bp_build_trained(parameter).count, form),
                                       bp_codec_bytes(BP_SHARD_UNIT, form), rule->state_names[k]);
    }
}

void bp_rule_declare(bp_builder *builder)
{
    bp_clip_declare(builder);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_rule_declare_one(builder, i);
    }
}

/* A tensor of bytes from byte `at` on. */
static bp_ref bytes_of(uint32_t buffer, uint64_t at)
{
    return buffer == BP_NO_BUFFER ? BP_ABSENT : (bp_ref){buffer, BP_U8, at};
}

bp_adamw_operands bp_rule_operands(bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t first = bp_build_ready_share(builder, index, builder->spec->rank).first;
    const uint64_t own = first - parameter->share.first;
    const uint64_t master = own * bp_master_bytes(parameter->master_form);
    const uint64_t state = bp_codec_bytes(own, bp_rule_codec(builder->spec, parameter));
    return (bp_adamw_operands){.weight = bp_build_update_weight(builder, index, first),
                               .master = bytes_of(parameter->master, master),
                               .state1 = bytes_of(parameter->state[0], state),
                               .state2 = bytes_of(parameter->state[1], state),
                               .state3 = bytes_of(parameter->state[2], state),
                               .gradient = bp_build_ready_gradient(builder, index, first),
                               .trust = BP_ABSENT,
                               .control = builder->control,
                               .step = builder->step};
}

static bp_rule_scalars scalars_of(const bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_share share = bp_build_ready_share(builder, index, builder->spec->rank);
    bp_rule_scalars scalars = {
        .ademamix = {.count = (int64_t)share.count,
                     .first = (int64_t)(share.first - bp_build_trained(parameter).first),
                     .stream = (int64_t)index,
                     .form = (int64_t)bp_rule_codec(builder->spec, parameter),
                     .master_form = (int64_t)parameter->master_form,
                     .decay = parameter->weight_decay,
                     .rate_scale = parameter->rate_scale}};
    optimizer_of(builder->spec)->rule->fill(&builder->spec->optimizer_options, &scalars);
    if (optimizer_of(builder->spec)->folds) {
        scalars.adamw.fold = (int64_t)builder->fold; /* adam's is in the same place */
    }
    return scalars;
}

static uint64_t pairs_of(const bp_parameter *parameter)
{
    return bp_size_ceil_div(parameter->count, BP_CLIP_CHUNK);
}

static void emit_ratios(bp_builder *builder, bp_ref partials, bp_ref trust)
{
    const bp_rule *rule = optimizer_of(builder->spec)->rule;
    uint64_t done = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        if (!parameter->ready) {
            continue;
        }
        const bp_trust_ratio_scalars scalars = {
            .pairs = (int64_t)pairs_of(parameter),
            .coefficient = rule->coefficient(&builder->spec->optimizer_options),
            .decay = rule->decay_in_ratio ? parameter->weight_decay : 0.0};
        const bp_trust_ratio_operands operands = {.trust = bp_ref_at(trust, i),
                                                  .partials = bp_ref_at(partials, 2 * done)};
        if (done == 0) {
            bp_build_trust_ratio(builder, &operands, &scalars);
        } else {
            bp_build_tuple(builder, (const bp_ref *)&operands, &scalars);
        }
        done += pairs_of(parameter);
    }
}

/* The sums of this rank's elements of what is ready: of all of them, by parameter, into `partials`;
 * where states are shared out into the rank's part of `shared`. */
static void emit_pairs(bp_builder *builder, bp_ref partials, bp_partials *shared)
{
    const bp_rule *rule = optimizer_of(builder->spec)->rule;
    bool first = true;
    uint64_t done = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bool ready = builder->parameters[i].ready;
        if (ready && bp_build_ready_share(builder, i, builder->spec->rank).count > 0) {
            const bp_adamw_operands operands = bp_rule_operands(builder, i);
            const bp_rule_scalars scalars = scalars_of(builder, i);
            const bp_ref to = shared != NULL ? bp_partials_own(builder, shared, i)
                                             : bp_ref_at(partials, 2 * done);
            rule->norms(builder, &scalars, &operands, to, first);
            first = false;
        }
        done += ready ? pairs_of(&builder->parameters[i]) : 0;
    }
}

/* The same from all ranks, to where one rank has them. */
static void gather_pairs(bp_builder *builder, bp_ref partials)
{
    bp_partials shared;
    uint64_t done = 0;
    bp_partials_begin(builder, &shared, 2);
    emit_pairs(builder, BP_ABSENT, &shared);
    bp_partials_gather(builder, &shared);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (builder->parameters[i].ready) {
            bp_partials_place(builder, &shared, i, bp_ref_at(partials, 2 * done));
            done += pairs_of(&builder->parameters[i]);
        }
    }
}

/* The trust ratios of all tensors, by parameter. */
static bp_ref emit_trust(bp_builder *builder)
{
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        pairs += builder->parameters[i].ready ? pairs_of(&builder->parameters[i]) : 0;
    }
    bp_ref partials =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F64, 2 * pairs, 1, "trust_partials");
    bp_ref trust =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, builder->parameter_count, 1, "trust");
    if (bp_build_shared(builder)) {
        gather_pairs(builder, partials);
    } else {
        emit_pairs(builder, partials, NULL);
    }
    emit_ratios(builder, partials, trust);
    return trust;
}

/* Everything that is ready is held for the whole of an update, whose list ops touch all of it. */
void bp_rule_hold(bp_builder *builder, bool hold)
{
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (!builder->parameters[i].ready) {
            continue;
        }
        if (hold) {
            (void)bp_build_acquire_update(builder, i);
        } else {
            bp_build_release(builder, i);
        }
    }
}

/* What of a parameter is offloaded: its master and its states, and the weight itself where that
 * does as well, so many bytes for so many elements. */
#define ASIDE_PARTS 5
typedef struct aside_part {
    uint32_t buffer;
    uint64_t first;
    uint64_t bytes;
    bp_ref *operand;
} aside_part;

static uint64_t aside_bytes(const bp_builder *builder, const bp_parameter *parameter, uint32_t k,
                            uint64_t elements)
{
    return k == 0   ? elements * bp_master_bytes(parameter->master_form)
           : k == 4 ? elements * bp_dtype_bytes(builder->spec->working)
                    : bp_codec_bytes(elements, bp_rule_codec(builder->spec, parameter));
}

/* Elements [at, at + count) of what is ready of a parameter: brought, updated, written back. */
static void apply_part(bp_builder *builder, uint32_t index, uint64_t at, uint64_t count)
{
    static const char *const names[ASIDE_PARTS] = {
        "brought_master", "brought_state1", "brought_state2", "brought_state3", "brought_part"};
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t first = parameter->ready_first + at;
    bp_adamw_operands operands = bp_rule_operands(builder, index);
    bp_rule_scalars scalars = scalars_of(builder, index);
    aside_part parts[ASIDE_PARTS] = {
        {.buffer = parameter->master, .operand = &operands.master},
        {.buffer = parameter->state[0], .operand = &operands.state1},
        {.buffer = parameter->state[1], .operand = &operands.state2},
        {.buffer = parameter->state[2], .operand = &operands.state3},
        {.buffer = parameter->offloaded ? parameter->weight : BP_NO_BUFFER,
         .operand = &operands.weight}};
    scalars.adamw.count = (int64_t)count; /* in the same place in all rules, as is the next */
    scalars.adamw.first = (int64_t)first;
    operands.weight = bp_ref_at(operands.weight, at);
    operands.gradient = bp_build_gradient_offloaded(builder, index)
                            ? bp_build_bring_gradient(builder, index, first, count)
                            : bp_ref_at(operands.gradient, at);
    for (uint32_t k = 0; k < ASIDE_PARTS; k++) {
        aside_part *part = &parts[k];
        part->first = aside_bytes(builder, parameter, k, first);
        part->bytes = aside_bytes(builder, parameter, k, count);
        if (part->buffer != BP_NO_BUFFER) {
            const bp_dtype dtype = part->operand->dtype;
            *part->operand =
                bp_build_bring(builder, part->buffer, part->first, part->bytes, names[k]);
            part->operand->dtype = k == 4 ? dtype : BP_U8;
        }
    }
    bp_build_op(builder, optimizer_of(builder->spec)->rule->kernel, 1, (const bp_ref *)&operands,
                &scalars);
    for (uint32_t k = 0; k < ASIDE_PARTS; k++) {
        const aside_part *part = &parts[k];
        if (part->buffer != BP_NO_BUFFER) {
            bp_build_put_back(builder, *part->operand, part->buffer, part->first, part->bytes);
        }
    }
}

static void apply_aside(bp_builder *builder)
{
    for (uint32_t i = 0; i < builder->parameter_count && builder->status == BP_OK; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        const uint64_t all = parameter->ready && parameter->aside ? parameter->ready_count : 0;
        for (uint64_t at = 0; at < all && builder->status == BP_OK; at += BP_ASIDE_ELEMENTS) {
            const uint64_t left = all - at;
            apply_part(builder, i, at, left < BP_ASIDE_ELEMENTS ? left : BP_ASIDE_ELEMENTS);
        }
    }
}

static void apply_where(bp_builder *builder, bp_ref trust,
                        bool (*takes)(const bp_builder *builder, uint32_t index))
{
    const bp_rule *rule = optimizer_of(builder->spec)->rule;
    bool first = true;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (!builder->parameters[i].ready || builder->parameters[i].aside ||
            bp_build_ready_share(builder, i, builder->spec->rank).count == 0 ||
            (takes != NULL && !takes(builder, i))) {
            continue;
        }
        const bp_rule_scalars scalars = scalars_of(builder, i);
        bp_adamw_operands operands = bp_rule_operands(builder, i);
        operands.trust = rule->norms != NULL ? bp_ref_at(trust, i) : BP_ABSENT;
        if (first) {
            bp_build_op(builder, rule->kernel, 1, (const bp_ref *)&operands, &scalars);
        } else {
            bp_build_tuple(builder, (const bp_ref *)&operands, &scalars);
        }
        first = false;
    }
}

void bp_rule_apply_where(bp_builder *builder,
                         bool (*takes)(const bp_builder *builder, uint32_t index))
{
    apply_where(builder, BP_ABSENT, takes);
}

void bp_rule_apply(bp_builder *builder)
{
    const bp_rule *rule = optimizer_of(builder->spec)->rule;
    bp_rule_hold(builder, true);
    const bp_ref trust = rule->norms != NULL ? emit_trust(builder) : BP_ABSENT;
    apply_where(builder, trust, NULL);
    apply_aside(builder);
    bp_rule_hold(builder, false);
}
