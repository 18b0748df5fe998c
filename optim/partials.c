/* SPDX-License-Identifier: MIT */
/* Sums over units, gathered from ranks. */
#include "optim/partials.h"

#include "optim/clip.h"

static uint64_t partials_units(uint64_t elements)
{
    return bp_size_ceil_div(elements, BP_CLIP_CHUNK);
}

/* Units of what is ready that a rank owns. */
static uint64_t partials_owned(const bp_builder *builder, uint32_t rank)
{
    uint64_t units = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bool ready = builder->parameters[i].ready;
        units += ready ? partials_units(bp_build_ready_share(builder, i, rank).count) : 0;
    }
    return units;
}

void bp_partials_begin(bp_builder *builder, bp_partials *partials, uint64_t width)
{
    const uint32_t ranks = builder->spec->ranks;
    *partials = (bp_partials){.width = width};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const uint64_t units = partials_owned(builder, rank);
        partials->room = units > partials->room ? units : partials->room;
    }
    if (partials->room == 0) {
        return;
    }
    partials->own = bp_build_carried(builder, BP_CLASS_WORKSPACE, BP_F64, partials->room, width,
                                     "own_partials");
    partials->all = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F64, ranks,
                                    bp_size_mul(partials->room, width), "all_partials");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        partials->at[rank] = rank * partials->room;
    }
}

bp_ref bp_partials_own(const bp_builder *builder, bp_partials *partials, uint32_t index)
{
    const uint64_t first = partials->formed;
    partials->formed +=
        partials_units(bp_build_ready_share(builder, index, builder->spec->rank).count);
    return bp_ref_at(partials->own, first * partials->width);
}

void bp_partials_gather(bp_builder *builder, bp_partials *partials)
{
    if (partials->room > 0) {
        bp_build_gather(builder, partials->all, partials->own,
                        partials->room * partials->width * sizeof(double));
    }
}

/* Doubles are copied as pairs of words. */
void bp_partials_place(bp_builder *builder, bp_partials *partials, uint32_t index, bp_ref to)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t end = parameter->ready_first + parameter->ready_count;
    for (uint64_t next = parameter->ready_first; next < end && builder->status == BP_OK;) {
        const uint32_t rank = bp_shards_owner(&builder->shards, index, parameter->count, next);
        const bp_share share = bp_build_ready_share(builder, index, rank);
        const uint64_t units = partials_units(share.count);
        const uint64_t unit = partials_units(next - parameter->ready_first);
        bp_ref y = bp_ref_at(to, unit * partials->width);
        bp_ref x = bp_ref_at(partials->all, partials->at[rank] * partials->width);
        y.dtype = x.dtype = BP_F32;
        bp_build_copy(builder, &(bp_copy_operands){.y = y, .x = x},
                      &(bp_copy_scalars){.count = (int64_t)(2 * units * partials->width)});
        partials->at[rank] += units;
        next = share.first + share.count;
    }
}
