/* SPDX-License-Identifier: MIT */
/* The part of a plan that is frozen. */
#include "tools/bedplate/session/frozen.h"

#include "tools/bedplate/session/dry_run.h"

#define NAMES_SHOWN 4

/* The bytes that live at one time with nothing frozen: no rules that freeze, and no adapters beside
 * a base. Nobody runs that, so no layout is searched for: a 70B model's has 274,000 buffers. What
 * only the frozen model may do, as norms that move no statistics on several ranks, leaves the bytes
 * as they are. */
static bp_status plan_whole(session *s, uint64_t *arena_bytes)
{
    static bp_parameter_rule rules[PRECISION_RULES_MAX];
    bp_spec spec = s->plan.spec;
    spec.rules = rules;
    spec.rule_count = 0;
    spec.lora = (bp_lora){.rank = 0};
    spec.quantised = spec.experts = BP_QUANTISED_NONE;
    spec.stored_count = 0;
    spec.offload.ahead = 0; /* nor are copies put in order: what is in flight is left out */
    if (spec.offload.checkpoints == BP_OFFLOAD_STREAMS) {
        spec.offload.checkpoints = BP_OFFLOAD_ALL; /* streams are those of frozen tables */
    }
    for (uint32_t i = 0; i < s->plan.spec.rule_count; i++) {
        const bp_parameter_rule *rule = &s->plan.spec.rules[i];
        if (rule->kind == BP_RULE_OVERRIDE) {
            rules[spec.rule_count] = *rule;
            rules[spec.rule_count++].may_match_none = true; /* it may be of adapters */
        }
    }
    if (spec.policy.kind == BP_POLICY_ACTIONS) {
        spec.policy = (bp_policy){.kind = BP_POLICY_NONE}; /* the schedule was made for the rest */
    }
    uint64_t whole = 0;
    bp_error error;
    const bp_status status = dry_run_arena(&spec, 1, &whole, &error);
    if (status == BP_OK) {
        *arena_bytes = whole;
    } else if (status != BP_ERR_USAGE) {
        s->error = error;
        return status;
    }
    return BP_OK;
}

bp_status frozen_find(session *s, frozen *out)
{
    const bp_builder *builder = &s->plan.builder;
    *out = (frozen){.arena_bytes = s->plan.report.arena_bytes};
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        out->tensors += parameter->trainable ? 0 : 1;
        const uint64_t trained = parameter->trainable ? bp_build_trained(parameter).count : 0;
        out->parameters += parameter->count - trained;
    }
    return out->tensors > 0 ? plan_whole(s, &out->arena_bytes) : BP_OK;
}

static uint64_t saved(const session *s, const frozen *f)
{
    uint64_t now = s->plan.report.arena_bytes;
    return f->arena_bytes > now ? f->arena_bytes - now : 0;
}

void frozen_put(bp_text *text, const session *s, const frozen *f)
{
    const bp_builder *builder = &s->plan.builder;
    uint32_t shown = 0;
    if (f->tensors == 0) {
        return;
    }
    bp_text_string(text, "frozen      ");
    bp_text_grouped(text, f->parameters);
    bp_text_string(text, " parameters of ");
    bp_text_u64(text, f->tensors);
    bp_text_string(text, f->tensors == 1 ? " tensor (" : " tensors (");
    for (uint32_t i = 0; i < builder->parameter_count && shown < NAMES_SHOWN; i++) {
        if (!builder->parameters[i].trainable) {
            bp_text_string(text, shown > 0 ? ", " : "");
            bp_text_string(text, bp_graph_name(builder->graph, builder->parameters[i].weight));
            shown++;
        }
    }
    bp_text_string(text, f->tensors > shown ? ", ..)" : ")");
    bp_text_string(text, ", which saves at least ");
    bp_text_grouped(text, saved(s, f));
    bp_text_string(text, " bytes of arena\n");
}

void frozen_json(output *out, const session *s, const frozen *f)
{
    const bp_builder *builder = &s->plan.builder;
    json_count(out, "trainable_parameters", s->plan.report.parameters - f->parameters);
    json_count(out, "frozen_parameters", f->parameters);
    json_count(out, "frozen_saved_bytes", saved(s, f));
    json_list(out, "frozen");
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (!builder->parameters[i].trainable) {
            json_item(out);
            json_text(out, "name", bp_graph_name(builder->graph, builder->parameters[i].weight));
            json_count(out, "parameters", builder->parameters[i].count);
            json_close(out);
        }
    }
    json_list_end(out);
}
