/* SPDX-License-Identifier: MIT */
/* Where the bytes of several runs go. */
#include "tools/bedplate/adapters/adapters_plan.h"

#include <stdlib.h>

#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/verbs/plan_run.h"

#define LABEL 24

static bool plan_fits(const adapters_arena *a, const settings *set)
{
    return set->arena == 0 || a->bytes.arena <= set->arena;
}

static void adapters_plan_row(bp_text *text, const char *label, uint64_t bytes)
{
    char grouped[32];
    bp_text number;
    bp_text_init(&number, NULL, NULL, grouped, sizeof grouped);
    bp_text_grouped(&number, bytes);
    const bp_status fits = bp_text_flush(&number); /* of 26 characters at most */
    (void)fits;
    bp_text_padded(text, label, LABEL, BP_TEXT_LEFT);
    bp_text_padded(text, grouped, 20, BP_TEXT_RIGHT);
    bp_text_string(text, " bytes\n");
}

static void adapters_plan_text(bp_text *text, const adapters_arena *a)
{
    const adapters_bytes *bytes = &a->bytes;
    adapters_plan_row(text, "base", bytes->base);
    for (uint32_t i = 0; i < a->file->count; i++) {
        adapters_plan_row(text, a->file->entries[i]->name, bytes->own[i]);
    }
    adapters_plan_row(text, "workspace", bytes->workspace);
    adapters_plan_row(text, "arena", bytes->arena);
    adapters_plan_row(text, "host", bytes->host);
}

static void adapters_plan_json(output *out, const adapters_arena *a, const settings *set)
{
    const adapters_bytes *bytes = &a->bytes;
    json_begin(out);
    json_text(out, "model", set->model);
    json_list(out, "adapters");
    for (uint32_t i = 0; i < a->file->count; i++) {
        const session *s = a->sessions[i];
        json_item(out);
        json_text(out, "name", a->file->entries[i]->name);
        json_count(out, "own_bytes", bytes->own[i]);
        json_count(out, "workspace_bytes", adapters_arena_workspace(a, i));
        json_count(out, "alone_arena_bytes", bytes->alone[i]);
        json_count(out, "state_bytes", s->plan.report.state_bytes);
        json_close(out);
    }
    json_list_end(out);
    json_count(out, "base_bytes", bytes->base);
    json_count(out, "own_bytes", bytes->owns);
    json_count(out, "workspace_bytes", bytes->workspace);
    json_count(out, "arena_bytes", bytes->arena);
    json_count(out, "host_bytes", bytes->host);
    json_flag(out, "fits", plan_fits(a, set));
    json_end(out);
}

void adapters_plan_print(const adapters_arena *a, const settings *set)
{
    output out;
    output_begin(&out, stdout);
    if (set->json) {
        adapters_plan_json(&out, a, set);
    } else {
        adapters_plan_text(&out.text, a);
    }
    output_end(&out);
}

static bp_status adapters_plan_all(adapters_arena *a, uint32_t *failed)
{
    for (*failed = 0; *failed < a->file->count; ++*failed) {
        const settings *set = &a->file->entries[*failed]->set;
        session *s = calloc(1, sizeof *s);
        a->sessions[*failed] = s;
        if (s == NULL) {
            output_print(stderr, "bedplate: --adapters: no memory for another plan\n");
            return BP_ERR_FIT;
        }
        BP_TRY(session_begin(s, set));
        BP_TRY(adapters_arena_join(a, *failed, s));
        BP_TRY(plan_read(s));
    }
    BP_TRY(adapters_arena_choose(a, failed));
    for (*failed = 0; *failed < a->file->count; ++*failed) {
        BP_TRY(plan_make(a->sessions[*failed]));
    }
    return adapters_arena_count(a, failed);
}

int adapters_plan(adapters_arena *a, const settings *set)
{
    uint32_t failed = 0;
    int code = 0;
    const bp_status status = adapters_plan_all(a, &failed);
    dry_run_wipe();
    if (status == BP_OK) {
        adapters_plan_print(a, set);
        code = plan_fits(a, set) ? 0 : adapters_arena_short(a, set);
    } else if (a->sessions[failed] != NULL) {
        output_print(stderr, "bedplate: %s: the adapter %s cannot be planned:\n",
                     a->file->entries[failed]->where, a->file->entries[failed]->name);
        code = session_report(a->sessions[failed], status);
    } else {
        code = bp_status_exit_code(status);
    }
    for (uint32_t i = 0; i < a->file->count; i++) {
        if (a->sessions[i] != NULL) {
            session_end(a->sessions[i]);
            free(a->sessions[i]);
            a->sessions[i] = NULL;
        }
    }
    return code;
}
