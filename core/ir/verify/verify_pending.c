/* SPDX-License-Identifier: MIT */
/* Asynchronous work: that what an op began is left alone until another op has waited for it.
 *
 * Ops are walked in order, and each is held against the work in flight that names one of its
 * buffers, which rings of each buffer list; what an op touches is known as exactly as elsewhere in
 * the verifier (core/ir/written.h), workspaces excepted, which count to the end of their buffer. */
#include "core/ir/verify/verify_pending.h"

#include <string.h>

#include "core/ir/written.h"

#define PENDING_NONE UINT32_MAX

static const char where[] = "verify";

typedef enum pending_side { PENDING_TO, PENDING_FROM, PENDING_BESIDE, PENDING_SIDES } pending_side;

/* Work that was begun, by its request. */
struct bp_pending_row {
    uint32_t op;                  /* that began it; PENDING_NONE: it was waited for */
    uint32_t next[PENDING_SIDES]; /* in the ring of its target, its source, and what is beside */
    bp_span pages[PENDING_SIDES]; /* from the first to past the last byte of each */
};

bp_pending_rows bp_verify_pending_take(bp_arena *memory, const bp_graph_limits *used)
{
    bp_pending_rows rows = {.most = used->ops / 2};
    rows.begun = bp_arena_take(memory, (uint64_t)rows.most + 1, sizeof *rows.begun);
    for (uint32_t side = 0; side < PENDING_SIDES; side++) {
        rows.newest[side] = bp_arena_take(memory, used->buffers, sizeof *rows.newest[side]);
    }
    return rows;
}

/* Each ring goes from the newest to the oldest, which is waited for first. */
static void pending_add(const bp_pending_rows *rows, uint32_t side, uint32_t buffer,
                        uint32_t request)
{
    uint32_t *newest = &rows->newest[side][buffer];
    uint32_t *next = &rows->begun[request].next[side];
    *next = request;
    if (*newest != PENDING_NONE) {
        *next = rows->begun[*newest].next[side];
        rows->begun[*newest].next[side] = request;
    }
    *newest = request;
}

static void pending_remove(const bp_pending_rows *rows, uint32_t side, uint32_t buffer,
                           uint32_t request)
{
    uint32_t *newest = &rows->newest[side][buffer];
    const uint32_t next = rows->begun[request].next[side];
    uint32_t at = *newest;
    while (rows->begun[at].next[side] != request) {
        at = rows->begun[at].next[side];
    }
    rows->begun[at].next[side] = next;
    *newest = at == request ? PENDING_NONE : *newest == request ? at : *newest;
}

/* One operand of one tuple, with its bytes. */
typedef struct pending_operand {
    bool there;
    uint32_t buffer;
    bp_access access;
    bp_rectangle bytes;
} pending_operand;

/* Work between its begin and its wait. */
typedef struct pending {
    const bp_graph *graph;
    const bp_op *op;
    pending_operand to;
    pending_operand from;
    pending_operand beside; /* read as well, by some; else not there */
} pending;

static bp_status pending_refuse(const bp_graph *graph, const bp_op *op, const char *text)
{
    return bp_error_set(graph->error, BP_ERR_VERIFY, where, text,
                        bp_kernel_describe(op->kernel)->name);
}

static int64_t pending_request(const bp_graph *graph, const bp_op *op)
{
    return graph->scalars[op->scalar].integer;
}

static pending_operand pending_bytes(const bp_graph *graph, const bp_operand_info *about,
                                     bp_ref ref, const bp_extent *extent)
{
    pending_operand out = {.there = bp_ref_present(ref), .access = extent->access};
    if (!out.there) {
        return out;
    }
    out.buffer = ref.buffer;
    out.bytes =
        about->workspace
            ? bp_rectangle_flat(ref.offset, graph->buffers[ref.buffer].bytes - ref.offset)
            : bp_rectangle_of(extent, bp_operand_element_bytes(about->type, ref.dtype), ref.offset);
    return out;
}

/* The operands of one tuple; their number. */
static uint32_t pending_operands(const bp_graph *graph, const bp_op *op, uint32_t tuple,
                                 pending_operand operands[BP_OPERANDS_MAX])
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_ref *refs = graph->refs + op->operand + (size_t)tuple * info->operand_count;
    bp_extent extents[BP_OPERANDS_MAX];
    info->extents(graph->scalars + op->scalar + (size_t)tuple * info->scalar_count, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        operands[i] = pending_bytes(graph, &info->operand[i], refs[i], &extents[i]);
    }
    return info->operand_count;
}

