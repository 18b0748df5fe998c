/* SPDX-License-Identifier: MIT */
/* What a caller may ask of a runtime without seeing it. */
#include <string.h>

#include "core/run/runtime.h"
#include "core/run/state.h"

typedef char room_fits[sizeof(bp_runtime) <= sizeof(bp_runtime_room) ? 1 : -1];
typedef char rank_fits[BP_RANK_MAX <= 4 ? 1 : -1];

bp_runtime *bp_runtime_make(bp_runtime_room *room)
{
    memset(room, 0, sizeof *room);
    return (bp_runtime *)(void *)room;
}

const bp_error *bp_runtime_error(const bp_runtime *runtime)
{
    return &runtime->error;
}

uint64_t bp_runtime_steps(const bp_runtime *runtime)
{
    return runtime->steps;
}

const float *bp_runtime_logits(const bp_runtime *runtime)
{
    return bp_runtime_planned(runtime) ? runtime->logits_host : NULL;
}

const bp_group *bp_runtime_group(const bp_runtime *runtime)
{
    return &runtime->group;
}

uint32_t bp_runtime_length_buckets(const bp_runtime *runtime)
{
    return bp_runtime_planned(runtime) ? runtime->plan->bucket_count + 1 : 0;
}

bp_length bp_runtime_length(const bp_runtime *runtime, uint32_t index)
{
    if (!bp_runtime_planned(runtime)) {
        return (bp_length){.sequence = 0};
    }
    if (index >= runtime->plan->bucket_count) {
        return (bp_length){runtime->plan->spec.sequence, runtime->padded_runs,
                           runtime->padded_evaluations};
    }
    const bp_length_bucket *bucket = &runtime->plan->buckets[index];
    const bp_length_run *run = bp_length_bucket_run(runtime, bucket);
    return (bp_length){bucket->sequence, run->runs, run->evaluations};
}

uint32_t bp_runtime_weights(const bp_runtime *runtime)
{
    return bp_runtime_planned(runtime) ? runtime->plan->builder.parameter_count : 0;
}

bp_weight bp_runtime_weight(const bp_runtime *runtime, uint32_t index)
{
    if (index >= bp_runtime_weights(runtime)) {
        return (bp_weight){.name = ""};
    }
    const bp_parameter *parameter = &runtime->plan->builder.parameters[index];
    bp_weight weight = {.name = bp_graph_name(&runtime->plan->graph, parameter->weight),
                        .rank = parameter->rank,
                        .count = parameter->count,
                        .trainable = parameter->trainable};
    for (uint32_t i = 0; i < parameter->rank; i++) {
        weight.shape[i] = parameter->shape[i];
    }
    return weight;
}

static bp_status state_read(void *user, uint64_t handle, uint64_t offset, void *to, size_t bytes)
{
    bp_runtime *runtime = user;
    return bp_runtime_state_read(runtime, (uint32_t)handle, offset, to, bytes);
}

static bp_status state_write(void *user, uint64_t handle, uint64_t offset, const void *from,
                             size_t bytes)
{
    bp_runtime *runtime = user;
    return bp_runtime_state_write(runtime, (uint32_t)handle, offset, from, bytes);
}

bp_state_io bp_runtime_state_io(bp_runtime *runtime)
{
    return (bp_state_io){runtime, state_read, state_write};
}

void bp_runtime_continue(bp_runtime *runtime, uint64_t step)
{
    runtime->steps = step;
}
