/* SPDX-License-Identifier: MIT */
/* Presets of all families, one family after the other. */
#include "tools/formats/family/preset.h"

#include <string.h>

#include "tools/formats/family/family.h"

const bp_preset *bp_preset_at(uint32_t index)
{
    const bp_family *family;
    size_t left = index;
    for (size_t i = 0; (family = bp_family_at(i)) != NULL; i++) {
        if (left < family->preset_count) {
            return &family->presets[left];
        }
        left -= family->preset_count;
    }
    return NULL;
}

const bp_preset *bp_preset_find(const char *name)
{
    const bp_preset *preset = NULL;
    for (uint32_t i = 0; (preset = bp_preset_at(i)) != NULL; i++) {
        if (strcmp(preset->name, name) == 0) {
            break;
        }
    }
    return preset;
}

bp_model_config bp_preset_config(const bp_preset *preset)
{
    bp_model_config config = preset->config;
    bp_family_config_set(&config, preset->own, preset->own_bytes);
    return config;
}
