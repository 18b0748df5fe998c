/* SPDX-License-Identifier: MIT */
/* Counting, comparing and taking an arena that several runs share. */
#include "tools/bedplate/adapters/adapters_arena.h"

#include <string.h>

#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/runs/training.h"
#include "tools/bedplate/session/dry_run.h"

#define CHOOSE_ROUNDS 4 /* until what the runs keep no longer changes with their choices */

static const char where[] = "adapters";

/* Searches would choose another micro-batch than the run alone has, and so other bits. */
bp_status adapters_arena_join(adapters_arena *a, uint32_t index, session *s)
{
    a->sessions[index] = s;
    s->shared = &a->shared;
    s->spec.shares_base = true;
    s->batch_resolved = true;
    s->chunk_resolved = true;
    if (!device_takes_memory(&s->spec)) {
        bp_status status =
            bp_error_set(&s->error, BP_ERR_USAGE, where,
                         "several adapters share an arena in the memory of the host", "--device");
        bp_error_found(&s->error, s->set->device, strlen(s->set->device));
        return status;
    }
    return BP_OK;
}

/* What a run keeps beside the base. */
static uint64_t arena_own(const bp_spec *spec, const bp_report *report)
{
    return report->resident_bytes - report->base_bytes - spec->beside_below - spec->beside_above;
}

static bp_status arena_count_own(adapters_arena *a, uint32_t index, bool *changed)
{
    session *s = a->sessions[index];
    bp_report report;
    BP_TRY(dry_run_report(&s->spec, 1, &report, &s->error));
    const uint64_t own = arena_own(&s->spec, &report);
    *changed = *changed || own != a->bytes.own[index];
    a->bytes.own[index] = own;
    return BP_OK;
}

/* Bytes of the others below and above each run's own. */
static void arena_place(adapters_arena *a)
{
    adapters_bytes *bytes = &a->bytes;
    uint64_t below = 0;
    bytes->owns = 0;
    for (uint32_t i = 0; i < a->file->count; i++) {
        bytes->owns = bp_size_add(bytes->owns, bytes->own[i]);
    }
    for (uint32_t i = 0; i < a->file->count; i++) {
        bp_spec *spec = &a->sessions[i]->spec;
        spec->beside_below = below;
        below = bp_size_add(below, bytes->own[i]);
        spec->beside_above = bytes->owns - below;
    }
}

bp_status adapters_arena_choose(adapters_arena *a, uint32_t *failed)
{
    bool changed = true;
    for (uint32_t round = 0; changed && round < CHOOSE_ROUNDS; round++) {
        changed = false;
        for (*failed = 0; *failed < a->file->count; ++*failed) {
            BP_TRY(arena_count_own(a, *failed, &changed));
        }
        arena_place(a);
        for (*failed = 0; *failed < a->file->count && changed; ++*failed) {
            session *s = a->sessions[*failed];
            bp_choice_end(&s->choice, &dry_run_lender);
            BP_TRY(session_choose(s));
        }
    }
    return BP_OK;
}

static bool arena_is_base(const bp_buffer *buffer)
{
    return buffer->scope == BP_SCOPE_CONSTANT && buffer->class_of == BP_CLASS_WEIGHTS;
}

/* The next tensor of the base from number `at` on; the number of buffers behind the last. */
static uint32_t arena_next(const bp_graph *graph, uint32_t at)
{
    while (at < graph->used.buffers && !arena_is_base(&graph->buffers[at])) {
        at++;
    }
    return at;
}

/* Tensors of both lie at the same places, which follow from their order and bytes. */
static bp_status arena_compare(const session *first, session *s)
{
    const bp_graph *a = &first->plan.graph, *b = &s->plan.graph;
    uint32_t i = arena_next(a, 1), k = arena_next(b, 1);
    while (i < a->used.buffers && k < b->used.buffers) {
        const bp_buffer *x = &a->buffers[i], *y = &b->buffers[k];
        if (strcmp(bp_graph_name(a, i), bp_graph_name(b, k)) != 0 || x->bytes != y->bytes ||
            x->dtype != y->dtype || x->space != y->space || x->offset != y->offset) {
            break;
        }
        i = arena_next(a, i + 1);
        k = arena_next(b, k + 1);
    }
    if (i == a->used.buffers && k == b->used.buffers) {
        return BP_OK;
    }
    return bp_error_set(&s->error, BP_ERR_USAGE, where,
                        "the frozen base differs from that of the first adapter in this tensor",
                        k < b->used.buffers ? bp_graph_name(b, k) : bp_graph_name(a, i));
}

