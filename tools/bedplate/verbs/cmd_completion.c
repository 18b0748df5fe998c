/* SPDX-License-Identifier: MIT */
/* bedplate completion: what bash, zsh or fish have to know to complete a command line, from the
 * tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/app/output.h"
#include "tools/formats/family/preset.h"

static FILE *script; /* what is printed goes there */

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
                fprintf(script, "%s%.*s", count > 0 ? between : "", (int)length, at);
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
        fprintf(script, "%s%s", i > 0 ? between : "", preset->name);
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
            fprintf(script, "%s%s%s", first ? "" : between, before, which->name);
            first = false;
        }
    }
}

/* Text in single quotes of a shell, without what `leave` names. */
static void put_quoted(const char *text, const char *escape, const char *quote)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fprintf(script, "%s", quote);
        } else {
            fprintf(script, strchr(escape, *text) != NULL ? "\\%c" : "%c", *text);
        }
    }
}

/* ---- bash ---- */

static void bash_values(void)
{
    const option *which;
    fprintf(script, "    case $before in\n    ");
    put_options(~0u, VALUE_MODEL, "--", "|");
    fprintf(script, ")\n        words=\"");
    put_presets(" ");
    fprintf(script, "\"\n        COMPREPLY=($(compgen -W \"$words\" -- \"$word\") "
                    "$(compgen -f -- \"$word\"))\n        return ;;\n    ");
    put_options(~0u, VALUE_FILE, "--", "|");
    fprintf(script, ")\n        COMPREPLY=($(compgen -f -- \"$word\"))\n        return ;;\n    ");
    put_options(~0u, VALUE_FOLDER, "--", "|");
    fprintf(script, ")\n        COMPREPLY=($(compgen -d -- \"$word\"))\n        return ;;\n");
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if (value_of(which) == VALUE_WORDS) {
            fprintf(script, "    --%s) words=\"", which->name);
            put_words(which->choices, " ", true);
            fprintf(script, "\" ;;\n");
        }
    }
    fprintf(script, "    ");
    put_options(~0u, VALUE_NONE, "--", "|");
    fprintf(script, ") words= ;;\n    *) before= ;;\n    esac\n");
}

static void bash_commands(void)
{
    const command *v;
    fprintf(script, "    case ${COMP_WORDS[1]} in\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        fprintf(script, "    %s)\n        options=\"", v->name);
        put_options(v->bit, -1, "--", " ");
        fprintf(script, "\"\n        rest=\"");
        put_words(v->words + strspn(v->words, " "), " ", true);
        fprintf(script, "\" ;;\n");
    }
    fprintf(script, "    esac\n");
}

static void bash_flags(void)
{
    const option *which;
    bool first = true;
    fprintf(script, "    case $before in\n    ");
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if (which->kind == OPTION_FLAG) {
            fprintf(script, "%s--%s", first ? "" : "|", which->name);
            first = false;
        }
    }
    fprintf(script, ") before= ;;\n    esac\n");
}

static void write_bash(void)
{
    const command *v;
    fprintf(script,
            "# bash completion for bedplate: source it, or put it where bash-completion looks.\n"
            "# Made by `bedplate completion bash` of the program's own tables.\n"
            "_bedplate() {\n"
            "    local word=${COMP_WORDS[COMP_CWORD]} before= words= options= rest=\n"
            "    local at=$((COMP_CWORD - 1))\n"
            "    COMPREPLY=()\n"
            "    if [[ $COMP_CWORD -eq 1 ]]; then\n        COMPREPLY=($(compgen -W \"");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        fprintf(script, "%s%s", i > 0 ? " " : "", v->name);
    }
    fprintf(script, "\" -- \"$word\"))\n        return\n    fi\n"
                    "    # An = is a word of its own: --optim = ada.\n"
                    "    [[ $word != = ]] || word=\n"
                    "    [[ ${COMP_WORDS[at]} != = ]] || at=$((at - 1))\n"
                    "    before=${COMP_WORDS[at]//_/-}\n"
                    "    [[ $before == --* ]] || before=\n");
    bash_flags();
    bash_commands();
    bash_values();
    fprintf(script, "    if [[ -n $before ]]; then\n"
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
    fprintf(script, ":");
    put_quoted(which->choices, ":[]", "'\\''");
    switch (value_of(which)) {
    case VALUE_MODEL:
        fprintf(script, ":_bedplate_models");
        break;
    case VALUE_FILE:
        fprintf(script, ":_files");
        break;
    case VALUE_FOLDER:
        fprintf(script, ":_directories");
        break;
    case VALUE_WORDS:
        fprintf(script, ":(");
        put_words(which->choices, " ", true);
        fprintf(script, ")");
        break;
    default:
        fprintf(script, ": ");
        break;
    }
}

