/* SPDX-License-Identifier: MIT */
/* Copies keep to the rules of aliasing: `own` is an array of words, a family's struct is not. */
#include "core/plan/config.h"

#include <string.h>

void bp_config_own(const bp_model_config *config, void *own, size_t bytes)
{
    memcpy(own, config->own, bytes);
}

void bp_config_set_own(bp_model_config *config, const void *own, size_t bytes)
{
    memcpy(config->own, own, bytes);
}