/* b is work's target or source, which no row lets be absent. */
static bool pending_touches(const pending_operand *a, const pending_operand *b)
{
    return a->there && a->buffer == b->buffer && bp_rectangle_touch(&a->bytes, &b->bytes);
}

static bool pending_same(const pending_operand *a, const pending_operand *b)
{
    return a->buffer == b->buffer && bp_rectangle_equal(&a->bytes, &b->bytes);
}

/* Whether they share a page of storage: one thread reads there while another writes, which never
 * have the same page at one time (core/ir/tier.h). */
static bool pending_shares_page(const bp_graph *graph, const pending_operand *a,
                                const pending_operand *b)
{
    if (!a->there || a->buffer != b->buffer ||
        graph->buffers[a->buffer].space != BP_SPACE_OFFLOAD) {
        return false;
    }
    const bp_span one = bp_address_pages(bp_rectangle_span(&a->bytes));
    const bp_span other = bp_address_pages(bp_rectangle_span(&b->bytes));
    return one.first < other.end && other.first < one.end;
}

/* The pages from an operand's first to past its last byte: what it shares pages with. */
static bp_span pending_pages(const pending_operand *a)
{
    return bp_address_pages(bp_rectangle_span(&a->bytes));
}

/* The pages that an operand of an op may have in common with work in flight: of a copy, of which
 * parts of the same tensor mostly have none, what it moves. */
static bp_span pending_reach(const bp_graph *graph, const bp_op *op, uint32_t operand)
{
    const bp_span all = {0, UINT64_MAX};
    if (op->kernel != BP_KERNEL_copy_begin && op->kernel != BP_KERNEL_copy_wait) {
        return all;
    }
    const bp_copy_begin_scalars *s = (const void *)(graph->scalars + op->scalar);
    const uint64_t first = graph->refs[op->operand + operand].offset;
    const uint64_t pitch = (uint64_t)(operand == 0 ? s->to_pitch : s->from_pitch);
    const uint64_t end = first + (uint64_t)(s->rows - 1) * pitch + (uint64_t)s->width;
    return s->rows > 0 ? bp_address_pages((bp_span){first, end}) : all;
}

/* Holds a tuple of an op between begin and wait against the work in flight. */
static bp_status pending_check(const pending *f, const bp_op *op, uint32_t tuple)
{
    pending_operand operands[BP_OPERANDS_MAX];
    uint32_t count = pending_operands(f->graph, op, tuple, operands);
    for (uint32_t i = 0; i < count; i++) {
        if (pending_touches(&operands[i], &f->to)) {
            return pending_refuse(f->graph, op, "the target of work in flight is touched");
        }
        const bool reads = operands[i].access == BP_ACCESS_READ;
        if (!reads && pending_touches(&operands[i], &f->from)) {
            return pending_refuse(f->graph, op, "the source of work in flight is written");
        }
        if (!reads && f->beside.there && pending_touches(&operands[i], &f->beside)) {
            return pending_refuse(f->graph, op, "what work in flight reads beside is written");
        }
        if (pending_shares_page(f->graph, &operands[i], reads ? &f->to : &f->from)) {
            return pending_refuse(f->graph, op,
                                  "a page of storage is read and written at one time");
        }
    }
    return BP_OK;
}

static pending pending_of(const bp_graph *graph, uint32_t begin)
{
    pending f = {.graph = graph, .op = &graph->ops[begin]};
    pending_operand operands[BP_OPERANDS_MAX];
    (void)pending_operands(graph, f.op, 0, operands);
    f.to = operands[0];
    f.from = operands[1];
    f.beside.there = false;
    if (f.op->kernel == BP_KERNEL_experts_begin) { /* runs of rows, which ops write */
        f.beside = operands[2];
    }
    return f;
}

/* Holds a tuple against the work in flight in the ring of one of its buffers, of which it reaches
 * some pages. */
