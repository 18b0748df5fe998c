/* SPDX-License-Identifier: MIT */
/* What has to be computed, where it lies, and which values are worth keeping: all of it on masks of
 * values and nodes. */
#include "layers/nodes/node_kinds.h"

uint32_t block_reduced(const block_masks *masks, uint32_t target, uint32_t there, uint32_t *exact)
{
    const uint32_t reduced = masks->packs | masks->derives;
    uint32_t want = target & reduced & ~there;
    *exact = target & ~reduced;
    for (uint32_t i = masks->nodes; i-- > 0;) {
        if ((masks->outs[i] & want & masks->derives) != 0) {
            want |= masks->ins[i] & reduced & ~there;
            *exact |= masks->ins[i] & ~reduced;
        }
    }
    return want;
}

/* The product whose output a GELU alone reads, and so can be made with it by one op. */
static uint32_t product_before(const bp_block *block, const block_masks *masks, uint32_t gelu)
{
    const bp_node *node = &block->node[gelu];
    const uint32_t maker = masks->maker[node->in[0]];
    const bool fuses = node->kind == BP_NODE_GELU && maker < block->nodes &&
                       block->node[maker].kind == BP_NODE_DENSE && block->node[maker].parts == 1 &&
                       masks->readers[node->in[0]] == value_bit(gelu);
    return fuses ? maker : BP_BLOCK_NODES;
}

static void add_node(const bp_node *node, uint32_t index, block_masks *masks)
{
    const node_row *row = node_row_of(node);
    for (uint32_t k = 0; k < row->inputs; k++) {
        masks->ins[index] |= value_bit(node->in[k]);
        masks->readers[node->in[k]] |= value_bit(index);
    }
    for (uint32_t k = 0; k < node_outputs(node); k++) {
        masks->outs[index] |= value_bit(node->out[k]);
        masks->maker[node->out[k]] = index;
    }
    masks->transient |= node->again ? masks->outs[index] : 0;
    masks->steps |= row->must ? value_bit(node->in[0]) : 0;
    masks->acts |= row->acts ? value_bit(index) : 0;
    masks->cheap |= node->cheap ? masks->outs[index] : 0;
}

void block_masks_of(const bp_block *block, block_masks *masks)
{
    *masks = (block_masks){.nodes = block->nodes};
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        masks->maker[v] = BP_BLOCK_NODES;
    }
    for (uint32_t i = 0; i < block->nodes; i++) {
        add_node(&block->node[i], i, masks);
    }
    for (uint32_t i = 0; i < block->nodes; i++) {
        masks->fuses[i] = product_before(block, masks, i);
    }
    const uint32_t inner = value_bit(block->values - 1) - 1;
    masks->keepable = inner & ~(value_bit(0) | masks->steps);
    for (uint32_t i = 0; block->chunk_rows > 0 && i < block->nodes; i++) {
        const uint32_t read = i < block->chunk_until ? masks->ins[block->chunk_until] : 0;
        const bool chunked = i < block->chunk_until || i >= block->chunk_first;
        masks->keepable &= chunked ? ~(masks->outs[i] & ~read) : ~(uint32_t)0;
    }
}

block_need block_needs(const block_masks *masks, uint32_t have, uint32_t target, uint32_t nodes)
{
    block_need need = {.values = target & ~have};
    for (uint32_t i = masks->nodes; i-- > 0;) {
        if ((masks->outs[i] & need.values) != 0 || (nodes & value_bit(i)) != 0) {
            need.nodes |= value_bit(i);
            need.values |= masks->ins[i] & ~have;
        }
    }
    return need;
}

uint32_t block_fusions(const block_masks *masks, const block_need *need)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < masks->nodes; i++) {
        const bool runs = (need->nodes & value_bit(i)) != 0 && masks->fuses[i] < masks->nodes;
        mask |= runs && (need->nodes & value_bit(masks->fuses[i])) != 0 ? value_bit(i) : 0;
    }
    return mask;
}

/* The value in whose place v may lie, which only its last reader makes; v: none. */
static uint32_t taker_of(const block_run *run, const block_need *need, uint32_t v, bool free)
{
    const uint32_t readers = run->masks.readers[v] & need->nodes;
    uint32_t last = BP_BLOCK_NODES;
    for (uint32_t i = 0; i < run->block->nodes; i++) {
        last = (readers & value_bit(i)) != 0 ? i : last;
    }
    if (last == BP_BLOCK_NODES) {
        return v;
    }
    const bp_node *node = &run->block->node[last];
    const node_row *row = node_row_of(node);
    const bool drops =
        node->kind == BP_NODE_RESIDUAL && bp_residual_drops(run->builder, &node->residual);
    for (uint32_t i = 0; i < row->inputs; i++) {
        const bool may = (row->places & value_bit(i)) != 0 && (row->must || (free && !drops));
        if (node->in[i] == v && may && (need->values & value_bit(node->out[0])) != 0) {
            return node->out[0];
        }
    }
    return v;
}

