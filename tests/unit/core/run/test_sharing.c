/* SPDX-License-Identifier: MIT */
/* Ranks that share out the state: after some steps it is that of one rank, byte for byte. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/number/digest.h"
#include "core/run/state.h"
#include "device/fabric/threads.h"
#include "device/host/host.h"
#include "layers/gpt2.h"
#include "optim/adamw.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "tests/support/plan_bytes.h"
#include "tests/support/rig.h"

#define RANKS_MOST 8
#define LONG_WAIT  600000 /* ms: no test ends by it */
#define STEPS      3
#define TOKENS     1000
#define SMALL      65536 /* bytes of buckets of which a stage has many */

static int32_t tokens[TOKENS];

/* One rank from plan to close. */
typedef struct player {
    bp_spec spec;
    bp_runtime runtime;
    void *host;
    void *arena;
    bp_status status;
    uint64_t digest; /* of the whole state */
    pthread_t thread;
} player;

static bp_threads_world world;
static player players[RANKS_MOST];

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, tokens + first, n * sizeof *to);
    return BP_OK;
}

static void make_plan(player *p)
{
    const uint64_t bytes = plan_bytes(&p->spec);
    assert_int_equal(posix_memalign(&p->host, 64, bytes), 0);
    if (bp_runtime_plan(&p->runtime, &p->spec, p->host, bytes) != BP_OK) {
        fail_msg("%s %s", p->runtime.error.text, p->runtime.error.name);
    }
    const size_t arena = (size_t)p->runtime.report.arena_bytes;
    assert_int_equal(posix_memalign(&p->arena, BP_ARENA_ALIGNMENT, arena), 0);
    memset(p->arena, 0xff, arena);
}

/* Every tensor of the state, read piece by piece. */
static bp_status add_up_state(player *p)
{
    static const size_t piece = 10000;
    uint8_t *bytes = malloc(piece);
    bp_status status = BP_OK;
    bp_digest sum;
    bp_digest_begin(&sum, 0);
    const bp_state_io io = bp_runtime_state_io(&p->runtime);
    for (uint32_t i = 0; i < bp_runtime_state_count(&p->runtime); i++) {
        const bp_state_tensor tensor = bp_runtime_state_tensor(&p->runtime, i);
        for (uint64_t at = 0; at < tensor.bytes && status == BP_OK; at += piece) {
            const uint64_t left = tensor.bytes - at;
            const size_t n = left < piece ? (size_t)left : piece;
            status = io.read(io.user, tensor.handle, at, bytes, n);
            bp_digest_add(&sum, bytes, n);
        }
    }
    uint64_t base = 0;
    bool there = false;
    status = status == BP_OK ? bp_runtime_base_digest(&p->runtime, &there, &base) : status;
    bp_digest_add(&sum, &base, sizeof base);
    p->digest = bp_digest_end(&sum);
    free(bytes);
    return status;
}

static bp_status train(player *p, const bp_places *places)
{
    bp_source source = {.name = "tokens", .count = TOKENS, .read = read_tokens};
    bp_error error = {0};
    bp_feed feed = {.source = &source,
                    .seed = 3,
                    .sequence = p->spec.sequence,
                    .batch = p->spec.batch,
                    .group = p->spec.batch * p->spec.accumulation,
                    .vocabulary = p->spec.config.vocabulary,
                    .shuffle = true};
    BP_TRY(bp_feed_init(&feed, &error));
    BP_TRY(bp_runtime_open_places(&p->runtime, places));
    BP_TRY(bp_runtime_initialize(&p->runtime));
    for (int i = 0; i < STEPS; i++) {
        bp_outcome outcome;
        BP_TRY(bp_runtime_step(&p->runtime, &feed, &outcome));
    }
    return add_up_state(p);
}

