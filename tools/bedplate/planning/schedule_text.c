/* SPDX-License-Identifier: MIT */
/* Runs of actions, and phrases of runs. */
#include "tools/bedplate/planning/schedule_text.h"

#include "core/plan/model.h"
#include "tools/bedplate/session/policy.h"

/* What a stage keeps, or finds: a tape variant, all or nothing of it, or no tape at all. */
#define TAPE_NONE UINT32_MAX       /* the stage has no tape: goes with any run */
#define TAPE_DROP (UINT32_MAX - 1) /* the last variant */

/* Consecutive actions of one kind and one variant over neighbouring stages. */
typedef struct action_run {
    bp_action_kind kind;
    bool again; /* forward over stages that have run before */
    uint32_t tape;
    uint32_t first; /* stage of the first action */
    uint32_t last;
    uint32_t action;  /* the first one */
    uint32_t actions; /* how many */
    uint32_t slots;   /* of them, those whose output is a checkpoint */
} action_run;

typedef struct schedule_writer {
    bp_text *text;
    const bp_action *actions;
    const uint32_t *variants;
    const bp_spec *spec;
    action_run *runs;
    uint32_t run_count;
} schedule_writer;

size_t schedule_scratch(uint32_t actions)
{
    return ((size_t)actions + 1) * sizeof(action_run);
}

static uint32_t schedule_text_tape_of(const schedule_writer *w, const bp_action *action)
{
    if (w->variants[action->stage] == 1) {
        return TAPE_NONE;
    }
    return action->variant + 1 == w->variants[action->stage] ? TAPE_DROP : action->variant;
}

static bool continues(const action_run *run, const action_run *next)
{
    uint32_t step = run->kind == BP_ACTION_FORWARD ? run->last + 1 : run->last - 1;
    bool same_tape = run->tape == next->tape || run->tape == TAPE_NONE || next->tape == TAPE_NONE;
    return run->kind == next->kind && run->again == next->again && next->first == step && same_tape;
}

static void add_run(schedule_writer *w, const action_run *next)
{
    action_run *run = w->run_count > 0 ? &w->runs[w->run_count - 1] : NULL;
    if (run == NULL || !continues(run, next)) {
        w->runs[w->run_count++] = *next;
        return;
    }
    run->tape = run->tape == TAPE_NONE ? next->tape : run->tape;
    run->last = next->last;
    run->slots += next->slots;
    run->actions++;
}

static void find_runs(schedule_writer *w, uint32_t count)
{
    uint32_t reached = 0; /* stages that have run forward */
    for (uint32_t i = 0; i < count; i++) {
        const bp_action *action = &w->actions[i];
        bool forward = action->kind == BP_ACTION_FORWARD;
        add_run(w, &(action_run){.kind = action->kind,
                                 .again = forward && action->stage < reached,
                                 .tape = schedule_text_tape_of(w, action),
                                 .first = action->stage,
                                 .last = action->stage,
                                 .action = i,
                                 .actions = 1,
                                 .slots = forward && action->checkpoint ? 1 : 0});
        reached = forward && action->stage >= reached ? action->stage + 1 : reached;
    }
}

static void put_stages(bp_text *text, uint32_t first, uint32_t last)
{
    bp_text_char(text, ' ');
    bp_text_u64(text, first);
    if (first != last) {
        bp_text_char(text, '-');
        bp_text_u64(text, last);
    }
}

static bool is_set(uint32_t tape)
{
    return tape < TAPE_DROP && (tape & BP_TAPE_SET) != 0;
}

/* The stages whose inputs a forward run leaves as checkpoints. */
static void put_slots(schedule_writer *w, const action_run *run)
{
    const char *comma = "";
    bp_text_string(w->text, run->tape == TAPE_NONE ? " keeping the input"
                            : is_set(run->tape)    ? " and the input"
                                                   : " but the input");
    bp_text_string(w->text, run->slots > 1 ? "s of" : " of");
    for (uint32_t i = 0; i < run->actions; i++) {
        uint32_t first = i;
        while (i < run->actions && w->actions[run->action + i].checkpoint) {
            i++;
        }
        if (i > first) {
            uint32_t stage = w->actions[run->action + first].stage + 1;
            bp_text_string(w->text, comma);
            put_stages(w->text, stage, stage + (i - first) - 1);
            comma = ",";
        }
    }
}

