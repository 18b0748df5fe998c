/* SPDX-License-Identifier: MIT */
/* Opening the data of a run. */
#include "tools/bedplate/sources/data_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arena/text.h"
#include "core/base/number.h"
#include "core/base/digest.h"
#include "core/base/storage.h"
#include "tools/bedplate/sources/data_answered.h"
#include "tools/bedplate/sources/data_conversations.h"
#include "tools/bedplate/sources/data_reading.h"
#include "tools/bedplate/sources/data_stored.h"
#include "tools/bedplate/sources/data_tagged.h"
#include "tools/bedplate/sources/data_task.h"
#include "tools/bedplate/sources/data_tokenised.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/images/data_images.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/sources/packing.h"
#include "tools/bedplate/app/output.h"

#define SAMPLE_TOKENS 4096

static const char where[] = "data";

static bp_data_format format_of(const char *name)
{
    static const struct {
        const char *name;
        bp_data_format format;
    } formats[] = {
        {"text", BP_DATA_TEXT},         {"llmc", BP_DATA_LLMC},  {"nanogpt", BP_DATA_NANOGPT},
        {"jsonl", BP_DATA_JSONL},       {"tsv", BP_DATA_TSV},    {"csv", BP_DATA_CSV},
        {"f32", BP_DATA_F32},           {"json", BP_DATA_JSONL}, {"bytes", BP_DATA_BYTES},
        {"cifar10", BP_DATA_CIFAR10},   {"idx", BP_DATA_IDX},    {"npy", BP_DATA_NPY},
        {"imagefolder", BP_DATA_FOLDER}};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return formats[i].format;
        }
    }
    return BP_DATA_AUTO;
}

/* A directory of speech: its list of files and texts. */
static const char *speech_list(const char *directory, char path[BP_STORE_PATH_MAX])
{
    static const char *const names[] = {"metadata.csv", "metadata.jsonl"};
    struct stat about;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int length = snprintf(path, BP_STORE_PATH_MAX, "%s/%s", directory, names[i]);
        if (length > 0 && length < BP_STORE_PATH_MAX && stat(path, &about) == 0 &&
            S_ISREG(about.st_mode)) {
            return path;
        }
    }
    return directory;
}

/* Adds what one argument names: the file itself, or what its pattern matches. */
static bp_status add_argument(data_files *files, session *s, const char *argument, uint32_t *count)
{
    bool exists = false;
    struct stat about;
    char list[BP_STORE_PATH_MAX];
    bool there = stat(argument, &about) == 0;
    const bool folder = there && S_ISDIR(about.st_mode) &&
                        (model_hears(&s->spec.config) || model_sees(&s->spec.config));
    if (folder && speech_list(argument, list) == list) {
        const int failed = glob(list, files->expanded ? GLOB_APPEND : 0, NULL, &files->patterns);
        if (failed != 0) {
            return bp_error_set(&s->error, BP_ERR_DATA, where, "there is no such file", list);
        }
        files->expanded = true;
        files->rows[(*count)++].path = files->patterns.gl_pathv[files->patterns.gl_pathc - 1];
        return BP_OK;
    }
    bool pipe = there && (S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode));
    bool device = there && !S_ISDIR(about.st_mode) && strncmp(argument, "/dev/", 5) == 0;
    if (there && S_ISDIR(about.st_mode) && format_of(s->set->data_format) == BP_DATA_FOLDER) {
        files->rows[(*count)++].path = argument;
        return BP_OK;
    }
    if (strcmp(argument, "-") == 0 || pipe || device) {
        files->rows[*count].nameless = true;
        files->rows[(*count)++].path = argument;
        return BP_OK;
    }
    if (there && !S_ISREG(about.st_mode)) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "data is read from files, and this is none (a directory's files: "
                            "DIR/*; images in a folder for each class: --data-format imagefolder)",
                            argument);
    }
    if (s->store->exists(s->store, argument, &exists) == BP_OK && exists) {
        files->rows[(*count)++].path = argument;
        return BP_OK;
    }
    size_t before = files->expanded ? files->patterns.gl_pathc : 0;
    int failed = glob(argument, files->expanded ? GLOB_APPEND : 0, NULL, &files->patterns);
    if (failed != 0) {
        return bp_error_set(&s->error, BP_ERR_DATA, where, "there is no such file", argument);
    }
    files->expanded = true;
    for (size_t i = before; i < files->patterns.gl_pathc; i++) {
        if (*count == SETTINGS_PATHS_MAX) {
            return bp_error_limit(
                &s->error, BP_ERR_DATA, where, "the pattern matches too many files", argument,
                (int64_t)files->patterns.gl_pathc, BP_LIMIT_MOST, SETTINGS_PATHS_MAX);
        }
        files->rows[(*count)++].path = files->patterns.gl_pathv[i];
    }
    return BP_OK;
}

