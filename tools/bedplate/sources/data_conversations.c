/* SPDX-License-Identifier: MIT */
/* Conversations of a run to a token file. */
#include "tools/bedplate/sources/data_conversations.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/sources/data_tokenised.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/chat/chat_template.h"
#include "tools/formats/data/data_chat.h"
#include "tools/bedplate/app/output.h"

static const char where[] = "chat";

/* YYYY-MM-DD */
static bp_status take_date(session *s, bp_jinja_time *now)
{
    const char *text = s->set->chat_date;
    char rest;
    int year;
    int month;
    int day;
    if (sscanf(text, "%4d-%2d-%2d%c", &year, &month, &day, &rest) != 3 || year < 1 || month < 1 ||
        month > 12 || day < 1 || day > 31) {
        bp_status status = bp_error_set(&s->error, BP_ERR_USAGE, where,
                                        "the date of chat templates is none", "--chat-date");
        bp_error_found(&s->error, text, strlen(text));
        bp_error_right(&s->error, "2024-07-26");
        return status;
    }
    *now = (bp_jinja_time){year, month, day, 0, 0, 0};
    return BP_OK;
}

bp_status data_template_check(session *s)
{
    const char *given = s->set->chat_template;
    bool there = given == NULL || bp_chat_template_named(given) != NULL;
    if (there || (s->store->exists(s->store, given, &there) == BP_OK && there)) {
        return BP_OK;
    }
    bp_status status = bp_error_set(&s->error, BP_ERR_DATA, where,
                                    "there is no chat template of this name, nor a file", given);
    bp_error_right(&s->error, "FILE, chatml, qwen2.5, smollm2, llama2, llama3, llama3.1, "
                              "mistral, mistral-v3, mistral-nemo, gemma, gemma3, phi3, "
                              "phi4, phi4-mini, zephyr, alpaca");
    bp_error_prefix(&s->error, "--chat-template");
    return status;
}

static bp_status find_source(session *s, chat_choice *to, void *scratch)
{
    const char *given = s->set->chat_template;
    const char *named = given != NULL ? bp_chat_template_named(given) : NULL;
    BP_TRY(data_template_check(s));
    if (named != NULL) {
        to->length = strlen(named);
        memcpy(to->source, named, to->length);
        return BP_OK;
    }
    if (given != NULL) {
        return bp_storage_read_small(s->store, given, to->source, BP_JINJA_SOURCE_MAX, &to->length,
                                     &s->error);
    }
    const char *directory =
        s->run_tokenizer.kind == TOKENIZER_TOKENIZER ? s->run_tokenizer.directory : s->set->model;
    if (s->set->adapter != NULL) { /* what adapters were trained with goes before the base's */
        BP_TRY(bp_chat_template_find(s->store, s->set->adapter, to->source, &to->length, scratch,
                                     &s->error));
    }
    if (to->length == 0 && (s->directory || s->set->tokenizer != NULL)) {
        BP_TRY(bp_chat_template_find(s->store, directory, to->source, &to->length, scratch,
                                     &s->error));
    }
    return to->length > 0
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_DATA, where,
                              "the data holds conversations, and the model has no chat template; "
                              "give --chat-template FILE, or the name of one (chatml, llama3, ..)",
                              directory);
}

static bp_status take_tokens(session *s, chat_choice *to, char *at)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    if (s->run_tokenizer.kind != TOKENIZER_TOKENIZER) {
        for (; to->token_count < 2; to->token_count++) { /* bytes: nothing begins or ends */
            to->tokens[to->token_count] = (bp_chat_token){names[to->token_count], "", 0};
        }
        return BP_OK;
    }
    const bp_tokenizer_special *special = bp_tokenizer_special_of(&s->run_tokenizer.tokenizer);
    const int64_t end = run_tokenizer_end_token(&s->run_tokenizer, &s->spec.config);
    const int64_t ids[] = {special->bos, end, special->unk, special->pad};
    for (size_t i = 0; i < 4; i++) {
        bp_decoder decoder = {.begun = true};
        size_t length = 0;
        if (ids[i] < 0) {
            continue;
        }
        BP_TRY(
            bp_decoder_next(&decoder, &s->run_tokenizer.tokenizer, (uint32_t)ids[i], at, &length));
        to->tokens[to->token_count++] = (bp_chat_token){names[i], at, length};
        at += BP_TOKENIZER_DECODED_MAX;
    }
    return BP_OK;
}

