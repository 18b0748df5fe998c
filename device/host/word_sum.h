/* SPDX-License-Identifier: MIT */
/* Sums over words (core/base/digest.h) by all workers of a pool. */
#ifndef BP_DEVICE_HOST_WORD_SUM_H
#define BP_DEVICE_HOST_WORD_SUM_H

#include "device/host/kernel.h"
#include "device/host/pool.h"

/* bp_word_sum over `count` bytes, in pieces: integers, so nothing depends on who adds which, nor on
 * `words`, the form that takes whole words; NULL: bp_word_sum does. */
uint64_t bp_host_word_sum(bp_pool *pool, bp_host_words *words, const void *bytes, uint64_t count,
                          uint64_t from);

#endif
