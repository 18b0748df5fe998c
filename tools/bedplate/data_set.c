/* SPDX-License-Identifier: MIT */
/* Opening the data of a run. */
#include "tools/bedplate/data_set.h"

#include <string.h>

#include "arena/text.h"
#include "core/digest.h"
#include "tools/formats/byte_tokenizer.h"

#define SAMPLE_TOKENS 4096

static const char where[] = "data";

static bp_data_format format_of(const char *name)
{
    static const struct {
        const char *name;
        bp_data_format format;
    } formats[] = {{"text", BP_DATA_TEXT}, {"llmc", BP_DATA_LLMC}, {"nanogpt", BP_DATA_NANOGPT}};
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

static bp_status check_vocabulary(const data_files *files, session *s)
{
    bool text = files->data.format == BP_DATA_TEXT;
    if (text && s->spec.config.vocabulary != BP_BYTE_VOCABULARY) {
        return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                "text needs a model over bytes; for this model's vocabulary give "
                                "token files (llm.c or nanoGPT)",
                                files->data.source.name, s->spec.config.vocabulary,
                                BP_BYTE_VOCABULARY);
    }
    return BP_OK;
}

static bp_status open_files(data_files *files, session *s, const path_list *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        BP_TRY(add_argument(files, s, list->item[i], &count));
    }
    BP_TRY(bp_data_open(&files->data, s->store, files->rows, count, format_of(s->set->data_format),
                        &s->error));
    return check_vocabulary(files, s);
}

bp_status data_set_open(data_set *set, session *s)
{
    memset(set, 0, sizeof *set);
    double share = s->set->validation_split;
    if (s->set->data.count == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where, "the option is needed: what to read",
                            "--data");
    }
    if (share > 0 && s->set->eval_data.count > 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "give either --eval-data or --validation-split", "--validation-split");
    }
    BP_TRY(open_files(&set->main, s, &s->set->data));
    set->train = &set->main.data.source;
    if (share > 0) {
        BP_TRY(bp_split_tail(&set->kept_part, &set->held_part, set->train, share));
        set->train = &set->kept_part.source;
        set->eval = &set->held_part.source;
    } else if (s->set->eval_data.count > 0) {
        BP_TRY(open_files(&set->held, s, &s->set->eval_data));
        set->eval = &set->held.data.source;
    }
    return BP_OK;
}

static void close_files(data_files *files)
{
    bp_data_close(&files->data);
    if (files->expanded) {
        globfree(&files->patterns);
        files->expanded = false;
    }
}

void data_set_close(data_set *set)
{
    close_files(&set->main);
    close_files(&set->held);
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
    return bp_text_flush(&out);
}
