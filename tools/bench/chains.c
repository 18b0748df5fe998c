/* SPDX-License-Identifier: MIT */
/* Plans chains of tasks over two memories: which objects stay in the fast one, which leave it and
 * when they come back. A chain is one of the als244/dataflow suite; tools/bench/chains.py reads its
 * form, and its own simulator judges what is written here.
 *
 * A plan is a number for each gap between two uses of an object: STAYS, or the task after which it
 * is fetched again. The search simulates each plan by the suite's rules: transfers run in order,
 * one each way; one that finds no room blocks those behind it; an object takes its bytes from the
 * start of its fetch to the end of its write-back.
 *
 * Input: tools/bench/chains.py writes it, numbers alone. Usage: chains [TURNS] <numbers >plans;
 * TURNS: plans tried for each gap */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 4096, TASKS = 512, GAPS = 8192, STAYS = -1, LISTED = 65536 };
#define NEVER 1e300

typedef enum { FINAL_NONE, FINAL_BACKING, FINAL_FAST } final_place;

typedef struct object {
    double size, in, out; /* bytes; time of a fetch and of a write-back */
    bool fast, backing;   /* where it lies before the first task */
    final_place final;
    int first_gap, gaps, producer, last_use, dirtied_last;
} object;

/* Between two uses. `from` is the task after which the object may leave (-1: it lies there before
 * the first), `to` the one that needs it (the number of tasks: the end). */
typedef struct gap {
    int object, from, to, earliest, latest; /* of a fetch; earliest > latest: it stays */
    bool dirties; /* the task at its end writes the object: a backing copy is not the object any
                     more */
} gap;

typedef struct task {
    double runtime, workspace, outputs;
    int in, ins, out, outs;
} task;

typedef struct chain {
    int objects, tasks, gaps, listed;
    double capacity, backing_capacity, bandwidth_in, bandwidth_out, bound;
    object object[OBJECTS];
    task task[TASKS];
    gap gap[GAPS];
    int list[LISTED]; /* the objects that tasks read and write */
    bool dirties[LISTED];
} chain;

typedef struct plan {
    int fetch[GAPS]; /* STAYS, or the task after which the gap's object is fetched */
} plan;

/* What each task's end sets off, as linked lists through gaps and objects. */
typedef struct triggers {
    int release[TASKS], offload[TASKS], fetch[TASKS]; /* first entry, -1: none */
    int next[3][GAPS + OBJECTS];
    int last_reference[OBJECTS];
} triggers;

static chain c;
static triggers t;
static uint64_t seed = 88172645463325252u;

static uint32_t drawn(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * below >> 32);
}

static double unit(void)
{
    const uint32_t number = drawn(1u << 30);
    return (double)number / (double)(1u << 30);
}

static double transfer_time(double size, double bandwidth)
{
    const uint64_t whole = ((uint64_t)size + (uint64_t)bandwidth - 1) / (uint64_t)bandwidth;
    return whole < 1 ? 1.0 : (double)whole;
}

static double number(void)
{
    double value = 0;
    if (scanf("%lf", &value) != 1) {
        fprintf(stderr, "chains: the input ends too early\n");
        exit(4);
    }
    return value;
}

