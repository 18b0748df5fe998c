/* SPDX-License-Identifier: MIT */
/* Operands of wgmma in shared memory: canonical layouts by descriptor (PTX ISA 9.1, 9.7.15.5), and
 * whether what lies there was written in that layout. */
#include "tools/ptxvm/exec/matrix.h"

#include <stdlib.h>

enum { CHUNK = VM_MAP_CHUNK, CORE = 8 /* rows of a core matrix */ };

/* Bits that a descriptor has no use for. */
#define RESERVED_BITS UINT64_C(0x3ff1c000c000c000)

static unsigned field(uint64_t descriptor, unsigned from)
{
    return (unsigned)(descriptor >> from & 0x3fff) << 4;
}

/* 0: none; else the bytes of a pattern's row. */
static unsigned span_of(uint64_t descriptor)
{
    static const unsigned spans[] = {0, 128, 64, 32};
    return spans[descriptor >> 62];
}

static vm_swizzle pattern_of(uint64_t descriptor)
{
    static const vm_swizzle patterns[] = {SZ_NONE, SZ_128, SZ_64, SZ_32};
    return patterns[descriptor >> 62];
}

/* The address of a piece: `line` runs over whole elements (M or N where pieces run along K, else
 * K), `piece` over pieces of 16 bytes. */
static uint32_t piece_address(const vm_matrix_operand *o, unsigned line, unsigned piece)
{
    const unsigned leading = field(o->descriptor, 16), stride = field(o->descriptor, 32);
    const unsigned span = span_of(o->descriptor);
    uint32_t address = field(o->descriptor, 0);
    if (span == 0) {
        const unsigned of_line = o->major ? leading : stride,
                       of_piece = o->major ? stride : leading;
        return address + line / CORE * of_line + line % CORE * CHUNK + piece * of_piece;
    }
    address += line / CORE * stride + line % CORE * span;
    if (o->major) {
        const unsigned across = span / CHUNK;
        address += piece / across * leading + piece % across * CHUNK;
    } else {
        address += piece * CHUNK;
    }
    return vm_swizzled(address, pattern_of(o->descriptor));
}

static unsigned line_count(const vm_matrix_operand *o)
{
    return o->major ? o->depth : o->rows;
}

static unsigned piece_count(const vm_matrix_operand *o)
{
    return (o->major ? o->rows : o->depth) * o->size / CHUNK;
}

static bool check_descriptor(vm_warp *warp, const vm_matrix_operand *o)
{
    if ((o->descriptor & RESERVED_BITS) != 0) {
        return vm_fail(warp, o->insn, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                       "the descriptor of %s has bits that mean nothing: 0x%llx", o->name,
                       (unsigned long long)o->descriptor);
    }
    return (o->descriptor >> 49 & 7) == 0 ||
           vm_fail(warp, o->insn, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                   "a base offset in a descriptor (of %s) is not there", o->name);
}

/* Nobody's, where there is no such shared memory: reading it is reported by itself. */
static const vm_tag *find_tag(const vm_block *block, uint32_t address)
{
    static const vm_tag none = {0, 0, 0};
    return address / CHUNK <= block->launch->shared_bytes / CHUNK ? &block->tags[address / CHUNK]
                                                                  : &none;
}

/* Pieces that one tensor copy wrote must follow one another as they did in its box. */
static bool check_tags(vm_warp *warp, const vm_matrix_operand *o, unsigned piece)
{
    const unsigned across =
        o->major && span_of(o->descriptor) != 0 ? span_of(o->descriptor) / CHUNK : UINT16_MAX;
    const unsigned first_piece = piece - piece % across;
    const vm_tag *first = find_tag(warp->block, piece_address(o, 0, first_piece));
    for (unsigned line = 0; line < line_count(o); line++) {
        const vm_tag *tag = find_tag(warp->block, piece_address(o, line, piece));
        const uint32_t wanted = first->chunk + line * first->width + (piece - first_piece);
        if (first->copy != 0 && tag->copy == first->copy && tag->chunk != wanted) {
            return vm_fail(warp, o->insn, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                           "the descriptor of %s does not fit what was copied there: line %u, "
                           "piece %u of it is piece %u of the box, not %u",
                           o->name, line, piece, tag->chunk, wanted);
        }
    }
    return true;
}

/* One piece, after every check. */
static const uint8_t *find_piece(vm_warp *warp, const vm_matrix_operand *o, unsigned line,
                                 unsigned piece)
{
    const uint32_t address = piece_address(o, line, piece);
    const uint8_t *data =
        vm_access(warp, o->insn, 0, VS_SHARED, address, CHUNK, VA_READ | VA_UNCHECKED);
    return data != NULL && vm_race_async_read(warp, o->insn, 0, warp->block, address, CHUNK) ? data
                                                                                             : NULL;
}

