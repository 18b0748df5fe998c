/* SPDX-License-Identifier: MIT */
/* The program verifier: extents, order of writes and reads, overlaps. */
#include "core/program/verify.h"

#include <string.h>

#include "core/number/order.h"

/* What is known to be written of a buffer: up to SPANS separate byte ranges. A program that
 * scatters its writes wider than that is refused, which is safe. */
#define SPANS 4

static const char where[] = "verify";

typedef struct span {
    uint64_t first, last; /* [first, last); empty when equal */
} span;

typedef struct written {
    span spans[SPANS];
} written;

uint64_t bp_verify_scratch(const bp_graph *graph)
{
    uint64_t defined = bp_size_mul(graph->used.buffers, sizeof(written));
    uint64_t sweep = bp_size_mul(graph->used.buffers, 3 * sizeof(uint32_t));
    return (defined > sweep ? defined : sweep) + sizeof(uint64_t);
}

typedef struct checker {
    const bp_graph *graph;
    const bp_device *device;
    const bp_device_options *options;
    written *defined;
    uint32_t program; /* being checked */
} checker;

/* One operand of one tuple, with its bytes. */
typedef struct operand {
    bp_ref ref;
    bp_access access;
    span bytes;
} operand;

static bp_status refuse(const checker *check, const bp_kernel_info *info, uint32_t position,
                        const char *text)
{
    bp_status status =
        bp_error_set(check->graph->error, BP_ERR_VERIFY, where, text, info->operand[position].name);
    bp_error_prefix(check->graph->error, info->name);
    return status;
}

static void define_all(written *w, uint64_t bytes)
{
    *w = (written){{{0, bytes}}};
}

static bool is_defined(const written *w, span range)
{
    if (range.first == range.last) {
        return true;
    }
    for (int i = 0; i < SPANS; i++) {
        if (range.first >= w->spans[i].first && range.last <= w->spans[i].last) {
            return true;
        }
    }
    return false;
}

/* Adds a range, joining every span that it touches; the last slot is lost when all are in use. */
static void define(written *w, span range)
{
    written joined = {{{0, 0}}};
    int used = 0;
    for (int i = 0; i < SPANS; i++) {
        span s = w->spans[i];
        bool apart = s.last < range.first || s.first > range.last || s.first == s.last;
        if (!apart) {
            range.first = s.first < range.first ? s.first : range.first;
            range.last = s.last > range.last ? s.last : range.last;
        } else if (s.first != s.last && used < SPANS - 1) {
            joined.spans[used++] = s;
        }
    }
    joined.spans[used] = range;
    *w = joined;
}

static bool type_fits(bp_operand_type type, bp_dtype dtype)
{
    switch (type) {
    case BP_TYPE_ANY:
    case BP_TYPE_FLOAT:
        return dtype == BP_F32 || dtype == BP_BF16 || dtype == BP_F16;
    case BP_TYPE_F32:
        return dtype == BP_F32;
    case BP_TYPE_F64:
        return dtype == BP_F64;
    case BP_TYPE_I32:
        return dtype == BP_I32;
    case BP_TYPE_BYTE:
        break;
    }
    return true;
}

static void dtypes_of(const bp_kernel_info *info, const bp_ref *refs, uint8_t *dtypes)
{
    for (uint32_t i = 0; i < info->operand_count; i++) {
        dtypes[i] = (uint8_t)refs[i].dtype;
    }
}

/* Finds an operand's bytes and holds them against its buffer. */
static bp_status place_operand(const checker *check, const bp_op *op, uint32_t position,
                               const bp_extent *extent, const void *scalars, operand *out)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_operand_info *about = &info->operand[position];
    uint64_t bytes = bp_extent_bytes(extent, bp_operand_element_bytes(about->type, out->ref.dtype));
    if (about->workspace) {
        uint8_t dtypes[BP_OPERANDS_MAX];
        dtypes_of(info, check->graph->refs + op->operand, dtypes);
        bytes = check->device->workspace(check->options, op->kernel, scalars, dtypes);
    }
    out->access = extent->access;
    out->bytes = (span){0, 0};
    if (!bp_ref_present(out->ref)) {
        bool legal = about->workspace ? bytes == 0 : about->optional;
        return legal ? BP_OK : refuse(check, info, position, "a needed operand is absent");
    }
    if (!type_fits(about->type, out->ref.dtype)) {
        return refuse(check, info, position,
                      "an operand has an element type the row does not take");
    }
    const bp_buffer *buffer = &check->graph->buffers[out->ref.buffer];
    uint64_t end = bp_size_add(out->ref.offset, bytes);
    if (end > buffer->bytes) {
        return refuse(check, info, position, "an operand reaches beyond its buffer");
    }
    out->bytes = (span){out->ref.offset, end};
    return BP_OK;
}

