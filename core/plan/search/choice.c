/* SPDX-License-Identifier: MIT */
/* Fits in borrowed memory, and what they found kept; what would fit where nothing does. */
#include "core/plan/search/choice.h"

#include <string.h>

#include "core/plan/schedule.h"

#define CHOICE_LEAST_CHUNK   64   /* rows of the shortest loss chunk that the fit tries */
#define CHOICE_LEAST_ACTIONS 1500 /* of a schedule that is still planned to find what helps */
#define CHOICE_NEAR          50   /* what needs this part more is tried in other ways as well */

static const char where[] = "fit";

static bp_status choice_take(const bp_lender *memory, uint64_t bytes, void **out, bp_error *error)
{
    *out = NULL;
    if (bytes >= PTRDIFF_MAX) {
        return bp_error_set(error, BP_ERR_OVERFLOW, where,
                            "a model of these shapes has more ops than can be planned", NULL);
    }
    return memory->take(memory->user, bytes, out, error);
}

bp_status bp_choice_lend(const bp_fit_request *request, const bp_lender *memory, void **at,
                         uint64_t *bytes, bp_error *error)
{
    BP_TRY(bp_spec_check(&request->spec, error));
    const uint64_t scratch = bp_fit_scratch(request);
    BP_TRY(choice_take(memory, scratch, at, error));
    const bp_status status = bp_fit_count(request, *at, scratch, bytes, error);
    memory->give_back(memory->user, *at, scratch);
    BP_TRY(status);
    return choice_take(memory, *bytes, at, error);
}

/* The fit's memory is large and is given back; only the schedule stays. */
static bp_status choice_run_once(bp_choice *c, const bp_lender *memory, bp_error *error)
{
    void *at = NULL;
    uint64_t bytes = 0;
    BP_TRY(bp_choice_lend(&c->request, memory, &at, &bytes, error));
    bp_status status = bp_fit_run(&c->request, at, bytes, &c->fit, error);
    const bool none_fits = status == BP_ERR_FIT && c->fit.best.batch != 0;
    const bool found = status == BP_OK || none_fits;
    c->fits = status == BP_OK;
    status = found ? BP_OK : status;
    if (found && c->fit.spec.policy.kind == BP_POLICY_ACTIONS) {
        void *kept = NULL;
        c->actions_bytes = c->fit.action_count * sizeof *c->actions;
        status = choice_take(memory, c->actions_bytes, &kept, error);
        if (status == BP_OK) {
            c->actions = memcpy(kept, c->fit.actions, (size_t)c->actions_bytes);
            c->fit.actions = c->actions;
            c->fit.spec.policy.actions = c->actions;
        }
    }
    memory->give_back(memory->user, at, bytes);
    return status;
}

/* Another fit, kept where it is the better one. */
static bp_status choice_again(bp_choice *c, const bp_fit_request *request, bool dropped,
                              const bp_lender *memory, bp_error *error)
{
    void *room = NULL;
    BP_TRY(choice_take(memory, sizeof(bp_choice), &room, error));
    bp_choice *again = room;
    *again = (bp_choice){.made = true, .release_dropped = dropped, .request = *request};
    const bp_status status = choice_run_once(again, memory, error);
    const bool better =
        status == BP_OK &&
        (again->fits || (!c->fits && again->fit.best.arena_bytes < c->fit.best.arena_bytes));
    bp_choice_end(better ? c : again, memory);
    if (better) {
        *c = *again;
    }
    memory->give_back(memory->user, room, sizeof(bp_choice));
    return status;
}

/* Chooses the policy again by measured rates, at the shapes that counted costs have chosen. */
static bp_status choice_policy_again(bp_choice *c, const bp_rates *rates, const bp_lender *memory,
                                     bp_error *error)
{
    bp_fit_request request = c->request;
    request.spec = c->fit.spec;
    request.free_batch = false;
    request.free_chunk = false;
    request.free_sequence_chunk = false;
    request.rates = *rates;
    return choice_again(c, &request, c->release_dropped, memory, error);
}

/* Runs the fit again without exact gradient release where what it chose is smaller so, or where
 * nothing fits with it: the bits are the same (but docs/explanation/numerics.md, "Gradient
 * release"), and backward never slower. */
