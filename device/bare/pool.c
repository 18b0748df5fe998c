/* SPDX-License-Identifier: MIT */
/* The pool where there are no threads: whoever has work does it. */
#include "device/host/pool.h"

bp_status bp_pool_open(bp_pool *pool, uint32_t threads)
{
    *pool = (bp_pool){.threads = 1};
    return threads == 1 ? BP_OK : BP_ERR_DEVICE;
}

void bp_pool_run(bp_pool *pool, bp_pool_function function, void *context, uint64_t tasks,
                 bool equal)
{
    (void)pool;
    (void)equal;
    if (tasks != 0) {
        function(context, 0, tasks, 0);
    }
}

void bp_pool_close(bp_pool *pool)
{
    (void)pool;
}

void bp_pool_move(bp_pool *pool, uint32_t first, uint32_t count, uint32_t turn)
{
    (void)pool;
    (void)first;
    (void)count;
    (void)turn;
}