/* Values that no file gives are drawn from the seed. */
static bp_status arena_compare_seeds(const session *first, session *s)
{
    return s->spec.seed == first->spec.seed
               ? BP_OK
               : bp_error_limit(&s->error, BP_ERR_USAGE, where,
                                "the base is drawn from the seed, which is one for all adapters",
                                "--seed", bp_size_signed(s->spec.seed), BP_LIMIT_EXACT,
                                bp_size_signed(first->spec.seed));
}

/* What the run would be alone, as its record has it. */
static bp_status arena_plan_alone(adapters_arena *a, uint32_t index)
{
    session *s = a->sessions[index];
    bp_spec spec = s->plan.spec;
    spec.shares_base = false;
    spec.beside_below = spec.beside_above = 0;
    return dry_run_digest(&spec, &a->bytes.alone[index], &s->alone_plan, &s->error);
}

/* Of a run's record: pages of completions and of text to be written are not touched. */
#define RUN_BYTES (sizeof(training) - sizeof(policy_run) - sizeof(record) + sizeof(adapter_entry))

/* A further run has its tables, its data and threads, but no code. */
static uint64_t arena_host_bytes(const adapters_arena *a)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < a->file->count; i++) {
        bytes = bp_size_add(bytes, session_host_bytes(a->sessions[i]));
        bytes = bp_size_add(bytes, RUN_BYTES);
    }
    return bytes - (a->file->count - 1) * process_bytes(1);
}

uint64_t adapters_arena_workspace(const adapters_arena *a, uint32_t index)
{
    const bp_report *report = &a->sessions[index]->plan.report;
    return report->arena_bytes - report->resident_bytes;
}

bp_status adapters_arena_count(adapters_arena *a, uint32_t *failed)
{
    adapters_bytes *bytes = &a->bytes;
    bytes->base = a->sessions[0]->plan.report.base_bytes;
    bytes->workspace = 0;
    for (*failed = 0; *failed < a->file->count; ++*failed) {
        session *s = a->sessions[*failed];
        BP_TRY(arena_compare(a->sessions[0], s));
        BP_TRY(s->weights ? BP_OK : arena_compare_seeds(a->sessions[0], s));
        if (arena_own(&s->plan.spec, &s->plan.report) != bytes->own[*failed]) {
            return bp_error_set(&s->error, BP_ERR_INTERNAL, where,
                                "what the run keeps was counted otherwise", NULL);
        }
        BP_TRY(arena_plan_alone(a, *failed));
        const uint64_t workspace = adapters_arena_workspace(a, *failed);
        bytes->workspace = workspace > bytes->workspace ? workspace : bytes->workspace;
    }
    bytes->arena = bp_size_add(bp_size_add(bytes->base, bytes->owns), bytes->workspace);
    bytes->host = arena_host_bytes(a);
    return BP_OK;
}

int adapters_arena_short(const adapters_arena *a, const settings *base)
{
    bp_error error = {.code = BP_OK};
    const bp_status status = bp_error_limit(
        &error, BP_ERR_FIT, where, "the plan of all adapters does not fit", "--arena",
        bp_size_signed(base->arena), BP_LIMIT_LEAST, bp_size_signed(a->bytes.arena));
    (void)status; /* which is the error's */
    return report_error(&error);
}

bp_status adapters_arena_take(adapters_arena *a, const settings *base)
{
    bp_error error = {.code = BP_OK};
    if (base->arena != 0 && a->bytes.arena > base->arena) {
        (void)adapters_arena_short(a, base);
        return BP_ERR_FIT;
    }
    process_resolve();
    const bp_status status = memory_take(&a->shared.memory, a->bytes.arena, true, "arena", &error);
    if (status != BP_OK) {
        (void)report_error(&error);
    }
    return status;
}

bp_status adapters_arena_check_drawn(const adapters_arena *a, uint32_t *failed)
{
    for (*failed = 0; a->shared.drawn && *failed < a->file->count; ++*failed) {
        BP_TRY(arena_compare_seeds(a->sessions[0], a->sessions[*failed]));
    }
    return BP_OK;
}
