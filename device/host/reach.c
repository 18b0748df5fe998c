/* SPDX-License-Identifier: MIT */
/* Places of the host device: addresses in its arenas, bytes of the offload tier. */
#include <string.h>

#include "core/ir/tier.h"
#include "device/host/device_private.h"

/* Rows of a table in the offload tier. */
static bp_status tier_rows(const bp_regions *regions, const host_op *op, bp_error *error)
{
    const bp_rows_begin_scalars *s = op->tuples[0].scalars;
    const bp_rows_begin_pointers *p = op->tuples[0].pointers;
    const int32_t *ids = p->ids;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
        BP_TRY(regions->tier->read(regions->tier_context, BP_TIER_READ,
                                   (uintptr_t)p->from + (uint64_t)ids[row] * width,
                                   (char *)p->to + row * width, width, error));
    }
    return BP_OK;
}

/* Experts of a parameter in the offload tier: those that have rows, neighbours in one call. */
static bp_status tier_experts(const bp_regions *regions, const host_op *op, bp_error *error)
{
    const bp_experts_begin_scalars *s = op->tuples[0].scalars;
    const bp_experts_begin_pointers *p = op->tuples[0].pointers;
    const int32_t *runs = p->runs;
    const uint64_t width = (uint64_t)s->width, experts = (uint64_t)s->experts;
    for (uint64_t e = 0, end; e < experts; e = end) {
        for (end = e; end < experts && runs[end] < runs[end + 1]; end++) {
        }
        if (end > e) {
            BP_TRY(regions->tier->read(regions->tier_context, BP_TIER_READ,
                                       (uintptr_t)p->from + e * width, (char *)p->to + e * width,
                                       (end - e) * width, error));
        } else {
            end = e + 1;
        }
    }
    return BP_OK;
}

/* A copy from or to the offload tier, row by row. Its operands there are offsets. */
bp_status bp_host_device_tier(const host_context *context, const host_op *op, bp_error *error)
{
    const bp_regions *regions = &context->regions;
    const bp_copy_begin_scalars *s = op->tuples[0].scalars;
    const bp_copy_begin_pointers *p = op->tuples[0].pointers;
    const bool reads = op->engine == HOST_ENGINE_READ;
    if (op->number == BP_KERNEL_rows_begin) {
        return tier_rows(regions, op, error);
    }
    if (op->number == BP_KERNEL_experts_begin) {
        return tier_experts(regions, op, error);
    }
    for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
        const uint64_t to = row * (uint64_t)s->to_pitch, from = row * (uint64_t)s->from_pitch;
        const bp_status status =
            reads
                ? regions->tier->read(regions->tier_context, BP_TIER_READ,
                                      (uintptr_t)p->from + from, (char *)p->to + to,
                                      (uint64_t)s->width, error)
                : regions->tier->write(regions->tier_context, BP_TIER_WRITE, (uintptr_t)p->to + to,
                                       (const char *)p->from + from, (uint64_t)s->width, error);
        BP_TRY(status);
    }
    return BP_OK;
}

/* Where `bytes` bytes at a place are; NULL when they are not all in its space. */
static unsigned char *host_address(const host_context *context, uint64_t place, size_t bytes)
{
    uint32_t space = bp_address_space(place);
    uint64_t offset = bp_address_offset(place);
    if (space >= BP_SPACE_COUNT || space == BP_SPACE_OFFLOAD ||
        bp_size_add(offset, bytes) > context->regions.space[space].bytes) {
        return NULL;
    }
    return (unsigned char *)context->regions.space[space].address + offset;
}

void *bp_host_device_reach(const void *memory, uint64_t place, size_t bytes)
{
    return host_address(memory, place, bytes);
}

/* Whether so many bytes at a place are in the offload tier. */
static bool in_tier(const host_context *context, uint64_t place, size_t bytes)
{
    return bp_address_space(place) == BP_SPACE_OFFLOAD && context->regions.tier != NULL &&
           bp_size_add(bp_address_offset(place), bytes) <=
               context->regions.space[BP_SPACE_OFFLOAD].bytes;
}

bp_status bp_host_device_upload(void *memory, uint64_t place, const void *from, size_t bytes)
{
    const host_context *context = memory;
    if (in_tier(context, place, bytes)) {
        return context->regions.tier->write(context->regions.tier_context, BP_TIER_HAND,
                                            bp_address_offset(place), from, bytes, context->error);
    }
    unsigned char *to = host_address(memory, place, bytes);
    if (to == NULL) {
        return BP_ERR_USAGE;
    }
    memcpy(to, from, bytes);
    return BP_OK;
}

bp_status bp_host_device_download(void *memory, uint64_t place, void *to, size_t bytes)
{
    const host_context *context = memory;
    if (in_tier(context, place, bytes)) {
        return context->regions.tier->read(context->regions.tier_context, BP_TIER_HAND,
                                           bp_address_offset(place), to, bytes, context->error);
    }
    const unsigned char *from = host_address(memory, place, bytes);
    if (from == NULL) {
        return BP_ERR_USAGE;
    }
    memcpy(to, from, bytes);
    return BP_OK;
}