/* Without a tokenizer that has a [MASK], as over bytes, a hidden token becomes 0. */
static bp_masking masking_of(const data_set *set, const bp_spec *spec)
{
    const bp_tokenizer_special *special = &set->special;
    bool there = special->mask >= 0 && special->mask < (int64_t)spec->config.vocabulary;
    return (bp_masking){.probability = 0.15,
                        .token = there ? (int32_t)special->mask : 0,
                        .special = {(int32_t)special->cls, (int32_t)special->sep,
                                    (int32_t)special->pad, (int32_t)special->bos}};
}

bp_feed data_set_feed(const data_set *set, const session *s, bp_source *part)
{
    const bp_spec *spec = &s->spec;
    int64_t padding = spec->config.pad_token >= 0 ? spec->config.pad_token : set->special.pad;
    bool inside = padding >= 0 && padding < (int64_t)spec->config.vocabulary;
    return (bp_feed){.source = part,
                     .seed = spec->seed,
                     .sequence = spec->sequence,
                     .batch = spec->batch,
                     .group = spec->batch,
                     .vocabulary = spec->config.vocabulary,
                     .kind = bp_feed_labels(spec->config.task),
                     .classes = spec->config.classes,
                     .class_weights = spec->class_weights,
                     .pairs = spec->preference.kind != BP_PREFERENCE_NONE,
                     .prompts = spec->preference.nll > 0.0,
                     .masking = masking_of(set, spec),
                     .texts = set->speech != NULL   ? &set->speech->texts
                              : set->images != NULL ? &set->images->texts
                              : spec->source > 0    ? &bp_feed_two_texts
                                                    : NULL,
                     .source_tokens = spec->source,
                     .padding = inside ? (int32_t)padding : 0};
}

static bool is_rows(bp_data_format format)
{
    return format == BP_DATA_F32 || format == BP_DATA_NPY || format == BP_DATA_FOLDER ||
           bp_images_format(format);
}

/* Whether the model reads data of this format for its task. */
static bp_status source_check(data_files *files, session *s)
{
    bp_data_format format = files->data.format;
    files->source = &files->data.source;
    if (s->spec.config.vocabulary == 0) {
        return data_numbers_check(files, s);
    }
    const bool words = s->spec.config.task == BP_TASK_TOKENS && format != BP_DATA_TOKENS;
    const bool asks = s->spec.config.task == BP_TASK_ANSWERS && format != BP_DATA_TOKENS;
    if (words || asks) {
        BP_TRY(words ? data_tagged_check(files, s) : data_answered_check(files, s));
    }
    bool bare = format == BP_DATA_LLMC || format == BP_DATA_NANOGPT || format == BP_DATA_TEXT;
    if (bare && data_learns_rows(&s->spec.config)) {
        return data_lacks_labels(files, s);
    }
    const bool table = format == BP_DATA_CSV || format == BP_DATA_TSV;
    if (model_sees(&s->spec.config)) {
        return format == BP_DATA_JSONL || table
                   ? BP_OK
                   : bp_error_set(&s->error, BP_ERR_DATA, where,
                                  "the model compares images with texts: JSON lines of `image` and "
                                  "`text`, a table of `file_name` and `text`, or a directory with "
                                  "such a metadata.csv or metadata.jsonl",
                                  files->source->name);
    }
    if (model_hears(&s->spec.config)) {
        return format == BP_DATA_JSONL || format == BP_DATA_TOKENS || table
                   ? BP_OK
                   : bp_error_set(&s->error, BP_ERR_DATA, where,
                                  "the model makes a text of speech: JSON lines of `audio` and "
                                  "`text`, a table of `file_name` and `text`, or a directory with "
                                  "such a metadata.csv",
                                  files->source->name);
    }
    if (s->spec.source > 0 && format != BP_DATA_JSONL && format != BP_DATA_TOKENS) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the model makes a text of another: JSON lines of `source` and "
                            "`target`, or `prompt` and `completion`",
                            files->source->name);
    }
    const bool texts = bp_feed_labels(s->spec.config.task) == BP_LABELS_TEXTS;
    if (texts && (format == BP_DATA_LLMC || format == BP_DATA_NANOGPT || is_rows(format))) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "vectors are made of texts: a text a line, JSON lines or a table",
                            files->source->name);
    }
    return !is_rows(format) ? BP_OK
                            : bp_error_set(&s->error, BP_ERR_DATA, where,
                                           "rows of numbers are no data for a language model",
                                           files->source->name);
}

