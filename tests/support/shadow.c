/* SPDX-License-Identifier: MIT */
/* The walk. */
#include "tests/support/shadow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void shadow_open(shadow *s, const bp_emit *emit, const bp_spec *spec, uint64_t arena_bytes)
{
    *s = (shadow){.emit = emit, .spec = spec, .arena_bytes = arena_bytes};
    s->owner = malloc(arena_bytes * sizeof *s->owner);
    s->mark = calloc(arena_bytes, sizeof *s->mark);
    s->wrote = calloc(arena_bytes, sizeof *s->wrote);
    s->read = calloc(arena_bytes, sizeof *s->read);
    assert_non_null(s->owner);
    assert_non_null(s->mark);
    assert_non_null(s->wrote);
    assert_non_null(s->read);
}

void shadow_close(shadow *s)
{
    free(s->owner);
    free(s->mark);
    free(s->wrote);
    free(s->read);
}

static bool shadow_fault(shadow *s, const char *what, const char *where, const char *name)
{
    snprintf(s->fault, sizeof s->fault, "%s: %s %s", what, where, name);
    return false;
}

/* One operand as bytes: `rows` of `width` bytes. */
typedef struct reach {
    uint32_t buffer;
    uint64_t first; /* in the arena */
    uint64_t rows, width, pitch;
    bp_access access;
} reach;

static uint64_t reach_bytes(const reach *r)
{
    return r->rows * r->width;
}

static uint64_t reach_byte(const reach *r, uint64_t i)
{
    return r->first + i / r->width * r->pitch + i % r->width;
}

/* Where an operand lies; false when not inside its buffer. Absent ones have no rows. */
static bool find_reach(const shadow *s, const bp_op *op, uint32_t tuple, uint32_t position,
                       reach *out)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_ref *refs = s->graph->refs + op->operand + tuple * info->operand_count;
    const void *scalars = s->graph->scalars + op->scalar + tuple * info->scalar_count;
    const bp_ref ref = refs[position];
    bp_extent extents[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    *out = (reach){.rows = 0};
    if (!bp_ref_present(ref)) {
        return true;
    }
    info->extents(scalars, extents);
    const size_t element = bp_operand_element_bytes(info->operand[position].type, ref.dtype);
    bp_extent e = extents[position];
    if (info->operand[position].workspace) {
        for (uint32_t i = 0; i < info->operand_count; i++) {
            dtypes[i] = (uint8_t)refs[i].dtype;
        }
        e.rows = 1;
        e.width = s->spec->device->workspace(&s->spec->device_options, op->kernel, scalars, dtypes);
    }
    const bp_buffer *buffer = &s->graph->buffers[ref.buffer];
    if (e.rows == 0 || e.width == 0) {
        return true;
    }
    const uint64_t limit = s->arena_bytes;
    const uint64_t pitch = e.rows > 1 ? e.pitch : e.width;
    if (e.rows > limit || e.width > limit || pitch > limit || ref.offset > limit ||
        (e.rows > 1 && pitch < e.width) ||
        ref.offset + ((e.rows - 1) * pitch + e.width) * element > buffer->bytes) {
        return false;
    }
    *out =
        (reach){ref.buffer, buffer->offset + ref.offset, e.rows, e.width * element, pitch * element,
                e.access};
    return true;
}

static bool reads(bp_access access)
{
    return access == BP_ACCESS_READ || access == BP_ACCESS_READ_WRITE;
}

/* Whether what one operand writes is another's, too, and the row does not say that it may be. */
static bool clash(shadow *s, const bp_kernel_info *info, const reach *r, uint32_t a, uint32_t b)
{
    uint64_t shared = 0;
    s->marks++;
    for (uint64_t i = 0; i < reach_bytes(&r[a]); i++) {
        s->mark[reach_byte(&r[a], i)] = s->marks;
    }
    for (uint64_t i = 0; i < reach_bytes(&r[b]); i++) {
        shared += s->mark[reach_byte(&r[b], i)] == s->marks;
    }
    bool pair = false;
    for (uint32_t i = 0; i < info->in_place_count; i++) {
        const uint32_t *p = info->in_place[i];
        pair = pair || (p[0] == a && p[1] == b) || (p[0] == b && p[1] == a);
    }
    const bool same = shared == reach_bytes(&r[a]) && shared == reach_bytes(&r[b]);
    return shared > 0 && !(pair && same);
}

