/* SPDX-License-Identifier: MIT */
/* Engines where there are no threads: there are none. A plan that needs one is refused at open. */
#include "device/host/engine.h"

bp_status bp_host_engine_open(bp_host_engine *engine, bp_host_engine_work work, void *context)
{
    *engine = (bp_host_engine){.running = false};
    (void)work;
    (void)context;
    return BP_ERR_DEVICE;
}

void bp_host_engine_post(bp_host_engine *engine, const void *job, uint64_t mark)
{
    (void)engine;
    (void)job;
    (void)mark;
}

bp_status bp_host_engine_wait(bp_host_engine *engine, uint64_t mark)
{
    (void)engine;
    (void)mark;
    return BP_ERR_DEVICE;
}

void bp_host_engine_close(bp_host_engine *engine)
{
    (void)engine;
}
