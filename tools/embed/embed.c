/* SPDX-License-Identifier: MIT */
/* How an appliance trains: a small GPT inside two static arrays.
 *
 * It names one model, one optimizer and one device, and the linker takes these and nothing else.
 * The sizes of the arrays are the plan's, known before the first step; no heap is used. */
#include <bedplate.h>
#include <stdio.h>

#include "tools/embed/poem.h"

#define STEPS 200

/* The plan needs this much; when the model changes, the program says the new numbers. */
static uint64_t host_memory[1u << 17];
static unsigned char arena_memory[1200000];

static bp_status train(bp_runtime *runtime, bp_plan *plan, const bp_feed *feed)
{
    size_t skew = (uintptr_t)arena_memory % BP_ARENA_ALIGNMENT;
    size_t start = skew > 0 ? BP_ARENA_ALIGNMENT - skew : 0;
    BP_TRY(bp_runtime_open(runtime, plan, arena_memory + start, sizeof arena_memory - start));
    BP_TRY(bp_runtime_initialize(runtime));
    for (int step = 1; step <= STEPS; step++) {
        bp_outcome outcome;
        BP_TRY(bp_runtime_step(runtime, feed, &outcome));
        if (step == 1 || step % 50 == 0) {
            printf("step %3d  loss %.4f\n", step, outcome.loss);
        }
    }
    return BP_OK;
}

int main(void)
{
    static bp_plan_room planned;
    static bp_runtime_room room;
    bp_plan *plan = bp_plan_begin(&planned);
    bp_runtime *runtime = bp_runtime_make(&room);
    spec.device = &bp_device_host;
    spec.device_options.threads = 1;
    bp_family_config_set(&spec.config, &sizes, sizeof sizes);
    bp_source source;
    bp_feed feed = poem_feed(&source);
    bp_error feed_error = {.code = BP_OK};
    bp_status status = bp_feed_init(&feed, &feed_error);
    if (status == BP_OK) {
        status = bp_plan_make(plan, &spec, host_memory, sizeof host_memory);
    }
    bp_footprint footprint = bp_plan_footprint(plan);
    printf("arena %llu of %zu bytes, host %llu of %zu bytes\n",
           (unsigned long long)footprint.arena_bytes, sizeof arena_memory,
           (unsigned long long)footprint.host_bytes, sizeof host_memory);
    if (status == BP_OK) {
        status = train(runtime, plan, &feed);
    }
    if (status != BP_OK) {
        const bp_error *error = feed_error.code != BP_OK ? &feed_error : bp_plan_error(plan);
        error = error->code != BP_OK ? error : bp_runtime_error(runtime);
        printf("%s: %s\n", error->name, error->text);
    }
    bp_runtime_close(runtime);
    return bp_status_exit_code(status);
}