#define TUPLES_MOST 65536

/* Tuples of one op are worked on at the same time: whether another one of it than `now` has
 * touched a byte in a way that goes not with this access. */
static bool raced(const shadow *s, uint64_t byte, bp_access access, uint64_t now)
{
    const uint64_t op = now / TUPLES_MOST;
    const bool after_write = s->wrote[byte] / TUPLES_MOST == op && s->wrote[byte] != now;
    const bool after_read = s->read[byte] / TUPLES_MOST == op && s->read[byte] != now;
    return after_write || (after_read && access != BP_ACCESS_READ);
}

/* Notes what a tuple touches; false where another one does, too. */
static bool walk_race(shadow *s, const reach *r, uint64_t now)
{
    for (uint64_t i = 0; i < reach_bytes(r); i++) {
        const uint64_t byte = reach_byte(r, i);
        if (raced(s, byte, r->access, now)) {
            return false;
        }
        if (r->access == BP_ACCESS_READ) {
            const bool other =
                s->read[byte] / TUPLES_MOST == now / TUPLES_MOST && s->read[byte] != now;
            s->read[byte] = other ? now / TUPLES_MOST * TUPLES_MOST + TUPLES_MOST - 1 : now;
        } else {
            s->wrote[byte] = now;
        }
    }
    return true;
}

static bool walk_tuple(shadow *s, const bp_op *op, uint32_t tuple)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    reach r[BP_OPERANDS_MAX];
    for (uint32_t a = 0; a < info->operand_count; a++) {
        if (!find_reach(s, op, tuple, a, &r[a])) {
            return shadow_fault(s, "beyond its buffer", info->name, info->operand[a].name);
        }
        for (uint64_t i = 0; reads(r[a].access) && i < reach_bytes(&r[a]); i++) {
            if (s->owner[reach_byte(&r[a], i)] != r[a].buffer) {
                return shadow_fault(s, "reads what is not its buffer's contents", info->name,
                                    info->operand[a].name);
            }
        }
    }
    for (uint32_t a = 0; a < info->operand_count; a++) {
        for (uint32_t b = 0; b < info->operand_count; b++) {
            if (a != b && r[a].rows > 0 && r[b].rows > 0 && r[a].access != BP_ACCESS_READ &&
                clash(s, info, r, a, b)) {
                return shadow_fault(s, "written bytes are another operand's", info->name,
                                    info->operand[a].name);
            }
        }
    }
    for (uint32_t a = 0; a < info->operand_count && op->tuples > 1; a++) {
        if (!walk_race(s, &r[a], s->op * TUPLES_MOST + tuple)) {
            return shadow_fault(s, "tuples touch the same bytes", info->name,
                                info->operand[a].name);
        }
    }
    for (uint32_t a = 0; a < info->operand_count; a++) {
        for (uint64_t i = 0; r[a].access != BP_ACCESS_READ && i < reach_bytes(&r[a]); i++) {
            s->owner[reach_byte(&r[a], i)] =
                r[a].access == BP_ACCESS_SCRATCH ? SHADOW_NOBODY : r[a].buffer;
        }
    }
    return true;
}

static void own(shadow *s, uint32_t buffer)
{
    const bp_buffer *b = &s->graph->buffers[buffer];
    for (uint64_t i = 0; i < b->bytes; i++) {
        s->owner[b->offset + i] = buffer;
    }
}

static void disown(shadow *s, uint32_t buffer)
{
    const bp_buffer *b = &s->graph->buffers[buffer];
    for (uint64_t i = 0; i < b->bytes; i++) {
        if (s->owner[b->offset + i] == buffer) {
            s->owner[b->offset + i] = SHADOW_NOBODY;
        }
    }
}

static bool owned(shadow *s, uint32_t buffer)
{
    const bp_buffer *b = &s->graph->buffers[buffer];
    for (uint64_t i = 0; i < b->bytes; i++) {
        if (s->owner[b->offset + i] != buffer) {
            return shadow_fault(s, "contents are gone after a program", "",
                                bp_graph_name(s->graph, buffer));
        }
    }
    return true;
}

