/* SPDX-License-Identifier: MIT */
/* Random calls of the rows that move bytes: what they are for one rank. */
#include "core/program/kernel.h"
#include "tests/support/kernel_random_update.h"

bool is_transfer(bp_kernel kernel)
{
    return bp_kernel_describe(kernel)->flight != BP_FLIGHT_NONE;
}

void draw_transfer(dice *d, bp_kernel kernel, any_scalars *s)
{
    int64_t bytes = roll(d, 0, 1) == 0 ? size(d, 300) : roll(d, 200000, 600000);
    int64_t width = size(d, 300);
    switch (kernel) {
    case BP_KERNEL_copy_begin:
    case BP_KERNEL_copy_wait:
        /* both have the same scalars */
        s->copy_begin = (bp_copy_begin_scalars){.rows = size(d, 60),
                                                .width = width,
                                                .to_pitch = width + roll(d, 0, 40),
                                                .from_pitch = width + roll(d, 0, 40)};
        break;
    case BP_KERNEL_rows_begin:
    case BP_KERNEL_rows_wait:
        s->rows_begin = (bp_rows_begin_scalars){
            .rows = size(d, 60), .width = 4 * size(d, 60), .vocabulary = roll(d, 1, 300)};
        break;
    case BP_KERNEL_fabric_wait:
        s->fabric_wait = (bp_fabric_wait_scalars){.to_bytes = bytes, .from_bytes = width};
        break;
    case BP_KERNEL_all_gather_begin:
        s->all_gather_begin = (bp_all_gather_begin_scalars){.ranks = 1, .bytes = bytes};
        break;
    case BP_KERNEL_exchange_begin:
        s->exchange_begin = (bp_exchange_begin_scalars){.ranks = 1, .bytes = bytes};
        break;
    case BP_KERNEL_gather_pieces_begin:
    case BP_KERNEL_exchange_pieces_begin:
        /* both have the same scalars */
        s->gather_pieces_begin =
            (bp_gather_pieces_begin_scalars){.ranks = 1, .bytes = bytes, .whole = bytes};
        break;
    default:
        s->broadcast_begin = (bp_broadcast_begin_scalars){.ranks = 1, .bytes = bytes};
        break;
    }
}
