/* SPDX-License-Identifier: MIT */
/* The fit: candidates planned exactly, the fastest that fits chosen. */
#include "core/plan/search/fit_private.h"

#include <string.h>

#include "core/base/digest.h"
#include "core/plan/compile.h"
#include "core/plan/input.h"
#include "core/plan/search/measure.h"

#define CHAIN_ROUNDS   8    /* times the dynamic programme is solved for one budget */
#define CHAIN_MISSES   2    /* of these, times that it may find nothing */
#define CHAIN_CLOSE    500  /* plans that leave less than this part of the budget are near enough */
#define CHAIN_MORE     10   /* nor where it is slower with this part more than the budget */
#define CHAIN_NEAR     10   /* it is not tried where all named policies need this part more */
#define LAYOUT_NEAR    50   /* a plan whose bound is this part above the budget is not laid out */
#define CHUNK_SHARE    64   /* a shorter chunk must save this part of the arena */
#define OFFLOAD_CLOSE  1e-3 /* part of a step's time that fewer bytes are worth with offload */
#define BATCH_SPLITS   64   /* most micro-batch sizes tried */
#define QUICK_ACTIONS  1500 /* of the longest schedule that is planned for a first answer */
#define BOUND_LEAST    4096 /* bytes that a bound has more than twice what plans have shown */
#define BOUND_SLACK    1e-5 /* part of a bound that is taken off: the programme counts in floats */
#define SEQUENCE_STEPS 3    /* sizes of a chunk of the sequence, the last of which */
#define SEQUENCE_LONG  1024 /* has so many tokens at least: in fewer the MLP is no peak */

static const char where[] = "fit";

const bp_policy fit_named[FIT_NAMED] = {
    {.kind = BP_POLICY_NONE},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_NORM},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ACTIVATION},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ATTENTION},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_NORM | BP_RECOMPUTE_ACTIVATION},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_NORM | BP_RECOMPUTE_ATTENTION},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ACTIVATION | BP_RECOMPUTE_ATTENTION},
    {.kind = BP_POLICY_EVERY, .every = 2},
    {.kind = BP_POLICY_EVERY, .every = 3},
    {.kind = BP_POLICY_SQRT},
    {.kind = BP_POLICY_FULL},
    {.kind = BP_POLICY_MEMORY_POOR},
};

static uint32_t stage_count(const bp_spec *spec)
{
    return spec->model->stages(&spec->config);
}

/* Lays the memory out; what the tables leave is for plans. */
bp_status fit_search_init(fit_search *s, void *memory, uint64_t bytes)
{
    bp_arena arena;
    void *piece[5];
    const bp_spec *spec = &s->request->spec;
    s->action_limit = fit_action_limit(spec);
    const uint64_t actions = s->action_limit * sizeof(bp_action);
    const uint64_t size[4] = {sizeof(bp_plan), stage_count(spec) * sizeof(bp_chain_stage), actions,
                              actions};
    bp_arena_init(&arena, memory, (size_t)bytes);
    bp_status status = BP_OK;
    for (int i = 0; i < 4 && status == BP_OK; i++) {
        status = bp_arena_allocate(&arena, (size_t)size[i], FIT_ALIGNMENT, &piece[i]);
    }
    if (status == BP_OK) {
        s->plan_bytes = bp_arena_left(&arena) / FIT_ALIGNMENT * FIT_ALIGNMENT;
        s->plan_bytes -= s->plan_bytes >= FIT_ALIGNMENT ? FIT_ALIGNMENT : 0; /* lost to alignment */
        status = bp_arena_allocate(&arena, (size_t)s->plan_bytes, FIT_ALIGNMENT, &piece[4]);
    }
    if (status != BP_OK) {
        return bp_error_set(s->error, BP_ERR_FIT, where, "the fit's memory is too small", NULL);
    }
    s->candidate = memset(piece[0], 0, sizeof *s->candidate);
    s->stages = piece[1];
    s->trial = piece[2];
    s->kept = piece[3];
    s->plan = piece[4];
    return BP_OK;
}

static double step_seconds(const bp_plan *plan, const bp_rates *rates)
{
    const bp_graph *graph = &plan->graph;
    uint32_t k = plan->spec.accumulation;
    if (k == 1 || bp_spec_whole_group(&plan->spec)) {
        return bp_cost_program(graph, BP_PROGRAM_STEP, rates);
    }
    const double vectors =
        k * bp_cost_program(graph, BP_PROGRAM_VECTORS_FIRST, rates) +
        bp_cost_program(graph, BP_PROGRAM_CONTRAST, rates); /* 0 where there are none */
    return vectors + bp_cost_program(graph, BP_PROGRAM_MICRO_FIRST, rates) +
           (k - 1) * bp_cost_program(graph, BP_PROGRAM_MICRO_NEXT, rates) +
           bp_cost_program(graph, BP_PROGRAM_UPDATE, rates);
}

/* Bytes that live through the whole of a micro-batch whatever the policy: everything resident, and
 * the accumulated gradients of a group. */
uint64_t fit_fixed_bytes(const fit_search *s)
{
    const bp_graph *graph = &s->candidate->graph;
    uint64_t bytes = s->candidate->report.resident_bytes;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        bool group = graph->buffers[i].scope == BP_SCOPE_GROUP;
        bytes += group ? bp_report_rounded(graph, &graph->buffers[i]) : 0;
    }
    const bp_spec *spec = &s->candidate->spec;
    const uint64_t losses = spec->batch * bp_input_labels(spec) * sizeof(float);
    return bytes + bp_size_align(losses, bp_graph_alignment(graph));
}

