/* SPDX-License-Identifier: MIT */
/* The host device's work moved elsewhere, and sums formed where bytes lie: for steps that are
 * computed again. */
#include <string.h>

#include "device/host/device_private.h"
#include "device/host/isa_table.h"
#include "device/host/word_sum.h"

uint32_t bp_host_device_processors(const void *memory, uint16_t *list, uint32_t most)
{
    const host_context *context = memory;
    const uint32_t count = context->pool.processors < most ? context->pool.processors : most;
    memcpy(list, context->pool.processor, count * sizeof *list);
    return count;
}

void bp_host_device_move(void *memory, const bp_device_move *to)
{
    host_context *context = memory;
    context->now = (uint8_t)bp_host_isa_other(context->form, to->form);
    bp_pool_move(&context->pool, to->first, to->count, to->turn);
}

bp_status bp_host_device_word_sum(void *memory, uint64_t place, uint64_t bytes, uint64_t from,
                                  uint64_t *sum)
{
    host_context *context = memory;
    const void *at = bp_host_device_reach(context, place, (size_t)bytes);
    if (at == NULL) {
        return BP_ERR_USAGE;
    }
    *sum = bp_host_word_sum(&context->pool, bp_host_isa_words(context->form), at, bytes, from);
    return BP_OK;
}
