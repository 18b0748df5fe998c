/* SPDX-License-Identifier: MIT */
/* Regular expressions: to postfix tokens, to states. */
#include "tools/formats/unicode/regex.h"

#include <string.h>

#define NOWHERE   UINT16_MAX
#define TOKENS    1024
#define DEPTH     32
#define FRAGMENTS 256
#define REPEATS   256 /* largest number of a repeat */

enum { TAKE, SPLIT, EMPTY, AT_BEGIN, AT_END, FOUND }; /* states, and tokens of atoms */
enum { JOIN = FOUND + 1, EITHER, ANY_NUMBER, AT_LEAST_ONE, MAYBE }; /* further tokens */

typedef struct token {
    uint8_t kind;
    uint8_t set;
} token;

/* What an open bracket waits with. */
typedef struct group {
    uint16_t atoms;
    uint16_t choices;
    uint16_t first; /* token */
} group;

typedef struct reader {
    bp_regex *regex;
    const char *at;
    const char *fault;
    token tokens[TOKENS];
    group groups[DEPTH];
    uint16_t count, depth;
    uint16_t atoms, choices; /* of the group at hand */
    uint16_t last;           /* where the tokens of the last atom begin */
    bool repeated;           /* and it has its repeat */
} reader;

static void regex_fail(reader *r, const char *text)
{
    r->fault = r->fault == NULL ? text : r->fault;
}

static void put(reader *r, unsigned kind, unsigned set)
{
    if (r->count == TOKENS) {
        regex_fail(r, "the expression is too long");
        return;
    }
    r->tokens[r->count++] = (token){(uint8_t)kind, (uint8_t)set};
}

/* Atoms side by side are joined when the next one begins. */
static void begin_atom(reader *r)
{
    if (r->atoms > 1) {
        r->atoms--;
        put(r, JOIN, 0);
    }
    r->last = r->count;
    r->repeated = false;
}

static void put_atom(reader *r, unsigned kind, unsigned set)
{
    begin_atom(r);
    put(r, kind, set);
    r->atoms++;
}

static void end_choice(reader *r)
{
    if (r->atoms == 0) {
        put_atom(r, EMPTY, 0);
    }
    while (r->atoms > 1) {
        r->atoms--;
        put(r, JOIN, 0);
    }
}

static void end_choices(reader *r)
{
    end_choice(r);
    for (; r->choices > 0; r->choices--) {
        put(r, EITHER, 0);
    }
}

/* ---- sets of bytes ---- */

static uint32_t *new_set(reader *r)
{
    if (r->regex->set_count == BP_REGEX_SETS) {
        regex_fail(r, "the expression has too many different characters and classes");
        r->regex->set_count = 0;
    }
    uint32_t *set = r->regex->sets[r->regex->set_count++];
    memset(set, 0, sizeof r->regex->sets[0]);
    return set;
}

static void set_range(uint32_t *set, unsigned first, unsigned last)
{
    for (unsigned c = first; c <= last; c++) {
        set[c / 32] |= 1u << c % 32;
    }
}

static void set_turn(uint32_t *set)
{
    for (unsigned i = 0; i < 8; i++) {
        set[i] = ~set[i];
    }
}