static bp_status source_tokenizer(const data_files *files, session *s)
{
    BP_TRY(session_find_run_tokenizer(s));
    if (s->run_tokenizer.kind == TOKENIZER_NONE && strcmp(s->set->data_format, "bytes") == 0) {
        s->run_tokenizer.kind = TOKENIZER_BYTES; /* asked for in so many words */
    }
    if (s->run_tokenizer.kind == TOKENIZER_NONE) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "text needs a tokenizer, and the model directory has none; give "
                            "--tokenizer, or token files (llm.c or nanoGPT)",
                            files->source->name);
    }
    return BP_OK;
}

/* Text is read as bytes where the model is over bytes; other documents are tokenised. */
static bp_status open_source(data_set *set, data_files *files, session *s, const char *name)
{
    const bp_data_format format = files->data.format;
    const bp_task task = s->spec.config.task;
    const bool words = task == BP_TASK_TOKENS, asks = task == BP_TASK_ANSWERS;
    if (s->spec.config.vocabulary == 0) {
        return data_open_numbers(set, files, s, name);
    }
    if (format == BP_DATA_LLMC || format == BP_DATA_NANOGPT) {
        return BP_OK;
    }
    if (format == BP_DATA_TOKENS) {
        return data_open_tokens(files, s);
    }
    BP_TRY(source_tokenizer(files, s));
    if (s->run_tokenizer.kind == TOKENIZER_BYTES &&
        s->spec.config.vocabulary != BP_BYTE_VOCABULARY && !s->set->quiet) {
        output_print(stderr, "bedplate: %s: there is no tokenizer: each token is a byte\n",
                     files->source->name);
    }
    if (words || asks) {
        return words ? data_tagged_open(set, files, s, name)
                     : data_answered_open(set, files, s, name);
    }
    if (bp_feed_labels(task) == BP_LABELS_TEXTS) {
        return data_tokenise(set, files, s, name);
    }
    if (format == BP_DATA_TEXT && s->run_tokenizer.kind == TOKENIZER_BYTES) {
        return BP_OK;
    }
    bool conversations = false;
    BP_TRY(s->spec.source > 0 ? BP_OK : data_conversations_are(files, s, &conversations));
    return conversations ? data_conversations_open(set, files, s, name)
                         : data_tokenise(set, files, s, name);
}

bp_status data_files_find(data_files *files, session *s, const path_list *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        BP_TRY(add_argument(files, s, list->item[i], &count));
    }
    return data_stored_open(files, s, count, format_of(s->set->data_format));
}

