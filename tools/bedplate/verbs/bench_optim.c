/* SPDX-License-Identifier: MIT */
/* An update of one tensor as a program of one or three ops, and the loop it is compared with. */
#include "tools/bedplate/verbs/bench_optim.h"
#include "tools/bedplate/app/clock.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/sort.h"
#include "core/ops/codec.h"
#include "core/ir/step.h"
#include "device/host/cpu.h"
#include "device/registry.h"
#include "device/host/pool.h"
#include "optim/rule.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/session/optimizer_choice.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/precision.h"

#define WARM_UP  3
#define CHUNK    65536 /* elements of a partial norm, as in optim/clip.h */
#define PIECE    16384 /* bytes of a task of the loop */
#define STATES   3
#define UPDATE   0 /* programs: the rule alone, since a step has the norms elsewhere */
#define LINK_OPS 1

enum { WEIGHT, MASTER, STATE, GRADIENT = STATE + STATES, TRUST, CONTROL, STEP, PLACES };

typedef struct stream {
    unsigned char *at;
    uint64_t bytes;
    bool written;
} stream;

typedef struct desk {
    bp_spec spec;
    precision_rules rules;
    const bp_rule *rule;
    bp_rule_scalars scalars;
    uint64_t place[PLACES];
    uint8_t dtypes[PLACES];
    stream streams[PLACES];
    uint32_t stream_count;
    uint64_t moved; /* bytes read and written by one update */
    bp_device_options options;
    memory_block arena;
    memory_block host;
    void *context;
    uint64_t sum; /* what the loop reads must go somewhere */
} desk;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static bp_status bench_optim_describe(desk *d, const settings *set)
{
    bool automatic = strcmp(set->kernels, "auto") == 0;
    d->options.threads = set->threads > 0 ? (uint32_t)set->threads : bp_cpu_count();
    d->options.variant = automatic ? NULL : set->kernels;
    BP_TRY(optimizer_fill(set, &d->spec));
    BP_TRY(precision_fill(set, &d->rules, &d->spec));
    d->rule = d->spec.optimizer->rule;
    if (d->spec.optimizer->apply != bp_rule_apply) {
        output_print(stderr,
                     "bedplate: --optim %s: an update over whole matrices is more than one pass "
                     "over its elements; bench optim measures the others\n",
                     d->spec.optimizer->name);
        return BP_ERR_USAGE;
    }
    d->scalars.ademamix = (bp_ademamix_scalars){.count = (int64_t)set->elements,
                                                .form = (int64_t)d->spec.optimizer->form,
                                                .master_form = (int64_t)d->spec.master,
                                                .decay = set->weight_decay,
                                                .rate_scale = 1.0};
    d->rule->fill(&d->spec.optimizer_options, &d->scalars);
    return BP_OK;
}

/* Gives an operand its place and notes what of it a rule moves. */
static void bench_optim_put(desk *d, int place, uint64_t bytes, bool written, uint64_t *end)
{
    d->place[place] = bytes == 0 ? BP_OFFSET_ABSENT : *end;
    *end += bp_size_align(bytes, BP_ARENA_ALIGNMENT);
    if (bytes > 0 && place < TRUST) {
        d->streams[d->stream_count++] = (stream){NULL, bytes, written};
        d->moved += written ? 2 * bytes : bytes;
    }
}

static uint64_t place_operands(desk *d, uint64_t count)
{
    uint64_t end = 0;
    uint32_t states = bp_rule_states(d->rule, &d->spec.optimizer_options);
    bp_dtype working = d->spec.working;
    /* a master that holds the whole value makes the weight an output */
    bool whole = d->spec.master == BP_MASTER_FP32;
    bench_optim_put(d, WEIGHT, count * bp_dtype_bytes(working), true, &end);
    d->moved -= whole ? count * bp_dtype_bytes(working) : 0;
    bench_optim_put(d, MASTER, count * bp_master_bytes(d->spec.master), true, &end);
    for (uint32_t i = 0; i < STATES; i++) {
        bench_optim_put(d, (int)(STATE + i),
                        i < states ? bp_codec_bytes(count, d->spec.optimizer->form) : 0, true,
                        &end);
    }
    bench_optim_put(d, GRADIENT, count * bp_dtype_bytes(d->spec.gradient), false, &end);
    bench_optim_put(d, TRUST, d->rule->norms != NULL ? sizeof(float) : 0, false, &end);
    bench_optim_put(d, CONTROL, sizeof(bp_control_block), false, &end);
    bench_optim_put(d, STEP, sizeof(bp_step_block), false, &end);
    const uint8_t dtypes[PLACES] = {(uint8_t)working,          BP_U8,  BP_U8, BP_U8, BP_U8,
                                    (uint8_t)d->spec.gradient, BP_F32, BP_U8, BP_U8};
    memcpy(d->dtypes, dtypes, sizeof dtypes);
    return end;
}