bp_status chat_choose(session *s, void *memory, chat_choice *to)
{
    char *at = memory;
    *to = (chat_choice){.source = at + BP_CHAT_TEMPLATE_SCRATCH};
    BP_TRY(take_date(s, &to->now));
    BP_TRY(find_source(s, to, memory));
    return take_tokens(s, to, to->source + BP_JINJA_SOURCE_MAX);
}

bp_status chat_keep_template(session *s, const char *directory)
{
    char path[BP_STORE_PATH_MAX];
    memory_block memory;
    if (s->set->chat_template == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_storage_join(path, directory, "chat_template.jinja", &s->error));
    BP_TRY(memory_take(&memory, BP_JINJA_SOURCE_MAX, false, "host memory", &s->error));
    chat_choice chosen = {.source = memory.address};
    bp_status status = find_source(s, &chosen, NULL);
    if (status == BP_OK) {
        status = bp_storage_write_file(s->store, path, chosen.source, chosen.length, &s->error);
    }
    memory_give_back(&memory);
    return status;
}

uint32_t chat_turn_end(session *s, const bp_chat *chat)
{
    uint32_t ids[BP_CHAT_HEADER];
    size_t count = 0;
    if (s->run_tokenizer.kind != TOKENIZER_TOKENIZER) {
        return 0;
    }
    bp_encoder_text(&s->run_tokenizer.encoder, chat->footer, chat->footer_length, BP_ENCODE_PLAIN,
                    ids, BP_CHAT_HEADER, &count);
    for (size_t i = 0; i < count && i < BP_CHAT_HEADER; i++) {
        if (bp_tokenizer_is_special(&s->run_tokenizer.tokenizer, ids[i])) {
            return ids[i] + 1;
        }
    }
    return 0;
}

bp_chat_rows data_rows(const bp_spec *spec)
{
    const bp_preference_kind kind = spec->preference.kind;
    return kind == BP_PREFERENCE_NONE  ? BP_CHAT_ROWS
           : kind == BP_PREFERENCE_KTO ? BP_CHAT_SINGLES
                                       : BP_CHAT_PAIRS;
}

/* What the first row looks like. */
static bp_status look_at_first(data_files *files, session *s, bool pairs, bool *are)
{
    memory_block scratch;
    BP_TRY(memory_take(&scratch, BP_RECORDS_SCRATCH + 65536, false, "host memory", &s->error));
    bp_status status = pairs ? bp_data_chat_pairs(&files->data, &s->error, scratch.address, are)
                             : bp_data_chat_is(&files->data, &s->error, scratch.address, are);
    memory_give_back(&scratch);
    return status;
}

bp_status data_conversations_are(data_files *files, session *s, bool *are)
{
    *are = data_rows(&s->spec) != BP_CHAT_ROWS;
    if (*are) {
        return files->data.format == BP_DATA_JSONL
                   ? BP_OK
                   : bp_error_set(&s->error, BP_ERR_DATA, where,
                                  "the task learns preferences: JSON lines of `prompt`, `chosen` "
                                  "and `rejected`, or, for kto, `prompt`, `completion` and `label`",
                                  files->data.source.name);
    }
    if (files->data.format != BP_DATA_JSONL ||
        bp_feed_labels(s->spec.config.task) != BP_LABELS_NEXT_TOKEN) {
        return BP_OK;
    }
    return look_at_first(files, s, false, are);
}

static void print_outcome(const data_files *files, const bp_data_chat *work, const session *s)
{
    const char *what = work->rows == BP_CHAT_ROWS ? "conversations" : "rows of preferences";
    if (work->empty > 0) {
        output_print(stderr,
                     "bedplate: %s: %" PRIu64 " conversations of which nothing is learned are left "
                     "out\n",
                     files->data.source.name, work->empty);
    }
    if (s->set->quiet) {
        return;
    }
    output_print(stderr, "bedplate: %s: %" PRIu64 " %s of %" PRIu64 " tokens",
                 files->data.source.name, files->tokens.head.documents, what,
                 files->tokens.head.tokens);
    if (work->built) {
        output_print(stderr, ", of which %" PRIu64 " are learned", work->learned);
    }
    output_print(stderr, ", %s", work->built ? "tokenised" : "as tokenised before");
    output_print(stderr, s->set->output_dir != NULL ? " in %s\n" : "\n", files->path);
}

static bp_status check_text_column(session *s)
{
    return s->set->text_column == NULL
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_USAGE, where,
                              "the option has no effect on conversations", "--text-column");
}

