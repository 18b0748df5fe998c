/* SPDX-License-Identifier: MIT */
/* bp_device: who executes linked programs. A const table of functions over a caller-owned context.
 *
 * Order of calls: open (starts threads or loads the driver; the only call that may allocate in the
 * system), link for each program, seal, then any number of upload, run, download, and close. After
 * seal nothing is allocated. Memory is addressed by places (core/ir/address.h): a space, and
 * bytes from the start of its arena; in the device arena a place is the number of these bytes. */
#ifndef BP_CORE_DEVICE_H
#define BP_CORE_DEVICE_H

#include "core/base/error.h"
#include "core/ir/device_options.h"
#include "core/ir/fabric.h"
#include "core/ops/kernel.h"
#include "core/ir/address.h"

#define BP_PROGRAMS_MAX 32 /* of all lengths of sequences */

/* One op with every operand placed. `offsets` holds operand_count places per tuple, in the order of
 * kernels.def, BP_OFFSET_ABSENT for an absent one; `scalars` holds scalar_count values per tuple,
 * laid out as bp_<kernel>_scalars; `dtypes` operand_count values of bp_dtype per tuple. Only rows
 * that begin or wait have operands outside the device arena, and poison, which undefines any. */

typedef struct bp_linked_op {
    bp_kernel kernel;
    uint32_t tuples; /* 1 for a plain op */
    const uint64_t *offsets;
    const void *scalars;
    const uint8_t *dtypes;
    uint64_t table; /* place of the op's table; BP_OFFSET_ABSENT where the device keeps none */
} bp_linked_op;

typedef struct bp_linked_program {
    const bp_linked_op *ops;
    uint32_t count;
} bp_linked_program;

/* Whether an op of the fabric's engine has pieces that differ in size, and its row of them, by
 * member: it lies among the scalars of the graph. */
bool bp_fabric_has_pieces(bp_kernel kernel);
const bp_fabric_piece *bp_fabric_pieces_of(const void *scalars);

/* The call of a fabric that an op of its engine begins, with its operands as addresses. */
bp_fabric_transfer bp_fabric_transfer_of(bp_kernel kernel, const void *scalars, void *to,
                                         const void *from);

/* Whether an op, if it is one of the fabric engine, can be done over these places: its group has as
 * many ranks as the op was made for. BP_ERR_USAGE with both numbers. For bp_device.link. */
bp_status bp_fabric_check(const bp_regions *regions, const bp_linked_op *op,
                          bp_error *error) BP_MUST_CHECK;

/* Where the same work is done, for steps that are computed again. All 0: as opened. */
typedef struct bp_device_move {
    uint32_t form;  /* 1, 2: other kernels with equal bits, as far as there are some */
    uint32_t first; /* of the processors that the device may use, the first that is used, */
    uint32_t count; /* and how many; 0: all of them, as the system likes */
    uint32_t turn;  /* workers run so many of them further on than the calling thread does now */
} bp_device_move;

struct bp_device {
    const char *name; /* "host", "cuda" */

    /* Every sum over rows goes row after row, in every form and type: rows of zeros among them
     * change nothing, and masks follow step.mask_span. */
    bool sums_by_row;

    /* Gradients of attention may take the place of queries, keys and values
     * (attention_backward_over). */
    bool attention_over;

    /* Copies reach the offload tier (core/ir/tier.h). */
    bool tier;

    /* Products read weights in GGUF's blocks (core/ops/blocks.h). */
    bool blocks;

    /* An op costs its launch: a small result that two ops would make again is kept for the second,
     * though the arena may take its bytes more. */
    bool launches;

    /* The least alignment of buffers that the forms asked for take: a pure function of the options,
     * so that a plan does not depend on the machine found. NULL: BP_ARENA_ALIGNMENT. */
    uint32_t (*alignment)(const bp_device_options *options);

    /* Bytes of the caller-owned context that the other calls take. */
    size_t context_bytes;

    /* Bytes of the kernel's workspace operand for these scalars and element types (one bp_dtype per
     * operand; NULL: all f32); a pure function of its arguments. BP_SIZE_INVALID when they make no
     * sense. */
    uint64_t (*workspace)(const bp_device_options *options, bp_kernel kernel, const void *scalars,
                          const uint8_t *dtypes);

