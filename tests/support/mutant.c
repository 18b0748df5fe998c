/* SPDX-License-Identifier: MIT */
/* Listing faults, and planting one. */
#include "tests/support/mutant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *mutant_way_name(mutant_way way)
{
    static const char *const names[MUTANT_WAYS] = {"op dropped",     "op doubled",  "ops swapped",
                                                   "ref by element", "ref by row",  "ref by buffer",
                                                   "extent longer",  "shape by one"};
    return names[way];
}

typedef struct lister {
    mutant *list;
    uint32_t count;
    uint32_t room;
} lister;

static void list_add(lister *l, const mutant *m)
{
    if (l->count == l->room) {
        l->room = l->room == 0 ? 1024 : 2 * l->room;
        l->list = realloc(l->list, l->room * sizeof *l->list);
        assert_non_null(l->list);
    }
    l->list[l->count++] = *m;
}

static void list_both(lister *l, mutant m)
{
    m.by = 1;
    list_add(l, &m);
    m.by = -1;
    list_add(l, &m);
}

static void list_refs(lister *l, const bp_graph *graph, mutant m)
{
    const bp_op *op = &graph->ops[m.op];
    const uint32_t count = op->tuples * bp_kernel_describe(op->kernel)->operand_count;
    for (uint32_t i = 0; i < count; i++) {
        m.which = op->operand + i;
        if (!bp_ref_present(graph->refs[m.which])) {
            continue;
        }
        for (m.way = MUTANT_ELEMENT; m.way <= MUTANT_BUFFER; m.way++) {
            list_both(l, m);
        }
        m.way = MUTANT_EXTENT;
        list_add(l, &m);
    }
}

static void list_scalars(lister *l, const bp_graph *graph, mutant m)
{
    const bp_op *op = &graph->ops[m.op];
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    m.way = MUTANT_SCALAR;
    for (uint32_t i = 0; i < op->tuples * info->scalar_count; i++) {
        if (!info->scalar[i % info->scalar_count].real) {
            m.which = op->scalar + i;
            list_both(l, m);
        }
    }
}

mutant *mutant_list(const bp_graph *graph, uint32_t *count)
{
    lister l = {.count = 0};
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        for (uint32_t i = 0; i < graph->program_count[p]; i++) {
            mutant m = {.program = p, .op = graph->program_first[p] + i, .by = 1};
            for (m.way = MUTANT_DROP; m.way <= MUTANT_SWAP; m.way++) {
                if (m.way != MUTANT_SWAP || i + 1 < graph->program_count[p]) {
                    list_add(&l, &m);
                }
            }
            list_refs(&l, graph, m);
            list_scalars(&l, graph, m);
        }
    }
    *count = l.count;
    return l.list;
}

static void *room_for(size_t rows, size_t row_bytes)
{
    void *room = malloc(rows * row_bytes);
    assert_non_null(room);
    return room;
}

void mutant_copy(const bp_graph *original, bp_graph *copy, bp_error *error)
{
    *copy = *original;
    copy->error = error;
    copy->buffers = room_for(original->used.buffers, sizeof *copy->buffers);
    copy->ops = room_for((size_t)original->used.ops + 1, sizeof *copy->ops);
    copy->refs = room_for(original->used.refs, sizeof *copy->refs);
    copy->scalars = room_for(original->used.scalars, sizeof *copy->scalars);
}

void mutant_free(bp_graph *copy)
{
    free(copy->buffers);
    free(copy->ops);
    free(copy->refs);
    free(copy->scalars);
}

static void graph_reset(const bp_graph *original, bp_graph *copy)
{
    bp_graph fresh = *original;
    fresh.error = copy->error;
    fresh.buffers = copy->buffers;
    fresh.ops = copy->ops;
    fresh.refs = copy->refs;
    fresh.scalars = copy->scalars;
    *copy = fresh;
    *copy->error = (bp_error){.code = BP_OK};
    memcpy(copy->buffers, original->buffers, original->used.buffers * sizeof *copy->buffers);
    memcpy(copy->ops, original->ops, original->used.ops * sizeof *copy->ops);
    memcpy(copy->refs, original->refs, original->used.refs * sizeof *copy->refs);
    memcpy(copy->scalars, original->scalars, original->used.scalars * sizeof *copy->scalars);
}

