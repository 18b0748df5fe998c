/* SPDX-License-Identifier: MIT */
/* Ops of the fabric engine as calls of a fabric. */
#include "core/ir/device.h"

static const char where[] = "fabric";

/* The rows begin with the same scalars. */
static bool fabric_call_of(bp_kernel kernel, bp_fabric_call *call)
{
    switch (kernel) {
    case BP_KERNEL_all_gather_begin:
    case BP_KERNEL_gather_pieces_begin:
        *call = BP_FABRIC_ALL_GATHER;
        return true;
    case BP_KERNEL_exchange_begin:
    case BP_KERNEL_exchange_pieces_begin:
        *call = BP_FABRIC_EXCHANGE;
        return true;
    case BP_KERNEL_broadcast_begin:
        *call = BP_FABRIC_BROADCAST;
        return true;
    default:
        return false;
    }
}

bool bp_fabric_has_pieces(bp_kernel kernel)
{
    return kernel == BP_KERNEL_gather_pieces_begin || kernel == BP_KERNEL_exchange_pieces_begin;
}

const bp_fabric_piece *bp_fabric_pieces_of(const void *scalars)
{
    const bp_gather_pieces_begin_scalars *s = scalars;
    const int64_t *row = scalars; /* 8 bytes each, as all scalars */
    return (const void *)(row - s->pieces);
}

bp_fabric_piece bp_fabric_piece_for(const bp_fabric_transfer *transfer, uint32_t member)
{
    if (transfer->call != BP_FABRIC_EXCHANGE) {
        return (bp_fabric_piece){0, transfer->bytes};
    }
    return transfer->pieces != NULL ? transfer->pieces[member]
                                    : (bp_fabric_piece){member * transfer->bytes, transfer->bytes};
}

bp_fabric_piece bp_fabric_piece_of(const bp_fabric_transfer *transfer, uint32_t member)
{
    if (transfer->call == BP_FABRIC_BROADCAST) {
        return (bp_fabric_piece){0, transfer->bytes};
    }
    const bool given = transfer->call == BP_FABRIC_ALL_GATHER && transfer->pieces != NULL;
    return given ? transfer->pieces[member]
                 : (bp_fabric_piece){member * transfer->bytes, transfer->bytes};
}

uint64_t bp_fabric_measure(const bp_fabric_transfer *transfer, uint32_t members)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; transfer->pieces != NULL && i < members; i++) {
        bytes += transfer->pieces[i].bytes;
    }
    return transfer->pieces != NULL ? bytes : transfer->bytes;
}

bp_fabric_transfer bp_fabric_transfer_of(bp_kernel kernel, const void *scalars, void *to,
                                         const void *from)
{
    const bp_broadcast_begin_scalars *broadcast = scalars;
    const bp_all_gather_begin_scalars *s = scalars;
    bp_fabric_transfer transfer = {.request = (uint32_t)s->request,
                                   .group = (uint32_t)s->group,
                                   .bytes = (uint64_t)s->bytes,
                                   .to = to,
                                   .from = from};
    (void)fabric_call_of(kernel, &transfer.call);
    if (transfer.call == BP_FABRIC_BROADCAST) {
        transfer.root = (uint32_t)broadcast->root;
    }
    transfer.pieces = bp_fabric_has_pieces(kernel) ? bp_fabric_pieces_of(scalars) : NULL;
    return transfer;
}

/* A row of pieces is of all ranks, and says which of them this one is. */
static bp_status fabric_check_member(const bp_regions *regions, const bp_linked_op *op,
                                     bp_error *error)
{
    const bp_gather_pieces_begin_scalars *s = op->scalars;
    const int64_t rank = regions->fabric != NULL ? regions->fabric->rank(regions->rank) : 0;
    if (s->group == 0 && s->member == rank) {
        return BP_OK;
    }
    return bp_error_numbers(error, BP_ERR_USAGE, where, "a program was made for another rank",
                            bp_kernel_describe(op->kernel)->name, rank, s->member);
}

bp_status bp_fabric_check(const bp_regions *regions, const bp_linked_op *op, bp_error *error)
{
    bp_fabric_call call;
    if (!fabric_call_of(op->kernel, &call)) {
        return BP_OK;
    }
    const char *name = bp_kernel_describe(op->kernel)->name;
    const bp_all_gather_begin_scalars *s = op->scalars;
    const bp_broadcast_begin_scalars *broadcast = op->scalars;
    int64_t members = s->group == 0 ? 1 : 0;
    if (regions->fabric != NULL) {
        bool small = s->group >= 0 && s->group <= UINT32_MAX;
        members = small ? regions->fabric->members(regions->rank, (uint32_t)s->group) : 0;
    }
    if (s->ranks != members || members == 0) {
        return bp_error_numbers(error, BP_ERR_USAGE, where,
                                "a program was made for another number of ranks in the group", name,
                                members, s->ranks);
    }
    if (call == BP_FABRIC_BROADCAST && (broadcast->root < 0 || broadcast->root >= members)) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "a broadcast begins at a rank that the group does not have", name,
                              broadcast->root, BP_LIMIT_MOST, members - 1);
    }
    return bp_fabric_has_pieces(op->kernel) ? fabric_check_member(regions, op, error) : BP_OK;
}
