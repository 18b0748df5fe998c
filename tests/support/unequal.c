/* SPDX-License-Identifier: MIT */
/* Pieces of every size, one of them empty. */
#include "tests/support/unequal.h"

#include <string.h>

#define STEP 100 /* bytes that a piece has more than the one before */
#define MOST (UNEQUAL_RANKS * UNEQUAL_RANKS * STEP)

static unsigned char unequal_byte(uint32_t rank, uint64_t i)
{
    return (unsigned char)(rank * 37 + i * 7 + i / 251);
}

/* What of a call's target is not as it should be. */
static int64_t unequal_wrong(const bp_fabric_transfer *transfer, uint32_t self, uint32_t size)
{
    const unsigned char *got = transfer->to;
    const bool gathers = transfer->call == BP_FABRIC_ALL_GATHER;
    const uint64_t first = gathers ? 0 : transfer->pieces[self].first;
    uint64_t whole = 0;
    int64_t wrong = 0;
    for (uint32_t m = 0; m < size; m++) {
        const uint64_t bytes = gathers ? transfer->pieces[m].bytes : transfer->bytes;
        const uint64_t at = gathers ? transfer->pieces[m].first : m * bytes;
        for (uint64_t i = 0; i < bytes; i++) {
            wrong += got[at + i] != unequal_byte(m, first + i);
        }
        whole += bytes;
    }
    for (uint64_t i = whole; i < MOST; i++) { /* and nothing else */
        wrong += got[i] != 0xee;
    }
    return wrong;
}

bp_status unequal_calls(const bp_fabric *fabric, void *context, bp_error *error, int64_t *wrong)
{
    unsigned char from[MOST], to[MOST];
    bp_fabric_piece pieces[UNEQUAL_RANKS];
    const uint32_t size = fabric->size(context);
    const uint32_t self = fabric->rank(context);
    uint64_t whole = 0;
    for (uint32_t i = 0; i < size; i++) {
        const uint32_t m = (i + 1) % size;
        pieces[m] = (bp_fabric_piece){whole, m * STEP};
        whole += m * STEP;
    }
    for (uint32_t i = 0; i < MOST; i++) {
        from[i] = unequal_byte(self, i);
    }
    bp_fabric_transfer transfer = {
        .ticket = 7, .bytes = self * STEP, .pieces = pieces, .to = to, .from = from};
    for (int call = BP_FABRIC_ALL_GATHER; call <= BP_FABRIC_EXCHANGE; call++) {
        memset(to, 0xee, sizeof to);
        transfer.call = (bp_fabric_call)call;
        BP_TRY(fabric->begin(context, &transfer, error));
        BP_TRY(fabric->wait(context, transfer.ticket, error));
        *wrong += unequal_wrong(&transfer, self, size);
    }
    return BP_OK;
}
