/* SPDX-License-Identifier: MIT */
/* A run through its public face alone: room, footprint, weights by name, and a checkpoint from
 * which another runtime goes on as if nothing had happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/run/handle.h"
#include "core/run/state.h"
#include "core/base/version.h"
#include "device/devices.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/store_memory.h"

#define TOKENS  60
#define SCRATCH (1 << 20)
#define PIECE   4096
#define TENSORS 200

static int32_t tokens[TOKENS];

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    memcpy(to, (const int32_t *)source->context + first, n * sizeof *to);
    return BP_OK;
}

/* A run with its memories. */
typedef struct run {
    bp_plan_room planned;
    bp_plan *plan;
    bp_runtime_room room;
    bp_runtime *runtime;
    bp_source source;
    bp_feed feed;
    bp_error error;
    void *host;
    void *arena;
} run;

static void begin(run *r, const bp_spec *spec)
{
    memset(r, 0, sizeof *r);
    memset(&r->room, 0xa5, sizeof r->room); /* a room may hold anything before */
    memset(&r->planned, 0xa5, sizeof r->planned);
    r->plan = bp_plan_begin(&r->planned);
    r->runtime = bp_runtime_make(&r->room);
    assert_int_equal(bp_runtime_error(r->runtime)->code, BP_OK);
    assert_int_equal(bp_runtime_steps(r->runtime), 0);
    uint64_t scratch = bp_plan_scratch(spec);
    assert_int_equal(posix_memalign(&r->host, 64, scratch), 0);
    assert_int_equal(bp_plan_count(r->plan, spec, r->host, scratch), BP_OK);
    free(r->host);
    uint64_t host = bp_plan_footprint(r->plan).host_bytes;
    assert_true(host >= scratch);
    assert_int_equal(posix_memalign(&r->host, 64, host), 0);
    assert_int_equal(bp_plan_make_counted(r->plan, r->host, host), BP_OK);
    uint64_t bytes = bp_plan_footprint(r->plan).arena_bytes;
    assert_int_equal(posix_memalign(&r->arena, BP_ARENA_ALIGNMENT, bytes), 0);
    assert_int_equal(bp_runtime_open(r->runtime, r->plan, r->arena, bytes - 1), BP_ERR_FIT);
    assert_int_equal(bp_runtime_error(r->runtime)->wanted, bytes);
    assert_int_equal(bp_plan_make(r->plan, spec, r->host, host), BP_OK);
    assert_int_equal(bp_plan_error(r->plan)->code, BP_OK);
    assert_int_equal(bp_runtime_open(r->runtime, r->plan, r->arena, bytes), BP_OK);
    assert_int_equal(bp_runtime_error(r->runtime)->code, BP_OK);
    assert_int_equal(bp_runtime_initialize(r->runtime), BP_OK);
    r->source =
        (bp_source){.context = tokens, .name = "tokens", .count = TOKENS, .read = read_tokens};
    r->feed = (bp_feed){.source = &r->source,
                        .sequence = spec->sequence,
                        .batch = spec->batch,
                        .group = spec->batch * spec->accumulation,
                        .vocabulary = spec->config.vocabulary,
                        .shuffle = true};
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}

static void steps(run *r, int count)
{
    for (int i = 0; i < count; i++) {
        bp_outcome outcome;
        assert_int_equal(bp_runtime_step(r->runtime, &r->feed, &outcome), BP_OK);
        assert_int_equal(outcome.step, bp_runtime_steps(r->runtime));
    }
}

static void end(run *r)
{
    bp_runtime_close(r->runtime);
    free(r->host);
    free(r->arena);
}

static bp_spec small_spec(void)
{
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * i % 37;
    }
    return model_fixture_spec();
}

static bp_state_tensor tensors[TENSORS];

static bp_checkpoint checkpoint_of(run *r)
{
    uint32_t count = bp_runtime_state_count(r->runtime);
    assert_in_range(count, 3, TENSORS);
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = bp_runtime_state_tensor(r->runtime, i);
        assert_true(i == 0 || strcmp(tensors[i - 1].name, tensors[i].name) < 0);
    }
    return (bp_checkpoint){.step = bp_runtime_steps(r->runtime),
                           .tensors = tensors,
                           .tensor_count = count,
                           .io = bp_runtime_state_io(r->runtime)};
}

