/* SPDX-License-Identifier: MIT */
/* Saving and resuming the whole persistent state of a run.
 *
 * On disk a checkpoint is a directory OUTPUT/checkpoint-STEP:
 *     model.safetensors    the weights under their public names, so that other programs open it
 *     state.safetensors    everything else (moments, counters)
 *     further small files  (config.json, tokenizer.json) that the caller adds
 * Both tensor files carry in __metadata__ the digest of each tensor (xxh64.NAME), the step, the
 * caller's keys (key.NAME), and a digest of that metadata; state.safetensors also the digest of
 * each further file (file.NAME) and of the state. A checkpoint is valid when all of these agree
 * with what is read back; so no single changed byte of any of its files goes unnoticed.
 *
 * It is built as OUTPUT/tmp-checkpoint-STEP, every file synced, the directory synced, renamed, and
 * OUTPUT synced. A failure of any of these calls is never retried: the temporary directory is
 * abandoned where it is, and earlier checkpoints are as they were. When a checkpoint of the same
 * step is there, it is first renamed to old-checkpoint-STEP, under which it is found as long as the
 * new one is not; so at every moment either the old or the new one is valid. */
/* Installed as part of <bedplate/store.h>. */
#ifndef BP_CORE_CHECKPOINT_H
#define BP_CORE_CHECKPOINT_H

#include "arena/base.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/pair.h"
#include "core/base/store.h"

#define BP_CHECKPOINT_NAME_MAX 64  /* of a further file, with its terminator */
#define BP_CHECKPOINT_BLOBS    16  /* further files at most */
#define BP_CHECKPOINT_TENSOR   256 /* of a tensor's name, with its terminator */

/* One persistent buffer. A list of them is sorted by name as strcmp, without duplicates. */
typedef struct bp_state_tensor {
    const char *name;
    bp_dtype dtype;
    uint32_t rank; /* 4 at most */
    uint64_t shape[4];
    uint64_t bytes;  /* the product of the extents times the size of an element */
    uint64_t handle; /* what bp_state_io needs to find the bytes */
    bool weight;     /* true: model.safetensors; false: state.safetensors */
} bp_state_tensor;

/* Copies pieces between the tensors' memory (a device's, perhaps) and the host. Statuses other
 * than BP_OK are passed on. */
typedef struct bp_state_io {
    void *user;
    bp_status (*read)(void *user, uint64_t handle, uint64_t offset, void *to, size_t bytes);
    bp_status (*write)(void *user, uint64_t handle, uint64_t offset, const void *from,
                       size_t bytes);
} bp_state_io;

/* A further file. The name is a plain file name, not one of the two tensor files. */
typedef struct bp_blob {
    const char *name;
    const void *bytes;
    size_t length;
} bp_blob;

/* What is saved, or what a checkpoint must fit to be loaded. */
typedef struct bp_checkpoint {
    uint64_t step;
    const bp_state_tensor *tensors;
    size_t tensor_count;
    bp_pairs keys; /* names of up to 200 bytes, unique; names and values are UTF-8 */
    const bp_blob *blobs;
    size_t blob_count;
    bp_state_io io;
} bp_checkpoint;

/* Where checkpoints are, and the memory to work in. error may be NULL. */
typedef struct bp_checkpoint_location {
    bp_store *store;
    const char *directory; /* OUTPUT; save creates it if its parent is there */
    void *scratch;         /* any alignment */
    size_t scratch_bytes;  /* bp_checkpoint_scratch; reading foreign ones may need more */
    bp_staging staging;
    bp_error *error;
    uint64_t spare;       /* pruning leaves the checkpoint of this step where it is; 0: none */
    uint64_t verified;    /* and of this one */
    const uint64_t *back; /* and of this one, which may be 0; NULL: none */
} bp_checkpoint_location;

/* Scratch bytes that save, load, verify and find need for checkpoints of this form: closed form. */
uint64_t bp_checkpoint_scratch(const bp_checkpoint *checkpoint);

/* The exact bytes of the files of this checkpoint. Errors: those of bp_safetensors_layout, and
 * BP_ERR_USAGE for a list, blob or key outside the rules above. */
bp_status bp_checkpoint_bytes(const bp_checkpoint_location *location,
                              const bp_checkpoint *checkpoint, uint64_t *bytes) BP_MUST_CHECK;

/* Whether the medium has room for the next checkpoint, each file rounded up to 4096 bytes and 64
 * KiB for directories. BP_ERR_STORE with the numbers when it has not. */
