/* SPDX-License-Identifier: MIT */
/* The checker of plans: each pair of buffers, nothing sorted, nothing kept. */
#include "tests/support/plan_checker.h"

static bool plan_apart(const plan_checked *a, const plan_checked *b)
{
    return a->upper <= b->lower || b->upper <= a->lower || a->offset + a->bytes <= b->offset ||
           b->offset + b->bytes <= a->offset;
}

bool plan_checker(const plan_checked *buffers, uint32_t count, uint64_t arena_bytes)
{
    bool reached = arena_bytes == 0;
    for (uint32_t i = 0; i < count; i++) {
        const plan_checked *b = &buffers[i];
        if (b->offset > arena_bytes || arena_bytes - b->offset < b->bytes) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (!plan_apart(b, &buffers[j])) {
                return false;
            }
        }
        reached = reached || b->offset + b->bytes == arena_bytes;
    }
    return reached;
}
