/* SPDX-License-Identifier: MIT */
/* What a tile asks for ahead, for the forms that have vector registers: included by them alone, in
 * functions with `asks`, `k` and the tile `t`. */
#ifndef BP_DEVICE_HOST_MATMUL_ASK_H
#define BP_DEVICE_HOST_MATMUL_ASK_H

/* The next requests: of each table the entry as many bytes from its start as there were terms. What
 * is stored to next comes nearest. */
#define BP_MATMUL_ASKED(walk) (*(const int64_t *)(const void *)((const char *)asks->walk + k))
#define BP_MATMUL_ASK                                                                              \
    {                                                                                              \
        const int64_t next = BP_MATMUL_ASKED(next), ahead = BP_MATMUL_ASKED(ahead);                \
        __builtin_prefetch(t->walks.next + next, 0, 3);                                            \
        __builtin_prefetch(t->walks.next_other + next, 0, 3);                                      \
        __builtin_prefetch(t->walks.ahead + ahead, 0, 2);                                          \
        __builtin_prefetch(t->walks.ahead_other + ahead, 0, 2);                                    \
        __builtin_prefetch(t->walks.later + BP_MATMUL_ASKED(later), 0, 2);                         \
    }

#endif