bp_status bp_checkpoint_check_space(const bp_checkpoint_location *location,
                                    const bp_checkpoint *checkpoint) BP_MUST_CHECK;

/* Saves. *digest (may be NULL) becomes the state digest. BP_ERR_STORE names the call and the file
 * that failed; earlier checkpoints are valid whatever is returned. */
bp_status bp_checkpoint_save(const bp_checkpoint_location *location,
                             const bp_checkpoint *checkpoint, uint64_t *digest) BP_MUST_CHECK;

/* The state digest computed from memory, as save and verify give it. Needs only place->staging. */
bp_status bp_checkpoint_digest(const bp_checkpoint_location *location,
                               const bp_checkpoint *checkpoint, uint64_t *digest) BP_MUST_CHECK;

/* A checkpoint on the medium. */
typedef struct bp_checkpoint_found {
    char path[BP_STORE_PATH_MAX]; /* OUTPUT/checkpoint-STEP */
    uint64_t step;
    uint64_t digest; /* of the state */
} bp_checkpoint_found;

/* Reads a checkpoint directory completely and compares every digest. BP_ERR_DATA says what is
 * damaged or missing in which file; BP_ERR_STORE that the storage failed, which says nothing of the
 * checkpoint. */
bp_status bp_checkpoint_verify(const bp_checkpoint_location *location, const char *path,
                               bp_checkpoint_found *found) BP_MUST_CHECK;

/* Told of a checkpoint that is damaged, with the reason. */
typedef void (*bp_checkpoint_damaged)(void *user, const char *path, const bp_error *reason);

/* The newest checkpoint that bp_checkpoint_verify accepts. Damaged ones are reported to `damaged`
 * (may be NULL) and passed over. *any is false when there is none, which is BP_OK, as is an output
 * directory that does not exist. BP_ERR_FIT when one needs more scratch; BP_ERR_STORE when a call
 * of the storage failed: then a newer checkpoint may be there, so nobody may begin anew or from an
 * older one. */
bp_status bp_checkpoint_find(const bp_checkpoint_location *location, bp_checkpoint_damaged damaged,
                             void *user, bp_checkpoint_found *found, bool *any) BP_MUST_CHECK;

/* The keys that a checkpoint was saved with, sorted; they lie in the scratch until it is used
 * again. To be compared (bp_pairs_compare) before anything is loaded. */
bp_status bp_checkpoint_read_keys(const bp_checkpoint_location *location, const char *path,
                                  bp_pairs *keys) BP_MUST_CHECK;

/* Copies a checkpoint's tensors into memory through checkpoint->io. Names, types and shapes must be
 * exactly those of checkpoint->tensors, checked before anything is copied; digests are checked on
 * the way. BP_ERR_DATA after copying began leaves the memory partly overwritten. *digest (may be
 * NULL) becomes the state digest. checkpoint's keys, blobs and step are not looked at. */
bp_status bp_checkpoint_load(const bp_checkpoint_location *location, const char *path,
                             const bp_checkpoint *checkpoint, uint64_t *digest) BP_MUST_CHECK;

/* The first tensor by name whose bytes two checkpoints tell otherwise by their digests, or that
 * only one of them has; "" where there is none. Reads the files' headers; scratch as for both. */
bp_status bp_checkpoint_compare(const bp_checkpoint_location *location, const char *a,
                                const char *b, char name[BP_CHECKPOINT_TENSOR]) BP_MUST_CHECK;

/* Of the checkpoints whose step is not above `newest` (the one just saved) removes all but the last
 * `keep`, and place->spare, verified and *back besides; 0 keeps all. Later steps are left alone:
 * after a resume from an earlier checkpoint they are damaged ones, or another run's. Also removes
 * what was replaced or abandoned (old-*, tmp-*). Each checkpoint disappears by one rename before
 * its files are removed. */
bp_status bp_checkpoint_prune(const bp_checkpoint_location *location, uint64_t newest,
                              uint64_t keep) BP_MUST_CHECK;

/* Removes the checkpoints of later steps than `newest`, the newest valid one: what a search has
 * passed over as damaged. BP_CHECKPOINT_NONE as `newest` removes all of them. */
#define BP_CHECKPOINT_NONE UINT64_MAX
bp_status bp_checkpoint_prune_later(const bp_checkpoint_location *location,
                                    uint64_t newest) BP_MUST_CHECK;

#endif
