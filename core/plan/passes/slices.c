/* SPDX-License-Identifier: MIT */
/* Matrices that live in a file, brought in slices of whole rows by the products that read them.
 *
 * Rows of a stored matrix are columns of y = x W^T, each a product of its own, and terms of
 * dx = dy W, whose sums go on in fp32 from slice to slice, as those of one product do. Neither
 * changes a bit. The sums take rows * in floats where a gradient has 16 bits, so all matrices are
 * sliced or none is: the copies under way are as many as three of the largest, whatever it is. */
#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"
#include "core/plan/optimizer.h"

#define SLICE_LEAST ((uint64_t)4 << 20) /* bytes of a slice, about */
#define SLICE_MOST  ((uint64_t)16 << 20)
#define SLICE_NONE  ((uint64_t)1 << 62) /* no matrix has so many bytes */
#define SLICE_COUNT 2048 /* slices of all matrices that are worth the time to plan them */
#define SLICE_ROWS  64 /* rows of one are a multiple of this: of the terms of any product's tile */

static uint64_t slice_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Bytes of so many rows of a matrix, its codes alone where it is quantised. */
static uint64_t slice_bytes(const bp_builder *builder, const bp_parameter *p, uint64_t rows)
{
    const uint64_t count = bp_size_mul(rows, p->shape[1]);
    return p->quantised != BP_QUANTISED_NONE
               ? bp_quantised_codes(count, p->quantised)
               : bp_size_mul(count, bp_dtype_bytes(bp_build_type(builder->spec, p)));
}

/* Rows of which a slice has whole multiples: it begins with a block of scales, and where these have
 * scales, with a block of them. Powers of two. */
static uint64_t slice_unit(const bp_parameter *p)
{
    uint64_t unit = bp_quantised_four(p->quantised) ? bp_quantised_block(p->quantised) : 1;
    unit = bp_quantised_nests(p->quantised) ? unit * BP_NESTED_BLOCK : unit;
    for (uint64_t width = p->shape[1]; unit > 1 && width % 2 == 0; width /= 2) {
        unit /= 2;
    }
    return slice_larger(unit, SLICE_ROWS);
}

/* Rows of each slice but the last, which have at most `bytes` bytes where a unit has no more, and
 * are about as many in each: what is smaller than the largest slice fits where that was. The
 * matrix's own: it is one. */
static uint64_t slice_each(const bp_builder *builder, const bp_parameter *p, uint64_t bytes)
{
    const uint64_t all = p->shape[0], unit = slice_unit(p);
    const uint64_t units = bytes / slice_bytes(builder, p, unit);
    const uint64_t most = bp_size_mul(units > 0 ? units : 1, unit);
    if (most >= all) {
        return all;
    }
    return bp_size_align(bp_size_ceil_div(all, bp_size_ceil_div(all, most)), unit);
}

/* Whether parameter `index` is a matrix that products of dense layers alone read. */
static bool slice_takes(const bp_builder *builder, uint32_t index)
{
    const bp_parameter *p = &builder->parameters[index];
    const bp_optimizer *rule = builder->spec->optimizer;
    const bool averaged = p->trainable && rule != NULL && rule->average != NULL;
    return p->offloaded && !averaged && !p->input_major && p->quantised != BP_QUANTISED_FP8 &&
           bp_adapter_dense(builder, index);
}

/* What is brought at once with slices of so many bytes: the largest of it. */
static uint64_t slice_largest(const bp_builder *builder, uint64_t bytes)
{
    const bp_spec *spec = builder->spec;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *p = &builder->parameters[i];
        const bool whole = p->gradient_offloaded && !spec->gradient_int8;
        const uint64_t gradient = whole ? bp_size_mul(p->count, bp_dtype_bytes(spec->gradient)) : 0;
        uint64_t own = 0;
        if (slice_takes(builder, i)) {
            own = slice_bytes(builder, p, slice_each(builder, p, bytes));
        } else if (p->offloaded && !p->embedding && p->head != BP_HEAD_OUTPUT) {
            own = p->quantised != BP_QUANTISED_NONE
                      ? bp_quantised_codes(p->count, p->quantised)
                      : bp_size_mul(p->count, bp_dtype_bytes(bp_build_type(spec, p)));
        }
        largest = slice_larger(largest, slice_larger(own, gradient));
    }
    return largest;
}

/* With a room, copies are kept from use to use: these are searched for among whole matrices, of
 * which there are fewer. */
static bool slice_free(const bp_offload *offload)
{
    return !offload->host && offload->room == 0;
}

