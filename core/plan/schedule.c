/* SPDX-License-Identifier: MIT */
/* Checkpoint policies as generators of action sequences. */
#include "core/plan/schedule.h"

/* Counts always, writes while there is room. */
typedef struct action_writer {
    bp_action *actions;
    const uint32_t *variants; /* NULL while only counting: every stage is taken to have a tape */
    uint32_t first;           /* generators number stages from this one */
    uint32_t limit;
    uint64_t count;
} action_writer;

static void put(action_writer *writer, const bp_action *action)
{
    if (writer->count < writer->limit) {
        writer->actions[writer->count] = *action;
        writer->actions[writer->count].stage += writer->first;
    }
    writer->count++;
}

static uint32_t keep_nothing(const action_writer *writer, uint32_t stage)
{
    return writer->variants != NULL ? writer->variants[stage + writer->first] - 1 : 0;
}

static void put_backward(action_writer *writer, uint32_t stage, uint32_t variant)
{
    put(writer, &(bp_action){.kind = BP_ACTION_BACKWARD, .stage = stage, .variant = variant});
}

/* Whether the input of a stage is kept by a policy of segments. */
static bool keeps_input(const action_writer *writer, const bp_policy *policy, uint32_t every,
                        uint32_t stage)
{
    if (policy->kind != BP_POLICY_LIST) {
        return every != 0 && stage % every == 0;
    }
    for (uint32_t i = 0; i < policy->list_count; i++) {
        if (policy->list[i] == stage + writer->first) {
            return true;
        }
    }
    return false;
}

/* Forward of stages first .. last-1 without tape; checkpoints where the policy keeps an input. */
static void put_forward(action_writer *writer, uint32_t first, uint32_t last,
                        const bp_policy *policy, uint32_t every)
{
    for (uint32_t stage = first; stage < last; stage++) {
        put(writer, &(bp_action){.kind = BP_ACTION_FORWARD,
                                 .stage = stage,
                                 .variant = keep_nothing(writer, stage),
                                 .checkpoint = keeps_input(writer, policy, every, stage + 1)});
    }
}

/* Forward of stages first .. last-2 again, with all the tape, then backward of last-1 .. first. The
 * last of them needs no forward of its own: its backward recomputes from the boundary. */
static void put_segment(action_writer *writer, uint32_t first, uint32_t last)
{
    for (uint32_t stage = first; stage + 1 < last; stage++) {
        put(writer, &(bp_action){.kind = BP_ACTION_FORWARD, .stage = stage});
    }
    put_backward(writer, last - 1, keep_nothing(writer, last - 1));
    for (uint32_t stage = last - 1; stage > first; stage--) {
        put_backward(writer, stage - 1, 0);
    }
}

/* Every stage runs once; its tape lacks what `recompute` names. */
static void generate_single(action_writer *writer, uint32_t head, uint32_t recompute)
{
    for (uint32_t stage = 0; stage < head; stage++) {
        uint32_t nothing = keep_nothing(writer, stage);
        uint32_t variant = recompute < nothing ? recompute : nothing;
        put(writer, &(bp_action){.kind = BP_ACTION_FORWARD, .stage = stage, .variant = variant});
    }
    put_backward(writer, head, 0);
    for (uint32_t stage = head; stage > 0; stage--) {
        uint32_t nothing = keep_nothing(writer, stage - 1);
        put_backward(writer, stage - 1, recompute < nothing ? recompute : nothing);
    }
}

/* Segments between kept inputs, done from the last to the first. */
static void generate_segments(action_writer *writer, uint32_t head, const bp_policy *policy,
                              uint32_t every)
{
    put_forward(writer, 0, head, policy, every);
    put_backward(writer, head, 0);
    uint32_t end = head;
    while (end > 0) {
        uint32_t first = end - 1;
        while (first > 0 && !keeps_input(writer, policy, every, first)) {
            first--;
        }
        put_segment(writer, first, end);
        end = first;
    }
}

/* Nothing is kept: each backward starts from the model's input again. Only `frozen` stages at the
 * beginning have none. */
static void generate_memory_poor(action_writer *writer, uint32_t head, uint32_t frozen,
                                 const bp_policy *policy)
{
    put_forward(writer, 0, head, policy, 0);
    put_backward(writer, head, 0);
    for (uint32_t stage = head; stage > frozen; stage--) {
        put_forward(writer, 0, stage - 1, policy, 0);
        put_segment(writer, stage - 1, stage);
    }
}