/* Bytes that no policy needs less than, as far as the candidate planned last says: those that live
 * all the time; and of one that keeps the inputs of stages alone, those at its peak that are none
 * of these, since every policy goes through the stage of that op with as much. */
static uint64_t fit_floor(const fit_search *s)
{
    const bp_report *report = &s->candidate->report;
    const uint64_t fixed = fit_fixed_bytes(s);
    const uint64_t apart = report->lower_bound_bytes - report->class_peak[BP_CLASS_CHECKPOINT];
    return s->candidate->spec.policy.kind == BP_POLICY_FULL && apart > fixed ? apart : fixed;
}

/* What a policy between two others is reckoned with (segments_fit). */
static void note_classes(fit_search *s)
{
    const uint64_t *most = s->candidate->report.class_most;
    const bp_policy_kind kind = s->candidate->spec.policy.kind;
    s->tape = kind == BP_POLICY_NONE ? most[BP_CLASS_TAPE] : s->tape;
    s->checkpoints = kind == BP_POLICY_FULL ? most[BP_CLASS_CHECKPOINT] : s->checkpoints;
}

/* The part of a step's time that fewer bytes are worth: what is offloaded stays from one use to the
 * next in the room that they leave, so that less of it is read, which counted seconds do not know.
 */
static double fit_close(const fit_search *s)
{
    const bp_offload *o = &s->request->spec.offload;
    return (o->bases | o->states | o->weights) != 0 ? OFFLOAD_CLOSE : 0.0;
}

/* Whether it matters how well a candidate can be laid out: not where its bound is beyond the limit,
 * nor where it is slower than the best one and its bound leaves no doubt that it fits, or another
 * that fits is between the two. */
static bool fit_matters(const fit_search *s)
{
    const bp_fit_try *best = &s->fit->best, *next = &s->fit->runner_up;
    const uint64_t bound = s->candidate->report.lower_bound_bytes;
    const double seconds = step_seconds(s->candidate, &s->request->rates) / (1.0 + fit_close(s));
    const bool near = bound > s->request->budget - s->request->budget / LAYOUT_NEAR;
    return (s->wish.limit == 0 || bound <= s->wish.limit) &&
           (!best->fits || seconds <= best->seconds ||
            (near && (next->batch == 0 || seconds <= next->seconds)));
}

/* Measures the candidate that was counted: its bound, and a layout where that can matter. */
static bp_status fit_measure_candidate(fit_search *s, bool bounded)
{
    const bp_report_wish bound = {.limit = 1};
    BP_TRY(bp_plan_measure(s->candidate, bounded ? bound : s->wish, s->plan, s->plan_bytes));
    return bounded && fit_matters(s) ? bp_plan_measure_again(s->candidate, s->wish) : BP_OK;
}

static bp_status fit_plan_as(fit_search *s, const bp_spec *spec, bool bounded, bp_fit_try *out)
{
    if (s->request->watch != NULL) {
        s->request->watch();
    }
    bp_status status = bp_plan_count(s->candidate, spec, s->plan, s->plan_bytes);
    status = status == BP_OK ? fit_measure_candidate(s, bounded) : status;
    if (status != BP_OK) {
        if (s->error != NULL && s->error->code == BP_OK) {
            *s->error = s->candidate->error;
        }
        return status;
    }
    *out = (bp_fit_try){.policy = spec->policy,
                        .batch = spec->batch,
                        .accumulation = spec->accumulation,
                        .loss_rows = s->candidate->spec.loss_rows,
                        .sequence_chunk = spec->sequence_chunk,
                        .arena_bytes = s->candidate->report.arena_bytes,
                        .seconds = step_seconds(s->candidate, &s->request->rates)};
    out->fits = s->request->budget == 0 || out->arena_bytes <= s->request->budget;
    const uint64_t fixed = fit_fixed_bytes(s), floor = fit_floor(s);
    s->fit->fixed_bytes = fixed < s->fit->fixed_bytes ? fixed : s->fit->fixed_bytes;
    s->fit->floor_bytes = floor < s->fit->floor_bytes ? floor : s->fit->floor_bytes;
    note_classes(s);
    return BP_OK;
}

/* Plans one candidate; what is beyond s->wish.limit as its bound. */
bp_status fit_plan(fit_search *s, const bp_spec *spec, bp_fit_try *out)
{
    return fit_plan_as(s, spec, false, out);
}

/* Faster, or as fast in fewer bytes. `close`: the part of b's time within which both are as fast.
 */
static bool beats(const bp_fit_try *a, const bp_fit_try *b, double close)
{
    if (a->fits != b->fits) {
        return a->fits;
    }
    const double apart = a->seconds - b->seconds;
    if (a->fits && (apart < -close * b->seconds || apart > close * b->seconds)) {
        return apart < 0.0;
    }
    return a->arena_bytes < b->arena_bytes;
}

/* As good in both respects, so that it is no other choice. */
static bool same_candidate(const bp_fit_try *a, const bp_fit_try *b)
{
    return a->arena_bytes == b->arena_bytes && a->seconds == b->seconds;
}

/* Enters a planned candidate into the ranking. */
static void enter(fit_search *s, const bp_fit_try *candidate)
{
    bp_fit *fit = s->fit;
    if (fit->tried_count < BP_FIT_TRIED_MAX) {
        fit->tried[fit->tried_count++] = *candidate;
    }
    if (fit->least.batch == 0 || candidate->arena_bytes < fit->least.arena_bytes) {
        fit->least = *candidate;
    }
    if (fit->best.batch == 0 || beats(candidate, &fit->best, fit_close(s))) {
        fit->runner_up = fit->best.fits ? fit->best : fit->runner_up;
        fit->best = *candidate;
        if (candidate->policy.kind == BP_POLICY_ACTIONS) {
            fit->action_count = candidate->policy.action_count;
            for (uint32_t i = 0; i < fit->action_count; i++) {
                s->kept[i] = s->trial[i];
            }
        }
        return;
    }
    bool next = candidate->fits && !same_candidate(candidate, &fit->best) &&
                (fit->runner_up.batch == 0 || beats(candidate, &fit->runner_up, fit_close(s)));
    if (next) {
        fit->runner_up = *candidate;
    }
}