    /* Whether it has the kernel for these element types (one bp_dtype per operand); a pure function
     * of its arguments. What it denies is refused when a plan is made, by name. NULL: it has all.
     */
    bool (*supports)(const bp_device_options *options, bp_kernel kernel, const uint8_t *dtypes);

    /* Bytes of host memory that link will need for a program of that many ops, operands and scalars
     * (sums over tuples): closed form, for the plan. */
    uint64_t (*link_bytes)(uint64_t ops, uint64_t operands, uint64_t scalars);

    /* Bytes of the constant table that a list op of that many tuples needs in the arena: a pure
     * function of its arguments, 0 for a kernel without one. NULL: the device has no tables. */
    uint64_t (*table_bytes)(bp_kernel kernel, uint32_t tuples);

    /* Opens the device over an arena per memory space. Those of the host device are the caller's
     * memory, aligned as the options say; an address is NULL where the device brings its own
     * memory, or the space has no bytes. `error` (NULL: none) and the fabric have to stay until
     * close: what the other calls find wrong is written there too. After a failure nothing is
     * open. */
    bp_status (*open)(void *context, const bp_device_options *options, const bp_regions *regions,
                      bp_error *error);

    /* Turns a program into addresses and launches, in `memory` of link_bytes(). The
     * bp_linked_program and what it points to stay the caller's and unchanged. `program` <
     * BP_PROGRAMS_MAX. */
    bp_status (*link)(void *context, uint32_t program, const bp_linked_program *linked,
                      void *memory, size_t bytes);

    bp_status (*seal)(void *context);

    /* Copies between the caller's memory and an arena, in order with runs. upload returns when
     * `from` may be reused; download when `to` is filled. BP_ERR_USAGE for bytes outside the space.
     */
    bp_status (*upload)(void *context, uint64_t place, const void *from, size_t bytes);
    bp_status (*download)(void *context, uint64_t place, void *to, size_t bytes);

    /* Where `bytes` bytes at a place are for the caller, who may read and write them between runs
     * instead of copying; NULL for bytes outside the space. The function is NULL where the caller
     * cannot reach them. */
    void *(*address)(const void *context, uint64_t place, size_t bytes);

    /* bp_four_blocks (core/ops/quantised.h) between runs, in the caller's memory, where the
     * device has a faster way to the same bits; NULL where it has none. */
    void (*four_blocks)(const void *context, int64_t form, const float *values, uint64_t blocks,
                        float *scales, uint8_t *codes);

    /* bp_random_normals (core/base/random.h) likewise. */
    void (*normals)(const void *context, uint64_t seed, uint32_t stream, uint64_t first,
                    uint64_t count, double deviation, float *to);

    /* Runs a linked program from its first op to its last. May return before it has ended; errors
     * then surface at the next download or wait. */
    bp_status (*run)(void *context, uint32_t program);

    /* The same of ops [first, first + count) of a program without asynchronous ops, as the others
     * do not matter now: of INITIALIZE, those of weights that nobody gives. Slower per op than run
     * where a device replays whole programs. BP_ERR_USAGE for ops that are not there. */
    bp_status (*run_ops)(void *context, uint32_t program, uint32_t first, uint32_t count);

    bp_status (*wait)(void *context);

    /* From the next run on the work is done elsewhere, to the same bits: by other kernels, on other
     * processors, cut otherwise. NULL: it can only be done again. */
    void (*move)(void *context, const bp_device_move *to);

    /* Numbers of the processors that `first` and `count` of a move count: the first `most` of them
     * go to `list`. Returns how many these are; 0: they cannot be chosen. NULL likewise. */
    uint32_t (*processors)(const void *context, uint16_t *list, uint32_t most);

    /* bp_word_sum (core/base/digest.h) over `bytes` bytes at a place of the device arena, formed
     * where they are; in order with runs, and there when it returns. NULL: the caller reads them.
     */
    bp_status (*word_sum)(void *context, uint64_t place, uint64_t bytes, uint64_t from,
                          uint64_t *sum);

    /* A short static text that names the kernel forms in use ("host avx512"); goes into
     * checkpoints.
     */
    const char *(*variant)(const void *context);

    /* Bytes of device memory in use as the device itself counts them, its driver's share included;
     * 0 when unknown. The host answers the arena's bytes. */
    uint64_t (*bytes_in_use)(const void *context);

    /* Ends threads, releases the driver. The arena's contents are gone afterwards on a GPU. */
    void (*close)(void *context);
};

#endif
