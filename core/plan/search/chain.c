/* SPDX-License-Identifier: MIT */
/* Dynamic programming over a chain of stages. */
#include "core/plan/search/chain.h"

#include "arena/arena.h"

#define TABLE_BYTES  (48u << 20)
#define CELL_BYTES   (sizeof(float) + sizeof(uint16_t))
#define NEVER        3.0e38f /* more seconds than any schedule takes: does not fit */
#define CHOICE_NONE  0u
#define CHOICE_KEEP  1u                       /* + variant */
#define CHOICE_SPLIT (1u + BP_CHAIN_VARIANTS) /* + j - i */

/* Sizes of one stage in slots. */
typedef struct slot_sizes {
    uint32_t input;
    uint32_t d_output;
    uint32_t gradients;
    uint32_t tape[BP_CHAIN_VARIANTS];
    uint32_t forward_peak[BP_CHAIN_VARIANTS];
    uint32_t backward_peak[BP_CHAIN_VARIANTS];
} slot_sizes;

/* What is left to do while a schedule is read off the table. */
typedef struct task {
    bool backward; /* backward of `first` with variant `memory`; else solve first .. last */
    uint32_t first;
    uint32_t last;
    uint32_t memory;
} task;

typedef struct solver {
    const bp_chain_stage *stages;
    uint32_t count;
    uint32_t slots;
    uint64_t slot_bytes;
    uint32_t memory;   /* of the whole chain, in slots */
    bool down;         /* sizes are rounded down: what is found bounds every schedule from below */
    slot_sizes *sizes; /* [count] */
    float *time;       /* [pairs][slots + 1] */
    uint16_t *choice;  /* the same */
    uint32_t *least;   /* [pairs]: first slot of a row that has a time; slots + 1: none has */
    task *tasks;       /* [2 * count + 2] */
} solver;

void bp_chain_widen(bp_chain_stage *stage, uint64_t output, uint64_t micros)
{
    for (uint32_t v = 0; v < stage->variants; v++) {
        bp_chain_variant *variant = &stage->variant[v];
        uint64_t tape = (micros - 1) * variant->tape;
        variant->forward_peak += tape + (micros - 1) * output;
        variant->backward_peak += tape + (micros - 1) * stage->d_output;
        variant->tape *= micros;
    }
    stage->input *= micros;
    stage->d_output *= micros;
}

static uint64_t pair_count(uint32_t stages)
{
    return (uint64_t)stages * (stages + 1) / 2;
}

uint32_t bp_chain_slots(uint32_t stages)
{
    uint64_t slots = TABLE_BYTES / CELL_BYTES / (pair_count(stages) + 1);
    slots = slots > BP_CHAIN_SLOTS ? BP_CHAIN_SLOTS : slots;
    return slots > 1 ? (uint32_t)slots : 1;
}

static void chain_take(solver *s, uint32_t stages, bp_arena *memory)
{
    const uint64_t pairs = pair_count(stages);
    const uint64_t cells = bp_size_mul(pairs, (uint64_t)bp_chain_slots(stages) + 1);
    s->sizes = bp_arena_take(memory, stages, sizeof *s->sizes);
    s->tasks = bp_arena_take(memory, 2 * (uint64_t)stages + 2, sizeof *s->tasks);
    s->least = bp_arena_take(memory, pairs, sizeof *s->least);
    s->time = bp_arena_take(memory, cells, sizeof *s->time);
    s->choice = bp_arena_take(memory, cells, sizeof *s->choice);
}

uint64_t bp_chain_scratch(uint32_t stages)
{
    bp_arena count;
    solver s;
    bp_arena_count(&count);
    chain_take(&s, stages, &count);
    return bp_arena_counted(&count);
}

/* What is more than all memory stays one slot above it. */
static uint32_t to_slots(const solver *s, uint64_t bytes)
{
    uint64_t slots = s->down ? bytes / s->slot_bytes : bp_size_ceil_div(bytes, s->slot_bytes);
    return slots > s->slots ? s->slots + 1 : (uint32_t)slots;
}

static void round_sizes(solver *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const bp_chain_stage *stage = &s->stages[i];
        slot_sizes *size = &s->sizes[i];
        size->input = to_slots(s, stage->input);
        size->d_output = to_slots(s, stage->d_output);
        size->gradients = to_slots(s, stage->gradients);
        for (uint32_t v = 0; v < stage->variants; v++) {
            size->tape[v] = to_slots(s, stage->variant[v].tape);
            size->forward_peak[v] = to_slots(s, stage->variant[v].forward_peak);
            size->backward_peak[v] = to_slots(s, stage->variant[v].backward_peak);
        }
    }
}

