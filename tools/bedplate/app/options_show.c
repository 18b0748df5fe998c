/* SPDX-License-Identifier: MIT */
/* Options on paper: help, and the resolved set. */
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/verbs.h"

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
        if ((which->verbs & set->verb) == 0 || is_meta(which) || is_left_open(which, set)) {
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

void options_help(const verb *v)
{
    printf("bedplate %s%s\n%s\n", v->name, v->words, v->purpose);
    const option *which;
    const char *heading = NULL;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const char *begins = option_section(which);
        heading = begins != NULL ? begins : heading;
        if ((which->verbs & v->bit) == 0) {
            continue;
        }
        if (heading != NULL) {
            printf("\n%s\n", heading);
            heading = NULL;
        }
        printf("  --%s", which->name);
        if (which->kind != OPTION_FLAG) {
            printf(which->kind == OPTION_MAYBE ? " [%s]" : " %s", which->choices);
        }
        printf("\n        %s", which->help);
        bool shown = which->fallback != NULL && which->kind != OPTION_FLAG;
        printf(shown ? " [%s]\n" : "\n", which->fallback);
    }
}