static bp_status pending_ring(const bp_graph *graph, const bp_pending_rows *rows, uint32_t side,
                              uint32_t operand, bp_span reach, const bp_op *op)
{
    const uint32_t count = bp_kernel_describe(op->kernel)->operand_count;
    const uint32_t newest = rows->newest[side][graph->refs[op->operand + operand].buffer];
    uint32_t at = newest;
    while (at != PENDING_NONE) {
        const bp_pending_row *row = &rows->begun[at];
        if (row->pages[side].first < reach.end && reach.first < row->pages[side].end) {
            const pending f = pending_of(graph, row->op);
            BP_TRY(pending_check(&f, op, operand / count));
        }
        at = row->next[side] == newest ? PENDING_NONE : row->next[side];
    }
    return BP_OK;
}

/* Holds an op against all work in flight that names one of its buffers. What a copy reads meets
 * nothing but targets: of one offloaded tensor many parts are on their way at a time. */
static bp_status pending_hold(const bp_graph *graph, const bp_pending_rows *rows, const bp_op *op)
{
    const uint32_t count = bp_kernel_describe(op->kernel)->operand_count;
    const bool copies = op->kernel == BP_KERNEL_copy_begin || op->kernel == BP_KERNEL_copy_wait;
    for (uint32_t i = 0; i < op->tuples * count; i++) {
        const bp_span reach = pending_reach(graph, op, i);
        const uint32_t sides = copies && i > 0 ? PENDING_FROM : PENDING_SIDES;
        for (uint32_t side = 0; side < sides; side++) {
            BP_TRY(pending_ring(graph, rows, side, i, reach, op));
        }
    }
    return BP_OK;
}

/* Holds a wait against its begin. */
static bp_status pending_end(const pending *f, const bp_op *wait)
{
    pending_operand operands[BP_OPERANDS_MAX];
    if (bp_kernel_describe(wait->kernel)->engine != bp_kernel_describe(f->op->kernel)->engine) {
        return pending_refuse(f->graph, wait, "a wait is for another engine than its begin");
    }
    (void)pending_operands(f->graph, wait, 0, operands);
    if (!pending_same(&operands[0], &f->to) || !pending_same(&operands[1], &f->from) ||
        (f->beside.there && !pending_same(&operands[2], &f->beside))) {
        return pending_refuse(f->graph, wait, "a wait has other operands than its begin");
    }
    return BP_OK;
}

/* What is read beside the source has to stay as it is until the work ends: runs of rows are held
 * against the ops between; all else is the host's. */
static bp_status pending_beside(const pending *f)
{
    const bp_kernel_info *info = bp_kernel_describe(f->op->kernel);
    for (uint32_t i = 2; !f->beside.there && i < info->operand_count; i++) {
        const bp_ref ref = f->graph->refs[f->op->operand + i];
        if (!f->graph->buffers[ref.buffer].filled) {
            return pending_refuse(f->graph, f->op, "work in flight reads what an op may write");
        }
    }
    return BP_OK;
}

/* Pieces that differ in size lie one behind the other, in the order of members from one of them on,
 * and are the whole; this rank's is as long as its own scalars say. */
static bp_status pending_pieces(const bp_graph *graph, const bp_op *op)
{
    const bp_gather_pieces_begin_scalars *s = (const void *)(graph->scalars + op->scalar);
    const uint64_t whole = (uint64_t)s->whole;
    const uint64_t rows = (uint64_t)s->ranks * BP_PIECE_SCALARS;
    if (s->pieces > op->scalar || rows > (uint64_t)s->pieces) {
        return pending_refuse(graph, op, "a row of pieces is not before its op");
    }
    const bp_fabric_piece *piece = bp_fabric_pieces_of(s);
    bool behind = piece[s->member].bytes == (uint64_t)s->bytes;
    uint64_t bytes = 0;
    for (int64_t i = 0; i < s->ranks; i++) {
        const bp_fabric_piece *next = &piece[i + 1 < s->ranks ? i + 1 : 0];
        const uint64_t end = bp_size_add(piece[i].first, piece[i].bytes);
        const bool turns = end == whole && next->first == 0;
        bytes = bp_size_add(bytes, piece[i].bytes);
        behind = behind && end <= whole && (turns || next->first == end);
    }
    /* None turns only where all are behind each other in a ring, that is, have no bytes. */
    return behind && bytes == whole
               ? BP_OK
               : pending_refuse(graph, op, "pieces are not one behind the other the whole");
}

