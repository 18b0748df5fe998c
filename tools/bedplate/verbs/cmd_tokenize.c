/* SPDX-License-Identifier: MIT */
/* bedplate tokenize: text to a token file that llm.c reads, and every command here. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/models/gguf_folder.h"
#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/commands.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/images/data_images.h"
#include "tools/formats/data/data_tokenise.h"
#include "tools/formats/llmc/llmc_tokens.h"

static const char where[] = "tokenize";

/* Must not move. */
typedef struct job {
    session s; /* of it only settings, store, error and run_tokenizer are used: there is no model */
    data_files files;
    bp_model_config config;
    bp_tokenise work;
    char kept[BP_STORE_PATH_MAX]; /* the tokens before they are in llm.c's form */
    double seconds;
} job;

static bp_status cmd_tokenize_need(job *j, bool good, const char *option)
{
    return good ? BP_OK
                : bp_error_set(&j->s.error, BP_ERR_USAGE, where, "the option is needed", option);
}

static bp_status check_options(job *j)
{
    const settings *set = j->s.set;
    BP_TRY(cmd_tokenize_need(j, set->tokenizer != NULL || set->model != NULL, "--tokenizer"));
    BP_TRY(cmd_tokenize_need(j, set->data.count > 0, "--data"));
    return cmd_tokenize_need(j, set->output != NULL, "--output");
}

/* --model FILE.gguf: what stands for its directory has the tokenizer. */
static bp_status open_model_file(job *j)
{
    session *s = &j->s;
    const char *why = NULL;
    bool is = false;
    if (s->set->tokenizer != NULL) {
        return BP_OK;
    }
    BP_TRY(gguf_folder_open(&s->gguf, &s->posix.store, s->set->model, &is, &why, &s->error));
    s->store = is ? &s->gguf.store : s->store;
    return why == NULL ? BP_OK : bp_error_set(&s->error, BP_ERR_DATA, where, why, s->set->model);
}

static bp_status open_run_tokenizer(job *j)
{
    session *s = &j->s;
    const char *directory = s->set->tokenizer != NULL ? s->set->tokenizer : s->set->model;
    /* No model is asked for: any vocabulary will do, and bytes only if the directory says so. What
     * ends a text its files say, whatever family config.json is of. */
    j->config = (bp_model_config){.vocabulary = UINT32_MAX, .bos_token = -1, .eos_token = -1};
    const run_tokenizer_ask ask = {.store = s->store,
                                   .set = s->set,
                                   .config = &j->config,
                                   .directory = true,
                                   .weights = true,
                                   .error = &s->error};
    BP_TRY(run_tokenizer_find(&s->run_tokenizer, &ask));
    if (s->run_tokenizer.kind == TOKENIZER_NONE) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the directory holds no tokenizer (tokenizer.json, vocab.json with "
                            "merges.txt, or vocab.txt)",
                            directory);
    }
    return run_tokenizer_open(&s->run_tokenizer, &ask);
}

static bp_status check_format(job *j)
{
    bp_data_format format = j->files.data.format;
    if (format == BP_DATA_LLMC || format == BP_DATA_NANOGPT || format == BP_DATA_F32 ||
        format == BP_DATA_NPY || format == BP_DATA_FOLDER || bp_images_format(format)) {
        return bp_error_set(&j->s.error, BP_ERR_DATA, where,
                            "the file holds no text (--data-format text takes it as such)",
                            j->files.data.source.name);
    }
    return BP_OK;
}

static bp_status tokenise(job *j)
{
    session *s = &j->s;
    run_tokenizer *c = &s->run_tokenizer;
    bool bytes = c->kind == TOKENIZER_BYTES;
    int64_t end = run_tokenizer_end_token(c, &j->config);
    if (bytes && j->files.data.format != BP_DATA_TEXT) {
        end = 0; /* as training over bytes ends documents */
    }
    j->work = (bp_tokenise){.data = &j->files.data,
                            .path = j->kept,
                            .encoder = bytes ? NULL : &c->encoder,
                            .vocabulary = bytes ? BP_BYTE_VOCABULARY : c->need.tokens,
                            .end_token = end,
                            .scratch = c->scratch,
                            .error = &s->error};
    BP_TRY(bp_tokenise_open(&j->work, &j->files.tokens));
    if (j->files.tokens.source.examples > 0) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "prompts and completions have no place in a token file of this form: "
                            "train takes the file itself",
                            j->files.data.source.name);
    }
    return bp_llmc_write_tokens(s->store, s->set->output, &j->files.tokens.source,
                                j->work.vocabulary, c->scratch, &s->error);
}