bool vm_matrix_gather(vm_warp *warp, const vm_matrix_operand *o, unsigned from, unsigned count,
                      uint8_t *bytes)
{
    const unsigned per = CHUNK / o->size;
    if (!check_descriptor(warp, o)) {
        return false;
    }
    const unsigned lines = o->major ? o->depth : count;
    const unsigned first_line = o->major ? 0 : from, first_piece = o->major ? from / per : 0;
    const unsigned pieces = (o->major ? count : o->depth) / per;
    for (unsigned p = 0; p < piece_count(o); p++) {
        if (!check_tags(warp, o, p)) {
            return false;
        }
    }
    for (unsigned p = 0; p < pieces; p++) {
        for (unsigned l = 0; l < lines; l++) {
            const uint8_t *data = find_piece(warp, o, first_line + l, first_piece + p);
            if (data == NULL) {
                return false;
            }
            if (!o->major) {
                memcpy(bytes + ((size_t)l * o->depth + (size_t)p * per) * o->size, data, CHUNK);
                continue;
            }
            for (unsigned e = 0; e < per; e++) {
                memcpy(bytes + (((size_t)p * per + e) * o->depth + l) * o->size,
                       data + (size_t)e * o->size, o->size);
            }
        }
    }
    return true;
}

void vm_matrix_reads(vm_warp *warp, const vm_matrix_operand *o)
{
    const uint32_t group = warp->index / VM_READERS;
    const vm_warpgroup *state = &warp->block->warpgroups[group];
    uint32_t least = UINT32_MAX, most = 0;
    for (unsigned l = 0; l < line_count(o); l++) {
        for (unsigned p = 0; p < piece_count(o); p++) {
            const uint32_t address = piece_address(o, l, p);
            least = address < least ? address : least;
            most = address > most ? address : most;
        }
    }
    const vm_reading reading = {.first = least,
                                .bytes = most + CHUNK - least,
                                .owner = group,
                                .group = state->committed[warp->index % VM_READERS] + 1,
                                .matrix = true,
                                .insn = o->insn};
    vm_reading_add(warp->block, &reading);
}

/* ---- registers ---- */

bool vm_matrix_touch(vm_warp *warp, const vm_insn *in)
{
    const vm_function *function = warp->function;
    for (unsigned i = 0; i < in->operands; i++) {
        const vm_operand *operand = &function->operands[in->first + i];
        if (operand->where != VW_REGISTER) {
            continue;
        }
        vm_mark *mark = vm_matrix_mark(warp, operand);
        mark->touched = warp->epoch;
        if (mark->group > warp->matrix_done) {
            return vm_fail(warp, in, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                           "a register that a wgmma in flight %s, before the wait for its group",
                           mark->source ? "reads" : "accumulates into");
        }
    }
    return true;
}

void vm_matrix_start(vm_warp *warp)
{
    const vm_launch *launch = warp->block->launch;
    warp->epoch = 1;
    warp->matrix_done = 0;
    warp->matrix_fenced = false;
    warp->register_limit = 0;
    if (launch->function->matrix) {
        const size_t count = launch->register_bytes / 4;
        if (count > warp->mark_count || warp->mark_start == UINT32_MAX) {
            free(warp->marks);
            warp->marks = vm_allocate(count * sizeof(vm_mark));
            warp->mark_count = count;
            warp->mark_start = 0;
        }
        warp->mark_start++;
    }
    if (warp->index % VM_READERS == 0) {
        memset(&warp->block->warpgroups[warp->index / VM_READERS], 0, sizeof(vm_warpgroup));
    }
}

bool vm_matrix_finish(vm_block *block)
{
    for (uint32_t w = 0; w < block->warp_count; w++) {
        const vm_warp *warp = &block->warps[w];
        const vm_warpgroup *group = &block->warpgroups[w / VM_READERS];
        if (group->steps[w % VM_READERS] != group->latest) {
            return vm_fail(warp, NULL, VM_FULL, VM_ILLEGAL_INSTRUCTION,
                           "this warp executed fewer wgmma than others of its warpgroup");
        }
        if (group->committed[w % VM_READERS] != warp->matrix_done || warp->matrix_open) {
            return vm_fail(warp, NULL, VM_FULL, VM_LAUNCH_FAILED,
                           "wgmma that nobody has waited for at the block's end");
        }
    }
    return true;
}
