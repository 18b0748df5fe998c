/* SPDX-License-Identifier: MIT */
/* Planner instances as CSV: writing the answer. */
#include "arena/csv.h"

#include "arena/csv_line.h"
#include "arena/json_write.h"

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

static void csv_json_id(const bp_csv *csv, const csv_line *line, bp_json_writer *json,
                        const char *key)
{
    csv_field field;
    (void)csv_field_at(line, csv->place[BP_CSV_ID], &field);
    bp_json_put_bytes(json, key, field.text, field.length);
}

static void csv_json_buffers(const bp_csv *csv, const bp_interval *buffers, bp_json_writer *json)
{
    csv_line line;
    csv_line_first(csv, &line);
    (void)csv_line_next(csv, &line);
    bp_json_put_open(json, "buffers", '[');
    for (uint32_t row = 0; row < csv->rows; row++) {
        (void)csv_line_next(csv, &line);
        bp_json_put_open(json, NULL, '{');
        csv_json_id(csv, &line, json, "id");
        bp_json_put_u64(json, "lower", buffers[row].lower);
        bp_json_put_u64(json, "upper", buffers[row].upper);
        bp_json_put_u64(json, "size", buffers[row].size);
        bp_json_put_u64(json, "offset", buffers[row].offset);
        bp_json_put_close(json);
    }
    bp_json_put_close(json);
}

static void csv_json_live(const bp_csv *csv, const bp_interval *buffers, uint32_t time,
                          bp_json_writer *json)
{
    csv_line line;
    csv_line_first(csv, &line);
    (void)csv_line_next(csv, &line);
    bp_json_put_open(json, "live_at_peak", '[');
    for (uint32_t row = 0; row < csv->rows; row++) {
        (void)csv_line_next(csv, &line);
        const bool lives = buffers[row].lower <= time && time < buffers[row].upper;
        if (lives && buffers[row].size > 0) {
            csv_json_id(csv, &line, json, NULL);
        }
    }
    bp_json_put_close(json);
}

bp_status bp_csv_json(const bp_csv *csv, const bp_interval *buffers, const bp_layout_report *report,
                      bp_text *out)
{
    bp_json_writer json;
    bp_json_put_begin(&json, out, BP_JSON_COMPACT);
    bp_json_put_open(&json, NULL, '{');
    bp_json_put_u64(&json, "arena_bytes", report->bytes);
    bp_json_put_u64(&json, "lower_bound_bytes", report->lower_bound);
    bp_json_put_u64(&json, "waste_bytes", report->waste);
    bp_json_put_flag(&json, "optimal", report->optimal);
    bp_json_put_flag(&json, "fits", report->fits);
    bp_json_put_u64(&json, "peak_time", report->peak_time);
    bp_json_put_u64(&json, "nodes", report->nodes);
    bp_json_put_text(&json, "method", report->method);
    csv_json_buffers(csv, buffers, &json);
    csv_json_live(csv, buffers, report->peak_time, &json);
    bp_json_put_close(&json);
    bp_text_char(out, '\n');
    return bp_text_flush(out);
}
