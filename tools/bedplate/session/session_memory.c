/* SPDX-License-Identifier: MIT */
/* A session's arenas: whether there is room for them, on every rank. */
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/ranks/ranks_memory.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/planning/shortage.h"

static const char where[] = "bedplate";

static bool session_fits(const session *s)
{
    return s->set->arena == 0 || s->runtime.report.arena_bytes <= s->set->arena;
}

static void session_tell_shortage(const void *user)
{
    const session *s = user;
    shortage_print(&s->choice, &s->runtime, s->set->arena);
}

bp_status session_check_fit(session *s)
{
    if (session_fits(s)) {
        return BP_OK;
    }
    session_tell_shortage(s);
    return BP_ERR_FIT;
}

/* Everything that the plan counts is resident from here on. */
static void session_settle(session *s)
{
    if (device_takes_memory(&s->spec)) {
        process_settle();
        memory_settle(&s->host);
    }
}

/* Plans, and takes the arenas where there is room for them. `why`: what there is too little of. */
static bp_status take_arenas(session *s, bp_error *why)
{
    BP_TRY(session_plan(s));
    const uint64_t bytes = s->runtime.report.arena_bytes;
    const uint64_t host_bytes = s->runtime.report.host.arena_bytes;
    if (!session_fits(s)) {
        return bp_error_limit(why, BP_ERR_FIT, where, "the plan does not fit", "--arena",
                              (int64_t)s->set->arena, BP_LIMIT_LEAST, (int64_t)bytes);
    }
    session_settle(s);
    if (device_takes_memory(&s->spec)) {
        BP_TRY(memory_take(&s->arena, bytes, true, "arena", &s->error));
    }
    if (device_takes_memory(&s->spec) && host_bytes > 0) {
        BP_TRY(memory_take(&s->host_arena, host_bytes, true, "host arena", &s->error));
    }
    return ranks_memory_gpu(s->set, &s->spec, bytes, &s->error);
}

bp_status session_take(session *s)
{
    bp_error why = {.code = BP_OK};
    bp_status status = take_arenas(s, &why);
    const bool over = why.code != BP_OK;
    if (!over) {
        why = s->error.code != BP_OK ? s->error : s->runtime.error;
    }
    status = ranks_memory_alike(s->set, status, &why, &s->error);
    if (over && status == BP_ERR_FIT && s->error.code == BP_OK) {
        ranks_memory_say(s->set, session_tell_shortage, s);
    }
    return status;
}
