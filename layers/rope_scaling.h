/* SPDX-License-Identifier: MIT */
/* How the frequencies of rotary positions are stretched: rope_type llama3 (kernels.def,
 * rotary_table). */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_ROPE_SCALING_H
#define BP_LAYERS_ROPE_SCALING_H

#include "arena/base.h"

typedef struct bp_rope_scaling {
    double factor;     /* 0: not at all */
    double low;        /* low_freq_factor */
    double high;       /* high_freq_factor */
    uint32_t original; /* original_max_position_embeddings */
} bp_rope_scaling;

#endif
