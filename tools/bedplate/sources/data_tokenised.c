/* SPDX-License-Identifier: MIT */
/* Documents of a run to token files, and what is said of it. */
#include "tools/bedplate/sources/data_tokenised.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/storage.h"
#include "tools/bedplate/sources/data_reading.h"
#include "tools/bedplate/session/image_choice.h"
#include "tools/bedplate/sources/pictures.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/images/data_images.h"
#include "tools/formats/data/data_numbers.h"
#include "tools/formats/data/data_tokenise.h"
#include "tools/formats/data/label_survey.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/models/speech_prefix.h"
#include "tools/bedplate/app/environment.h"
#include "tools/bedplate/app/temporary.h"

#define LONG_BYTES (128u << 20) /* data of which less is tokenised before one asks */

static const char where[] = "data";

bool data_learns_rows(const bp_model_config *config)
{
    bp_labels labels = bp_feed_labels(config->task);
    return labels == BP_LABELS_CLASS || labels == BP_LABELS_BITS;
}

bp_status data_lacks_labels(const data_files *files, session *s)
{
    return bp_error_set(&s->error, BP_ERR_DATA, where,
                        "the task learns labels, and the data has none; give a table of labels and "
                        "texts (--data-format tsv or csv) or JSON lines with `text` and `label`",
                        files->data.source.name);
}

bp_status data_token_path(data_set *set, session *s, char path[BP_STORE_PATH_MAX], const char *name)
{
    const char *directory = s->set->output_dir;
    if (directory == NULL) {
        return temporary_make_inside(environment_temporary(), name, path, &s->error);
    }
    bool there = true;
    if (s->store->exists(s->store, directory, &there) != BP_OK ||
        s->store->make_directory(s->store, directory) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "make directory", directory);
    }
    set->made = set->made || !there;
    return bp_storage_join(path, directory, name, &s->error);
}

/* Tokens of pairs have types where the model has them too. */
static bp_status note_pairs(const data_files *files, session *s)
{
    const bp_tokens_head *head = &files->tokens.head;
    if (head->texts != 2 || head->form == BP_FORM_TEXTS) {
        return BP_OK;
    }
    bp_spec paired = s->spec;
    paired.pairs = true;
    if (head->types == BP_PAIR_OTHER && bp_input_declared(&paired, BP_INPUT_TYPES)) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the tokenizer gives the tokens of pairs other types than 0 before the "
                            "second text and 1 from there on, which is what is implemented",
                            files->data.source.name);
    }
    s->spec.pairs = s->spec.pairs || head->types == BP_PAIR_APART;
    return BP_OK;
}

bp_status data_one_text(const data_files *files, bp_error *error)
{
    return bp_error_limit(error, BP_ERR_DATA, where,
                          "a row has one text: vectors are compared, of `anchor` and "
                          "`positive`, or `sentence1` and `sentence2`",
                          files->data.source.name, 1, BP_LIMIT_LEAST, 2);
}

/* How many texts a row has is known from here on, and with that how many samples a batch. */
static bp_status note_texts(const data_files *files, session *s)
{
    const bp_tokens_head *head = &files->tokens.head;
    bp_spec *spec = &s->spec;
    if (head->form != BP_FORM_TEXTS || s->set->command == COMMAND_EMBED) {
        return BP_OK;
    }
    if (head->texts < 2) {
        return data_one_text(files, &s->error);
    }
    if (s->texts_known && spec->texts != head->texts) {
        return bp_error_limit(&s->error, BP_ERR_DATA, where,
                              "a row has another number of texts than in the other data",
                              files->source->name, head->texts, BP_LIMIT_EXACT, spec->texts);
    }
    if (!s->batch_resolved) {
        spec->batch = spec->batch / spec->texts * head->texts;
    }
    spec->eval_batch = spec->eval_batch / spec->texts * head->texts;
    spec->texts = head->texts;
    s->texts_known = true;
    return BP_OK;
}

bp_status data_refuse_long(session *s, const char *name, uint64_t number, uint64_t tokens,
                           uint64_t most)
{
    char place[BP_STORE_PATH_MAX];
    if (strcmp(s->set->long_rows, "refuse") != 0) {
        return BP_OK;
    }
    snprintf(place, sizeof place, "%s: row %" PRIu64, name, number);
    return bp_error_limit(&s->error, BP_ERR_DATA, where,
                          "it has more tokens than --max-seq-length (--long-rows cut takes what "
                          "fits)",
                          place, bp_size_signed(tokens), BP_LIMIT_MOST, bp_size_signed(most));
}

