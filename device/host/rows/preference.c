/* SPDX-License-Identifier: MIT */
/* The loss over pairs of rows: few numbers, in double and in order, so one task does it. */
#include <string.h>

#include "core/base/math.h"
#include "core/ops/preference.h"
#include "core/ir/step.h"
#include "device/host/kernel.h"

/* What all pairs of a micro-batch share. */
typedef struct batch_facts {
    uint64_t pairs;   /* that are there */
    uint64_t targets; /* of their chosen rows */
    double z;         /* KTO's */
} batch_facts;

static uint64_t preference_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

static bp_preference_row read_row(const bp_preference_loss_scalars *s,
                                  const bp_preference_loss_pointers *p, uint64_t row)
{
    const uint64_t sequence = (uint64_t)s->sequence, at = row * sequence;
    return bp_preference_read((const float *)p->losses + at, (const int32_t *)p->labels + at,
                              (const int32_t *)p->sides + row * BP_SIDE_WORDS, sequence);
}

static batch_facts preference_facts(const bp_preference_loss_scalars *s,
                                    const bp_preference_loss_pointers *p)
{
    batch_facts facts = {0, 0, 0.0};
    uint64_t mismatched = 0;
    for (uint64_t row = 0; row < (uint64_t)s->batch; row += 2) {
        const bp_preference_row a = read_row(s, p, row), b = read_row(s, p, row + 1);
        if (b.side == BP_SIDE_MISMATCHED && b.count > 0) {
            facts.z += b.sum - b.reference;
            mismatched++;
        } else if (a.side == BP_SIDE_CHOSEN && a.count > 0 && b.count > 0) {
            facts.targets += a.all_count;
            facts.pairs++;
        }
    }
    facts.z = mismatched > 0 ? facts.z / (double)mismatched : 0.0;
    facts.z = facts.z > 0.0 ? facts.z : 0.0;
    return facts;
}

/* The derivative of the loss by each target's: `whole` of all of them, less the slope by the
 * completion's log-probability. */
static void put_weights(const bp_preference_loss_scalars *s, const bp_preference_loss_pointers *p,
                        uint64_t row, double slope, double whole)
{
    const uint64_t sequence = (uint64_t)s->sequence, at = row * sequence;
    const int32_t *labels = (const int32_t *)p->labels + at;
    const int64_t first = ((const int32_t *)p->sides)[row * BP_SIDE_WORDS + 2];
    float *weights = p->weights;
    for (uint64_t t = 0; weights != NULL && t < sequence; t++) {
        const float weight = (float)(whole - ((int64_t)t >= first ? slope : 0.0));
        weights[at + t] = labels[t] < 0 ? 0.0f : weight;
    }
}

static void preference_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)first;
    (void)last;
    (void)worker;
    const bp_preference_loss_scalars *s = call->scalars;
    const bp_preference_loss_pointers *p = call->pointers;
    const bool single = s->kind == BP_PREFERENCE_KTO;
    const bp_preference_numbers numbers = {
        s->kind, s->beta, s->smoothing, s->gamma, {s->desirable, s->undesirable}};
    const batch_facts facts = preference_facts(s, p);
    const double each =
        facts.targets > 0 ? (double)facts.pairs / (double)facts.targets : 0.0; /* of a target */
    bp_result_block *result = p->result;
    if (s->accumulate == 0) {
        memset(result, 0, sizeof(*result));
    }
    for (uint64_t row = 0; row < (uint64_t)s->batch; row += 2) {
        const bp_preference_row a = read_row(s, p, row), b = read_row(s, p, row + 1);
        const bp_preference_terms t = bp_preference_pair(&numbers, facts.z, &a, &b);
        const double more = !t.there || single ? 0.0 : each * a.all;
        result->loss_sum += t.loss + s->nll * more;
        put_weights(s, p, row, t.slope[0], t.there && !single ? s->nll * each : 0.0);
        put_weights(s, p, row + 1, t.slope[1], 0.0);
        if (t.there) {
            bp_preference_tell(BP_PREFERENCE_METRICS(result), &t, a.side, single,
                               single ? facts.z : more);
        }
        if (p->logps != NULL) {
            ((float *)p->logps)[row] = (float)a.sum;
            ((float *)p->logps)[row + 1] = (float)b.sum;
        }
    }
}

const bp_host_kernel bp_host_preference_loss = {preference_tasks, preference_run, NULL};
