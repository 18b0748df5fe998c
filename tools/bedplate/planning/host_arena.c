/* SPDX-License-Identifier: MIT */
/* The host arena in a plan's report. */
#include "tools/bedplate/planning/host_arena.h"

static void host_classes(output *out, const char *key, const uint64_t *bytes)
{
    json_open(out, key);
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        json_count(out, bp_class_name((bp_class)c), bytes[c]);
    }
    json_close(out);
}

void host_arena_json(output *out, const bp_report *report, bool fixed)
{
    const bp_report_space *host = &report->host;
    if (host->arena_bytes == 0) {
        return;
    }
    json_open(out, fixed ? "flash" : "host_arena");
    json_count(out, "arena_bytes", host->arena_bytes);
    json_count(out, "lower_bound_bytes", host->lower_bound_bytes);
    json_count(out, "waste_bytes", host->arena_bytes - host->lower_bound_bytes);
    host_classes(out, "classes", host->class_most);
    host_classes(out, "classes_at_peak", host->class_peak);
    json_count(out, "peak_op_index", host->peak_op);
    json_close(out);
}

static void host_line(bp_text *text, const char *label, uint64_t bytes)
{
    bp_text_padded(text, label, 12, BP_TEXT_LEFT);
    bp_text_grouped(text, bytes);
    bp_text_string(text, " bytes (");
    bp_text_bytes_human(text, bytes);
    bp_text_string(text, ")\n");
}

void host_arena_put(bp_text *text, const bp_report *report, bool fixed)
{
    const bp_report_space *host = &report->host;
    if (host->arena_bytes == 0) {
        return;
    }
    host_line(text, fixed ? "flash" : "host arena", host->arena_bytes);
    host_line(text, "  lower", host->lower_bound_bytes);
    host_line(text, "  waste", host->arena_bytes - host->lower_bound_bytes);
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        if (host->class_most[c] > 0) {
            bp_text_string(text, "  ");
            bp_text_padded(text, bp_class_name((bp_class)c), 10, BP_TEXT_LEFT);
            bp_text_grouped(text, host->class_most[c]);
            bp_text_string(text, " bytes at most\n");
        }
    }
}