/* Whether what the one reader of v makes stays behind a pass of backward, or is made into what
 * stays: only then is v of no more use. Of chunks and streams other passes make v's rows. */
static bool reader_stays(const block_run *run, uint32_t v, uint32_t target,
                         const uint32_t taker[BP_BLOCK_VALUES])
{
    const block_masks *masks = &run->masks;
    const uint32_t readers = masks->readers[v];
    if (readers == 0 || (readers & (readers - 1)) != 0 || run->chunk ||
        run->block->chunk_rows > 0) {
        return false;
    }
    uint32_t reader = 0;
    while (readers != value_bit(reader)) {
        reader++;
    }
    const uint32_t y = run->block->node[reader].out[0];
    const bool passes =
        (masks->transient & value_bit(y)) != 0 && (masks->outs[reader] & target) == 0;
    return !passes || taker[y] != y;
}

void block_positions(const block_run *run, const block_need *need, uint32_t target,
                     uint32_t taker[BP_BLOCK_VALUES])
{
    for (uint32_t v = run->block->values; v-- > 0;) {
        const bool made = v > 0 && (need->values & value_bit(v)) != 0;
        const bool free = (run->stored & value_bit(v)) == 0 &&
                          (!run->back || reader_stays(run, v, target, taker));
        const uint32_t next = made ? taker_of(run, need, v, free) : v;
        /* What its reader makes comes later, and so its place is known. */
        taker[v] = next != v ? taker[next] : v;
    }
}

static uint32_t once_of(const bp_block *block, const block_masks *masks)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < block->nodes; i++) {
        mask |= block->node[i].once ? masks->outs[i] : 0;
    }
    return mask & masks->keepable;
}

/* What selective:NAMES drops of a node. A norm whose output backward holds keeps its few
 * statistics.
 */
static uint32_t class_values(const bp_node *node, const block_masks *masks, uint32_t index)
{
    const bool held = node->kind == BP_NODE_NORM && !node->again;
    return held ? value_bit(node->out[0]) : masks->outs[index];
}

uint32_t block_kept_of(const bp_block *block, const block_masks *masks, uint32_t variant)
{
    const uint32_t once = once_of(block, masks);
    if ((variant & BP_TAPE_SET) != 0) {
        return (variant & masks->keepable) | once;
    }
    uint32_t keep = variant <= BP_RECOMPUTE_ALL ? masks->keepable & ~masks->cheap : 0;
    for (uint32_t i = 0; i < block->nodes; i++) {
        /* What makes the block's output runs in forward anyway, and backward has no use for it. */
        const bool last = (masks->outs[i] & value_bit(block->values - 1)) != 0;
        const bool lacks = (variant & block->node[i].class_of) != 0 && !last;
        keep &= lacks ? ~class_values(&block->node[i], masks, i) : ~(uint32_t)0;
    }
    return keep | once;
}

uint32_t bp_block_kept(const bp_block *block, uint32_t variant)
{
    block_masks masks;
    block_masks_of(block, &masks);
    return block_kept_of(block, &masks, variant);
}

/* Seconds of one pass. */
static double pass_seconds(const block_costs *costs, const block_need *need)
{
    const uint32_t fused = block_fusions(&costs->masks, need);
    double seconds = 0.0;
    for (uint32_t i = 0; i < costs->masks.nodes; i++) {
        if ((need->nodes & value_bit(i)) == 0) {
            continue;
        }
        if ((fused & value_bit(i)) != 0) {
            /* the product has been counted by itself */
            seconds += costs->fused[i] - costs->seconds[costs->masks.fuses[i]][0];
            continue;
        }
        seconds += costs->parts[i] == 0 ? costs->seconds[i][0] : 0.0;
        for (uint32_t k = 0; k < costs->parts[i]; k++) {
            const bool made = (need->values & value_bit(costs->part_out[i][k])) != 0;
            seconds += made ? costs->seconds[i][k] : 0.0;
        }
    }
    return seconds;
}

/* What is there after a pass that made what `target` needed: of products only those that were
 * wanted, of what backward runs anew only what the pass was for. */
static uint32_t pass_leaves(const block_costs *costs, const block_need *need, uint32_t target)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < costs->masks.nodes; i++) {
        const uint32_t outs = costs->masks.outs[i];
        const bool ran = (need->nodes & value_bit(i)) != 0;
        const bool stays = (outs & costs->masks.transient) == 0 || (outs & target) != 0;
        left |= ran && stays ? (costs->parts[i] > 0 ? outs & need->values : outs) : 0;
    }
    return left & ~costs->masks.steps;
}

/* What backward reads instead of packed and derived values. */
static double reduced_seconds(const block_costs *costs, uint32_t want, uint32_t kept)
{
    double seconds = 0.0;
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        if ((want & costs->masks.packs & value_bit(v)) != 0) {
            seconds += (kept & value_bit(v)) != 0 ? costs->packed[v] : costs->rounded[v];
        }
    }
    for (uint32_t i = 0; i < costs->masks.nodes; i++) {
        const bool derived = (want & costs->masks.derives & costs->masks.outs[i]) != 0;
        seconds += derived ? costs->seconds[i][0] : 0.0;
    }
    return seconds;
}

