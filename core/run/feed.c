/* SPDX-License-Identifier: MIT */
/* Deterministic batches: windows of a source in the order of a permutation. */
#include "core/run/feed.h"

#include <string.h>

#include "core/number/random.h"

static const char where[] = "feed";

uint64_t bp_feed_windows(const bp_source *source, uint32_t sequence)
{
    if (source->examples > 0) {
        return source->examples;
    }
    return source->count > 0 ? bp_size_ceil_div(source->count - 1, sequence) : 0;
}

bp_status bp_feed_init(bp_feed *feed, bp_error *error)
{
    feed->error = error;
    const bp_source *source = feed->source;
    uint64_t least = bp_size_add(bp_size_mul(feed->batch, feed->sequence), 1);
    if (source->examples == 0 && feed->kind >= BP_LABELS_GIVEN) {
        return bp_error_set(error, BP_ERR_USAGE, where, "the data has no labels", source->name);
    }
    if (source->examples == 0 && source->count < least) {
        return bp_error_numbers(error, BP_ERR_DATA, where,
                                "the data holds fewer tokens than one batch needs", source->name,
                                (int64_t)source->count, (int64_t)least);
    }
    feed->windows = bp_feed_windows(source, feed->sequence);
    feed->steps_per_epoch = bp_size_ceil_div(feed->windows, feed->group);
    return BP_OK;
}

static bp_status check_ids(const bp_feed *feed, const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; feed->vocabulary > 0 && i < count; i++) {
        if ((uint32_t)ids[i] >= feed->vocabulary) {
            return bp_error_numbers(feed->error, BP_ERR_DATA, where,
                                    "a token id is not below the model's vocabulary",
                                    feed->source->name, ids[i], feed->vocabulary);
        }
    }
    return BP_OK;
}

static bp_status read_window(const bp_feed *feed, uint64_t first, uint32_t have, int32_t *ids,
                             uint8_t *counts)
{
    bp_source *source = feed->source;
    memset(counts, 1, have);
    bp_status status = source->read(source, first, have, ids);
    if (status == BP_OK && source->targets != NULL) {
        status = source->targets(source, first, have, counts);
    }
    if (status != BP_OK) {
        return bp_error_set(feed->error, status, where, "the data cannot be read", source->name);
    }
    return check_ids(feed, ids, have);
}

/* Where the tokens of a window lie. */
static bp_status find_row(const bp_feed *feed, uint64_t window, bp_example *row)
{
    bp_source *source = feed->source;
    if (source->examples == 0) {
        *row = (bp_example){.first = window * feed->sequence};
        row->count = source->count - row->first;
        return BP_OK;
    }
    bp_status status = source->example(source, window, row);
    if (status != BP_OK) {
        return bp_error_set(feed->error, status, where, "the data cannot be read", source->name);
    }
    return BP_OK;
}

void bp_feed_cut_pair(uint64_t most, uint64_t *a, uint64_t *b)
{
    const bool turned = *a > *b;
    uint64_t less = turned ? *b : *a, more = turned ? *a : *b;
    if (less + more <= most) {
        return;
    }
    more = less > most ? less : most - less > less ? most - less : less;
    if (less + more > most) {
        less = most / 2;
        more = less + most % 2;
    }
    *a = turned ? more : less;
    *b = turned ? less : more;
}

/* Whether the parts of a pair lie one after the other, and what surrounds its texts fits a row. */
static bool is_pair(const bp_example *row, uint32_t most)
{
    const uint64_t around = (uint64_t)row->lead + row->join;
    return row->second > 0 && row->second >= around && row->second <= row->count &&
           row->tail <= row->count - row->second && around + row->tail <= most;
}

/* Reads a pair that is longer than a row: what is left of each text, and all that is around them.
 */
static bp_status read_pair(const bp_feed *feed, bp_example *row, uint32_t most, int32_t *tokens,
                           uint8_t *counts)
{
    uint64_t a = row->second - row->lead - row->join, b = row->count - row->second - row->tail;
    bp_feed_cut_pair(most - row->lead - row->join - row->tail, &a, &b);
    const uint64_t last = row->first + row->count - row->tail;
    const uint32_t head = row->lead + (uint32_t)a, second = row->join + (uint32_t)b;
    BP_TRY(read_window(feed, row->first, head, tokens, counts));
    BP_TRY(read_window(feed, row->first + row->second - row->join, second, tokens + head,
                       counts + head));
    row->count = most;
    row->second = head + row->join;
    return read_window(feed, last, row->tail, tokens + head + second, counts + head + second);
}