/* Adds what a letter behind a backslash stands for; false: nothing. */
static bool set_class(uint32_t *set, char letter)
{
    uint32_t all[8] = {0};
    switch (letter) {
    case 'd':
    case 'D':
        set_range(all, '0', '9');
        break;
    case 'w':
    case 'W':
        set_range(all, '0', '9');
        set_range(all, 'A', 'Z');
        set_range(all, 'a', 'z');
        set_range(all, '_', '_');
        break;
    case 's':
    case 'S':
        set_range(all, '\t', '\r');
        set_range(all, ' ', ' ');
        break;
    default:
        return false;
    }
    if (letter < 'a') {
        set_turn(all);
    }
    for (unsigned i = 0; i < 8; i++) {
        set[i] |= all[i];
    }
    return true;
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* A character behind a backslash, which stands for itself or for a class. */
static void add_escape(reader *r, uint32_t *set)
{
    const char c = *r->at;
    if (c == '\0' || (is_word(c) && !set_class(set, c))) {
        regex_fail(r, c == '\0' ? "the expression ends behind a backslash"
                                : "an escape that is not implemented (\\d, \\w, \\s and escapes of "
                                  "punctuation are)");
        return;
    }
    if (!is_word(c)) {
        set_range(set, (unsigned char)c, (unsigned char)c);
    }
    r->at++;
}

/* One or a range, up to what follows. */
static void add_member(reader *r, uint32_t *set)
{
    const char c = *r->at++;
    if (c == '\\') {
        add_escape(r, set);
        return;
    }
    const bool range = r->at[0] == '-' && r->at[1] != ']' && r->at[1] != '\0';
    const char last = range ? r->at[1] : c;
    if (range && (last == '\\' || (unsigned char)last < (unsigned char)c)) {
        regex_fail(r, "a range of characters that is not one");
        return;
    }
    set_range(set, (unsigned char)c, (unsigned char)last);
    r->at += range ? 2 : 0;
}

/* Behind its bracket. */
static void read_class(reader *r)
{
    uint32_t *set = new_set(r);
    const unsigned number = r->regex->set_count - 1u;
    const bool turned = *r->at == '^';
    r->at += turned ? 1 : 0;
    for (bool first = true; (*r->at != ']' || first) && r->fault == NULL; first = false) {
        if (*r->at == '\0') {
            regex_fail(r, "a class of characters has no end");
            return;
        }
        add_member(r, set);
    }
    if (r->fault != NULL) {
        return; /* perhaps at the end: nothing lies behind it */
    }
    r->at++;
    if (turned) {
        set_turn(set);
    }
    put_atom(r, TAKE, number);
}

static void read_literal(reader *r, char c)
{
    uint32_t one[8] = {0};
    set_range(one, (unsigned char)c, (unsigned char)c);
    for (unsigned i = 0; i < r->regex->set_count; i++) {
        if (memcmp(r->regex->sets[i], one, sizeof one) == 0) {
            put_atom(r, TAKE, i);
            return;
        }
    }
    memcpy(new_set(r), one, sizeof one);
    put_atom(r, TAKE, r->regex->set_count - 1u);
}

static void read_any(reader *r)
{
    uint32_t *set = new_set(r);
    set_range(set, '\n', '\n');
    set_turn(set);
    put_atom(r, TAKE, r->regex->set_count - 1u);
}

static void read_escape(reader *r)
{
    uint32_t *set = new_set(r);
    const unsigned number = r->regex->set_count - 1u;
    add_escape(r, set);
    put_atom(r, TAKE, number);
}

/* ---- groups and repeats ---- */

/* Behind its bracket. */
static void open_group(reader *r)
{
    if (*r->at == '?') {
        const char *name = strncmp(r->at, "?P<", 3) == 0 ? strchr(r->at, '>') : NULL;
        if (r->at[1] != ':' && name == NULL) {
            regex_fail(r, "look-around, flags and back references are not implemented");
            return;
        }
        r->at = name != NULL ? name + 1 : r->at + 2;
    }
    if (r->depth == DEPTH) {
        regex_fail(r, "groups are too deep");
        return;
    }
    begin_atom(r);
    r->groups[r->depth++] = (group){r->atoms, r->choices, r->count};
    r->atoms = 0;
    r->choices = 0;
}

static void close_group(reader *r)
{
    if (r->depth == 0) {
        regex_fail(r, "a bracket is closed that was not opened");
        return;
    }
    end_choices(r);
    const group *g = &r->groups[--r->depth];
    r->atoms = (uint16_t)(g->atoms + 1);
    r->choices = g->choices;
    r->last = g->first;
    r->repeated = false;
}

static bool may_repeat(reader *r)
{
    if (r->atoms == 0 || r->repeated) {
        regex_fail(r, "there is nothing to repeat");
    }
    r->repeated = true;
    return r->fault == NULL;
}

/* The laziness of a repeat changes what a group holds, never whether all of a text matches. */
static void end_repeat(reader *r)
{
    if (*r->at == '+') {
        regex_fail(r, "possessive repeats are not implemented");
    }
    r->at += *r->at == '?' ? 1 : 0;
}

/* x{least,most} as x x x? x?, with most NOWHERE as x x x*. The atom stays in its place and is the
 * first of its copies. */
static void put_repeats(reader *r, unsigned least, unsigned most)
{
    const uint16_t length = (uint16_t)(r->count - r->last);
    const unsigned copies = most == NOWHERE ? least + 1 : most;
    if (copies == 0) {
        r->count = r->last;
        put(r, EMPTY, 0);
    }
    for (unsigned i = 0; i < copies && r->fault == NULL; i++) {
        for (uint16_t k = 0; k < length && i > 0; k++) {
            put(r, r->tokens[r->last + k].kind, r->tokens[r->last + k].set);
        }
        if (i >= least) {
            put(r, most == NOWHERE ? ANY_NUMBER : MAYBE, 0);
        }
        if (i > 0) {
            put(r, JOIN, 0);
        }
    }
}

/* A number up to REPEATS; false: there is none. */
static bool read_number(const char **at, unsigned *number)
{
    const char *begin = *at;
    *number = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        *number = *number <= REPEATS ? *number * 10 + (unsigned)(**at - '0') : *number;
    }
    return *at > begin;
}

