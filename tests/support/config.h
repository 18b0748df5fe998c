/* SPDX-License-Identifier: MIT */
/* A model's configuration in a test: what all families share, and its own struct. */
#ifndef BP_TESTS_SUPPORT_CONFIG_H
#define BP_TESTS_SUPPORT_CONFIG_H

#include "core/compile/config.h"

/* config_with((bp_model_config){.vocabulary = 7}, OWN(bp_transformer, .width = 4)) */
#define OWN(type, ...) &(const type){__VA_ARGS__}, sizeof(type)

/* Sets a member of the config's own struct: SET_OWN(&spec.config, bp_transformer, width, 4). */
#define SET_OWN(config, type, member, ...)                                                         \
    do {                                                                                           \
        type own_;                                                                                 \
        bp_config_own((config), &own_, sizeof own_);                                               \
        own_.member = __VA_ARGS__;                                                                 \
        bp_config_set_own((config), &own_, sizeof own_);                                           \
    } while (0)

static inline bp_model_config config_with(bp_model_config config, const void *own, size_t bytes)
{
    bp_config_set_own(&config, own, bytes);
    return config;
}

#endif
