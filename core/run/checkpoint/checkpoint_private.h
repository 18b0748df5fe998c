/* SPDX-License-Identifier: MIT */
/* What the files of the checkpoint share: names on the medium, and the form of the two files. */
#ifndef BP_CORE_CHECKPOINT_PRIVATE_H
#define BP_CORE_CHECKPOINT_PRIVATE_H

#include "core/base/safetensors.h"
#include "core/base/digest.h"
#include "core/run/checkpoint/checkpoint.h"

#define BP_CHECKPOINT_MODEL    "model.safetensors"
#define BP_CHECKPOINT_STATE    "state.safetensors"
#define BP_CHECKPOINT_KEY      "key."
#define BP_CHECKPOINT_FILE     "file."
#define BP_CHECKPOINT_STEP_KEY "step"
#define BP_CHECKPOINT_SUM_KEY  "state_digest"
#define BP_CHECKPOINT_META_KEY "metadata_digest"

#define BP_CHECKPOINT_FINAL     "checkpoint-"
#define BP_CHECKPOINT_TEMPORARY "tmp-checkpoint-"
#define BP_CHECKPOINT_REPLACED  "old-checkpoint-"
#define BP_CHECKPOINT_STAMP     "ranks-" /* in a temporary directory that several ranks fill */

/* The layouts of both files with the metadata they point into; filled in place, never copied. The
 * entries of state lie behind those of model. */
typedef struct bp_checkpoint_layout {
    bp_safetensors_plan model;
    bp_safetensors_plan state;
    uint64_t *digests; /* one per tensor, in the order of checkpoint->tensors */
    char step[24];
    char metadata_sum[2][BP_DIGEST_TEXT]; /* of model, of state */
    char sum[BP_DIGEST_TEXT];
    char blob_sum[BP_CHECKPOINT_BLOBS][BP_DIGEST_TEXT];
    bp_pair model_fixed[2];
    bp_pair state_fixed[3];
    bp_pair blob_pairs[BP_CHECKPOINT_BLOBS];
    bp_metadata_group model_groups[2];
    bp_metadata_group state_groups[3];
} bp_checkpoint_layout;

/* Checks the checkpoint and lays out both files in place->scratch. */
bp_status bp_checkpoint_make_layout(const bp_checkpoint_location *location,
                                    const bp_checkpoint *checkpoint,
                                    bp_checkpoint_layout *form) BP_MUST_CHECK;

/* The parts of a save: an empty temporary directory, after the output directory; further files in
 * it; and when all is written, the directory is synced and gets its name. */
bp_status bp_checkpoint_make_temporary(const bp_checkpoint_location *location,
                                       const char *temporary) BP_MUST_CHECK;
bp_status bp_checkpoint_write_blobs(const bp_checkpoint_location *location,
                                    const bp_checkpoint *checkpoint,
                                    const char *directory) BP_MUST_CHECK;
bp_status bp_checkpoint_publish(const bp_checkpoint_location *location, uint64_t step,
                                const char *temporary) BP_MUST_CHECK;

/* The state digest of the digests of its tensors, in the order of checkpoint->tensors. */
uint64_t bp_checkpoint_state_digest(const bp_checkpoint *checkpoint, const uint64_t *digests);

/* The part of one metadata pair, whose key is prefix + key, in a file's metadata digest. That is
 * the sum of the parts of all pairs, in any order, but for the digests themselves. */
uint64_t bp_checkpoint_pair_digest(const char *prefix, const char *key, const char *value);

/* directory/PREFIXstep. */
bp_status bp_checkpoint_path(const bp_checkpoint_location *location, const char *prefix,
                             uint64_t step, char path[BP_STORE_PATH_MAX]) BP_MUST_CHECK;

/* The number of a whole string of decimal digits without leading zeros; false if it is none. */
bool bp_checkpoint_parse_step(const char *text, uint64_t *step);

/* Whether a further file may have this name: letters, digits, dot, dash and underscore, not hidden,
 * short enough, and not a tensor file's. */
bool bp_checkpoint_blob_name(const char *name);

#endif
