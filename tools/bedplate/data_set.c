/* SPDX-License-Identifier: MIT */
/* Opening the data of a run. */
#include "tools/bedplate/data_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena/text.h"
#include "core/digest.h"
#include "core/storage.h"
#include "tools/formats/byte_tokenizer.h"
#include "tools/formats/data_tokenise.h"

#define SAMPLE_TOKENS 4096

static const char where[] = "data";

static bp_data_format format_of(const char *name)
{
    static const struct {
        const char *name;
        bp_data_format format;
    } formats[] = {{"text", BP_DATA_TEXT},   {"llmc", BP_DATA_LLMC}, {"nanogpt", BP_DATA_NANOGPT},
                   {"jsonl", BP_DATA_JSONL}, {"tsv", BP_DATA_TSV},   {"csv", BP_DATA_CSV},
                   {"f32", BP_DATA_F32}};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return formats[i].format;
        }
    }
    return BP_DATA_AUTO;
}

/* Adds what one argument names: the file itself, or what its pattern matches. */
static bp_status add_argument(data_files *files, session *s, const char *argument, uint32_t *count)
{
    bool exists = false;
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
            return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                    "the pattern matches too many files", argument,
                                    (int64_t)files->patterns.gl_pathc, SETTINGS_PATHS_MAX);
        }
        files->rows[(*count)++].path = files->patterns.gl_pathv[i];
    }
    return BP_OK;
}

/* Where the token file goes: into --output-dir, which is made, or a place of its own. */
static bp_status token_path(data_set *set, session *s, char path[BP_STORE_PATH_MAX],
                            const char *name)
{
    const char *directory = s->set->output_dir;
    if (directory == NULL) {
        const char *temporary = getenv("TMPDIR");
        char unique[64];
        snprintf(unique, sizeof unique, "bedplate-%ld-%s", (long)getpid(), name);
        return bp_storage_join(path, temporary != NULL ? temporary : "/tmp", unique, &s->error);
    }
    bool there = true;
    if (s->store->exists(s->store, directory, &there) != BP_OK ||
        s->store->make_directory(s->store, directory) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "make directory", directory);
    }
    set->made = set->made || !there;
    return bp_storage_join(path, directory, name, &s->error);
}

/* What the task learns of each row. */
static bp_labels labels_of(const bp_model_config *config)
{
    switch (config->task) {
    case BP_TASK_CLASSES:
        return BP_LABELS_CLASS;
    case BP_TASK_LABELS:
    case BP_TASK_REGRESSION:
        return BP_LABELS_BITS;
    default:
        return BP_LABELS_NEXT_TOKEN;
    }
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
                     .kind = labels_of(&spec->config),
                     .classes = spec->config.classes,
                     .padding = inside ? (int32_t)padding : 0};
}

static void print_outcome(const data_files *files, const bp_tokenise *work, const session *s)
{
    const bp_tokens_head *head = &files->tokens.head;
    if (work->empty > 0) {
        fprintf(stderr, "bedplate: %s: %" PRIu64 " documents without a token are left out\n",
                files->data.source.name, work->empty);
    }
    if (work->cut > 0) {
        fprintf(stderr,
                "bedplate: %s: %" PRIu64 " words longer than %d bytes were cut: their tokens may "
                "differ from other tokenizers'\n",
                files->data.source.name, work->cut, BP_ENCODER_WORD_BYTES);
    }
    if (s->set->quiet) {
        return;
    }
    fprintf(stderr, "bedplate: %s: %" PRIu64 " tokens of %" PRIu64 " documents, %s",
            files->data.source.name, head->tokens, head->documents,
            work->built ? "tokenised" : "as tokenised before");
    fprintf(stderr, s->set->output_dir != NULL ? " in %s\n" : "\n", files->path);
}

static bp_status tokenise(data_set *set, data_files *files, session *s)
{
    const bp_model_config *config = &s->spec.config;
    BP_TRY(session_open_coder(s));
    coder *c = &s->coder;
    bool bytes = c->kind == CODER_BYTES;
    int64_t end_token = coder_end_token(c, config);
    if (bytes && end_token < 0 && files->data.format != BP_DATA_TEXT) {
        end_token = 0;
        s->spec.config.eos_token = 0;
    }
    if (!bytes) {
        set->special = *bp_tokenizer_special_of(&c->tokenizer);
    }
    uint32_t vocabulary = bytes ? BP_BYTE_VOCABULARY : c->need.tokens;
    bp_tokenise work = {.data = &files->data,
                        .path = files->path,
                        .encoder = bytes ? NULL : &c->encoder,
                        .vocabulary =
                            end_token >= (int64_t)vocabulary ? (uint32_t)end_token + 1 : vocabulary,
                        .end_token = end_token,
                        .labels = labels_of(config),
                        .classes = config->task == BP_TASK_REGRESSION ? 0 : config->classes,
                        .scratch = c->scratch,
                        .error = &s->error};
    BP_TRY(bp_tokenise_open(&work, &files->tokens));
    files->source = &files->tokens.source;
    files->source->name = files->data.source.name;
    print_outcome(files, &work, s);
    return BP_OK;
}

static bp_status open_tokens(data_set *set, data_files *files, session *s, const char *name)
{
    BP_TRY(token_path(set, s, files->path, name));
    bp_status status = tokenise(set, files, s);
    if (s->set->output_dir == NULL) {
        /* The open file stays readable without its name, and goes with the program. */
        (void)s->store->remove(s->store, files->path);
    }
    return status;
}