/* Behind its bracket, which stands for itself where no repeat follows. */
static void read_repeats(reader *r)
{
    const char *at = r->at;
    unsigned least, most;
    const bool some = read_number(&at, &least);
    const bool range = *at == ',';
    at += range ? 1 : 0;
    const bool end = range && read_number(&at, &most);
    if (*at != '}' || (!some && !range)) {
        read_literal(r, '{');
        return;
    }
    r->at = at + 1;
    most = end ? most : range ? NOWHERE : least;
    if (least > most || least > REPEATS || (most > REPEATS && most != NOWHERE)) {
        regex_fail(r, "the numbers of a repeat are not a range up to 256");
    }
    if (may_repeat(r)) {
        put_repeats(r, least, most);
        end_repeat(r);
    }
}

static void read_repeat(reader *r, unsigned kind)
{
    if (may_repeat(r)) {
        put(r, kind, 0);
        end_repeat(r);
    }
}

static void read_one(reader *r)
{
    const char c = *r->at++;
    switch (c) {
    case '(':
        open_group(r);
        break;
    case ')':
        close_group(r);
        break;
    case '|':
        end_choice(r);
        r->atoms = 0;
        r->choices++;
        break;
    case '*':
        read_repeat(r, ANY_NUMBER);
        break;
    case '+':
        read_repeat(r, AT_LEAST_ONE);
        break;
    case '?':
        read_repeat(r, MAYBE);
        break;
    case '{':
        read_repeats(r);
        break;
    case '[':
        read_class(r);
        break;
    case '.':
        read_any(r);
        break;
    case '\\':
        read_escape(r);
        break;
    case '^':
    case '$':
        put_atom(r, c == '^' ? AT_BEGIN : AT_END, 0);
        break;
    default:
        read_literal(r, c);
    }
}

/* ---- states ---- */

/* A piece of states: where it begins, and the first of its loose ends, each of which (state * 2 +
 * which) holds the next. */
typedef struct fragment {
    uint16_t start;
    uint16_t loose;
} fragment;

typedef struct builder {
    bp_regex *regex;
    const char *fault;
    fragment stack[FRAGMENTS];
    unsigned depth;
} builder;

static uint16_t *end_of(const builder *b, uint16_t loose)
{
    return &b->regex->states[loose / 2].out[loose % 2];
}

static void tie(const builder *b, uint16_t loose, uint16_t to)
{
    while (loose != NOWHERE) {
        uint16_t *end = end_of(b, loose);
        loose = *end;
        *end = to;
    }
}

static uint16_t chain(const builder *b, uint16_t first, uint16_t second)
{
    uint16_t at = first;
    while (*end_of(b, at) != NOWHERE) {
        at = *end_of(b, at);
    }
    *end_of(b, at) = second;
    return first;
}

static uint16_t new_state(builder *b, unsigned kind, unsigned set, uint16_t out)
{
    if (b->regex->state_count == BP_REGEX_STATES) {
        b->fault = "the expression has too many states";
        b->regex->state_count = 0;
    }
    const uint16_t number = b->regex->state_count++;
    b->regex->states[number] = (bp_regex_state){(uint8_t)kind, (uint8_t)set, {out, NOWHERE}};
    return number;
}

