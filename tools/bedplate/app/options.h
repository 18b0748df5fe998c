/* SPDX-License-Identifier: MIT */
/* Options: one table of them, from which parsing, help, the resolved set and the keys of a
 * checkpoint all follow. */
#ifndef BP_BEDPLATE_OPTIONS_H
#define BP_BEDPLATE_OPTIONS_H

#include "arena/text.h"
#include "tools/bedplate/app/settings.h"

typedef enum option_kind {
    OPTION_FLAG,
    OPTION_COUNT,      /* uint64_t, least .. most; with "|auto" in `choices` also OPTION_AUTO */
    OPTION_SIGNED,     /* int64_t */
    OPTION_BYTES,      /* uint64_t: 4GiB, 512MB, 2e9 */
    OPTION_REAL,       /* double */
    OPTION_STEPS,      /* double: a whole number, or below 1 a share of all steps */
    OPTION_TIME,       /* double, seconds: 90, 45m, 11h30m, 2d */
    OPTION_TEXT,       /* const char * */
    OPTION_TEXT_MAYBE, /* the same; without a value "true" */
    OPTION_LIST,       /* path_list of texts, one per use */
    OPTION_CHOICE,     /* one of the words in `choices`, separated by '|' */
    OPTION_MAYBE,  /* the same; without a value, or for true, the first word, for false the last */
    OPTION_POLICY, /* a checkpoint policy */
    OPTION_PATHS   /* path_list; takes every argument up to the next option */
} option_kind;

typedef struct option {
    const char *name;
    option_kind kind;
    unsigned commands; /* command_bit: which commands take it */
    size_t offset;     /* in settings */
    double least;
    double most;
    const char *fallback; /* the default as text; NULL: none */
    const char
        *choices; /* OPTION_CHOICE, OPTION_MAYBE: words; else what help shows for the value */
    bool result;  /* a resumed run must have the same value */
    const char *help;
} option;

/* Row `index` of the table, NULL past the end. */
const option *option_at(uint32_t index);

/* The heading under which this option and those after it stand, NULL when it is the one before. */
const char *option_section(const option *which);

/* The option of a name, - and _ alike; NULL: there is none. Names of other programs: synonyms.h. */
const option *option_find(const char *name, size_t length);

/* Sets every option to its default. */
void options_defaults(settings *set);

/* Reads the arguments after the command into `set` (which has defaults and a command): options,
 * then the file of --config below them. Prints what is wrong to stderr. BP_ERR_USAGE. */
bp_status options_parse(settings *set, int count, char **arguments) BP_MUST_CHECK;

/* An option and its value as a file has them. */
typedef struct option_pair {
    const char *name;
    const char *value;
} option_pair;

/* Sets options over what `set` has, under any name that the command line takes; what takes several
 * values has those of the pairs alone. Texts stay the caller's. `where`: the line of a file, for
 * messages. BP_ERR_USAGE, printed. */
bp_status options_pairs(settings *set, const option_pair *pairs, uint32_t count,
                        const char *where) BP_MUST_CHECK;

/* The option that a name, ours or another program's, means for these commands; NULL: none. */
const option *options_meaning(const char *name, unsigned commands);

/* Sets one option from text; `origin` is what messages call it ("--seed", "run.conf:3"). */
bp_status option_set(const option *which, settings *set, const char *value,
                     const char *origin) BP_MUST_CHECK;

/* --resume as its word says; --resume-from-checkpoint of true and false is --resume, of a path that
 * and resume_from. */
void options_resolve_resume(settings *set);

/* Whether a value is the `length` bytes of a word: capitals do not matter, - and _ are alike. */
bool option_same_word(const char *value, const char *word, size_t length);

/* The truth that a word stands for: true, yes, on, 1 or false, no, off, 0; false: it is none. */
bool option_truth(const char *word, bool *truth);

/* Whether the option may stand without a value, which is then true. */
bool option_is_flag(const option *which);

/* Reads a size: "4GiB", "512MB", "2e9", "4gb". */
bool option_bytes(const char *text, double *bytes);

/* Position of an option in the table. */
uint32_t option_index(const option *which);

/* Writes an option's value as it could be given; nothing for one that has none. */
void option_put(bp_text *text, const option *which, const settings *set);

/* Writes the command as a shell takes it: the options that were given, except those that `instead`
 * names, and then `instead`. */
void options_command_put(bp_text *text, const settings *set, const char *instead);

/* The resolved set of the command's options as `name = value` lines on stdout: a file for --config.
 */
void options_print(const settings *set);

/* "train" of its bit. */
const char *command_name(unsigned bit);

/* Complains about an unknown word, naming the nearest of `candidates` if one is near: true.
 * `of`: the option whose value it is; NULL: `found` is what the message begins with. */
bool options_unknown(const char *of, const char *what, const char *found,
                     const char *const *candidates, uint32_t count);

/* Puts the candidates nearest to a word into `to`, the nearest first, at most `most` of them; one
 * that differs by a slip alone is the only one. Returns how many. */
uint32_t options_nearest(const char *found, const char *const *candidates, uint32_t count,
                         const char **to, uint32_t most);

/* Complains about an unknown option of `length` bytes of a command: which commands take it, or the
 * nearest name. `where`: the line of a file that has it; NULL: the command line. */
void options_unknown_name(const char *where, const char *found, size_t length, unsigned bit);

/* Whether the option of this name was given, on the command line or in the --config file. */
bool option_given(const settings *set, const char *name);

/* Whether it was given and is not what it would be without: a file of --print-options gives all. */
bool option_said(const settings *set, const char *name);

#endif
