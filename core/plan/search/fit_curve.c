/* SPDX-License-Identifier: MIT */
/* Time against bytes: the curve, and what kept sets gain over the variants with names. */
#include "core/plan/search/fit_private.h"

#include <math.h>

/* Keeps the points sorted by bytes and drops those that another beats in both. */
static void add_point(bp_fit_point *points, uint32_t *count, const bp_fit_try *candidate)
{
    const bp_fit_point point = {candidate->arena_bytes, candidate->seconds, candidate->policy.kind};
    for (uint32_t i = 0; i < *count; i++) {
        bool beaten =
            points[i].arena_bytes <= point.arena_bytes && points[i].seconds <= point.seconds;
        if (beaten) {
            return;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        bool worse =
            points[i].arena_bytes >= point.arena_bytes && points[i].seconds >= point.seconds;
        if (!worse) {
            points[kept++] = points[i];
        }
    }
    uint32_t at = kept;
    while (at > 0 && points[at - 1].arena_bytes > point.arena_bytes) {
        points[at] = points[at - 1];
        at--;
    }
    points[at] = point;
    *count = kept + 1;
}

bp_status bp_fit_curve(const bp_fit_request *request, void *memory, uint64_t bytes,
                       bp_fit_point *points, uint32_t *count, bp_error *error)
{
    bp_fit fit = {0};
    fit_search s = {.request = request, .fit = &fit, .error = error};
    uint32_t room = *count;
    uint32_t used = 0;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    bp_fit_try candidate;
    BP_TRY(bp_spec_check(&request->spec, error));
    BP_TRY(fit_search_init(&s, memory, bytes));
    for (size_t i = 0; i < FIT_NAMED && used < room; i++) {
        bp_spec spec = request->spec;
        spec.policy = fit_named[i];
        BP_TRY(fit_plan(&s, &spec, &candidate));
        add_point(points, &used, &candidate);
        least = candidate.arena_bytes < least ? candidate.arena_bytes : least;
        most = candidate.arena_bytes > most ? candidate.arena_bytes : most;
    }
    uint64_t fixed = fit_fixed_bytes(&s);
    uint32_t budgets = room > FIT_NAMED ? room - (uint32_t)FIT_NAMED : 0;
    BP_TRY(fit_measure(&s, &request->spec, false));
    for (uint32_t i = 0; i < budgets; i++) { /* so that each has room beside the named ones */
        uint64_t budget = least + (most - least) / budgets * i;
        BP_TRY(fit_try_chain(&s, &request->spec, budget, fixed, false, &candidate));
        if (candidate.batch > 0) {
            add_point(points, &used, &candidate);
        }
    }
    *count = used;
    return BP_OK;
}

/* Seconds of the fastest named policy that fits a budget, which is no less than the least arena of
 * one of them. */
static double fastest_named(const bp_fit_try *named, uint64_t budget)
{
    double seconds = (double)INFINITY;
    for (uint32_t i = 0; i < FIT_NAMED; i++) {
        const bool fits = named[i].arena_bytes <= budget;
        seconds = fits && named[i].seconds < seconds ? named[i].seconds : seconds;
    }
    return seconds;
}

/* The fastest at each budget with the tape variants that were measured. */
static bp_status find_gains(fit_search *s, const bp_fit_try *named, uint64_t fixed, bool after,
                            bp_fit_gain *gains, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bp_fit_try candidate;
        double *seconds = after ? &gains[i].after : &gains[i].before;
        *seconds = fastest_named(named, gains[i].budget);
        BP_TRY(fit_try_chain(s, &s->request->spec, gains[i].budget, fixed, false, &candidate));
        const bool faster = candidate.batch > 0 && candidate.seconds < *seconds;
        *seconds = faster ? candidate.seconds : *seconds;
    }
    return BP_OK;
}

bp_status bp_fit_gains(const bp_fit_request *request, void *memory, uint64_t bytes,
                       bp_fit_gain *gains, uint32_t count, bp_error *error)
{
    bp_fit fit = {0};
    bp_fit_try named[FIT_NAMED];
    fit_search s = {.request = request, .fit = &fit, .error = error};
    uint64_t least = UINT64_MAX, most = 0;
    BP_TRY(bp_spec_check(&request->spec, error));
    BP_TRY(fit_search_init(&s, memory, bytes));
    for (uint32_t i = 0; i < FIT_NAMED; i++) {
        bp_spec spec = request->spec;
        spec.policy = fit_named[i];
        BP_TRY(fit_plan(&s, &spec, &named[i]));
        least = named[i].arena_bytes < least ? named[i].arena_bytes : least;
        most = named[i].arena_bytes > most ? named[i].arena_bytes : most;
    }
    const uint64_t fixed = fit_fixed_bytes(&s);
    for (uint32_t i = 0; i < count; i++) {
        gains[i] = (bp_fit_gain){.budget = least + (most - least) / count * i};
    }
    for (uint32_t after = 0; after < 2; after++) {
        BP_TRY(fit_measure(&s, &request->spec, after == 0));
        BP_TRY(find_gains(&s, named, fixed, after != 0, gains, count));
    }
    return BP_OK;
}
