/* SPDX-License-Identifier: MIT */
/* From logits of places to answers. */
#include "tools/bedplate/predict/predictions_answers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/sources/data_answered.h"
#include "tools/formats/data/answer_score.h"

/* Of a window: its likeliest places, the best first, and the logit of its first place, where an
 * answer lies that is none. */
typedef struct place_logit {
    uint32_t place;
    float logit;
} place_logit;

/* In predictions.room: (windows, 2, best) place_logits, then (windows) floats. */
static place_logit *places_of(const predictions *p, uint64_t window, uint32_t end)
{
    return (place_logit *)p->room.address + (2 * window + end) * p->best;
}

static float *null_of(const predictions *p, uint64_t window)
{
    place_logit *all = p->room.address;
    return (float *)(void *)(all + 2 * p->source->examples * p->best) + window;
}

bp_status predictions_answers_begin(predictions *p, session *s)
{
    const uint64_t most = s->set->n_best_size;
    p->best = (uint32_t)(most < s->spec.sequence ? most : s->spec.sequence);
    const uint64_t bytes = 2 * (uint64_t)p->best * sizeof(place_logit) + sizeof(float);
    return memory_take(&p->room, bp_size_mul(p->source->examples, bytes), false, "host memory",
                       &s->error);
}

/* The `best` largest of a row of logits, falling; of equals the last comes first. */
static void find_places(const float *logits, uint32_t count, place_logit *to, uint32_t best)
{
    uint32_t have = 0;
    for (uint32_t t = 0; t < count; t++) {
        uint32_t at = have;
        while (at > 0 && !(to[at - 1].logit > logits[t])) {
            at--;
        }
        if (at < best) {
            have += have < best ? 1 : 0;
            memmove(to + at + 1, to + at, (have - 1 - at) * sizeof *to);
            to[at] = (place_logit){t, logits[t]};
        }
    }
}

bp_status predictions_answers_take(predictions *p, const bp_runtime *runtime)
{
    const bp_spec *spec = &runtime->plan->spec;
    const uint32_t evaluated = bp_spec_eval_batch(spec);
    for (uint32_t i = 0; i < runtime->group.samples; i++, p->rows++) {
        float null = 0.0f;
        for (uint32_t end = 0; end < 2; end++) {
            const float *logits =
                runtime->logits_host + ((size_t)end * evaluated + i) * spec->sequence;
            find_places(logits, spec->sequence, places_of(p, p->rows, end), p->best);
            null += logits[0];
        }
        *null_of(p, p->rows) = null;
    }
    return BP_OK;
}

/* An answer that may be: bytes of the context, or none at all. */
typedef struct candidate {
    uint32_t start, end;
    float start_logit, end_logit;
    bool none;
} candidate;

enum { CANDIDATES = 101 }; /* --n-best-size is 100 at most, and the answer that is none */

typedef struct answer_lines {
    predictions *p;
    const settings *set;
    uint64_t first; /* windows before those of the source */
    uint64_t index; /* of the question */
    bool lacks;     /* some questions have no answer */
    bool shown;     /* a window of the question is one of the source's */
    uint32_t count;
    candidate best[CANDIDATES];
    candidate null;
    bp_plain_answer found, given;
} answer_lines;

static float score_of(const candidate *c)
{
    return c->start_logit + c->end_logit;
}

/* Puts a candidate behind all that are as good. */
static void keep(answer_lines *l, candidate c, uint32_t most)
{
    uint32_t at = l->count;
    while (at > 0 && score_of(&l->best[at - 1]) < score_of(&c)) {
        at--;
    }
    if (at < most) {
        l->count += l->count < most ? 1 : 0;
        memmove(l->best + at + 1, l->best + at, (l->count - 1 - at) * sizeof c);
        l->best[at] = c;
    }
}

/* The answer that is none has its place among the others, or behind them. */
static void keep_null(answer_lines *l)
{
    bool there = false;
    keep(l, l->null, l->p->best);
    for (uint32_t i = 0; i < l->count; i++) {
        there = there || l->best[i].none;
    }
    if (!there) {
        l->best[l->count++] = l->null;
    }
}

/* The pairs of likely ends that lie in the context, in order and not too far apart. */
static bp_status take_window(void *user, const bp_question *q, const bp_answer_window *w)
{
    answer_lines *l = user;
    const predictions *p = l->p;
    const uint64_t window = w->index - l->first;
    (void)q;
    if (w->index < l->first || window >= p->source->examples) {
        return BP_OK;
    }
    const float null = *null_of(p, window);
    const place_logit *starts = places_of(p, window, 0), *ends = places_of(p, window, 1);
    const uint32_t past = w->before + w->count;
    if (!l->shown || null < score_of(&l->null)) {
        l->null = (candidate){.start_logit = null, .none = true};
    }
    l->shown = true;
    for (uint32_t i = 0; i < p->best; i++) {
        const uint32_t from = starts[i].place;
        for (uint32_t k = 0; k < p->best && from >= w->before && from < past; k++) {
            const uint32_t to = ends[k].place;
            if (to >= from && to < past && to - from < l->set->max_answer_length) {
                keep(l,
                     (candidate){.start = w->starts[w->first + from - w->before],
                                 .end = w->ends[w->first + to - w->before],
                                 .start_logit = starts[i].logit,
                                 .end_logit = ends[k].logit},
                     p->best);
            }
        }
    }
    return BP_OK;
}