/* What files are refused for, whatever their rows have. */
static bp_status files_check(data_files *files, session *s)
{
    bool are;
    if (data_rows(&s->spec) != BP_CHAT_ROWS && files->data.format != BP_DATA_TOKENS) {
        BP_TRY(data_conversations_are(files, s, &are));
    }
    BP_TRY(data_reading_check(s, files));
    BP_TRY(source_check(files, s));
    if (files->data.source.count > 0 || s->spec.config.vocabulary == 0) {
        return BP_OK;
    }
    const bool words = s->spec.config.task == BP_TASK_TOKENS;
    return bp_error_limit(&s->error, BP_ERR_DATA, where,
                          words ? "the data holds no tagged words" : "the data holds no document",
                          files->data.source.name, 0, BP_LIMIT_LEAST, 1);
}

static bp_status open_files(data_set *set, data_files *files, session *s, const path_list *list,
                            const char *name)
{
    BP_TRY(data_files_find(files, s, list));
    BP_TRY(files_check(files, s));
    BP_TRY(data_task_ignored(s, files));
    return open_source(set, files, s, name);
}

/* Whether every file or pattern of a list is there: a plan may be made before the data are. */
static bool files_are_here(const path_list *list)
{
    bool here = list->count > 0;
    for (uint32_t i = 0; here && i < list->count; i++) {
        struct stat about;
        glob_t found;
        here = strcmp(list->item[i], "-") == 0 || stat(list->item[i], &about) == 0;
        if (!here && glob(list->item[i], 0, NULL, &found) == 0) {
            here = true;
            globfree(&found);
        }
    }
    return here;
}

static bp_status mixed_check(const session *s)
{
    const settings *set = s->set;
    const bp_task task = s->spec.config.task;
    const char *with = set->validation_split > 0 ? "--validation-split"
                       : set->group_by_length    ? "--group-by-length"
                       : set->packing            ? "--packing"
                                                 : NULL;
    const bool rows = task >= BP_TASK_TOKENS || s->spec.preference.kind != BP_PREFERENCE_NONE;
    if (with == NULL && !rows && set->data.count <= BP_MIXTURE_MOST) {
        return BP_OK;
    }
    bp_error *error = (bp_error *)&s->error;
    return with != NULL
               ? bp_error_set(error, BP_ERR_USAGE, where,
                              "--data-weights sets the order; this option cannot be given with it",
                              with)
           : rows
               ? bp_error_set(error, BP_ERR_USAGE, where,
                              "data sets are mixed for language models and for rows with labels",
                              "--data-weights")
               : bp_error_limit(error, BP_ERR_USAGE, where,
                                "there are more data sets than can "
                                "be mixed",
                                "--data-weights", set->data.count, BP_LIMIT_MOST, BP_MIXTURE_MOST);
}

/* The numbers of --data-weights, one for each argument of --data. */
static bp_status mixed_weights(session *s, double weights[BP_MIXTURE_MOST])
{
    double sum = 0.0;
    uint32_t count = 0;
    for (const char *at = s->set->data_weights; *at != '\0'; count++) {
        const size_t length = strcspn(at, ",");
        bp_number number;
        if (bp_number_parse(at, length, &number) != BP_OK || !(number.real >= 0.0) ||
            number.real > 1e9) {
            bp_status status =
                bp_error_set(&s->error, BP_ERR_USAGE, where,
                             "the weights are numbers from 0 to 1e9", "--data-weights");
            bp_error_found(&s->error, at, length);
            return status;
        }
        weights[count < BP_MIXTURE_MOST ? count : 0] = number.real;
        sum += number.real;
        at += length;
        at += *at == ',' ? 1 : 0;
    }
    if (count != s->set->data.count) {
        return bp_error_numbers(&s->error, BP_ERR_USAGE, where,
                                "there has to be a weight for each argument of --data",
                                "--data-weights", count, s->set->data.count);
    }
    return sum > 0.0 ? BP_OK
                     : bp_error_set(&s->error, BP_ERR_USAGE, where,
                                    "no data set has a weight above 0", "--data-weights");
}

/* Options about data that contradict each other, whatever the files hold. */
static bp_status options_check(session *s)
{
    double weights[BP_MIXTURE_MOST];
    if (s->set->validation_split > 0 && s->set->eval_data.count > 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "give either --eval-data or --validation-split", "--validation-split");
    }
    BP_TRY(data_template_check(s));
    if (s->set->data_weights == NULL) {
        return BP_OK;
    }
    BP_TRY(mixed_check(s));
    return mixed_weights(s, weights);
}

