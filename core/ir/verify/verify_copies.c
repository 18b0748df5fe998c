/* SPDX-License-Identifier: MIT */
/* Copies of what is offloaded, followed from the op that brings them to the last one that reads
 * them.
 */
#include "core/ir/verify/verify_copies.h"

#include <string.h>

/* A buffer as a copy; of one that is offloaded, `next` is its first copy. */
struct bp_copies_row {
    uint64_t first; /* bytes of `source` */
    uint64_t end;
    uint32_t source; /* BP_NO_BUFFER: it is no copy */
    uint32_t next;   /* of the same source */
    bool stale;      /* other bytes have been written there since */
    bool routed;     /* it has the experts of these runs of rows alone */
    bp_ref runs;
    uint32_t when;   /* `writes` of their buffer then */
    uint32_t writes; /* ops so far that write some of the buffer */
};

bp_copies_row *bp_verify_copies_take(bp_arena *memory, uint32_t buffers)
{
    return bp_arena_take(memory, buffers, sizeof(bp_copies_row));
}

static bool copies_offloaded(const bp_graph *graph, bp_ref ref)
{
    return graph->buffers[ref.buffer].space != BP_SPACE_DEVICE;
}

static void copies_forget(bp_copies_row *rows, uint32_t buffer)
{
    const uint32_t source = rows[buffer].source;
    uint32_t *at = &rows[source].next;
    if (source == BP_NO_BUFFER) {
        return;
    }
    while (*at != buffer) {
        at = &rows[*at].next;
    }
    *at = rows[buffer].next;
    rows[buffer] = (bp_copies_row){.writes = rows[buffer].writes};
}

/* Whether an extent at a ref is all of its buffer. */
static bool copies_whole(const bp_graph *graph, bp_ref ref, const bp_extent *extent, size_t element)
{
    const bool dense = extent->rows == 1 || extent->pitch == extent->width;
    return dense && ref.offset == 0 &&
           bp_extent_bytes(extent, element) >= graph->buffers[ref.buffer].bytes;
}

/* What is brought in pieces of one source is a copy of all of them; stale while a piece is. */
static void copies_bring(bp_copies_row *rows, uint32_t to, const bp_copies_row *from, bool all)
{
    bp_copies_row next = *from;
    const bp_copies_row *now = &rows[to];
    if (now->source == from->source && !all) {
        next.first = now->first < next.first ? now->first : next.first;
        next.end = now->end > next.end ? now->end : next.end;
        next.stale = now->stale;
    }
    copies_forget(rows, to);
    next.writes = rows[to].writes;
    next.next = rows[from->source].next;
    rows[from->source].next = to;
    rows[to] = next;
}

/* Bytes of a buffer are written to the offload tier. They are its own if they came from there. */
static void copies_write(bp_copies_row *rows, bp_ref from, uint32_t offload, uint64_t first,
                         uint64_t end)
{
    for (uint32_t i = rows[offload].next; i != BP_NO_BUFFER; i = rows[i].next) {
        const bool meets = rows[i].first < end && first < rows[i].end;
        const bool itself = i == from.buffer && rows[i].first + from.offset == first;
        rows[i].stale = rows[i].stale || (meets && !itself);
    }
}

/* An op that begins to copy from or to what is offloaded. */
static void copies_begin(const bp_graph *graph, const bp_op *op, const bp_extent *extents,
                         bp_copies_row *rows)
{
    const bp_ref to = graph->refs[op->operand], from = graph->refs[op->operand + 1];
    const bool whole = copies_whole(graph, to, &extents[0], 1);
    if (copies_offloaded(graph, to)) {
        copies_write(rows, from, to.buffer, to.offset, to.offset + bp_extent_bytes(&extents[0], 1));
    } else if (copies_offloaded(graph, from)) {
        bp_copies_row row = {.source = from.buffer,
                             .first = from.offset,
                             .end = from.offset + bp_extent_bytes(&extents[1], 1)};
        if (op->kernel == BP_KERNEL_experts_begin) {
            row.routed = true;
            row.runs = graph->refs[op->operand + 2];
            row.when = rows[row.runs.buffer].writes;
        }
        copies_bring(rows, to.buffer, &row, whole);
    } else if (whole) {
        copies_forget(rows, to.buffer);
    }
}

/* Whether an op goes by the runs of rows by which a copy was brought, and they are what they were.
 */
static bool copies_runs(const bp_copies_row *rows, const bp_copies_row *copy, const bp_ref *refs,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (refs[i].buffer == copy->runs.buffer && refs[i].offset == copy->runs.offset) {
            return rows[copy->runs.buffer].writes == copy->when;
        }
    }
    return false;
}

static bp_status copies_refuse(const bp_graph *graph, const char *text, uint32_t buffer)
{
    return bp_error_set(graph->error, BP_ERR_VERIFY, "verify", text, bp_graph_name(graph, buffer));
}

static bp_status copies_tuple(const bp_graph *graph, const bp_op *op, uint32_t tuple,
                              bp_copies_row *rows)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_ref *refs = graph->refs + op->operand + (size_t)tuple * info->operand_count;
    const bool copies = info->engine == BP_ENGINE_COPY;
    bp_extent extents[BP_OPERANDS_MAX];
    info->extents(graph->scalars + op->scalar + (size_t)tuple * info->scalar_count, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        const bp_access access = extents[i].access;
        const bool reads = access == BP_ACCESS_READ || access == BP_ACCESS_READ_WRITE;
        const bp_copies_row *copy = &rows[refs[i].buffer];
        if (!reads || info->pending == BP_PENDING_WAIT) {
            continue;
        }
        if (copy->stale) {
            return copies_refuse(graph, "a copy is read after what it was brought from has changed",
                                 refs[i].buffer);
        }
        if (copy->routed && !copies_runs(rows, copy, refs, info->operand_count)) {
            return copies_refuse(graph, "a copy of the experts of some rows is read for others",
                                 refs[i].buffer);
        }
    }
    for (uint32_t i = 0; i < info->operand_count && !copies; i++) {
        const size_t element =
            bp_operand_element_bytes(info->operand[i].type, (bp_dtype)refs[i].dtype);
        if (extents[i].access != BP_ACCESS_READ &&
            copies_whole(graph, refs[i], &extents[i], element)) {
            copies_forget(rows, refs[i].buffer);
        }
    }
    if (copies && info->pending == BP_PENDING_BEGIN) {
        copies_begin(graph, op, extents, rows);
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        rows[refs[i].buffer].writes += extents[i].access != BP_ACCESS_READ ? 1 : 0;
    }
    return BP_OK;
}

bp_status bp_verify_copies(const bp_graph *graph, uint32_t program, bp_copies_row *rows)
{
    const uint32_t first = graph->program_first[program];
    memset(rows, 0, graph->used.buffers * sizeof *rows);
    for (uint32_t i = first; i < first + graph->program_count[program]; i++) {
        const bp_op *op = &graph->ops[i];
        for (uint32_t t = 0; t < op->tuples; t++) {
            BP_TRY(copies_tuple(graph, op, t, rows));
        }
    }
    return BP_OK;
}
