/* SPDX-License-Identifier: MIT */
/* From --length-buckets to lengths of programs, and what is shown of them. */
#include "tools/bedplate/planning/buckets_text.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/buckets.h"
#include "core/plan/search/lengths.h"

static const char where[] = "bedplate", option[] = "--length-buckets";

#define BUCKETS_USUAL 4

/* What a value asks for. */
typedef struct buckets_asked {
    uint32_t buckets; /* chosen by us; 0: those listed */
    uint32_t count;
    uint32_t length[BP_LENGTHS_MOST];
    bool automatic;
} buckets_asked;

static bool lengths_read_number(const char **text, uint32_t *value)
{
    char *end;
    const unsigned long number = strtoul(*text, &end, 10);
    const bool digits = **text >= '0' && **text <= '9';
    *value = (uint32_t)number;
    *text = end;
    return digits && number > 0 && number <= 1u << 24;
}

/* One number up to BP_LENGTHS_MOST is how many, another is a length. */
static bool lengths_read_list(const char *text, buckets_asked *to)
{
    for (;;) {
        uint32_t value = 0;
        if (to->count == BP_LENGTHS_MOST || !lengths_read_number(&text, &value) ||
            (to->count > 0 && value <= to->length[to->count - 1])) {
            return false;
        }
        to->length[to->count++] = value;
        if (*text == '\0') {
            break;
        }
        if (*text++ != ',') {
            return false;
        }
    }
    if (to->count == 1 && to->length[0] <= BP_LENGTHS_MOST) {
        to->buckets = to->length[0];
        to->count = 0;
    }
    return true;
}

static bool lengths_read(const char *text, buckets_asked *to)
{
    *to = (buckets_asked){.automatic = strcmp(text, "auto") == 0};
    if (to->automatic) {
        to->buckets = BUCKETS_USUAL;
        return true;
    }
    return strcmp(text, "none") == 0 || lengths_read_list(text, to);
}

static bp_status lengths_take_list(session *s, const buckets_asked *asked)
{
    bp_spec *spec = &s->spec;
    const uint32_t last = asked->length[asked->count - 1];
    if (last > spec->sequence) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "a length is beyond the longest sequence", option, last,
                              BP_LIMIT_MOST, spec->sequence);
    }
    spec->length_count = asked->count - (last == spec->sequence ? 1 : 0);
    if (spec->length_count > BP_LENGTH_BUCKETS_MAX) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where, "there are too many lengths", option,
                              spec->length_count, BP_LIMIT_MOST, BP_LENGTH_BUCKETS_MAX);
    }
    memcpy(spec->lengths, asked->length, spec->length_count * sizeof spec->lengths[0]);
    return BP_OK;
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

/* Whether the files named hold rows, as far as their names tell. */
static bool lengths_named_rows(const settings *set)
{
    static const char *const formats[] = {"jsonl", "json", "tsv", "csv"};
    bool rows = false;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        rows = rows || strcmp(set->data_format, formats[i]) == 0 ||
               (set->data.count > 0 && ends_with(set->data.item[0], formats[i]));
    }
    return rows;
}

/* Whether samples are padded: texts of their own, not windows of a stream. Without a feed: whether
 * the task's are, or the data's format says so. */
static bool lengths_pad(const session *s, const bp_feed *feed)
{
    const bp_spec *spec = &s->spec;
    if (spec->config.vocabulary == 0 || spec->sequence < 2) {
        return false;
    }
    if (feed != NULL) {
        return feed->source->examples > 0;
    }
    return spec->config.task >= BP_TASK_CLASSES || s->set->rows == SETTINGS_ROWS_PADDED ||
           (s->set->rows == SETTINGS_ROWS_UNSEEN && lengths_named_rows(s->set));
}

static bp_status lengths_tokens(const void *user, uint64_t sample, uint32_t *tokens)
{
    return bp_feed_length(user, sample, tokens);
}

