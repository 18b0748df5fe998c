/* SPDX-License-Identifier: MIT */
/* bedplate report: the page of one run or several. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/record/run_page.h"
#include "tools/bedplate/app/commands.h"

static bp_status cmd_report_write(const settings *set, run_view *views, bp_error *error)
{
    const uint32_t count = set->words.count;
    char path[BP_STORE_PATH_MAX];
    for (uint32_t i = 0; i < count; i++) {
        BP_TRY(run_view_read(&views[i], set->words.item[i], error));
    }
    if (set->output == NULL) {
        BP_TRY(bp_storage_join(path, set->words.item[0], "report.html", error));
    }
    const char *to = set->output != NULL ? set->output : path;
    BP_TRY(run_page_write(views, count, to, error));
    output out;
    output_begin(&out, stdout);
    if (set->json) {
        json_begin(&out);
        json_text(&out, "report", to);
        json_count(&out, "runs", count);
        json_end(&out);
    } else {
        bp_text_string(&out.text, to);
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
    return BP_OK;
}

int cmd_report(const settings *set)
{
    bp_error error = {.code = BP_OK};
    run_view *views = calloc(set->words.count, sizeof *views);
    bp_status status = views != NULL ? cmd_report_write(set, views, &error) : BP_ERR_FIT;
    free(views);
    return report_status(status, &error);
}
