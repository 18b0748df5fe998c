/* SPDX-License-Identifier: MIT */
/* Lengths of programs by dynamic programming over the shares of micro-batches. */
#include "core/plan/search/lengths.h"

#include "core/base/math.h"

#define LOOKED_AT 16384 /* samples */

/* from[k][i]: the bucket before number i where that is the last of at most k + 1; NONE: the first;
 * FEWER: the same as with one bucket less. */
enum { NONE = 0, FEWER = UINT16_MAX };

static double cut_cost(const double *share, uint32_t before, uint32_t i)
{
    return (double)i * (share[i] - share[before]);
}

/* One row more of the table from the row before it, `best`, which it replaces: from the last number
 * on, as each looks only at smaller ones. */
static void add_bucket(const double *share, uint32_t count, double *best, uint16_t *from)
{
    for (uint32_t i = count; i > 0; i--) {
        from[i] = FEWER;
        for (uint32_t before = 1; before < i; before++) {
            const double cost = best[before] + cut_cost(share, before, i);
            if (cost < best[i]) {
                best[i] = cost;
                from[i] = (uint16_t)before;
            }
        }
    }
}

/* work->share[i] of all micro-batches go into length number i; a longer one costs i, however short
 * its samples are. Fills chosen[] with the numbers below count, rising, that make at most `buckets`
 * buckets with the last, `count`, such that the expected cost, the sum over buckets of i (share[i]
 * - share of the bucket before), is the least; returns how many. */
static uint32_t lengths_cut(bp_lengths_work *work, uint32_t count, uint32_t buckets,
                            uint32_t chosen[BP_LENGTHS_MOST])
{
    const double *share = work->share;
    double *best = work->best;
    uint16_t(*from)[BP_LENGTHS_CUTS + 1] = work->from;
    uint32_t found[BP_LENGTHS_MOST], used = 0, at = count;
    for (uint32_t i = 0; i <= count; i++) {
        best[i] = cut_cost(share, 0, i);
        from[0][i] = NONE;
    }
    for (uint32_t k = 1; k < buckets; k++) {
        add_bucket(share, count, best, from[k]);
    }
    for (uint32_t k = buckets - 1; k > 0; k--) {
        if (from[k][at] != FEWER) {
            at = from[k][at];
            found[used++] = at;
        }
    }
    for (uint32_t i = 0; i < used; i++) {
        chosen[i] = found[used - 1 - i];
    }
    return used;
}

/* Lengths that are compared: multiples of `unit`, the last of them the whole sequence. */
typedef struct lengths_cuts {
    uint32_t unit;
    uint32_t count;
} lengths_cuts;

static lengths_cuts lengths_cuts_of(uint32_t sequence)
{
    const uint32_t unit = 8 * (uint32_t)bp_size_ceil_div(sequence, 8 * BP_LENGTHS_CUTS);
    return (lengths_cuts){.unit = unit, .count = (uint32_t)bp_size_ceil_div(sequence, unit)};
}

/* How many samples there are of each length, then which share of micro-batches is no longer. */
static bp_status lengths_count(const bp_lengths_samples *samples, lengths_cuts cuts, double *share)
{
    const uint64_t looked = samples->count < LOOKED_AT ? samples->count : LOOKED_AT;
    for (uint32_t i = 0; i <= cuts.count; i++) {
        share[i] = 0.0;
    }
    for (uint64_t i = 0; i < looked; i++) {
        uint32_t tokens = 0;
        BP_TRY(samples->tokens(samples->user, i * samples->count / looked, &tokens));
        const uint64_t at = bp_size_ceil_div(tokens, cuts.unit);
        share[at == 0 ? 1 : at < cuts.count ? at : cuts.count] += 1.0;
    }
    double below = 0.0;
    for (uint32_t i = 1; i <= cuts.count; i++) {
        below += share[i];
        share[i] = bp_powi(below / (double)looked, samples->together);
    }
    return BP_OK;
}

/* At even distances. */
static void lengths_spread(bp_spec *spec, lengths_cuts cuts, uint32_t buckets)
{
    for (uint32_t k = 1; k < buckets; k++) {
        const uint32_t i = (uint32_t)bp_size_ceil_div((uint64_t)k * cuts.count, buckets);
        const uint32_t before = spec->length_count > 0 ? spec->lengths[spec->length_count - 1] : 0;
        if (i * cuts.unit > before && i < cuts.count) {
            spec->lengths[spec->length_count++] = i * cuts.unit;
        }
    }
}

bp_status bp_lengths_find(bp_spec *spec, uint32_t programs, const bp_lengths_samples *samples,
                          bp_lengths_work *work)
{
    uint32_t chosen[BP_LENGTHS_MOST];
    spec->length_count = 0;
    if (programs == 0 || programs > BP_LENGTHS_MOST || spec->sequence == 0) {
        return BP_ERR_USAGE;
    }
    const lengths_cuts cuts = lengths_cuts_of(spec->sequence);
    if (samples == NULL || samples->count == 0) {
        lengths_spread(spec, cuts, programs);
        return BP_OK;
    }
    BP_TRY(lengths_count(samples, cuts, work->share));
    spec->length_count = lengths_cut(work, cuts.count, programs, chosen);
    for (uint32_t i = 0; i < spec->length_count; i++) {
        spec->lengths[i] = chosen[i] * cuts.unit;
    }
    return BP_OK;
}