/* The slots of a set, by the names that they have in the first stage of a run. */
static void put_set(schedule_writer *w, const action_run *run)
{
    const char *before = " ";
    for (uint32_t slot = 0; slot < BP_TAPE_MAX; slot++) {
        if ((run->tape & ((uint32_t)1 << slot)) != 0) {
            bp_text_string(w->text, before);
            bp_text_string(w->text, w->spec->model->slot_name(w->spec, run->first, slot));
            before = ", ";
        }
    }
}

static void put_run(schedule_writer *w, const action_run *run)
{
    bool forward = run->kind == BP_ACTION_FORWARD;
    bool set = is_set(run->tape);
    bool partly = run->tape > 0 && run->tape < TAPE_DROP && !set;
    bp_text_string(w->text, !forward ? "backward" : run->again ? "again" : "forward");
    put_stages(w->text, run->first, run->last);
    if (set) {
        bp_text_string(w->text, forward ? " keeping" : " recomputing all but");
        put_set(w, run);
    } else if (forward && run->tape == TAPE_DROP) {
        bp_text_string(w->text, " dropping all");
    } else if (forward && run->tape != TAPE_NONE) {
        bp_text_string(w->text, partly ? " keeping all but " : " keeping all");
    } else if (!forward && run->tape == TAPE_DROP) {
        bp_text_string(w->text, " recomputing all");
    } else if (!forward && partly) {
        bp_text_string(w->text, " recomputing ");
    }
    if (partly) {
        policy_put_recompute(w->text, run->tape, ", ");
    }
    if (run->slots > 0) {
        put_slots(w, run);
    }
}

/* A phrase is runs up to and with the last of the backward runs that follow: its end. */
static uint32_t phrase_end(const schedule_writer *w, uint32_t at)
{
    while (at < w->run_count && w->runs[at].kind == BP_ACTION_FORWARD) {
        at++;
    }
    while (at < w->run_count && w->runs[at].kind == BP_ACTION_BACKWARD) {
        at++;
    }
    return at;
}

static bool same_tape(uint32_t a, uint32_t b)
{
    return a == b || a == TAPE_NONE || b == TAPE_NONE;
}

/* Whether two phrases do the same to other stages. */
static bool alike(const schedule_writer *w, uint32_t a, uint32_t a_end, uint32_t b, uint32_t b_end)
{
    if (a_end - a != b_end - b) {
        return false;
    }
    for (uint32_t i = 0; i < a_end - a; i++) {
        const action_run *x = &w->runs[a + i];
        const action_run *y = &w->runs[b + i];
        bool same = x->kind == y->kind && x->again == y->again && same_tape(x->tape, y->tape) &&
                    x->slots == y->slots;
        if (!same) {
            return false;
        }
    }
    return true;
}

static void put_phrase(schedule_writer *w, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        bp_text_string(w->text, i > first ? "; " : "");
        put_run(w, &w->runs[i]);
    }
}

static void put_phrases(schedule_writer *w)
{
    for (uint32_t at = 0; at < w->run_count;) {
        uint32_t end = phrase_end(w, at);
        uint32_t last = at;
        uint32_t next = end;
        uint32_t times = 1;
        while (next < w->run_count && alike(w, at, end, next, phrase_end(w, next))) {
            last = next;
            next = phrase_end(w, next);
            times++;
        }
        bp_text_string(w->text, at > 0 ? "; " : "");
        put_phrase(w, at, end);
        if (times > 1) {
            bp_text_string(w->text, times > 2 ? "; and so on to " : "; ");
            put_phrase(w, last, next);
        }
        if (times > 2) {
            bp_text_string(w->text, " (");
            bp_text_u64(w->text, times);
            bp_text_string(w->text, " times)");
        }
        at = next;
    }
}

void schedule_put(bp_text *text, const bp_spec *spec, const bp_action *actions, uint32_t count,
                  const uint32_t *variants, void *scratch)
{
    schedule_writer w = {
        .text = text, .actions = actions, .variants = variants, .spec = spec, .runs = scratch};
    find_runs(&w, count);
    put_phrases(&w);
}
