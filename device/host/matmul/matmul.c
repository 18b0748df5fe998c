/* SPDX-License-Identifier: MIT */
/* Matrix products, plain form. */
#define BP_PLAIN(name) bp_host_##name

#include "device/host/matmul/plain_matmul.h"

void bp_matmul_coded(const bp_host_call *call, const bp_quantised_matrix *codes,
                     const int64_t columns[2])
{
    const product x = {.s = call->scalars,
                       .p = call->pointers,
                       .c = bp_call_type(call, 0),
                       .type = bp_call_type(call, 2),
                       .weights = codes,
                       .weight = quantised_weight};
    const size_t rows = (size_t)x.s->m, end = (size_t)columns[1];
    for (size_t i = 0; i < rows; i += TILE_ROWS) {
        for (size_t j = (size_t)columns[0]; j < end; j += TILE_COLUMNS) {
            const tile at = {i, j, least(rows - i, TILE_ROWS), least(end - j, TILE_COLUMNS)};
            tile_run(&x, &at);
        }
    }
}
