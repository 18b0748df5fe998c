/* SPDX-License-Identifier: MIT */
/* The map of shards against a deal that looks at every unit alone, and its balance over sets of
 * tensors as models have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/passes/shards.h"

#define TENSORS_MOST 1024
#define MIB          UINT64_C(1048576)

static bp_shard_tensor tensors[TENSORS_MOST];

/* What the owner keeps: `width` bytes for each element. */
static bp_shard_tensor tensor_of(uint64_t count, uint64_t width)
{
    const uint64_t units = bp_shards_units(count);
    const uint64_t last = units > 0 ? count - (units - 1) * BP_SHARD_UNIT : 0;
    return (bp_shard_tensor){count, BP_SHARD_UNIT * width, last * width};
}

static void deal(bp_shards *shards, uint32_t count, uint32_t ranks)
{
    bp_arena arena;
    bp_arena_count(&arena);
    assert_int_equal(bp_shards_take(shards, count, ranks, &arena), BP_OK);
    const size_t bytes = arena.used;
    void *memory = malloc(bytes);
    assert_non_null(memory);
    memset(memory, 0xa5, bytes);
    bp_arena_init(&arena, memory, bytes - 1);
    assert_int_equal(bp_shards_take(shards, count, ranks, &arena), BP_ERR_FIT);
    bp_arena_init(&arena, memory, bytes);
    assert_int_equal(bp_shards_take(shards, count, ranks, &arena), BP_OK);
    assert_int_equal(arena.used, bytes);
    bp_shards_deal(shards, tensors, count);
}

/* Every element of every tensor has one owner, runs lie one behind the other and begin with units,
 * and the loads are the bytes of what the shares say. */
static void check_shares(const bp_shards *shards, uint64_t width)
{
    uint64_t *load = calloc(shards->ranks, sizeof *load);
    assert_non_null(load);
    for (uint32_t t = 0; t < shards->tensors; t++) {
        uint64_t all = 0, fewest = UINT64_MAX, most = 0;
        const uint64_t count = tensors[t].count;
        for (uint32_t rank = 0; rank < shards->ranks; rank++) {
            const bp_share share = bp_shards_share(shards, t, count, rank);
            const uint64_t units = bp_shards_units(share.count), end = share.first + share.count;
            assert_true(share.count == 0 || share.first % BP_SHARD_UNIT == 0);
            assert_true(end == count || end % BP_SHARD_UNIT == 0);
            all += share.count;
            fewest = units < fewest ? units : fewest;
            most = units > most ? units : most;
            load[rank] += share.count * width;
            for (uint64_t at = share.first; at < end; at += BP_SHARD_UNIT / 3) {
                assert_int_equal(bp_shards_owner(shards, t, count, at), rank);
            }
        }
        assert_int_equal(all, count); /* and the owner of each is known, so none has two */
        assert_true(most - fewest <= 1);
    }
    assert_memory_equal(load, shards->load, shards->ranks * sizeof *load);
    free(load);
}

/* The same deal unit by unit: who has fewest bytes takes the next one, but nobody twice before all
 * have had one; who had most has the short one. */
static void deal_plainly(uint32_t count, uint32_t ranks, uint64_t (*units)[64])
{
    uint64_t load[64] = {0};
    for (int digits = 63; digits >= 0; digits--) {
        for (uint32_t t = 0; t < count; t++) {
            const uint64_t all = bp_shards_units(tensors[t].count);
            const uint64_t bytes = all > 1 ? tensors[t].unit_bytes : tensors[t].last_bytes;
            if (all == 0 || (bytes >> digits) != 1) {
                continue;
            }
            for (uint32_t r = 0; r < ranks; r++) {
                units[t][r] = all / ranks;
            }
            for (uint64_t rest = all % ranks; rest > 0; rest--) {
                uint32_t taker = ranks;
                for (uint32_t r = ranks; r-- > 0;) {
                    bool free_one = units[t][r] == all / ranks;
                    taker = free_one && (taker == ranks || load[r] <= load[taker]) ? r : taker;
                }
                units[t][taker]++;
            }
            uint32_t last = ranks;
            for (uint32_t r = 0; r < ranks; r++) {
                last = units[t][r] > 0 && (last == ranks || load[r] >= load[last]) ? r : last;
            }
            for (uint32_t r = 0; r < ranks; r++) {
                for (uint64_t u = 0; u < units[t][r]; u++) {
                    bool is_short = r == last && u + 1 == units[t][r];
                    load[r] += is_short ? tensors[t].last_bytes : tensors[t].unit_bytes;
                }
            }
        }
    }
}

/* verifies compile-12.e069 */
static void test_deal_against_unit_by_unit(void **state)
{
    (void)state;
    static uint64_t units[TENSORS_MOST][64];
    uint64_t random = 1;
    for (int round = 0; round < 300; round++) {
        bp_shards shards;
        const uint32_t count = 1 + (uint32_t)(round % 23);
        const uint32_t ranks = 1 + (uint32_t)(round * 7 % 64);
        for (uint32_t t = 0; t < count; t++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            tensors[t] = tensor_of((random >> 40) % (random >> 62 == 0 ? 9000000 : 5000), 12);
        }
        deal(&shards, count, ranks);
        check_shares(&shards, 12);
        memset(units, 0, sizeof units);
        deal_plainly(count, ranks, units);
        for (uint32_t t = 0; t < count; t++) {
            for (uint32_t r = 0; r < ranks; r++) {
                const bp_share share = bp_shards_share(&shards, t, tensors[t].count, r);
                assert_int_equal(bp_shards_units(share.count), units[t][r]);
            }
        }
        free(shards.bits);
    }
}

