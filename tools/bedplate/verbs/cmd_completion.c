/* SPDX-License-Identifier: MIT */
/* bedplate completion: what bash, zsh or fish have to know to complete a command line, from the
 * tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/commands.h"
#include "tools/formats/family/preset.h"

/* What an option's value is completed with. */
typedef enum value_kind {
    VALUE_NONE,
    VALUE_WORDS,
    VALUE_FILE,
    VALUE_FOLDER,
    VALUE_MODEL
} value_kind;

/* A word of `choices` that can be typed as it stands. */
static bool is_typed(const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const bool plain = (word[i] >= 'a' && word[i] <= 'z') ||
                           (word[i] >= '0' && word[i] <= '9') || strchr("-_.", word[i]) != NULL;
        if (!plain) {
            return false;
        }
    }
    return length > 0;
}

/* Prints, or only counts, the words between the bars of `choices` that can be typed. */
static uint32_t put_words(const char *choices, const char *between, bool print)
{
    uint32_t count = 0;
    for (const char *at = choices; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, "| ");
        if (is_typed(at, length)) {
            if (print) {
                printf("%s%.*s", count > 0 ? between : "", (int)length, at);
            }
            count++;
        }
        at = at[length] == '|' ? at + length + 1 : NULL; /* behind a space there are options */
    }
    return count;
}

static value_kind value_of(const option *which)
{
    if (which->kind == OPTION_FLAG || which->choices == NULL) {
        return VALUE_NONE;
    }
    if (strstr(which->choices, "PRESET") != NULL) {
        return VALUE_MODEL;
    }
    if (strstr(which->choices, "FILE") != NULL) {
        return VALUE_FILE;
    }
    if (strcmp(which->choices, "DIR") == 0) {
        return VALUE_FOLDER;
    }
    const bool chosen = which->kind == OPTION_CHOICE || which->kind == OPTION_MAYBE ||
                        which->kind == OPTION_POLICY || which->kind == OPTION_TEXT;
    return chosen && put_words(which->choices, "", false) > 1 ? VALUE_WORDS : VALUE_NONE;
}

static void put_presets(const char *between)
{
    const bp_preset *preset;
    for (uint32_t i = 0; (preset = bp_preset_at(i)) != NULL; i++) {
        printf("%s%s", i > 0 ? between : "", preset->name);
    }
}

/* The options of a command, or those whose value is of a kind. */
static void put_options(unsigned commands, int kind, const char *before, const char *between)
{
    const option *which;
    bool first = true;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if ((which->commands & commands) != 0 &&
            (kind < 0 || value_of(which) == (value_kind)kind)) {
            printf("%s%s%s", first ? "" : between, before, which->name);
            first = false;
        }
    }
}

/* Text in single quotes of a shell, without what `leave` names. */
static void put_quoted(const char *text, const char *escape, const char *quote)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            printf("%s", quote);
        } else {
            printf(strchr(escape, *text) != NULL ? "\\%c" : "%c", *text);
        }
    }
}

/* ---- bash ---- */

static void bash_values(void)
{
    const option *which;
    printf("    case $before in\n    ");
    put_options(~0u, VALUE_MODEL, "--", "|");
    printf(")\n        words=\"");
    put_presets(" ");
    printf("\"\n        COMPREPLY=($(compgen -W \"$words\" -- \"$word\") "
           "$(compgen -f -- \"$word\"))\n        return ;;\n    ");
    put_options(~0u, VALUE_FILE, "--", "|");
    printf(")\n        COMPREPLY=($(compgen -f -- \"$word\"))\n        return ;;\n    ");
    put_options(~0u, VALUE_FOLDER, "--", "|");
    printf(")\n        COMPREPLY=($(compgen -d -- \"$word\"))\n        return ;;\n");
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if (value_of(which) == VALUE_WORDS) {
            printf("    --%s) words=\"", which->name);
            put_words(which->choices, " ", true);
            printf("\" ;;\n");
        }
    }
    printf("    ");
    put_options(~0u, VALUE_NONE, "--", "|");
    printf(") words= ;;\n    *) before= ;;\n    esac\n");
}

static void bash_commands(void)
{
    const command *v;
    printf("    case ${COMP_WORDS[1]} in\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        printf("    %s)\n        options=\"", v->name);
        put_options(v->bit, -1, "--", " ");
        printf("\"\n        rest=\"");
        put_words(v->words + strspn(v->words, " "), " ", true);
        printf("\" ;;\n");
    }
    printf("    esac\n");
}

static void bash_flags(void)
{
    const option *which;
    bool first = true;
    printf("    case $before in\n    ");
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if (which->kind == OPTION_FLAG) {
            printf("%s--%s", first ? "" : "|", which->name);
            first = false;
        }
    }
    printf(") before= ;;\n    esac\n");
}

