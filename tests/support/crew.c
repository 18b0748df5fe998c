/* SPDX-License-Identifier: MIT */
/* Trainings on threads. */
#include "tests/support/crew.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/number/digest.h"
#include "core/run/state.h"
#include "device/fabric/checked.h"
#include "tests/support/plan_bytes.h"

enum { LONG_WAIT = 600000 /* ms: no test ends by it */, TOKENS = 1000, ROWS = 40, EDGE = 64 };

static bp_threads_world world;
static crew_member members[CREW_MOST];

/* Where the vocabulary is none, floats between 0 and 1. */
static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const bp_spec *spec = source->context;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t drawn = (first + i) * 7919;
        const float number = (float)(drawn % 101) / 101.0f;
        to[i] = (int32_t)(spec->config.vocabulary > 0 ? drawn % spec->config.vocabulary : 0);
        if (spec->config.vocabulary == 0) {
            memcpy(to + i, &number, sizeof number);
        }
    }
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const bp_spec *spec = source->context;
    const bool whole = spec->config.vocabulary == 0;
    *to = (bp_example){.first = index * spec->sequence,
                       .count = whole ? spec->sequence : 1 + index * 7 % spec->sequence,
                       .label = index % 3};
    return BP_OK;
}

static void crew_plan(crew_member *m)
{
    const uint64_t bytes = plan_bytes(&m->spec);
    assert_int_equal(posix_memalign(&m->host, 64, bytes), 0);
    if (bp_runtime_plan(&m->runtime, &m->spec, m->host, bytes) != BP_OK) {
        fail_msg("%s %s", m->runtime.error.text, m->runtime.error.name);
    }
    const size_t arena = (size_t)m->runtime.report.arena_bytes;
    void *map = NULL;
    assert_int_equal(posix_memalign(&map, BP_ARENA_ALIGNMENT, arena + BP_ARENA_ALIGNMENT + EDGE),
                     0);
    memset(map, 0xff, arena + BP_ARENA_ALIGNMENT + EDGE);
    m->arena = (unsigned char *)map + BP_ARENA_ALIGNMENT;
}

static void crew_give_back(crew_member *m)
{
    const unsigned char *before = m->arena - EDGE;
    const unsigned char *behind = m->arena + m->runtime.report.arena_bytes;
    for (int i = 0; i < EDGE; i++) {
        assert_int_equal(before[i], 0xff);
        assert_int_equal(behind[i], 0xff);
    }
    free(m->arena - BP_ARENA_ALIGNMENT);
    free(m->host);
}

/* Every tensor of the state, read piece by piece. */
static bp_status add_up_state(crew_member *m)
{
    static const size_t piece = 10000;
    uint8_t *bytes = malloc(piece);
    bp_status status = BP_OK;
    bp_digest sum;
    bp_digest_begin(&sum, 0);
    const bp_state_io io = bp_runtime_state_io(&m->runtime);
    for (uint32_t i = 0; i < bp_runtime_state_count(&m->runtime); i++) {
        const bp_state_tensor tensor = bp_runtime_state_tensor(&m->runtime, i);
        for (uint64_t at = 0; at < tensor.bytes && status == BP_OK; at += piece) {
            const uint64_t left = tensor.bytes - at;
            const size_t n = left < piece ? (size_t)left : piece;
            status = io.read(io.user, tensor.handle, at, bytes, n);
            bp_digest_add(&sum, bytes, n);
        }
    }
    uint64_t base = 0;
    bool there = false;
    status = status == BP_OK ? bp_runtime_base_digest(&m->runtime, &there, &base) : status;
    bp_digest_add(&sum, &base, sizeof base);
    m->digest = bp_digest_end(&sum);
    free(bytes);
    return status;
}