/* Reads a row of at most `most` tokens: the first of it, and the tail of one that is cut. */
static bp_status read_row(const bp_feed *feed, bp_example *row, uint32_t most, int32_t *tokens,
                          uint8_t *counts)
{
    if (row->count <= most) {
        return read_window(feed, row->first, (uint32_t)row->count, tokens, counts);
    }
    if (is_pair(row, most)) {
        return read_pair(feed, row, most, tokens, counts);
    }
    row->second = 0;
    uint32_t tail = row->tail < most ? row->tail : most;
    uint32_t head = most - tail;
    uint64_t last = row->first + row->count - tail;
    row->count = most;
    BP_TRY(read_window(feed, row->first, head, tokens, counts));
    return tail > 0 ? read_window(feed, last, tail, tokens + head, counts + head) : BP_OK;
}

/* The inputs of a row, each labelled by its successor. */
static void put_successors(const bp_feed *feed, const bp_example *row, const int32_t *tokens,
                           const uint8_t *counts, int32_t *ids, int32_t *labels)
{
    for (uint32_t t = 0; t < feed->sequence; t++) {
        bool there = t + 1 < row->count;
        bool target = there && t + 1 >= row->prompt && counts[t + 1] != 0;
        ids[t] = there ? tokens[t] : feed->padding;
        labels[t] = target ? tokens[t + 1] : -1;
    }
}

/* The inputs of a row that has one label. */
static bp_status put_label(const bp_feed *feed, const bp_example *row, const int32_t *tokens,
                           int32_t *ids, int32_t *labels)
{
    const bool none = row->label == BP_NO_LABEL;
    if (feed->kind == BP_LABELS_CLASS && !none && row->label >= feed->classes) {
        return bp_error_numbers(feed->error, BP_ERR_DATA, where,
                                "a label is not below the number of classes", feed->source->name,
                                (int64_t)row->label, feed->classes);
    }
    for (uint32_t t = 0; t < feed->sequence; t++) {
        ids[t] = t < row->count ? tokens[t] : feed->padding;
        labels[t] = -1;
    }
    /* Where every pattern of bits is a label there is none that says so. */
    labels[0] = !none ? (int32_t)(uint32_t)row->label : feed->kind == BP_LABELS_CLASS ? -1 : 0;
    return BP_OK;
}

#define MASKING_STREAM 0x4d4c4du /* of random numbers */

static bool is_special(const bp_masking *masking, int32_t id)
{
    for (uint32_t i = 0; i < BP_MASKING_SPECIAL; i++) {
        if (masking->special[i] == id) {
            return true;
        }
    }
    return false;
}

/* The inputs of a row, some of them hidden and labelled by what they were. `number` is the row's in
 * the run. Two random numbers for each place: is it chosen, and what becomes of it. */
static void put_masked(const bp_feed *feed, const bp_example *row, uint64_t number,
                       const int32_t *tokens, int32_t *ids, int32_t *labels)
{
    const bp_masking *masking = &feed->masking;
    for (uint32_t t = 0; t < feed->sequence; t++) {
        uint64_t at = 2 * (number * feed->sequence + t);
        double chance = bp_random_uniform(feed->seed, MASKING_STREAM, at);
        double fate = bp_random_uniform(feed->seed, MASKING_STREAM, at + 1);
        ids[t] = t < row->count ? tokens[t] : feed->padding;
        labels[t] = -1;
        if (t >= row->count || is_special(masking, ids[t]) || chance >= masking->probability) {
            continue;
        }
        labels[t] = ids[t];
        if (fate < 0.8) {
            ids[t] = masking->token;
        } else if (fate < 0.9) {
            ids[t] = (int32_t)((fate - 0.8) * 10.0 * (double)feed->vocabulary);
            ids[t] = (uint32_t)ids[t] < feed->vocabulary ? ids[t] : 0;
        }
    }
}

