/* SPDX-License-Identifier: MIT */
/* Filling masks from the logits that evaluation keeps. */
#include "tools/bedplate/predict/fill_mask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"

#define TOP_DEFAULT 5

static const char where[] = "generate";

typedef struct filling {
    session *s;
    int32_t *ids;
    size_t count;
    int64_t mask;
    output out;
} filling;

/* The prompt's ids, in memory of their own, and how many of them are masks. */
static bp_status read_prompt(filling *f, size_t *masks)
{
    session *s = f->s;
    const char *text = s->set->prompt;
    const size_t length = text != NULL ? strlen(text) : 0;
    if (length == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "a masked language model fills the [MASK]s of a text", "--prompt");
    }
    BP_TRY(session_find_run_tokenizer(s));
    BP_TRY(s->run_tokenizer.kind == TOKENIZER_TOKENIZER ? session_open_run_tokenizer(s) : BP_OK);
    f->mask = s->run_tokenizer.kind == TOKENIZER_TOKENIZER
                  ? bp_tokenizer_special_of(&s->run_tokenizer.tokenizer)->mask
                  : -1;
    if (f->mask < 0) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "the model has no tokenizer with a mask token; give --tokenizer",
                            s->set->model);
    }
    bp_encoder_text(&s->run_tokenizer.encoder, text, length, BP_ENCODE_TEMPLATE, NULL, 0,
                    &f->count);
    f->ids = malloc((f->count + 1) * sizeof *f->ids);
    if (f->ids == NULL) {
        return bp_error_set(&s->error, BP_ERR_FIT, where, "no memory for the tokens", "");
    }
    /* Ids are below 2^31, so the sign is no matter. */
    bp_encoder_text(&s->run_tokenizer.encoder, text, length, BP_ENCODE_TEMPLATE, (uint32_t *)f->ids,
                    f->count, &f->count);
    for (size_t i = 0; i < f->count; i++) {
        *masks += f->ids[i] == f->mask ? 1 : 0;
    }
    if (*masks == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the text has no mask token ([MASK]) to be filled", "--prompt");
    }
    if (f->count > s->spec.config.positions) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "the prompt is longer than the model's positions", "--prompt",
                              (int64_t)f->count, BP_LIMIT_MOST, s->spec.config.positions);
    }
    return BP_OK;
}

/* The likeliest id below `count` that is less likely than `before`, of equals the next one. */
static uint32_t next_likely(const float *logits, uint32_t count, uint32_t before)
{
    uint32_t best = count;
    for (uint32_t v = 0; v < count; v++) {
        const bool later = before == count || logits[v] < logits[before] ||
                           (!(logits[v] > logits[before]) && v > before);
        best = later && (best == count || logits[v] > logits[best]) ? v : best;
    }
    return best;
}

static double sum_of(const float *logits, uint32_t count, double most)
{
    double sum = 0.0;
    for (uint32_t v = 0; v < count; v++) {
        sum += exp((double)logits[v] - most);
    }
    return sum;
}

static void put_candidate(filling *f, uint32_t id, double score)
{
    char bytes[BP_TOKENIZER_DECODED_MAX];
    size_t length = 0;
    bp_decoder decoder = {.begun = false};
    bp_text *text = &f->out.text;
    if (bp_decoder_next(&decoder, &f->s->run_tokenizer.tokenizer, id, bytes, &length) != BP_OK) {
        length = 0; /* the vocabulary is padded: the id has no text */
    }
    if (f->s->set->json) {
        json_item(&f->out);
        json_real(&f->out, "score", score, 9);
        json_count(&f->out, "token", id);
        bp_json_put_bytes(&f->out.json, "token_str", bytes, length);
        json_close(&f->out);
    } else {
        bp_text_fixed(text, score, 6);
        bp_text_string(text, "  ");
        bp_text_bytes(text, bytes, length);
        bp_text_char(text, '\n');
    }
}

static void put_mask(filling *f, size_t position, const float *logits)
{
    const uint32_t vocabulary = f->s->spec.config.vocabulary;
    const settings *set = f->s->set;
    uint64_t top = option_given(set, "top-k") ? set->top_k : TOP_DEFAULT;
    top = top == 0 || top > vocabulary ? vocabulary : top;
    uint32_t id = next_likely(logits, vocabulary, vocabulary);
    const double most = id < vocabulary ? (double)logits[id] : 0.0;
    const double sum = sum_of(logits, vocabulary, most);
    if (set->json) {
        json_begin(&f->out);
        json_count(&f->out, "position", position);
        json_list(&f->out, "predictions");
    }
    for (uint64_t i = 0; i < top && id < vocabulary; i++) {
        put_candidate(f, id, exp((double)logits[id] - most) / sum);
        id = next_likely(logits, vocabulary, id);
    }
    if (set->json) {
        json_list_end(&f->out);
        json_end(&f->out);
    }
}

static bp_status put_masks(void *user, const bp_runtime *runtime)
{
    filling *f = user;
    bool first = true;
    for (size_t i = 0; i < f->count; i++) {
        if (f->ids[i] == f->mask) {
            if (!first && !f->s->set->json) {
                bp_text_char(&f->out.text, '\n');
            }
            put_mask(f, i, runtime->logits_host + i * runtime->plan->spec.config.vocabulary);
            first = false;
        }
    }
    return BP_OK;
}

static bp_status read_ids(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const filling *f = source->context;
    memcpy(to, f->ids + first, n * sizeof *to);
    return BP_OK;
}

static bp_status read_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    (void)first;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = -1; /* nothing is known of what stands there */
    }
    return BP_OK;
}

static bp_status whole(bp_source *source, uint64_t index, bp_example *to)
{
    (void)index;
    *to = (bp_example){.count = source->count};
    return BP_OK;
}

static bp_status fill_mask_evaluate(filling *f)
{
    session *s = f->s;
    double loss;
    uint64_t targets;
    bp_source source = {.context = f,
                        .name = "--prompt",
                        .count = f->count,
                        .read = read_ids,
                        .labels = read_labels,
                        .examples = 1,
                        .example = whole};
    bp_feed feed = {.source = &source,
                    .sequence = s->spec.sequence,
                    .batch = 1,
                    .group = 1,
                    .vocabulary = s->spec.config.vocabulary,
                    .kind = BP_LABELS_GIVEN};
    BP_TRY(bp_feed_init(&feed, &s->error));
    output_begin(&f->out, stdout);
    bp_status status =
        bp_runtime_evaluate_each(&s->runtime, &feed, 0, put_masks, f, &loss, &targets);
    output_end(&f->out);
    return status;
}

static bp_status fill_mask_fill(filling *f)
{
    session *s = f->s;
    size_t masks = 0;
    BP_TRY(read_prompt(f, &masks));
    s->spec.optimizer = NULL;
    s->spec.evaluate = true;
    s->spec.keep_logits = true;
    s->spec.batch = 1;
    s->spec.accumulation = 1;
    s->spec.sequence = (uint32_t)f->count;
    BP_TRY(session_start(s));
    return fill_mask_evaluate(f);
}

bp_status fill_mask(session *s)
{
    static filling f;
    f.s = s;
    bp_status status = fill_mask_fill(&f);
    free(f.ids);
    f.ids = NULL;
    return status;
}