static void cmd_tokenize_print(const job *j)
{
    const settings *set = j->s.set;
    const bp_tokens_head *head = &j->files.tokens.head;
    output out;
    output_begin(&out, stdout);
    if (set->json) {
        json_begin(&out);
        json_count(&out, "tokens", head->tokens);
        json_count(&out, "documents", head->documents);
        json_count(&out, "bytes", j->work.bytes);
        json_count(&out, "vocabulary", j->work.vocabulary);
        json_count(&out, "bytes_per_token", bp_llmc_width(j->work.vocabulary));
        json_count(&out, "empty_documents", j->work.empty);
        json_count(&out, "cut_words", j->work.cut);
        json_real(&out, "seconds", j->seconds, 4);
        json_text(&out, "path", set->output);
        json_end(&out);
    } else {
        bp_text_string(&out.text, set->output);
        bp_text_string(&out.text, ": ");
        bp_text_grouped(&out.text, head->tokens);
        bp_text_string(&out.text, " tokens of ");
        bp_text_u64(&out.text, bp_llmc_width(j->work.vocabulary));
        bp_text_string(&out.text, " bytes, from ");
        bp_text_grouped(&out.text, j->work.bytes);
        bp_text_string(&out.text, " bytes of text\n");
    }
    output_end(&out);
    const run_tokenizer *c = &j->s.run_tokenizer;
    if (c->kind == TOKENIZER_TOKENIZER && bp_tokenizer_missing_bytes(&c->tokenizer) > 0) {
        output_print(stderr,
                     "bedplate: %s: the tokenizer has no token for %" PRIu32
                     " of the 256 bytes: where they occur they are left out\n",
                     c->directory, bp_tokenizer_missing_bytes(&c->tokenizer));
    }
    if (j->work.cut > 0) {
        output_print(stderr,
                     "bedplate: %s: %" PRIu64
                     " words longer than %d bytes were cut: their tokens may "
                     "differ from other tokenizers'\n",
                     j->files.data.source.name, j->work.cut, BP_ENCODER_WORD_BYTES);
    }
}

static bp_status cmd_tokenize_run(job *j)
{
    session *s = &j->s;
    BP_TRY(check_options(j));
    BP_TRY(bp_store_posix_init(&s->posix, ""));
    s->store = &s->posix.store;
    double began = clock_seconds();
    BP_TRY(open_model_file(j));
    BP_TRY(open_run_tokenizer(j));
    BP_TRY(data_files_find(&j->files, s, &s->set->data));
    BP_TRY(check_format(j));
    BP_TRY(bp_storage_join(j->kept, "", s->set->output, &s->error));
    if (strlen(j->kept) + sizeof ".ids" > BP_STORE_PATH_MAX) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where, "the path is too long", "--output");
    }
    memcpy(j->kept + strlen(j->kept), ".ids", sizeof ".ids");
    bp_status status = tokenise(j);
    bool there = false;
    if (s->store->exists(s->store, j->kept, &there) == BP_OK && there) {
        (void)s->store->remove(s->store, j->kept); /* if it stays, it is only in the way */
    }
    j->seconds = clock_seconds() - began;
    return status;
}

int cmd_tokenize(const settings *set)
{
    static job j;
    memset(&j, 0, sizeof j);
    j.s.set = set;
    bp_status status = cmd_tokenize_run(&j);
    if (status == BP_OK) {
        cmd_tokenize_print(&j);
    }
    data_files_close(&j.files);
    run_tokenizer_close(&j.s.run_tokenizer);
    gguf_folder_close(&j.s.gguf);
    return report_status(status, &j.s.error);
}
