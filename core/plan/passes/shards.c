/* SPDX-License-Identifier: MIT */
/* Dealing units of tensors to ranks. */
#include "core/plan/passes/shards.h"

#include <string.h>

#define WORD_BITS 64

const char *bp_sharing_name(bp_sharing sharing)
{
    static const char *const names[] = {"none", "optimizer", "gradients", "parameters"};
    return sharing < BP_SHARINGS ? names[sharing] : "?";
}

static uint32_t words_of(uint32_t ranks)
{
    return (ranks + WORD_BITS - 1) / WORD_BITS;
}

bp_status bp_shards_take(bp_shards *shards, uint32_t tensors, uint32_t ranks, bp_arena *memory)
{
    const bool known = ranks > 0 && ranks <= BP_SHARD_RANKS;
    const uint64_t words = bp_size_mul(tensors, words_of(ranks));
    void *bits, *load, *start;
    BP_TRY(bp_arena_rows(memory, known ? words : BP_SIZE_INVALID, sizeof(uint64_t), 8, &bits));
    BP_TRY(bp_arena_rows(memory, ranks, sizeof(uint64_t), 8, &load));
    BP_TRY(bp_arena_rows(memory, tensors, sizeof(uint64_t), 8, &start));
    *shards = (bp_shards){tensors, ranks, bits, load, start};
    return BP_OK;
}

uint64_t bp_shards_units(uint64_t count)
{
    return bp_size_ceil_div(count, BP_SHARD_UNIT);
}

static uint64_t *row_of(const bp_shards *shards, uint32_t tensor)
{
    return shards->bits + (size_t)tensor * words_of(shards->ranks);
}

static bool has_more(const uint64_t *row, uint32_t rank)
{
    return (row[rank / WORD_BITS] >> (rank % WORD_BITS) & 1) != 0;
}

/* Ones of a word, by adding up neighbours. */
static uint32_t ones_of(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (uint32_t)(word * UINT64_C(0x0101010101010101) >> 56);
}

/* Ones among the bits of ranks before this one. */
static uint32_t more_before(const uint64_t *row, uint32_t rank)
{
    uint32_t ones = 0;
    for (uint32_t word = 0; word * WORD_BITS < rank; word++) {
        const uint32_t bits = rank - word * WORD_BITS;
        ones += ones_of(bits < WORD_BITS ? row[word] & ((UINT64_C(1) << bits) - 1) : row[word]);
    }
    return ones;
}

/* Marks the rank of fewest bytes that is not marked yet, the lowest of several. */
static void mark_least(const bp_shards *shards, uint64_t *row)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t rank = 0; rank < shards->ranks; rank++) {
        const bool fewer = least == UINT32_MAX || shards->load[rank] < shards->load[least];
        least = !has_more(row, rank) && fewer ? rank : least;
    }
    row[least / WORD_BITS] |= UINT64_C(1) << (least % WORD_BITS);
}

/* The rank of most bytes, the highest of several, of those that have units of the tensor. */
static uint32_t most_loaded(const bp_shards *shards, const uint64_t *row, uint64_t units)
{
    uint32_t most = UINT32_MAX;
    for (uint32_t rank = 0; rank < shards->ranks; rank++) {
        const bool has = units >= shards->ranks || has_more(row, rank);
        const bool more = most == UINT32_MAX || shards->load[rank] >= shards->load[most];
        most = has && more ? rank : most;
    }
    return most;
}

/* The last unit, which may be short, goes to whoever has most; where all shares are equal the runs
 * begin with rank 0. */
static void deal_tensor(const bp_shards *shards, uint32_t index, const bp_shard_tensor *tensor)
{
    const uint64_t units = bp_shards_units(tensor->count);
    uint64_t *row = row_of(shards, index);
    if (units == 0) {
        return;
    }
    for (uint64_t rest = units % shards->ranks; rest > 0; rest--) {
        mark_least(shards, row);
    }
    const uint32_t last = most_loaded(shards, row, units);
    const bool equal = tensor->count % BP_SHARD_UNIT == 0 && units % shards->ranks == 0;
    shards->start[index] = !equal && last + 1 < shards->ranks ? last + 1 : 0;
    for (uint32_t rank = 0; rank < shards->ranks; rank++) {
        const uint64_t own = units / shards->ranks + (has_more(row, rank) ? 1 : 0);
        shards->load[rank] += own * tensor->unit_bytes;
    }
    shards->load[last] -= tensor->unit_bytes - tensor->last_bytes;
}