static void *player_main(void *argument)
{
    player *p = argument;
    const uint32_t ranks = p->spec.ranks;
    const bp_fabric_options options = {
        .world = &world, .rank = p->spec.rank, .size = ranks, .patience_ms = LONG_WAIT};
    bp_places places = bp_places_device(p->arena, p->runtime.report.arena_bytes);
    void *rank = malloc(bp_fabric_threads.context_bytes);
    p->status = BP_OK;
    if (ranks > 1) {
        p->status = bp_fabric_threads.open(rank, &options, NULL);
        places.fabric = &bp_fabric_threads;
        places.rank = rank;
    }
    if (p->status == BP_OK) {
        p->status = train(p, &places);
        bp_runtime_close(&p->runtime);
        if (ranks > 1) {
            bp_fabric_threads.close(rank);
        }
    }
    free(rank);
    return NULL;
}

/* Trains on so many ranks and gives the digest, which they have to agree on. */
static uint64_t play(const bp_spec *spec, uint32_t ranks)
{
    assert_int_equal(bp_threads_world_open(&world, ranks, 5), BP_OK);
    for (uint32_t i = 0; i < ranks; i++) {
        players[i] = (player){.spec = *spec};
        players[i].spec.ranks = ranks;
        players[i].spec.rank = i;
        make_plan(&players[i]);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        assert_int_equal(pthread_create(&players[i].thread, NULL, player_main, &players[i]), 0);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        pthread_join(players[i].thread, NULL);
    }
    bp_threads_world_close(&world);
    for (uint32_t i = 0; i < ranks; i++) {
        if (players[i].status != BP_OK) {
            fail_msg("rank %u of %u: %s %s", i, ranks, players[i].runtime.error.text,
                     players[i].runtime.error.name);
        }
        assert_int_equal(players[i].digest, players[0].digest);
        free(players[i].host);
        free(players[i].arena);
    }
    return players[0].digest;
}

/* A model with tensors of several units, of which the last is short, and many small ones. */
static bp_spec large_spec(void)
{
    bp_spec spec = rig_spec();
    bp_transformer sizes = {
        .width = 64, .layers = 2, .heads = 2, .norm_epsilon = 1e-5, .initializer_range = 0.02};
    spec.config.vocabulary = 2503;
    bp_config_set_own(&spec.config, &sizes, sizeof sizes);
    spec.device_options = (bp_device_options){.threads = 1};
    spec.poison = true;
    return spec;
}

/* verifies ranks-3.d7df */
static void test_forms(void **state)
{
    (void)state;
    static const bp_optimizer *const rules[] = {&bp_optimizer_adamw, &bp_optimizer_adamw_8bit};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        for (int form = 0; form < 4; form++) {
            bp_spec spec = large_spec();
            spec.optimizer = rules[r];
            spec.optimizer_options.max_grad_norm = form % 2 == 0 ? 0.0 : 0.5;
            spec.gradient_release = form >= 2 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
            if (form == 3) {
                spec.working = BP_BF16;
                spec.gradient = BP_BF16;
                spec.master = BP_MASTER_SPLIT;
            }
            const uint64_t alone = play(&spec, 1);
            for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
                for (int s = BP_SHARING_OPTIMIZER; s <= BP_SHARING_PARAMETERS; s++) {
                    spec.sharing = (bp_sharing)s;
                    spec.gather_ahead = (uint32_t)form % 3;
                    spec.bucket_bytes = (form + s) % 2 == 0 ? SMALL : 0;
                    assert_int_equal(play(&spec, ranks), alone);
                }
            }
        }
    }
}

/* Trust ratios over shares of tensors are those of whole ones. */
static void trust_ratios(void **state)
{
    (void)state;
    static const bp_optimizer *const rules[] = {&bp_optimizer_lamb, &bp_optimizer_lars_8bit};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        bp_spec spec = large_spec();
        spec.optimizer = rules[r];
        spec.optimizer_options.trust_coefficient = 0.1;
        spec.batch = 1;
        spec.accumulation = 8;
        spec.lanes = 8;
        spec.optimizer_options.max_grad_norm = r == 0 ? 0.5 : 0.0;
        spec.gradient_release = r == 0 ? BP_RELEASE_NONE : BP_RELEASE_EXACT;
        if (r == 1) {
            spec.working = BP_BF16;
            spec.gradient = BP_BF16;
            spec.master = BP_MASTER_SPLIT;
        }
        const uint64_t alone = play(&spec, 1);
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks *= 4) {
            for (int s = BP_SHARING_OPTIMIZER; s <= BP_SHARING_PARAMETERS; s++) {
                spec.sharing = (bp_sharing)s;
                assert_int_equal(play(&spec, ranks), alone);
            }
        }
    }
}

