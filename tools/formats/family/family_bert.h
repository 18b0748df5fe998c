/* SPDX-License-Identifier: MIT */
/* What descriptors of families of BERT's blocks share: their own struct is a bp_bert_config. */
#ifndef BP_FORMATS_FAMILY_BERT_H
#define BP_FORMATS_FAMILY_BERT_H

#include "layers/families/bert.h"
#include "tools/formats/family/family_rows.h"

#define TYPES_MOST (1 << 16)

#define BERT(member) BP_FAMILY_MEMBER(bp_bert_config, member)

/* A preset for tests: a small model of bytes. */
#define BERT_TINY(family_, pad_, epsilon_, ...)                                                    \
    {.family = (family_),                                                                          \
     .vocabulary = 256,                                                                            \
     .positions = 128,                                                                             \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = (pad_),                                                                          \
     .task = BP_TASK_MASKED_LM},                                                                   \
        OWN((const bp_bert_config){.stack = {.width = 64,                                          \
                                             .layers = 2,                                          \
                                             .heads = 4,                                           \
                                             .inner = 256,                                         \
                                             .norm_epsilon = (epsilon_),                           \
                                             .initializer_range = 0.02},                           \
                                   __VA_ARGS__})

#endif