bp_status lengths_fill(session *s, const bp_feed *feed, uint32_t samples)
{
    buckets_asked asked;
    bp_spec resolved = s->spec;
    s->spec.length_count = 0;
    if (!lengths_read(s->set->length_buckets, &asked)) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the value is not understood: expected auto, none, how many from "
                            "1 to 8, or lengths in rising order such as 32,64,96",
                            option);
    }
    if (asked.count > 0) {
        return lengths_take_list(s, &asked);
    }
    resolved.loss_rows = resolved.loss_rows > 0 ? resolved.loss_rows : bp_spec_loss_rows(&resolved);
    const bool one = s->spec.offload.checkpoints > 0; /* whose slots are of one length */
    if (asked.buckets < 2 || one || !lengths_pad(s, feed)) {
        return BP_OK;
    }
    s->one_length = bp_length_buckets_refused(&resolved);
    if (s->one_length != NULL) {
        return BP_OK;
    }
    static bp_lengths_work work; /* large */
    const bp_lengths_samples looked = {.tokens = lengths_tokens,
                                       .user = feed,
                                       .count = feed != NULL ? feed->windows : 0,
                                       .together = samples};
    return bp_lengths_find(&s->spec, asked.buckets, &looked, &work);
}

/* "32, 64, 96, 128" */
static void buckets_put_list(bp_text *text, const bp_runtime *runtime)
{
    for (uint32_t i = 0; i < bp_runtime_length_buckets(runtime); i++) {
        bp_text_string(text, i > 0 ? ", " : "");
        bp_text_u64(text, bp_runtime_length(runtime, i).sequence);
    }
}

static const char *buckets_left_out(const session *s)
{
    return s->plan.left_out != NULL ? s->plan.left_out : s->one_length;
}

void buckets_put(bp_text *text, const session *s)
{
    if (bp_runtime_length_buckets(&s->runtime) > 1) {
        bp_text_string(text, "lengths     programs for ");
        buckets_put_list(text, &s->runtime);
        bp_text_string(text, " tokens, in one arena\n");
    }
    if (buckets_left_out(s) != NULL) {
        bp_text_string(text, "lengths     not as many as could be: ");
        bp_text_string(text, buckets_left_out(s));
        bp_text_char(text, '\n');
    }
}

void buckets_json(output *out, const session *s)
{
    json_list(out, "length_buckets");
    for (uint32_t i = 0; i < bp_runtime_length_buckets(&s->runtime); i++) {
        json_count(out, NULL, bp_runtime_length(&s->runtime, i).sequence);
    }
    json_list_end(out);
    if (buckets_left_out(s) != NULL) {
        json_text(out, "length_buckets_left_out", buckets_left_out(s));
    }
}

void buckets_json_runs(output *out, const bp_runtime *runtime)
{
    json_list(out, "length_buckets");
    for (uint32_t i = 0; i < bp_runtime_length_buckets(runtime); i++) {
        const bp_length length = bp_runtime_length(runtime, i);
        json_item(out);
        json_count(out, "length", length.sequence);
        if (runtime->plan->spec.optimizer != NULL) {
            json_count(out, "micro_batches", length.micros);
        }
        json_count(out, "eval_batches", length.evaluations);
        json_close(out);
    }
    json_list_end(out);
}

void buckets_put_runs(bp_text *text, const bp_runtime *runtime)
{
    if (bp_runtime_length_buckets(runtime) == 1) {
        return;
    }
    bp_text_string(text, "\nmicro-batches of     ");
    for (uint32_t i = 0; i < bp_runtime_length_buckets(runtime); i++) {
        const bp_length length = bp_runtime_length(runtime, i);
        bp_text_string(text, i > 0 ? ", " : "");
        bp_text_u64(text, length.sequence);
        bp_text_string(text, " tokens: ");
        bp_text_u64(text, length.micros);
    }
}
