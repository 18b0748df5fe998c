/* SPDX-License-Identifier: MIT */
/* What is printed of a word or an option that is not known: the nearest one, or who has it. */
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/synonyms.h"

#define WORD_MAX 64

/* The nearest of the words that were compared. */
typedef struct nearest {
    const char *found;
    size_t length;
    const char *word; /* NULL: none was near */
    unsigned distance;
} nearest;

/* Levenshtein distance of two words of fewer than WORD_MAX characters, - and _ alike. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned row[WORD_MAX + 1];
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 0; i < a_length; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        char c = a[i] == '_' ? '-' : a[i];
        for (size_t j = 0; j < b_length; j++) {
            unsigned change = diagonal + (c == b[j] ? 0 : 1);
            unsigned least = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = change < least ? change : least;
        }
    }
    return row[b_length];
}

/* How many letters of a word may be wrong: one, and one more for every five of the shorter word.
 * Beyond that it is another word, and a suggestion would only confuse. */
static unsigned near_enough(size_t a, size_t b)
{
    return 1 + (unsigned)((a < b ? a : b) / 5);
}

static void nearest_try(nearest *n, const char *word)
{
    const size_t length = strcspn(word, "*");
    const size_t least = length < n->length ? length : n->length;
    if (n->length >= WORD_MAX || length >= WORD_MAX) {
        return;
    }
    const unsigned d = distance(n->found, n->length, word, length);
    if (d <= near_enough(n->length, length) && d < least && (n->word == NULL || d < n->distance)) {
        n->word = word;
        n->distance = d;
    }
}

uint32_t options_nearest(const char *found, const char *const *candidates, uint32_t count,
                         const char **to, uint32_t most)
{
    nearest n = {.found = found, .length = strlen(found)};
    unsigned distances[WORD_MAX];
    uint32_t kept = 0;
    most = most < WORD_MAX ? most : WORD_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const size_t length = strlen(candidates[i]);
        nearest_try(&n, candidates[i]);
        const unsigned d = n.length < WORD_MAX && length < WORD_MAX
                               ? distance(found, n.length, candidates[i], length)
                               : WORD_MAX;
        uint32_t at = kept < most ? kept++ : most;
        for (; at > 0 && distances[at - 1] > d; at--) {
            if (at < most) {
                distances[at] = distances[at - 1];
                to[at] = to[at - 1];
            }
        }
        if (at < most) {
            distances[at] = d;
            to[at] = candidates[i];
        }
    }
    if (n.word != NULL && most > 0) {
        to[0] = n.word;
        return 1;
    }
    return kept;
}

bool options_unknown(const char *of, const char *what, const char *found,
                     const char *const *candidates, uint32_t count)
{
    nearest n = {.found = found, .length = strlen(found)};
    for (uint32_t i = 0; i < count; i++) {
        nearest_try(&n, candidates[i]);
    }
    if (of != NULL) {
        output_print(stderr, "bedplate: %s: unknown %s: found \"%s\"", of, what, found);
    } else {
        output_print(stderr, "bedplate: %s: unknown %s", found, what);
    }
    if (n.word != NULL) {
        output_print(stderr, ": the nearest is %s\n", n.word);
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        output_print(stderr, "%s%s",
                     i > 0        ? ", "
                     : of != NULL ? ", expected "
                                  : ": expected ",
                     candidates[i]);
    }
    output_print(stderr, "\n");
    return false;
}

/* What an option of version 0.1 is called now; NULL: it was none. `below` begins several names. */
static const char *former_name(const char *found, size_t length, char to[WORD_MAX])
{
    static const char *const names[][2] = {{"below", "offload"}, {"lanes", "virtual-ranks"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t old = strlen(names[i][0]);
        if (length >= old && strncmp(found, names[i][0], old) == 0 &&
            (length == old || found[old] == '-')) {
            (void)snprintf(to, WORD_MAX, "%s%.*s", names[i][1], (int)(length - old), found + old);
            return to;
        }
    }
    return NULL;
}

const char *command_name(unsigned bit)
{
    const command *v;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        if ((unsigned)v->bit == bit) {
            return v->name;
        }
    }
    return "COMMAND";
}