static bool may_coincide(const bp_kernel_info *info, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < info->in_place_count; i++) {
        uint32_t p = info->in_place[i][0];
        uint32_t q = info->in_place[i][1];
        if ((p == a && q == b) || (p == b && q == a)) {
            return true;
        }
    }
    return false;
}

static bool writes(const operand *o)
{
    return o->access != BP_ACCESS_READ;
}

static bool touches(const operand *a, const operand *b)
{
    return a->ref.buffer == b->ref.buffer && a->bytes.first < b->bytes.last &&
           b->bytes.first < a->bytes.last;
}

/* Written bytes may belong to no other operand of the tuple, except in a pair that says so. */
static bp_status check_overlaps(const checker *check, const bp_kernel_info *info,
                                const operand *operands)
{
    for (uint32_t a = 0; a < info->operand_count; a++) {
        for (uint32_t b = 0; b < info->operand_count; b++) {
            bool clash = a != b && writes(&operands[a]) && bp_ref_present(operands[a].ref) &&
                         touches(&operands[a], &operands[b]);
            if (!clash) {
                continue;
            }
            bool same = operands[a].bytes.first == operands[b].bytes.first &&
                        operands[a].bytes.last == operands[b].bytes.last;
            if (!same || !may_coincide(info, a, b)) {
                return refuse(check, info, a, "a written operand overlaps another one");
            }
        }
    }
    return BP_OK;
}

static bp_status check_operand(const checker *check, const bp_kernel_info *info, uint32_t position,
                               const operand *o)
{
    if (!bp_ref_present(o->ref)) {
        return BP_OK;
    }
    /* Only the program that makes the first weights writes those that stay. */
    bool constant = check->graph->buffers[o->ref.buffer].scope == BP_SCOPE_CONSTANT &&
                    check->program != BP_PROGRAM_INITIALIZE;
    if (constant && writes(o)) {
        return refuse(check, info, position, "a constant buffer is written");
    }
    bool reads = o->access == BP_ACCESS_READ || o->access == BP_ACCESS_READ_WRITE;
    if (reads && !is_defined(&check->defined[o->ref.buffer], o->bytes)) {
        return refuse(check, info, position, "an operand is read before it is written");
    }
    return BP_OK;
}

/* All operands of the working type share it. */
static bp_status check_types(const checker *check, const bp_kernel_info *info, const bp_ref *refs)
{
    bool found = false;
    bp_dtype working = BP_F32;
    for (uint32_t i = 0; i < info->operand_count; i++) {
        if (info->operand[i].type != BP_TYPE_ANY || !bp_ref_present(refs[i])) {
            continue;
        }
        if (found && refs[i].dtype != working) {
            return refuse(check, info, i, "operands of the working type differ in it");
        }
        working = refs[i].dtype;
        found = true;
    }
    return BP_OK;
}

static bp_status check_tuple(const checker *check, const bp_op *op, uint32_t tuple)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_ref *refs = check->graph->refs + op->operand + tuple * info->operand_count;
    const void *scalars = check->graph->scalars + op->scalar + tuple * info->scalar_count;
    bp_extent extents[BP_OPERANDS_MAX];
    operand operands[BP_OPERANDS_MAX];
    info->extents(scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        operands[i].ref = refs[i];
        BP_TRY(place_operand(check, op, i, &extents[i], scalars, &operands[i]));
        BP_TRY(check_operand(check, info, i, &operands[i]));
    }
    BP_TRY(check_types(check, info, refs));
    BP_TRY(check_overlaps(check, info, operands));
    for (uint32_t i = 0; i < info->operand_count; i++) {
        bool gives = operands[i].access == BP_ACCESS_WRITE && bp_ref_present(operands[i].ref);
        if (gives) {
            define(&check->defined[operands[i].ref.buffer], operands[i].bytes);
        }
    }
    return BP_OK;
}

static bool defined_at_entry(const bp_buffer *buffer)
{
    return buffer->scope == BP_SCOPE_CONSTANT || buffer->scope == BP_SCOPE_PERSISTENT ||
           buffer->scope == BP_SCOPE_CARRIED || buffer->filled;
}

/* What a program may read from the start. Results and group buffers keep what earlier programs of
 * the same group wrote; everything else begins undefined. */
static void enter_program(const checker *check, uint32_t program)
{
    bool in_group = program == BP_PROGRAM_MICRO_NEXT || program == BP_PROGRAM_UPDATE;
    for (uint32_t i = 0; i < check->graph->used.buffers; i++) {
        const bp_buffer *buffer = &check->graph->buffers[i];
        bool kept =
            in_group && (buffer->scope == BP_SCOPE_GROUP || buffer->scope == BP_SCOPE_RESIDENT);
        if (defined_at_entry(buffer)) {
            define_all(&check->defined[i], buffer->bytes);
        } else if (!kept) {
            define_all(&check->defined[i], 0);
        }
    }
}