static int whole(int limit)
{
    const double value = number();
    if (value < 0 || value > limit) {
        fprintf(stderr, "chains: found %.17g, expected 0 to %d\n", value, limit);
        exit(4);
    }
    return (int)value;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void add_gap(int o, int from, int to, bool fetched_first, bool dirties)
{
    gap *g = &c.gap[c.gaps];
    if (c.gaps == GAPS) {
        fprintf(stderr, "chains: more than %d gaps\n", (int)GAPS);
        exit(4);
    }
    *g = (gap){.object = o, .from = from, .to = to, .dirties = dirties};
    g->earliest = fetched_first ? 0 : (from < 0 ? 0 : from) + 1;
    g->latest = to - 1;
    if (c.object[o].gaps == 0) {
        c.object[o].first_gap = c.gaps;
    }
    c.object[o].gaps++;
    c.gaps++;
}

/* The gaps of an object, in the order of time. */
static void gaps_of(int o)
{
    object *b = &c.object[o];
    int at = b->producer; /* -1 for what lies there before the first task */
    b->gaps = 0;
    b->last_use = b->producer;
    for (int i = 0; i < c.tasks; i++) {
        for (int k = 0; k < c.task[i].ins; k++) {
            if (c.list[c.task[i].in + k] == o) {
                add_gap(o, at, i, at < 0 && !b->fast && b->gaps == 0, c.dirties[c.task[i].in + k]);
                at = i;
                b->last_use = i;
            }
        }
    }
    if (b->final == FINAL_FAST) {
        add_gap(o, at, c.tasks, at < 0 && !b->fast && b->gaps == 0, false);
    }
}

static bool read_chain(void)
{
    int objects;
    if (scanf("%d", &objects) != 1) {
        return false;
    }
    memset(&c, 0, sizeof c);
    c.objects = objects;
    c.tasks = whole(TASKS);
    c.capacity = number();
    c.backing_capacity = number();
    c.bandwidth_in = number();
    c.bandwidth_out = number();
    if (objects > OBJECTS) {
        fprintf(stderr, "chains: %d objects, expected at most %d\n", objects, (int)OBJECTS);
        exit(4);
    }
    for (int o = 0; o < c.objects; o++) {
        object *b = &c.object[o];
        b->size = number();
        b->fast = whole(1) != 0;
        b->backing = whole(1) != 0;
        const int final = whole(2);
        b->final = final == 2 ? FINAL_FAST : final == 1 ? FINAL_BACKING : FINAL_NONE;
        b->producer = -1;
        b->in = transfer_time(b->size, c.bandwidth_in);
        b->out = transfer_time(b->size, c.bandwidth_out);
    }
    for (int i = 0; i < c.tasks; i++) {
        task *k = &c.task[i];
        k->runtime = number();
        k->workspace = number();
        k->in = c.listed;
        k->ins = whole(LISTED - c.listed);
        for (int j = 0; j < k->ins; j++) {
            c.list[c.listed] = whole(c.objects - 1);
            c.dirties[c.listed++] = whole(1) != 0;
        }
        k->out = c.listed;
        k->outs = whole(LISTED - c.listed);
        for (int j = 0; j < k->outs; j++) {
            const int o = whole(c.objects - 1);
            c.list[c.listed++] = o;
            c.object[o].producer = i;
            k->outputs += c.object[o].size;
        }
    }
    for (int o = 0; o < c.objects; o++) {
        gaps_of(o);
    }
    return true;
}

/* ---- the triggers of a plan ---------------------------------------------------------------- */

static void put(int *head, int *next, int entry)
{
    next[entry] = *head;
    *head = entry;
}

/* Entries: a gap's number; of an object that leaves for good: GAPS and its number. */
static int entry_object(int entry)
{
    return entry >= GAPS ? entry - GAPS : c.gap[entry].object;
}

static void leave(int o, int after, bool written, int entry)
{
    put(written ? &t.offload[after] : &t.release[after], t.next[written ? 1 : 0], entry);
    if (written) {
        t.last_reference[o] = after > t.last_reference[o] ? after : t.last_reference[o];
    }
}

/* Fetches of one task in the order of their needs. */
static void put_fetch(int after, int g)
{
    int *at = &t.fetch[after];
    while (*at >= 0 && (c.gap[*at].to < c.gap[g].to || (c.gap[*at].to == c.gap[g].to && *at < g))) {
        at = &t.next[2][*at];
    }
    t.next[2][g] = *at;
    *at = g;
    const int o = c.gap[g].object;
    t.last_reference[o] = after > t.last_reference[o] ? after : t.last_reference[o];
}

static void triggers_of_object(const plan *p, int o)
{
    const object *b = &c.object[o];
    bool copied = b->backing;
    int last = b->producer;
    t.last_reference[o] = b->last_use < 0 || b->gaps == 0 ? -1 : b->last_use;
    for (int g = b->first_gap; g < b->first_gap + b->gaps; g++) {
        const gap *between = &c.gap[g];
        if (p->fetch[g] != STAYS) {
            const bool first = between->from < 0 && !b->fast;
            if (!first) {
                leave(o, between->from < 0 ? 0 : between->from, !copied, g);
                copied = true;
            }
            put_fetch(p->fetch[g], g);
        }
        copied = copied && !between->dirties;
        last = between->to;
    }
    if (last < c.tasks) { /* nothing needs it in fast memory any more */
        const bool there = b->fast || b->producer >= 0 || b->gaps > 0;
        if (there) {
            leave(o, last < 0 ? 0 : last, b->final == FINAL_BACKING && !copied, GAPS + o);
        }
    }
}

static void triggers_of(const plan *p)
{
    for (int i = 0; i < c.tasks; i++) {
        t.release[i] = t.offload[i] = t.fetch[i] = -1;
    }
    for (int o = c.objects - 1; o >= 0; o--) {
        triggers_of_object(p, o);
    }
}

/* ---- the suite's rules --------------------------------------------------------------------- */

typedef enum { ABSENT, LIVE, INBOUND, LEAVING, OUTBOUND } fast_state;

typedef struct queue {
    int object[GAPS + OBJECTS];
    int head, tail; /* waiting: head .. tail - 1 */
    int moving;     /* the object on its way, -1: none */
    double start, end;
} queue;

typedef struct simulation {
    queue in, out;
    double fast, backing, workspace, finish;
    fast_state state[OBJECTS];
    signed char copy[OBJECTS]; /* backing: 0 none, 1 being written, 2 there */
    bool deferred[OBJECTS];
} simulation;

static simulation s;

static double moving_end(const queue *q)
{
    return q->moving < 0 ? NEVER : q->end;
}

static void start_in(double now)
{
    queue *q = &s.in;
    if (q->moving >= 0 || q->head == q->tail) {
        return;
    }
    const int o = q->object[q->head];
    if (c.capacity - s.fast - s.workspace < c.object[o].size) {
        return;
    }
    q->head++;
    s.state[o] = INBOUND;
    s.fast += c.object[o].size;
    q->moving = o;
    q->start = now;
    q->end = now + c.object[o].in;
    s.finish = q->end > s.finish ? q->end : s.finish;
}

static void start_out(double now)
{
    queue *q = &s.out;
    if (q->moving >= 0 || q->head == q->tail) {
        return;
    }
    const int o = q->object[q->head];
    const double counted = s.copy[o] != 0 ? c.object[o].size : 0.0;
    if (c.backing_capacity - s.backing + counted < c.object[o].size) {
        return;
    }
    q->head++;
    s.state[o] = OUTBOUND;
    s.backing += c.object[o].size - counted;
    s.copy[o] = 1;
    q->moving = o;
    q->start = now;
    q->end = now + c.object[o].out;
    s.finish = q->end > s.finish ? q->end : s.finish;
}

static void end_one(void)
{
    const double in = moving_end(&s.in), out = moving_end(&s.out);
    if (in <= out) {
        s.state[s.in.moving] = LIVE;
        s.in.moving = -1;
        start_in(in);
        return;
    }
    const int o = s.out.moving;
    s.state[o] = ABSENT;
    s.fast -= c.object[o].size;
    s.copy[o] = 2;
    s.out.moving = -1;
    if (s.deferred[o]) {
        s.deferred[o] = false;
        s.in.object[s.in.tail++] = o;
    }
    start_out(out);
    start_in(out);
}

static void advance(double until)
{
    for (;;) {
        const double in = moving_end(&s.in), out = moving_end(&s.out);
        if ((in < out ? in : out) > until || (in >= NEVER && out >= NEVER)) {
            return;
        }
        end_one();
    }
}

/* When all that waits before and with `o` has run without a pause; o < 0: when all has. */
static double predicted(const queue *q, double now, bool in, int o)
{
    double cursor = now;
    if (q->moving >= 0) {
        cursor = q->end;
        if (q->moving == o) {
            return cursor;
        }
    }
    for (int i = q->head; i < q->tail; i++) {
        cursor += in ? c.object[q->object[i]].in : c.object[q->object[i]].out;
        if (q->object[i] == o) {
            return cursor;
        }
    }
    return o < 0 ? cursor : NEVER;
}

static double input_ready(int o, double now)
{
    if (s.state[o] == LIVE) {
        return now;
    }
    if (s.deferred[o]) {
        const double written = predicted(&s.out, now, false, o);
        const double busy = predicted(&s.in, now, true, -1);
        return (written > busy ? written : busy) + c.object[o].in;
    }
    return s.state[o] == LEAVING || s.state[o] == OUTBOUND ? NEVER : predicted(&s.in, now, true, o);
}

static double room_ready(double needed, double now)
{
    double free = c.capacity - s.fast - s.workspace, cursor = now;
    if (free >= needed) {
        return now;
    }
    if (s.out.moving >= 0) {
        cursor = s.out.end;
        free += c.object[s.out.moving].size;
        if (free >= needed) {
            return cursor;
        }
    }
    for (int i = s.out.head; i < s.out.tail; i++) {
        cursor += c.object[s.out.object[i]].out;
        free += c.object[s.out.object[i]].size;
        if (free >= needed) {
            return cursor;
        }
    }
    return NEVER;
}

static bool ready(const task *k, double needed)
{
    for (int j = 0; j < k->ins; j++) {
        if (s.state[c.list[k->in + j]] != LIVE) {
            return false;
        }
    }
    return needed <= 0 || s.fast + needed <= c.capacity;
}

/* When the task starts; NEVER: it cannot. */
static double start_of(const task *k, double now)
{
    const double needed = k->outputs + k->workspace;
    double start = now;
    for (int j = 0; j < k->ins; j++) {
        const double at = input_ready(c.list[k->in + j], now);
        start = at > start ? at : start;
    }
    if (needed > 0) {
        const double at = room_ready(needed, now);
        start = at > start ? at : start;
    }
    if (start >= NEVER) {
        return NEVER;
    }
    advance(start);
    while (!ready(k, needed)) {
        start_in(start);
        start_out(start);
        const double in = moving_end(&s.in), out = moving_end(&s.out);
        start = in < out ? in : out;
        if (start >= NEVER) {
            return NEVER;
        }
        advance(start);
    }
    return start;
}

static bool fire(int i, double now)
{
    for (int e = t.release[i]; e >= 0; e = t.next[0][e]) {
        const int o = entry_object(e);
        if (s.state[o] != LIVE) {
            return false;
        }
        s.state[o] = ABSENT;
        s.fast -= c.object[o].size;
        if (i >= t.last_reference[o] && c.object[o].final == FINAL_NONE && s.copy[o] == 2) {
            s.copy[o] = 0;
            s.backing -= c.object[o].size;
        }
    }
    for (int e = t.offload[i]; e >= 0; e = t.next[1][e]) {
        const int o = entry_object(e);
        if (s.state[o] != LIVE || s.copy[o] == 1) {
            return false;
        }
        s.state[o] = LEAVING;
        s.out.object[s.out.tail++] = o;
    }
    for (int g = t.fetch[i]; g >= 0; g = t.next[2][g]) {
        const int o = c.gap[g].object;
        if (s.state[o] == LEAVING || s.state[o] == OUTBOUND) {
            s.deferred[o] = true;
        } else if (s.state[o] != ABSENT || s.copy[o] != 2) {
            return false;
        } else {
            s.in.object[s.in.tail++] = o;
        }
    }
    start_in(now);
    start_out(now);
    return true;
}

static void simulation_begin(const plan *p)
{
    memset(&s, 0, sizeof s);
    s.in.moving = s.out.moving = -1;
    for (int o = 0; o < c.objects; o++) {
        const object *b = &c.object[o];
        const bool placed =
            b->gaps > 0 && c.gap[b->first_gap].from < 0 && p->fetch[b->first_gap] == STAYS;
        s.state[o] = b->fast || (b->backing && b->producer < 0 && placed) ? LIVE : ABSENT;
        s.fast += s.state[o] == LIVE ? b->size : 0.0;
        s.copy[o] = b->backing ? 2 : 0;
        s.backing += b->backing ? b->size : 0.0;
    }
}

/* The time of the whole; a plan that does not run costs more than any that does, less the further
 * it comes. */
static double cost_of(const plan *p)
{
    double now = 0;
    triggers_of(p);
    simulation_begin(p);
    if (s.fast > c.capacity || s.backing > c.backing_capacity) {
        return 1e15 + (s.fast - c.capacity);
    }
    for (int i = 0; i < c.tasks; i++) {
        const task *k = &c.task[i];
        const double start = start_of(k, now);
        if (start >= NEVER) {
            return 1e14 * (1.0 - (double)i / c.tasks) + 1e13;
        }
        s.workspace = k->workspace;
        s.fast += k->outputs;
        now = start + k->runtime;
        advance(now);
        s.workspace = 0;
        for (int j = 0; j < k->outs; j++) {
            s.state[c.list[k->out + j]] = LIVE;
        }
        if (!fire(i, now)) {
            return 1e14 * (1.0 - (double)i / c.tasks) + 1e13;
        }
    }
    while (s.in.moving >= 0 || s.out.moving >= 0) {
        end_one();
    }
    for (int o = 0; o < c.objects; o++) {
        if (s.deferred[o]) {
            return 1e13;
        }
    }
    if (s.in.head < s.in.tail || s.out.head < s.out.tail) {
        return 1e13;
    }
    return now > s.finish ? now : s.finish;
}

/* ---- bounds -------------------------------------------------------------------------------- */

static bool used_by(const task *k, int o)
{
    for (int j = 0; j < k->ins; j++) {
        if (c.list[k->in + j] == o) {
            return true;
        }
    }
    return false;
}

/* Why no plan runs: the bytes that a task needs at once, or those that lie in fast memory at the
 * first task or the end; 0: none. */
static double least_capacity(void)
{
    double most = 0, begin = 0, end = 0;
    for (int o = 0; o < c.objects; o++) {
        const object *b = &c.object[o];
        begin += b->fast || (c.tasks > 0 && used_by(&c.task[0], o)) ? b->size : 0.0;
        end += b->final == FINAL_FAST ? b->size : 0.0;
    }
    for (int i = 0; i < c.tasks; i++) {
        const task *k = &c.task[i];
        double needed = k->outputs + k->workspace + (i == 0 ? begin : 0.0);
        for (int j = 0; j < k->ins && i > 0; j++) {
            needed += c.object[c.list[k->in + j]].size;
        }
        most = needed > most ? needed : most;
    }
    return most > end ? most : end;
}

/* Tasks a + 1 .. b read objects of `read` bytes that were there before; what of them was not in
 * fast memory at the end of a is fetched in between. Beside them lay a's own objects that they do
 * not read. */
static double started_after(int a, int b, double ended, const int *seen, double read)
{
    const task *k = &c.task[a];
    double beside = k->workspace;
    for (int j = 0; j < k->ins; j++) {
        const int o = c.list[k->in + j];
        beside += seen[o] == a + 1 ? 0.0 : c.object[o].size;
    }
    for (int j = 0; j < k->outs; j++) {
        const int o = c.list[k->out + j];
        beside += seen[o] == a + 1 ? 0.0 : c.object[o].size;
    }
    (void)b;
    const double fetched = read + beside - c.capacity;
    return fetched > 0 ? ended + fetched / c.bandwidth_in : ended;
}

/* No plan ends sooner: tasks one after the other, fetches that any plan needs, and write-backs
 * behind the last writer. */
static double lower_bound(void)
{
    static double start[TASKS + 1];
    static int seen[OBJECTS], made[OBJECTS];
    double end = 0;
    memset(start, 0, sizeof start);
    memset(seen, 0, sizeof seen);
    for (int o = 0; o < c.objects; o++) {
        made[o] = c.object[o].producer;
    }
    for (int a = 0; a < c.tasks; a++) {
        const double ended = start[a] + c.task[a].runtime;
        double read = 0;
        start[a + 1] = ended > start[a + 1] ? ended : start[a + 1];
        for (int b = a + 1; b < c.tasks; b++) {
            for (int j = 0; j < c.task[b].ins; j++) {
                const int o = c.list[c.task[b].in + j];
                if (seen[o] != a + 1 && made[o] <= a) {
                    seen[o] = a + 1;
                    read += c.object[o].size;
                }
            }
            const double at = started_after(a, b, ended, seen, read);
            start[b] = at > start[b] ? at : start[b];
        }
    }
    for (int i = 0; i < c.tasks; i++) {
        double written = start[i] + c.task[i].runtime;
        for (int o = 0; o < c.objects; o++) {
            const object *b = &c.object[o];
            int last = b->producer;
            for (int g = b->first_gap; g < b->first_gap + b->gaps; g++) {
                last = c.gap[g].dirties ? c.gap[g].to : last;
            }
            written += b->final == FINAL_BACKING && last >= i ? b->out : 0.0;
        }
        end = written > end ? written : end;
    }
    return end;
}

/* ---- search -------------------------------------------------------------------------------- */

static int movable[GAPS], movables; /* the gaps that an object may leave in, short ones first */
static int by_time[GAPS], by_time_at[GAPS];

static int shorter_gap(const void *a, const void *b)
{
    const gap *x = &c.gap[*(const int *)a], *y = &c.gap[*(const int *)b];
    const int by_length = x->to - x->from - (y->to - y->from);
    return by_length != 0 ? by_length : *(const int *)a - *(const int *)b;
}

static int sooner_gap(const void *a, const void *b)
{
    const gap *x = &c.gap[*(const int *)a], *y = &c.gap[*(const int *)b];
    const int by_middle = x->from + x->to - (y->from + y->to);
    return by_middle != 0 ? by_middle : *(const int *)a - *(const int *)b;
}

static void floor_plan(plan *p)
{
    movables = 0;
    for (int g = 0; g < c.gaps; g++) {
        const gap *k = &c.gap[g];
        p->fetch[g] = k->earliest <= k->latest ? k->latest : STAYS;
        if (k->earliest <= k->latest) {
            movable[movables++] = g;
        }
    }
    memcpy(by_time, movable, sizeof by_time);
    qsort(movable, (size_t)movables, sizeof *movable, shorter_gap);
    qsort(by_time, (size_t)movables, sizeof *by_time, sooner_gap);
    for (int i = 0; i < movables; i++) {
        by_time_at[by_time[i]] = i;
    }
}

static int some_fetch(const gap *k)
{
    int back = 0;
    while (back < k->latest - k->earliest && drawn(3) != 0) {
        back++;
    }
    return k->latest - back;
}

/* A gap that begins at about the same time. */
static int beside(int g)
{
    const int reach = movables < 24 ? movables : 24;
    int at = by_time_at[g] - reach / 2 + (int)drawn((uint32_t)reach);
    at = at < 0 ? 0 : at >= movables ? movables - 1 : at;
    return by_time[at];
}

/* One change, of one gap or of some that begin at about the same time; what it was goes to `g` and
 * `was`. */
static int change(plan *p, int *g, int *was)
{
    int changes = 1;
    const int first = movable[drawn((uint32_t)movables)];
    const gap *k = &c.gap[first];
    g[0] = first;
    was[0] = p->fetch[first];
    if (p->fetch[first] == STAYS) {
        p->fetch[first] = some_fetch(k);
    } else if (drawn(2) == 0) {
        p->fetch[first] = STAYS;
    } else if (drawn(4) == 0) {
        p->fetch[first] = some_fetch(k);
    } else {
        const int moved = p->fetch[first] + (drawn(2) == 0 ? -1 : 1) * (1 + (int)drawn(2));
        p->fetch[first] = moved < k->earliest ? k->earliest : moved > k->latest ? k->latest : moved;
    }
    for (int tries = 0; tries < 8 && drawn(2) == 0 && changes < 4; tries++) {
        const int other = beside(first);
        const gap *w = &c.gap[other];
        bool taken = w->to < k->from || w->from > k->to;
        for (int i = 0; i < changes; i++) {
            taken = taken || g[i] == other;
        }
        if (!taken) {
            g[changes] = other;
            was[changes] = p->fetch[other];
            p->fetch[other] = p->fetch[other] == STAYS || drawn(2) == 0 ? some_fetch(w) : STAYS;
            changes++;
        }
    }
    return changes;
}

static double stays_where_it_helps(plan *p, long *tried)
{
    double now = cost_of(p);
    for (int m = 0; m < movables; m++) {
        const int g = movable[m], was = p->fetch[g];
        if (was != STAYS) {
            p->fetch[g] = STAYS;
            const double cost = cost_of(p);
            now = cost <= now ? cost : now;
            p->fetch[g] = cost <= now ? STAYS : was;
            ++*tried;
        }
    }
    return now;
}

/* Where the search begins: all that can leave does, fetched some tasks ahead; then what stays
 * without a loss does, short gaps first. The best of several distances. */
static double begin_search(plan *best, long *tried)
{
    static plan p;
    double least = NEVER;
    for (int ahead = 0; ahead < 6; ahead++) {
        floor_plan(&p);
        for (int m = 0; m < movables; m++) {
            const gap *k = &c.gap[movable[m]];
            p.fetch[movable[m]] = k->latest - ahead < k->earliest ? k->earliest : k->latest - ahead;
        }
        const double cost = stays_where_it_helps(&p, tried);
        if (cost < least) {
            least = cost;
            *best = p;
        }
    }
    return least;
}

/* Changes that cost a little are taken while it is warm; each round begins with the best plan. */
static double search_round(plan *best, double least, double warm, long turns, long *tried)
{
    static plan p;
    double now = least;
    p = *best;
    for (long turn = 0; turn < turns && least > c.bound * (1 + 1e-12); turn++) {
        int g[4], was[4];
        const double left = 1.0 - (double)turn / (double)turns, heat = warm * left * left;
        const int changes = change(&p, g, was);
        const double cost = cost_of(&p);
        ++*tried;
        if (cost <= now - heat * log(unit() + 1e-12)) {
            now = cost;
            if (cost < least) {
                least = cost;
                *best = p;
            }
        } else {
            for (int i = changes - 1; i >= 0; i--) {
                p.fetch[g[i]] = was[i];
            }
        }
    }
    return least;
}

static double search(plan *best, long turns, long *tried)
{
    const double step = c.bound / c.tasks, share = 0.01 * c.bound;
    const double warm[] = {
        share < step / 2 ? share : step / 2, step / 10, share, step / 4, step / 40, share / 10};
    const int rounds = (int)(sizeof warm / sizeof *warm);
    *tried = 0;
    double least = begin_search(best, tried);
    for (int i = 0; i < rounds && movables > 0; i++) {
        least = search_round(best, least, warm[i], turns * movables / rounds, tried);
    }
    return least;
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void write_list(char name, int entry, const int *next)
{
    putchar(name);
    for (; entry >= 0; entry = next[entry]) {
        printf(" %d", entry_object(entry));
    }
    putchar('\n');
}

/* "plan TIME BOUND TRIED", the objects that are placed before the first task, and each task's three
 * lists. */
static void write_plan(const plan *p, double cost, long tried)
{
    printf("plan %.17g %.17g %ld\ni", cost, c.bound, tried);
    triggers_of(p);
    simulation_begin(p);
    for (int o = 0; o < c.objects; o++) {
        if (s.state[o] == LIVE && !c.object[o].fast) {
            printf(" %d", o);
        }
    }
    putchar('\n');
    for (int i = 0; i < c.tasks; i++) {
        write_list('r', t.release[i], t.next[0]);
        write_list('o', t.offload[i], t.next[1]);
        write_list('p', t.fetch[i], t.next[2]);
    }
}

int main(int argc, char **argv)
{
    static plan best;
    const long turns = argc > 1 ? atol(argv[1]) : 1000;
    while (read_chain()) {
        long tried = 0;
        const double least = least_capacity();
        if (least > c.capacity) {
            printf("infeasible %.17g\n", least);
            continue;
        }
        c.bound = lower_bound();
        const double cost = search(&best, turns, &tried);
        if (cost < 1e13) {
            write_plan(&best, cost, tried);
        } else {
            printf("none %ld\n", tried);
        }
    }
    return 0;
}
