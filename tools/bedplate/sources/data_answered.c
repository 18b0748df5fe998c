/* SPDX-License-Identifier: MIT */
/* Opening data of questions. */
#include "tools/bedplate/sources/data_answered.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/bedplate/sources/data_tokenised.h"
#include "tools/bedplate/app/output.h"

static const char where[] = "data";

bp_status data_answered_check(const data_files *files, session *s)
{
    if (files->data.format == BP_DATA_JSONL) {
        return BP_OK;
    }
    return bp_error_set(&s->error, BP_ERR_DATA, where,
                        "question-answering reads JSON: SQuAD's files, or objects with `question`, "
                        "`context` and `answers` (--data-format jsonl)",
                        files->source->name);
}

uint64_t data_answered_bytes(void)
{
    return bp_size_align(BP_ANSWERS_SCRATCH, 64) + bp_encoder_offsets_bytes();
}

bp_status data_answered_tokenizer(const data_files *files, session *s)
{
    return s->run_tokenizer.kind == TOKENIZER_TOKENIZER
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_DATA, where,
                              "question-answering needs a WordPiece tokenizer; give --tokenizer",
                              files->data.source.name);
}

static bp_status begin(data_files *files, session *s, bp_answers *work, memory_block *scratch)
{
    BP_TRY(session_open_run_tokenizer(s));
    BP_TRY(data_answered_tokenizer(files, s));
    BP_TRY(memory_take(scratch, data_answered_bytes(), false, "host memory", &s->error));
    *work =
        (bp_answers){.data = &files->data,
                     .path = files->path,
                     .encoder = &s->run_tokenizer.encoder,
                     .vocabulary = s->run_tokenizer.need.tokens,
                     .sequence = s->spec.sequence,
                     .stride = (uint32_t)s->set->doc_stride,
                     .may_lack = s->set->predictions != NULL,
                     .scratch = scratch->address,
                     .offsets = (char *)scratch->address + bp_size_align(BP_ANSWERS_SCRATCH, 64),
                     .error = &s->error};
    return BP_OK;
}

bp_status data_answered_open(data_set *set, data_files *files, session *s, const char *name)
{
    bp_answers work = {.built = false};
    memory_block scratch = {.address = NULL};
    BP_TRY(data_token_path(set, s, files->path, name));
    bp_status status = begin(files, s, &work, &scratch);
    memory_resolve(&scratch);
    status = status == BP_OK ? bp_answers_open(&work, &files->tokens) : status;
    memory_give_back(&scratch);
    BP_TRY(data_token_opened(status, files, s));
    set->special = *bp_tokenizer_special_of(&s->run_tokenizer.tokenizer);
    if (!s->set->quiet) {
        output_print(stderr, "bedplate: %s: %" PRIu64 " questions in %" PRIu64 " windows, %s",
                     files->data.source.name, work.questions, files->tokens.head.examples,
                     work.built ? "tokenised" : "as tokenised before");
        output_print(stderr, s->set->output_dir != NULL ? " in %s\n" : "\n", files->path);
    }
    return BP_OK;
}

bp_status data_answered_read(data_files *files, session *s, const bp_answer_pass *pass)
{
    bp_answers work;
    memory_block scratch = {.address = NULL};
    bp_status status = begin(files, s, &work, &scratch);
    if (status == BP_OK) {
        work.may_lack = true;
        status = bp_answers_read(&work, pass);
    }
    memory_give_back(&scratch);
    run_tokenizer_close(&s->run_tokenizer);
    return status;
}

bp_status data_answered_split(data_set *set, session *s)
{
    bp_part *kept = &set->kept_part, *held = &set->held_part;
    bp_source *all = held->inner;
    bool apart = false;
    while (!apart && held->source.examples > 0) {
        bp_example before, behind;
        BP_TRY(all->example(all, held->first_example - 1, &before));
        BP_TRY(all->example(all, held->first_example, &behind));
        apart = before.label >> 32 != behind.label >> 32;
        if (!apart) {
            held->first_example++;
            held->source.examples--;
            kept->source.examples++;
        }
    }
    return apart
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_DATA, where,
                              "the data has too few questions to hold some of them out", all->name);
}