static uint64_t digest_of(run *r)
{
    static unsigned char piece[PIECE];
    const bp_checkpoint_location place = {.staging = {piece, sizeof piece}};
    const bp_checkpoint checkpoint = checkpoint_of(r);
    uint64_t digest = 0;
    assert_int_equal(bp_checkpoint_digest(&place, &checkpoint, &digest), BP_OK);
    return digest;
}

/* verifies run-10.e313 */
static void a_saved_run_goes_on_in_another_runtime(void **state)
{
    (void)state;
    static memory_store memory;
    static unsigned char scratch[SCRATCH], piece[PIECE];
    const bp_spec spec = small_spec();
    bp_error error = {.code = BP_OK};
    memory_store_init(&memory);
    const bp_checkpoint_location place = {.store = &memory.store,
                                          .directory = "out",
                                          .scratch = scratch,
                                          .scratch_bytes = sizeof scratch,
                                          .staging = {piece, sizeof piece},
                                          .error = &error};
    static run first, second;
    begin(&first, &spec);
    steps(&first, 3);
    bp_checkpoint checkpoint = checkpoint_of(&first);
    assert_int_equal(bp_checkpoint_save(&place, &checkpoint, NULL), BP_OK);
    uint64_t saved = digest_of(&first);
    steps(&first, 3);

    begin(&second, &spec);
    bp_checkpoint_found found;
    bool any = false;
    assert_int_equal(bp_checkpoint_find(&place, NULL, NULL, &found, &any), BP_OK);
    assert_true(any);
    checkpoint = checkpoint_of(&second);
    assert_int_not_equal(digest_of(&second), saved);
    assert_int_equal(bp_checkpoint_load(&place, found.path, &checkpoint, NULL), BP_OK);
    assert_int_equal(digest_of(&second), saved);
    bp_runtime_continue(second.runtime, found.step);
    assert_int_equal(bp_runtime_steps(second.runtime), 3);
    steps(&second, 3);
    assert_int_equal(digest_of(&second), digest_of(&first));
    assert_int_not_equal(digest_of(&second), saved);
    end(&first);
    end(&second);
    memory_store_free(&memory);
}

static void weights_have_names_shapes_and_values(void **state)
{
    (void)state;
    const bp_spec spec = small_spec();
    static run r;
    begin(&r, &spec);
    uint64_t elements = 0;
    bool seen = false;
    for (uint32_t i = 0; i < bp_runtime_weights(r.runtime); i++) {
        const bp_weight weight = bp_runtime_weight(r.runtime, i);
        uint64_t product = 1;
        for (uint32_t d = 0; d < weight.rank; d++) {
            product *= weight.shape[d];
        }
        assert_int_equal(product, weight.count);
        assert_true(weight.trainable);
        elements += weight.count;
        if (strcmp(weight.name, "transformer.wpe.weight") == 0) {
            seen = true;
            assert_int_equal(weight.shape[0], spec.config.positions);
            const float put[3] = {1.5f, -2.25f, 0.0f};
            float got[3];
            assert_int_equal(bp_runtime_put_weight(r.runtime, i, 5, put, 3), BP_OK);
            assert_int_equal(bp_runtime_get_weight(r.runtime, i, 5, got, 3), BP_OK);
            assert_memory_equal(put, got, sizeof put);
        }
    }
    assert_true(seen);
    const bp_footprint footprint = bp_plan_footprint(r.plan);
    assert_int_equal(footprint.parameters, elements);
    assert_true(footprint.arena_bytes >= footprint.lower_bound_bytes);
    assert_true(footprint.state_bytes >= 12 * elements);
    assert_true(footprint.host_bytes > bp_plan_scratch(&spec));
    assert_string_equal(bp_version(), BP_VERSION);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_run_goes_on_in_another_runtime),
        cmocka_unit_test(weights_have_names_shapes_and_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