static void write_bash(void)
{
    const command *v;
    printf("# bash completion for bedplate: source it, or put it where bash-completion looks.\n"
           "# Made by `bedplate completion bash` of the program's own tables.\n"
           "_bedplate() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before= words= options= rest=\n"
           "    local at=$((COMP_CWORD - 1))\n"
           "    COMPREPLY=()\n"
           "    if [[ $COMP_CWORD -eq 1 ]]; then\n        COMPREPLY=($(compgen -W \"");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        printf("%s%s", i > 0 ? " " : "", v->name);
    }
    printf("\" -- \"$word\"))\n        return\n    fi\n"
           "    # An = is a word of its own: --optim = ada.\n"
           "    [[ $word != = ]] || word=\n"
           "    [[ ${COMP_WORDS[at]} != = ]] || at=$((at - 1))\n"
           "    before=${COMP_WORDS[at]//_/-}\n"
           "    [[ $before == --* ]] || before=\n");
    bash_flags();
    bash_commands();
    bash_values();
    printf("    if [[ -n $before ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "    elif [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"${word//_/-}\"))\n"
           "    elif [[ -n $rest ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$rest\" -- \"$word\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -o filenames -F _bedplate bedplate\n");
}

/* ---- zsh ---- */

static void zsh_value(const option *which)
{
    printf(":");
    put_quoted(which->choices, ":[]", "'\\''");
    switch (value_of(which)) {
    case VALUE_MODEL:
        printf(":_bedplate_models");
        break;
    case VALUE_FILE:
        printf(":_files");
        break;
    case VALUE_FOLDER:
        printf(":_directories");
        break;
    case VALUE_WORDS:
        printf(":(");
        put_words(which->choices, " ", true);
        printf(")");
        break;
    default:
        printf(": ");
        break;
    }
}

static void zsh_command(const command *v)
{
    const option *which;
    printf("    %s)\n        _arguments \\\n", v->name);
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if ((which->commands & v->bit) == 0) {
            continue;
        }
        const bool many = which->kind == OPTION_LIST || which->kind == OPTION_PATHS;
        printf("            '%s--%s%s[", many ? "*" : "", which->name,
               which->kind == OPTION_FLAG ? "" : "=");
        put_quoted(which->help, "[]\\:", "'\\''");
        printf("]");
        if (which->kind != OPTION_FLAG) {
            zsh_value(which);
        }
        printf("' \\\n");
    }
    const char *words = v->words + strspn(v->words, " ");
    if (put_words(words, "", false) > 1) {
        printf("            '1:word:(");
        put_words(words, " ", true);
        printf(")' \\\n");
    }
    printf("            '*:file:_files' ;;\n");
}

static void write_zsh(void)
{
    const command *v;
    printf("#compdef bedplate\n"
           "# Made by `bedplate completion zsh` of the program's own tables.\n"
           "_bedplate_models() {\n    compadd -- ");
    put_presets(" ");
    printf("\n    _files\n}\n_bedplate() {\n    local -a commands\n    commands=(\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        printf("        '%s:", v->name);
        put_quoted(v->purpose, ":\\", "'\\''");
        printf("'\n");
    }
    printf("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        "
           "return\n"
           "    fi\n    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
           "    case $command in\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        zsh_command(v);
    }
    printf("    esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
           "    _bedplate \"$@\"\nelse\n    compdef _bedplate bedplate\nfi\n");
}

/* ---- fish ---- */

static void fish_option(const option *which)
{
    const command *v;
    printf("complete -c bedplate -n '__fish_seen_subcommand_from");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        if ((which->commands & v->bit) != 0) {
            printf(" %s", v->name);
        }
    }
    printf("' -l %s%s -d '", which->name, which->kind == OPTION_FLAG ? "" : " -r");
    put_quoted(which->help, "\\", "\\'");
    printf("'");
    const value_kind kind = value_of(which);
    if (kind == VALUE_WORDS) {
        printf(" -f -a '");
        put_words(which->choices, " ", true);
        printf("'");
    } else if (kind == VALUE_MODEL) {
        printf(" -F -a '");
        put_presets(" ");
        printf("'");
    } else if (kind == VALUE_FOLDER) {
        printf(" -f -a '(__fish_complete_directories)'");
    } else if (kind == VALUE_NONE) {
        printf(" -f");
    }
    printf("\n");
}

static void write_fish(void)
{
    const command *v;
    const option *which;
    printf("# Made by `bedplate completion fish` of the program's own tables.\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        printf("complete -c bedplate -n __fish_use_subcommand -f -a %s -d '", v->name);
        put_quoted(v->purpose, "\\", "\\'");
        printf("'\n");
        const char *words = v->words + strspn(v->words, " ");
        if (put_words(words, "", false) > 1) {
            printf("complete -c bedplate -n '__fish_seen_subcommand_from %s' -f -a '", v->name);
            put_words(words, " ", true);
            printf("'\n");
        }
    }
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        fish_option(which);
    }
}

int cmd_completion(const settings *set)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    static void (*const write[])(void) = {write_bash, write_zsh, write_fish};
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(set->words.item[0], shells[i]) == 0) {
            write[i]();
            return 0;
        }
    }
    options_unknown(NULL, "shell", set->words.item[0], shells, 3);
    return 2;
}
