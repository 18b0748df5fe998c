/* SPDX-License-Identifier: MIT */
/* Deterministic batches: windows of a source in the order of a permutation. */
#include "core/run/feed.h"

#include <string.h>

#include "core/ops/storage_format.h"
#include "core/base/random.h"
#include "core/base/sort.h"
#include "core/run/run_private.h"

static const char where[] = "feed";

bp_labels bp_feed_labels(bp_task task)
{
    static const bp_labels labels[BP_TASK_COUNT] = {
        [BP_TASK_CAUSAL_LM] = BP_LABELS_NEXT_TOKEN, [BP_TASK_MASKED_LM] = BP_LABELS_MASKED,
        [BP_TASK_CLASSES] = BP_LABELS_CLASS,        [BP_TASK_LABELS] = BP_LABELS_BITS,
        [BP_TASK_REGRESSION] = BP_LABELS_BITS,      [BP_TASK_TOKENS] = BP_LABELS_GIVEN,
        [BP_TASK_ANSWERS] = BP_LABELS_SPAN,         [BP_TASK_EMBEDDING] = BP_LABELS_TEXTS,
        [BP_TASK_RECONSTRUCTION] = BP_LABELS_BITS,  [BP_TASK_RANKING] = BP_LABELS_BITS};
    return labels[task < BP_TASK_COUNT ? task : BP_TASK_CAUSAL_LM];
}

uint64_t bp_feed_windows(const bp_source *source, uint32_t sequence)
{
    if (source->examples > 0) {
        return source->examples;
    }
    return source->count > 0 && sequence > 0 ? bp_size_ceil_div(source->count - 1, sequence) : 0;
}

bp_status run_check_members(const bp_feed *feed, bp_error *error)
{
    const bp_source *source = feed->source;
    const char *wrong = NULL;
    /* An order of texts that lie together, but are not whole, has no end. */
    if (source == NULL || feed->sequence == 0 || feed->batch == 0 || feed->group == 0 ||
        feed->group % feed->batch != 0 ||
        (source->together > 1 && source->together > bp_feed_windows(source, feed->sequence))) {
        wrong = "no source or whole batches";
    } else if (source->read == NULL || (source->examples > 0 && source->example == NULL) ||
               (feed->augment != NULL && feed->augment->row == NULL)) {
        wrong = "a function that it calls is missing";
    } else if ((source->examples == 0 && feed->kind >= BP_LABELS_GIVEN) ||
               (feed->kind == BP_LABELS_GIVEN && source->labels == NULL)) {
        wrong = "the data has no labels";
    } else if (feed->kind == BP_LABELS_MASKED &&
               !(feed->masking.probability >= 0.0 && feed->masking.probability <= 1.0)) {
        wrong = "masking.probability is not from 0 to 1";
    }
    return wrong == NULL ? BP_OK
                         : bp_error_set(error, BP_ERR_USAGE, where, wrong,
                                        source != NULL ? source->name : NULL);
}

bp_status bp_feed_init(bp_feed *feed, bp_error *error)
{
    feed->error = error;
    feed->windows = 0;
    feed->steps_per_epoch = 0;
    BP_TRY(run_check_members(feed, error));
    const bp_source *source = feed->source;
    const uint64_t windows = bp_feed_windows(source, feed->sequence);
    uint64_t least = bp_size_add(bp_size_mul(feed->batch, feed->sequence), 1);
    if (source->examples == 0 && source->count < least) {
        return bp_error_limit(error, BP_ERR_DATA, where,
                              "the data holds fewer tokens than one batch needs", source->name,
                              bp_size_signed(source->count), BP_LIMIT_LEAST, bp_size_signed(least));
    }
    if (feed->pairs && (windows % 2 != 0 || feed->batch % 2 != 0)) {
        return bp_error_set(error, BP_ERR_USAGE, where, "pairs of rows have to be whole",
                            source->name);
    }
    feed->windows = windows;
    feed->steps_per_epoch = bp_size_ceil_div(windows, feed->group);
    return BP_OK;
}

/* Whether the feed was initialised, its group has grown no more than its rows allow, and it has
 * this window or position. */
