/* SPDX-License-Identifier: MIT */
/* Length buckets: the same model over the same buffers, for micro-batches whose
 * samples are all short. They save what padding costs and give the bits of the padded run: what a
 * padded place adds to a sum is zero, and sums go row after row. */
#ifndef BP_CORE_LENGTH_BUCKETS_H
#define BP_CORE_LENGTH_BUCKETS_H

#include "core/plan/model.h"

/* Why this spec's shorter sequences would not give the bits of the padded ones, in words; NULL:
 * they do. */
const char *bp_length_buckets_refused(const bp_spec *spec);

/* The spec of a program for sequences of `sequence` tokens, at most spec->sequence. loss_rows is
 * resolved. The loss has as many chunks, which end behind the samples behind which the padded run's
 * do, where those end behind samples. */
bp_spec bp_length_buckets_spec(const bp_spec *spec, uint32_t sequence);

#endif
