/* SPDX-License-Identifier: MIT */
/* The commands: each takes the settings and returns the program's exit code. */
#ifndef BP_BEDPLATE_COMMANDS_H
#define BP_BEDPLATE_COMMANDS_H

#include "tools/bedplate/app/settings.h"

typedef struct command {
    const char *name;
    const char *words; /* arguments that are no options */
    uint32_t least_words;
    uint32_t most_words;
    command_bit bit;
    int (*run)(const settings *set);
    const char *purpose;
} command;

/* What an exit code of the program says. */
typedef struct command_exit {
    int code;
    const char *meaning;
} command_exit;

enum { EXIT_MISMATCH = 8, EXIT_ANOMALY = 9 };

/* Row `index` of the table of commands, and of that of exit codes; NULL past the end. */
const command *command_at(uint32_t index);

/* What is printed of a name that other programs have for a command; NULL: it is not known. *nearest
 * is the command whose help is shown, NULL: none. */
const char *command_hint(const char *name, const char **nearest);
const command_exit *command_exit_at(uint32_t index);

/* What the program is, in a sentence. */
extern const char command_program_purpose[];

/* Prints help for a command: its options that matter most for "true", all for "all", else those
 * that have to do with a word. The exit code, 2 where there are none. */
int options_help(const command *v, const char *topic);

int cmd_plan(const settings *set);
int cmd_train(const settings *set);
int cmd_eval(const settings *set);
int cmd_embed(const settings *set);
int cmd_distill(const settings *set);
int cmd_generate(const settings *set);
int cmd_rollout(const settings *set);
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
