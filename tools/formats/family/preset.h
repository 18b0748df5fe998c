/* SPDX-License-Identifier: MIT */
/* Presets: models known by name, with random weights from the seed. */
#ifndef BP_FORMATS_PRESET_H
#define BP_FORMATS_PRESET_H

#include "core/plan/spec.h"

typedef struct bp_preset {
    const char *name;
    const char *note;       /* one line for a list of presets */
    bp_model_config config; /* without what is the family's own, which lies here: */
    const void *own;
    size_t own_bytes;
} bp_preset;

/* What it says of the model, whole. */
bp_model_config bp_preset_config(const bp_preset *preset);

/* The preset of a name, or NULL. */
const bp_preset *bp_preset_find(const char *name);

/* Preset number `index`, or NULL past the last one: for lists and suggestions. */
const bp_preset *bp_preset_at(uint32_t index);

#endif
