/* SPDX-License-Identifier: MIT */
/* Planner instances as CSV: writing the answer. */
#include "arena/csv.h"

#include "arena/csv_line.h"

bp_status bp_csv_write(const bp_csv *csv, const bp_interval *buffers, bp_text *out)
{
    csv_line line;
    csv_line_first(csv, &line);
    (void)csv_line_next(csv, &line);
    bp_text_bytes(out, line.text, line.length);
    bp_text_string(out, ",offset\n");
    for (uint32_t row = 0; row < csv->rows; row++) {
        (void)csv_line_next(csv, &line);
        bp_text_bytes(out, line.text, line.length);
        bp_text_char(out, ',');
        bp_text_u64(out, buffers[row].offset);
        bp_text_char(out, '\n');
    }
    return bp_text_flush(out);
}

static void json_member(bp_text *out, const char *key, uint64_t value)
{
    bp_text_json(out, key);
    bp_text_char(out, ':');
    bp_text_u64(out, value);
    bp_text_char(out, ',');
}

static void json_id(const bp_csv *csv, const csv_line *line, bp_text *out)
{
    csv_field field;
    (void)csv_field_at(line, csv->place[BP_CSV_ID], &field);
    bp_text_json_bytes(out, field.text, field.length);
}

static void json_buffers(const bp_csv *csv, const bp_interval *buffers, bp_text *out)
{
    csv_line line;
    csv_line_first(csv, &line);
    (void)csv_line_next(csv, &line);
    for (uint32_t row = 0; row < csv->rows; row++) {
        (void)csv_line_next(csv, &line);
        bp_text_string(out, row == 0 ? "{\"id\":" : ",{\"id\":");
        json_id(csv, &line, out);
        bp_text_char(out, ',');
        json_member(out, "lower", buffers[row].lower);
        json_member(out, "upper", buffers[row].upper);
        json_member(out, "size", buffers[row].size);
        bp_text_string(out, "\"offset\":");
        bp_text_u64(out, buffers[row].offset);
        bp_text_char(out, '}');
    }
}

static void json_live(const bp_csv *csv, const bp_interval *buffers, uint32_t time, bp_text *out)
{
    csv_line line;
    csv_line_first(csv, &line);
    (void)csv_line_next(csv, &line);
    bool first = true;
    for (uint32_t row = 0; row < csv->rows; row++) {
        (void)csv_line_next(csv, &line);
        bool lives = buffers[row].lower <= time && time < buffers[row].upper;
        if (!lives || buffers[row].size == 0) {
            continue;
        }
        bp_text_string(out, first ? "" : ",");
        json_id(csv, &line, out);
        first = false;
    }
}

bp_status bp_csv_json(const bp_csv *csv, const bp_interval *buffers, const bp_layout_report *report,
                      bp_text *out)
{
    bp_text_char(out, '{');
    json_member(out, "arena_bytes", report->bytes);
    json_member(out, "lower_bound_bytes", report->lower_bound);
    json_member(out, "waste_bytes", report->waste);
    bp_text_string(out, report->optimal ? "\"optimal\":true," : "\"optimal\":false,");
    bp_text_string(out, report->fits ? "\"fits\":true," : "\"fits\":false,");
    json_member(out, "peak_time", report->peak_time);
    json_member(out, "nodes", report->nodes);
    bp_text_string(out, "\"method\":");
    bp_text_json(out, report->method);
    bp_text_string(out, ",\"buffers\":[");
    json_buffers(csv, buffers, out);
    bp_text_string(out, "],\"live_at_peak\":[");
    json_live(csv, buffers, report->peak_time, out);
    bp_text_string(out, "]}\n");
    return bp_text_flush(out);
}