static bp_status check_made(const bp_feed *feed, uint64_t number)
{
    const uint64_t steps = feed->steps_per_epoch;
    if (feed->source != NULL && feed->batch > 0 && steps > 0 &&
        (steps - 1) * feed->group < feed->windows && number < feed->windows) {
        return BP_OK;
    }
    return bp_error_set(feed->error, BP_ERR_USAGE, where, "no such row or bp_feed_init", NULL);
}

static bp_status check_ids(const bp_feed *feed, const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; feed->vocabulary > 0 && i < count; i++) {
        if ((uint32_t)ids[i] >= feed->vocabulary) {
            return bp_error_limit(feed->error, BP_ERR_DATA, where,
                                  "a token id is not below the model's vocabulary",
                                  feed->source->name, ids[i], BP_LIMIT_BELOW, feed->vocabulary);
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
    BP_TRY(check_made(feed, window));
    if (source->examples == 0) {
        *row = (bp_example){.first = window * feed->sequence};
        row->count = source->count - row->first;
        return BP_OK;
    }
    bp_status status = source->example(source, window, row);
    if (status != BP_OK) {
        return bp_error_set(feed->error, status, where, "the data cannot be read", source->name);
    }
    if (row->first > source->count || row->count > source->count - row->first) {
        return bp_error_set(feed->error, BP_ERR_DATA, where, "an example lies outside of the data",
                            source->name);
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

/* A row that has been read, from which every column of it is made. */
typedef struct feed_row {
    bp_example at;
    bp_example source;     /* where the row has one */
    uint64_t whole;        /* tokens of the example before it was cut */
    uint64_t number;       /* in the run; random numbers hang on it */
    bp_feed_tokens read;   /* at.count; one more than inputs where labels are successors */
    const uint8_t *counts; /* of each token: may it be a target */
} feed_row;

/* A short group has no window for some of its rows. */
static inline bool row_there(const feed_row *row)
{
    return row->read.tokens != NULL;
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

/* Two random numbers for each place of a row: is its token hidden, and what becomes of it. */
static double masking_chance(const bp_feed *feed, const feed_row *row, uint32_t t, uint32_t which)
{
    const uint64_t at = 2 * (row->number * feed->sequence + t);
    return bp_random_uniform(feed->seed, MASKING_STREAM, at + which);
}

/* Whether token t, an input, has to be guessed. */
static bool is_masked(const bp_feed *feed, const feed_row *row, uint32_t t)
{
    return feed->kind == BP_LABELS_MASKED && !is_special(&feed->masking, row->read.tokens[t]) &&
           masking_chance(feed, row, t, 0) < feed->masking.probability;
}

/* What the model reads in place of a token that it has to guess. */
static int32_t masked_id(const bp_feed *feed, const feed_row *row, uint32_t t)
{
    const double fate = masking_chance(feed, row, t, 1);
    if (fate < 0.8) {
        return feed->masking.token;
    }
    if (fate < 0.9) {
        const int32_t id = (int32_t)((fate - 0.8) * 10.0 * (double)feed->vocabulary);
        return (uint32_t)id < feed->vocabulary ? id : 0;
    }
    return row->read.tokens[t];
}

/* What the model reads of an input. */
static int32_t read_id(const bp_feed *feed, const feed_row *row, uint32_t t)
{
    return is_masked(feed, row, t) ? masked_id(feed, row, t) : row->read.tokens[t];
}

static bp_status fill_ids(const bp_feed *feed, const feed_row *row, const bp_column *column,
                          int32_t *to)
{
    const bp_augment *augment = feed->augment;
    if (augment != NULL && row->read.inputs == column->elements) {
        augment->row(augment, feed->seed, row->number / feed->group,
                     (uint32_t)(row->number % feed->group), row->read.tokens, to);
        return BP_OK;
    }
    for (uint32_t t = 0; t < column->elements; t++) {
        to[t] = t < row->read.inputs ? read_id(feed, row, t) : feed->padding;
    }
    return BP_OK;
}

/* Where in the row an answer begins, or ends; both are its first place where there is none. */
static bp_status label_span(const bp_feed *feed, const feed_row *row, bool ends, int32_t *to)
{
    const uint64_t label = row->at.label;
    const uint32_t place = (uint32_t)(label >> (ends ? 16 : 0)) & 0xffff;
    if (label == BP_NO_LABEL) {
        return BP_OK;
    }
    if (place >= row->read.inputs) {
        return bp_error_limit(feed->error, BP_ERR_DATA, where, "an answer lies outside of its row",
                              feed->source->name, bp_size_signed(place), BP_LIMIT_BELOW,
                              row->read.inputs);
    }
    to[0] = (int32_t)place;
    return BP_OK;
}

/* The label that the row as a whole has. */
static bp_status label_row(const bp_feed *feed, const feed_row *row, int32_t *to)
{
    const uint64_t label = row->at.label;
    const bool none = label == BP_NO_LABEL;
    if (feed->kind == BP_LABELS_CLASS && !none && label >= feed->classes) {
        return bp_error_limit(feed->error, BP_ERR_DATA, where,
                              "a label is not below the number of classes", feed->source->name,
                              bp_size_signed(label), BP_LIMIT_BELOW, feed->classes);
    }
    /* Where every pattern of bits is a label there is none that says so. */
    to[0] = !none ? (int32_t)(uint32_t)label : feed->kind == BP_LABELS_CLASS ? -1 : 0;
    return BP_OK;
}

/* The labels that the source has of the first `count` tokens: of a row that was cut, of its tail as
 * well. */
static bp_status label_given(const bp_feed *feed, const feed_row *row, uint32_t count, int32_t *to)
{
    bp_source *source = feed->source;
    const bool classes = feed->classes > 0;
    const uint32_t most = classes ? feed->classes : feed->vocabulary;
    const uint64_t first = row->at.first + row->at.shift, cut = row->whole - row->at.count;
    const uint32_t tail = cut == 0 ? 0 : row->at.tail < count ? row->at.tail : count;
    bp_status status = source->labels(source, first, count - tail, to);
    if (status == BP_OK && tail > 0) {
        status =
            source->labels(source, first + row->whole - tail, tail, to + (count - (size_t)tail));
    }
    if (status != BP_OK) {
        return bp_error_set(feed->error, status, where, "the data cannot be read", source->name);
    }
    for (uint32_t t = 0; t < count; t++) {
        to[t] = to[t] >= 0 ? to[t] : -1;
        if (to[t] >= 0 && (uint32_t)to[t] >= most) {
            return bp_error_limit(feed->error, BP_ERR_DATA, where,
                                  classes ? "a label is not below the number of classes"
                                          : "a label is not below the model's vocabulary",
                                  source->name, to[t], BP_LIMIT_BELOW, most);
        }
    }
    return BP_OK;
}

/* What a row of a pair is. */
static int32_t feed_side(const feed_row *row)
{
    return row_there(row) ? (int32_t)(uint32_t)(row->at.label >> 32) : BP_SIDE_NONE;
}

static bp_status fill_labels(const bp_feed *feed, const feed_row *row, const bp_column *column,
                             int32_t *to)
{
    const uint32_t count =
        row->read.inputs < column->elements ? row->read.inputs : column->elements;
    for (uint32_t t = 0; t < column->elements; t++) {
        to[t] = column->fill;
    }
    if (!row_there(row)) {
        return BP_OK;
    }
    if (feed->kind == BP_LABELS_GIVEN) {
        return label_given(feed, row, count, to);
    }
    if (feed->kind == BP_LABELS_SPAN) {
        return label_span(feed, row, column->from == BP_INPUT_ENDS, to);
    }
    if (feed->kind >= BP_LABELS_CLASS) {
        return label_row(feed, row, to);
    }
    const bool whole = feed->prompts && feed_side(row) == BP_SIDE_CHOSEN;
    for (uint32_t t = 0; t < count; t++) {
        if (feed->kind == BP_LABELS_MASKED) {
            to[t] = is_masked(feed, row, t) ? row->read.tokens[t] : column->fill;
        } else if ((whole || t + 1 >= row->at.prompt) && row->counts[t + 1] == 1) {
            to[t] = row->read.tokens[t + 1];
        }
    }
    return BP_OK;
}

static bp_status fill_lengths(const bp_feed *feed, const feed_row *row, const bp_column *column,
                              int32_t *to)
{
    (void)feed;
    for (uint32_t t = 0; t < column->elements; t++) {
        to[t] = t == 0 ? (int32_t)row->read.inputs : column->fill;
    }
    return BP_OK;
}

/* Type 1 from where the second text of a row begins to the row's end. */
static bp_status fill_types(const bp_feed *feed, const feed_row *row, const bp_column *column,
                            int32_t *to)
{
    const bool pair = feed->kind != BP_LABELS_NEXT_TOKEN && row->at.second > 0;
    for (uint32_t t = 0; t < column->elements; t++) {
        to[t] = pair && t >= row->at.second && t < row->read.inputs ? 1 : column->fill;
    }
    return BP_OK;
}

/* Where documents begin, or how far from there each token is. */
static bp_status fill_starts(const bp_feed *feed, const feed_row *row, const bp_column *column,
                             int32_t *to)
{
    int32_t start = 0;
    (void)feed;
    for (uint32_t t = 0; t < column->elements; t++) {
        const bool there = row_there(row) && t < row->read.inputs;
        start = there && (row->counts[t] & 2) != 0 ? (int32_t)t : start;
        to[t] = !there                                        ? column->fill
                : column->from == BP_INPUT_DOCUMENT_POSITIONS ? (int32_t)t - start
                                                              : start;
    }
    return BP_OK;
}

/* A text is what the row has from one document's beginning to the next; of a stream each window is
 * one, the last as well, which may be cut short. */
static bp_status fill_extents(const bp_feed *feed, const feed_row *row, const bp_column *column,
                              int32_t *to)
{
    const uint32_t tokens = row_there(row) ? (uint32_t)row->at.count : 0;
    for (uint32_t t = 0, end = 0; t < column->elements; t++) {
        if (t == end && t < row->read.inputs) {
            const uint32_t begin = end++;
            while (end < tokens && (row->counts[end] & 2) == 0) {
                end++;
            }
            const bool part = feed->source->examples > 0 && end - begin < feed->sequence;
            to[t] = (int32_t)(part ? end - begin : feed->sequence);
            continue;
        }
        to[t] = t < row->read.inputs ? to[t - 1] : column->fill;
    }
    return BP_OK;
}

static bp_status fill_positions(const bp_feed *feed, const feed_row *row, const bp_column *column,
                                int32_t *to)
{
    int32_t last = column->fill;
    for (uint32_t t = 0; t < column->elements; t++) {
        const bool counts = t < row->read.inputs && read_id(feed, row, t) != column->fill;
        to[t] = counts ? ++last : column->fill;
    }
    return BP_OK;
}

static bp_status fill_preferences(const bp_feed *feed, const feed_row *row, const bp_column *column,
                                  int32_t *to)
{
    const uint64_t prompt = row->at.prompt < feed->sequence ? row->at.prompt : feed->sequence;
    (void)column;
    to[0] = feed_side(row);
    to[1] = row_there(row) ? (int32_t)(uint32_t)row->at.label : 0;
    to[2] = row_there(row) && prompt > 0 ? (int32_t)prompt - 1 : 0;
    return BP_OK;
}

/* An evaluation has no teacher, and nobody reads the column. */
static bp_status fill_teacher(const bp_feed *feed, const feed_row *row, const bp_column *column,
                              int32_t *to)
{
    bp_teacher *teacher = feed->teacher;
    return teacher == NULL ? BP_OK : teacher->row(teacher, column, &row->read, to);
}

static bp_status fill_source(const bp_feed *feed, const feed_row *row, const bp_column *column,
                             int32_t *to)
{
    bp_example source = row->source;
    if (feed->texts == NULL) {
        return bp_error_set(feed->error, BP_ERR_USAGE, where,
                            "the plan has a column of first texts", "texts");
    }
    source.count = row_there(row) ? source.count : 0;
    BP_TRY(feed->texts->fill(feed, &source, column->elements, to));
    if (column->dtype != BP_I32) {
        return BP_OK; /* numbers, not ids */
    }
    return check_ids(feed, to,
                     source.count < column->elements ? (uint32_t)source.count : column->elements);
}

static bp_status fill_source_lengths(const bp_feed *feed, const feed_row *row,
                                     const bp_column *column, int32_t *to)
{
    const uint64_t count = row_there(row) ? row->source.count : 0;
    (void)column;
    to[0] = (int32_t)(count < feed->source_tokens ? count : feed->source_tokens);
    return BP_OK;
}

/* Generation alone has something there. */
static bp_status fill_nothing(const bp_feed *feed, const feed_row *row, const bp_column *column,
                              int32_t *to)
{
    (void)feed;
    (void)row;
    (void)column;
    (void)to;
    return BP_OK;
}

/* How a sample's part of a column is filled, by where the column comes from. */
static bp_status (*const fills[BP_INPUT_KINDS])(const bp_feed *feed, const feed_row *row,
                                                const bp_column *column, int32_t *to) = {
    [BP_INPUT_IDS] = fill_ids,
    [BP_INPUT_LABELS] = fill_labels,
    [BP_INPUT_LENGTHS] = fill_lengths,
    [BP_INPUT_TYPES] = fill_types,
    [BP_INPUT_ENDS] = fill_labels,
    [BP_INPUT_PREFERENCES] = fill_preferences,
    [BP_INPUT_STARTS] = fill_starts,
    [BP_INPUT_DOCUMENT_POSITIONS] = fill_starts,
    [BP_INPUT_EXTENTS] = fill_extents,
    [BP_INPUT_TOPS] = fill_teacher,
    [BP_INPUT_LOGPS] = fill_teacher,
    [BP_INPUT_WEIGHTS] = fill_teacher,
    [BP_INPUT_POSITIONS] = fill_positions,
    [BP_INPUT_SOURCE] = fill_source,
    [BP_INPUT_SOURCE_LENGTHS] = fill_source_lengths,
    [BP_INPUT_SLOT_POSITIONS] = fill_nothing,
    [BP_INPUT_SLOTS] = fill_nothing};

/* A row that is labelled by successors has one token more than inputs. */
static uint32_t successors(const bp_feed *feed)
{
    return feed->kind == BP_LABELS_NEXT_TOKEN ? 1 : 0;
}

static uint32_t inputs_in(const bp_feed *feed, uint64_t tokens)
{
    const uint64_t most = (uint64_t)feed->sequence + successors(feed);
    const uint64_t kept = tokens < most ? tokens : most;
    return kept > successors(feed) ? (uint32_t)kept - successors(feed) : 0;
}

/* Where the row itself lies, and, of a text that is made of another, that one. */
static bp_status find_texts(const bp_feed *feed, uint64_t window, bp_example *row,
                            bp_example *source)
{
    source->count = 0;
    BP_TRY(find_row(feed, window, row));
    return feed->texts != NULL ? feed->texts->split(feed, row, source) : BP_OK;
}

bp_status bp_feed_length(const bp_feed *feed, uint64_t window, uint32_t *tokens)
{
    bp_example row, source;
    BP_TRY(find_texts(feed, window, &row, &source));
    *tokens = inputs_in(feed, row.count);
    return BP_OK;
}

/* Reads the row's window; what lies beyond the source is padding. */
static bp_status load_row(const bp_feed *feed, int32_t *scratch, feed_row *row)
{
    uint8_t *counts = (uint8_t *)(scratch + feed->sequence + 1);
    BP_TRY(find_texts(feed, row->read.window, &row->at, &row->source));
    row->whole = row->at.count;
    BP_TRY(read_row(feed, &row->at, feed->sequence + successors(feed), scratch, counts));
    row->read.inputs = inputs_in(feed, row->at.count);
    row->read.tokens = scratch;
    row->counts = counts;
    return BP_OK;
}

/* Of rows that have one label, every bit pattern of it may be a label. */
static uint64_t count_valid(const bp_feed *feed, const bp_column *column, uint32_t sample)
{
    const int32_t *labels = (const int32_t *)column->data + (size_t)sample * column->elements;
    uint64_t valid = 0;
    for (uint32_t t = 0; t < column->elements; t++) {
        valid += labels[t] >= 0 ? 1 : 0;
    }
    return feed->kind == BP_LABELS_BITS ? 1 : feed->kind == BP_LABELS_SPAN ? 2 * valid : valid;
}

/* What its targets count for together: a mean of losses divides by it. */
static double weigh(const bp_feed *feed, const bp_column *column, uint32_t sample, uint64_t valid)
{
    const int32_t *labels = (const int32_t *)column->data + (size_t)sample * column->elements;
    double weight = 0.0;
    if (feed->class_weights == NULL) {
        return (double)valid;
    }
    for (uint32_t t = 0; t < column->elements; t++) {
        weight += labels[t] >= 0 ? (double)feed->class_weights[labels[t]] : 0.0;
    }
    return weight;
}

/* Whether a row of a pair has a target in its completion. */
static bool completes(const bp_group *group, uint32_t sample)
{
    const bp_column *labels = bp_group_column(group, BP_INPUT_LABELS);
    const bp_column *sides = bp_group_column(group, BP_INPUT_PREFERENCES);
    const int32_t *label = (const int32_t *)labels->data + (size_t)sample * labels->elements;
    const int32_t *side = (const int32_t *)sides->data + (size_t)sample * sides->elements;
    bool found = false;
    for (uint32_t t = (uint32_t)side[2]; t < labels->elements; t++) {
        found = found || label[t] >= 0;
    }
    return found;
}

/* A pair counts with its second row: once, if it is there, and KTO's for its first one. */
static double weigh_pair(const bp_group *group, const feed_row *row, uint32_t sample)
{
    const bool second = sample % 2 == 1;
    if (!second || bp_group_column(group, BP_INPUT_PREFERENCES) == NULL) {
        return 0.0;
    }
    const bool whole = feed_side(row) == BP_SIDE_MISMATCHED || completes(group, sample);
    return whole && completes(group, sample - 1) ? 1.0 : 0.0;
}

const bp_column *bp_group_column(const bp_group *group, bp_input_from from)
{
    for (uint32_t i = 0; i < group->columns; i++) {
        if (group->column[i].from == from) {
            return &group->column[i];
        }
    }
    return NULL;
}

/* Fills sample number `sample` of every column. */
static bp_status stage_row(const bp_feed *feed, const feed_row *row, uint32_t sample,
                           bp_group *group)
{
    for (uint32_t i = 0; i < group->columns; i++) {
        const bp_column *column = &group->column[i];
        int32_t *to = (int32_t *)column->data + (size_t)sample * column->elements;
        BP_TRY(fills[column->from](feed, row, column, to));
    }
    return BP_OK;
}

static void note_length(const bp_feed *feed, const feed_row *row, uint32_t sample, bp_group *group)
{
    group->tokens += row->read.inputs;
    if (group->longest == NULL) {
        return;
    }
    uint32_t *longest = &group->longest[sample / feed->batch];
    *longest =
        sample % feed->batch == 0 || row->read.inputs > *longest ? row->read.inputs : *longest;
}

static void begin_group(const bp_feed *feed, bp_group *group, uint32_t samples)
{
    group->samples = samples;
    group->micros = (uint32_t)bp_size_ceil_div(samples, feed->batch);
    group->valid = 0;
    group->weight = 0.0;
    group->tokens = 0;
}

static uint32_t feed_together(const bp_feed *feed)
{
    const uint32_t pair = feed->pairs ? 2 : 1;
    return feed->source->together > 1 ? feed->source->together : pair;
}

/* Stages a row that was read, or one that a short group lacks, as sample number `sample`. */
static bp_status take_row(const bp_feed *feed, const feed_row *row, uint32_t sample,
                          bp_group *group)
{
    const bp_column *labels = bp_group_column(group, BP_INPUT_LABELS);
    const bool first = feed->kind == BP_LABELS_TEXTS && sample % feed_together(feed) == 0;
    BP_TRY(stage_row(feed, row, sample, group));
    note_length(feed, row, sample, group);
    if (row_there(row) && first) {
        group->valid++;
        group->weight += 1.0;
    }
    if (row_there(row) && labels != NULL) {
        const uint64_t valid = count_valid(feed, labels, sample);
        group->valid += valid;
        group->weight +=
            feed->pairs ? weigh_pair(group, row, sample) : weigh(feed, labels, sample, valid);
    }
    return BP_OK;
}

uint64_t bp_feed_shuffled(const bp_feed *feed, uint64_t epoch, uint64_t position)
{
    if (check_made(feed, position) != BP_OK) {
        return UINT64_MAX;
    }
    const uint64_t each = feed_together(feed);
    return feed->shuffle
               ? bp_random_permute(feed->seed, epoch, feed->windows / each, position / each) *
                         each +
                     position % each
               : position;
}

bp_status bp_feed_window(const bp_feed *feed, uint64_t epoch, uint64_t position, uint64_t *window)
{
    if (feed->order != NULL) {
        return feed->order(feed, epoch, position, window);
    }
    *window = bp_feed_shuffled(feed, epoch, position);
    return *window != UINT64_MAX ? BP_OK : BP_ERR_USAGE;
}

bp_status bp_feed_stage(const bp_feed *feed, uint64_t step, bp_group *group, int32_t *scratch)
{
    BP_TRY(check_made(feed, 0));
    uint64_t epoch = step / feed->steps_per_epoch;
    uint64_t first = step % feed->steps_per_epoch * feed->group;
    uint64_t left = feed->windows - first;
    begin_group(feed, group, left < feed->group ? (uint32_t)left : feed->group);
    for (uint32_t s = 0; s < group->micros * feed->batch; s++) {
        feed_row row = {.number = step * feed->group + s};
        if (s < group->samples) {
            BP_TRY(bp_feed_window(feed, epoch, first + s, &row.read.window));
            BP_TRY(load_row(feed, scratch, &row));
        }
        BP_TRY(take_row(feed, &row, s, group));
    }
    return BP_OK;
}

bp_status bp_feed_stage_windows(const bp_feed *feed, const uint64_t *windows, uint32_t count,
                                bp_group *group, int32_t *scratch)
{
    BP_TRY(check_made(feed, 0));
    if (count == 0 || count > feed->group) {
        return bp_error_limit(feed->error, BP_ERR_USAGE, where, "more rows than a group has",
                              feed->source->name, count, BP_LIMIT_MOST, feed->group);
    }
    begin_group(feed, group, count);
    for (uint32_t s = 0; s < group->micros * feed->batch; s++) {
        feed_row row = {.number = s < count ? windows[s] : 0};
        if (s < count) {
            row.read.window = windows[s];
            BP_TRY(load_row(feed, scratch, &row));
        }
        BP_TRY(take_row(feed, &row, s, group));
    }
    return BP_OK;
}

/* The order of a feed whose groups have samples of like lengths. */

static int compare_lengths(const void *a, const void *b)
{
    const bp_megabatch_row *x = a, *y = b;
    const bool longer = x->tokens > y->tokens || (x->tokens == y->tokens && x->place < y->place);
    return longer ? -1 : 1;
}

/* Rows of a megabatch but the last one's. */
static uint64_t megabatch_length(const bp_feed *feed)
{
    const uint64_t groups = feed->windows / bp_size_mul(feed->group, 4);
    return bp_size_mul(feed->group, groups == 0                    ? 1
                                    : groups < BP_MEGABATCH_GROUPS ? groups
                                                                   : BP_MEGABATCH_GROUPS);
}

bp_status bp_feed_by_length(const bp_feed *feed, uint64_t epoch, uint64_t position,
                            uint64_t *window)
{
    bp_megabatch *megabatch = feed->megabatch;
    BP_TRY(check_made(feed, position));
    if (megabatch == NULL || megabatch->rows == NULL) {
        return bp_error_set(feed->error, BP_ERR_USAGE, where, "the feed has no megabatch", NULL);
    }
    const uint64_t length = megabatch_length(feed), first = position / length * length;
    const uint64_t left = feed->windows - first, count = left < length ? left : length;
    const uint64_t number = epoch * bp_size_ceil_div(feed->windows, length) + first / length + 1;
    if (megabatch->number != number) {
        megabatch->number = 0; /* until it is whole */
        for (uint64_t i = 0; i < count; i++) {
            bp_megabatch_row *row = &megabatch->rows[i];
            row->place = (uint32_t)i;
            row->window = bp_feed_shuffled(feed, epoch, first + i);
            BP_TRY(bp_feed_length(feed, row->window, &row->tokens));
        }
        bp_heap_sort(megabatch->rows, (size_t)count, sizeof *megabatch->rows, compare_lengths);
        megabatch->number = number;
    }
    *window = megabatch->rows[position - first].window;
    return BP_OK;
}

/* The order of a feed whose data sets have shares of each epoch. */

/* The shares of an epoch, rounded down; what is left goes to the largest remainders, of equal ones
 * to the first. */
static void share_out(bp_mixture *mixture, const double *weights, double sum, uint64_t windows)
{
    double rest[BP_MIXTURE_MOST];
    uint64_t given = 0;
    for (uint32_t i = 0; i < mixture->count; i++) {
        const double exact = (double)windows * (weights[i] / sum);
        mixture->part[i].each = (uint64_t)exact;
        rest[i] = exact - (double)mixture->part[i].each;
        given += mixture->part[i].each;
    }
    while (given < windows) {
        uint32_t most = 0;
        for (uint32_t i = 1; i < mixture->count; i++) {
            most = rest[i] > rest[most] ? i : most;
        }
        mixture->part[most].each++;
        rest[most] -= 1.0;
        given++;
    }
}

bp_status bp_mixture_init(bp_mixture *mixture, bp_feed *feed, const double *weights)
{
    double sum = 0.0;
    uint64_t first = 0;
    BP_TRY(check_made(feed, 0));
    if (mixture->count == 0 || mixture->count > BP_MIXTURE_MOST) {
        return bp_error_set(feed->error, BP_ERR_USAGE, where, "the mixture has no data sets", NULL);
    }
    for (uint32_t i = 0; i < mixture->count; i++) {
        bp_mixture_part *part = &mixture->part[i];
        /* a stream's windows belong to the data set that their first token is of */
        const uint64_t end =
            feed->source->examples > 0 ? part->end : bp_size_ceil_div(part->end, feed->sequence);
        const uint64_t last = end < feed->windows ? end : feed->windows;
        part->first = first;
        part->windows = last > first ? last - first : 0;
        first += part->windows;
        sum += weights[i];
        if (part->windows == 0 && weights[i] > 0.0) {
            return bp_error_limit(feed->error, BP_ERR_DATA, where,
                                  "a data set of the mixture is shorter than one row",
                                  feed->source->name, (int64_t)i + 1, BP_LIMIT_NONE, 0);
        }
    }
    if (!(sum > 0.0)) {
        return bp_error_set(feed->error, BP_ERR_USAGE, where, "no data set has a weight above 0",
                            feed->source->name);
    }
    share_out(mixture, weights, sum, feed->windows);
    feed->mixture = mixture;
    feed->order = bp_feed_mixed;
    return BP_OK;
}

bp_status bp_feed_mixed(const bp_feed *feed, uint64_t epoch, uint64_t position, uint64_t *window)
{
    const bp_mixture *mixture = feed->mixture;
    BP_TRY(check_made(feed, position));
    if (mixture == NULL) {
        return bp_error_set(feed->error, BP_ERR_USAGE, where, "the feed has no mixture", NULL);
    }
    uint64_t place = bp_random_permute(feed->seed, epoch, feed->windows, position);
    uint32_t i = 0;
    while (i + 1 < mixture->count && place >= mixture->part[i].each) {
        place -= mixture->part[i++].each;
    }
    /* a data set is gone through once and again, each time in an order of its own */
    const bp_mixture_part *part = &mixture->part[i];
    if (part->windows == 0) {
        return bp_error_set(feed->error, BP_ERR_USAGE, where, "the mixture was not initialised",
                            NULL);
    }
    const uint64_t visit = epoch * part->each + place;
    const uint64_t key = feed->seed ^ (UINT64_C(0x6d697874757265) + i);
    *window = part->first +
              bp_random_permute(key, visit / part->windows, part->windows, visit % part->windows);
    return BP_OK;
}