static uint32_t ceil_sqrt(uint32_t n)
{
    uint32_t root = 0;
    while ((uint64_t)root * root < n) {
        root++;
    }
    return root;
}

static void generate(action_writer *writer, const bp_policy *policy, uint32_t stages)
{
    uint32_t head = stages - 1;
    switch (policy->kind) {
    case BP_POLICY_NONE:
        generate_single(writer, head, 0);
        break;
    case BP_POLICY_SELECTIVE:
        generate_single(writer, head, policy->recompute);
        break;
    case BP_POLICY_FULL:
        generate_segments(writer, head, policy, 1);
        break;
    case BP_POLICY_MEMORY_POOR:
        generate_memory_poor(writer, head, 0, policy);
        break;
    case BP_POLICY_EVERY:
        generate_segments(writer, head, policy, policy->every);
        break;
    case BP_POLICY_SQRT:
        generate_segments(writer, head, policy, ceil_sqrt(head));
        break;
    case BP_POLICY_LIST:
        generate_segments(writer, head, policy, 0);
        break;
    case BP_POLICY_ACTIONS:
        for (uint32_t i = 0; i < policy->action_count; i++) {
            put(writer, &policy->actions[i]);
        }
        break;
    }
}

static bool list_makes_sense(const bp_policy *policy, uint32_t stages)
{
    for (uint32_t i = 0; i < policy->list_count; i++) {
        if (policy->list[i] >= stages) {
            return false;
        }
    }
    return true;
}

static bool makes_sense(const bp_policy *policy, uint32_t stages)
{
    if (stages == 0) {
        return false;
    }
    if (policy->kind == BP_POLICY_LIST) {
        return list_makes_sense(policy, stages);
    }
    return policy->kind != BP_POLICY_EVERY || policy->every > 0;
}

uint32_t bp_schedule_count(const bp_policy *policy, uint32_t stages)
{
    action_writer writer = {0};
    if (policy->kind == BP_POLICY_ACTIONS && stages > 0) {
        /* Given actions are those of the chain, before which a prefix may come; for counting them
         * they need not be there yet. */
        writer.count = (uint64_t)policy->action_count + stages;
    } else if (makes_sense(policy, stages)) {
        generate(&writer, policy, stages);
    }
    return writer.count < UINT32_MAX ? (uint32_t)writer.count : UINT32_MAX;
}

/* The stages below the chain; the last of them leaves the chain's input. */
static void put_prefix(action_writer *writer, uint32_t stages)
{
    for (uint32_t stage = 0; stage < stages; stage++) {
        put(writer, &(bp_action){.kind = BP_ACTION_FORWARD,
                                 .stage = stage,
                                 .variant = keep_nothing(writer, stage),
                                 .checkpoint = stage + 1 == stages});
    }
}

bp_status bp_schedule_generate(const bp_policy *policy, uint32_t stages, uint32_t first,
                               const uint32_t *variants, bp_action *actions, uint32_t limit,
                               uint32_t *count)
{
    if (!makes_sense(policy, stages) || first >= stages) {
        return BP_ERR_USAGE;
    }
    action_writer writer = {.actions = actions, .variants = variants, .limit = limit};
    if (policy->kind == BP_POLICY_MEMORY_POOR) {
        generate_memory_poor(&writer, stages - 1, first, policy);
    } else {
        put_prefix(&writer, first);
        writer.first = first;
        generate(&writer, policy, stages - first);
    }
    if (writer.count > limit) {
        return BP_ERR_FIT;
    }
    *count = (uint32_t)writer.count;
    return BP_OK;
}

const char *bp_policy_name(bp_policy_kind kind)
{
    static const char *const names[] = {[BP_POLICY_NONE] = "none",
                                        [BP_POLICY_FULL] = "full",
                                        [BP_POLICY_MEMORY_POOR] = "memory-poor",
                                        [BP_POLICY_EVERY] = "every",
                                        [BP_POLICY_SQRT] = "sqrt",
                                        [BP_POLICY_LIST] = "list",
                                        [BP_POLICY_SELECTIVE] = "selective",
                                        [BP_POLICY_ACTIONS] = "auto"};
    return names[kind];
}