/* Takes out the op (by -1), or puts it in once more. */
static void move_ops(bp_graph *graph, const mutant *m, int32_t by)
{
    bp_op *op = &graph->ops[m->op];
    const size_t behind = graph->used.ops - m->op - 1;
    if (by < 0) {
        memmove(op, op + 1, behind * sizeof *op);
    } else {
        memmove(op + 2, op + 1, behind * sizeof *op);
        op[1] = op[0];
    }
    graph->used.ops = (uint32_t)((int32_t)graph->used.ops + by);
    graph->program_count[m->program] = (uint32_t)((int32_t)graph->program_count[m->program] + by);
    for (uint32_t p = m->program + 1; p < BP_PROGRAM_COUNT; p++) {
        if (graph->program_count[p] > 0) {
            graph->program_first[p] = (uint32_t)((int32_t)graph->program_first[p] + by);
        }
    }
}

/* The extent of a ref's operand, and the bytes of its elements. */
static bp_extent extent_of(const bp_graph *graph, const mutant *m, size_t *element)
{
    const bp_op *op = &graph->ops[m->op];
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const uint32_t tuple = (m->which - op->operand) / info->operand_count;
    const uint32_t position = (m->which - op->operand) % info->operand_count;
    bp_extent extents[BP_OPERANDS_MAX];
    info->extents(graph->scalars + op->scalar + tuple * info->scalar_count, extents);
    *element = bp_operand_element_bytes(info->operand[position].type, graph->refs[m->which].dtype);
    return extents[position];
}

static uint64_t row_bytes(const bp_graph *graph, const mutant *m)
{
    size_t element = 0;
    const bp_extent extent = extent_of(graph, m, &element);
    const bp_buffer *buffer = &graph->buffers[graph->refs[m->which].buffer];
    const uint64_t last = buffer->rank > 0 ? buffer->shape[buffer->rank - 1] : 1;
    return extent.rows > 1 ? extent.pitch * element : last * bp_dtype_bytes(buffer->dtype);
}

static void shift_ref(bp_graph *graph, const mutant *m)
{
    size_t element = 0;
    bp_ref *ref = &graph->refs[m->which];
    (void)extent_of(graph, m, &element);
    const uint64_t bytes = m->way == MUTANT_ROW ? row_bytes(graph, m) : element;
    ref->offset = m->by > 0 ? ref->offset + bytes : ref->offset - bytes;
}

/* The buffer ends one element before the operand does. */
static void cut_buffer(bp_graph *graph, const mutant *m)
{
    size_t element = 0;
    const bp_extent extent = extent_of(graph, m, &element);
    const bp_ref *ref = &graph->refs[m->which];
    const uint64_t end = ref->offset + bp_extent_bytes(&extent, element);
    graph->buffers[ref->buffer].bytes = end >= element ? end - element : 0;
}

void mutant_plant(const bp_graph *original, const mutant *m, bp_graph *copy)
{
    graph_reset(original, copy);
    switch (m->way) {
    case MUTANT_DROP:
        move_ops(copy, m, -1);
        break;
    case MUTANT_DOUBLE:
        move_ops(copy, m, 1);
        break;
    case MUTANT_SWAP:
        copy->ops[m->op] = original->ops[m->op + 1];
        copy->ops[m->op + 1] = original->ops[m->op];
        break;
    case MUTANT_ELEMENT:
    case MUTANT_ROW:
        shift_ref(copy, m);
        break;
    case MUTANT_BUFFER:
        copy->refs[m->which].buffer =
            (copy->refs[m->which].buffer + copy->used.buffers + (uint32_t)m->by) %
            copy->used.buffers;
        break;
    case MUTANT_EXTENT:
        cut_buffer(copy, m);
        break;
    case MUTANT_SCALAR:
        copy->scalars[m->which].integer += m->by;
        break;
    case MUTANT_WAYS:
        break;
    }
}

void mutant_describe(const bp_graph *original, const mutant *m, char *to, size_t bytes)
{
    const bp_op *op = &original->ops[m->op];
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const char *what = "";
    uint32_t tuple = 0;
    if (m->way >= MUTANT_ELEMENT && m->way <= MUTANT_EXTENT) {
        tuple = (m->which - op->operand) / info->operand_count;
        what = info->operand[(m->which - op->operand) % info->operand_count].name;
    } else if (m->way == MUTANT_SCALAR) {
        tuple = (m->which - op->scalar) / info->scalar_count;
        what = info->scalar[(m->which - op->scalar) % info->scalar_count].name;
    }
    snprintf(to, bytes, "%s, op %u %s: %s%s%s %s (tuple %u)",
             bp_program_name((bp_program_kind)m->program),
             m->op - original->program_first[m->program], info->name, what,
             what[0] != '\0' ? ": " : "", mutant_way_name(m->way), m->by > 0 ? "+" : "-", tuple);
}
