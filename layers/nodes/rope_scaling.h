/* SPDX-License-Identifier: MIT */
/* How the frequencies of rotary positions are stretched (transformers' modeling_rope_utils.py). */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_ROPE_SCALING_H
#define BP_LAYERS_ROPE_SCALING_H

#include "arena/base.h"

#define BP_ROPE_PAIRS_MAX 64 /* pairs of a head that longrope has factors for */

typedef enum bp_rope_kind {
    BP_ROPE_LLAMA3,  /* by wavelength: long ones by the factor, short ones not */
    BP_ROPE_LINEAR,  /* every frequency divided by the factor */
    BP_ROPE_DYNAMIC, /* NTK: the base grows with sequences beyond the model's own; up to them none
                      */
    BP_ROPE_YARN,    /* Peng et al., arXiv 2309.00071 */
    BP_ROPE_LONG     /* a factor for each frequency (Ding et al., arXiv 2402.13753) */
} bp_rope_kind;

typedef struct bp_rope_scaling {
    double factor;     /* 0: not at all */
    double low;        /* low_freq_factor; yarn: beta_slow; dynamic: alpha (Hunyuan), 0: none */
    double high;       /* high_freq_factor; yarn: beta_fast */
    uint32_t original; /* original_max_position_embeddings */
    uint32_t kind;     /* bp_rope_kind */
    double magnitude;  /* attention_factor: of cosines and sines; 0: what the kind makes it */
    bool even;         /* yarn without truncate: the bounds of its ramp are not rounded */
} bp_rope_scaling;

/* Frequency number `pair` of a head that turns by `width` elements, and what cosines and sines are
 * multiplied by. `divisor`: longrope's for this pair. Not for llama3. */
double bp_rope_frequency(const bp_rope_scaling *scaling, double theta, const uint64_t width_pair[2],
                         float divisor);
double bp_rope_magnitude(const bp_rope_scaling *scaling);

#endif