static bp_status choice_drop_release(bp_choice *c, const bp_lender *memory, bp_error *error)
{
    bp_fit_request request = c->request;
    /* whether the one candidate fits was all that was asked */
    const bool resolved = request.first && !request.free_policy && !request.free_batch &&
                          !request.free_chunk && !request.free_sequence_chunk;
    if (c->fit.spec.gradient_release != BP_RELEASE_EXACT || (request.first && !c->fits) ||
        resolved || request.estimate) {
        return BP_OK;
    }
    if (c->fits) {
        bp_spec spec = c->fit.spec;
        bp_report without;
        const bp_report_wish wish = {.limit = c->fit.best.arena_bytes};
        spec.gradient_release = BP_RELEASE_NONE;
        BP_TRY(bp_choice_report(&spec, wish, memory, &without, error));
        if (without.arena_bytes >= c->fit.best.arena_bytes) {
            return BP_OK;
        }
    }
    request.spec.gradient_release = BP_RELEASE_NONE;
    return choice_again(c, &request, true, memory, error);
}

/* Runs the fit again without room for matrices that are dequantized, where nothing fits with it:
 * the bits are the same. */
static bp_status choice_drop_dequantizing(bp_choice *c, const bp_lender *memory, bp_error *error)
{
    bp_fit_request request = c->request;
    if (c->fits || !request.spec.device_options.dequantizes ||
        request.spec.quantised == BP_QUANTISED_NONE) {
        return BP_OK;
    }
    request.spec.device_options.dequantizes = false;
    return choice_again(c, &request, c->release_dropped, memory, error);
}

bp_status bp_choice_run(bp_choice *c, const bp_fit_request *request, const bp_rates *calibrated,
                        const bp_lender *memory, bp_error *error)
{
    *c = (bp_choice){.made = true, .request = *request};
    BP_TRY(choice_run_once(c, memory, error));
    BP_TRY(choice_drop_release(c, memory, error));
    BP_TRY(choice_drop_dequantizing(c, memory, error));
    return c->fits && calibrated != NULL && request->free_policy
               ? choice_policy_again(c, calibrated, memory, error)
               : BP_OK;
}

/* Whether `more` divides a batch that may be: no result changes with it. */
static bool choice_divides(const bp_fit_request *request, const bp_budget_proposal *more)
{
    return more->batch && bp_fit_batch_matters(&request->spec) == NULL;
}

bool bp_choice_frees(const bp_fit_request *request, const bp_budget_proposal *more)
{
    return (more->policy && !request->free_policy) ||
           (choice_divides(request, more) && !request->free_batch) ||
           (more->chunk && !request->free_chunk) ||
           (more->sequence_chunk && !request->free_sequence_chunk &&
            request->spec.sequence_chunk == 0 && bp_fit_sequence_chunk(&request->spec, 1) > 0);
}

/* bp_choice_try of a request, of which `first` and `bounds` are as they are to be. */
static bool choice_try(const bp_fit_request *given, const bp_budget_proposal *more,
                       const bp_lender *memory, bp_choice *trial)
{
    bp_error error = {.code = BP_OK};
    bp_fit_request request = *given;
    request.free_policy = request.free_policy || more->policy;
    request.free_batch = request.free_batch || choice_divides(given, more);
    request.free_chunk = request.free_chunk || more->chunk;
    request.free_sequence_chunk = request.free_sequence_chunk || more->sequence_chunk;
    const uint64_t rows = (uint64_t)request.spec.sequence * request.spec.batch;
    if (request.spec.loss_rows > rows) {
        request.spec.loss_rows = (uint32_t)rows;
    }
    const bp_status status = bp_choice_run(trial, &request, NULL, memory, &error);
    bp_choice_end(trial, memory);
    return status == BP_OK && trial->fits;
}

bool bp_choice_try(const bp_fit_request *given, const bp_budget_proposal *more, bool first,
                   const bp_lender *memory, bp_choice *trial)
{
    bp_fit_request request = *given;
    request.first = first;
    request.bounds = true;
    return choice_try(&request, more, memory, trial);
}

static uint32_t choice_least_sequence_chunk(const bp_spec *spec)
{
    uint32_t least = 0;
    for (uint32_t step = 1, chunk; (chunk = bp_fit_sequence_chunk(spec, step)) > 0; step++) {
        least = chunk;
    }
    return least;
}