/* An op begins work; requests count such ops. */
static bp_status pending_begin(const bp_graph *graph, const bp_pending_rows *rows, uint32_t at,
                               uint32_t *begun)
{
    const bp_op *op = &graph->ops[at];
    const pending f = pending_of(graph, at);
    if (pending_request(graph, op) != *begun) {
        return pending_refuse(graph, op, "a request is not the number of begins before it");
    }
    BP_TRY(bp_fabric_has_pieces(op->kernel) ? pending_pieces(graph, op) : BP_OK);
    BP_TRY(pending_beside(&f));
    BP_TRY(pending_hold(graph, rows, op));
    if (*begun > rows->most) { /* half of all ops wait at most */
        return pending_refuse(graph, op, "nothing waits for what an op began");
    }
    rows->begun[*begun] =
        (bp_pending_row){.op = at, .pages = {pending_pages(&f.to), pending_pages(&f.from)}};
    if (f.beside.there) {
        rows->begun[*begun].pages[PENDING_BESIDE] = pending_pages(&f.beside);
    }
    pending_add(rows, PENDING_TO, f.to.buffer, *begun);
    pending_add(rows, PENDING_FROM, f.from.buffer, *begun);
    if (f.beside.there) {
        pending_add(rows, PENDING_BESIDE, f.beside.buffer, *begun);
    }
    ++*begun;
    return BP_OK;
}

/* A wait has one begin before it and no other wait between them. */
static bp_status pending_wait(const bp_graph *graph, const bp_pending_rows *rows, uint32_t at,
                              uint32_t begun)
{
    const bp_op *op = &graph->ops[at];
    const int64_t request = pending_request(graph, op);
    if (request < 0 || request >= begun) {
        return pending_refuse(graph, op, "an op waits for what was not begun");
    }
    bp_pending_row *row = &rows->begun[request];
    if (row->op == PENDING_NONE) {
        return pending_refuse(graph, op, "an op waits a second time");
    }
    const pending f = pending_of(graph, row->op);
    BP_TRY(pending_end(&f, op));
    pending_remove(rows, PENDING_TO, f.to.buffer, (uint32_t)request);
    pending_remove(rows, PENDING_FROM, f.from.buffer, (uint32_t)request);
    if (f.beside.there) {
        pending_remove(rows, PENDING_BESIDE, f.beside.buffer, (uint32_t)request);
    }
    row->op = PENDING_NONE;
    return pending_hold(graph, rows, op);
}

/* What computes reaches the device arena only, or reads in place what nobody writes. That it does
 * not write there is bp_verify_graph's to say, which knows what an operand is for. */
static bp_status pending_spaces(const bp_graph *graph, const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    for (uint32_t i = 0; i < op->tuples * info->operand_count; i++) {
        const bp_ref ref = graph->refs[op->operand + i];
        const bp_space space = graph->buffers[ref.buffer].space;
        const bool fixed = graph->fixed && space == BP_SPACE_HOST;
        if (bp_ref_present(ref) && space != BP_SPACE_DEVICE && !fixed) {
            return pending_refuse(graph, op, "an op that computes has an operand in another space");
        }
    }
    return BP_OK;
}

bp_status bp_verify_pending(const bp_graph *graph, uint32_t program, bp_pending_rows *rows)
{
    uint32_t first = graph->program_first[program];
    uint32_t end = first + graph->program_count[program];
    uint32_t begun = 0;
    for (uint32_t side = 0; side < PENDING_SIDES; side++) {
        memset(rows->newest[side], 0xff, graph->used.buffers * sizeof *rows->newest[side]);
    }
    for (uint32_t i = first; i < end; i++) {
        const bp_op *op = &graph->ops[i];
        const bp_kernel_info *info = bp_kernel_describe(op->kernel);
        if (info->engine == BP_ENGINE_COMPUTE) {
            BP_TRY(pending_spaces(graph, op));
            BP_TRY(pending_hold(graph, rows, op));
            continue;
        }
        if (op->tuples != 1) {
            return pending_refuse(graph, op, "asynchronous work is no list");
        }
        BP_TRY(info->pending == BP_PENDING_WAIT ? pending_wait(graph, rows, i, begun)
                                                : pending_begin(graph, rows, i, &begun));
    }
    for (uint32_t i = 0; i < begun; i++) {
        if (rows->begun[i].op != PENDING_NONE) {
            return pending_refuse(graph, &graph->ops[rows->begun[i].op],
                                  "nothing waits for what an op began");
        }
    }
    return BP_OK;
}