static void bench_optim_fill(desk *d, uint64_t count)
{
    unsigned char *base = d->arena.address;
    const uint64_t at = d->place[MASTER];
    void *master = at != BP_OFFSET_ABSENT ? base + at : NULL;
    for (uint64_t i = 0; i < count; i++) {
        float x = (float)((i * 2654435761u >> 8) % 1024) / 1024.0f - 0.5f;
        bp_master_store(d->spec.working, d->spec.master, base + d->place[WEIGHT], master, i, x);
        bp_master_store(d->spec.gradient, BP_MASTER_WEIGHT, base + d->place[GRADIENT], NULL, i,
                        x * x * x * 0.01f);
    }
    if (d->place[TRUST] != BP_OFFSET_ABSENT) {
        *(float *)(void *)(base + d->place[TRUST]) = 0.1f;
    }
    *(bp_control_block *)(void *)(base + d->place[CONTROL]) = (bp_control_block){
        .applied = 100, .clip = 1.0f, .correction1 = 0.99, .correction2 = 0.1, .scale = 1.0f};
    *(bp_step_block *)(void *)(base + d->place[STEP]) = (bp_step_block){.learning_rate = 1e-4f};
    uint32_t stream_index = 0;
    for (int i = 0; i < TRUST; i++) {
        if (d->place[i] != BP_OFFSET_ABSENT) {
            d->streams[stream_index++].at = base + d->place[i];
        }
    }
}

static bp_status open_desk(desk *d, uint64_t count, bp_error *error)
{
    const bp_device *device = bp_device_at(0)->device;
    BP_TRY(memory_take(&d->arena, place_operands(d, count), true, "arena", error));
    bench_optim_fill(d, count);
    const bp_linked_op op = {d->rule->kernel, 1,         d->place,
                             &d->scalars,     d->dtypes, BP_OFFSET_ABSENT};
    const bp_linked_program program = {&op, 1};
    uint64_t link = device->link_bytes(LINK_OPS, PLACES, BP_SCALARS_MAX);
    uint64_t context = bp_size_align(device->context_bytes, 64);
    BP_TRY(memory_take(&d->host, link + context, false, "host memory", error));
    const bp_regions places = bp_regions_device(d->arena.address, d->arena.bytes);
    BP_TRY(device->open(d->host.address, &d->options, &places, error));
    d->context = d->host.address;
    BP_TRY(device->link(d->context, UPDATE, &program, (char *)d->host.address + context,
                        (size_t)link));
    return device->seal(d->context);
}

/* Cache lines of words, as vectors: `zero` is added so that they are written. */
static uint64_t write_words(uint64_t *words, uint64_t from, uint64_t to, uint64_t zero)
{
    for (uint64_t k = from; k < to; k += 8) {
        for (int e = 0; e < 8; e++) {
            words[k + (uint64_t)e] += zero;
        }
    }
    return 0;
}

