/* SPDX-License-Identifier: MIT */
/* From logits of tokens to classes of words. */
#include "tools/bedplate/predict/predictions_words.h"

#include "tools/bedplate/sources/data_tagged.h"
#include "tools/formats/data/data_documents.h"

#define NO_CLASS UINT16_MAX

bp_status predictions_words_begin(predictions *p, bp_error *error)
{
    /* Half of the token file is labels. */
    const uint64_t tokens = p->source->count / 2;
    return p->file == NULL
               ? BP_OK
               : memory_take(&p->room, tokens * sizeof(uint16_t), false, "host memory", error);
}

static uint32_t likeliest(const float *logits, uint32_t classes)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++) {
        best = logits[c] > logits[best] ? c : best;
    }
    return best;
}

bp_status predictions_words_take(predictions *p, const bp_runtime *runtime)
{
    const bp_spec *spec = &runtime->plan->spec;
    const bp_column *column = bp_group_column(&runtime->group, BP_INPUT_LABELS);
    const uint32_t classes = spec->config.classes;
    uint16_t *all = p->room.address;
    for (uint32_t i = 0; i < runtime->group.samples; i++) {
        const int32_t *labels = (const int32_t *)column->data + (size_t)i * column->elements;
        const float *logits = runtime->logits_host + (size_t)i * spec->sequence * classes;
        bp_example row;
        BP_TRY(p->source->example(p->source, p->rows, &row));
        for (uint32_t t = 0; t < spec->sequence && t < row.count; t++) {
            const uint32_t found = likeliest(logits + (size_t)t * classes, classes);
            if (all != NULL) {
                all[row.first / 2 + t] = (uint16_t)found;
            }
            if (labels[t] >= 0 && !p->unlabelled) {
                entities_token(&p->entities, (uint32_t)labels[t], found);
                p->labelled++;
                p->right += found == (uint32_t)labels[t] ? 1 : 0;
            }
        }
        entities_end_sentence(&p->entities);
        p->rows++;
    }
    return BP_OK;
}

/* Sentences on their way into the file. */
typedef struct word_lines {
    predictions *p;
    session *s;
    bp_documents rule; /* for tags: nothing is read by it */
    uint64_t first;    /* examples before those of the source */
    uint64_t sentence; /* of the data, so far */
    uint32_t most;     /* tokens of a row */
} word_lines;

static void put_words(output *out, const bp_sentence *sentence)
{
    const bp_word_list *words = &sentence->words;
    json_list(out, "words");
    for (uint32_t i = 0; i < words->count; i++) {
        bp_json_put_bytes(&out->json, NULL, words->text + words->at[i],
                          words->at[i + 1] - words->at[i]);
    }
    json_list_end(out);
}

/* What the model says of each word. Of a row that was cut, only its first tokens are words'. */
static void put_found(word_lines *l, const bp_sentence *sentence, const bp_example *row)
{
    predictions *p = l->p;
    bp_encoder *encoder =
        l->s->run_tokenizer.kind == TOKENIZER_BYTES ? NULL : &l->s->run_tokenizer.encoder;
    const uint32_t *ids;
    const uint64_t end = row->count > l->most ? l->most - row->tail : row->count;
    const uint16_t *all = p->room.address;
    uint64_t at = encoder != NULL ? bp_encoder_single_ids(encoder, BP_PAIR_BEFORE, &ids) : 0;
    json_list(&p->out, "prediction");
    for (uint32_t i = 0; i < sentence->words.count; i++) {
        const uint32_t *place = &sentence->words.at[i];
        size_t count;
        bp_tags_word(encoder, sentence->words.text + place[0], place[1] - place[0], NULL, 0,
                     &count);
        if (count > 0 && at < end) {
            predictions_put_class(p, NULL, all[row->first / 2 + at]);
        } else {
            bp_json_put_value(&p->out.json, NULL, "null");
        }
        at += count;
    }
    json_list_end(&p->out);
}

static bp_status put_given(word_lines *l, bp_data_reader *reader, const bp_sentence *sentence)
{
    predictions *p = l->p;
    const bp_word_list *tags = &sentence->tags;
    for (uint32_t i = 0; i < tags->count; i++) {
        uint64_t class_number = 0;
        BP_TRY(bp_documents_label(&l->rule, reader, tags->text + tags->at[i],
                                  tags->at[i + 1] - tags->at[i], &class_number));
        if (i == 0) {
            json_list(&p->out, "label");
        }
        predictions_put_class(p, NULL, (uint32_t)class_number);
    }
    if (tags->count > 0) {
        json_list_end(&p->out);
    }
    return BP_OK;
}

static bp_status put_sentence(void *user, bp_data_reader *reader, const bp_sentence *sentence)
{
    word_lines *l = user;
    predictions *p = l->p;
    bp_example row;
    const uint64_t index = l->sentence++ - l->first;
    if (l->sentence <= l->first || index >= p->source->examples) {
        return BP_OK;
    }
    BP_TRY(p->source->example(p->source, index, &row));
    uint64_t number;
    BP_TRY(predictions_row(p, &number));
    json_begin(&p->out);
    json_count(&p->out, "index", number);
    put_words(&p->out, sentence);
    put_found(l, sentence, &row);
    BP_TRY(put_given(l, reader, sentence));
    json_end(&p->out);
    return BP_OK;
}

bp_status predictions_words_write(predictions *p, session *s, data_files *files, uint64_t first)
{
    word_lines lines = {
        .p = p,
        .s = s,
        .rule = {.labels = BP_LABELS_CLASS, .classes = s->spec.config.classes, .names = &s->names},
        .first = first,
        .most = s->spec.sequence};
    bp_words words = {.user = &lines, .sentence = put_sentence, .may_lack = true};
    return p->file == NULL ? BP_OK : data_tagged_read(files, s, &words);
}
