/* SPDX-License-Identifier: MIT */
/* Checkpoint policies as generators of action sequences. */
#include "core/schedule.h"

/* Counts always, writes while there is room. */
typedef struct action_writer {
    bp_action *actions;
    const uint32_t *variants; /* NULL while only counting: every stage is taken to have a tape */
    uint32_t limit;
    uint64_t count;
} action_writer;

static void put(action_writer *writer, const bp_action *action)
{
    if (writer->count < writer->limit) {
        writer->actions[writer->count] = *action;
    }
    writer->count++;
}

static uint32_t keep_nothing(const action_writer *writer, uint32_t stage)
{
    return writer->variants != NULL ? writer->variants[stage] - 1 : 0;
}

static void put_backward(action_writer *writer, uint32_t stage, uint32_t variant)
{
    put(writer, &(bp_action){.kind = BP_ACTION_BACKWARD, .stage = stage, .variant = variant});
}

/* Forward of stages first .. last-1 without tape; the boundary behind stage s is a checkpoint when
 * s + 1 is a multiple of every (0: none is). */
static void put_forward(action_writer *writer, uint32_t first, uint32_t last, uint32_t every)
{
    for (uint32_t stage = first; stage < last; stage++) {
        bool slot = every != 0 && (stage + 1) % every == 0;
        put(writer, &(bp_action){.kind = BP_ACTION_FORWARD,
                                 .stage = stage,
                                 .variant = keep_nothing(writer, stage),
                                 .checkpoint = slot});
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

static void generate_none(action_writer *writer, uint32_t head)
{
    for (uint32_t stage = 0; stage < head; stage++) {
        put(writer, &(bp_action){.kind = BP_ACTION_FORWARD, .stage = stage});
    }
    for (uint32_t stage = head + 1; stage > 0; stage--) {
        put_backward(writer, stage - 1, 0);
    }
}

static void generate_every(action_writer *writer, uint32_t head, uint32_t every)
{
    put_forward(writer, 0, head, every);
    put_backward(writer, head, 0);
    uint32_t end = head;
    while (end > 0) {
        uint32_t first = (end - 1) / every * every;
        put_segment(writer, first, end);
        end = first;
    }
}

/* Nothing is kept: each backward starts from the model's input again. */
static void generate_memory_poor(action_writer *writer, uint32_t head)
{
    put_forward(writer, 0, head, 0);
    put_backward(writer, head, 0);
    for (uint32_t stage = head; stage > 0; stage--) {
        put_forward(writer, 0, stage - 1, 0);
        put_segment(writer, stage - 1, stage);
    }
}

static void generate(action_writer *writer, bp_policy policy, uint32_t stages)
{
    uint32_t head = stages - 1;
    switch (policy.kind) {
    case BP_POLICY_NONE:
        generate_none(writer, head);
        break;
    case BP_POLICY_FULL:
        generate_every(writer, head, 1);
        break;
    case BP_POLICY_MEMORY_POOR:
        generate_memory_poor(writer, head);
        break;
    case BP_POLICY_EVERY:
        generate_every(writer, head, policy.every);
        break;
    }
}

static bool makes_sense(bp_policy policy, uint32_t stages)
{
    return stages > 0 && (policy.kind != BP_POLICY_EVERY || policy.every > 0);
}

uint32_t bp_schedule_count(bp_policy policy, uint32_t stages)
{
    action_writer writer = {0};
    if (makes_sense(policy, stages)) {
        generate(&writer, policy, stages);
    }
    return writer.count < UINT32_MAX ? (uint32_t)writer.count : UINT32_MAX;
}

bp_status bp_schedule_generate(bp_policy policy, uint32_t stages, const uint32_t *variants,
                               bp_action *actions, uint32_t limit, uint32_t *count)
{
    if (!makes_sense(policy, stages)) {
        return BP_ERR_USAGE;
    }
    action_writer writer = {.actions = actions, .variants = variants, .limit = limit};
    generate(&writer, policy, stages);
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
                                        [BP_POLICY_EVERY] = "every"};
    return names[kind];
}