static void build_push(builder *b, uint16_t start, uint16_t loose)
{
    if (b->depth == FRAGMENTS) {
        b->fault = "the expression has too many parts";
        b->depth = 0;
    }
    b->stack[b->depth++] = (fragment){start, loose};
}

static void build_one(builder *b, token t)
{
    if (t.kind < FOUND) {
        const uint16_t s = new_state(b, t.kind, t.set, NOWHERE);
        build_push(b, s, (uint16_t)(2 * s));
        return;
    }
    const fragment top = b->stack[--b->depth];
    if (t.kind == JOIN) {
        fragment *below = &b->stack[b->depth - 1];
        tie(b, below->loose, top.start);
        below->loose = top.loose;
        return;
    }
    const uint16_t s = new_state(b, SPLIT, 0, top.start);
    const uint16_t other = (uint16_t)(2 * s + 1);
    if (t.kind == EITHER) {
        fragment *below = &b->stack[b->depth - 1];
        b->regex->states[s].out[1] = below->start;
        *below = (fragment){s, chain(b, below->loose, top.loose)};
    } else if (t.kind == MAYBE) {
        build_push(b, s, chain(b, top.loose, other));
    } else {
        tie(b, top.loose, s);
        build_push(b, t.kind == ANY_NUMBER ? s : top.start, other);
    }
}

const char *bp_regex_make(bp_regex *regex, const char *pattern)
{
    reader r;
    builder b;
    regex->state_count = 0;
    regex->set_count = 0;
    r.regex = regex;
    r.at = pattern;
    r.fault = NULL;
    r.count = r.depth = r.atoms = r.choices = r.last = 0;
    r.repeated = false;
    while (r.fault == NULL && *r.at != '\0') {
        read_one(&r);
    }
    if (r.depth > 0) {
        regex_fail(&r, "a bracket is not closed");
    }
    end_choices(&r);
    b.regex = regex;
    b.fault = r.fault;
    b.depth = 0;
    for (uint16_t i = 0; i < r.count && b.fault == NULL; i++) {
        build_one(&b, r.tokens[i]);
    }
    if (b.fault == NULL) {
        const uint16_t found = new_state(&b, FOUND, 0, NOWHERE);
        tie(&b, b.stack[0].loose, found);
        regex->start = b.stack[0].start;
    }
    return b.fault;
}

/* ---- matching ---- */

typedef struct state_list {
    uint16_t item[BP_REGEX_STATES];
    unsigned count;
} state_list;

typedef struct position {
    bool begins;
    bool ends;
} position;

/* Adds a state, and those that are reached from it without a byte. */
static void list_add(const bp_regex *regex, state_list *list, bool known[BP_REGEX_STATES],
                     uint16_t state, position here)
{
    uint16_t stack[BP_REGEX_STATES];
    unsigned depth = 0;
    if (!known[state]) {
        known[state] = true;
        stack[depth++] = state;
    }
    while (depth > 0) {
        const uint16_t s = stack[--depth];
        const bp_regex_state *at = &regex->states[s];
        list->item[list->count++] = s;
        const bool passes = at->kind == SPLIT || at->kind == EMPTY ||
                            (at->kind == AT_BEGIN && here.begins) ||
                            (at->kind == AT_END && here.ends);
        for (unsigned i = 0; i < (at->kind == SPLIT ? 2u : 1u) && passes; i++) {
            if (!known[at->out[i]]) {
                known[at->out[i]] = true;
                stack[depth++] = at->out[i];
            }
        }
    }
}

bool bp_regex_matches(const bp_regex *regex, const char *text, size_t length)
{
    state_list now = {.count = 0}, next;
    bool known[BP_REGEX_STATES] = {false};
    list_add(regex, &now, known, regex->start, (position){true, length == 0});
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        next.count = 0;
        memset(known, 0, sizeof known);
        for (unsigned k = 0; k < now.count; k++) {
            const bp_regex_state *at = &regex->states[now.item[k]];
            if (at->kind == TAKE && (regex->sets[at->set][c / 32] >> c % 32 & 1) != 0) {
                list_add(regex, &next, known, at->out[0], (position){false, i + 1 == length});
            }
        }
        now = next;
    }
    bool found = false;
    for (unsigned k = 0; k < now.count; k++) {
        found = found || regex->states[now.item[k]].kind == FOUND;
    }
    return found;
}