bp_status data_grouped_check(session *s, bool stream)
{
    if (!s->set->group_by_length) {
        return BP_OK;
    }
    if (stream) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "train",
                            "the data is one stream of tokens, whose rows are all of one length",
                            "--group-by-length");
    }
    return s->spec.preference.kind == BP_PREFERENCE_NONE && s->spec.texts <= 1
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_USAGE, "train",
                              "pairs of rows that are compared stay together", "--group-by-length");
}

/* What training refuses of tokenizer, template and first rows: open_source without reading all.
 * *stream: a language model learns one stream of tokens from them. */
static bp_status files_first(data_files *files, session *s, bool *stream)
{
    const bp_data_format format = files->data.format;
    const bp_task task = s->spec.config.task;
    bool conversations = false;
    *stream = format == BP_DATA_LLMC || format == BP_DATA_NANOGPT;
    if (s->spec.config.vocabulary == 0) {
        return data_numbers_first(files, s);
    }
    if (*stream || format == BP_DATA_TOKENS) {
        return BP_OK;
    }
    BP_TRY(source_tokenizer(files, s));
    if (task == BP_TASK_TOKENS || task == BP_TASK_ANSWERS) {
        return task == BP_TASK_ANSWERS ? data_answered_tokenizer(files, s)
                                       : data_tagged_first(files, s);
    }
    BP_TRY(s->spec.source > 0 ? BP_OK : data_conversations_are(files, s, &conversations));
    return conversations ? data_conversations_check(files, s)
                         : data_reading_first(s, files, stream);
}

/* A stream whose tokens are counted before it is read: a token file's, or one for each byte. It has
 * to fill a batch, as bp_feed_init wants it, unless a search may choose a smaller one, or a share
 * is held out of it. */
static bp_status stream_check(session *s, data_files *files)
{
    const bp_data_format format = files->data.format;
    const bool bytes = format == BP_DATA_TEXT && s->run_tokenizer.kind == TOKENIZER_BYTES;
    const bool counted = bytes || format == BP_DATA_LLMC || format == BP_DATA_NANOGPT;
    bp_feed feed = {.source = files->source,
                    .sequence = s->spec.sequence,
                    .batch = s->spec.batch,
                    .group = s->spec.batch};
    if (!counted) {
        return BP_OK;
    }
    BP_TRY(files->judged ? BP_OK : packing_stream_check(s, files->source));
    return s->set->arena > 0 || s->set->validation_split > 0 || s->set->max_batch
               ? BP_OK
               : bp_feed_init(&feed, &s->error);
}

/* What one list of files is refused for; it may not be there yet. */
static bp_status list_check(session *s, const path_list *list, bool judged)
{
    static data_files files; /* large */
    bool stream = false;
    if (!files_are_here(list)) {
        return BP_OK;
    }
    memset(&files, 0, sizeof files);
    files.look = true;
    files.judged = judged;
    bp_status status = data_files_find(&files, s, list);
    status = status == BP_OK ? files_check(&files, s) : status;
    status = status == BP_OK ? files_first(&files, s, &stream) : status;
    if (status == BP_OK && !judged) {
        status = s->spec.config.task == BP_TASK_TOKENS ? data_tagged_classes(&files, s)
                                                       : data_classes_find(&files, s);
    }
    if (status == BP_OK && !judged) {
        const bool wrapped = s->set->packing && !packing_apart(s->set);
        status = data_grouped_check(s, wrapped || (stream && !s->set->packing));
    }
    status = status == BP_OK && stream ? stream_check(s, &files) : status;
    data_files_close(&files);
    return status;
}

bp_status data_set_check(session *s)
{
    const path_list *data = &s->set->data;
    static path_list one; /* large */
    const bool mixed = s->set->data_weights != NULL;
    BP_TRY(data->count > 0 ? options_check(s) : BP_OK);
    BP_TRY(mixed ? BP_OK : list_check(s, data, false));
    for (uint32_t i = 0; mixed && i < data->count; i++) {
        one = (path_list){.item = {data->item[i]}, .count = 1};
        BP_TRY(list_check(s, &one, false));
    }
    return list_check(s, &s->set->eval_data, true);
}

