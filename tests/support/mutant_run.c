/* SPDX-License-Identifier: MIT */
/* Runs of mutants. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#include "tests/support/mutant_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/program/verify.h"

#define PAGE         ((size_t)4096)
#define GROUPS       3
#define LINK_ROOM    ((uint64_t)4 << 20)
#define SCRATCH_ROOM ((uint64_t)2 << 20)

void mutant_room_open(mutant_room *room, const rig *r)
{
    const uint64_t arena = bp_size_align(4 * r->runtime.report.arena_bytes, PAGE);
    unsigned char *pages =
        mmap(NULL, arena + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(pages + PAGE + arena, PAGE, PROT_NONE), 0);
    *room = (mutant_room){.arena_end = pages + PAGE + arena,
                          .arena_bytes = arena,
                          .scratch_bytes = SCRATCH_ROOM,
                          .link_bytes = LINK_ROOM};
    assert_int_equal(posix_memalign(&room->link, 64, LINK_ROOM), 0);
    assert_int_equal(posix_memalign(&room->device, 64, r->runtime.spec.device->context_bytes), 0);
    assert_int_equal(posix_memalign(&room->scratch, 64, SCRATCH_ROOM), 0);
}

void mutant_room_close(mutant_room *room)
{
    munmap(room->arena_end - room->arena_bytes - PAGE, room->arena_bytes + 2 * PAGE);
    free(room->link);
    free(room->device);
    free(room->scratch);
}

bp_status mutant_verify(mutant_room *room, const rig *r, bp_graph *graph, bp_report *report)
{
    const bp_spec *spec = &r->runtime.spec;
    BP_TRY(
        bp_verify(graph, spec->device, &spec->device_options, room->scratch, room->scratch_bytes));
    bp_graph_lifetimes(graph);
    BP_TRY(bp_report_plan(graph, 0, room->scratch, room->scratch_bytes, report));
    return bp_verify_plan(graph, report->arena_bytes, room->scratch, room->scratch_bytes);
}

static void add_bytes(uint64_t *digest, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *digest = (*digest ^ ((const uint8_t *)bytes)[i]) * 1099511628211ULL;
    }
}

static bp_status run_all(bp_runtime *runtime, const bp_feed *feed, uint64_t *digest)
{
    BP_TRY(bp_runtime_initialize(runtime));
    for (uint32_t i = 0; i < GROUPS; i++) {
        bp_outcome outcome;
        BP_TRY(bp_runtime_step(runtime, feed, &outcome));
        add_bytes(digest, &outcome.loss, sizeof outcome.loss);
        add_bytes(digest, &outcome.norm, sizeof outcome.norm);
    }
    if (runtime->spec.evaluate) {
        double loss = 0.0;
        uint64_t targets = 0;
        BP_TRY(bp_runtime_evaluate(runtime, feed, 2, &loss, &targets));
        add_bytes(digest, &loss, sizeof loss);
    }
    for (uint32_t i = 0; runtime->spec.generate_context > 0 && i < 3; i++) {
        const int32_t ids[3] = {5, 1, 30};
        BP_TRY(bp_runtime_accept(runtime, ids + i, i == 0 ? 3 : 1));
        add_bytes(digest, runtime->logits_host, runtime->spec.config.vocabulary * sizeof(float));
    }
    return BP_OK;
}

static void add_state(bp_runtime *runtime, uint64_t *digest)
{
    for (uint32_t i = 0; i < bp_runtime_state_count(runtime); i++) {
        const bp_buffer *b = bp_runtime_state(runtime, i);
        unsigned char piece[256];
        for (uint64_t at = 0; at < b->bytes; at += sizeof piece) {
            const uint64_t left = b->bytes - at;
            const size_t bytes = left < sizeof piece ? (size_t)left : sizeof piece;
            assert_int_equal(bp_runtime_read(runtime, b, at, piece, bytes), BP_OK);
            add_bytes(digest, piece, bytes);
        }
    }
}

bp_status mutant_execute(mutant_room *room, const rig *r, const bp_graph *graph,
                         const bp_report *report, uint64_t *digest)
{
    bp_runtime runtime = r->runtime;
    bp_arena memory;
    const uint64_t bytes = bp_size_align(report->arena_bytes, BP_ARENA_ALIGNMENT);
    assert_true(bytes <= room->arena_bytes);
    unsigned char *arena = room->arena_end - bytes;
    for (uint64_t i = 0; i < bytes; i++) {
        arena[i] = (unsigned char)(0x7fa00000u >> (8 * (i % 4)));
    }
    runtime.graph = *graph;
    runtime.graph.error = &runtime.error;
    runtime.error = (bp_error){.code = BP_OK};
    runtime.report = *report;
    runtime.emit.graph = &runtime.graph;
    runtime.emit.spec = &runtime.spec;
    runtime.device = room->device;
    runtime.open = false;
    bp_arena_init(&memory, room->link, (size_t)room->link_bytes);
    memset(runtime.device, 0, runtime.spec.device->context_bytes);
    assert_int_equal(
        bp_link_graph(&runtime.link, &runtime.graph, runtime.spec.device, true, &memory), BP_OK);
    bp_arena_init(&runtime.host, NULL, 0);
    BP_TRY(bp_runtime_open(&runtime, arena, report->arena_bytes));
    *digest = 1469598103934665603ULL;
    bp_status status = run_all(&runtime, &r->feed, digest);
    add_state(&runtime, digest);
    bp_runtime_close(&runtime);
    return status;
}
