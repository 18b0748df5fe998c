/* SPDX-License-Identifier: MIT */
/* Entities, token by token. */
#include "tools/bedplate/predict/entities.h"

#include <stdio.h>
#include <string.h>

#define NO_TYPE BP_CLASS_NAMES_MAX /* of "O", and of what stands around sentences */

/* What follows the first '-' behind the letter, or all that follows it; "" is "_". */
static const char *type_of(const char *name)
{
    const char *rest = name[0] != '\0' ? name + 1 : name, *dash = strchr(rest, '-');
    const char *type = dash != NULL ? dash + 1 : rest;
    return type[0] != '\0' ? type : "_";
}

static const char *name_of(const entities *e, uint32_t class_number)
{
    const bp_class_names *names = e->names;
    return class_number < names->count ? names->text + names->start[class_number] : "";
}

/* The first class that has the type of this one. */
static uint32_t number_of_type(const entities *e, uint32_t class_number)
{
    const char *type = type_of(name_of(e, class_number));
    uint32_t i = 0;
    if (strcmp(type, "_") == 0) {
        return NO_TYPE;
    }
    while (i < class_number && strcmp(type_of(name_of(e, i)), type) != 0) {
        i++;
    }
    return i;
}

static void begin_sentence(entities *e)
{
    const entity_state outside = {.letter = 'O', .type = NO_TYPE};
    e->at = 0;
    e->given = outside;
    e->found = outside;
}

void entities_begin(entities *e, const bp_class_names *names, uint32_t classes)
{
    memset(e, 0, sizeof *e);
    e->names = names;
    for (uint32_t i = 0; i < classes && i < BP_CLASS_NAMES_MAX; i++) {
        const bool named = i < names->count;
        e->letter[i] = named ? name_of(e, i)[0] : 'L'; /* of LABEL_7 */
        e->type[i] = named ? number_of_type(e, i) : i;
    }
    begin_sentence(e);
}

/* seqeval's end_of_chunk: whether an entity ends before this tag. */
static bool ends(const entity_state *before, char letter, uint32_t type)
{
    const char last = before->letter;
    const bool new_one = letter == 'B' || letter == 'S' || letter == 'O';
    return last == 'E' || last == 'S' || ((last == 'B' || last == 'I') && new_one) ||
           (last != 'O' && last != '.' && before->type != type);
}

/* seqeval's start_of_chunk: whether one begins with it. */
static bool begins(const entity_state *before, char letter, uint32_t type)
{
    const char last = before->letter;
    const bool inner = letter == 'E' || letter == 'I';
    return letter == 'B' || letter == 'S' ||
           ((last == 'E' || last == 'S' || last == 'O') && inner) ||
           (letter != 'O' && letter != '.' && before->type != type);
}

static void step(entity_state *state, uint64_t at, char letter, uint32_t type)
{
    state->begin = begins(state, letter, type) ? at : state->begin;
    state->letter = letter;
    state->type = type;
}

/* Entities that end before this token: both sides have the same one where it began and ends at the
 * same places and has one type. */
static void entities_step(entities *e, char given, uint32_t given_type, char found,
                          uint32_t found_type)
{
    const bool given_ends = ends(&e->given, given, given_type);
    const bool found_ends = ends(&e->found, found, found_type);
    e->counts[e->given.type].labelled += given_ends ? 1 : 0;
    e->counts[e->found.type].predicted += found_ends ? 1 : 0;
    if (given_ends && found_ends && e->given.type == e->found.type &&
        e->given.begin == e->found.begin) {
        e->counts[e->given.type].right++;
    }
    step(&e->given, e->at, given, given_type);
    step(&e->found, e->at, found, found_type);
    e->at++;
}

void entities_token(entities *e, uint32_t given, uint32_t found)
{
    entities_step(e, e->letter[given], e->type[given], e->letter[found], e->type[found]);
}

void entities_end_sentence(entities *e)
{
    entities_step(e, 'O', NO_TYPE, 'O', NO_TYPE);
    begin_sentence(e);
}

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

double entity_precision(const entity_counts *c)
{
    return share(c->right, c->predicted);
}

double entity_recall(const entity_counts *c)
{
    return share(c->right, c->labelled);
}

double entity_f1(const entity_counts *c)
{
    return share(2 * c->right, c->predicted + c->labelled);
}

entity_counts entities_all(const entities *e)
{
    entity_counts all = {.right = 0};
    for (uint32_t i = 0; i <= NO_TYPE; i++) {
        all.labelled += e->counts[i].labelled;
        all.predicted += e->counts[i].predicted;
        all.right += e->counts[i].right;
    }
    return all;
}

void entities_json(const entities *e, const char *key, output *out)
{
    json_open(out, key);
    for (uint32_t i = 0; i <= NO_TYPE; i++) {
        const entity_counts *c = &e->counts[i];
        char number[24];
        if (c->labelled + c->predicted == 0) {
            continue;
        }
        snprintf(number, sizeof number, "LABEL_%u", i);
        json_open(out, i == NO_TYPE ? "_" : i < e->names->count ? type_of(name_of(e, i)) : number);
        json_real(out, "precision", entity_precision(c), 9);
        json_real(out, "recall", entity_recall(c), 9);
        json_real(out, "f1", entity_f1(c), 9);
        json_count(out, "number", c->labelled);
        json_close(out);
    }
    json_close(out);
}