/* Lanes that ranks share, whatever else they share: the state of all lanes on one rank; arenas are
 * alike on every rank where nothing is shared out. */
/* verifies ranks-1.77ab */
static void lanes_on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        bp_spec spec = large_spec();
        spec.batch = 1;
        spec.accumulation = 16;
        spec.lanes = 8;
        spec.optimizer = form < 2 ? &bp_optimizer_adamw : &bp_optimizer_adamw_8bit;
        spec.optimizer_options.max_grad_norm = form % 2 == 0 ? 0.0 : 0.5;
        spec.gradient_release = form == 1 || form == 2 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
        spec.policy.kind = form == 3 ? BP_POLICY_FULL : BP_POLICY_NONE;
        const uint64_t alone = play(&spec, 1);
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
            const int most = ranks > 2 ? BP_SHARING_PARAMETERS : BP_SHARING_OPTIMIZER;
            for (int s = BP_SHARING_NONE; s <= most; s++) {
                spec.sharing = (bp_sharing)s;
                spec.gather_ahead = (uint32_t)form;
                spec.bucket_bytes = (form + s + (int)ranks / 2) % 2 == 0 ? SMALL : 0;
                assert_int_equal(play(&spec, ranks), alone);
                for (uint32_t i = 1; s == BP_SHARING_NONE && i < ranks; i++) {
                    assert_int_equal(players[i].runtime.report.arena_bytes,
                                     players[0].runtime.report.arena_bytes);
                }
            }
            spec.sharing = BP_SHARING_NONE;
        }
        spec.lanes = 1;
        assert_int_not_equal(play(&spec, 1), alone); /* they are another sum */
    }
}

/* The base of adapters as codes, of which each rank has its units; scales are whole. */
static void codes_of_a_base(void **state)
{
    (void)state;
    static const bp_quantised codes[] = {BP_QUANTISED_NF4, BP_QUANTISED_NF4_DOUBLE,
                                         BP_QUANTISED_INT8};
    static const char *const all[] = {"all-linear"};
    for (uint32_t form = 0; form < 3; form++) {
        bp_spec spec = large_spec();
        const bp_transformer sizes = {
            .width = 192, .layers = 2, .heads = 2, .norm_epsilon = 1e-5, .initializer_range = 0.02};
        bp_config_set_own(&spec.config, &sizes, sizeof sizes);
        spec.lora = (bp_lora){.rank = 4, .alpha = 8, .targets = all, .target_count = 1};
        spec.quantised = codes[form];
        spec.optimizer = &bp_optimizer_adamw;
        spec.policy.kind = form == 1 ? BP_POLICY_FULL : BP_POLICY_NONE;
        const uint64_t alone = play(&spec, 1);
        const uint32_t ranks = form == 1 ? 4 : 2;
        uint64_t weights[2] = {0};
        for (uint32_t shares = 0; shares < 2; shares++) {
            spec.sharing = shares == 1 ? BP_SHARING_PARAMETERS : BP_SHARING_GRADIENTS;
            spec.gather_ahead = form;
            assert_int_equal(play(&spec, ranks), alone);
            weights[shares] = players[0].runtime.report.class_most[BP_CLASS_WEIGHTS];
        }
        assert_true(weights[1] < weights[0]);
    }
}

int main(void)
{
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = i * 7919 % 2503;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes_of_a_base),
                                       cmocka_unit_test(test_forms), cmocka_unit_test(trust_ratios),
                                       cmocka_unit_test(lanes_on_any_number_of_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