static void zsh_command(const command *v)
{
    const option *which;
    fprintf(script, "    %s)\n        _arguments \\\n", v->name);
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if ((which->commands & v->bit) == 0) {
            continue;
        }
        const bool many = which->kind == OPTION_LIST || which->kind == OPTION_PATHS;
        fprintf(script, "            '%s--%s%s[", many ? "*" : "", which->name,
                which->kind == OPTION_FLAG ? "" : "=");
        put_quoted(which->help, "[]\\:", "'\\''");
        fprintf(script, "]");
        if (which->kind != OPTION_FLAG) {
            zsh_value(which);
        }
        fprintf(script, "' \\\n");
    }
    const char *words = v->words + strspn(v->words, " ");
    if (put_words(words, "", false) > 1) {
        fprintf(script, "            '1:word:(");
        put_words(words, " ", true);
        fprintf(script, ")' \\\n");
    }
    fprintf(script, "            '*:file:_files' ;;\n");
}

static void write_zsh(void)
{
    const command *v;
    fprintf(script, "#compdef bedplate\n"
                    "# Made by `bedplate completion zsh` of the program's own tables.\n"
                    "_bedplate_models() {\n    compadd -- ");
    put_presets(" ");
    fprintf(script, "\n    _files\n}\n_bedplate() {\n    local -a commands\n    commands=(\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        fprintf(script, "        '%s:", v->name);
        put_quoted(v->purpose, ":\\", "'\\''");
        fprintf(script, "'\n");
    }
    fprintf(script,
            "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        "
            "return\n"
            "    fi\n    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
            "    case $command in\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        zsh_command(v);
    }
    fprintf(script, "    esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
                    "    _bedplate \"$@\"\nelse\n    compdef _bedplate bedplate\nfi\n");
}

/* ---- fish ---- */

static void fish_option(const option *which)
{
    const command *v;
    fprintf(script, "complete -c bedplate -n '__fish_seen_subcommand_from");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        if ((which->commands & v->bit) != 0) {
            fprintf(script, " %s", v->name);
        }
    }
    fprintf(script, "' -l %s%s -d '", which->name, which->kind == OPTION_FLAG ? "" : " -r");
    put_quoted(which->help, "\\", "\\'");
    fprintf(script, "'");
    const value_kind kind = value_of(which);
    if (kind == VALUE_WORDS) {
        fprintf(script, " -f -a '");
        put_words(which->choices, " ", true);
        fprintf(script, "'");
    } else if (kind == VALUE_MODEL) {
        fprintf(script, " -F -a '");
        put_presets(" ");
        fprintf(script, "'");
    } else if (kind == VALUE_FOLDER) {
        fprintf(script, " -f -a '(__fish_complete_directories)'");
    } else if (kind == VALUE_NONE) {
        fprintf(script, " -f");
    }
    fprintf(script, "\n");
}

static void write_fish(void)
{
    const command *v;
    const option *which;
    fprintf(script, "# Made by `bedplate completion fish` of the program's own tables.\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        fprintf(script, "complete -c bedplate -n __fish_use_subcommand -f -a %s -d '", v->name);
        put_quoted(v->purpose, "\\", "\\'");
        fprintf(script, "'\n");
        const char *words = v->words + strspn(v->words, " ");
        if (put_words(words, "", false) > 1) {
            fprintf(script, "complete -c bedplate -n '__fish_seen_subcommand_from %s' -f -a '",
                    v->name);
            put_words(words, " ", true);
            fprintf(script, "'\n");
        }
    }
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        fish_option(which);
    }
}

static void completion_write(FILE *stream, const void *user)
{
    const settings *set = user;
    script = stream;
    if (strcmp(set->words.item[0], "bash") == 0) {
        write_bash();
    } else if (strcmp(set->words.item[0], "zsh") == 0) {
        write_zsh();
    } else {
        write_fish();
    }
}

int cmd_completion(const settings *set)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    const bp_error none = {.code = BP_OK};
    output out;
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(set->words.item[0], shells[i]) != 0) {
            continue;
        }
        if (!set->json) {
            completion_write(stdout, set);
            return 0;
        }
        output_begin(&out, stdout);
        json_begin(&out);
        json_text(&out, "shell", shells[i]);
        bp_status status = json_written(&out, "script", completion_write, set);
        json_end(&out);
        output_end(&out);
        return report_status(status, &none);
    }
    options_unknown(NULL, "shell", set->words.item[0], shells, 3);
    return 2;
}