/* Whether other commands have the option; says which. */
static bool unknown_elsewhere(const char *found, size_t length, unsigned bit)
{
    const synonym *row = synonym_find(found, length, ~0u);
    const option *which = option_find(found, length);
    const char *name = row != NULL ? row->name : NULL;
    which = which == NULL && name != NULL ? option_find(name, strlen(name)) : which;
    if (which == NULL) {
        return false;
    }
    const unsigned own = row != NULL && row->commands != 0 ? row->commands : ~0u;
    output_print(stderr, "bedplate: --%.*s: an option of other commands", (int)length, found);
    const char *before = ": expected ";
    const command *v;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        if ((which->commands & own & (unsigned)v->bit) != 0) {
            output_print(stderr, "%s%s", before, v->name);
            before = ", ";
        }
    }
    output_print(stderr, ", found %s\ntry: bedplate %s --help all\n", command_name(bit),
                 command_name(bit));
    return true;
}

/* What stands behind the last dot of a name with groups, "optimizer.lr", where it is known here. */
static const char *dotted_name(const char *found, size_t length, unsigned bit, char to[WORD_MAX])
{
    size_t begin = length;
    while (begin > 0 && found[begin - 1] != '.') {
        begin--;
    }
    const size_t rest = length - begin;
    if (begin == 0 || rest == 0 || rest >= WORD_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < rest; i++) {
        to[i] = (char)(found[begin + i] == '_' ? '-' : found[begin + i]);
    }
    to[rest] = '\0';
    const option *which = option_find(to, rest);
    const bool own = which != NULL && (which->commands & bit) != 0;
    return own || synonym_find(to, rest, bit) != NULL ? to : NULL;
}

static void nearest_names(nearest *n, unsigned commands)
{
    const option *which;
    const synonym *row;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if ((which->commands & commands) != 0) {
            nearest_try(n, which->name);
        }
    }
    for (uint32_t i = 0; (row = synonym_at(i)) != NULL; i++) {
        if (row->other[0] != '-' && synonym_applies(row, commands)) {
            nearest_try(n, row->other);
        }
    }
}

/* The nearest name, with our own of a synonym and the line of one that we have not. */
static void unknown_nearest(const char *name, unsigned commands)
{
    const size_t length = strcspn(name, "*");
    const synonym *row = synonym_find(name, length, commands);
    const bool own = row == NULL || (row->name != NULL && strcmp(row->name, name) == 0);
    output_print(stderr, ": the nearest is --%.*s", (int)length, name);
    if (!own && row->name != NULL) {
        output_print(stderr, " (--%s)", row->name);
    } else if (!own) {
        output_print(stderr, " (%s)", row->hint);
    }
}

void options_unknown_name(const char *where, const char *found, size_t length, unsigned bit)
{
    char room[WORD_MAX];
    nearest n = {.found = found, .length = length};
    const char *between = where != NULL ? ": " : "";
    where = where != NULL ? where : "";
    if (found[0] != '-' && between[0] == '\0' && unknown_elsewhere(found, length, bit)) {
        return;
    }
    unsigned commands = bit;
    n.word = former_name(found, length, room);
    n.word = n.word == NULL ? dotted_name(found, length, bit, room) : n.word;
    if (n.word == NULL) {
        nearest_names(&n, bit);
    }
    if (n.word == NULL) {
        commands = ~0u;
        nearest_names(&n, commands);
    }
    output_print(stderr, "bedplate: %s%s%s%.*s: unknown option", where, between,
                 found[0] == '-' ? "" : "--", (int)length, found);
    if (n.word != NULL) {
        unknown_nearest(n.word, commands);
    }
    const bool other = n.word != NULL && commands != bit;
    output_print(stderr,
                 other ? " of another command\ntry: bedplate %s --help all\n"
                       : "\ntry: bedplate %s --help all\n",
                 command_name(bit));
}
