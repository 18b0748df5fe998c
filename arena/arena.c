/* SPDX-License-Identifier: MIT */
/* An arena: allocating and sealing one block of memory. */
#include "arena/arena.h"

void bp_arena_init(bp_arena *arena, void *memory, size_t size)
{
    *arena = (bp_arena){.memory = memory, .size = size};
}

void bp_arena_count(bp_arena *arena)
{
    *arena = (bp_arena){.size = SIZE_MAX, .counts = true};
}

uint64_t bp_arena_counted(const bp_arena *arena)
{
    return arena->used == SIZE_MAX ? BP_SIZE_INVALID : bp_size_add(arena->used, arena->widest);
}

/* Finds the first place behind what is used for `wanted` bytes at an address of this alignment, as
 * a distance from the block's start; false: there is none. `make prove` proves it for every block
 * that does not reach past the last address. The address is what must be aligned, not the distance.
 */
static bool allocate_place(uint64_t memory, uint64_t size, uint64_t used, uint64_t wanted,
                           uint64_t alignment, uint64_t *place)
{
    uint64_t over = (memory + used) % alignment;
    uint64_t padding = over == 0 ? 0 : alignment - over;
    uint64_t left = size - used;
    if (padding > left || wanted > left - padding) {
        return false;
    }
    *place = used + padding;
    return true;
}

bp_status bp_arena_allocate(bp_arena *arena, size_t size, size_t alignment, void **out)
{
    *out = NULL;
    if (arena->sealed) {
        arena->refused++;
        return BP_ERR_SEALED;
    }
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        return BP_ERR_USAGE;
    }
    uint64_t place;
    if (!allocate_place((uintptr_t)arena->memory, arena->size, arena->used, size, alignment,
                        &place)) {
        arena->used = arena->counts ? SIZE_MAX : arena->used;
        return BP_ERR_FIT;
    }
    *out = arena->counts ? NULL : arena->memory + place;
    arena->widest = alignment > arena->widest ? alignment : arena->widest;
    arena->used = (size_t)place + size;
    if (arena->used > arena->peak) {
        arena->peak = arena->used;
    }
    return BP_OK;
}

bp_status bp_arena_rows(bp_arena *arena, uint64_t count, size_t size, size_t alignment, void **out)
{
    const uint64_t bytes = bp_size_mul(count, size);
    if (arena->counts && bytes >= SIZE_MAX) {
        arena->used = SIZE_MAX;
    }
    return bp_arena_allocate(arena, bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX, alignment, out);
}

void *bp_arena_take(bp_arena *arena, uint64_t count, size_t size)
{
    void *rows;
    const uint64_t bytes = bp_size_align(bp_size_mul(count, size), 8);
    const bp_status status = bp_arena_rows(arena, bytes, 1, 8, &rows);
    (void)status; /* NULL says it */
    return rows;
}

size_t bp_arena_left(const bp_arena *arena)
{
    return arena->size - arena->used;
}

bp_status bp_arena_rewind(bp_arena *arena, size_t mark)
{
    if (arena->sealed) {
        arena->refused++;
        return BP_ERR_SEALED;
    }
    if (mark > arena->used) {
        return BP_ERR_USAGE;
    }
    arena->used = mark;
    return BP_OK;
}

void bp_arena_seal(bp_arena *arena)
{
    arena->sealed = true;
}
