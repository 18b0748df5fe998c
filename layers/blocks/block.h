/* SPDX-License-Identifier: MIT */
/* What follows from a block's list of nodes (layers/nodes/node.h).
 *
 * Forward makes the values in the list's order. Backward goes through the nodes from the last to
 * the first; what a node's backward reads and the tape lacks is made just before, by the very calls
 * of forward, so that recomputed values are equal to the bit.
 *
 * A *kept set* says which values outlive forward: bit v of a mask is value v. A tape variant
 * (bp_model.variants) below BP_RECOMPUTE_ALL + 1 keeps all but the classes that its bits name, the
 * last keeps nothing, and BP_TAPE_SET | mask keeps the mask's values. */
#ifndef BP_LAYERS_BLOCK_H
#define BP_LAYERS_BLOCK_H

#include "layers/nodes/node.h"

/* Where a model that is made of blocks (bp_model.scratch: sizeof(bp_block)) writes the list of the
 * stage that it emits: 26 KB are not for the stack. */
static inline bp_block *bp_block_room(const bp_builder *builder)
{
    return builder->scratch;
}

/* Whether the list is one: known kinds, every input made by an earlier node, every value made once,
 * shapes that go with the kinds, an output, no node that runs once and is to be recomputed.
 * BP_ERR_USAGE with what is wrong, named by the value or the node's place. */
bp_status bp_block_check(const bp_block *block, bp_error *error) BP_MUST_CHECK;

/* Functions of bp_model for a stage that is this block. A list that bp_block_check refuses ends the
 * emission with its error, before anything runs. */
void bp_block_forward(bp_builder *builder, bp_stage_call *call, bp_block *block);
void bp_block_decode(bp_builder *builder, bp_stage_call *call, bp_block *block);

/* Writes gradients in the place of call->d_output where that spares a buffer. */
void bp_block_backward(bp_builder *builder, bp_stage_call *call, bp_block *block);

/* The values that a tape variant keeps. */
uint32_t bp_block_kept(const bp_block *block, uint32_t variant);

/* bp_model.tapes for such a stage: the kept sets of which none is both larger and slower to go back
 * from than another, as tape variants in increasing bytes; the first keeps nothing. Exact: all
 * subsets are looked at (statistics go with what is computed beside them where a block has more
 * than BP_BLOCK_CHOICES values that could be kept). Of more than are wanted those go whose bytes
 * lie nearest to their neighbours'. Returns how many. */
#define BP_BLOCK_CHOICES 13
uint32_t bp_block_tapes(bp_builder *builder, const bp_stage_call *call, bp_block *block,
                        const bp_tape_request *request, uint32_t *variants);

/* The name of a value by its slot; never NULL. */
const char *bp_block_slot_name(const bp_block *block, uint32_t slot);

/* What bp_model.self of a model of such blocks begins with: the list of the stage of a call. */
typedef struct bp_block_family {
    void (*list)(const bp_builder *builder, const bp_stage_call *call, bp_block *block);
} bp_block_family;

/* Its list in bp_block_room; and bp_model.tapes and bp_model.slot_name of it. */
bp_block *bp_block_family_list(bp_builder *builder, const bp_stage_call *call);
uint32_t bp_block_family_tapes(bp_builder *builder, const bp_stage_call *call,
                               const bp_tape_request *request, uint32_t *variants);
const char *bp_block_family_slot_name(const bp_spec *spec, uint32_t stage, uint32_t slot);

#endif
