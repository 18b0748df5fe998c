/* SPDX-License-Identifier: MIT */
/* Regular expressions as programs of states. Jumps are relative, so a part moves and is copied as
 * it stands: a repetition puts a fork before what was written last. */
#include "tools/bedplate/reward/pattern.h"

#include <string.h>

enum { STATE_SET, STATE_FORK, STATE_JUMP, STATE_BEGIN, STATE_END, STATE_MATCH };

/* What is open while a pattern is read. */
typedef struct pattern_group {
    uint32_t start;  /* its first state */
    uint32_t branch; /* that of the alternative that is read */
    uint32_t jumps;  /* 1 + the last jump to the group's end; 0: none */
} pattern_group;

typedef struct pattern_reader {
    pattern *to;
    const char *text;
    const char *at;
    bp_error *error;
    uint32_t depth;
    uint32_t atom; /* 1 + the first state of what a repetition would repeat; 0: nothing */
    pattern_group groups[PATTERN_DEPTH];
} pattern_reader;

static bp_status pattern_refuse(const pattern_reader *r, const char *what)
{
    return bp_error_limit(r->error, BP_ERR_USAGE, "pattern", what, r->text,
                          (int64_t)(r->at - r->text), BP_LIMIT_NONE, 0);
}

/* Room for `count` states at `place`; those behind it move up. */
static bp_status pattern_insert(pattern_reader *r, uint32_t place, uint32_t count)
{
    pattern *to = r->to;
    if (to->count + count > PATTERN_STATES) {
        return pattern_refuse(r, "the regular expression has too many states, at this byte");
    }
    memmove(&to->states[place + count], &to->states[place],
            (to->count - place) * sizeof *to->states);
    to->count += count;
    return BP_OK;
}

static bp_status pattern_append(pattern_reader *r, pattern_state state)
{
    BP_TRY(pattern_insert(r, r->to->count, 1));
    r->to->states[r->to->count - 1] = state;
    return BP_OK;
}

static void bytes_add(uint32_t set[8], unsigned first, unsigned last)
{
    for (unsigned byte = first; byte <= last; byte++) {
        set[byte / 32] |= 1u << byte % 32;
    }
}

static bool bytes_has(const uint32_t set[8], unsigned char byte)
{
    return (set[byte / 32] >> byte % 32 & 1) != 0;
}

static void bytes_turn(uint32_t set[8])
{
    for (int i = 0; i < 8; i++) {
        set[i] = ~set[i];
    }
}

/* What \x stands for; for most bytes themselves. */
static void bytes_add_escaped(uint32_t set[8], char x)
{
    uint32_t class[8] = {0};
    const char small = (char)(x | 0x20);
    if (small == 'd' || small == 'w') {
        bytes_add(class, '0', '9');
    }
    if (small == 'w') {
        bytes_add(class, 'a', 'z');
        bytes_add(class, 'A', 'Z');
        bytes_add(class, '_', '_');
    } else if (small == 's') {
        bytes_add(class, ' ', ' ');
        bytes_add(class, '\t', '\r');
    } else if (small != 'd') {
        const unsigned byte = x == 'n'   ? '\n'
                              : x == 't' ? '\t'
                              : x == 'r' ? '\r'
                                         : (unsigned char)x;
        bytes_add(set, byte, byte);
        return;
    }
    if (x != small) {
        bytes_turn(class);
    }
    for (int i = 0; i < 8; i++) {
        set[i] |= class[i];
    }
}

