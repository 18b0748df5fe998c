/* SPDX-License-Identifier: MIT */
/* The least time that the planner finds for chains of stages in a budget, for
 * tools/bench/checkpoints.py, which asks CP-SAT the same.
 *
 * Input, numbers alone, a chain after the other: bytes stages; of each stage: input d_output
 * gradients variants; of each variant: forward backward tape forward_peak backward_peak. Output: a
 * line for each chain: the seconds, or "none". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/plan/search/chain.h"

enum { STAGES = 64, ACTIONS = 8 * STAGES * STAGES };

static bp_chain_stage stage[STAGES];
static bp_action action[ACTIONS];

static uint64_t whole(void)
{
    uint64_t number;
    if (scanf("%" SCNu64, &number) != 1) {
        fprintf(stderr, "checkpoints: the input ends too early\n");
        exit(4);
    }
    return number;
}

static void read_variant(bp_chain_variant *v, uint32_t number)
{
    v->number = number;
    v->forward = (double)whole();
    v->backward = (double)whole();
    v->tape = whole();
    v->forward_peak = whole();
    v->backward_peak = whole();
}

static void read_stage(bp_chain_stage *s)
{
    s->input = whole();
    s->d_output = whole();
    s->gradients = whole();
    s->variants = (uint32_t)whole();
    if (s->variants < 1 || s->variants > BP_CHAIN_VARIANTS) {
        fprintf(stderr, "checkpoints: variants: found %u, expected 1 to %d\n", s->variants,
                BP_CHAIN_VARIANTS);
        exit(4);
    }
    for (uint32_t v = 0; v < s->variants; v++) {
        read_variant(&s->variant[v], v);
    }
}

int main(void)
{
    const uint64_t bytes_of_scratch = bp_chain_scratch(STAGES) > bp_chain_scratch(2)
                                          ? bp_chain_scratch(STAGES)
                                          : bp_chain_scratch(2);
    void *scratch = malloc((size_t)bytes_of_scratch * 2);
    uint64_t bytes;
    if (scratch == NULL) {
        return 3;
    }
    while (scanf("%" SCNu64, &bytes) == 1) {
        const uint64_t count = whole();
        uint32_t actions = 0;
        double seconds = 0;
        if (count < 1 || count > STAGES) {
            fprintf(stderr, "checkpoints: stages: found %" PRIu64 ", expected 1 to %d\n", count,
                    (int)STAGES);
            return 4;
        }
        for (uint64_t i = 0; i < count; i++) {
            read_stage(&stage[i]);
        }
        const bp_status status =
            bp_chain_solve(stage, (uint32_t)count, bytes, scratch, bytes_of_scratch * 2, action,
                           ACTIONS, &actions, &seconds);
        if (status == BP_OK) {
            printf("%.9g\n", seconds);
        } else {
            printf("none\n");
        }
    }
    free(scratch);
    return 0;
}
