/* SPDX-License-Identifier: MIT */
/* Opening data of tagged words. */
#include "tools/bedplate/sources/data_tagged.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/bedplate/sources/data_reading.h"
#include "tools/bedplate/sources/data_tokenised.h"
#include "tools/formats/data/data_documents.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/bedplate/app/output.h"

static const char where[] = "data";

bp_status data_tagged_check(const data_files *files, session *s)
{
    const bp_data_format format = files->data.format;
    if (format == BP_DATA_JSONL || format == BP_DATA_TEXT || format == BP_DATA_TSV) {
        return BP_OK;
    }
    return bp_error_set(&s->error, BP_ERR_DATA, where,
                        "token-classification reads JSON (`tokens` and `ner_tags`) and columns as "
                        "CoNLL has them, a word and its tag a line (--data-format jsonl, or text)",
                        files->source->name);
}

uint64_t data_tagged_bytes(void)
{
    return BP_TAGS_SCRATCH;
}

static bp_status begin(data_files *files, session *s, bp_tags *work, memory_block *scratch)
{
    BP_TRY(session_open_run_tokenizer(s));
    const bool bytes = s->run_tokenizer.kind == TOKENIZER_BYTES;
    BP_TRY(memory_take(scratch, data_tagged_bytes(), false, "host memory", &s->error));
    memory_resolve(scratch);
    *work = (bp_tags){.data = &files->data,
                      .path = files->path,
                      .encoder = bytes ? NULL : &s->run_tokenizer.encoder,
                      .vocabulary = bytes ? BP_BYTE_VOCABULARY : s->run_tokenizer.need.tokens,
                      .reading = data_reading(s->set),
                      .all = s->set->label_all_tokens,
                      .may_lack = s->set->predictions != NULL,
                      .scratch = scratch->address,
                      .error = &s->error};
    return BP_OK;
}

/* The classes are those of the data where the model has none of its own. */
static bp_status name_classes(session *s, const bp_tags *work)
{
    bp_class_names *names = &s->names;
    const uint64_t asked = s->set->num_labels;
    uint32_t classes = 0;
    BP_TRY(bp_tags_names(work, names, &classes));
    if (asked != 0 && (names->count > 0 ? classes != asked : classes > asked)) {
        return bp_error_limit(&s->error, BP_ERR_DATA, where,
                              "the tags of the data are of another number of kinds than "
                              "--num-labels",
                              work->data->source.name, (int64_t)asked, BP_LIMIT_EXACT, classes);
    }
    classes = asked != 0 ? (uint32_t)asked : classes;
    s->spec.config.classes = classes > 0 ? classes : s->spec.config.classes;
    return BP_OK;
}

bp_status data_tagged_classes(data_files *files, session *s)
{
    memory_block scratch;
    if (files->data.format == BP_DATA_TOKENS || (s->directory && !s->new_head)) {
        return BP_OK;
    }
    BP_TRY(memory_take(&scratch, data_tagged_bytes(), false, "host memory", &s->error));
    const bp_tags work = {.data = &files->data,
                          .reading = data_reading(s->set),
                          .scratch = scratch.address,
                          .error = &s->error};
    const bp_status status = name_classes(s, &work);
    memory_give_back(&scratch);
    return status;
}

static void print_outcome(const data_files *files, const bp_tags *work, const session *s)
{
    if (work->empty > 0) {
        output_print(stderr, "bedplate: %s: %" PRIu64 " sentences without a token are left out\n",
                     files->data.source.name, work->empty);
    }
    if (!s->set->quiet) {
        output_print(stderr, "bedplate: %s: %" PRIu64 " sentences, tags of %u classes, %s",
                     files->data.source.name, files->tokens.head.examples, s->spec.config.classes,
                     work->built ? "tokenised" : "as tokenised before");
        output_print(stderr, s->set->output_dir != NULL ? " in %s\n" : "\n", files->path);
    }
}

static bp_status open_tags(data_set *set, data_files *files, session *s, bp_tags *work)
{
    const bool own = s->directory && !s->new_head;
    if (files == &set->main && !own) {
        BP_TRY(name_classes(s, work));
    }
    if (work->encoder != NULL) {
        set->special = *bp_tokenizer_special_of(&s->run_tokenizer.tokenizer);
    }
    work->classes = s->spec.config.classes;
    work->names = &s->names;
    return bp_tags_open(work, &files->tokens);
}

typedef struct tagged_first {
    bp_documents rule;
    bool known; /* which classes there are */
    bool seen;
} tagged_first;

/* One sentence is enough: it ends the reading. */
static bp_status first_sentence(void *user, bp_data_reader *reader, const bp_sentence *sentence)
{
    tagged_first *first = user;
    const bp_word_list *tags = &sentence->tags;
    uint64_t label;
    for (uint32_t i = 0; first->known && i < tags->count; i++) {
        BP_TRY(bp_documents_label(&first->rule, reader, tags->text + tags->at[i],
                                  tags->at[i + 1] - tags->at[i], &label));
    }
    first->seen = true;
    return BP_ERR_USAGE;
}

bp_status data_tagged_first(const data_files *files, session *s)
{
    enum { WINDOW = 65536 };
    memory_block scratch;
    bp_error error = {.code = BP_OK};
    bp_status status = BP_OK;
    BP_TRY(memory_take(&scratch, BP_WORDS_SCRATCH + WINDOW, false, "host memory", &s->error));
    for (uint32_t i = 0; status == BP_OK && i < files->data.file_count; i++) {
        tagged_first first = {.rule = {.labels = BP_LABELS_CLASS,
                                       .classes = s->spec.config.classes,
                                       .names = &s->names},
                              .known =
                                  s->directory && s->own_task == BP_TASK_TOKENS && !s->new_head};
        bp_words words = {.user = &first,
                          .sentence = first_sentence,
                          .reading = data_reading(s->set),
                          .may_lack = s->set->predictions != NULL};
        bp_data_reader reader = {.store = files->data.store,
                                 .file = files->data.files[i].file,
                                 .path = files->data.files[i].path,
                                 .buffer = (unsigned char *)scratch.address + BP_WORDS_SCRATCH,
                                 .capacity = WINDOW,
                                 .error = &error};
        status = bp_data_reader_begin(&reader);
        status = status == BP_OK
                     ? bp_words_read(&words, &reader, files->data.format, scratch.address)
                     : status;
        status = first.seen ? BP_OK : status;
    }
    memory_give_back(&scratch);
    if (status != BP_OK) {
        s->error = error;
    }
    return status;
}

bp_status data_tagged_open(data_set *set, data_files *files, session *s, const char *name)
{
    bp_tags work;
    memory_block scratch = {.address = NULL};
    BP_TRY(data_token_path(set, s, files->path, name));
    bp_status status = begin(files, s, &work, &scratch);
    status = status == BP_OK ? open_tags(set, files, s, &work) : status;
    memory_give_back(&scratch);
    BP_TRY(data_token_opened(status, files, s));
    print_outcome(files, &work, s);
    return data_check_lengths(files, s);
}

bp_status data_tagged_read(data_files *files, session *s, bp_words *words)
{
    bp_tags work;
    memory_block scratch = {.address = NULL};
    bp_status status = begin(files, s, &work, &scratch);
    status = status == BP_OK ? bp_tags_read(&work, words) : status;
    memory_give_back(&scratch);
    run_tokenizer_close(&s->run_tokenizer);
    return status;
}