/* Tokens of an example that a row takes: where labels are successors one more than it reads. */
static uint64_t data_row_tokens(const session *s)
{
    const bool next = bp_feed_labels(s->spec.config.task) == BP_LABELS_NEXT_TOKEN;
    return (uint64_t)s->spec.sequence + (next ? 1 : 0);
}

/* What of an example is a row: where it is made of a source, the text behind that. */
static bp_example data_row_of(const session *s, const bp_example *example)
{
    bp_example row = *example;
    if (s->spec.source > 0) {
        row.first += row.prompt;
        row.count -= row.prompt;
        row.prompt = 0;
    }
    return row;
}

/* Whether a token of a row is a target, as the feed has it. */
static bp_status data_has_target(bp_source *source, const bp_example *example, uint64_t row,
                                 bool given, bool *has)
{
    enum { AT_ONCE = 256 };
    const uint64_t end = example->count < row ? example->count : row;
    uint64_t at = given ? 0 : example->prompt > 1 ? example->prompt : 1;
    *has = !given && source->targets == NULL && at < end;
    while (!*has && at < end && (given || source->targets != NULL)) {
        const uint32_t now = end - at < AT_ONCE ? (uint32_t)(end - at) : AT_ONCE;
        uint8_t counts[AT_ONCE];
        int32_t labels[AT_ONCE];
        BP_TRY(given ? source->labels(source, example->first + example->shift + at, now, labels)
                     : source->targets(source, example->first + at, now, counts));
        for (uint32_t i = 0; i < now; i++) {
            *has = *has || (given ? labels[i] >= 0 : counts[i] == 1);
        }
        at += now;
    }
    return BP_OK;
}

/* Whether targets are among the tokens of rows, which may be cut off. */
static bool data_targets_inside(const session *s, const bp_source *source)
{
    const bp_labels kind = bp_feed_labels(s->spec.config.task);
    return (kind == BP_LABELS_GIVEN && source->labels != NULL) || kind == BP_LABELS_NEXT_TOKEN;
}

/* How relevant a text is is a number from 0 to 1. */
static bp_status data_check_chances(session *s, bp_source *source)
{
    for (uint64_t i = 0; i < source->examples; i++) {
        bp_example example;
        BP_TRY(source->example(source, i, &example));
        const uint32_t bits = example.label == BP_NO_LABEL ? 0 : (uint32_t)example.label;
        float chance;
        memcpy(&chance, &bits, sizeof chance);
        if (!(chance >= 0.0f && chance <= 1.0f)) {
            char found[32];
            const int length = snprintf(found, sizeof found, "%.9g", (double)chance);
            const bp_status status = bp_error_set(
                &s->error, BP_ERR_DATA, where,
                "a label of reranking says how relevant the second text is", source->name);
            bp_error_found(&s->error, found, (size_t)length);
            bp_error_right(&s->error, "a number from 0 to 1");
            return status;
        }
    }
    return BP_OK;
}

bp_status data_check_targets(session *s, bp_source *source)
{
    if (s->spec.config.task == BP_TASK_RANKING) {
        return data_check_chances(s, source);
    }
    const bool given = bp_feed_labels(s->spec.config.task) == BP_LABELS_GIVEN;
    const uint64_t row = source->examples > 0 ? data_row_tokens(s) : UINT64_MAX;
    const uint64_t rows = source->examples > 0 ? source->examples : 1;
    uint64_t shortest = INT64_MAX; /* prompt */
    /* the feed says what is wrong with a stream of too few tokens */
    bool has =
        !data_targets_inside(s, source) || (source->examples == 0 && source->targets == NULL);
    for (uint64_t i = 0; i < rows && !has; i++) {
        bp_example example = {.count = source->count};
        BP_TRY(source->examples > 0 ? source->example(source, i, &example) : BP_OK);
        example = data_row_of(s, &example);
        BP_TRY(data_has_target(source, &example, row, given, &has));
        shortest = example.prompt < shortest ? example.prompt : shortest;
    }
    if (has) {
        return BP_OK;
    }
    return !given && source->targets == NULL && shortest > 0
               ? bp_error_limit(&s->error, BP_ERR_DATA, where,
                                "every prompt is longer than --max-seq-length, so that no "
                                "completion would be learned",
                                source->name, s->spec.sequence, BP_LIMIT_LEAST, (int64_t)shortest)
               : bp_error_set(&s->error, BP_ERR_DATA, where,
                              "no row has a target within --max-seq-length, so that nothing would "
                              "be learned",
                              source->name);
}