/* The way of training that needs the fewest bytes, a single micro-batch of one example. */
typedef struct choice_least {
    bool fits;
    bool unknown; /* for it would take seconds to find out about such long programs */
    bool near;    /* it needs little more than there is */
} choice_least;

static choice_least choice_try_least(const bp_fit_request *given, const bp_lender *memory,
                                     bp_choice *trial)
{
    static const bp_policy_kind kinds[] = {BP_POLICY_FULL, BP_POLICY_MEMORY_POOR};
    static const bp_budget_proposal none = {.policy = false};
    choice_least found = {.fits = false};
    bp_fit_request least = *given;
    bp_spec *spec = &least.spec;
    least.free_policy = false;
    least.free_batch = false;
    least.free_chunk = false;
    least.free_sequence_chunk = false;
    spec->accumulation = 1;
    spec->batch = bp_fit_least_batch(spec);
    spec->loss_rows = CHOICE_LEAST_CHUNK;
    spec->sequence_chunk =
        given->free_sequence_chunk ? choice_least_sequence_chunk(spec) : spec->sequence_chunk;
    const uint32_t stages = spec->model->stages(&spec->config);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        spec->policy = (bp_policy){.kind = kinds[i]};
        found.unknown = i > 0 && bp_schedule_count(&spec->policy, stages) > CHOICE_LEAST_ACTIONS;
        found.fits = !found.unknown && bp_choice_try(&least, &none, true, memory, trial);
        const uint64_t bytes = trial->fit.best.arena_bytes;
        found.near = found.near || bytes <= least.budget + least.budget / CHOICE_NEAR;
        if (found.unknown || found.fits || trial->fit.floor_bytes > least.budget) {
            break; /* the last whatever the policy */
        }
    }
    return found;
}

bool bp_choice_least_fits(const bp_fit_request *given, const bp_lender *memory, bp_choice *trial)
{
    return choice_try_least(given, memory, trial).fits;
}

/* Whether a request may fit with `more` free as well; trying all of its candidates takes long. */
static bool choice_may_fit(const bp_fit_request *given, const bp_budget_proposal *more,
                           const bp_lender *memory, bp_choice *trial)
{
    bp_fit_request request = *given;
    request.free_sequence_chunk = request.free_sequence_chunk || more->sequence_chunk;
    const choice_least least = choice_try_least(&request, memory, trial);
    return least.fits || least.unknown || least.near;
}

/* bp_choice_try_spec and bp_choice_spec_may_fit. */
static bool choice_try_spec(const bp_fit_request *given, const bp_spec *spec, bool estimate,
                            const bp_lender *memory, bp_choice *trial)
{
    static const bp_budget_proposal all = {.policy = true, .batch = true, .chunk = true};
    bp_fit_request request = *given;
    request.spec = *spec;
    request.estimate = estimate;
    return bp_choice_least_fits(&request, memory, trial) &&
           bp_choice_try(&request, &all, true, memory, trial);
}

bool bp_choice_try_spec(const bp_fit_request *given, const bp_spec *spec, const bp_lender *memory,
                        bp_choice *trial)
{
    return choice_try_spec(given, spec, false, memory, trial);
}

bool bp_choice_spec_may_fit(const bp_fit_request *given, const bp_spec *spec,
                            const bp_lender *memory, bp_choice *trial)
{
    return choice_try_spec(given, spec, true, memory, trial);
}

/* Changes, each of one choice, then of all but chunks of the sequence, of these, and of all. */
static const bp_budget_proposal choice_changes[] = {
    {.policy = true},
    {.batch = true},
    {.chunk = true},
    {.policy = true, .batch = true, .chunk = true},
    {.sequence_chunk = true},
    {.policy = true, .batch = true, .chunk = true, .sequence_chunk = true}};

#define CHOICE_CHANGES (sizeof choice_changes / sizeof choice_changes[0])

/* What a change frees that the request does not, as a set of its choices. */
static uint32_t choice_freed(const bp_fit_request *given, const bp_budget_proposal *more)
{
    const bp_budget_proposal one[] = {{.policy = more->policy},
                                      {.batch = more->batch},
                                      {.chunk = more->chunk},
                                      {.sequence_chunk = more->sequence_chunk}};
    uint32_t freed = 0;
    for (uint32_t i = 0; i < sizeof one / sizeof one[0]; i++) {
        freed |= bp_choice_frees(given, &one[i]) ? UINT32_C(1) << i : 0;
    }
    return freed;
}

