/* SPDX-License-Identifier: MIT */
/* Who of the ranks in one process runs the tools' code: one at a time. */
#ifndef BP_BEDPLATE_RANKS_TURN_H
#define BP_BEDPLATE_RANKS_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ranks_turn {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool taken;
    bool told;      /* an error has been printed */
    uint32_t begun; /* ranks that had their first turn: the next one is `begun` */
    int code;       /* exit code of the first rank that failed; 0: none has */
} ranks_turn;

/* Waits for this rank's first turn, then for any. */
void ranks_turn_take(ranks_turn *turn);
void ranks_turn_leave(ranks_turn *turn, uint32_t rank);

#endif