bp_status fit_measure(fit_search *s, const bp_spec *spec, bool named_only)
{
    bp_arena arena;
    uint32_t count = stage_count(spec);
    uint64_t micros = bp_compile_micros(spec);
    bp_arena_init(&arena, s->plan, (size_t)s->plan_bytes);
    BP_TRY((named_only ? bp_measure_named : bp_measure_stages)(spec, &s->request->rates, &arena,
                                                               s->stages, s->error));
    for (uint32_t i = 0; i < count; i++) {
        bp_chain_widen(&s->stages[i], i + 1 < count ? s->stages[i + 1].input : 0, micros);
    }
    return BP_OK;
}

/* The dynamic programme at one number of bytes for a micro-batch; *found says whether it has a
 * schedule. Other bytes may have the same one, of which *out has the plan; of one that cannot win,
 * where only a winner is looked for, its bound. */
static bp_status plan_chain(fit_search *s, const bp_spec *base, uint64_t inner, bool bounded,
                            bp_fit_try *out, bool *found)
{
    double seconds = 0.0;
    uint32_t count = 0;
    bp_digest digest;
    const uint32_t first = s->candidate->compile.first;
    bp_spec spec = *base;
    *found = bp_chain_solve(s->stages + first, stage_count(base) - first, inner, s->plan,
                            s->plan_bytes, s->trial, s->action_limit, &count, &seconds) == BP_OK;
    if (!*found) {
        return BP_OK;
    }
    spec.policy =
        (bp_policy){.kind = BP_POLICY_ACTIONS, .actions = s->trial, .action_count = count};
    bp_digest_begin(&digest, count);
    for (uint32_t i = 0; i < count; i++) { /* not the bytes between its members */
        const bp_action *a = &s->trial[i];
        const uint32_t words[] = {(uint32_t)a->kind, a->stage, a->micro, a->variant, a->checkpoint};
        bp_digest_add(&digest, words, sizeof words);
    }
    const uint64_t schedule = bp_digest_end(&digest);
    if (out->batch != 0 && schedule == s->schedule) {
        return BP_OK;
    }
    s->schedule = schedule;
    s->need = bp_chain_peak(s->stages + first, stage_count(base) - first, s->trial, count, s->plan);
    return fit_plan_as(s, &spec, bounded, out);
}

/* The next number of bytes to try, strictly between `low` and `high`: off goes what the last plan
 * was above the budget, on goes what it was below; half way where that leads outside. */
static uint64_t next_inner(uint64_t inner, uint64_t low, uint64_t high, uint64_t planned,
                           uint64_t budget)
{
    uint64_t next = planned > budget ? bp_size_sub(inner, planned - budget)
                                     : bp_size_add(inner, budget - planned);
    return next > low && next < high ? next : low + (high - low) / 2;
}

/* The dynamic programme inside `budget` bytes of arena. Its sizes are those of stages alone, so
 * that packing, the update, or several micro-batches in one program can need more or less than it
 * has reckoned with: the budget it is given moves until the exact plan just fits. Plans that do are
 * entered where `enters` says so; *best is the fastest that fits, batch 0 if there is none. The
 * stages must have been measured. */
bp_status fit_try_chain(fit_search *s, const bp_spec *base, uint64_t budget, uint64_t fixed,
                        bool enters, bp_fit_try *best)
{
    const uint32_t first = s->candidate->compile.first;
    uint64_t low = 0;
    uint64_t high = budget;
    int misses = 0;
    bp_fit_try plan = {.batch = 0};
    /* below the lowest stage that is trained nothing is computed again, so its input stays */
    uint64_t inner = bp_size_sub(budget, bp_size_add(fixed, s->stages[first].input));
    *best = (bp_fit_try){.batch = 0};
    inner = inner != BP_SIZE_INVALID ? inner : budget / 2;
    s->compared = false;
    for (int round = 0; round < CHAIN_ROUNDS && high - low > budget / CHAIN_CLOSE; round++) {
        bool found = false;
        BP_TRY(plan_chain(s, base, inner, enters, &plan, &found));
        if (!found) {
            if (++misses == CHAIN_MISSES) {
                break;
            }
            low = inner;
            inner = low + (high - low) / 2;
            continue;
        }
        const uint64_t need = bp_size_add(s->need, bp_size_add(fixed, s->stages[first].input));
        s->excess = need > plan.arena_bytes && need - plan.arena_bytes > s->excess
                        ? need - plan.arena_bytes
                        : s->excess;
        s->compared = true;
        bool within = plan.arena_bytes <= budget;
        if (within && (best->batch == 0 || plan.seconds < best->seconds)) {
            *best = plan;
            if (enters) {
                enter(s, best);
            }
        }
        low = within ? inner : low;
        high = within ? high : inner;
        if (within && budget - plan.arena_bytes <= budget / CHAIN_CLOSE) {
            break;
        }
        inner = next_inner(inner, low, high, plan.arena_bytes, budget);
    }
    return BP_OK;
}

/* Whether what has been found will do. */
static bool enough(const fit_search *s)
{
    return s->request->first && s->fit->best.fits;
}

