/* SPDX-License-Identifier: MIT */
/* A checker of plans that is too simple to be wrong and is proved right
 * (tests/assurance/proofs/plan.proof). */
#ifndef BP_TESTS_PLAN_CHECKER_H
#define BP_TESTS_PLAN_CHECKER_H

#include <stdbool.h>
#include <stdint.h>

/* A buffer of a plan: it lives from tick `lower` to before tick `upper`, at bytes offset .. offset
 * + bytes - 1. */
typedef struct plan_checked {
    uint64_t lower, upper, offset, bytes;
} plan_checked;

/* Whether every buffer lies inside the arena, no two that live at one time share a byte, and the
 * arena is as large as it has to be: some buffer ends where it ends. Looks at each pair. */
bool plan_checker(const plan_checked *buffers, uint32_t count, uint64_t arena_bytes);

#endif
