/* SPDX-License-Identifier: MIT */
/* SHA-256 of much, by the processor's own rounds where it has them: files of gigabytes. */
#ifndef BP_DEVICE_HOST_SHA256_H
#define BP_DEVICE_HOST_SHA256_H

#include "core/base/sha256.h"

/* The same as bp_sha256_add, which is what runs where the processor has no instructions for it: 0.6
 * ns a byte instead of 3.4 (a loop of its own over 64 MiB, Sapphire Rapids class). */
void bp_host_sha256_add(bp_sha256 *sha, const void *bytes, size_t length);

/* The form with SHA's instructions; only where bp_cpu_has_sha(). */
void bp_sha256_blocks_avx2(uint32_t state[8], const unsigned char *at, size_t blocks);

#endif