/* Whether a policy is left out: the longest schedules, where the first answer will do. */
static bool too_long(const fit_search *s, const bp_spec *base, bp_policy_kind kind)
{
    uint64_t actions = (uint64_t)s->action_limit * bp_compile_micros(base);
    return s->request->first && kind == BP_POLICY_MEMORY_POOR && actions > QUICK_ACTIONS;
}

static bool fit_is_far(const fit_search *s, uint64_t bytes)
{
    return bytes > s->request->budget + s->request->budget / CHAIN_NEAR;
}

/* No schedule needs much less than one that starts from the input each time, nor one that keeps
 * more than the inputs of stages than one that keeps these. */
static bool fit_is_near(const fit_search *s, const bp_fit_try *candidate)
{
    return !fit_is_far(s, candidate->arena_bytes);
}

/* Whether what does not fit is shown: of the smallest micro-batch, where the answer is not only
 * whether something fits. */
static bool fit_shows(const fit_search *s)
{
    return !s->smaller && !s->request->first && !s->request->bounds;
}

/* Plans the policies that need the fewest slots, until one is near the budget. */
static bp_status plan_least(fit_search *s, const bp_spec *base)
{
    static const bp_policy_kind kinds[] = {BP_POLICY_FULL, BP_POLICY_MEMORY_POOR};
    bool more = fit_shows(s) || fit_fixed_bytes(s) <= s->request->budget;
    while (more && s->hoped_count < 2 && !too_long(s, base, kinds[s->hoped_count])) {
        bp_spec spec = *base;
        bp_fit_try *least = &s->hoped[s->hoped_count];
        spec.policy = (bp_policy){.kind = kinds[s->hoped_count++]};
        BP_TRY(fit_plan_as(s, &spec, s->request->budget > 0, least));
        more = !fit_is_near(s, least);
    }
    return BP_OK;
}

/* Whether all policies of a longer chunk of the micro-batch were far from fitting. */
static bool chunk_was_far(const fit_search *s, const bp_spec *base)
{
    return s->far[0].batch == base->batch && s->far[0].sequence_chunk == base->sequence_chunk;
}

/* Whether some policy may fit at this micro-batch and chunk, of which one has been planned: those
 * that need the fewest slots are planned to find out, and entered where nothing else will be. What
 * does not fit is shown, but of no chunk in which these need as much as in a longer one. */
static bp_status has_hope(fit_search *s, const bp_spec *base, bool *hope)
{
    s->hoped_count = 0;
    *hope = fit_shows(s) && !chunk_was_far(s, base);
    if (*hope) {
        return BP_OK;
    }
    BP_TRY(plan_least(s, base));
    for (uint32_t i = 0; i < s->hoped_count; i++) {
        *hope = *hope || (fit_shows(s) ? s->hoped[i].arena_bytes < s->far[i].arena_bytes
                                       : fit_is_near(s, &s->hoped[i]));
    }
    *hope = *hope || (!s->smaller && s->hoped_count == 1);
    for (uint32_t i = 0; i < s->hoped_count && !*hope; i++) {
        enter(s, &s->hoped[i]);
    }
    return BP_OK;
}

/* Tries a policy that has a name, which has_hope may have planned. */
static bp_status try_named(fit_search *s, const bp_spec *base, const bp_policy *policy,
                           bp_fit_try *candidate)
{
    for (uint32_t i = 0; i < s->hoped_count; i++) {
        if (s->hoped[i].policy.kind == policy->kind) {
            *candidate = s->hoped[i];
            enter(s, candidate);
            return BP_OK;
        }
    }
    bp_spec spec = *base;
    spec.policy = *policy;
    BP_TRY(fit_plan_as(s, &spec, s->request->budget > 0, candidate));
    enter(s, candidate);
    return BP_OK;
}

/* What the dynamic programme of a micro-batch and chunk has to know of its plans. */
typedef struct chain_shape {
    uint64_t fixed;      /* bytes that live all the time */
    double full_seconds; /* a step of BP_POLICY_FULL; 0: it was not planned */
} chain_shape;

/* Seconds of the chain that keeps the inputs of stages alone. */
static double chain_of_full(const bp_chain_stage *stages, uint32_t count)
{
    double seconds = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const bp_chain_variant *nothing = &stages[i].variant[stages[i].variants - 1];
        seconds += nothing->backward + (i + 1 < count ? nothing->forward : 0.0);
    }
    return seconds;
}

/* Bounds from below what a step of this micro-batch and chunk takes inside the budget and `more`
 * bytes: by the dynamic programme with sizes rounded down, and by what all schedules have beside
 * it, which is what the step of BP_POLICY_FULL takes more than its chain. It knows of no transfers
 * and no updates between its actions. false: nothing of these shapes fits. */
static bool chain_bound(fit_search *s, const bp_spec *base, const chain_shape *shape, uint64_t more,
                        double *bound)
{
    const uint32_t first = s->candidate->compile.first, count = stage_count(base) - first;
    const bp_chain_stage *stages = s->stages + first;
    const uint64_t inner = bp_size_sub(bp_size_add(s->request->budget, more),
                                       bp_size_add(shape->fixed, stages->input));
    const double k = base->accumulation;
    double seconds = 0.0;
    if (inner == BP_SIZE_INVALID ||
        bp_chain_bound(stages, count, inner, s->plan, s->plan_bytes, &seconds) != BP_OK) {
        return false;
    }
    const double beside = shape->full_seconds - k * chain_of_full(stages, count);
    *bound = k * seconds * (1.0 - BOUND_SLACK) + beside;
    return true;
}

static void note_bound(fit_search *s, const bp_spec *base, const chain_shape *shape)
{
    double bound = 0.0;
    s->unbounded = s->unbounded || !s->compared;
    if (chain_bound(s, base, shape, 2 * s->excess + BOUND_LEAST, &bound) &&
        (s->fit->bound_seconds == 0.0 || bound < s->fit->bound_seconds)) {
        s->fit->bound_seconds = bound;
    }
}

