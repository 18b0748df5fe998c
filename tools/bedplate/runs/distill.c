/* SPDX-License-Identifier: MIT */
/* What a teacher says, and who learns from it. */
#include "tools/bedplate/runs/distill.h"

#include <string.h>

#include "core/plan/adapter.h"
#include "layers/families/rnn.h"
#include "tools/bedplate/app/options.h"
#include "tools/formats/data/data_tokenise.h"
#include "tools/formats/family/family.h"

static const char where[] = "distill";

static bp_status refuse_file(const distill *d, const char *text)
{
    return bp_error_set(&d->s->error, BP_ERR_DATA, where, text, d->file.path);
}

static bp_status refuse_number(const distill *d, const char *text, uint64_t found, bp_limit limit,
                               uint64_t wanted)
{
    return bp_error_limit(&d->s->error, BP_ERR_DATA, where, text, d->file.path,
                          bp_size_signed(found), limit, bp_size_signed(wanted));
}

static void distill_begin(distill *d, session *s, const char *path)
{
    *d = (distill){.s = s, .file = {.store = s->store, .path = path, .error = &s->error}};
}

/* The file's rows are of the kind that the run has. */
static bp_status check_rows(const distill *d)
{
    const bp_teacher_head *head = &d->file.head;
    const bp_spec *spec = &d->s->spec;
    if (head->sequence != spec->sequence) {
        return refuse_number(d,
                             "the teacher's rows are of another length: --max-seq-length, of both",
                             head->sequence, BP_LIMIT_EXACT, spec->sequence);
    }
    if ((head->packed != 0) != spec->packed) {
        return refuse_file(d, head->packed != 0
                                  ? "the teacher's rows hold several documents: --packing, of both"
                                  : "the teacher's rows hold one document: no --packing, of both");
    }
    if (head->words > spec->config.vocabulary) {
        return refuse_number(
            d, "the teacher's vocabulary is larger than the model's: its largest token, + 1",
            head->words, BP_LIMIT_MOST, spec->config.vocabulary);
    }
    return BP_OK;
}

/* Without a teacher nothing is mixed. */
static bp_status check_alone(session *s)
{
    static const char *const needs[] = {"distill-alpha", "distill-temperature"};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (option_said(s->set, needs[i])) {
            const bp_status status =
                bp_error_set(&s->error, BP_ERR_USAGE, where, "there is no teacher", needs[i]);
            bp_error_right(&s->error, "--distill FILE with it");
            return status;
        }
    }
    return BP_OK;
}

bp_status distill_fill(session *s)
{
    const settings *set = s->set;
    bp_spec *spec = &s->spec;
    distill d;
    spec->distill =
        (bp_distill){.alpha = set->distill_alpha, .temperature = set->distill_temperature};
    distill_begin(&d, s, set->distill);
    if (spec->model == &bp_model_rnn && (set->command == COMMAND_DISTILL || set->distill != NULL)) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "a recurrent net's logits are made piece of time by piece of time: it "
                            "is neither teacher nor student",
                            "distill");
    }
    if (set->command == COMMAND_DISTILL) {
        d.file.head.sequence = spec->sequence;
        d.file.head.top_k = (uint32_t)set->distill_top_k;
        spec->distill.is_teacher = true;
        spec->keep_logits = true;
    } else if (set->distill != NULL) {
        bp_status status = bp_teacher_file_open(&d.file);
        status = status == BP_OK ? check_rows(&d) : status;
        bp_teacher_file_close(&d.file);
        BP_TRY(status);
    } else {
        return check_alone(s);
    }
    spec->distill.top_k = d.file.head.top_k;
    s->reference_bytes += bp_teacher_row_bytes(&d.file.head);
    return BP_OK;
}

static bp_status distill_row(bp_teacher *teacher, const bp_column *column,
                             const bp_feed_tokens *read, int32_t *to)
{
    distill *d = (distill *)(void *)teacher;
    const bp_teacher_head *head = &d->file.head;
    const size_t said = (size_t)read->inputs * head->top_k;
    const size_t there = said < column->elements ? said : column->elements;
    if (read->inputs > 0 && d->number != read->window + 1) {
        d->number = 0;
        BP_TRY(bp_teacher_file_read(&d->file, read->window, read->tokens, read->inputs,
                                    d->s->spec.config.vocabulary, d->row.address));
        d->number = read->window + 1;
    }
    memcpy(to,
           column->from == BP_INPUT_TOPS ? (const void *)bp_teacher_tops(d->row.address)
                                         : bp_teacher_logps(head, d->row.address),
           there * sizeof *to);
    memset(to + there, 0, (column->elements - there) * sizeof *to);
    return BP_OK;
}

static uint64_t data_key(const char *identity)
{
    return bp_digest_of(identity, strlen(identity), 0);
}

static bp_status take_row(distill *d)
{
    return memory_take(&d->row, bp_teacher_row_bytes(&d->file.head), false, "teacher",
                       &d->s->error);
}

static bp_status check_data(const distill *d, const bp_feed *feed, const char *identity)
{
    const bp_teacher_head *head = &d->file.head;
    const uint64_t own = d->s->tokenizer_digest;
    const bool same = head->data == data_key(identity);
    if (!same && own != 0 && head->tokenizer != 0 && own != head->tokenizer) {
        return refuse_file(d, "the distillation file was made with another tokenizer");
    }
    if (head->rows != feed->windows) {
        return refuse_number(d, "the distillation file was made from other data: rows", head->rows,
                             BP_LIMIT_EXACT, feed->windows);
    }
    return same ? bp_teacher_file_check(&d->file)
                : refuse_file(d, "the distillation file was made from other data");
}