static bp_status crew_train(crew_member *m, const bp_places *places)
{
    const bp_task task = m->spec.config.task;
    const bool rows = task != BP_TASK_CAUSAL_LM;
    bp_source source = {
        .context = &m->spec, .name = "tokens", .count = TOKENS, .read = read_tokens};
    bp_error error = {0};
    bp_feed feed = {.source = &source,
                    .error = &error,
                    .seed = 3,
                    .sequence = m->spec.sequence,
                    .batch = m->spec.batch,
                    .group = m->spec.batch * m->spec.accumulation,
                    .vocabulary = m->spec.config.vocabulary,
                    .classes = m->spec.config.classes,
                    .masking = {0.4, 36, {-1, -1, -1, -1}},
                    .shuffle = true};
    source.examples = rows ? ROWS : 0;
    source.example = rows ? example : NULL;
    feed.kind = task == BP_TASK_CLASSES     ? BP_LABELS_CLASS
                : task == BP_TASK_MASKED_LM ? BP_LABELS_MASKED
                                            : BP_LABELS_NEXT_TOKEN;
    BP_TRY(bp_feed_init(&feed, &error));
    BP_TRY(bp_runtime_open_places(&m->runtime, places));
    BP_TRY(bp_runtime_initialize(&m->runtime));
    for (int i = 0; i < CREW_STEPS; i++) {
        bp_outcome outcome;
        BP_TRY(bp_runtime_step(&m->runtime, &feed, &outcome));
    }
    return add_up_state(m);
}

static void *crew_main(void *argument)
{
    crew_member *m = argument;
    const uint32_t ranks = m->spec.ranks;
    const bp_fabric_options options = {
        .world = &world, .rank = m->spec.rank, .size = ranks, .patience_ms = LONG_WAIT};
    bp_places places = bp_places_device(m->arena, m->runtime.report.arena_bytes);
    void *rank = malloc(bp_fabric_threads.context_bytes);
    void *checked = malloc(bp_fabric_checked.context_bytes);
    m->status = BP_OK;
    if (ranks > 1) {
        m->status = bp_fabric_threads.open(rank, &options, NULL);
        places.fabric = m->checked ? &bp_fabric_checked : &bp_fabric_threads;
        places.rank = m->checked ? checked : rank;
        if (m->status == BP_OK && m->checked) {
            m->status = bp_checked_wrap(checked, &bp_fabric_threads, rank, NULL);
        }
    }
    if (m->status == BP_OK) {
        m->status = crew_train(m, &places);
        bp_runtime_close(&m->runtime);
        if (ranks > 1) {
            bp_fabric_threads.close(rank);
        }
    }
    free(checked);
    free(rank);
    return NULL;
}

void crew_play(const bp_spec *spec, uint32_t ranks, const crew_messages *messages)
{
    assert_int_equal(bp_threads_world_open(&world, ranks, messages->seed), BP_OK);
    world.fault = messages->fault;
    world.fault_rank = messages->fault_rank;
    world.fault_at = messages->fault_at;
    for (uint32_t i = 0; i < ranks; i++) {
        members[i] = (crew_member){.spec = *spec, .checked = messages->checked};
        members[i].spec.ranks = ranks;
        members[i].spec.rank = i;
        crew_plan(&members[i]);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        assert_int_equal(pthread_create(&members[i].thread, NULL, crew_main, &members[i]), 0);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        pthread_join(members[i].thread, NULL);
    }
    bp_threads_world_close(&world);
    for (uint32_t i = 0; i < ranks; i++) {
        crew_give_back(&members[i]);
    }
}

const crew_member *crew_at(uint32_t rank)
{
    return &members[rank];
}

uint64_t crew_digest(uint32_t ranks)
{
    for (uint32_t i = 0; i < ranks; i++) {
        if (members[i].status != BP_OK) {
            fail_msg("rank %u of %u: %s %s", i, ranks, members[i].runtime.error.text,
                     members[i].runtime.error.name);
        }
        assert_int_equal(members[i].digest, members[0].digest);
    }
    return members[0].digest;
}

uint64_t crew_result(const bp_spec *spec, uint32_t ranks, uint64_t seed)
{
    const crew_messages messages = {.seed = seed};
    crew_play(spec, ranks, &messages);
    return crew_digest(ranks);
}