/* Whether a step has more beside its chain than each schedule has: backward twice, and what ranks
 * and storage send between actions. Then there is no bound. */
static bool chain_is_apart(const bp_spec *spec)
{
    const bp_offload *o = &spec->offload;
    return spec->gradient_release != BP_RELEASE_NONE || spec->ranks > 1 || o->fixed ||
           (o->bases | o->states | o->weights | o->gradients | o->checkpoints) != 0;
}

/* Whether no schedule of these shapes is faster than the best plan, which fits, with more room than
 * layouts make a difference: none is planned then. */
static bool chain_is_slower(fit_search *s, const bp_spec *base, const chain_shape *shape)
{
    const bp_fit_try *best = &s->fit->best;
    double bound = 0.0;
    return best->fits && shape->full_seconds > 0.0 && !chain_is_apart(base) &&
           chain_bound(s, base, shape, s->request->budget / CHAIN_MORE, &bound) &&
           bound > best->seconds;
}

/* Whether keeping the inputs of every n-th stage may need at most so many bytes, by what keeping
 * all inputs takes (`full` bytes) and what keeping everything does: an n-th of the inputs is there,
 * and the tapes of n stages instead of one, of half the mean since stages differ. */
static bool segments_fit(const fit_search *s, const bp_policy *policy, uint64_t full, uint64_t most)
{
    const uint64_t stages = stage_count(&s->request->spec);
    uint64_t n = policy->kind == BP_POLICY_EVERY ? policy->every : 2;
    while (policy->kind == BP_POLICY_SQRT && n * n < stages) {
        n++;
    }
    const uint64_t less = s->checkpoints - s->checkpoints / n;
    return full - less + (n - 1) * (s->tape / stages / 2) <= most;
}

/* Whether a policy with a name is worth a plan. What keeps more than a set that needs far too much
 * is not. Where only what fits is of interest, nor is what keeps more than the inputs of stages
 * where these alone do not fit, nor what keeps some inputs where keeping all is slower than what
 * fits. Where nothing does, what keeps some is by itself if it may need the fewest bytes. */
static bool named_may_win(const fit_search *s, const bp_policy *policy, uint64_t least_selective)
{
    const bp_fit_try *full = &s->hoped[0], *best = &s->fit->best;
    const bool quiet = s->smaller || s->request->first;
    const uint64_t most = s->request->budget + s->request->budget / LAYOUT_NEAR;
    const bool segments = policy->kind == BP_POLICY_EVERY || policy->kind == BP_POLICY_SQRT;
    if (!quiet && segments && s->hoped_count == 2 && fit_is_far(s, s->hoped[1].arena_bytes)) {
        return segments_fit(s, policy, full->arena_bytes, s->hoped[1].arena_bytes);
    }
    if (!quiet || s->hoped_count == 0) {
        return policy->kind != BP_POLICY_SELECTIVE || !fit_is_far(s, least_selective);
    }
    switch (policy->kind) {
    case BP_POLICY_SELECTIVE:
        return full->fits && !fit_is_far(s, least_selective);
    case BP_POLICY_EVERY:
    case BP_POLICY_SQRT:
        return best->fits
                   ? full->seconds <= best->seconds
                   : fit_is_near(s, full) || segments_fit(s, policy, full->arena_bytes, most);
    default:
        return true;
    }
}

/* The policies that recompute, at one micro-batch and chunk. */
static bp_status try_recomputing(fit_search *s, const bp_spec *base)
{
    bp_fit_try candidate;
    bool hope = true;
    BP_TRY(has_hope(s, base, &hope));
    if (!hope) {
        return BP_OK;
    }
    chain_shape shape = {.fixed = 0};
    uint64_t least = UINT64_MAX, selective = 0;
    /* Nothing is slower than starting from the input each time. */
    bool poor = true;
    for (size_t i = 1; i < FIT_NAMED; i++) {
        poor = fit_named[i].kind != BP_POLICY_MEMORY_POOR || !s->fit->best.fits;
        if (!poor || too_long(s, base, fit_named[i].kind)) {
            break;
        }
        if (!named_may_win(s, &fit_named[i], selective)) {
            continue;
        }
        BP_TRY(try_named(s, base, &fit_named[i], &candidate));
        if (enough(s)) {
            return BP_OK;
        }
        shape.fixed = fit_fixed_bytes(s);
        least = candidate.arena_bytes < least ? candidate.arena_bytes : least;
        selective = i == 1 ? candidate.arena_bytes : selective; /* that keeps least */
        if (i == 1 && fit_shows(s) && s->hoped_count == 0 && fit_is_far(s, selective)) {
            BP_TRY(plan_least(s, base));
        }
        s->far[0] = fit_named[i].kind == BP_POLICY_FULL ? candidate : s->far[0];
        s->far[1] = fit_named[i].kind == BP_POLICY_MEMORY_POOR ? candidate : s->far[1];
        shape.full_seconds =
            fit_named[i].kind == BP_POLICY_FULL ? candidate.seconds : shape.full_seconds;
    }
    if (poor && fit_is_far(s, least)) {
        return BP_OK;
    }
    s->far[0].batch = 0;
    BP_TRY(fit_measure(s, base, false));
    if (chain_is_slower(s, base, &shape)) {
        return BP_OK;
    }
    BP_TRY(fit_try_chain(s, base, s->request->budget, shape.fixed, true, &candidate));
    note_bound(s, base, &shape);
    return BP_OK;
}

