/* SPDX-License-Identifier: MIT */
/* The verbs: each takes the settings and returns the program's exit code. */
#ifndef BP_BEDPLATE_VERBS_H
#define BP_BEDPLATE_VERBS_H

#include "tools/bedplate/app/settings.h"

typedef struct verb {
    const char *name;
    const char *words; /* arguments that are no options */
    uint32_t least_words;
    uint32_t most_words;
    verb_bit bit;
    int (*run)(const settings *set);
    const char *purpose;
} verb;

/* What an exit code of the program says. */
typedef struct verb_exit {
    int code;
    const char *meaning;
} verb_exit;

enum { EXIT_DOUBT = 8, EXIT_ANOMALY = 9 };

/* Row `index` of the table of verbs, and of that of exit codes; NULL past the end. */
const verb *verb_at(uint32_t index);
const verb_exit *verb_exit_at(uint32_t index);

/* What the program is, in a sentence. */
extern const char verb_program_purpose[];

/* Prints help for a verb: its options by section, values, defaults. */
void options_help(const verb *v);

int cmd_plan(const settings *set);
int cmd_train(const settings *set);
int cmd_eval(const settings *set);
int cmd_embed(const settings *set);
int cmd_distill(const settings *set);
int cmd_generate(const settings *set);
int cmd_tokenize(const settings *set);
int cmd_verify(const settings *set);
int cmd_bench(const settings *set);
int cmd_devices(const settings *set);
int cmd_arena(const settings *set);
int cmd_export(const settings *set);
int cmd_import(const settings *set);
int cmd_completion(const settings *set);
int cmd_init(const settings *set);
int cmd_replay(const settings *set);
int cmd_selftest(const settings *set);
int cmd_watch(const settings *set);
int cmd_report(const settings *set);

#endif