/* Whether a change frees nothing, or what one before it does as well. */
static bool choice_is_known(const bp_fit_request *given, uint32_t change)
{
    const uint32_t freed = choice_freed(given, &choice_changes[change]);
    bool known = freed == 0;
    for (uint32_t i = 0; i < change; i++) {
        known = known || choice_freed(given, &choice_changes[i]) == freed;
    }
    return known;
}

uint64_t bp_choice_least(const bp_fit_request *given, const bp_lender *memory, bp_choice *trial)
{
    bp_fit_request request = *given;
    request.first = false;
    request.bounds = false;
    request.planned = false;
    (void)choice_try(&request, &choice_changes[CHOICE_CHANGES - 1], memory, trial);
    return trial->fit.least.arena_bytes;
}

uint32_t bp_choice_propose(const bp_fit_request *given, const bp_lender *memory,
                           bp_choice_proposal proposal[BP_CHOICE_PROPOSALS], bp_choice *trial)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CHOICE_CHANGES && (i < 3 || count == 0); i++) {
        if (choice_is_known(given, i)) {
            continue;
        }
        const bool fits = choice_may_fit(given, &choice_changes[i], memory, trial) &&
                          bp_choice_try(given, &choice_changes[i], false, memory, trial);
        uint32_t at = count;
        for (; fits && at > 0 && proposal[at - 1].found.seconds > trial->fit.best.seconds; at--) {
            proposal[at] = proposal[at - 1];
        }
        if (fits) {
            proposal[at] =
                (bp_choice_proposal){.more = choice_changes[i], .found = trial->fit.best};
            proposal[at].more.arena_bytes = trial->fit.best.arena_bytes;
            count++;
        }
    }
    return count;
}

void bp_choice_end(bp_choice *c, const bp_lender *memory)
{
    if (c->actions != NULL) {
        memory->give_back(memory->user, c->actions, c->actions_bytes);
        c->actions = NULL;
    }
}

bp_status bp_lent_plan_count(bp_lent_plan *lent, const bp_spec *spec, const bp_lender *memory,
                             bp_error *error)
{
    void *room = NULL, *at = NULL;
    *lent = (bp_lent_plan){.bytes = 0};
    BP_TRY(bp_spec_check(spec, error));
    BP_TRY(choice_take(memory, sizeof(bp_plan), &room, error));
    lent->plan = memset(room, 0, sizeof(bp_plan));
    const uint64_t scratch = bp_plan_scratch(spec);
    bp_status status = choice_take(memory, scratch, &at, error);
    if (status == BP_OK) {
        status = bp_plan_count(lent->plan, spec, at, scratch);
        memory->give_back(memory->user, at, scratch);
    }
    if (status != BP_OK && error->code == BP_OK) {
        *error = lent->plan->error;
    }
    lent->bytes = lent->plan->host_bytes;
    status = status == BP_OK ? choice_take(memory, lent->bytes, &lent->memory, error) : status;
    if (status != BP_OK) {
        bp_lent_plan_end(lent, memory);
    }
    return status;
}

void bp_lent_plan_end(bp_lent_plan *lent, const bp_lender *memory)
{
    if (lent->memory != NULL) {
        memory->give_back(memory->user, lent->memory, lent->bytes);
    }
    if (lent->plan != NULL) {
        memory->give_back(memory->user, lent->plan, sizeof(bp_plan));
    }
    *lent = (bp_lent_plan){.bytes = 0};
}

bp_status bp_choice_report(const bp_spec *spec, bp_report_wish wish, const bp_lender *memory,
                           bp_report *report, bp_error *error)
{
    bp_lent_plan lent;
    *report = (bp_report){0};
    BP_TRY(bp_lent_plan_count(&lent, spec, memory, error));
    const bp_status status = bp_plan_measure(lent.plan, wish, lent.memory, lent.bytes);
    if (status != BP_OK && error->code == BP_OK) {
        *error = lent.plan->error;
    }
    *report = lent.plan->report;
    bp_lent_plan_end(&lent, memory);
    return status;
}