/* Counts examples that are longer than a row. What is cut off is never learned: that is said. */
static bp_status check_lengths(const data_files *files, session *s)
{
    bp_source *source = files->source;
    uint64_t row = (uint64_t)s->spec.sequence + 1;
    uint64_t longer = 0;
    uint64_t without = 0;
    for (uint64_t i = 0; i < source->examples; i++) {
        bp_example example;
        BP_TRY(source->example(source, i, &example));
        longer += example.count > row ? 1 : 0;
        without += example.prompt >= row ? 1 : 0;
    }
    if (source->examples > 0 && without == source->examples) {
        return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                "no completion begins within --max-seq-length tokens", source->name,
                                (int64_t)without, 0);
    }
    if (longer > 0) {
        fprintf(stderr,
                "bedplate: %s: %" PRIu64 " of %" PRIu64 " examples are longer than "
                "--max-seq-length %u: their ends are cut; of %" PRIu64 " the whole completion\n",
                source->name, longer, source->examples, s->spec.sequence, without);
    }
    return BP_OK;
}

/* A token file that was made before, by whatever run. */
static bp_status open_made(data_files *files, session *s)
{
    if (files->data.file_count > 1) {
        return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                "of token files that hold documents one is read at a time",
                                files->data.source.name, files->data.file_count, 1);
    }
    static uint64_t buffer[BP_TOKENS_BUFFER / 8];
    BP_TRY(bp_tokens_open(&files->tokens, s->store, files->data.source.name, buffer, &s->error));
    files->source = &files->tokens.source;
    return check_lengths(files, s);
}

/* Text is read as bytes where the model is over bytes; other documents are tokenised. */
static bp_status open_source(data_set *set, data_files *files, session *s, const char *name)
{
    bp_data_format format = files->data.format;
    files->source = &files->data.source;
    if (format == BP_DATA_LLMC || format == BP_DATA_NANOGPT) {
        return BP_OK;
    }
    if (format == BP_DATA_TOKENS) {
        return open_made(files, s);
    }
    if (format == BP_DATA_F32) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "rows of numbers are no data for a language model",
                            files->source->name);
    }
    BP_TRY(session_find_coder(s));
    if (s->coder.kind == CODER_NONE) {
        return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                "text needs a tokenizer, and the model directory has none; give "
                                "--tokenizer, or token files (llm.c or nanoGPT)",
                                files->source->name, s->spec.config.vocabulary, BP_BYTE_VOCABULARY);
    }
    if (format == BP_DATA_TEXT && s->coder.kind == CODER_BYTES) {
        return BP_OK;
    }
    BP_TRY(open_tokens(set, files, s, name));
    return check_lengths(files, s);
}

bp_status data_files_find(data_files *files, session *s, const path_list *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        BP_TRY(add_argument(files, s, list->item[i], &count));
    }
    return bp_data_open(&files->data, s->store, files->rows, count, format_of(s->set->data_format),
                        &s->error);
}

static bp_status open_files(data_set *set, data_files *files, session *s, const path_list *list,
                            const char *name)
{
    BP_TRY(data_files_find(files, s, list));
    return open_source(set, files, s, name);
}

static bp_status split(data_set *set, session *s, double share)
{
    bp_status status = bp_part_tail(&set->kept_part, &set->held_part, set->train, share);
    if (status != BP_OK) {
        return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                "the data has too few examples to hold some of them out",
                                set->train->name, (int64_t)set->train->examples, 2);
    }
    set->train = &set->kept_part.source;
    set->eval = &set->held_part.source;
    return BP_OK;
}

static bp_status open_parts(data_set *set, session *s, double share)
{
    BP_TRY(open_files(set, &set->main, s, &s->set->data, "data.tokens"));
    set->train = set->main.source;
    if (share > 0) {
        return split(set, s, share);
    }
    if (s->set->eval_data.count > 0) {
        BP_TRY(open_files(set, &set->held, s, &s->set->eval_data, "eval.tokens"));
        set->eval = set->held.source;
    }
    return BP_OK;
}

/* Of data that is refused nothing stays in a directory that was made for it. */
static void forget(session *s)
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
    set->special = (bp_tokenizer_special){-1, -1, -1, -1, -1, -1, -1};
    double share = s->set->validation_split;
    if (s->set->data.count == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where, "the option is needed: what to read",
                            "--data");
    }
    if (share > 0 && s->set->eval_data.count > 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "give either --eval-data or --validation-split", "--validation-split");
    }
    bp_status status = open_parts(set, s, share);
    coder_close(&s->coder);
    if (status != BP_OK && set->made) {
        forget(s);
    }
    return status;
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
}

/* Reads a sample into `tokens` and adds it to the digest. Ids beyond the vocabulary are found here,
 * before anything is made, where they are not rare. */
static bp_status take_sample(session *s, bp_source *source, uint64_t first, uint32_t n,
                             bp_digest *digest)
{
    static int32_t tokens[SAMPLE_TOKENS];
    uint32_t vocabulary = s->spec.config.vocabulary;
    BP_TRY(source->read(source, first, n, tokens));
    for (uint32_t i = 0; i < n; i++) {
        if ((uint32_t)tokens[i] >= vocabulary) {
            return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                    "a token id is not below the model's vocabulary", source->name,
                                    tokens[i], vocabulary);
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