/* Compares with every answer that was expected, and counts the best of it. */
static void count_answer(answer_lines *l, const bp_question *q, const candidate *c)
{
    double exact = 0.0, f1 = 0.0;
    bool has = false;
    bp_plain_answer_of(q->context + c->start, c->none ? 0 : c->end - c->start, &l->found);
    for (uint32_t i = 0; i < q->answers; i++) {
        bp_plain_answer_of(q->answer + q->answer_at[i], q->answer_at[i + 1] - q->answer_at[i],
                           &l->given);
        if (l->given.words > 0 || (!has && i + 1 == q->answers)) {
            has = has || l->given.words > 0;
            exact = fmax(exact, bp_answer_exact(&l->found, &l->given));
            f1 = fmax(f1, bp_answer_f1(&l->found, &l->given));
        }
    }
    if (q->answers == 0) {
        exact = l->found.words == 0 ? 1.0 : 0.0;
        f1 = exact;
    }
    answer_sums *sums = &l->p->answers[q->answers > 0 ? 0 : 1];
    sums->questions++;
    sums->exact += exact;
    sums->f1 += f1;
    l->p->labelled++;
}

static void put_text(answer_lines *l, const char *key, const bp_question *q, const candidate *c)
{
    bp_json_put_bytes(&l->p->out.json, key, q->context + c->start, c->none ? 0 : c->end - c->start);
}

/* The candidates with their share of the softmax over all. */
static void put_best(answer_lines *l, const bp_question *q, double sum)
{
    output *out = &l->p->out;
    json_list(out, "n_best");
    for (uint32_t i = 0; i < l->count; i++) {
        const candidate *c = &l->best[i];
        json_item(out);
        put_text(l, "text", q, c);
        json_real(out, "score", exp((double)(score_of(c) - score_of(&l->best[0]))) / sum, 6);
        json_real(out, "logit", (double)score_of(c), 9);
        json_close(out);
    }
    json_list_end(out);
}

static void put_line(answer_lines *l, const bp_question *q, const candidate *c, double difference)
{
    output *out = &l->p->out;
    double sum = 0.0;
    for (uint32_t i = 0; i < l->count; i++) {
        sum += exp((double)(score_of(&l->best[i]) - score_of(&l->best[0])));
    }
    json_begin(out);
    json_count(out, "index", l->index);
    if (q->id_length > 0) {
        bp_json_put_bytes(&out->json, "id", q->id, q->id_length);
    }
    put_text(l, "prediction", q, c);
    if (l->lacks) {
        json_real(out, "null_score_diff", difference, 9);
    }
    if (q->answered) {
        json_list(out, "label");
        for (uint32_t i = 0; i < q->answers; i++) {
            bp_json_put_bytes(&out->json, NULL, q->answer + q->answer_at[i],
                              q->answer_at[i + 1] - q->answer_at[i]);
        }
        json_list_end(out);
    }
    put_best(l, q, sum);
    json_end(out);
}

/* Chooses: the best candidate, or none where that is likelier by more than the threshold. */
static bp_status end_question(void *user, const bp_question *q)
{
    answer_lines *l = user;
    const candidate nothing = {.none = true};
    const candidate *best = l->count > 0 ? &l->best[0] : &nothing;
    double difference = 0.0;
    if (!l->shown) {
        l->index++;
        return BP_OK;
    }
    const candidate first = *best;
    candidate chosen = first;
    if (l->lacks) {
        difference = (double)(score_of(&l->null) - first.start_logit - first.end_logit);
        chosen = l->count == 0 || difference > l->set->null_threshold ? nothing : first;
        keep_null(l);
    }
    if (q->answered) {
        count_answer(l, q, &chosen);
    }
    if (l->p->file != NULL) {
        put_line(l, q, &chosen, difference);
    }
    l->index++;
    l->count = 0;
    l->shown = false;
    return BP_OK;
}

bp_status predictions_answers_end(predictions *p, session *s, data_files *files, uint64_t first)
{
    static answer_lines lines;
    const bp_answer_pass pass = {.user = &lines, .window = take_window, .end = end_question};
    memset(&lines, 0, sizeof lines);
    lines.p = p;
    lines.set = s->set;
    lines.first = first;
    lines.lacks = s->set->version_2 || files->tokens.head.impossible != 0;
    return data_answered_read(files, s, &pass);
}

static double percent(double part, uint64_t whole)
{
    return whole > 0 ? 100.0 * part / (double)whole : 0.0;
}

double predictions_exact_match(const predictions *p)
{
    return percent(p->answers[0].exact + p->answers[1].exact, p->labelled);
}

double predictions_answer_f1(const predictions *p)
{
    return percent(p->answers[0].f1 + p->answers[1].f1, p->labelled);
}

double predictions_answers_share(const predictions *p, uint32_t which, bool exact)
{
    const answer_sums *sums = &p->answers[which];
    return p->answers[1].questions == 0 ? (double)NAN
                                        : percent(exact ? sums->exact : sums->f1, sums->questions);
}

void predictions_answers_json(const predictions *p, const char *prefix, output *out)
{
    static const char *const names[] = {"HasAns_total", "NoAns_total"};
    for (uint32_t i = 0; i < 2 && p->answers[1].questions > 0; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s%s", prefix, names[i]);
        json_count(out, key, p->answers[i].questions);
    }
}
