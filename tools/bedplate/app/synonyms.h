/* SPDX-License-Identifier: MIT */
/* Names that other programs have for options, and values that they have for ours. */
#ifndef BP_BEDPLATE_SYNONYMS_H
#define BP_BEDPLATE_SYNONYMS_H

#include "tools/bedplate/app/options.h"

typedef struct synonym {
    const char *other;  /* what is typed, without its dashes; a short name with its own: "-n";
                         * a last * stands for any ending */
    const char *name;   /* our option; NULL: there is none, and `hint` names what comes near */
    unsigned commands;  /* which commands take it so; 0: all that take `name`, or every one */
    const char *values; /* how values become ours; NULL: they are the same. "THEIRS=OURS|..": a
                         * last * lets all others through, OURS of --NAME sets that flag, OURS of
                         * !TEXT refuses the value; SYNONYM_MODULES, SYNONYM_PERCENT */
    const char *hint;   /* one line */
} synonym;

/* Names of modules, with commas or spaces, each of which becomes a pattern over parameters. */
#define SYNONYM_MODULES "@modules"
/* A number of hundredths. */
#define SYNONYM_PERCENT "@percent"

/* Row `index` of the table, NULL past the end. */
const synonym *synonym_at(uint32_t index);

/* Whether a row is of one of these commands. */
bool synonym_applies(const synonym *row, unsigned commands);

/* The row of a name, - and _ alike, for one of these commands; NULL: there is none. */
const synonym *synonym_find(const char *name, size_t length, unsigned commands);

/* Whether the name may stand without a value, which is then true. */
bool synonym_is_flag(const synonym *row);

/* Translates a value. *which becomes the option that takes it, *ours its value, which lives as long
 * as the program. `origin` is what messages call the option. BP_ERR_USAGE: printed. */
bp_status synonym_value(const synonym *row, const char *value, const char *origin,
                        const option **which, const char **ours) BP_MUST_CHECK;

#endif