/* Counts examples that are longer than a row. What is cut off is never learned: that is said. */
bp_status data_check_lengths(const data_files *files, session *s)
{
    bp_source *source = files->source;
    const uint32_t form = files->tokens.head.form;
    const bool prompts = form == BP_FORM_PROMPT || form == BP_FORM_PAIRS;
    const bool given = form == BP_FORM_TAGGED;
    const bool goes_on = s->set->packing && !files->judged &&
                         strcmp(s->set->packing_strategy, "bfd") != 0; /* in another row */
    const uint64_t row = goes_on ? UINT64_MAX : data_row_tokens(s);
    const uint64_t together = source->together > 0 ? source->together : 1;
    uint64_t longer = 0;
    uint64_t without = 0, sources = 0;
    for (uint64_t i = 0; i < source->examples; i++) {
        bp_example example;
        bool has = true;
        BP_TRY(source->example(source, i, &example));
        const bool reads =
            s->spec.source > 0 && !model_hears(&s->spec.config) && !model_sees(&s->spec.config);
        sources += reads && example.prompt > s->spec.source ? 1 : 0;
        example = data_row_of(s, &example);
        if (example.count > row) {
            BP_TRY(data_refuse_long(s, source->name, i / together + 1, example.count, row));
            longer++;
            BP_TRY(data_targets_inside(s, source)
                       ? data_has_target(source, &example, row, given, &has)
                       : BP_OK);
        }
        without += has ? 0 : 1;
    }
    if (sources > 0) {
        output_print(stderr,
                     "bedplate: %s: %" PRIu64 " of %" PRIu64 " sources are longer than "
                     "--max-source-length %u: all but their beginning and last token is cut\n",
                     source->name, sources, source->examples, s->spec.source);
    }
    if (longer > 0) {
        const bp_tokens_head *head = &files->tokens.head;
        const bool pairs = head->texts == 2 && head->form == BP_FORM_LABELLED;
        output_print(stderr,
                     "bedplate: %s: %" PRIu64 " of %" PRIu64 " examples are longer than "
                     "--max-seq-length %u: %s",
                     source->name, longer, source->examples, s->spec.sequence,
                     pairs ? "the longer text of each is cut first" : "their ends are cut");
        if (prompts && !model_sees(&s->spec.config)) {
            output_print(stderr, "; of %" PRIu64 " the whole completion", without);
        } else if (without > 0) {
            output_print(stderr, "; of %" PRIu64 " all that would be learned", without);
        }
        output_print(stderr, "\n");
    }
    return BP_OK;
}

static void print_outcome(const data_files *files, const bp_tokenise *work, const session *s)
{
    const bp_tokens_head *head = &files->tokens.head;
    if (work->empty > 0) {
        output_print(stderr, "bedplate: %s: %" PRIu64 " documents without a token are left out\n",
                     files->data.source.name, work->empty);
    }
    if (work->cut > 0) {
        output_print(stderr,
                     "bedplate: %s: %" PRIu64
                     " words longer than %d bytes were cut: their tokens may "
                     "differ from other tokenizers'\n",
                     files->data.source.name, work->cut, BP_ENCODER_WORD_BYTES);
    }
    if (s->set->quiet) {
        return;
    }
    output_print(stderr, "bedplate: %s: %" PRIu64 " tokens of %" PRIu64 " documents, %s",
                 files->data.source.name, head->tokens, head->documents,
                 work->built ? "tokenised" : "as tokenised before");
    output_print(stderr, s->set->output_dir != NULL ? " in %s\n" : "\n", files->path);
}

/* Long work says how far it is, every tenth of the way. */
typedef struct advance {
    const char *name;
    uint64_t tenths; /* said so far */
} advance;

static void say_advance(void *user, uint64_t bytes, uint64_t of)
{
    advance *a = user;
    uint64_t tenths = bytes / (of / 10 + 1);
    if (tenths > a->tenths) {
        a->tenths = tenths;
        output_print(stderr, "bedplate: %s: %" PRIu64 " %% tokenised\n", a->name, 10 * tenths);
    }
}

static void print_classes(const data_files *files, const session *s)
{
    enum { SHOWN = 8 };
    const bp_class_names *names = &s->names;
    if (s->set->quiet || names->count == 0) {
        return;
    }
    output_print(stderr, "bedplate: %s: %u classes", files->data.source.name, names->count);
    for (uint32_t i = 0; i < names->count && i < SHOWN; i++) {
        output_print(stderr, "%s %s", i == 0 ? ":" : ",", names->text + names->start[i]);
    }
    output_print(stderr, names->count > SHOWN ? ", ..\n" : "\n");
}