bp_status bp_verify(const bp_graph *graph, const bp_device *device,
                    const bp_device_options *options, void *scratch, uint64_t bytes)
{
    if (bytes < bp_verify_scratch(graph)) {
        return bp_error_set(graph->error, BP_ERR_FIT, where, "the scratch memory is too small",
                            NULL);
    }
    checker check = {.graph = graph, .device = device, .options = options, .defined = scratch};
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        if (graph->program_count[program] == 0) {
            continue;
        }
        check.program = program;
        enter_program(&check, program);
        for (uint32_t i = 0; i < graph->program_count[program]; i++) {
            const bp_op *op = &graph->ops[graph->program_first[program] + i];
            for (uint32_t t = 0; t < op->tuples; t++) {
                BP_TRY(check_tuple(&check, op, t));
            }
        }
    }
    return BP_OK;
}

static bool born_before(const void *user, uint32_t a, uint32_t b)
{
    const bp_buffer *buffers = user;
    if (buffers[a].lower != buffers[b].lower) {
        return buffers[a].lower < buffers[b].lower;
    }
    return a < b;
}

static bool dies_before(const void *user, uint32_t a, uint32_t b)
{
    const bp_buffer *buffers = user;
    if (buffers[a].upper != buffers[b].upper) {
        return buffers[a].upper < buffers[b].upper;
    }
    return a < b;
}

static bool misplaced(const bp_buffer *buffer, uint64_t arena_bytes)
{
    uint64_t end = bp_size_add(buffer->offset, buffer->bytes);
    return end > arena_bytes || buffer->offset % BP_ARENA_ALIGNMENT != 0;
}

/* The buffers alive at one time, in the order of their offsets. */
typedef struct living {
    const bp_buffer *buffers;
    uint32_t *row;
    uint32_t count;
} living;

/* How many of the living lie below an offset. */
static uint32_t living_below(const living *alive, uint64_t offset)
{
    uint32_t low = 0;
    uint32_t high = alive->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (alive->buffers[alive->row[middle]].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Lets a newborn buffer in, if it overlaps neither of its neighbours: since no two of the living
 * overlap, it overlaps nobody then. */
static bool let_in(living *alive, uint32_t newborn)
{
    const bp_buffer *buffer = &alive->buffers[newborn];
    uint32_t at = living_below(alive, buffer->offset);
    if (at > 0) {
        const bp_buffer *below = &alive->buffers[alive->row[at - 1]];
        if (below->offset + below->bytes > buffer->offset) {
            return false;
        }
    }
    if (at < alive->count &&
        buffer->offset + buffer->bytes > alive->buffers[alive->row[at]].offset) {
        return false;
    }
    memmove(alive->row + at + 1, alive->row + at, (alive->count - at) * sizeof *alive->row);
    alive->row[at] = newborn;
    alive->count++;
    return true;
}

static void let_go(living *alive, uint32_t dead)
{
    uint32_t at = living_below(alive, alive->buffers[dead].offset);
    alive->count--;
    memmove(alive->row + at, alive->row + at + 1, (alive->count - at) * sizeof *alive->row);
}

static bool takes_room(const bp_buffer *buffer)
{
    return buffer->lower < buffer->upper && buffer->bytes > 0;
}

bp_status bp_verify_plan(const bp_graph *graph, uint64_t arena_bytes, void *scratch, uint64_t bytes)
{
    if (bytes < bp_verify_scratch(graph)) {
        return bp_error_set(graph->error, BP_ERR_FIT, where, "the scratch memory is too small",
                            NULL);
    }
    uint32_t count = graph->used.buffers;
    uint32_t *births = scratch;
    uint32_t *deaths = births + count;
    living alive = {.buffers = graph->buffers, .row = deaths + count};
    uint32_t dead = 0;
    for (uint32_t i = 0; i < count; i++) {
        births[i] = i;
        deaths[i] = i;
    }
    bp_order(births, count, born_before, graph->buffers);
    bp_order(deaths, count, dies_before, graph->buffers);
    for (uint32_t i = 0; i < count; i++) {
        const bp_buffer *buffer = &graph->buffers[births[i]];
        if (misplaced(buffer, arena_bytes)) {
            return bp_error_set(graph->error, BP_ERR_VERIFY, where,
                                "a buffer lies outside the arena or is not aligned",
                                bp_graph_name(graph, births[i]));
        }
        for (; dead < count && graph->buffers[deaths[dead]].upper <= buffer->lower; dead++) {
            if (takes_room(&graph->buffers[deaths[dead]])) {
                let_go(&alive, deaths[dead]);
            }
        }
        if (takes_room(buffer) && !let_in(&alive, births[i])) {
            return bp_error_set(graph->error, BP_ERR_VERIFY, where,
                                "two live buffers overlap in the arena",
                                bp_graph_name(graph, births[i]));
        }
    }
    return BP_OK;
}
