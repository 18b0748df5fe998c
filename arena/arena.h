/* SPDX-License-Identifier: MIT */
/* An arena: one block of caller-supplied memory that is allocated into pieces until it is sealed.
 *
 * One that only counts has no memory. What takes its parts from an arena is run with such a one to
 * learn how many bytes it needs, and once more with memory of so many: no second function repeats
 * the sizes, and nothing is added for safety. */
#ifndef BP_ARENA_ARENA_H
#define BP_ARENA_ARENA_H

#include "arena/base.h"

/* A plain record owned by the caller. Pieces are never given back one by one; bp_arena_rewind gives
 * back everything allocated since a mark, which is how scratch memory of init is reused. */
typedef struct bp_arena {
    unsigned char *memory;
    size_t size; /* bytes at memory */
    size_t used; /* bytes allocated so far, alignment padding included */
    size_t peak; /* the most `used` ever was */
    uint64_t
        refused; /* allocates that were asked for after the seal: each one is a programming error */
    bool sealed;
    bool counts;   /* there is no memory: pieces are NULL, and `used` is what they would take */
    size_t widest; /* the largest alignment that was asked for */
} bp_arena;

/* Takes over `size` bytes at `memory` (may be NULL when size is 0). Nothing is read or written
 * there. The memory stays the caller's and must outlive the arena. */
void bp_arena_init(bp_arena *arena, void *memory, size_t size);

/* Makes an arena that only counts: every piece is NULL and fits, until the sum is above SIZE_MAX,
 * which is BP_ERR_FIT from then on. */
void bp_arena_count(bp_arena *arena);

/* Bytes that hold all pieces counted so far, in their order and wherever the block begins: the
 * widest alignment is added, for its start. BP_SIZE_INVALID: more than there can be. */
uint64_t bp_arena_counted(const bp_arena *arena);

/* Allocates `size` bytes whose address is a multiple of `alignment`, a power of two, and stores
 * their address in *out; the bytes are not cleared. Zero bytes are legal. O(1). BP_ERR_SEALED after
 * the seal (counted in `refused`), BP_ERR_USAGE if alignment is not a power of two, BP_ERR_FIT if
 * the rest is too small; *out is NULL after any error and nothing is allocated. */
bp_status bp_arena_allocate(bp_arena *arena, size_t size, size_t alignment,
                            void **out) BP_MUST_CHECK;

/* Allocates `count` rows of `size` bytes each, as bp_arena_allocate does. BP_ERR_FIT where the
 * product is above SIZE_MAX; BP_SIZE_INVALID rows never fit. */
bp_status bp_arena_rows(bp_arena *arena, uint64_t count, size_t size, size_t alignment,
                        void **out) BP_MUST_CHECK;

/* Allocates `count` rows of `size` bytes each at a multiple of 8, padded to one, for callers that
 * have counted them: NULL where they do not fit, and from an arena that only counts. */
void *bp_arena_take(bp_arena *arena, uint64_t count, size_t size);

/* Bytes that a allocate of alignment 1 could still get. */
size_t bp_arena_left(const bp_arena *arena);

/* Gives back everything allocated since `used` had the value `mark`. BP_ERR_SEALED after the seal
 * (counted), BP_ERR_USAGE if the mark lies ahead of what is used. */
bp_status bp_arena_rewind(bp_arena *arena, size_t mark) BP_MUST_CHECK;

/* From here on every allocate and rewind fails. There is no way back but a new bp_arena_init. */
void bp_arena_seal(bp_arena *arena);

#endif
