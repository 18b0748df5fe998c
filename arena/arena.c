/* SPDX-License-Identifier: MIT */
/* An arena: carving and sealing one block of memory. */
#include "arena/arena.h"

void bp_arena_init(bp_arena *arena, void *memory, size_t size)
{
    *arena = (bp_arena){.memory = memory, .size = size};
}

bp_status bp_arena_carve(bp_arena *arena, size_t size, size_t alignment, void **out)
{
    *out = NULL;
    if (arena->sealed) {
        arena->refused++;
        return BP_ERR_SEALED;
    }
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        return BP_ERR_USAGE;
    }
    /* The address is what must be aligned, not the distance from the block's start. */
    uintptr_t next = (uintptr_t)arena->memory + arena->used;
    size_t padding = (size_t)(0 - next) & (alignment - 1);
    size_t left = arena->size - arena->used;
    if (padding > left || size > left - padding) {
        return BP_ERR_FIT;
    }
    *out = arena->memory + arena->used + padding;
    arena->used += padding + size;
    if (arena->used > arena->peak) {
        arena->peak = arena->used;
    }
    return BP_OK;
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