/* Each argument of --data is a data set, with a token file of its own where it needs one. */
static bp_status open_mixed(data_set *set, session *s)
{
    const path_list *list = &s->set->data;
    set->more = calloc(list->count, sizeof *set->more);
    if (set->more == NULL) {
        return bp_error_set(&s->error, BP_ERR_FIT, where, "there is no memory for the data sets",
                            "--data-weights");
    }
    set->mixture.count = list->count;
    uint64_t end = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        static path_list one; /* large */
        char name[32] = "data.tokens";
        data_files *files = i == 0 ? &set->main : &set->more[i - 1];
        one = (path_list){.item = {list->item[i]}, .count = 1};
        if (i > 0) {
            snprintf(name, sizeof name, "data.%u.tokens", i + 1);
        }
        BP_TRY(open_files(set, files, s, &one, name));
        set->mixed[i] = files->source;
        end += files->source->examples > 0 ? files->source->examples : files->source->count;
        set->mixture.part[i].end = end;
    }
    BP_TRY(bp_joined_init(&set->joined, set->mixed, list->count, &s->error));
    set->train = &set->joined.source;
    return BP_OK;
}

bp_status data_set_mix(data_set *set, session *s, bp_feed *feed)
{
    double weights[BP_MIXTURE_MOST] = {0.0};
    if (s->set->data_weights == NULL) {
        return BP_OK;
    }
    BP_TRY(mixed_weights(s, weights));
    return bp_mixture_init(&set->mixture, feed, weights);
}

static bp_status split(data_set *set, session *s, double share)
{
    if (data_rows(&s->spec) != BP_CHAT_ROWS) { /* whole pairs */
        const double rows = (double)set->train->examples;
        share = (2.0 * floor(rows / 2.0 * share) + 0.5) / rows;
    }
    bp_status status = bp_part_tail(&set->kept_part, &set->held_part, set->train, share);
    if (status != BP_OK) {
        return bp_error_limit(&s->error, BP_ERR_DATA, where,
                              "the data has too few examples to hold some of them out",
                              set->train->name, (int64_t)set->train->examples, BP_LIMIT_LEAST, 2);
    }
    if (s->spec.config.task == BP_TASK_ANSWERS) {
        BP_TRY(data_answered_split(set, s));
    }
    set->train = &set->kept_part.source;
    set->eval = &set->held_part.source;
    return BP_OK;
}

static bp_status open_parts(data_set *set, session *s, double share)
{
    if (s->set->data_weights != NULL) {
        BP_TRY(open_mixed(set, s));
    } else {
        BP_TRY(open_files(set, &set->main, s, &s->set->data, "data.tokens"));
        set->train = set->main.source;
    }
    if (share > 0) {
        return split(set, s, share);
    }
    if (s->set->eval_data.count > 0) {
        set->held.judged = true;
        BP_TRY(open_files(set, &set->held, s, &s->set->eval_data, "eval.tokens"));
        set->eval = set->held.source;
    }
    return BP_OK;
}

/* Each part that is learned or evaluated has targets. What is packed is looked at when it is. */
static bp_status check_targets(data_set *set, session *s)
{
    const uint32_t mixed = set->mixture.count;
    const bool alone = set->train->examples < 2 || (set->eval != NULL && set->eval->examples < 2);
    if (model_sees(&s->spec.config) && alone) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "images are compared with the texts of others: a part has one row",
                            s->set->validation_split > 0 ? "--validation-split"
                                                         : set->main.data.source.name);
    }
    for (uint32_t i = 0; i < mixed; i++) {
        BP_TRY(data_check_targets(s, set->mixed[i]));
    }
    BP_TRY(mixed == 0 && !s->set->packing ? data_check_targets(s, set->train) : BP_OK);
    return set->eval != NULL ? data_check_targets(s, set->eval) : BP_OK;
}