/* GPT-2's tensors, or those of LLaMA. */
static uint32_t model_tensors(bool llama, uint64_t width, uint64_t layers, uint64_t bytes)
{
    uint32_t n = 0;
    const uint64_t inner = llama ? (width * 8 / 3 + 255) / 256 * 256 : 4 * width;
    tensors[n++] = tensor_of((llama ? 32000 : 50257) * width, bytes);
    tensors[n++] = tensor_of((llama ? 32000 : 1024) * width, bytes);
    for (uint64_t i = 0; i < layers; i++) {
        for (uint64_t k = 0; k < 4; k++) {
            tensors[n++] = tensor_of(width * width, bytes);
        }
        for (uint64_t k = 0; k < (llama ? 3 : 2); k++) {
            tensors[n++] = tensor_of(width * inner, bytes);
        }
        for (uint64_t k = 0; k < (llama ? 2 : 8); k++) {
            tensors[n++] = tensor_of(width, bytes);
        }
    }
    return n;
}

/* Less than 1 % or 1 MiB apart; a unit of 16 bytes an element is 1 MiB, which hundreds of ranks of
 * a small model see. */
/* verifies compile-12.e069 */
static void test_balance(void **state)
{
    (void)state;
    static const struct {
        bool llama;
        uint64_t width, layers;
    } models[] = {{false, 768, 12}, {false, 1600, 48}, {true, 4096, 32},
                  {true, 5120, 40}, {false, 384, 6},   {true, 2048, 22}};
    static const uint64_t widths[] = {4, 12, 16, 20};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            for (uint32_t ranks = 1; ranks <= (widths[w] <= 12   ? 1024
                                               : widths[w] == 16 ? 64
                                                                 : 16);
                 ranks *= 2) {
                bp_shards shards;
                uint64_t least, most;
                const uint32_t count =
                    model_tensors(models[m].llama, models[m].width, models[m].layers, widths[w]);
                deal(&shards, count, ranks);
                bp_shards_spread(&shards, &least, &most);
                assert_true(least <= most);
                if (most - least >= MIB && (most - least) * 100 >= most) {
                    fail_msg("model %zu, %u ranks, %d bytes: %llu to %llu", m, ranks,
                             (int)widths[w], (unsigned long long)least, (unsigned long long)most);
                }
                free(shards.bits);
            }
        }
    }
}

/* verifies compile-12.e069 */
static void test_edges(void **state)
{
    (void)state;
    bp_shards shards;
    uint64_t least, most;
    bp_arena arena;
    bp_arena_count(&arena);
    assert_int_equal(bp_shards_take(&shards, 3, 0, &arena), BP_ERR_FIT);
    bp_arena_count(&arena);
    assert_int_equal(bp_shards_take(&shards, 3, BP_SHARD_RANKS + 1, &arena), BP_ERR_FIT);
    assert_int_equal(bp_arena_counted(&arena), BP_SIZE_INVALID);
    tensors[0] = tensor_of(0, 4);
    tensors[1] = tensor_of(1, 4);
    tensors[2] = tensor_of(BP_SHARD_UNIT + 1, 4);
    deal(&shards, 3, 2);
    check_shares(&shards, 4);
    bp_shards_spread(&shards, &least, &most);
    assert_int_equal(least + most, (BP_SHARD_UNIT + 2) * 4);
    free(shards.bits);
    assert_string_equal(bp_sharing_name(BP_SHARING_PARAMETERS), "parameters");
    assert_string_equal(bp_sharing_name(BP_SHARINGS), "?");
}

/* Shares are called equal where they are all of the same whole units, in the order of the ranks,
 * which is wherever the units divide. */
/* verifies compile-12.e069 */
static void test_equal_shares(void **state)
{
    (void)state;
    uint32_t equal = 0, turned = 0;
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        const uint64_t units[] = {ranks, 2 * ranks, 1, ranks + 1, 3 * ranks, 2 * ranks};
        const uint32_t count = 6;
        bp_shards shards;
        for (uint32_t t = 0; t < count; t++) {
            tensors[t] = tensor_of(units[t] * BP_SHARD_UNIT - (t == 5 ? 1 : 0), 4);
        }
        deal(&shards, count, ranks);
        for (uint32_t t = 0; t < count; t++) {
            const uint64_t all = tensors[t].count, each = all / ranks;
            bool alike = all % (ranks * (uint64_t)BP_SHARD_UNIT) == 0, first = true;
            for (uint32_t rank = 0; rank < ranks; rank++) {
                const bp_share share = bp_shards_share(&shards, t, all, rank);
                first = first && share.first == rank * each && share.count == each;
            }
            turned += alike && !first;
            alike = alike && first;
            assert_true(bp_shards_equal(&shards, all) == alike);
            equal += alike;
        }
        free(shards.bits);
    }
    if (equal < 5 || turned > 0) {
        fail_msg("%u equal, %u turned", equal, turned);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deal_against_unit_by_unit), cmocka_unit_test(test_balance),
        cmocka_unit_test(test_equal_shares), cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