/* The classes are those that labels of the data name where config.json has none; their number is
 * taken too, unless --num-labels says it. */
static bp_status find_classes(const data_files *files, session *s, void *scratch)
{
    bp_model_config *config = &s->spec.config;
    const uint64_t asked = s->set->num_labels;
    const bool several = config->task == BP_TASK_LABELS;
    bp_label_survey found = {.names = &s->names, .reading = data_reading(s->set)};
    BP_TRY(bp_label_survey_read(&found, &files->data, bp_feed_labels(config->task), scratch));
    const uint32_t named = s->names.count;
    if (named > 0 && (asked != 0 ? named != asked : named < 2 && !several)) {
        return bp_error_limit(
            &s->error, BP_ERR_DATA, where,
            asked != 0
                ? "the labels of the data are of another number of names "
                  "than --num-labels"
                : "all labels of the data are the same: there is nothing to learn; kinds of labels",
            files->data.source.name, named, asked != 0 ? BP_LIMIT_EXACT : BP_LIMIT_LEAST,
            asked != 0 ? (int64_t)asked : 2);
    }
    if (named > 0) {
        config->classes = named;
    }
    if (several && config->classes > 32) {
        return bp_error_limit(&s->error, BP_ERR_DATA, where,
                              "the data has more classes than a multi-label task can have",
                              files->data.source.name, config->classes, BP_LIMIT_MOST, 32);
    }
    s->classes_open = false;
    print_classes(files, s);
    return BP_OK;
}

bp_status data_classes_find(const data_files *files, session *s)
{
    memory_block scratch;
    const bp_data_format format = files->data.format;
    if (!s->classes_open || s->spec.config.vocabulary == 0 ||
        (format != BP_DATA_JSONL && format != BP_DATA_CSV && format != BP_DATA_TSV)) {
        return BP_OK;
    }
    BP_TRY(memory_take(&scratch, BP_LABEL_SURVEY_SCRATCH, false, "host memory", &s->error));
    const bp_status status = find_classes(files, s, scratch.address);
    memory_give_back(&scratch);
    return status;
}

static bp_status hear(void *ear, const char *path)
{
    speech_source *source = ear;
    return bp_speech_check(&source->speech, path);
}

static bp_status see(void *eye, const char *path)
{
    return image_source_check(eye, path);
}

/* Files of images are looked for. A text is between the tokens that its tokenizer puts there. */
static bp_status tokenise_sees(bp_tokenise *work, data_set *set, session *s)
{
    const run_tokenizer *c = &s->run_tokenizer;
    const bp_token_rules *rules = &c->tokenizer.rules;
    if (!model_sees(&s->spec.config)) {
        return BP_OK;
    }
    if (c->kind == TOKENIZER_BYTES || work->vocabulary < 256 || rules->single.before.count > 1 ||
        rules->single.after.count != 1) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "texts of images need the model's tokenizer, which puts a token behind "
                            "a text, and at most one before it",
                            work->data->source.name);
    }
    BP_TRY(image_source_open(&set->images, s));
    set->images->error = &s->error;
    work->begins =
        rules->single.before.count > 0 ? rules->single.before.ids[0] : BP_TOKENISE_NOTHING;
    work->end_token = rules->single.after.ids[0];
    work->hears = true;
    work->longest = UINT64_MAX;
    work->hear = see;
    work->ear = set->images;
    return BP_OK;
}

/* Speech is read by its files' headers, and texts begin as the options say. */
static bp_status tokenise_hears(bp_tokenise *work, speech_prefix *prefix, data_set *set, session *s)
{
    const bool bytes = s->run_tokenizer.kind == TOKENIZER_BYTES;
    if (!model_hears(&s->spec.config)) {
        return BP_OK;
    }
    if (bytes || work->vocabulary < 256) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "texts of speech need the model's tokenizer", work->data->source.name);
    }
    BP_TRY(speech_source_open(&set->speech, s));
    BP_TRY(speech_prefix_find(prefix, s->set, &s->run_tokenizer.tokenizer, &s->error));
    set->speech->speech.said = set->speech->speech.turned = 0;
    set->speech->speech.error = &s->error;
    work->hears = true;
    work->lead = prefix->id;
    work->lead_count = prefix->count;
    work->longest = s->spec.config.positions;
    work->hear = hear;
    work->ear = set->speech;
    return BP_OK;
}

