/* SPDX-License-Identifier: MIT */
/* bedplate bench: a training step, or a matrix product, against the machine's peak; updates. */
#include <stdlib.h>
#include <string.h>

#include "device/host/cpu.h"
#include "core/base/sort.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/verbs/bench_fabric.h"
#include "tools/bedplate/verbs/bench_optim.h"
#include "tools/bedplate/sources/data_tokenised.h"
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/verbs/peak.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/app/commands.h"
#include "tools/formats/family/family.h"

#define WARM_UP 2 /* runs before the timed ones */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, uint64_t count)
{
    bp_heap_sort(seconds, (size_t)count, sizeof *seconds, by_value);
    return 0.5 * (seconds[(count - 1) / 2] + seconds[count / 2]);
}

typedef struct speeds {
    double seconds;
    double gflops;
    double peak; /* of the processor; 0: not known, as for a GPU */
} speeds;

static void put_speeds(output *out, const speeds *v)
{
    json_real(out, "gflops", v->gflops, 6);
    if (v->peak > 0) {
        json_real(out, "peak_gflops", v->peak, 6);
        json_real(out, "fraction_of_peak", v->gflops / v->peak, 4);
    }
}

static void put_speeds_text(bp_text *text, const speeds *v)
{
    bp_text_fixed(text, v->seconds * 1e3, 3);
    bp_text_string(text, " ms, ");
    bp_text_fixed(text, v->gflops, 1);
    if (v->peak <= 0) {
        bp_text_string(text, " GFLOP/s");
        return;
    }
    bp_text_string(text, " of ");
    bp_text_fixed(text, v->peak, 1);
    bp_text_string(text, " GFLOP/s (");
    bp_text_fixed(text, 100.0 * v->gflops / v->peak, 1);
    bp_text_string(text, " %)");
}

/* Tokens out of nowhere: spread over the vocabulary, or numbers from 0 to 1 for a model of numbers;
 * the same on every machine. */
static void made_up(uint32_t words, uint64_t first, uint32_t n, int32_t *to)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = (first + i) * UINT64_C(0x9e3779b97f4a7c15);
        float number = (float)(x >> 40) * 0x1p-24f;
        memcpy(&to[i], &number, sizeof number);
        to[i] = words > 0 ? (int32_t)((x >> 33) % words) : to[i];
    }
}

static bp_status made_up_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const bp_spec *spec = source->context;
    made_up(spec->config.vocabulary, first, n, to);
    return BP_OK;
}

/* What a text is made of: tokens, or the numbers of a model that hears. */
static bp_status made_up_split(const bp_feed *feed, bp_example *row, bp_example *source)
{
    *source = (bp_example){.first = row->first, .count = feed->source_tokens};
    return BP_OK;
}

static bp_status made_up_source(const bp_feed *feed, const bp_example *from, uint32_t elements,
                                int32_t *to)
{
    const bp_spec *spec = feed->source->context;
    made_up(model_hears(&spec->config) ? 0 : spec->config.vocabulary, from->first, elements, to);
    return BP_OK;
}

static const bp_feed_texts made_up_texts = {made_up_split, made_up_source};

/* Rows for the tasks whose rows have labels. A label of bits is the number 0, and no class; an
 * answer is the whole row. */
static bp_status made_up_row(bp_source *source, uint64_t index, bp_example *to)
{
    const bp_spec *spec = source->context;
    const bp_task task = spec->config.task;
    *to = (bp_example){.first = index * spec->sequence, .count = spec->sequence};
    to->label = task == BP_TASK_CLASSES   ? index % spec->config.classes
                : task == BP_TASK_ANSWERS ? ((uint64_t)spec->sequence - 1) << 16
                                          : 0;
    return BP_OK;
}

/* Classes of tokens. */
static bp_status made_up_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const bp_spec *spec = source->context;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (int32_t)((first + i) % spec->config.classes);
    }
    return BP_OK;
}

/* The feed of made-up tokens, with labels as the task has them. */
static bp_feed made_up_feed(const bp_spec *spec, bp_source *source)
{
    bp_feed feed = {.source = source,
                    .seed = spec->seed,
                    .sequence = spec->sequence,
                    .batch = spec->batch,
                    .group = spec->batch * spec->accumulation,
                    .vocabulary = spec->config.vocabulary,
                    .kind = bp_feed_labels(spec->config.task),
                    .class_weights = spec->class_weights,
                    .texts = spec->source > 0 ? &made_up_texts : NULL,
                    .source_tokens = spec->source,
                    .masking = {.probability = 0.15, .special = {-1, -1, -1, -1}},
                    .shuffle = true};
    if (spec->config.task >= BP_TASK_CLASSES) {
        feed.classes = spec->config.classes;
        source->examples = source->count / spec->sequence;
        source->example = made_up_row;
        source->labels = made_up_labels;
    }
    return feed;
}