/* Plans the given policy, or keeping everything where the policy is free. */
static bp_status plan_first(fit_search *s, const bp_spec *base, bp_fit_try *candidate)
{
    bp_spec spec = *base;
    if (s->request->free_policy) {
        spec.policy = (bp_policy){.kind = BP_POLICY_NONE};
    }
    return fit_plan(s, &spec, candidate);
}

/* All policies at one micro-batch and chunk, of which the first is planned as `candidate`; sets
 * *whole when keeping everything fits. */
static bp_status try_policies(fit_search *s, const bp_spec *base, const bp_fit_try *candidate,
                              bool *whole)
{
    enter(s, candidate);
    *whole = candidate->fits;
    return *whole || !s->request->free_policy ? BP_OK : try_recomputing(s, base);
}

/* Whether a chunk is worth trying. The loss is formed while all that is kept waits for backward, so
 * a chunk that saves little when everything is kept saves no more under any other policy. */
static bool chunk_matters(uint64_t bytes, uint64_t *before)
{
    const bool matters = bytes < *before - *before / CHUNK_SHARE;
    *before = matters ? bytes : *before;
    return matters;
}

/* Loss chunks from the default downwards, until one lets everything be kept. The shortest is tried
 * in any case while nothing fits. */
static bp_status try_chunks(fit_search *s, bp_spec *base, bool *whole)
{
    bp_fit_try candidate;
    if (!s->request->free_chunk) {
        BP_TRY(plan_first(s, base, &candidate));
        return try_policies(s, base, &candidate, whole);
    }
    base->loss_rows = 0;
    uint32_t rows = bp_spec_loss_rows(base);
    uint64_t before = UINT64_MAX;
    for (;;) {
        base->loss_rows = rows;
        BP_TRY(plan_first(s, base, &candidate));
        if (chunk_matters(candidate.arena_bytes, &before) ||
            (rows <= FIT_CHUNK_LEAST && !s->fit->best.fits)) {
            BP_TRY(try_policies(s, base, &candidate, whole));
        }
        if (*whole || rows <= FIT_CHUNK_LEAST || enough(s)) {
            return BP_OK;
        }
        rows = rows / 4 > FIT_CHUNK_LEAST ? rows / 4 : FIT_CHUNK_LEAST;
    }
}

uint32_t bp_fit_sequence_chunk(const bp_spec *spec, uint32_t step)
{
    const uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    bp_spec chunked = *spec;
    uint64_t chunk = rows, before = rows;
    for (uint32_t i = 0; i < step; i++) {
        before = chunk;
        chunk = bp_size_align(bp_size_ceil_div(rows, UINT64_C(4) << 2 * i), FIT_SEQUENCE_LEAST);
    }
    chunked.sequence_chunk = (uint32_t)chunk;
    const bool tried = step < SEQUENCE_STEPS || (step == SEQUENCE_STEPS && chunk >= SEQUENCE_LONG);
    return tried && chunk < before && bp_spec_check(&chunked, NULL) == BP_OK ? (uint32_t)chunk : 0;
}

/* Whether a chunk of the sequence is worth trying: with the policy that keeps least, of which it
 * then determines the arena. */
static bp_status sequence_chunk_matters(fit_search *s, const bp_spec *base, uint64_t *before,
                                        bool *matters)
{
    bp_fit_try plan;
    bp_spec spec = *base;
    if (s->request->free_policy) {
        spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
    }
    BP_TRY(fit_plan(s, &spec, &plan));
    *matters = chunk_matters(plan.arena_bytes, before);
    return BP_OK;
}

/* The bound of a policy at these shapes. */
static bp_status plan_bound(fit_search *s, const bp_spec *shape, bp_policy_kind kind,
                            bp_fit_try *plan)
{
    const bp_report_wish wish = s->wish;
    bp_spec spec = *shape;
    spec.policy = (bp_policy){.kind = kind};
    s->wish = (bp_report_wish){.limit = 1};
    const bp_status status = fit_plan(s, &spec, plan);
    s->wish = wish;
    return status;
}

/* Whether no policy fits at these shapes: by the bound of the one that keeps the inputs of stages
 * alone; and where it is far from fitting and those that compute more again are too long, by what
 * keeping fewer inputs would take. */
static bp_status shape_has_no_hope(fit_search *s, const bp_spec *shape, bool *none)
{
    const uint64_t most = s->request->budget + s->request->budget / LAYOUT_NEAR;
    bp_fit_try full, all;
    BP_TRY(plan_bound(s, shape, BP_POLICY_FULL, &full));
    *none = fit_floor(s) > s->request->budget;
    if (!*none && fit_is_far(s, full.arena_bytes) && too_long(s, shape, BP_POLICY_MEMORY_POOR)) {
        BP_TRY(plan_bound(s, shape, BP_POLICY_NONE, &all));
        *none = !all.fits;
        for (size_t i = 0; i < FIT_NAMED; i++) {
            const bool apart =
                fit_named[i].kind == BP_POLICY_EVERY || fit_named[i].kind == BP_POLICY_SQRT;
            *none = *none && !(apart && segments_fit(s, &fit_named[i], full.arena_bytes, most));
        }
    }
    if (*none) {
        enter(s, &full);
    }
    return BP_OK;
}

/* Whether no policy fits at a micro-batch in the shortest chunk of the loss: known of a plan or
 * two, and as many where the sequence may be in chunks, instead of some for each chunk. Not asked
 * where what does not fit is shown. */