static void tokenise_say_heard(const data_files *files, const data_set *set, const session *s)
{
    const char *name = files->data.source.name;
    if (set->speech == NULL || s->set->quiet) {
        return;
    }
    if (set->speech->speech.said > 0) {
        output_print(stderr,
                     "bedplate: %s: %" PRIu64 " files have several channels: their mean is "
                     "read\n",
                     name, set->speech->speech.said);
    }
    if (set->speech->speech.turned > 0) {
        output_print(stderr,
                     "bedplate: %s: %" PRIu64 " files are of another rate: they are read at "
                     "16000 samples a second\n",
                     name, set->speech->speech.turned);
    }
}

static bp_status tokenise(data_set *set, data_files *files, session *s)
{
    speech_prefix prefix = {.count = 0};
    const bp_model_config *config = &s->spec.config;
    BP_TRY(session_open_run_tokenizer(s));
    run_tokenizer *c = &s->run_tokenizer;
    if (s->classes_open) {
        BP_TRY(find_classes(files, s, c->scratch));
    }
    BP_TRY(data_reading_say(s, files));
    bool bytes = c->kind == TOKENIZER_BYTES;
    int64_t end_token = run_tokenizer_end_token(c, config);
    if (bytes && end_token < 0 && files->data.format != BP_DATA_TEXT) {
        end_token = 0;
        s->spec.config.eos_token = 0;
    }
    if (!bytes) {
        set->special = *bp_tokenizer_special_of(&c->tokenizer);
    }
    uint32_t vocabulary = bytes ? BP_BYTE_VOCABULARY : c->need.tokens;
    bp_tokenise work = {
        .data = &files->data,
        .path = files->path,
        .encoder = bytes ? NULL : &c->encoder,
        .vocabulary = end_token >= (int64_t)vocabulary ? (uint32_t)end_token + 1 : vocabulary,
        .end_token = end_token,
        .labels = model_sees(config) ? BP_LABELS_NEXT_TOKEN : bp_feed_labels(config->task),
        .classes = model_task_is_number(config->task) ? 0 : config->classes,
        .names = &s->names,
        .reading = data_reading(s->set),
        .sources = s->spec.source > 0,
        .begins = model_start_token(config),
        .prompt = s->embedder.prompt,
        .may_lack = s->set->predictions != NULL,
        .scratch = c->scratch,
        .error = &s->error};
    uint64_t bytes_of_all = files->data.source.count;
    advance so_far = {.name = files->data.source.name};
    work.user = &so_far;
    work.watch = bytes_of_all >= LONG_BYTES && !s->set->quiet ? say_advance : NULL;
    BP_TRY(tokenise_hears(&work, &prefix, set, s));
    BP_TRY(tokenise_sees(&work, set, s));
    BP_TRY(bp_tokenise_open(&work, &files->tokens));
    tokenise_say_heard(files, set, s);
    if (model_sees(config) && files->tokens.source.examples < 2) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "images are compared with the texts of others: two rows at least",
                            files->data.source.name);
    }
    BP_TRY(note_pairs(files, s));
    BP_TRY(note_texts(files, s));
    print_outcome(files, &work, s);
    return BP_OK;
}

void data_token_unname(session *s, const char *path)
{
    if (s->set->output_dir == NULL) {
        temporary_end_inside(path);
    }
}

bp_status data_token_opened(bp_status status, data_files *files, session *s)
{
    data_token_unname(s, files->path);
    files->source = &files->tokens.source;
    files->source->name = files->data.source.name;
    return status;
}

bp_status data_tokenise(data_set *set, data_files *files, session *s, const char *name)
{
    BP_TRY(data_token_path(set, s, files->path, name));
    BP_TRY(data_token_opened(tokenise(set, files, s), files, s));
    return data_check_lengths(files, s);
}

/* What is read of rows of numbers. prep: image_prep_find's. */
static bp_numbers numbers_work(data_files *files, session *s, pictures *decoders,
                               const bp_image_prep *prep)
{
    static uint64_t scratch[BP_NUMBERS_SCRATCH / 8];
    const bp_model_config *config = &s->spec.config;
    const bool listed = files->data.format == BP_DATA_FOLDER;
    const bool bare = config->task == BP_TASK_RECONSTRUCTION;
    uint32_t size[3];
    const bool floats = bare || model_task_is_number(config->task);
    (void)image_size(&s->spec, size); /* zeros for others */
    return (bp_numbers){.data = &files->data,
                        .path = files->path,
                        .inputs = config->positions,
                        .labels = bp_feed_labels(config->task),
                        .classes = floats ? 0 : config->classes,
                        .bare = bare,
                        .size = {size[0], size[1], size[2]},
                        .reading = data_reading(s->set),
                        .names = listed && s->names.count > 0 ? &s->names : NULL,
                        .pictures = &decoders->table,
                        .prep = prep,
                        .scratch = scratch,
                        .error = &s->error};
}

