/* SPDX-License-Identifier: MIT */
/* SHA-256 by whichever form is there. */
#include "device/host/sha256.h"

#include "device/host/cpu.h"

#define FEW 4096 /* bytes for which asking the processor is not worth it */

void bp_host_sha256_add(bp_sha256 *sha, const void *bytes, size_t length)
{
#if defined(__x86_64__)
    if (length >= FEW && bp_cpu_has_sha()) {
        const unsigned char *at = bytes;
        const size_t have = (size_t)(sha->bytes % sizeof sha->block);
        const size_t head = have > 0 ? sizeof sha->block - have : 0;
        const size_t blocks = (length - head) / sizeof sha->block;
        bp_sha256_add(sha, at, head);
        bp_sha256_blocks_avx2(sha->state, at + head, blocks);
        sha->bytes += blocks * sizeof sha->block;
        bytes = at + head + blocks * sizeof sha->block;
        length -= head + blocks * sizeof sha->block;
    }
#endif
    bp_sha256_add(sha, bytes, length);
}