/* Of data that is refused nothing stays in a directory that was made for it. */
static void data_set_forget(session *s)
{
    static const char *const names[] = {"data.tokens", "eval.tokens"};
    char path[BP_STORE_PATH_MAX];
    for (size_t i = 0; i < 2; i++) {
        if (bp_storage_join(path, s->set->output_dir, names[i], NULL) == BP_OK) {
            (void)s->store->remove(s->store, path);
        }
    }
    (void)s->store->remove_directory(s->store, s->set->output_dir);
}

bp_status data_set_open(data_set *set, session *s)
{
    memset(set, 0, sizeof *set);
    set->special = (bp_tokenizer_special){-1, -1, -1, -1, -1, -1, -1, false, false, false};
    double share = s->set->validation_split;
    if (s->set->data.count == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where, "the option is needed: what to read",
                            "--data");
    }
    BP_TRY(options_check(s));
    BP_TRY(speech_source_open(&set->speech, s));
    BP_TRY(image_source_open(&set->images, s));
    bp_status status = open_parts(set, s, share);
    status = status == BP_OK ? check_targets(set, s) : status;
    run_tokenizer_close(&s->run_tokenizer);
    if (status != BP_OK && set->made) {
        data_set_forget(s);
    }
    return status;
}

bp_status data_evaluated(session *s, const bp_source *source, uint64_t targets, double loss)
{
    const bool weightless = s->spec.class_weights != NULL && loss == 0.0;
    return targets > 0 && !weightless
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_DATA, where,
                              weightless ? "all targets of the evaluation are of classes whose "
                                           "weight is 0: it has no result"
                                         : "the evaluation has no targets",
                              source->name);
}

void data_files_close(data_files *files)
{
    bp_data_close(&files->data);
    bp_tokens_close(&files->tokens);
    if (files->expanded) {
        globfree(&files->patterns);
        files->expanded = false;
    }
}

void data_set_close(data_set *set)
{
    data_files_close(&set->main);
    data_files_close(&set->held);
    for (uint32_t i = 1; set->more != NULL && i < set->mixture.count; i++) {
        data_files_close(&set->more[i - 1]);
    }
    free(set->more);
    set->more = NULL;
    speech_source_close(&set->speech);
    image_source_close(&set->images);
}

/* Reads a sample into `tokens` and adds it to the digest. Ids beyond the vocabulary are found here,
 * before anything is made, where they are not rare. */
static bp_status take_sample(session *s, bp_source *source, uint64_t first, uint32_t n,
                             bp_digest *digest)
{
    static int32_t tokens[SAMPLE_TOKENS];
    uint32_t vocabulary = s->spec.config.vocabulary;
    BP_TRY(source->read(source, first, n, tokens));
    for (uint32_t i = 0; vocabulary > 0 && i < n; i++) {
        if ((uint32_t)tokens[i] >= vocabulary) {
            return bp_error_limit(&s->error, BP_ERR_DATA, where,
                                  "a token id is not below the model's vocabulary", source->name,
                                  tokens[i], BP_LIMIT_BELOW, vocabulary);
        }
    }
    bp_digest_add(digest, tokens, n * sizeof tokens[0]);
    return BP_OK;
}

bp_status data_set_identity(session *s, bp_source *source, char *text, size_t room)
{
    uint32_t n = source->count < SAMPLE_TOKENS ? (uint32_t)source->count : SAMPLE_TOKENS;
    bp_digest digest;
    char hexadecimal[BP_DIGEST_TEXT];
    bp_digest_begin(&digest, 0);
    BP_TRY(take_sample(s, source, 0, n, &digest));
    BP_TRY(take_sample(s, source, source->count - n, n, &digest));
    bp_digest_text(bp_digest_end(&digest), hexadecimal);
    bp_text out;
    bp_text_init(&out, NULL, NULL, text, room);
    bp_text_u64(&out, source->count);
    bp_text_string(&out, " tokens ");
    bp_text_string(&out, hexadecimal);
    if (source->examples > 0) {
        bp_text_string(&out, " examples ");
        bp_text_u64(&out, source->examples);
    }
    return bp_text_flush(&out);
}
