/* SPDX-License-Identifier: MIT */
/* The digest of a planned graph. Fields are taken one by one, so neither padding nor the order of
 * members counts. */
#include <string.h>

#include "core/base/digest.h"
#include "core/ir/program.h"

static void add_words(bp_digest *digest, const uint64_t *words, size_t count)
{
    bp_digest_add(digest, words, count * sizeof *words);
}

static void graph_digest_add_buffer(bp_digest *digest, const bp_graph *graph, uint32_t index,
                                    bool placed)
{
    const bp_buffer *b = &graph->buffers[index];
    const uint64_t words[] = {(uint64_t)b->class_of,
                              (uint64_t)b->scope,
                              (uint64_t)b->dtype,
                              (uint64_t)b->space,
                              b->bytes,
                              (uint64_t)b->filled,
                              b->program,
                              b->lower,
                              b->upper,
                              placed ? b->offset : 0,
                              b->rank};
    add_words(digest, words, sizeof words / sizeof words[0]);
    add_words(digest, b->shape, b->rank);
    const char *name = bp_graph_name(graph, index);
    bp_digest_add(digest, name, strlen(name) + 1);
}

/* By its name: numbers move where kernels.def gets a row. */
static void add_kernel(bp_digest *digest, const bp_kernel_info *info)
{
    bp_digest_add(digest, info->name, strlen(info->name) + 1);
}

static void add_op(bp_digest *digest, const bp_graph *graph, const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const uint64_t tuples = op->tuples;
    add_kernel(digest, info);
    add_words(digest, &tuples, 1);
    for (uint32_t i = 0; i < op->tuples * info->operand_count; i++) {
        bp_ref ref = graph->refs[op->operand + i];
        const uint64_t place[] = {ref.buffer, (uint64_t)ref.dtype, ref.offset};
        add_words(digest, place, 3);
    }
    const bp_scalar *scalars = graph->scalars + op->scalar;
    bp_digest_add(digest, scalars, op->tuples * info->scalar_count * sizeof *scalars);
}

/* A call of the fabric, without what hangs on the rank: the bytes of its own piece, and where among
 * the scalars the pieces of all are. */
static void graph_digest_add_call(bp_digest *digest, const bp_graph *graph, const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_scalar *scalars = graph->scalars + op->scalar;
    add_kernel(digest, info);
    if (info->pending == BP_PENDING_WAIT) {
        bp_digest_add(digest, scalars, sizeof *scalars); /* the request */
    } else if (bp_fabric_has_pieces(op->kernel)) {
        const bp_gather_pieces_begin_scalars *s = (const void *)scalars;
        const uint64_t words[] = {(uint64_t)s->request, (uint64_t)s->ranks, (uint64_t)s->whole};
        add_words(digest, words, sizeof words / sizeof words[0]);
        bp_digest_add(digest, bp_fabric_pieces_of(s), (size_t)s->ranks * sizeof(bp_fabric_piece));
    } else {
        bp_digest_add(digest, scalars, info->scalar_count * sizeof *scalars);
    }
}

/* Of ranks that share out the state, each with parts of its own, what must be the same: the tensors
 * of the state, and the calls of the fabric. */
static void graph_digest_add_shared(bp_digest *digest, const bp_graph *graph)
{
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *b = &graph->buffers[i];
        if (b->scope == BP_SCOPE_PERSISTENT) {
            const uint64_t words[] = {(uint64_t)b->class_of, (uint64_t)b->dtype, b->part.whole};
            const char *name = bp_graph_name(graph, i);
            add_words(digest, words, sizeof words / sizeof words[0]);
            add_words(digest, b->shape, b->rank);
            bp_digest_add(digest, name, strlen(name) + 1);
        }
    }
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        if (bp_kernel_describe(graph->ops[i].kernel)->engine == BP_ENGINE_FABRIC) {
            graph_digest_add_call(digest, graph, &graph->ops[i]);
        }
    }
}

/* Whether an op is a call of a group of ranks, which have other parts of a sample than each other.
 */
static bool graph_digest_of_group(const bp_graph *graph, uint32_t i)
{
    const bp_op *op = &graph->ops[i];
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_all_gather_begin_scalars *s = (const void *)(graph->scalars + op->scalar);
    return info->engine == BP_ENGINE_FABRIC && info->pending == BP_PENDING_BEGIN && s->group != 0;
}

/* Whether a rank has parts of tensors, or does other ops than the others. */
static bool graph_digest_shares(const bp_graph *graph)
{
    bool shares = false;
    for (uint32_t i = 0; i < graph->used.buffers && !shares; i++) {
        shares = graph->buffers[i].part.whole > 0;
    }
    for (uint32_t i = 0; i < graph->used.ops && !shares; i++) {
        shares = bp_fabric_has_pieces(graph->ops[i].kernel) || graph_digest_of_group(graph, i);
    }
    return shares;
}

static uint64_t graph_digest_all(const bp_graph *graph, bool placed)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    for (uint32_t i = 0; i < BP_PROGRAM_COUNT; i++) {
        if (i >= BP_PROGRAM_VECTORS_FIRST && graph->program_count[i] == 0) {
            continue; /* these came later: a plan without them has the digest that it had */
        }
        const uint64_t words[] = {graph->program_first[i], graph->program_count[i]};
        add_words(&digest, words, 2);
    }
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        graph_digest_add_buffer(&digest, graph, i, placed);
    }
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        add_op(&digest, graph, &graph->ops[i]);
    }
    return bp_digest_end(&digest);
}

uint64_t bp_graph_digest(const bp_graph *graph)
{
    bp_digest digest;
    if (!graph_digest_shares(graph)) {
        return graph_digest_all(graph, true);
    }
    bp_digest_begin(&digest, 0);
    graph_digest_add_shared(&digest, graph);
    return bp_digest_end(&digest);
}

uint64_t bp_graph_programs_digest(const bp_graph *graph)
{
    return graph_digest_all(graph, false);
}
