/* SPDX-License-Identifier: MIT */
/* The compact state that a trainer on a board keeps (device/host/trainer_state.h), as a checkpoint.
 */
#ifndef BP_BEDPLATE_BOARD_STATE_H
#define BP_BEDPLATE_BOARD_STATE_H

#include <stdbool.h>

#include "core/base/error.h"
#include "core/base/store.h"

/* What was made. */
typedef struct board_state_found {
    uint64_t step;
    uint64_t digest; /* of the state, as `bedplate verify` prints it */
    uint64_t bytes;
    uint32_t tensors;
} board_state_found;

/* Reads `from`, one slot or both of them one behind the other, of which the newest whole one is
 * taken, and saves TO/checkpoint-STEP; with config.json of the directory `model`, unless that is
 * NULL. Parts of the application are left out. BP_ERR_DATA: no state in it is whole, or it is of
 * another version, lacks frozen weights, or makes no sense. */
bp_status board_state_import(bp_store *store, const char *from, const char *model, const char *to,
                             board_state_found *found, bp_error *error) BP_MUST_CHECK;

/* The reverse: one slot in the file `to`, of a checkpoint's directory, for a trainer whose plan has
 * the same state in its arena; it is taken up without parts. BP_ERR_DATA: the checkpoint is
 * damaged. */
bp_status board_state_export(bp_store *store, const char *checkpoint, const char *to,
                             board_state_found *found, bp_error *error) BP_MUST_CHECK;

/* Says on stdout what was written there, in JSON or in words. */
void board_state_print(bool json, const char *path, const board_state_found *found);

#endif
