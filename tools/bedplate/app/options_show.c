/* SPDX-License-Identifier: MIT */
/* Options on paper: help, and the resolved set. */
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/commands.h"

static bool is_meta(const option *which)
{
    return which->offset == offsetof(settings, help) ||
           which->offset == offsetof(settings, config) ||
           which->offset == offsetof(settings, print_options);
}

/* What the fit chooses when --arena is given and they are not: printing a default would fix it. And
 * the working type beside which no other may be said. */
static bool is_left_open(const option *which, const settings *set)
{
    if (which->offset == offsetof(settings, fp32)) {
        return !set->given[option_index(which)];
    }
    bool chosen = which->offset == offsetof(settings, checkpointing) ||
                  which->offset == offsetof(settings, batch) ||
                  which->offset == offsetof(settings, accumulation) ||
                  which->offset == offsetof(settings, loss_rows);
    return chosen && set->arena != 0 && !set->given[option_index(which)];
}

static void print_one(bp_text *out, const option *which, const char *value)
{
    bp_text_string(out, which->name);
    bp_text_string(out, " = ");
    bp_text_string(out, value);
    bp_text_char(out, '\n');
}

void options_print(const settings *set)
{
    output out;
    output_begin(&out, stdout);
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if ((which->commands & set->command) == 0 || is_meta(which) || is_left_open(which, set)) {
            continue;
        }
        if (which->kind == OPTION_PATHS || which->kind == OPTION_LIST) {
            const path_list *list = (const void *)((const char *)set + which->offset);
            for (uint32_t p = 0; p < list->count; p++) {
                print_one(&out.text, which, list->item[p]);
            }
            continue;
        }
        bp_text_string(&out.text, which->name);
        bp_text_string(&out.text, " = ");
        option_put(&out.text, which, set);
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
}

static const command *show_verb(const char *name, size_t length)
{
    const command *v = NULL;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        if (strlen(v->name) == length && memcmp(v->name, name, length) == 0) {
            break;
        }
    }
    return v;
}

/* The bytes of `import, export: ` in front of a part of a help text, whose commands they are; 0:
 * there are none. */
static size_t show_commands(const char *part, unsigned *commands)
{
    const char *at = part;
    *commands = 0;
    for (;;) {
        const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        const command *v = show_verb(at, length);
        if (v == NULL || (at[length] != ':' && at[length] != ',') || at[length + 1] != ' ') {
            return 0;
        }
        *commands |= (unsigned)v->bit;
        at += length + 2;
        if (at[-2] == ':') {
            return (size_t)(at - part);
        }
    }
}

/* A help text without what is about other commands: its parts are divided by semicolons, and one
 * that begins with names of commands, and those behind it, are theirs. */
static void show_help(const char *help, const command *v)
{
    bool theirs = false, first = true;
    while (*help != '\0') {
        unsigned commands;
        const size_t skip = show_commands(help, &commands);
        const char *text = help + skip, *end = strstr(text, "; ");
        const size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
        theirs = skip > 0 ? (commands & (unsigned)v->bit) == 0 : theirs;
        if (!theirs) {
            printf("%s%.*s", first ? "" : "; ", (int)length, text);
            first = false;
        }
        help = text + length + (end != NULL ? 2 : 0);
    }
}

/* STEP is what replay takes, the other words are of the other commands. */
static void show_value(const option *which, const command *v)
{
    const char *step = strstr(which->choices, "|STEP");
    const int length = (int)(step != NULL ? step - which->choices : (long)strlen(which->choices));
    if (step != NULL && v->bit == COMMAND_REPLAY) {
        printf(" STEP");
    } else {
        printf(which->kind == OPTION_MAYBE ? " [%.*s]" : " %.*s", length, which->choices);
    }
}

void options_help(const command *v)
{
    printf("bedplate %s%s\n%s\n", v->name, v->words, v->purpose);
    const option *which;
    const char *heading = NULL;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const char *begins = option_section(which);
        heading = begins != NULL ? begins : heading;
        if ((which->commands & v->bit) == 0) {
            continue;
        }
        if (heading != NULL) {
            printf("\n%s\n", heading);
            heading = NULL;
        }
        printf("  --%s", which->name);
        if (which->kind != OPTION_FLAG) {
            show_value(which, v);
        }
        printf("\n        ");
        show_help(which->help, v);
        bool shown = which->fallback != NULL && which->kind != OPTION_FLAG;
        printf(shown ? " [%s]\n" : "\n", which->fallback);
    }
}