/* The first row of preferences has its sides. */
static bp_status check_first_pair(data_files *files, session *s)
{
    memory_block memory;
    BP_TRY(memory_take(&memory, BP_DATA_PAIRS_SCRATCH, false, "host memory", &s->error));
    bp_data_chat work = {.data = &files->data,
                         .rows = data_rows(&s->spec),
                         .scratch = memory.address,
                         .error = &s->error};
    const bp_status status = bp_data_chat_first_pair(&work);
    memory_give_back(&memory);
    return status;
}

static bp_status check_template(session *s)
{
    memory_block memory;
    BP_TRY(memory_take(&memory, CHAT_CHOICE_BYTES, false, "host memory", &s->error));
    chat_choice chosen = {.source = (char *)memory.address + BP_CHAT_TEMPLATE_SCRATCH};
    bp_status status = take_date(s, &chosen.now);
    status = status == BP_OK ? find_source(s, &chosen, memory.address) : status;
    memory_give_back(&memory);
    return status;
}

bp_status data_conversations_check(data_files *files, session *s)
{
    const bool pairs = data_rows(&s->spec) != BP_CHAT_ROWS;
    bool sides = true;
    BP_TRY(check_text_column(s));
    if (pairs) {
        BP_TRY(look_at_first(files, s, true, &sides));
    }
    BP_TRY(sides ? check_template(s) : BP_OK);
    return pairs ? check_first_pair(files, s) : BP_OK;
}

static bp_status tokenise_conversations(data_files *files, session *s, void *memory,
                                        bp_data_chat *work)
{
    const char *loss = s->set->loss_on;
    const bool bytes = s->run_tokenizer.kind == TOKENIZER_BYTES;
    const bp_chat_rows rows = data_rows(&s->spec);
    chat_choice chosen = {.source = NULL};
    bool sides = true;
    if (rows != BP_CHAT_ROWS) {
        BP_TRY(look_at_first(files, s, true, &sides));
    }
    if (sides) {
        bp_chat chat;
        void *scratch = (char *)memory + CHAT_CHOICE_BYTES;
        BP_TRY(chat_choose(s, memory, &chosen));
        BP_TRY(bp_chat_open(&chat, chosen.source, chosen.length, chosen.tokens, chosen.token_count,
                            scratch, &s->error));
        s->turn_end = chat_turn_end(s, &chat);
    }
    *work = (bp_data_chat){.data = &files->data,
                           .path = files->path,
                           .encoder = bytes ? NULL : &s->run_tokenizer.encoder,
                           .vocabulary = bytes ? BP_BYTE_VOCABULARY : s->run_tokenizer.need.tokens,
                           .source = chosen.source,
                           .source_length = chosen.length,
                           .tokens = chosen.tokens,
                           .token_count = chosen.token_count,
                           .now = chosen.now,
                           .loss = strcmp(loss, "all") == 0          ? BP_CHAT_ALL
                                   : strcmp(loss, "completion") == 0 ? BP_CHAT_COMPLETION
                                                                     : BP_CHAT_ASSISTANT,
                           .rows = rows,
                           .block = (uint32_t)s->set->batch,
                           .end_token = run_tokenizer_end_token(&s->run_tokenizer, &s->spec.config),
                           .scratch = (char *)memory + CHAT_CHOICE_BYTES,
                           .error = &s->error};
    return bp_data_chat_open(work, &files->tokens);
}

bp_status data_conversations_open(data_set *set, data_files *files, session *s, const char *name)
{
    bp_data_chat work;
    memory_block memory;
    BP_TRY(check_text_column(s));
    BP_TRY(data_token_path(set, s, files->path, name));
    BP_TRY(session_open_run_tokenizer(s));
    if (s->run_tokenizer.kind == TOKENIZER_TOKENIZER) {
        set->special = *bp_tokenizer_special_of(&s->run_tokenizer.tokenizer);
    }
    const size_t room =
        data_rows(&s->spec) == BP_CHAT_ROWS ? BP_DATA_CHAT_SCRATCH : (size_t)BP_DATA_PAIRS_SCRATCH;
    BP_TRY(memory_take(&memory, CHAT_CHOICE_BYTES + room, false, "host memory", &s->error));
    bp_status status = tokenise_conversations(files, s, memory.address, &work);
    memory_give_back(&memory);
    BP_TRY(data_token_opened(status, files, s));
    print_outcome(files, &work, s);
    return data_check_lengths(files, s);
}