bp_status data_numbers_first(data_files *files, session *s)
{
    pictures decoders;
    bp_image_prep prep;
    BP_TRY(image_prep_find(&prep, s));
    pictures_begin(&decoders);
    bp_numbers work = numbers_work(files, s, &decoders, &prep);
    const bp_status status = bp_numbers_first(&work);
    pictures_end(&decoders);
    return status;
}

static bp_status numbers(data_files *files, session *s)
{
    pictures decoders;
    bp_image_prep prep;
    BP_TRY(image_prep_find(&prep, s));
    pictures_begin(&decoders);
    bp_numbers work = numbers_work(files, s, &decoders, &prep);
    bp_status status = bp_numbers_open(&work, &files->tokens);
    status = status == BP_OK ? data_reading_say_numbers(files, &work) : status;
    pictures_end(&decoders);
    BP_TRY(status);
    if (!s->set->quiet) {
        output_print(stderr, "bedplate: %s: %" PRIu64 " rows of %u numbers%s, %s",
                     files->data.source.name, work.rows, work.inputs,
                     work.bare ? "" : " and a label", work.built ? "read" : "as read before");
        output_print(stderr, s->set->output_dir != NULL ? " into %s\n" : "\n", files->path);
    }
    return BP_OK;
}

bp_status data_numbers_check(const data_files *files, session *s)
{
    bp_data_format format = files->data.format;
    if (format != BP_DATA_CSV && format != BP_DATA_TSV && format != BP_DATA_F32 &&
        format != BP_DATA_NPY && format != BP_DATA_FOLDER && !bp_images_format(format)) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the model reads rows of numbers; give a table of them (--data-format "
                            "csv or tsv), float32 numbers (f32), arrays (npy) or images (cifar10, "
                            "idx, imagefolder)",
                            files->data.source.name);
    }
    uint32_t size[3];
    if (format == BP_DATA_FOLDER && !image_size(&s->spec, size)) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "lists of images are for models that know an image's height and width",
                            files->data.source.name);
    }
    return BP_OK;
}

bp_status data_open_numbers(data_set *set, data_files *files, session *s, const char *name)
{
    BP_TRY(data_token_path(set, s, files->path, name));
    return data_token_opened(numbers(files, s), files, s);
}

bp_status data_open_tokens(data_files *files, session *s)
{
    if (files->data.file_count > 1) {
        return bp_error_limit(&s->error, BP_ERR_DATA, where,
                              "of token files that hold documents one is read at a time",
                              files->data.source.name, files->data.file_count, BP_LIMIT_MOST, 1);
    }
    static uint64_t buffer[BP_TOKENS_BUFFER / 8];
    BP_TRY(bp_tokens_open(&files->tokens, s->store, files->data.source.name, buffer, &s->error));
    files->source = &files->tokens.source;
    const uint32_t form = files->tokens.head.form;
    const bp_task task = s->spec.config.task;
    if ((form == BP_FORM_TAGGED) != (task == BP_TASK_TOKENS) ||
        (form == BP_FORM_ANSWERS) != (task == BP_TASK_ANSWERS) ||
        (form == BP_FORM_TEXTS) != (task == BP_TASK_EMBEDDING && !model_sees(&s->spec.config)) ||
        (form == BP_FORM_PAIRS) != (s->spec.preference.kind != BP_PREFERENCE_NONE)) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the token file was made for another task", files->source->name);
    }
    if (s->set->predictions != NULL && task > BP_TASK_REGRESSION && task != BP_TASK_RANKING) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "predictions name words, which a token file does not hold: give the "
                            "data that it was made from",
                            files->source->name);
    }
    bool labelled = form == BP_FORM_LABELLED &&
                    (files->tokens.head.unlabelled == 0 || s->set->predictions != NULL);
    if (data_learns_rows(&s->spec.config) && !labelled) {
        return data_lacks_labels(files, s);
    }
    BP_TRY(note_pairs(files, s));
    BP_TRY(note_texts(files, s));
    return data_check_lengths(files, s);
}
