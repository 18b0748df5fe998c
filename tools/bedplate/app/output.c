/* SPDX-License-Identifier: MIT */
/* Writing reports. */
#include "tools/bedplate/app/output.h"

#include <inttypes.h>
#include <string.h>

#include "tools/bedplate/runs/progress.h"

static bp_status to_stream(void *user, const char *text, size_t length)
{
    FILE *stream = user;
    return fwrite(text, 1, length, stream) == length ? BP_OK : BP_ERR_STORE;
}

void output_begin(output *out, FILE *stream)
{
    out->stream = stream;
    out->first = true;
    bp_text_init(&out->text, to_stream, stream, out->buffer, sizeof out->buffer);
}

void output_end(output *out)
{
    bp_status status = bp_text_flush(&out->text);
    (void)status; /* ferror(stdout) is looked at before the program ends */
    fflush(out->stream);
}

static void member(output *out, const char *key)
{
    if (!out->first) {
        bp_text_string(&out->text, ", ");
    }
    out->first = false;
    bp_text_json(&out->text, key);
    bp_text_string(&out->text, ": ");
}

void json_begin(output *out)
{
    bp_text_char(&out->text, '{');
    out->first = true;
}

void json_end(output *out)
{
    bp_text_string(&out->text, "}\n");
}

void json_count(output *out, const char *key, uint64_t value)
{
    member(out, key);
    bp_text_u64(&out->text, value);
}

void json_real(output *out, const char *key, double value, unsigned significant)
{
    member(out, key);
    bp_text_json_number(&out->text, value, significant);
}

void json_seconds(output *out, double began, double work)
{
    const double total = clock_seconds() - began;
    json_real(out, "load_seconds", total - work, 9);
    json_real(out, "total_seconds", total, 9);
}

void json_text(output *out, const char *key, const char *value)
{
    member(out, key);
    bp_text_json(&out->text, value);
}

void json_flag(output *out, const char *key, bool value)
{
    member(out, key);
    bp_text_string(&out->text, value ? "true" : "false");
}

void json_ids(output *out, const char *key, const int32_t *ids, uint32_t count)
{
    member(out, key);
    bp_text_char(&out->text, '[');
    for (uint32_t i = 0; i < count; i++) {
        bp_text_string(&out->text, i == 0 ? "" : ", ");
        bp_text_i64(&out->text, ids[i]);
    }
    bp_text_char(&out->text, ']');
}

void json_open(output *out, const char *key)
{
    member(out, key);
    bp_text_char(&out->text, '{');
    out->first = true;
}

void json_close(output *out)
{
    bp_text_char(&out->text, '}');
    out->first = false;
}

void json_list(output *out, const char *key)
{
    member(out, key);
    bp_text_char(&out->text, '[');
    out->first = true;
}

void json_item(output *out)
{
    bp_text_string(&out->text, out->first ? "{" : ", {");
    out->first = true;
}

void json_list_end(output *out)
{
    bp_text_char(&out->text, ']');
    out->first = false;
}

int report_error(const bp_error *error)
{
    fputs("bedplate: ", stderr);
    if (error->name[0] != '\0') {
        fprintf(stderr, "%s: ", error->name);
    }
    fputs(error->text != NULL ? error->text : bp_status_text(error->code), stderr);
    if (error->numbers && error->right[0] != '\0') {
        fprintf(stderr, " (found %" PRId64 ", right would be %s)", error->found, error->right);
    } else if (error->numbers && error->limit == BP_LIMIT_NONE) {
        fprintf(stderr, " (found %" PRId64 ")", error->found);
    } else if (error->numbers) {
        fprintf(stderr, " (found %" PRId64 ", right would be %s%" PRId64 ")", error->found,
                bp_limit_words(error->limit), error->wanted);
    } else if (error->right[0] != '\0') {
        const char *found = error->word[0] != '\0' ? "found " : "";
        const char *comma = error->word[0] != '\0' ? ", " : "";
        fprintf(stderr, " (%s%s%sright would be %s)", found, error->word, comma, error->right);
    } else if (error->word[0] != '\0') {
        fprintf(stderr, " (found \"%s\")", error->word);
    }
    fputs("\n", stderr);
    return bp_status_exit_code(error->code);
}

int report_status(bp_status status, const bp_error *error)
{
    if (status == BP_OK) {
        return 0;
    }
    if (error->code != BP_OK) {
        return report_error(error);
    }
    fprintf(stderr, "bedplate: %s\n", bp_status_text(status));
    return bp_status_exit_code(status);
}
