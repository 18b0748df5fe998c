/* SPDX-License-Identifier: MIT */
/* What every trainer made from a plan has in common. */
#ifndef BP_BEDPLATE_EMIT_C_TEXT_H
#define BP_BEDPLATE_EMIT_C_TEXT_H

#include <inttypes.h>
#include <stdbool.h>

/* plan.h, behind the head: bytes of arena, state and frozen weights, tensors, batch, micro-batches,
 * sequence, vocabulary, classes, labels, seed, inputs, elements of them, scratch of a checkpoint,
 * texts, whether it evaluates, outputs of a sample, whether they are of classes, tokens of a text.
 */
#define EMIT_C_HEADER                                                                              \
    "#ifndef PLAN_H\n#define PLAN_H\n\n"                                                           \
    "#include <bedplate.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"                      \
    "#define PLAN_ARENA_BYTES %" PRIu64 "\n#define PLAN_STATE_BYTES %" PRIu64 "\n"                 \
    "#define PLAN_FROZEN_BYTES %" PRIu64 " /* in flash, of frozen.c */\n"                          \
    "#define PLAN_TENSORS %" PRIu32 "\n#define PLAN_BATCH %" PRIu32 "\n"                           \
    "#define PLAN_MICROS %" PRIu32 "\n#define PLAN_SEQUENCE %" PRIu32 "\n"                         \
    "#define PLAN_VOCABULARY %" PRIu32 "u\n#define PLAN_CLASSES %" PRIu32 "\n"                     \
    "#define PLAN_LABELS %d\n#define PLAN_SEED UINT64_C(%" PRIu64 ")\n"                            \
    "#define PLAN_INPUTS %" PRIu32 "\n#define PLAN_SAMPLE_ELEMENTS %" PRIu64 "\n"                  \
    "#define PLAN_CHECKPOINT_SCRATCH %" PRIu64 " /* without keys; those of a PC have 8 KiB */\n"   \
    "#define PLAN_TEXTS %" PRIu32 " /* that are compared with each other; else 1 */\n"             \
    "#define PLAN_BYTES %d /* 1: numbers of images have one byte each */\n"                        \
    "#define PLAN_EVALUATES %d\n"                                                                  \
    "#define PLAN_OUTPUTS %" PRIu64 " /* of a prediction; 0: the plan has none */\n"               \
    "#define PLAN_CLASSIFIES %d\n"                                                                 \
    "#define PLAN_CONTEXT %" PRIu32 " /* tokens of a generated text; 0: none is */\n\n"            \
    "extern const bp_trainer_plan plan;\n"                                                         \
    "extern const uint64_t plan_frozen[]; /* not there where no weights are in flash */\n"         \
    "extern const bp_column plan_columns[PLAN_INPUTS];      /* what a sample is made of */\n"      \
    "extern const bp_state_tensor plan_tensors[PLAN_TENSORS]; /* for checkpoints */\n\n"           \
    "#ifdef __cplusplus\n}\n#endif\n\n#endif\n"

extern const char emit_c_head[];      /* of a C file */
extern const char emit_c_head_hash[]; /* of a makefile */

typedef struct emit_c_file {
    const char *name; /* NULL: the end */
    const char *text;
    const char *more; /* behind it */
    bool hash;        /* whether its comments begin with # */
} emit_c_file;

extern const emit_c_file emit_c_texts[];

#endif