/* Multiplications and additions of the products that a step holds: what the device computes. What a
 * policy computes again counts, gradients that nobody needs and tables that are only looked up do
 * not. */
static double step_operations(const bp_runtime *runtime)
{
    const bp_graph *graph = &runtime->plan->graph;
    const uint32_t micros = runtime->plan->spec.accumulation;
    if (micros == 1 || bp_spec_whole_group(&runtime->plan->spec)) {
        return bp_cost_total(graph, BP_PROGRAM_STEP).flops;
    }
    return micros * bp_cost_total(graph, BP_PROGRAM_VECTORS_FIRST).flops +
           bp_cost_total(graph, BP_PROGRAM_CONTRAST).flops +
           bp_cost_total(graph, BP_PROGRAM_MICRO_FIRST).flops +
           (micros - 1) * bp_cost_total(graph, BP_PROGRAM_MICRO_NEXT).flops +
           bp_cost_total(graph, BP_PROGRAM_UPDATE).flops;
}

static bp_status time_steps(session *s, double *seconds)
{
    bp_source source = {.context = &s->spec,
                        .name = "made-up tokens",
                        .count = UINT64_C(1) << 40,
                        .read = made_up_tokens};
    bp_feed feed = made_up_feed(&s->spec, &source);
    BP_TRY(bp_feed_init(&feed, &s->error));
    for (uint64_t i = 0; i < WARM_UP + s->set->repeat; i++) {
        bp_outcome outcome;
        double began = clock_seconds();
        BP_TRY(bp_runtime_step(&s->runtime, &feed, &outcome));
        if (i >= WARM_UP) {
            seconds[i - WARM_UP] = clock_seconds() - began;
        }
    }
    return BP_OK;
}

/* Rows of numbers have no tokens. */
static void print_step(const session *s, const speeds *v, double tokens)
{
    output out;
    const bool rows = s->spec.config.vocabulary == 0;
    const double speed = (rows ? tokens / s->spec.sequence : tokens) / v->seconds;
    output_begin(&out, stdout);
    if (s->set->json) {
        json_begin(&out);
        json_real(&out, "ms_per_step", v->seconds * 1e3, 6);
        json_real(&out, rows ? "samples_per_second" : "tokens_per_second", speed, 6);
        put_speeds(&out, v);
        json_count(&out, "arena_bytes", s->plan.report.arena_bytes);
        json_count(&out, "threads", s->spec.device_options.threads);
        json_text(&out, "kernels", s->spec.device->variant(s->runtime.device));
        json_end(&out);
    } else {
        bp_text_string(&out.text, "step: ");
        put_speeds_text(&out.text, v);
        bp_text_string(&out.text, ", ");
        bp_text_fixed(&out.text, speed, 1);
        bp_text_string(&out.text, rows ? " samples/s\n" : " tokens/s\n");
    }
    output_end(&out);
}

static bp_status bench_step(session *s, const settings *set)
{
    BP_TRY(session_begin(s, set));
    BP_TRY(session_choose(s));
    BP_TRY(session_start(s));
    double *seconds = malloc((size_t)set->repeat * sizeof *seconds);
    if (seconds == NULL) {
        return bp_error_set(&s->error, BP_ERR_FIT, "bench", "no memory for the times", "");
    }
    bp_status status = time_steps(s, seconds);
    if (status == BP_OK) {
        const bp_spec *spec = &s->plan.spec;
        double tokens = (double)spec->batch * spec->sequence * spec->accumulation;
        speeds v = {.seconds = median(seconds, set->repeat)};
        v.gflops = step_operations(&s->runtime) / v.seconds * 1e-9;
        if (device_takes_memory(spec)) { /* the host */
            v.peak = peak_gflops(spec->device_options.variant, spec->device_options.threads);
        }
        print_step(s, &v, tokens);
    }
    free(seconds);
    return status;
}

/* One matrix product as a program of one op over an arena of its own. */
typedef struct product {
    bp_device_options options;
    bp_matmul_scalars scalars;
    uint64_t offsets[8];
    uint8_t dtypes[8];
    memory_block arena;
    memory_block host;
    void *context;
} product;

static bp_status link_product(product *p, bp_error *error)
{
    const bp_device *device = bp_device_at(0)->device;
    const bp_linked_op op = {BP_KERNEL_matmul, 1,         p->offsets,
                             &p->scalars,      p->dtypes, BP_OFFSET_ABSENT};
    const bp_linked_program program = {&op, 1};
    uint64_t link = device->link_bytes(1, 7, 10);
    uint64_t context = bp_size_align(device->context_bytes, 64);
    BP_TRY(memory_take(&p->host, link + context, false, "host memory", error));
    p->context = p->host.address;
    const bp_regions places = bp_regions_device(p->arena.address, p->arena.bytes);
    BP_TRY(device->open(p->context, &p->options, &places, error));
    BP_TRY(device->link(p->context, 0, &program, (char *)p->host.address + context, (size_t)link));
    return device->seal(p->context);
}