bp_status distill_open(distill *d, session *s, bp_feed *feed, char *identity)
{
    char text[BP_DIGEST_TEXT];
    distill_begin(d, s, s->set->distill);
    if (d->file.path == NULL) {
        return BP_OK;
    }
    d->teacher.row = distill_row;
    BP_TRY(bp_teacher_file_open(&d->file));
    BP_TRY(check_rows(d)); /* it may be another file by now */
    if (d->file.head.top_k != s->spec.distill.top_k) {
        return refuse_file(d, "the distillation file was changed meanwhile");
    }
    BP_TRY(check_data(d, feed, identity));
    feed->teacher = &d->teacher;
    bp_digest_text(d->file.head.digest, text);
    memcpy(identity + strlen(identity), " teacher ", sizeof " teacher ");
    memcpy(identity + strlen(identity), text, sizeof text);
    return take_row(d);
}

void distill_close(distill *d)
{
    bp_teacher_file_close(&d->file);
    memory_give_back(&d->row);
}

/* What is written, and of which feed. */
typedef struct distill_source {
    distill *d;
    const bp_feed *feed;
} distill_source;

/* What the eval program left of a sample: its tokens, then their log-probabilities. */
static bp_status write_row(distill *d, const bp_runtime *runtime, uint32_t sample, uint32_t inputs)
{
    const bp_teacher_head *head = &d->file.head;
    const bp_column *ids = bp_group_column(bp_runtime_group(runtime), BP_INPUT_IDS);
    const int32_t *tokens = (const int32_t *)ids->data + (size_t)sample * ids->elements;
    const size_t row = (size_t)head->sequence * head->top_k;
    const float *all = bp_runtime_logits(runtime) + 2 * sample * row;
    memcpy(bp_teacher_tops(d->row.address), all, row * sizeof(int32_t));
    memcpy(bp_teacher_logps(head, d->row.address), all + row, row * sizeof(float));
    return bp_teacher_file_write(&d->file, d->number++, tokens, inputs, d->row.address);
}

/* A bp_evaluated: groups come in the order of the data. */
static bp_status write_group(void *user, const bp_runtime *runtime)
{
    const distill_source *from = user;
    for (uint32_t i = 0; i < bp_runtime_group(runtime)->samples; i++) {
        uint32_t inputs = 0;
        BP_TRY(bp_feed_length(from->feed, from->d->number, &inputs));
        BP_TRY(write_row(from->d, runtime, i, inputs));
    }
    return BP_OK;
}

static void add_real(bp_digest *all, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bp_data_key_number(all, bits);
}

/* What adapters count for, of each module that has one. */
static void add_adapters(bp_digest *all, const session *s)
{
    const bp_builder *builder = &s->plan.builder;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (bp_adapter_module_length(bp_build_name(builder, i)) > 0) {
            const bp_lora_part part = bp_adapter_part(builder, i);
            add_real(all, part.rank > 0 ? bp_adapter_scale(&s->spec.lora, part) : 0.0);
        }
    }
}

/* The model's configuration, as a checkpoint's keys have it. */
static void add_config(bp_digest *all, const bp_model_config *config)
{
    char value[BP_ROW_VALUE_BYTES];
    bp_digest_add(all, config->family->model_type, strlen(config->family->model_type) + 1);
    for (size_t i = 0; i < config->family->row_count; i++) {
        if (bp_row_value(config, i, value)) {
            const char *key = config->family->rows[i].key;
            bp_digest_add(all, key, strlen(key) + 1);
            bp_digest_add(all, value, strlen(value) + 1);
        }
    }
}

/* Of all weights, those that could be trained and frozen ones, and of what is made of them. */
static bp_status teacher_digest(session *s, uint64_t *digest)
{
    static unsigned char piece[65536];
    bp_digest all;
    bool there;
    uint64_t base;
    BP_TRY(bp_runtime_base_digest(&s->runtime, &there, &base));
    bp_digest_begin(&all, 0);
    bp_data_key_number(&all, base);
    add_config(&all, &s->spec.config);
    add_adapters(&all, s);
    for (uint32_t i = 0; i < bp_runtime_state_count(&s->runtime); i++) {
        const bp_state_tensor tensor = bp_runtime_state_tensor(&s->runtime, i);
        for (uint64_t at = 0, some; at < tensor.bytes; at += some) {
            const uint64_t left = tensor.bytes - at;
            some = left < sizeof piece ? left : sizeof piece;
            BP_TRY(bp_runtime_state_read(&s->runtime, i, at, piece, (size_t)some));
            bp_digest_add(&all, piece, (size_t)some);
        }
    }
    *digest = bp_digest_end(&all);
    return BP_OK;
}

bp_status distill_write(distill *d, session *s, bp_feed *feed, const char *identity)
{
    const bp_spec *spec = &s->plan.spec;
    uint64_t targets;
    distill_begin(d, s, s->set->output);
    d->file.head = (bp_teacher_head){.data = data_key(identity),
                                     .tokenizer = s->tokenizer_digest,
                                     .rows = feed->windows,
                                     .vocabulary = spec->config.vocabulary,
                                     .sequence = spec->sequence,
                                     .top_k = spec->distill.top_k,
                                     .packed = spec->packed ? 1 : 0};
    BP_TRY(teacher_digest(s, &d->file.head.teacher));
    BP_TRY(take_row(d));
    BP_TRY(bp_teacher_file_begin(&d->file));
    distill_source from = {d, feed};
    BP_TRY(bp_runtime_evaluate_each(&s->runtime, feed, 0, write_group, &from, &d->loss, &targets));
    return bp_teacher_file_end(&d->file);
}
