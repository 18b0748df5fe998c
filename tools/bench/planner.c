/* SPDX-License-Identifier: MIT */
/* How long the arena planner takes for this project's own programs: plans of presets under every
 * named policy, their buffers given to the planner again, processor time counted (other work on the
 * machine does not add to it). Prints a Markdown table. The goal is 10 ms per 600 buffers.
 *
 *     build/release/tools/bench/planner [PRESET..] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/host/host.h"
#include "layers/families/bert.h"
#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "optim/rules.h"
#include "tools/bench/bench_plan.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/preset.h"

#define NODES  200000u /* of exact search, as `bedplate plan` asks for */
#define TRIALS 3       /* the fastest counts */
#define GOAL   10.0    /* ms per 600 buffers */
#define SHAPES 4
#define PLANS  64

static const bp_policy policies[] = {
    {.kind = BP_POLICY_NONE},
    {.kind = BP_POLICY_FULL},
    {.kind = BP_POLICY_SQRT},
    {.kind = BP_POLICY_EVERY, .every = 3},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_NORM},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL},
    {.kind = BP_POLICY_MEMORY_POOR},
};
#define POLICIES (sizeof policies / sizeof policies[0])

typedef struct sums {
    uint32_t plans;
    uint32_t within; /* the goal */
    uint32_t wasting;
    uint32_t fewest;
    uint32_t most;
    double rates[PLANS]; /* ms per 600 buffers */
    double waste;        /* largest, in percent of the arena */
} sums;

static bp_spec spec_of(const bp_preset *preset, bp_policy policy, int shape)
{
    uint32_t positions = preset->config.positions;
    return (bp_spec){.model = preset->config.family->model,
                     .config = bp_preset_config(preset),
                     .optimizer = &bp_optimizer_adamw,
                     .optimizer_options = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
                     .device = &bp_device_host,
                     .device_options = {.threads = 2},
                     .batch = (shape & 1) != 0 ? 4 : 1,
                     .accumulation = (shape & 2) != 0 ? 3 : 1,
                     .sequence = positions < 1024 ? positions : 1024,
                     .policy = policy,
                     .evaluate = true};
}

/* The buffers that do not live always: those that the planner has to place. */
static bp_interval *intervals_of(const bp_graph *graph, uint32_t *count)
{
    bp_interval *intervals = malloc((graph->used.buffers + (size_t)1) * sizeof *intervals);
    *count = 0;
    for (uint32_t i = 0; i < graph->used.buffers && intervals != NULL; i++) {
        const bp_buffer *b = &graph->buffers[i];
        if (b->lower != 0 || b->upper != bp_graph_ticks(graph)) {
            intervals[(*count)++] = (bp_interval){b->bytes, b->lower, b->upper, 0};
        }
    }
    return intervals;
}

/* Milliseconds of processor time for one solution; negative when it fails. */
static double time_plan(bp_interval *intervals, uint32_t count, bp_layout_report *report)
{
    const bp_layout_options options = {.alignment = BP_ARENA_ALIGNMENT, .node_limit = NODES};
    size_t bytes = bp_layout_scratch(count);
    void *scratch = malloc(bytes);
    double best = scratch != NULL ? 1e30 : -1.0;
    for (int i = 0; i < TRIALS && best >= 0.0; i++) {
        clock_t began = clock();
        bp_status status = bp_layout_solve(intervals, count, &options, scratch, bytes, report);
        double ms = 1e3 * (double)(clock() - began) / CLOCKS_PER_SEC;
        best = status != BP_OK ? -1.0 : ms < best ? ms : best;
    }
    free(scratch);
    return best;
}

static void add(sums *all, double rate, uint32_t count, const bp_layout_report *report,
                uint64_t arena)
{
    double waste = 100.0 * (double)report->waste / (double)arena;
    all->rates[all->plans++] = rate;
    all->within += rate <= GOAL ? 1 : 0;
    all->wasting += report->waste > 0 ? 1 : 0;
    all->fewest = count < all->fewest ? count : all->fewest;
    all->most = count > all->most ? count : all->most;
    all->waste = waste > all->waste ? waste : all->waste;
}

static bool plan_one(const bp_spec *spec, sums *all)
{
    static bp_plan plan;
    void *memory = NULL;
    bool planned = bench_plan(&plan, spec, &memory);
    uint32_t count = 0;
    bp_interval *intervals = planned ? intervals_of(&plan.graph, &count) : NULL;
    bp_layout_report report;
    double ms = intervals != NULL ? time_plan(intervals, count, &report) : -1.0;
    if (ms >= 0.0) {
        add(all, ms * 600.0 / count, count, &report, plan.report.lower_bound_bytes);
    }
    free(intervals);
    free(memory);
    return ms >= 0.0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool plan_preset(const char *name)
{
    const bp_preset *preset = bp_preset_find(name);
    sums all = {.fewest = UINT32_MAX};
    if (preset == NULL) {
        fprintf(stderr, "planner: %s: no such preset\n", name);
        return false;
    }
    for (size_t p = 0; p < POLICIES; p++) {
        for (int shape = 0; shape < SHAPES; shape++) {
            const bp_spec spec = spec_of(preset, policies[p], shape);
            if (!plan_one(&spec, &all)) {
                fprintf(stderr, "planner: %s: a plan failed\n", name);
                return false;
            }
        }
    }
    qsort(all.rates, all.plans, sizeof all.rates[0], by_value);
    printf("| %s | %u | %u to %u | %.2f | %.2f | %u | %u | %.4f |\n", name, all.plans, all.fewest,
           all.most, all.rates[all.plans / 2], all.rates[all.plans - 1], all.within, all.wasting,
           all.waste);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"gpt2",      "gpt2-medium",    "gpt2-large", "gpt2-xl",
                                        "bert-base", "tinyllama-1.1b", "llama-7b"};
    int count = argc > 1 ? argc - 1 : (int)(sizeof usual / sizeof usual[0]);
    bool good = true;
    printf("| preset | plans | buffers | ms per 600, median | worst | within 10 ms | with waste | "
           "largest waste, %% |\n|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        good = plan_preset(argc > 1 ? argv[i + 1] : usual[i]) && good;
    }
    return good ? 0 : 1;
}