/* The inputs of a row whose source knows every token's label. */
static bp_status put_given(const bp_feed *feed, const bp_example *row, const int32_t *tokens,
                           int32_t *ids, int32_t *labels)
{
    bp_source *source = feed->source;
    bp_status status = source->labels(source, row->first, (uint32_t)row->count, labels);
    if (status != BP_OK) {
        return bp_error_set(feed->error, status, where, "the data cannot be read", source->name);
    }
    for (uint32_t t = 0; t < feed->sequence; t++) {
        ids[t] = t < row->count ? tokens[t] : feed->padding;
        labels[t] = t < row->count && labels[t] >= 0 ? labels[t] : -1;
        if (labels[t] >= 0 && (uint32_t)labels[t] >= feed->vocabulary) {
            return bp_error_numbers(feed->error, BP_ERR_DATA, where,
                                    "a label is not below the model's vocabulary", source->name,
                                    labels[t], feed->vocabulary);
        }
    }
    return BP_OK;
}

/* Where a row goes. */
typedef struct row_place {
    int32_t *ids;
    int32_t *labels;
    int32_t *length;
    int32_t *second;
} row_place;

/* Writes one window as a row of ids and a row of labels; what lies beyond the source is padding. */
static bp_status stage_window(const bp_feed *feed, uint64_t window, uint64_t number,
                              const row_place *to, int32_t *scratch)
{
    int32_t *ids = to->ids, *labels = to->labels;
    bp_example row;
    uint8_t *counts = (uint8_t *)(scratch + feed->sequence + 1);
    /* A row that is labelled by successors has one token more than inputs. */
    bool successors = feed->kind == BP_LABELS_NEXT_TOKEN;
    BP_TRY(find_row(feed, window, &row));
    BP_TRY(read_row(feed, &row, feed->sequence + (successors ? 1 : 0), scratch, counts));
    if (!successors) {
        *to->length = (int32_t)row.count;
        *to->second = (int32_t)row.second;
        if (feed->kind == BP_LABELS_MASKED) {
            put_masked(feed, &row, number, scratch, ids, labels);
            return BP_OK;
        }
        return feed->kind == BP_LABELS_GIVEN ? put_given(feed, &row, scratch, ids, labels)
                                             : put_label(feed, &row, scratch, ids, labels);
    }
    *to->length = row.count > 0 ? (int32_t)row.count - 1 : 0;
    put_successors(feed, &row, scratch, counts, ids, labels);
    return BP_OK;
}

static void stage_padding(const bp_feed *feed, int32_t *ids, int32_t *labels)
{
    for (uint32_t t = 0; t < feed->sequence; t++) {
        ids[t] = feed->padding;
        labels[t] = -1;
    }
}

/* Of rows that have one label, every bit pattern of it may be a label. */
static uint64_t count_valid(const bp_feed *feed, const int32_t *labels)
{
    uint64_t valid = 0;
    for (uint32_t t = 0; t < feed->sequence; t++) {
        valid += labels[t] >= 0 ? 1 : 0;
    }
    return feed->kind == BP_LABELS_BITS ? 1 : valid;
}

bp_status bp_feed_stage(const bp_feed *feed, uint64_t step, bp_group *group, int32_t *scratch)
{
    uint64_t epoch = step / feed->steps_per_epoch;
    uint64_t first = step % feed->steps_per_epoch * feed->group;
    uint64_t left = feed->windows - first;
    group->samples = left < feed->group ? (uint32_t)left : feed->group;
    group->micros = (uint32_t)bp_size_ceil_div(group->samples, feed->batch);
    group->valid = 0;
    for (uint32_t s = 0; s < group->micros * feed->batch; s++) {
        int32_t unused;
        const row_place to = {.ids = group->ids + (size_t)s * feed->sequence,
                              .labels = group->labels + (size_t)s * feed->sequence,
                              .length = group->lengths != NULL ? group->lengths + s : &unused,
                              .second = group->seconds != NULL ? group->seconds + s : &unused};
        *to.length = 0;
        *to.second = 0;
        if (s >= group->samples) {
            stage_padding(feed, to.ids, to.labels);
            continue;
        }
        uint64_t window = first + s;
        if (feed->shuffle) {
            window = bp_random_permute(feed->seed, epoch, feed->windows, window);
        }
        BP_TRY(stage_window(feed, window, step * feed->group + s, &to, scratch));
        group->valid += count_valid(feed, to.labels);
    }
    return BP_OK;
}
