/* SPDX-License-Identifier: MIT */
/* Copies keep to the rules of aliasing: `own` is an array of words, a family's struct is not. */
#include "core/plan/config.h"

#include <string.h>

void bp_family_config_get(const bp_model_config *config, void *own, size_t bytes)
{
    memcpy(own, config->family_config, bytes);
}

void bp_family_config_set(bp_model_config *config, const void *own, size_t bytes)
{
    memcpy(config->family_config, own, bytes);
}