static void cmd_bench_fill(float *x, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        x[i] = (float)((i * 2654435761u >> 8) % 1024) / 1024.0f - 0.5f;
    }
}

/* c (m, n) = a (m, k) b (k, n); places c, a, b and the workspace one after the other. */
static bp_status make_product(product *p, const settings *set, bp_error *error)
{
    p->scalars = (bp_matmul_scalars){.m = (int64_t)set->m,
                                     .n = (int64_t)set->n,
                                     .k = (int64_t)set->k,
                                     .lda = (int64_t)set->k,
                                     .ldb = (int64_t)set->n,
                                     .ldc = (int64_t)set->n};
    uint64_t sizes[3] = {set->m * set->n, set->m * set->k, set->k * set->n};
    uint64_t work =
        bp_device_at(0)->device->workspace(&p->options, BP_KERNEL_matmul, &p->scalars, NULL);
    static const int places[3] = {0, 2, 3}; /* c, a, b among the operands */
    uint64_t at = 0;
    for (int i = 0; i < 8; i++) {
        p->offsets[i] = BP_OFFSET_ABSENT;
        p->dtypes[i] = BP_F32;
    }
    for (int i = 0; i < 3; i++) {
        p->offsets[places[i]] = at;
        at += bp_size_align(sizes[i] * sizeof(float), BP_ARENA_ALIGNMENT);
    }
    p->offsets[6] = at;
    BP_TRY(memory_take(&p->arena, at + work, true, "arena", error));
    cmd_bench_fill((float *)((char *)p->arena.address + p->offsets[2]), sizes[1]);
    cmd_bench_fill((float *)((char *)p->arena.address + p->offsets[3]), sizes[2]);
    return link_product(p, error);
}

static bp_status time_product(product *p, const settings *set, double *seconds)
{
    for (uint64_t i = 0; i < WARM_UP + set->repeat; i++) {
        double began = clock_seconds();
        BP_TRY(bp_device_at(0)->device->run(p->context, 0));
        if (i >= WARM_UP) {
            seconds[i - WARM_UP] = clock_seconds() - began;
        }
    }
    return BP_OK;
}

static void print_product(const settings *set, const speeds *v)
{
    output out;
    output_begin(&out, stdout);
    if (set->json) {
        json_begin(&out);
        put_speeds(&out, v);
        json_real(&out, "ms", v->seconds * 1e3, 6);
        json_end(&out);
    } else {
        bp_text_string(&out.text, "gemm: ");
        put_speeds_text(&out.text, v);
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
}

static bp_status bench_gemm(const settings *set, bp_error *error)
{
    product p = {.context = NULL};
    bool automatic = strcmp(set->kernels, "auto") == 0;
    p.options.threads = set->threads > 0 ? (uint32_t)set->threads : bp_cpu_count();
    p.options.variant = automatic ? NULL : set->kernels;
    double *seconds = malloc((size_t)set->repeat * sizeof *seconds);
    bp_status status = seconds != NULL ? make_product(&p, set, error) : BP_ERR_FIT;
    if (status == BP_OK) {
        status = time_product(&p, set, seconds);
    }
    if (status == BP_OK) {
        speeds v = {.seconds = median(seconds, set->repeat)};
        v.gflops = 2e-9 * (double)set->m * (double)set->n * (double)set->k / v.seconds;
        v.peak = peak_gflops(p.options.variant, p.options.threads);
        print_product(set, &v);
        bp_device_at(0)->device->close(p.context);
    }
    free(seconds);
    memory_give_back(&p.arena);
    memory_give_back(&p.host);
    return status;
}

int cmd_bench(const settings *set)
{
    static session s;
    const char *what = set->words.item[0];
    if (strcmp(what, "step") == 0) {
        int code = session_report(&s, bench_step(&s, set));
        session_end(&s);
        return code;
    }
    if (strcmp(what, "gemm") == 0) {
        bp_error error = {.code = BP_OK};
        bp_status status = bench_gemm(set, &error);
        return report_status(status, &error);
    }
    if (strcmp(what, "optim") == 0) {
        bp_error error = {.code = BP_OK};
        bp_status status = bench_optim(set, &error);
        return report_status(status, &error);
    }
    if (strcmp(what, "fabric") == 0) {
        return ranks_run(set, bench_fabric);
    }
    output_print(stderr,
                 "bedplate: bench: unknown measurement: found \"%s\", expected step, gemm, optim "
                 "or fabric\n",
                 what);
    return 2;
}