/* Seconds that backward recomputes for when it finds the values of `kept`. */
static double block_again(const block_costs *costs, uint32_t kept)
{
    const uint32_t packs = costs->masks.packs;
    uint32_t have = (kept & ~packs) | value_bit(0), there = 0;
    double seconds = 0.0;
    for (uint32_t i = costs->masks.nodes; i-- > 0;) {
        uint32_t target = 0;
        const uint32_t want = block_reduced(&costs->masks, costs->reads[i], there, &target);
        const uint32_t rounded = want & packs & ~kept;
        target |= rounded;
        if ((target & ~have) != 0) {
            const block_need need = block_needs(&costs->masks, have, target, 0);
            seconds += pass_seconds(costs, &need);
            have |= pass_leaves(costs, &need, target);
        }
        seconds += reduced_seconds(costs, want, kept);
        have &= ~rounded; /* they are no longer what forward made */
        there |= want;
    }
    return seconds;
}

/* The values that can be chosen one by one; statistics go with what is computed beside them where
 * the choices would be too many to look at. */
static uint32_t list_choices(const block_costs *costs, uint32_t choice[BP_BLOCK_CHOICES])
{
    const uint32_t keepable = costs->masks.keepable & ~costs->once;
    uint32_t singles = 0, count = 0, taken = 0;
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        singles += (keepable & value_bit(v)) != 0 ? 1 : 0;
    }
    for (uint32_t v = 0; v < BP_BLOCK_VALUES && count < BP_BLOCK_CHOICES; v++) {
        if ((keepable & ~taken & value_bit(v)) == 0) {
            continue;
        }
        const uint32_t maker = costs->masks.maker[v];
        const bool together = singles > BP_BLOCK_CHOICES && costs->parts[maker] == 0;
        choice[count] = together ? costs->masks.outs[maker] & keepable : value_bit(v);
        taken |= choice[count++];
    }
    return count;
}

static uint64_t kept_bytes(const block_costs *costs, uint32_t kept)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        bytes += (kept & value_bit(v)) != 0 ? costs->bytes[v] : 0;
    }
    return bytes;
}

/* Leaves out, of all but the ends, the set that lies nearest to its neighbours in bytes. */
static uint32_t thin(block_kept *sets, uint32_t count)
{
    uint32_t worst = 1;
    uint64_t nearest = UINT64_MAX;
    for (uint32_t i = 1; i + 1 < count; i++) {
        const uint64_t gap = sets[i + 1].bytes - sets[i - 1].bytes;
        worst = gap < nearest ? i : worst;
        nearest = gap < nearest ? gap : nearest;
    }
    for (uint32_t i = worst; i + 1 < count; i++) {
        sets[i] = sets[i + 1];
    }
    return count - 1;
}

/* Enters a set into those found, sorted by bytes, seconds falling. */
static uint32_t enter(block_kept *sets, uint32_t count, const block_kept *one)
{
    uint32_t at = 0;
    while (at < count && (sets[at].bytes < one->bytes ||
                          (sets[at].bytes == one->bytes && sets[at].seconds <= one->seconds))) {
        at++;
    }
    if (at > 0 && sets[at - 1].seconds <= one->seconds) {
        return count;
    }
    uint32_t end = at;
    while (end < count && sets[end].seconds >= one->seconds) {
        end++;
    }
    if (end == at) {
        count = count == BLOCK_SETS_MOST ? thin(sets, count) : count;
        at = at > count ? count : at;
        for (uint32_t i = count; i > at; i--) {
            sets[i] = sets[i - 1];
        }
        count++;
    } else {
        for (uint32_t i = end; i < count; i++) {
            sets[at + 1 + (i - end)] = sets[i];
        }
        count -= end - at - 1;
    }
    sets[at] = *one;
    return count;
}

uint32_t block_frontier(const block_costs *costs, block_kept *sets, uint32_t limit)
{
    block_kept found[BLOCK_SETS_MOST];
    uint32_t choice[BP_BLOCK_CHOICES];
    const uint32_t choices = list_choices(costs, choice);
    uint32_t count = 0;
    for (uint32_t subset = 0; subset < value_bit(choices); subset++) {
        uint32_t kept = costs->once;
        for (uint32_t i = 0; i < choices; i++) {
            kept |= (subset & value_bit(i)) != 0 ? choice[i] : 0;
        }
        const block_kept one = {kept, kept_bytes(costs, kept), block_again(costs, kept)};
        count = enter(found, count, &one);
    }
    while (count > limit && count > 2) {
        count = thin(found, count);
    }
    count = count < limit ? count : limit;
    for (uint32_t i = 0; i < count; i++) {
        sets[i] = found[i];
    }
    return count;
}