/* On a GPU the order of a sum depends on how many terms a product has. Operands in 8 bits have a
 * scale for all terms of a row, magnitudes read whole matrices, and chunks of rows hold theirs. */
static bool slice_may(const bp_spec *spec)
{
    return slice_free(&spec->offload) && !spec->model->input_major &&
           spec->products != BP_PRODUCT_FP8 && !spec->lora.magnitudes && spec->sequence_chunk == 0;
}

void compile_slice_weights(bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    const uint64_t rows = bp_size_mul(spec->batch, spec->sequence);
    uint64_t total = 0, sums = 0;
    for (uint32_t i = 0; i < builder->parameter_count && slice_may(spec); i++) {
        const bp_parameter *p = &builder->parameters[i];
        if (slice_takes(builder, i)) {
            total = bp_size_add(total, slice_bytes(builder, p, p->shape[0]));
            sums = slice_larger(sums, bp_size_mul(rows * sizeof(float), p->shape[1]));
        }
    }
    if (total == 0) {
        return;
    }
    const uint64_t even = bp_size_ceil_div(total, SLICE_COUNT);
    const uint64_t bytes = even < SLICE_LEAST ? SLICE_LEAST : even > SLICE_MOST ? SLICE_MOST : even;
    const uint64_t whole = slice_largest(builder, SLICE_NONE);
    const uint64_t each = slice_largest(builder, bytes);
    const uint64_t flying = 1 + (uint64_t)spec->offload.ahead;
    const bool pays = bp_size_mul(2, sums) <= bp_size_mul(flying, whole - each);
    builder->passes.slice_bytes = pays ? bytes : 0;
}

bp_weight_slice bp_build_slice_first(const bp_builder *builder, uint32_t index)
{
    const uint64_t bytes = builder->passes.slice_bytes;
    if (builder->status != BP_OK || bytes == 0 || !slice_takes(builder, index)) {
        return (bp_weight_slice){0, 0};
    }
    const bp_parameter *p = &builder->parameters[index];
    const uint64_t rows = slice_each(builder, p, bytes);
    return (bp_weight_slice){0, p->acquired.held > 0 || rows == p->shape[0] ? 0 : rows};
}

bp_weight_slice bp_build_slice_next(const bp_builder *builder, uint32_t index,
                                    bp_weight_slice slice)
{
    const uint64_t first = slice.first + slice.rows;
    const uint64_t left = builder->parameters[index].shape[0] - first;
    return (bp_weight_slice){first, left < slice.rows ? left : slice.rows};
}

/* The scales of a slice's scales, behind what comes before all of them. */
static bp_ref slice_nested(bp_builder *builder, const bp_parameter *p, uint64_t first,
                           uint64_t count)
{
    const uint64_t head = BP_NESTED_SCALES * sizeof(float);
    const uint64_t all = bp_quantised_nested(count, p->quantised) * sizeof(float);
    const uint64_t before = bp_quantised_nested(first, p->quantised) * sizeof(float);
    const bp_ref to = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, all / sizeof(float), 1,
                                      "brought_nested");
    compile_bring_into(builder, to, p->nested, 0, head);
    compile_bring_into(builder, (bp_ref){to.buffer, BP_F32, head}, p->nested, before, all - head);
    return to;
}

bp_weight_brought bp_build_slice_bring(bp_builder *builder, uint32_t index, bp_weight_slice slice)
{
    const bp_weight_brought none = {BP_ABSENT, BP_ABSENT, BP_ABSENT};
    bp_weight_brought brought = none;
    if (builder->status != BP_OK) {
        return none;
    }
    const bp_parameter *p = &builder->parameters[index];
    const uint64_t width = p->shape[1], first = slice.first * width, count = slice.rows * width;
    const bool codes = p->quantised != BP_QUANTISED_NONE;
    brought.weight = bp_build_bring(builder, p->weight, slice_bytes(builder, p, slice.first),
                                    slice_bytes(builder, p, slice.rows),
                                    codes ? "brought_codes" : "brought_weight");
    brought.weight.dtype = codes ? BP_U8 : bp_build_type(builder->spec, p);
    if (codes && bp_quantised_scaled(p->quantised)) {
        brought.scales = bp_build_bring(
            builder, p->scales, bp_quantised_scales(slice.first, first, p->quantised),
            bp_quantised_scales(slice.rows, count, p->quantised), "brought_scales");
    }
    if (codes && bp_quantised_nests(p->quantised)) {
        brought.nested = slice_nested(builder, p, first, count);
    }
    return brought;
}