static bp_status batch_has_no_hope(fit_search *s, const bp_spec *base, bool *none)
{
    const bp_fit_request *request = s->request;
    bp_spec spec = *base;
    uint32_t steps = 0;
    *none = request->free_policy && request->free_chunk && request->budget > 0 &&
            !s->fit->best.fits && !fit_shows(s);
    spec.loss_rows = 0;
    spec.loss_rows = bp_spec_loss_rows(&spec);
    spec.loss_rows = spec.loss_rows < FIT_CHUNK_LEAST ? spec.loss_rows : FIT_CHUNK_LEAST;
    while (request->free_sequence_chunk && bp_fit_sequence_chunk(base, steps + 1) > 0) {
        steps++;
    }
    BP_TRY(*none ? shape_has_no_hope(s, &spec, none) : BP_OK);
    if (*none && steps > 0) {
        spec.sequence_chunk = bp_fit_sequence_chunk(base, steps);
        BP_TRY(shape_has_no_hope(s, &spec, none));
    }
    return BP_OK;
}

/* One micro-batch, whole and then in ever shorter chunks, which compute more again and need fewer
 * bytes; the shortest is tried in any case while nothing fits. Keeping everything of chunks keeps
 * less than all, and ends no search. */
static bp_status try_sequence_chunks(fit_search *s, bp_spec *base, bool *whole)
{
    uint64_t before = UINT64_MAX;
    bool matters = false, kept = false, none = false;
    BP_TRY(batch_has_no_hope(s, base, &none));
    if (none) {
        return BP_OK;
    }
    BP_TRY(try_chunks(s, base, whole));
    if (*whole || enough(s) || !s->request->free_sequence_chunk ||
        bp_fit_sequence_chunk(base, 1) == 0) {
        return BP_OK;
    }
    BP_TRY(sequence_chunk_matters(s, base, &before, &matters));
    const bp_spec given = *base;
    for (uint32_t step = 1; !enough(s) && bp_fit_sequence_chunk(&given, step) > 0; step++) {
        const bool last = bp_fit_sequence_chunk(&given, step + 1) == 0;
        base->sequence_chunk = bp_fit_sequence_chunk(&given, step);
        BP_TRY(sequence_chunk_matters(s, base, &before, &matters));
        if (matters || (last && !s->fit->best.fits)) {
            BP_TRY(try_chunks(s, base, &kept));
        }
    }
    base->sequence_chunk = given.sequence_chunk;
    return BP_OK;
}

uint32_t bp_fit_example(const bp_spec *spec)
{
    return spec->preference.kind != BP_PREFERENCE_NONE ? 2 : spec->texts > 1 ? spec->texts : 1;
}

uint32_t bp_fit_least_batch(const bp_spec *spec)
{
    const uint32_t example = bp_fit_example(spec);
    const bool two = spec->preference.kind == BP_PREFERENCE_KTO || spec->model->compares;
    return two ? 2 * example : example;
}

const char *bp_fit_batch_matters(const bp_spec *spec)
{
    const bp_model *model = spec->model;
    if (model->compares) {
        return "an image is compared with the texts of its micro-batch";
    }
    if (spec->preference.kind == BP_PREFERENCE_KTO) {
        return "kto's reference point is a mean over the micro-batch";
    }
    if (spec->preference.nll > 0.0) {
        return "the loss of chosen answers is a mean over the micro-batch's tokens";
    }
    if (model->pools != NULL && model->pools(spec)) {
        return "batch norms take the mean and the variance of the micro-batch";
    }
    if (model->balance != NULL && model->balance(spec) > 0) {
        return "the balancing loss of experts is of each micro-batch";
    }
    return spec->gradient_release == BP_RELEASE_ADAMA
               ? "adama squares the gradient of each micro-batch"
               : NULL;
}

/* The micro-batches that are tried, the largest first. Returns how many there are. */
static uint32_t fit_batches(const bp_fit_request *request, uint32_t batch[BATCH_SPLITS])
{
    const uint32_t given = request->spec.batch, most = request->free_batch ? given : 1;
    const uint32_t example = bp_fit_example(&request->spec);
    uint32_t count = 0;
    for (uint32_t divisor = 1; divisor <= most && count < BATCH_SPLITS; divisor++) {
        const uint32_t smaller = given / divisor;
        if (divisor == 1 || (given % divisor == 0 && smaller % example == 0 &&
                             smaller >= bp_fit_least_batch(&request->spec))) {
            batch[count++] = smaller;
        }
    }
    return count;
}

/* Whether the smallest micro-batch is tried before all others: it finds something fast that fits,
 * so that few plans of the others have to be laid out. Not where the largest keeps everything. */
static bp_status smallest_first(fit_search *s, uint32_t batches, bool *smallest)
{
    bp_fit_try candidate = {.fits = true};
    if (batches > 2 && s->request->budget > 0) {
        BP_TRY(plan_first(s, &s->request->spec, &candidate));
    }
    *smallest = !candidate.fits;
    return BP_OK;
}

/* Micro-batches from the given one downwards. A smaller one is never faster, so the first that
 * keeps everything ends the search. */
static bp_status try_batches(fit_search *s)
{
    bp_spec spec = s->request->spec;
    const uint64_t product = (uint64_t)spec.batch * spec.accumulation;
    uint32_t batch[BATCH_SPLITS];
    const uint32_t count = fit_batches(s->request, batch);
    bool smallest = false, whole = false;
    BP_TRY(smallest_first(s, count, &smallest));
    for (uint32_t i = 0; i < count && !whole && !enough(s); i++) {
        const uint32_t at = !smallest ? i : i == 0 ? count - 1 : i - 1;
        spec.batch = batch[at];
        spec.accumulation = (uint32_t)(product / spec.batch);
        s->smaller = s->request->free_batch && spec.batch > bp_fit_least_batch(&spec);
        BP_TRY(try_sequence_chunks(s, &spec, &whole));
        whole = whole && !(smallest && i == 0);
    }
    return BP_OK;
}

