/* SPDX-License-Identifier: MIT */
/* Planning alternatives until one fits. */
#include "tools/bedplate/advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/memory.h"

#define SHORT_CHUNK 64

/* Bytes of arena for a spec; UINT64_MAX when it cannot be planned. */
static uint64_t plan_bytes(const bp_spec *spec)
{
    uint64_t scratch = bp_runtime_scratch(spec);
    bp_runtime *runtime = malloc(sizeof *runtime);
    memory_block memory = {NULL, 0};
    bool taken = runtime != NULL && scratch < PTRDIFF_MAX &&
                 memory_take(&memory, scratch, false, "plan", NULL) == BP_OK;
    uint64_t bytes = UINT64_MAX;
    if (taken && bp_runtime_plan(runtime, spec, memory.address, scratch) == BP_OK) {
        bytes = runtime->report.arena_bytes;
    }
    memory_give_back(&memory);
    free(runtime);
    return bytes;
}

/* Tries one change; true when it fits. */
static bool try_change(const bp_spec *base, const advice *change, uint64_t limit, advice *best)
{
    bp_spec spec = *base;
    spec.batch = change->batch;
    spec.accumulation = change->accumulation;
    spec.policy = change->policy;
    if (change->loss_rows != 0) {
        spec.loss_rows = change->loss_rows;
    }
    uint64_t rows = (uint64_t)spec.batch * spec.sequence;
    spec.loss_rows = spec.loss_rows > rows ? (uint32_t)rows : spec.loss_rows;
    uint64_t bytes = plan_bytes(&spec);
    if (bytes < best->arena_bytes) {
        *best = *change;
        best->arena_bytes = bytes;
    }
    best->found = bytes <= limit;
    return best->found;
}

/* Every divisor of the batch by halving, with and without short loss chunks. */
static bool try_batches(const bp_spec *base, bp_policy policy, uint64_t limit, advice *best)
{
    for (uint32_t factor = 1; base->batch % factor == 0 && factor <= base->batch; factor *= 2) {
        advice change = {.batch = base->batch / factor,
                         .accumulation = base->accumulation * factor,
                         .policy = policy};
        if (try_change(base, &change, limit, best)) {
            return true;
        }
        change.loss_rows = SHORT_CHUNK;
        if (base->loss_rows > SHORT_CHUNK && try_change(base, &change, limit, best)) {
            return true;
        }
    }
    return false;
}

void advice_find(const bp_runtime *runtime, uint64_t limit, advice *found)
{
    const bp_spec *base = &runtime->spec;
    const bp_policy policies[] = {
        base->policy, {.kind = BP_POLICY_FULL}, {.kind = BP_POLICY_MEMORY_POOR}};
    *found = (advice){.arena_bytes = UINT64_MAX};
    if (base->optimizer == NULL) {
        return; /* nothing to recompute and nothing to accumulate */
    }
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        bool same = i > 0 && policies[i].kind == base->policy.kind;
        if (!same && try_batches(base, policies[i], limit, found)) {
            return;
        }
    }
}

static void append(char *text, size_t room, const char *option, const char *word, uint64_t number)
{
    size_t used = strlen(text);
    const char *space = used > 0 ? " " : "";
    if (word != NULL) {
        snprintf(text + used, room - used, "%s--%s %s", space, option, word);
    } else {
        snprintf(text + used, room - used, "%s--%s %" PRIu64, space, option, number);
    }
}

void advice_text(const bp_runtime *runtime, const advice *found, char *text, size_t room)
{
    const bp_spec *base = &runtime->spec;
    text[0] = '\0';
    if (found->policy.kind != base->policy.kind) {
        append(text, room, "gradient-checkpointing", bp_policy_name(found->policy.kind), 0);
    }
    if (found->batch != base->batch) {
        append(text, room, "per-device-train-batch-size", NULL, found->batch);
        append(text, room, "gradient-accumulation-steps", NULL, found->accumulation);
    }
    if (found->loss_rows != 0) {
        append(text, room, "loss-chunk-rows", NULL, found->loss_rows);
    }
}

void advice_print(const bp_runtime *runtime, uint64_t limit)
{
    const bp_report *report = &runtime->report;
    uint32_t largest = 0;
    for (uint32_t c = 1; c < BP_CLASS_COUNT; c++) {
        largest = report->class_most[c] > report->class_most[largest] ? c : largest;
    }
    fprintf(stderr,
            "bedplate: --arena: the plan does not fit: %" PRIu64
            " bytes are missing (found %" PRIu64 ", right would be %" PRIu64 ")\n"
            "bedplate: the largest class is %s with %" PRIu64 " bytes\n",
            report->arena_bytes - limit, limit, report->arena_bytes, bp_class_name(largest),
            report->class_most[largest]);
    advice found;
    char text[256];
    advice_find(runtime, limit, &found);
    advice_text(runtime, &found, text, sizeof text);
    if (found.found) {
        fprintf(stderr, "bedplate: it would fit with %s: %" PRIu64 " bytes\n", text,
                found.arena_bytes);
    } else if (text[0] != '\0' && found.arena_bytes < report->arena_bytes) {
        fprintf(stderr,
                "bedplate: no option makes it fit; the least is %" PRIu64 " bytes with %s\n",
                found.arena_bytes, text);
    } else {
        fputs("bedplate: no option makes it fit; a smaller model or --max-seq-length might\n",
              stderr);
    }
}