/* The number of the pair of stages i and l. */
static size_t pair_of(const solver *s, uint32_t i, uint32_t l)
{
    uint64_t before = (uint64_t)i * s->count - (uint64_t)i * (i - (uint64_t)1) / 2;
    if (i == 0) {
        before = 0;
    }
    return (size_t)(before + (l - i));
}

/* First cell of the row of stages i .. l. */
static size_t row_of(const solver *s, uint32_t i, uint32_t l)
{
    return pair_of(s, i, l) * ((size_t)s->slots + 1);
}

/* The least memory in which stages i .. l have a schedule, `held` slots being taken. */
static uint32_t least_of(const solver *s, uint32_t i, uint32_t l, uint32_t held)
{
    return s->least[pair_of(s, i, l)] + held;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* A row's times fall with memory, and so do all that are offered to it (sums of such rows; rounding
 * keeps the order). So an offer that is at best `least` can win only below the number of slots that
 * is returned. */
static uint32_t end_of_offer(const solver *s, const float *times, float least)
{
    uint32_t low = 0;
    uint32_t high = s->slots + 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (times[middle] > least) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* A choice for a row from `need` slots on: it takes `time` and what `first` takes in `held` slots
 * less, and `second` in `later` slots less. */
typedef struct offer {
    uint32_t need;
    uint32_t held;
    uint32_t later;
    const float *first;
    const float *second; /* NULL: none */
    float time;
    uint32_t choice;
} offer;

static void consider(const solver *s, size_t row, const offer *o)
{
    if (o->need > s->slots) {
        return;
    }
    float *times = s->time + row;
    uint16_t *choices = s->choice + row;
    float best = o->time + o->first[s->slots - o->held];
    best = o->second != NULL ? best + o->second[s->slots - o->later] : best;
    const uint32_t end = end_of_offer(s, times, best);
    for (uint32_t m = o->need; m < end; m++) {
        float time = o->time + o->first[m - o->held];
        time = o->second != NULL ? time + o->second[m - o->later] : time;
        if (time < times[m]) {
            times[m] = time;
            choices[m] = (uint16_t)o->choice;
        }
    }
}

/* One stage alone: backward from its input. */
static void solve_leaf(const solver *s, uint32_t i)
{
    const bp_chain_stage *stage = &s->stages[i];
    uint32_t nothing = stage->variants - 1;
    size_t row = row_of(s, i, i);
    for (uint32_t m = s->sizes[i].backward_peak[nothing]; m <= s->slots; m++) {
        s->time[row + m] = (float)stage->variant[nothing].backward;
        s->choice[row + m] = (uint16_t)(CHOICE_KEEP + nothing);
    }
}

/* Stage i leaves variant v of its tape, i + 1 .. l follow, then its backward. */
static void solve_keep(const solver *s, uint32_t i, uint32_t l, uint32_t later_gradients)
{
    const bp_chain_stage *stage = &s->stages[i];
    const slot_sizes *size = &s->sizes[i];
    size_t row = row_of(s, i, l);
    size_t rest = row_of(s, i + 1, l);
    uint32_t nothing = stage->variants - 1;
    uint32_t tried = nothing > 0 ? nothing : 1;
    for (uint32_t v = 0; v < tried; v++) {
        uint32_t forward = size->forward_peak[v] + s->sizes[l].d_output;
        uint32_t backward = size->backward_peak[v] + later_gradients;
        uint32_t held = size->tape[v] + s->sizes[i + 1].input;
        const offer o = {.need = larger(larger(forward, backward), least_of(s, i + 1, l, held)),
                         .held = held,
                         .first = s->time + rest,
                         .time = (float)(stage->variant[v].forward + stage->variant[v].backward),
                         .choice = CHOICE_KEEP + v};
        consider(s, row, &o);
    }
}

/* Stages i .. j-1 run without tape, j .. l are done first, then i .. j-1 from the input of i. */
static void solve_splits(const solver *s, uint32_t i, uint32_t l)
{
    size_t row = row_of(s, i, l);
    uint32_t peak = 0;
    double forward = 0.0;
    for (uint32_t j = i + 1; j <= l; j++) {
        const bp_chain_stage *stage = &s->stages[j - 1];
        uint32_t nothing = stage->variants - 1;
        uint32_t own = s->sizes[j - 1].forward_peak[nothing] + s->sizes[l].d_output +
                       (j - 1 > i ? s->sizes[j - 1].input : 0);
        peak = own > peak ? own : peak;
        forward += stage->variant[nothing].forward;
        uint32_t gradients = 0;
        for (uint32_t g = j; g <= l; g++) {
            gradients += s->sizes[g].gradients;
        }
        uint32_t held = s->sizes[j].input;
        const uint32_t need = larger(peak, least_of(s, j, l, held));
        const offer o = {.need = larger(need, least_of(s, i, j - 1, gradients)),
                         .held = held,
                         .later = gradients,
                         .first = s->time + row_of(s, j, l),
                         .second = s->time + row_of(s, i, j - 1),
                         .time = (float)forward,
                         .choice = CHOICE_SPLIT + (j - i)};
        consider(s, row, &o);
    }
}

/* Notes where a finished row begins to have times. */
static void solve_least(const solver *s, uint32_t i, uint32_t l)
{
    size_t row = row_of(s, i, l);
    uint32_t least = 0;
    while (least <= s->slots && s->choice[row + least] == CHOICE_NONE) {
        least++;
    }
    s->least[pair_of(s, i, l)] = least;
}

static void solve_all(const solver *s)
{
    size_t cells = (size_t)(pair_count(s->count) * ((uint64_t)s->slots + 1));
    for (size_t c = 0; c < cells; c++) {
        s->time[c] = NEVER;
        s->choice[c] = CHOICE_NONE;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        solve_leaf(s, i);
        solve_least(s, i, i);
    }
    for (uint32_t length = 1; length < s->count; length++) {
        for (uint32_t i = 0; i + length < s->count; i++) {
            uint32_t later = 0;
            for (uint32_t g = i + 1; g <= i + length; g++) {
                later += s->sizes[g].gradients;
            }
            solve_keep(s, i, i + length, later);
            solve_splits(s, i, i + length);
            solve_least(s, i, i + length);
        }
    }
}

/* The schedule being written. */
typedef struct reader {
    bp_action *actions;
    uint32_t limit;
    uint32_t count;
    uint32_t tasks;
} reader;

static void put(reader *r, bp_action action)
{
    if (r->count < r->limit) {
        r->actions[r->count] = action;
    }
    r->count++;
}

static void put_backward(const solver *s, reader *r, uint32_t stage, uint32_t variant)
{
    put(r, (bp_action){.kind = BP_ACTION_BACKWARD,
                       .stage = stage,
                       .variant = s->stages[stage].variant[variant].number});
}

static void push(const solver *s, reader *r, task t)
{
    s->tasks[r->tasks++] = t;
}

static void read_keep(const solver *s, reader *r, const task *t, uint32_t variant)
{
    uint32_t held = s->sizes[t->first].tape[variant] + s->sizes[t->first + 1].input;
    put(r, (bp_action){.kind = BP_ACTION_FORWARD,
                       .stage = t->first,
                       .variant = s->stages[t->first].variant[variant].number});
    push(s, r, (task){true, t->first, t->first, variant});
    push(s, r, (task){false, t->first + 1, t->last, t->memory - held});
}

static void read_split(const solver *s, reader *r, const task *t, uint32_t j)
{
    uint32_t gradients = 0;
    for (uint32_t g = j; g <= t->last; g++) {
        gradients += s->sizes[g].gradients;
    }
    for (uint32_t i = t->first; i < j; i++) {
        put(r, (bp_action){.kind = BP_ACTION_FORWARD,
                           .stage = i,
                           .variant = s->stages[i].variant[s->stages[i].variants - 1].number,
                           .checkpoint = i + 1 == j});
    }
    push(s, r, (task){false, t->first, j - 1, t->memory - gradients});
    push(s, r, (task){false, j, t->last, t->memory - s->sizes[j].input});
}

static void read_schedule(const solver *s, reader *r)
{
    push(s, r, (task){false, 0, s->count - 1, s->memory});
    while (r->tasks > 0) {
        task t = s->tasks[--r->tasks];
        if (t.backward) {
            put_backward(s, r, t.first, t.memory);
            continue;
        }
        uint32_t choice = s->choice[row_of(s, t.first, t.last) + t.memory];
        if (choice >= CHOICE_SPLIT) {
            read_split(s, r, &t, t.first + (choice - CHOICE_SPLIT));
        } else if (t.first == t.last) {
            put_backward(s, r, t.first, choice - CHOICE_KEEP);
        } else {
            read_keep(s, r, &t, choice - CHOICE_KEEP);
        }
    }
}

/* The cell of the whole chain in all of its memory. */
static size_t chain_goal(const solver *s)
{
    return row_of(s, 0, s->count - 1) + s->memory;
}

/* Fills the table for `bytes`; BP_ERR_FIT when no schedule fits. */
static bp_status chain_fill(solver *s, uint64_t bytes, void *scratch, uint64_t scratch_bytes)
{
    if (s->count == 0 || scratch_bytes < bp_chain_scratch(s->count)) {
        return BP_ERR_FIT;
    }
    s->slots = bp_chain_slots(s->count);
    s->slot_bytes = s->down ? bp_size_ceil_div(bytes, s->slots) : bytes / s->slots;
    if (s->slot_bytes == 0) {
        return BP_ERR_FIT;
    }
    s->memory = s->down ? (uint32_t)bp_size_ceil_div(bytes, s->slot_bytes) : s->slots;
    bp_arena memory;
    bp_arena_init(&memory, scratch, (size_t)scratch_bytes);
    chain_take(s, s->count, &memory);
    round_sizes(s);
    solve_all(s);
    const size_t goal = chain_goal(s);
    return s->choice[goal] == CHOICE_NONE || s->time[goal] >= NEVER ? BP_ERR_FIT : BP_OK;
}

bp_status bp_chain_solve(const bp_chain_stage *stages, uint32_t count, uint64_t bytes,
                         void *scratch, uint64_t scratch_bytes, bp_action *actions, uint32_t limit,
                         uint32_t *action_count, double *seconds)
{
    solver s = {.stages = stages, .count = count};
    BP_TRY(chain_fill(&s, bytes, scratch, scratch_bytes));
    reader r = {.actions = actions, .limit = limit};
    read_schedule(&s, &r);
    *action_count = r.count;
    *seconds = (double)s.time[chain_goal(&s)];
    return r.count <= limit ? BP_OK : BP_ERR_FIT;
}

bp_status bp_chain_bound(const bp_chain_stage *stages, uint32_t count, uint64_t bytes,
                         void *scratch, uint64_t scratch_bytes, double *seconds)
{
    solver s = {.stages = stages, .count = count, .down = true};
    BP_TRY(chain_fill(&s, bytes, scratch, scratch_bytes));
    *seconds = (double)s.time[chain_goal(&s)];
    return BP_OK;
}

/* Where an action's variant is in its stage's list. */
static const bp_chain_variant *variant_named(const bp_chain_stage *stage, uint32_t number)
{
    uint32_t v = 0;
    while (v + 1 < stage->variants && stage->variant[v].number != number) {
        v++;
    }
    return &stage->variant[v];
}

uint64_t bp_chain_peak(const bp_chain_stage *stages, uint32_t count, const bp_action *actions,
                       uint32_t action_count, uint64_t *room)
{
    uint64_t *input = room, *tape = room + count; /* of each stage, what later actions read */
    uint64_t held = 0, peak = 0;                  /* inputs, tapes and gradients before an action */
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        held += stages[i].gradients;
        input[i] = tape[i] = 0;
    }
    for (uint32_t a = action_count; a-- > 0;) {
        const bp_action *action = &actions[a];
        const uint32_t at = action->stage;
        const bp_chain_stage *stage = &stages[at];
        const bp_chain_variant *variant = variant_named(stage, action->variant);
        const bool backward = action->kind == BP_ACTION_BACKWARD;
        const bool makes = !backward && at + 1 < count;
        if (makes) { /* so that nobody held it before */
            held -= input[at + 1];
            input[at + 1] = 0;
        }
        const uint64_t needed = at > 0 ? stage->input : 0; /* the chain's own is held outside */
        held += needed - input[at];
        input[at] = needed;
        held -= backward ? stage->gradients : tape[at];
        tape[at] = 0;
        uint64_t own = backward ? variant->backward_peak : variant->forward_peak;
        own += !backward && next > 0 && next < count ? stages[next - 1].d_output : 0;
        peak = held + own > peak ? held + own : peak;
        if (backward) {
            next = at + 1;
            tape[at] = variant->tape;
            held += tape[at];
        }
    }
    return peak;
}
