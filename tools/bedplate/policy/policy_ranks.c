/* SPDX-License-Identifier: MIT */
/* What ranks share out of a step's completions. */
#include "tools/bedplate/policy/policy_ranks.h"

#include <string.h>

#include "tools/bedplate/ranks/ranks.h"

static const char where[] = "grpo";

/* A completion on its way: count and finish, then ids, log-probabilities and entropies. */
static uint64_t ranks_words(const policy_run *p)
{
    return 2 + 3 * (uint64_t)p->choice.most;
}

/* Prompts of a rank, the last of which may have fewer. */
static uint32_t ranks_share(const policy_run *p)
{
    const uint32_t size = ranks_size(p->s->set);
    return (p->groups + size - 1) / size;
}

/* Bytes of a rank's completions, and of a status with all scores. */
static uint64_t ranks_piece(const policy_run *p)
{
    const uint64_t each = bp_size_mul(ranks_share(p), p->choice.generations);
    return bp_size_mul(bp_size_mul(each, ranks_words(p)), sizeof(uint32_t));
}

static uint64_t ranks_scores(const policy_run *p)
{
    return bp_size_mul(bp_size_add(1, bp_size_mul(p->count, REWARD_FUNCTIONS_MAX)), sizeof(double));
}

uint64_t policy_ranks_bytes(const policy_run *p)
{
    const uint64_t size = ranks_size(p->s->set), made = ranks_piece(p), scores = ranks_scores(p);
    return size == 1 ? 0 : bp_size_mul(size + 1, made > scores ? made : scores);
}

/* A word of the message and the completion's own place: out of it, or into it. */
static void ranks_copy(uint32_t *wire, void *own, uint32_t count, bool out)
{
    memcpy(out ? (void *)wire : own, out ? own : (const void *)wire, count * sizeof *wire);
}

static void ranks_carry(const policy_run *p, uint32_t *wire, rollout_completion *c, bool out)
{
    const uint32_t most = p->choice.most;
    uint32_t finish = (uint32_t)c->finish;
    ranks_copy(wire, &c->count, 1, out);
    ranks_copy(wire + 1, &finish, 1, out);
    c->finish = finish == ROLLOUT_STOP ? ROLLOUT_STOP : ROLLOUT_LENGTH;
    c->count = c->count < most ? c->count : most;
    ranks_copy(wire + 2, c->ids, c->count, out);
    ranks_copy(wire + 2 + most, c->logps, c->count, out);
    ranks_copy(wire + 2 + 2 * (size_t)most, c->entropies, c->count, out);
}

/* All ranks' completions; a piece has those of ranks_share prompts. */
static bp_status ranks_exchange(policy_run *p, uint32_t first, uint32_t end)
{
    const uint32_t size = ranks_size(p->s->set), each = ranks_share(p) * p->choice.generations;
    const uint64_t piece = ranks_piece(p);
    uint32_t *mine = p->wire, *all = mine + piece / sizeof *mine;
    if (piece > UINT32_MAX) {
        return bp_error_limit(&p->s->error, BP_ERR_USAGE, where,
                              "a rank's completions of a step are more than a message holds; bytes",
                              "--max-completion-length", bp_size_signed(piece), BP_LIMIT_MOST,
                              UINT32_MAX);
    }
    memset(mine, 0, (size_t)piece);
    for (uint32_t i = first; i < end; i++) {
        ranks_carry(p, mine + (i - first) * ranks_words(p), &p->made[i], true);
    }
    BP_TRY(ranks_gather(p->s->set, mine, (uint32_t)piece, all, &p->s->error));
    for (uint32_t i = 0; i < p->count && i < size * each; i++) {
        ranks_carry(p, all + i / each * (piece / sizeof *all) + i % each * ranks_words(p),
                    &p->made[i], false);
    }
    return BP_OK;
}

bp_status policy_ranks_generate(policy_run *p)
{
    session *s = p->s;
    const uint32_t n = p->choice.generations, rank = ranks_rank(s->set);
    /* Programs that gather weights are run by all ranks alike. */
    const bool parted = ranks_size(s->set) > 1 && s->plan.spec.sharing == BP_SHARING_NONE;
    const uint32_t share = parted ? ranks_share(p) : p->groups;
    uint32_t first = parted ? rank * share : 0;
    first = first < p->groups ? first : p->groups;
    const uint32_t end = first + share < p->groups ? first + share : p->groups;
    ranks_leave_turn(s->set);
    const bp_status status = rollout_run(&s->runtime, &p->choice, p->asked + first, end - first,
                                         p->made + (size_t)first * n, p->work, &s->error);
    ranks_take_turn(s->set);
    BP_TRY(status);
    return parted ? ranks_exchange(p, first * n, end * n) : BP_OK;
}

bp_status policy_ranks_open_rewards(policy_run *p)
{
    session *s = p->s;
    const settings *set = s->set;
    uint32_t parts[RANKS_MOST];
    const bool asks = ranks_size(set) > 1 && set->reward_command != NULL;
    if (!asks) {
        return reward_open(&p->rewards, set, &s->error);
    }
    const bool leads = ranks_leads(set);
    const bp_status status = leads ? reward_open(&p->rewards, set, &s->error) : BP_OK;
    const uint32_t mine = status == BP_OK ? p->rewards.command.parts : UINT32_MAX;
    BP_TRY(ranks_gather(set, &mine, sizeof mine, parts, &s->error));
    if (parts[0] == UINT32_MAX) {
        return status != BP_OK ? status : BP_ERR_DATA; /* rank 0 says why */
    }
    return leads ? BP_OK : reward_open_recorded(&p->rewards, set, parts[0], &s->error);
}

bp_status policy_ranks_score(policy_run *p)
{
    session *s = p->s;
    const uint32_t columns = p->rewards.count;
    const uint32_t own = p->rewards.function_count + (p->rewards.models ? 1 : 0);
    bp_status status = reward_score(&p->rewards, p->cases, p->count, p->scores, &s->error);
    if (ranks_size(s->set) == 1 || s->set->reward_command == NULL) {
        return status;
    }
    const size_t bytes = (1 + (size_t)p->count * columns) * sizeof(double);
    double *mine = p->wire, *all = mine + bytes / sizeof *mine;
    mine[0] = status == BP_OK ? 1.0 : 0.0;
    memcpy(mine + 1, p->scores, bytes - sizeof *mine);
    BP_TRY(ranks_gather(s->set, mine, (uint32_t)bytes, all, &s->error));
    if (!(all[0] > 0.0)) {
        return status != BP_OK ? status : BP_ERR_DATA;
    }
    for (size_t i = 0; i < (size_t)p->count * columns; i++) {
        p->scores[i] = i % columns >= own ? all[1 + i] : p->scores[i];
    }
    return status;
}