/* A letter that means something elsewhere would be taken for itself here, silently. */
static bp_status pattern_escape(pattern_reader *r, uint32_t set[8])
{
    const char x = *r->at;
    const bool letter = (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z');
    if (x == '\0' || (x >= '0' && x <= '9') || (letter && strchr("dDwWsSntr", x) == NULL)) {
        return pattern_refuse(r, "the regular expression has an escape that is not known here "
                                 "(no references, no \\b), at this byte");
    }
    bytes_add_escaped(set, x);
    r->at++;
    return BP_OK;
}

/* One byte, or the first of a range, of [..]; -1: a class, which was added. */
static bp_status pattern_set_item(pattern_reader *r, uint32_t set[8], int *byte)
{
    *byte = -1;
    if (*r->at == '\\') {
        r->at++;
        if (strchr("dDwWsSntr", *r->at) != NULL) {
            return pattern_escape(r, set);
        }
        uint32_t unused[8] = {0};
        *byte = (unsigned char)*r->at;
        return pattern_escape(r, unused);
    }
    *byte = (unsigned char)*r->at;
    if (*byte == 0) {
        return pattern_refuse(r, "the regular expression has a [ without ], at this byte");
    }
    r->at++;
    return BP_OK;
}

static bp_status pattern_brackets(pattern_reader *r, uint32_t set[8])
{
    const bool turned = *r->at == '^';
    bool first = true;
    for (r->at += turned; first || *r->at != ']'; first = false) {
        int byte, last;
        BP_TRY(pattern_set_item(r, set, &byte));
        last = byte;
        if (byte >= 0 && r->at[0] == '-' && r->at[1] != ']' && r->at[1] != '\0') {
            r->at++;
            BP_TRY(pattern_set_item(r, set, &last));
            if (last < byte) {
                return pattern_refuse(r, "the regular expression has a range that ends before it "
                                         "begins, at this byte");
            }
        }
        if (byte >= 0) {
            bytes_add(set, (unsigned)byte, (unsigned)last);
        }
    }
    r->at++;
    if (turned) {
        bytes_turn(set);
    }
    return BP_OK;
}

static bp_status pattern_put_set(pattern_reader *r, const uint32_t set[8])
{
    pattern *to = r->to;
    uint32_t which = 0;
    while (which < to->set_count && memcmp(to->sets[which], set, sizeof to->sets[0]) != 0) {
        which++;
    }
    if (which == PATTERN_SETS) {
        return pattern_refuse(r, "the regular expression has too many sets of bytes, at this byte");
    }
    if (which == to->set_count) {
        memcpy(to->sets[to->set_count++], set, sizeof to->sets[0]);
    }
    r->atom = to->count + 1;
    return pattern_append(r, (pattern_state){.kind = STATE_SET, .set = (uint8_t)which});
}

static bp_status pattern_open(pattern_reader *r)
{
    if (r->at[0] == '?') {
        if (r->at[1] != ':') {
            return pattern_refuse(r, "the regular expression looks ahead or behind, which takes "
                                     "more than linear time, at this byte");
        }
        r->at += 2;
    }
    if (r->depth + 1 == PATTERN_DEPTH) {
        return pattern_refuse(r, "the regular expression has too many open groups, at this byte");
    }
    r->groups[++r->depth] = (pattern_group){.start = r->to->count, .branch = r->to->count};
    r->atom = 0;
    return BP_OK;
}

/* The alternative ends: a fork before it, a jump behind it. */
static bp_status pattern_branch(pattern_reader *r)
{
    pattern_group *group = &r->groups[r->depth];
    pattern *to = r->to;
    BP_TRY(pattern_insert(r, group->branch, 1));
    to->states[group->branch] = (pattern_state){
        .kind = STATE_FORK, .next = 1, .other = (int16_t)(to->count - group->branch + 1)};
    BP_TRY(pattern_append(r, (pattern_state){.kind = STATE_JUMP, .other = (int16_t)group->jumps}));
    group->jumps = to->count;
    group->branch = to->count;
    r->atom = 0;
    return BP_OK;
}

/* Jumps of the group's alternatives lead behind it. */
static void pattern_join(pattern_reader *r)
{
    const pattern_group *group = &r->groups[r->depth];
    for (uint32_t jump = group->jumps; jump != 0;) {
        pattern_state *state = &r->to->states[jump - 1];
        const uint32_t before = (uint32_t)state->other;
        state->next = (int16_t)(r->to->count - (jump - 1));
        jump = before;
    }
    r->atom = group->start + 1;
}

/* The last `length` states from `first` become optional, or may be repeated as well. */
static bp_status pattern_optional(pattern_reader *r, uint32_t first, uint32_t length, bool more)
{
    BP_TRY(pattern_insert(r, first, 1));
    r->to->states[first] = (pattern_state){
        .kind = STATE_FORK, .next = 1, .other = (int16_t)(length + 1 + (more ? 1 : 0))};
    return !more ? BP_OK
                 : pattern_append(r, (pattern_state){.kind = STATE_JUMP,
                                                     .next = (int16_t) - (int)(length + 1)});
}

/* A copy of what stands from `first` behind all. */
static bp_status pattern_again(pattern_reader *r, const pattern_state *part, uint32_t length)
{
    const uint32_t place = r->to->count;
    BP_TRY(pattern_insert(r, place, length));
    memcpy(&r->to->states[place], part, length * sizeof *part);
    return BP_OK;
}

/* least .. most times; most 0: any number. */
static bp_status pattern_times(pattern_reader *r, uint32_t least, uint32_t most)
{
    pattern_state part[PATTERN_STATES];
    const uint32_t first = r->atom - 1, length = r->to->count - first;
    memcpy(part, &r->to->states[first], length * sizeof *part);
    r->to->count = first;
    for (uint32_t i = 0; i < least; i++) {
        BP_TRY(pattern_again(r, part, length));
    }
    if (most == 0) {
        const uint32_t place = r->to->count;
        BP_TRY(pattern_again(r, part, length));
        return pattern_optional(r, place, length, true);
    }
    for (uint32_t i = least; i < most; i++) {
        const uint32_t place = r->to->count;
        BP_TRY(pattern_again(r, part, length));
        BP_TRY(pattern_optional(r, place, length, false));
    }
    return BP_OK;
}

static uint32_t pattern_number(pattern_reader *r)
{
    uint32_t number = 0;
    while (*r->at >= '0' && *r->at <= '9' && number < 10000) {
        number = 10 * number + (uint32_t)(*r->at++ - '0');
    }
    return number;
}

static bp_status pattern_repeat(pattern_reader *r, char how)
{
    uint32_t least = how == '+' ? 1 : 0, most = how == '?' ? 1 : 0;
    if (r->atom == 0) {
        return pattern_refuse(r, "the regular expression repeats nothing, before this byte");
    }
    if (how == '{') {
        const char *begin = r->at;
        least = most = pattern_number(r);
        bool numbers = r->at > begin;
        if (*r->at == ',') {
            r->at++;
            begin = r->at;
            most = pattern_number(r);
            numbers = numbers && (r->at == begin || most >= least);
        }
        if (!numbers || *r->at++ != '}' || (most == 0 && r->at[-2] != ',')) {
            return pattern_refuse(r, "the regular expression has a repetition that is not {m}, "
                                     "{m,} or {m,n}, before this byte");
        }
    }
    BP_TRY(pattern_times(r, least, most));
    r->at += *r->at == '?';
    r->atom = 0;
    return BP_OK;
}

/* What begins with the byte c, which was taken. */
static bp_status pattern_take(pattern_reader *r, char c)
{
    uint32_t set[8] = {0};
    switch (c) {
    case '^':
    case '$':
        r->atom = 0;
        return pattern_append(r, (pattern_state){.kind = c == '^' ? STATE_BEGIN : STATE_END});
    case '(':
        return pattern_open(r);
    case '|':
        return pattern_branch(r);
    case ')':
        if (r->depth == 0) {
            return pattern_refuse(r, "the regular expression has a ) without (, before this byte");
        }
        pattern_join(r);
        r->depth--;
        return BP_OK;
    case '*':
    case '+':
    case '?':
    case '{':
        return pattern_repeat(r, c);
    case '.':
        bytes_turn(set);
        break;
    case '[':
        BP_TRY(pattern_brackets(r, set));
        break;
    case '\\':
        BP_TRY(pattern_escape(r, set));
        break;
    default:
        bytes_add(set, (unsigned char)c, (unsigned char)c);
    }
    return pattern_put_set(r, set);
}

bp_status pattern_compile(pattern *compiled, const char *text, bp_error *error)
{
    pattern_reader r = {.to = compiled, .text = text, .at = text, .error = error};
    compiled->count = 0;
    compiled->set_count = 0;
    while (*r.at != '\0') {
        const char c = *r.at++;
        BP_TRY(pattern_take(&r, c));
    }
    if (r.depth > 0) {
        return pattern_refuse(&r, "the regular expression has a ( without ), before this byte");
    }
    pattern_join(&r);
    return pattern_append(&r, (pattern_state){.kind = STATE_MATCH});
}

/* The states that are live before a byte: each once. */
typedef struct state_list {
    uint32_t count;
    uint16_t at[PATTERN_STATES];
    bool has[PATTERN_STATES];
} state_list;

/* Adds a state and all that follow from it without a byte; true: one of them is the match. */
static bool states_add(const pattern *p, state_list *list, uint32_t from, bool begins, bool ends)
{
    uint16_t waiting[2 * PATTERN_STATES];
    uint32_t count = 0;
    waiting[count++] = (uint16_t)from;
    while (count > 0) {
        const uint32_t at = waiting[--count];
        const pattern_state *state = &p->states[at];
        if (list->has[at]) {
            continue;
        }
        list->has[at] = true;
        if (state->kind == STATE_MATCH) {
            return true;
        }
        if (state->kind == STATE_SET) {
            list->at[list->count++] = (uint16_t)at;
        } else if (state->kind == STATE_FORK || state->kind == STATE_JUMP) {
            waiting[count++] = (uint16_t)((int)at + state->next);
        } else if (state->kind == STATE_BEGIN ? begins : ends) {
            waiting[count++] = (uint16_t)(at + 1);
        }
        if (state->kind == STATE_FORK) {
            waiting[count++] = (uint16_t)((int)at + state->other);
        }
    }
    return false;
}

bool pattern_search(const pattern *compiled, const char *text, size_t bytes)
{
    state_list lists[2];
    state_list *now = &lists[0], *after = &lists[1];
    memset(now, 0, sizeof *now);
    for (size_t i = 0;; i++) {
        if (states_add(compiled, now, 0, i == 0, i == bytes)) {
            return true;
        }
        if (i == bytes) {
            return false;
        }
        memset(after, 0, sizeof *after);
        for (uint32_t k = 0; k < now->count; k++) {
            const uint32_t at = now->at[k];
            if (bytes_has(compiled->sets[compiled->states[at].set], (unsigned char)text[i]) &&
                states_add(compiled, after, at + 1, false, i + 1 == bytes)) {
                return true;
            }
        }
        state_list *swap = now;
        now = after;
        after = swap;
    }
}
