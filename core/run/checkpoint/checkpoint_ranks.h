/* SPDX-License-Identifier: MIT */
/* Saving by several ranks: each writes its ranges of the same files.
 *
 * Rank 0 makes the temporary directory and the files; the others open them, and everybody writes
 * the runs of the tensors that are its own. The digest of a tensor goes from rank to rank with the
 * runs, as the hash's own state; so the files are those of one rank, byte for byte. Every file is
 * synced by each rank before rank 0 writes the headers and renames the directory. A rank that fails
 * tells all others at the end of its round, and all return its status; one that is lost ends the
 * others by the fabric's error. Either way the directory stays a temporary one. */
#ifndef BP_CORE_CHECKPOINT_RANKS_H
#define BP_CORE_CHECKPOINT_RANKS_H

#include "core/run/runtime.h"
#include "core/run/checkpoint/checkpoint.h"

/* What saving needs to know of the ranks. All functions are called with the same arguments in the
 * same order on every rank, but for read. */
typedef struct bp_checkpoint_ranks {
    uint32_t rank;
    uint32_t size;
    uint64_t stamp; /* rank 0's, another one for every save: by it the others know its directory */
    void *user;
    /* The rank that writes byte `offset` of a tensor, and the offset at which its run ends. */
    uint32_t (*owner)(void *user, const bp_state_tensor *tensor, uint64_t offset, uint64_t *end);
    /* Reads bytes of this rank's own runs. */
    bp_status (*read)(void *user, uint64_t handle, uint64_t offset, void *to, size_t bytes);
    /* Every rank gives `bytes` bytes, a multiple of 8, and gets all ranks' in their order. */
    bp_status (*gather)(void *user, const void *mine, uint64_t bytes, void *all);
} bp_checkpoint_ranks;

/* The ranks of a runtime that is open. Shared tensors are written by who owns them, others in equal
 * runs. */
bp_checkpoint_ranks bp_runtime_checkpoint_ranks(bp_runtime *runtime, uint64_t stamp);

/* Scratch bytes that saving by so many ranks needs beside bp_checkpoint_scratch. */
uint64_t bp_checkpoint_ranks_scratch(uint64_t tensors, uint32_t ranks);

/* bp_checkpoint_save by all ranks at once; rank 0's keys, further files and step count. `apart`: a
 * rank does not see the directory that rank 0 has made, or cannot write into it; nothing was saved
 * then, which is BP_OK. Errors as bp_checkpoint_save, the same status on every rank, with the rank
 * that failed and its store's code in place->store->code; BP_ERR_FABRIC. */
bp_status bp_checkpoint_save_ranks(const bp_checkpoint_location *location,
                                   const bp_checkpoint *checkpoint,
                                   const bp_checkpoint_ranks *ranks, uint64_t *digest,
                                   bool *apart) BP_MUST_CHECK;

#endif