/* Tensors are of one size when their bytes have as many digits in base 2. */
static uint32_t size_of(const bp_shard_tensor *tensor)
{
    uint64_t bytes = bp_shards_units(tensor->count) > 1 ? tensor->unit_bytes : tensor->last_bytes;
    uint32_t digits = 0;
    for (; bytes != 0; bytes >>= 1) {
        digits++;
    }
    return digits;
}

void bp_shards_deal(bp_shards *shards, const bp_shard_tensor *tensors, uint32_t count)
{
    uint32_t largest = 0;
    shards->tensors = count;
    memset(shards->bits, 0, (size_t)count * words_of(shards->ranks) * sizeof *shards->bits);
    memset(shards->load, 0, shards->ranks * sizeof *shards->load);
    memset(shards->start, 0, count * sizeof *shards->start);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t size = size_of(&tensors[i]);
        largest = size > largest ? size : largest;
    }
    for (uint32_t size = largest + 1; size-- > 0;) {
        for (uint32_t i = 0; i < count; i++) {
            if (size_of(&tensors[i]) == size) {
                deal_tensor(shards, i, &tensors[i]);
            }
        }
    }
}

/* The first unit of the run of the rank at a place, and behind the last place all units. */
static uint64_t first_unit(const bp_shards *shards, uint32_t tensor, uint64_t units, uint32_t place)
{
    const uint64_t *row = row_of(shards, tensor);
    const uint32_t ranks = shards->ranks;
    const uint32_t start = (uint32_t)shards->start[tensor];
    const uint32_t before = more_before(row, start);
    const uint32_t more = place <= ranks - start ? more_before(row, start + place) - before
                                                 : more_before(row, ranks) - before +
                                                       more_before(row, place - (ranks - start));
    return units / ranks * place + more;
}

/* What the rank at a place has. */
static bp_share share_at(const bp_shards *shards, uint32_t tensor, uint64_t count, uint32_t place)
{
    const uint64_t units = bp_shards_units(count);
    const uint64_t from = first_unit(shards, tensor, units, place) * BP_SHARD_UNIT;
    const uint64_t to = first_unit(shards, tensor, units, place + 1) * BP_SHARD_UNIT;
    const uint64_t first = from < count ? from : count;
    return (bp_share){first, (to < count ? to : count) - first};
}

bp_share bp_shards_share(const bp_shards *shards, uint32_t tensor, uint64_t count, uint32_t rank)
{
    const uint32_t start = (uint32_t)shards->start[tensor];
    const uint32_t place = rank >= start ? rank - start : rank + shards->ranks - start;
    return share_at(shards, tensor, count, place);
}

uint32_t bp_shards_owner(const bp_shards *shards, uint32_t tensor, uint64_t count, uint64_t element)
{
    const uint32_t start = (uint32_t)shards->start[tensor];
    uint32_t low = 0;
    uint32_t high = shards->ranks;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const bool before = share_at(shards, tensor, count, middle).first <= element;
        low = before ? middle : low;
        high = before ? high : middle;
    }
    return low < shards->ranks - start ? low + start : low - (shards->ranks - start);
}

/* The runs of such a tensor begin with rank 0 (deal_tensor). Stages that are measured by themselves
 * have no map: what they gather is whole either way. */
bool bp_shards_equal(const bp_shards *shards, uint64_t count)
{
    return shards->ranks == 0 ||
           (count % BP_SHARD_UNIT == 0 && bp_shards_units(count) % shards->ranks == 0);
}

void bp_shards_spread(const bp_shards *shards, uint64_t *least, uint64_t *most)
{
    *least = *most = shards->load[0];
    for (uint32_t rank = 1; rank < shards->ranks; rank++) {
        const uint64_t bytes = shards->load[rank];
        *least = bytes < *least ? bytes : *least;
        *most = bytes > *most ? bytes : *most;
    }
}
