/* SPDX-License-Identifier: MIT */
/* Budgets by choices, and what would help. */
#include "core/plan/search/budget.h"

#include "core/plan/search/offload_fit.h"

static const char where[] = "budget";

static bp_fit_request budget_fit(const bp_budget_request *request)
{
    return (bp_fit_request){.spec = request->spec,
                            .budget = request->arena,
                            .free_policy = request->free_policy,
                            .free_batch = request->free_batch,
                            .free_chunk = request->free_chunk,
                            .free_sequence_chunk = request->free_sequence_chunk,
                            .rates = BP_RATES_DEFAULT};
}

/* What a search works in besides its plans: large, so lent as well. */
typedef struct budget_work {
    bp_choice choice;
    bp_choice trial;
    bp_choice_proposal proposal[BP_CHOICE_PROPOSALS];
} budget_work;

typedef char budget_holds_proposals[BP_CHOICE_PROPOSALS <= BP_BUDGET_PROPOSALS ? 1 : -1];

/* Choices that help; where none does, other specs. */
static void budget_propose(const bp_budget_request *request, budget_work *work, bp_budget *budget)
{
    const bp_fit_request *fit = &work->choice.request;
    const uint32_t count = bp_choice_propose(fit, &request->memory, work->proposal, &work->trial);
    for (uint32_t i = 0; i < count; i++) {
        budget->proposal[i] = work->proposal[i].more;
    }
    budget->proposal_count = count;
    for (uint32_t i = 0; count == 0 && i < request->other_count; i++) {
        if (budget->proposal_count < BP_BUDGET_PROPOSALS &&
            bp_choice_try_spec(fit, &request->other[i], &request->memory, &work->trial)) {
            budget->proposal[budget->proposal_count++] =
                (bp_budget_proposal){.policy = true,
                                     .batch = true,
                                     .chunk = true,
                                     .other = i + 1,
                                     .arena_bytes = work->trial.fit.best.arena_bytes};
        }
    }
}

static bool budget_offloads(const bp_offload *most)
{
    return most->bases > 0 || most->states > 0 || most->weights > 0 || most->gradients > 0 ||
           most->checkpoints > 0;
}

static bp_status budget_work_in(const bp_budget_request *request, budget_work *work,
                                bp_budget *budget, bp_error *error)
{
    bp_choice *c = &work->choice;
    const bp_fit_request fit = budget_fit(request);
    bp_status made = bp_choice_run(c, &fit, NULL, &request->memory, error);
    if (made == BP_OK && !c->fits && budget_offloads(&request->offload)) {
        bp_offload_chosen chosen;
        made =
            bp_choice_offload(c, &fit, &request->offload, NULL, &request->memory, &chosen, error);
    }
    if (made != BP_OK) {
        bp_choice_end(c, &request->memory);
        return made;
    }
    *budget = (bp_budget){.spec = c->fit.spec,
                          .arena_bytes = c->fit.best.arena_bytes,
                          .seconds = c->fit.best.seconds,
                          .release_dropped = c->release_dropped,
                          .actions = c->actions,
                          .actions_bytes = c->actions_bytes};
    if (c->fits) {
        return BP_OK;
    }
    budget_propose(request, work, budget);
    return bp_error_limit(error, BP_ERR_FIT, where, "no plan fits the budget", "arena",
                          (int64_t)request->arena, BP_LIMIT_LEAST, (int64_t)budget->arena_bytes);
}

bp_status bp_budget_find(const bp_budget_request *request, bp_budget *budget, bp_error *error)
{
    void *room = NULL;
    *budget = (bp_budget){.arena_bytes = 0};
    if (request->arena == 0) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "a budget has bytes", "arena", 0,
                              BP_LIMIT_LEAST, 1);
    }
    if (request->arena > PTRDIFF_MAX) {
        return bp_error_limit(error, BP_ERR_OVERFLOW, where, "no arena has so many bytes", "arena",
                              INT64_MAX, BP_LIMIT_MOST, PTRDIFF_MAX);
    }
    BP_TRY(request->memory.take(request->memory.user, sizeof(budget_work), &room, error));
    const bp_status status = budget_work_in(request, room, budget, error);
    request->memory.give_back(request->memory.user, room, sizeof(budget_work));
    return status;
}

void bp_budget_end(bp_budget *budget, const bp_lender *memory)
{
    if (budget->actions != NULL) {
        memory->give_back(memory->user, budget->actions, budget->actions_bytes);
        budget->actions = NULL;
    }
}
