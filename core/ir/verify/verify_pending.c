/* SPDX-License-Identifier: MIT */
/* Asynchronous work: that what an op began is left alone until another op has waited for it.
 *
 * A begin is followed to its wait, and every op in between is held against it; what an op touches
 * is known as exactly as elsewhere in the verifier (core/ir/written.h), workspaces excepted,
 * which count to the end of their buffer. */
#include "core/ir/verify/verify_pending.h"

#include "core/ir/written.h"

static const char where[] = "verify";

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
    bp_span pages[2];       /* of both */
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

/* Whether a tuple names a buffer of the work at all: hardly any op does, and extents cost far more
 * than this to compute. */
static bool pending_names(const pending *f, const bp_op *op, uint32_t tuple)
{
    const uint32_t count = bp_kernel_describe(op->kernel)->operand_count;
    const bp_ref *refs = f->graph->refs + op->operand + (size_t)tuple * count;
    for (uint32_t i = 0; i < count; i++) {
        if (refs[i].buffer == f->to.buffer || refs[i].buffer == f->from.buffer ||
            (f->beside.there && refs[i].buffer == f->beside.buffer)) {
            return true;
        }
    }
    return false;
}

/* The pages from an operand's first to past its last byte: what it shares pages with. */
static bp_span pending_pages(const pending_operand *a)
{
    return bp_address_pages(bp_rectangle_span(&a->bytes));
}

/* Whether a copy has no page in common with the work in flight, which copies of parts of the same
 * tensor mostly have not: far cheaper to see than what each touches. */
static bool pending_apart(const pending *f, const bp_op *op)
{
    if (op->kernel != BP_KERNEL_copy_begin && op->kernel != BP_KERNEL_copy_wait) {
        return false;
    }
    const bp_copy_begin_scalars *s = (const void *)(f->graph->scalars + op->scalar);
    const pending_operand *work[2] = {&f->to, &f->from};
    for (uint32_t i = 0; i < 2; i++) {
        const bp_ref ref = f->graph->refs[op->operand + i];
        const uint64_t pitch = (uint64_t)(i == 0 ? s->to_pitch : s->from_pitch);
        const uint64_t end = ref.offset + (uint64_t)(s->rows - 1) * pitch + (uint64_t)s->width;
        const bp_span own = bp_address_pages((bp_span){ref.offset, end});
        for (uint32_t k = 0; k < 2; k++) {
            const bp_span other = f->pages[k];
            if (work[k]->buffer == ref.buffer && own.first < other.end && other.first < own.end) {
                return false;
            }
        }
    }
    return s->rows > 0;
}

/* Holds an op between begin and wait against the work in flight. */
static bp_status pending_check(const pending *f, const bp_op *op)
{
    pending_operand operands[BP_OPERANDS_MAX];
    for (uint32_t tuple = 0; tuple < op->tuples; tuple++) {
        if (!pending_names(f, op, tuple) || pending_apart(f, op)) {
            continue;
        }
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

static bool pending_waits_for(const bp_graph *graph, const bp_op *op, int64_t request)
{
    return bp_kernel_describe(op->kernel)->pending == BP_PENDING_WAIT &&
           pending_request(graph, op) == request;
}

/* What is read beside the source has to stay as it is until the work ends: runs of rows, which ops
 * write, are held against those between; all else is the host's. */
static bp_status pending_beside(pending *f, const pending_operand *operands)
{
    const bp_kernel_info *info = bp_kernel_describe(f->op->kernel);
    if (f->op->kernel == BP_KERNEL_experts_begin) {
        f->beside = operands[2];
        return BP_OK;
    }
    for (uint32_t i = 2; i < info->operand_count; i++) {
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

/* Follows the work that op number `begin` begins to its wait, before op number `end`. */
static bp_status pending_follow(const bp_graph *graph, uint32_t begin, uint32_t end)
{
    pending f = {.graph = graph, .op = &graph->ops[begin]};
    pending_operand operands[BP_OPERANDS_MAX];
    (void)pending_operands(graph, f.op, 0, operands);
    f.to = operands[0];
    f.from = operands[1];
    f.pages[0] = pending_pages(&f.to);
    f.pages[1] = pending_pages(&f.from);
    BP_TRY(pending_beside(&f, operands));
    for (uint32_t i = begin + 1; i < end; i++) {
        const bp_op *op = &graph->ops[i];
        if (pending_waits_for(graph, op, pending_request(graph, f.op))) {
            return pending_end(&f, op);
        }
        BP_TRY(pending_check(&f, op));
    }
    return pending_refuse(graph, f.op, "nothing waits for what an op began");
}

/* A wait has one begin before it and no other wait between them. */
static bp_status pending_origin(const bp_graph *graph, uint32_t first, uint32_t wait)
{
    const bp_op *op = &graph->ops[wait];
    int64_t request = pending_request(graph, op);
    for (uint32_t i = wait; i-- > first;) {
        const bp_op *before = &graph->ops[i];
        bp_pending kind = bp_kernel_describe(before->kernel)->pending;
        if (kind == BP_PENDING_NONE || pending_request(graph, before) != request) {
            continue;
        }
        return kind == BP_PENDING_BEGIN ? BP_OK
                                        : pending_refuse(graph, op, "an op waits a second time");
    }
    return pending_refuse(graph, op, "an op waits for what was not begun");
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

bp_status bp_verify_pending(const bp_graph *graph, uint32_t program)
{
    uint32_t first = graph->program_first[program];
    uint32_t end = first + graph->program_count[program];
    int64_t begun = 0;
    for (uint32_t i = first; i < end; i++) {
        const bp_op *op = &graph->ops[i];
        const bp_kernel_info *info = bp_kernel_describe(op->kernel);
        if (info->engine == BP_ENGINE_COMPUTE) {
            BP_TRY(pending_spaces(graph, op));
            continue;
        }
        if (op->tuples != 1) {
            return pending_refuse(graph, op, "asynchronous work is no list");
        }
        if (info->pending == BP_PENDING_WAIT) {
            BP_TRY(pending_origin(graph, first, i));
            continue;
        }
        if (pending_request(graph, op) != begun) {
            return pending_refuse(graph, op, "a request is not the number of begins before it");
        }
        begun++;
        BP_TRY(bp_fabric_has_pieces(op->kernel) ? pending_pieces(graph, op) : BP_OK);
        BP_TRY(pending_follow(graph, i, end));
    }
    return BP_OK;
}
