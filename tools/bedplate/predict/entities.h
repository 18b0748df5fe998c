/* SPDX-License-Identifier: MIT */
/* Entities that tags mark in sentences (B-PER I-PER O ..), and how many of them were found: by the
 * rules of the seqeval library (get_entities and its micro average), which everybody reports. */
#ifndef BP_BEDPLATE_ENTITIES_H
#define BP_BEDPLATE_ENTITIES_H

#include "tools/bedplate/app/output.h"
#include "tools/formats/family/class_names.h"

/* Where a sentence's tags are: of the tag before, its first letter and its type, and where the
 * entity began that may be open. */
typedef struct entity_state {
    char letter;
    uint32_t type;
    uint64_t begin;
} entity_state;

/* Of one type: entities that are there, that were found, and that are both. */
typedef struct entity_counts {
    uint64_t labelled;
    uint64_t predicted;
    uint64_t right;
} entity_counts;

/* The words that a class's name is taken apart into; a type has the number of the first class that
 * has it. */
typedef struct entities {
    const bp_class_names *names; /* count 0: each class is a type of its own */
    uint64_t at;                 /* tokens of the sentence so far */
    entity_state given, found;
    char letter[BP_CLASS_NAMES_MAX];
    uint32_t type[BP_CLASS_NAMES_MAX];
    entity_counts counts[BP_CLASS_NAMES_MAX + 1];
} entities;

/* Counts from nothing, over `classes` classes (BP_CLASS_NAMES_MAX at most). */
void entities_begin(entities *e, const bp_class_names *names, uint32_t classes);

/* The next token of a sentence: its class, and the one that was predicted. */
void entities_token(entities *e, uint32_t given, uint32_t found);

/* The sentence is over. */
void entities_end_sentence(entities *e);

/* 0 where there is nothing to divide by, as seqeval has it. */
double entity_precision(const entity_counts *c);
double entity_recall(const entity_counts *c);
double entity_f1(const entity_counts *c);

/* All types together. */
entity_counts entities_all(const entities *e);

/* A member `key`: of each type that occurs an object with precision, recall, f1 and number, the
 * entities that are there. */
void entities_json(const entities *e, const char *key, output *out);

#endif