static uint64_t read_words(const uint64_t *words, uint64_t from, uint64_t to)
{
    uint64_t sum[8] = {0};
    for (uint64_t k = from; k < to; k += 8) {
        for (int e = 0; e < 8; e++) {
            sum[e] += words[k + (uint64_t)e];
        }
    }
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

/* The same share of every stream: words are read, and written back where the rule writes. */
static void move_share(void *context, uint64_t first, uint64_t last, uint32_t worker)
{
    desk *d = context;
    uint64_t sum = 0, zero = d->options.threads > BP_THREADS_MAX; /* 0, not known to the compiler */
    (void)worker;
    for (uint32_t i = 0; i < d->stream_count; i++) {
        const stream *s = &d->streams[i];
        uint64_t tasks = bp_size_ceil_div(d->streams[0].bytes, PIECE);
        uint64_t from = s->bytes / 64 * first / tasks * 8, to = s->bytes / 64 * last / tasks * 8;
        uint64_t *words = (uint64_t *)(void *)s->at;
        sum += s->written ? write_words(words, from, to, zero) : read_words(words, from, to);
    }
    if (sum == 1) {
        d->sum = sum;
    }
}

/* Seconds of the rule and of the loop, by turns, so that both meet the same machine. */
static bp_status time_both(desk *d, bp_pool *pool, uint64_t repeat, double *rule, double *loop)
{
    uint64_t tasks = bp_size_ceil_div(d->streams[0].bytes, PIECE);
    for (uint64_t i = 0; i < WARM_UP + repeat; i++) {
        double began = clock_seconds();
        BP_TRY(bp_device_at(0)->device->run(d->context, UPDATE));
        double middle = clock_seconds();
        bp_pool_run(pool, move_share, d, tasks, false);
        double ended = clock_seconds();
        if (i >= WARM_UP) {
            rule[i - WARM_UP] = middle - began;
            loop[i - WARM_UP] = ended - middle;
        }
    }
    return BP_OK;
}

/* Cycles per second, from a chain of multiplications. */
static double clock_rate(void)
{
    enum { TURNS = 20000000 };
    volatile uint64_t start = 3;
    uint64_t x = start;
    double began = clock_seconds();
    for (uint32_t i = 0; i < TURNS; i++) {
        x *= x | 1; /* the | adds a cycle */
    }
    double seconds = clock_seconds() - began;
    start = x;
    return 4.0 * (double)TURNS / seconds;
}

static void print_times(const desk *d, const settings *set, double rule, double loop)
{
    output out;
    double cycles = rule * clock_rate() * d->options.threads / (double)set->elements;
    output_begin(&out, stdout);
    if (set->json) {
        json_begin(&out);
        json_text(&out, "optim", d->spec.optimizer->name);
        json_count(&out, "elements", set->elements);
        json_count(&out, "bytes_moved", d->moved);
        json_real(&out, "seconds", rule, 6);
        json_real(&out, "loop_seconds", loop, 6);
        json_real(&out, "gigabytes_per_second", (double)d->moved / rule * 1e-9, 6);
        json_real(&out, "fraction", loop / rule, 4);
        json_real(&out, "cycles_per_element", cycles, 4);
        json_count(&out, "threads", d->options.threads);
        json_text(&out, "kernels", bp_device_at(0)->device->variant(d->context));
        json_end(&out);
    } else {
        bp_text_string(&out.text, d->spec.optimizer->name);
        bp_text_string(&out.text, ": ");
        bp_text_fixed(&out.text, rule * 1e3, 3);
        bp_text_string(&out.text, " ms, ");
        bp_text_fixed(&out.text, (double)d->moved / rule * 1e-9, 2);
        bp_text_string(&out.text, " GB/s, ");
        bp_text_fixed(&out.text, 100.0 * loop / rule, 1);
        bp_text_string(&out.text, " % of a loop over the same bytes, ");
        bp_text_fixed(&out.text, cycles, 2);
        bp_text_string(&out.text, " cycles per element\n");
    }
    output_end(&out);
}

static bp_status bench_optim_run(desk *d, const settings *set, bp_error *error)
{
    static bp_pool pool; /* must not move */
    double *seconds = malloc(2 * (size_t)set->repeat * sizeof *seconds);
    if (seconds == NULL || bp_pool_open(&pool, d->options.threads) != BP_OK) {
        free(seconds);
        return bp_error_set(error, BP_ERR_FIT, "bench", "no memory or threads", "");
    }
    double *rule = seconds, *loop = seconds + set->repeat;
    bp_status status = time_both(d, &pool, set->repeat, rule, loop);
    bp_pool_close(&pool);
    if (status == BP_OK) {
        bp_heap_sort(rule, (size_t)set->repeat, sizeof *rule, by_value);
        bp_heap_sort(loop, (size_t)set->repeat, sizeof *loop, by_value);
        print_times(d, set, rule[set->repeat / 2], loop[set->repeat / 2]);
    }
    free(seconds);
    return status;
}

bp_status bench_optim(const settings *set, bp_error *error)
{
    static desk d;
    memset(&d, 0, sizeof d);
    BP_TRY(bench_optim_describe(&d, set));
    bp_status status = open_desk(&d, set->elements, error);
    if (status == BP_OK) {
        status = bench_optim_run(&d, set, error);
    }
    if (d.context != NULL) {
        bp_device_at(0)->device->close(d.context);
    }
    memory_give_back(&d.arena);
    memory_give_back(&d.host);
    return status;
}