/* The record in the order of micro-batches, the largest first. */
static void sort_tried(bp_fit *fit)
{
    for (uint32_t i = 1; i < fit->tried_count; i++) {
        const bp_fit_try one = fit->tried[i];
        uint32_t at = i;
        for (; at > 0 && fit->tried[at - 1].batch < one.batch; at--) {
            fit->tried[at] = fit->tried[at - 1];
        }
        fit->tried[at] = one;
    }
}

/* What a plan that fits undercuts is no bound. Where everything is kept nothing was measured. */
static void finish_bound(fit_search *s)
{
    bp_fit *fit = s->fit;
    const bp_spec *spec = &s->request->spec;
    if (chain_is_apart(spec) || s->unbounded || !fit->best.fits || !s->request->free_policy ||
        s->request->first || fit->best.policy.kind == BP_POLICY_NONE ||
        fit->best.seconds < fit->bound_seconds) {
        fit->bound_seconds = 0.0;
    }
}

static void fill_spec(fit_search *s)
{
    bp_fit *fit = s->fit;
    fit->actions = s->kept;
    fit->spec = s->request->spec;
    fit->spec.batch = fit->best.batch;
    fit->spec.accumulation = fit->best.accumulation;
    fit->spec.loss_rows = fit->best.loss_rows;
    fit->spec.sequence_chunk = fit->best.sequence_chunk;
    fit->spec.policy = fit->best.policy;
    if (fit->best.policy.kind == BP_POLICY_ACTIONS) {
        fit->spec.policy.actions = fit->actions;
        fit->spec.policy.action_count = fit->action_count;
    }
}

/* Where nothing fits, what needs the least says how many bytes that are in a layout that exists. */
static bp_status lay_out_least(fit_search *s)
{
    bp_fit *fit = s->fit;
    const bp_fit_try bound = fit->best;
    if (bound.fits || s->request->first || s->request->bounds || s->request->planned ||
        bound.arena_bytes <= s->wish.limit) {
        return BP_OK;
    }
    s->wish.limit = 0;
    BP_TRY(fit_plan(s, &fit->spec, &fit->best));
    fit->least = fit->best;
    for (uint32_t i = 0; i < fit->tried_count; i++) {
        const bool best = same_candidate(&fit->tried[i], &bound);
        fit->tried[i].arena_bytes = best ? fit->best.arena_bytes : fit->tried[i].arena_bytes;
    }
    return BP_OK;
}

/* What is beyond the budget by more than LAYOUT_NEAR is not asked for how well it can be laid out.
 * Where the only question is whether it fits, a layout that does will do. */
static bp_report_wish fit_wish(const bp_fit_request *request)
{
    const bool free = request->free_policy || request->free_batch || request->free_chunk ||
                      request->free_sequence_chunk;
    const uint64_t budget = request->budget;
    if (request->estimate) {
        return (bp_report_wish){.limit = 1};
    }
    return request->first && !free
               ? (bp_report_wish){.limit = budget, .enough = budget}
               : (bp_report_wish){.limit = bp_size_add(budget, budget / LAYOUT_NEAR)};
}

bp_status bp_fit_run(const bp_fit_request *request, void *memory, uint64_t bytes, bp_fit *fit,
                     bp_error *error)
{
    fit_search s = {.request = request, .fit = fit, .error = error};
    *fit = (bp_fit){.fixed_bytes = UINT64_MAX, .floor_bytes = UINT64_MAX};
    BP_TRY(bp_spec_check(&request->spec, error));
    BP_TRY(fit_search_init(&s, memory, bytes));
    s.wish = fit_wish(request);
    BP_TRY(try_batches(&s));
    sort_tried(fit);
    finish_bound(&s);
    fill_spec(&s);
    BP_TRY(lay_out_least(&s));
    return fit->best.fits ? BP_OK : BP_ERR_FIT;
}

/* Whether some policy fits at this micro-batch. */
static bp_status batch_fits(fit_search *s, uint32_t batch, bool *fits)
{
    bp_spec spec = s->request->spec;
    bool whole = false;
    spec.batch = batch;
    *s->fit = (bp_fit){0};
    uint64_t rows = (uint64_t)batch * spec.sequence;
    spec.loss_rows = spec.loss_rows > rows ? (uint32_t)rows : spec.loss_rows;
    bp_fit_try candidate;
    BP_TRY(plan_first(s, &spec, &candidate));
    BP_TRY(try_policies(s, &spec, &candidate, &whole));
    *fits = s->fit->best.fits;
    return BP_OK;
}

bp_status bp_fit_largest_batch(const bp_fit_request *request, uint32_t most, void *memory,
                               uint64_t bytes, uint32_t *batch, bp_error *error)
{
    bp_fit fit = {0};
    fit_search s = {.request = request, .fit = &fit, .error = error};
    BP_TRY(bp_spec_check(&request->spec, error));
    BP_TRY(fit_search_init(&s, memory, bytes));
    s.wish = fit_wish(request);
    const uint32_t example = bp_fit_example(&request->spec);
    uint32_t good = 0; /* in examples, as the others */
    uint32_t bad = most / example + 1;
    const uint32_t end = bad;
    uint32_t probe = bp_fit_least_batch(&request->spec) / example;
    while (probe < bad && good + 1 < bad) {
        bool fits = false;
        BP_TRY(batch_fits(&s, probe * example, &fits));
        if (fits) {
            good = probe;
        } else {
            bad = probe;
        }
        if (good == 0) {
            break;
        }
        uint64_t doubled = (uint64_t)good * 2;
        probe = bad == end && doubled < bad ? (uint32_t)doubled : good + (bad - good) / 2;
    }
    *batch = good * example;
    return BP_OK;
}