/* What the host downloads after a program: the result, or logits. */
static bp_ref host_reads(const shadow *s, uint32_t program)
{
    switch (program) {
    case BP_PROGRAM_PREFILL:
    case BP_PROGRAM_DECODE:
        return s->emit->logits;
    case BP_PROGRAM_STEP:
    case BP_PROGRAM_UPDATE:
    case BP_PROGRAM_EVAL:
        return s->emit->result;
    default:
        return BP_ABSENT;
    }
}

static bool in_group(uint32_t program)
{
    return program == BP_PROGRAM_MICRO_NEXT || program == BP_PROGRAM_UPDATE;
}

static void enter(shadow *s, uint32_t program)
{
    for (uint32_t i = 0; i < s->graph->used.buffers; i++) {
        const bp_buffer *b = &s->graph->buffers[i];
        const bool first = program == BP_PROGRAM_PREFILL || program == BP_PROGRAM_EVAL;
        if (b->scope == BP_SCOPE_PROGRAM ||
            (!in_group(program) && (b->scope == BP_SCOPE_GROUP || b->scope == BP_SCOPE_RESIDENT))) {
            disown(s, i);
        }
        /* A cache may hold anything before its first token: kernels read what was put there. */
        if ((b->filled && program != BP_PROGRAM_UPDATE) ||
            (b->scope == BP_SCOPE_CARRIED && first && b->lower < b->upper)) {
            own(s, i);
        }
    }
    if (bp_ref_present(host_reads(s, program)) && !in_group(program)) {
        disown(s, host_reads(s, program).buffer);
    }
    if (program == BP_PROGRAM_EVAL && bp_ref_present(s->emit->logits_kept)) {
        disown(s, s->emit->logits_kept.buffer);
    }
}

static bool leave(shadow *s, uint32_t program)
{
    for (uint32_t i = 0; i < s->graph->used.buffers; i++) {
        const bp_scope scope = s->graph->buffers[i].scope;
        if ((scope == BP_SCOPE_PERSISTENT || scope == BP_SCOPE_CONSTANT) && !owned(s, i)) {
            return false;
        }
    }
    if (bp_ref_present(host_reads(s, program)) && !owned(s, host_reads(s, program).buffer)) {
        return false;
    }
    return program != BP_PROGRAM_EVAL || !bp_ref_present(s->emit->logits_kept) ||
           owned(s, s->emit->logits_kept.buffer);
}

static bool walk(shadow *s, uint32_t program)
{
    if (s->graph->program_count[program] == 0) {
        return true;
    }
    enter(s, program);
    for (uint32_t i = 0; i < s->graph->program_count[program]; i++) {
        const bp_op *op = &s->graph->ops[s->graph->program_first[program] + i];
        s->op++;
        for (uint32_t t = 0; t < op->tuples; t++) {
            if (!walk_tuple(s, op, t)) {
                return false;
            }
        }
    }
    return leave(s, program);
}

static bool walk_group(shadow *s, uint32_t later)
{
    if (!walk(s, BP_PROGRAM_STEP) || !walk(s, BP_PROGRAM_MICRO_FIRST)) {
        return false;
    }
    for (uint32_t i = 0; i < later; i++) {
        if (!walk(s, BP_PROGRAM_MICRO_NEXT)) {
            return false;
        }
    }
    return walk(s, BP_PROGRAM_UPDATE);
}

bool shadow_walk(shadow *s, const bp_graph *graph, uint64_t arena_bytes)
{
    s->graph = graph;
    s->fault[0] = '\0';
    if (arena_bytes > s->arena_bytes) {
        shadow_close(s);
        shadow_open(s, s->emit, s->spec, arena_bytes);
        s->graph = graph;
    }
    for (uint64_t i = 0; i < s->arena_bytes; i++) {
        s->owner[i] = SHADOW_NOBODY;
    }
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_scope scope = graph->buffers[i].scope;
        if (scope == BP_SCOPE_PERSISTENT || scope == BP_SCOPE_CONSTANT) {
            own(s, i);
        }
    }
    return walk(s, BP_PROGRAM_INITIALIZE) && walk_group(s, 0) && walk_group(s, 2) &&
           walk(s, BP_PROGRAM_EVAL) && walk(s, BP_PROGRAM_PREFILL) && walk(s, BP_PROGRAM_DECODE) &&
           walk_group(s, 1) && walk(s, BP_PROGRAM_EVAL);
}
