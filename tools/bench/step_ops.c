/* SPDX-License-Identifier: MIT */
/* Where a training step's time goes on the host: every op of a preset's step is run and timed by
 * itself, in the step's own order and memory. Ops of one kernel are one row; matrix products one
 * row per shape and form. The multiply-add peak is measured anew before every few milliseconds of
 * work, so that a processor that changes its pace does so on both sides: "of peak" is what was
 * computed over what the peak would have computed in the same time. Prints a Markdown table.
 *
 *     build/release/tools/bench/step_ops [KEY=VALUE..]
 *         preset=gpt2 batch=4 sequence=64 threads=1 kernels=avx512 steps=4 lora=0 type=f32
 *         quant=none model=DIR (with a config.json, instead of a preset) verify=0 (1: products
 * checked) clock=busy counts the processor's seconds: of one thread, on a machine that is busy. An
 * image has its numbers as its sequence: preset=resnet-50 sequence=150528.
 *
 * The first two steps are not counted. MADV_HUGEPAGE and MAP_ANONYMOUS are not in POSIX 2008. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/run/feed.h"
#include "core/run/runtime.h"
#include "device/host/host.h"
#include "device/host/peak.h"
#include "device/host/pool.h"
#include "device/host/storage/store_posix.h"
#include "optim/rules.h"
#include "tools/bench/bench_plan.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/family/preset.h"

#define ROWS_MOST    256
#define NAME_BYTES   96
#define WARM_UP      2
#define SINGLE       7     /* number of the program that one op is linked as */
#define PEAK_EVERY   0.02  /* seconds of work per measurement of the peak */
#define PEAK_SECONDS 0.002 /* length of a measurement */
#define CALLS_MOST   4096
#define MEGABYTES    2u /* of memory to link one op in */

/* Ops that look alike; each of the numbers is that of one call, and at the end of all of a step. */
typedef struct ops_row {
    char name[NAME_BYTES];
    uint64_t count;
    double flops;
    double bytes;
    double seconds;
    double possible;  /* floating-point operations that the peak would have done in these seconds */
    double *calls[2]; /* (CALLS_MOST): seconds and possible of each call */
    int64_t least;    /* of a product's dimensions */
} ops_row;

typedef struct probe {
    bp_device device; /* the host device with link, run and seal of this file */
    bp_linked_program copies[BP_PROGRAM_COUNT];
    void *memory; /* to link one op in */
    bp_pool pool; /* that measures the peak */
    uint64_t (*loop)(uint64_t iterations, float *sink);
    uint64_t iterations;
    double peak; /* operations per second, as last measured */
    double since;
    bool counting;
    bool busy; /* seconds are the processor's */
    bp_checked checked;
    ops_row rows[ROWS_MOST];
    int row_count;
} probe;

static probe one;

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(one.busy ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void peak_task(void *context, uint64_t first, uint64_t last, uint32_t worker)
{
    float sink;
    double *rates = context;
    for (uint64_t i = first; i < last; i++) {
        double began = seconds_now();
        uint64_t done = one.loop(one.iterations, &sink);
        rates[worker] = (double)done / (seconds_now() - began);
    }
}

/* The sum of what the threads reach: one may have to wake first. */
static void measure_peak(void)
{
    double rates[BP_THREADS_MAX] = {0.0};
    one.peak = 0.0;
    bp_pool_run(&one.pool, peak_task, rates, one.pool.threads, true);
    for (uint32_t i = 0; i < one.pool.threads; i++) {
        one.peak += rates[i];
    }
    one.since = 0.0;
}

static bool peak_begin(uint32_t threads, const char *kernels)
{
    bool wide = strcmp(kernels, "avx512") == 0;
    bool narrow = strcmp(kernels, "avx2") == 0;
    one.loop = wide ? bp_peak_loop_avx512 : narrow ? bp_peak_loop_avx2 : bp_peak_loop_portable;
    one.iterations = 10000;
    if (bp_pool_open(&one.pool, threads) != BP_OK) {
        return false;
    }
    double began = seconds_now();
    measure_peak();
    one.iterations = (uint64_t)(1e4 * PEAK_SECONDS / (seconds_now() - began)) + 1;
    measure_peak();
    return true;
}

static double op_flops(bp_kernel kernel, const void *scalars)
{
    if (kernel == BP_KERNEL_matmul || kernel == BP_KERNEL_matmul_quantised) {
        const bp_matmul_scalars *s = scalars; /* both begin with m, n, k */
        return 2.0 * (double)s->m * (double)s->n * (double)s->k;
    }
    if (kernel == BP_KERNEL_attention_forward) {
        const bp_attention_forward_scalars *s = scalars;
        return (s->causal != 0 ? 2.0 : 4.0) * (double)s->batch * (double)s->sequence *
               (double)s->sequence * (double)s->heads * (double)s->head_width;
    }
    if (kernel == BP_KERNEL_attention_backward) {
        const bp_attention_backward_scalars *s = scalars;
        return (s->causal != 0 ? 5.0 : 10.0) * (double)s->batch * (double)s->sequence *
               (double)s->sequence * (double)s->heads * (double)s->head_width;
    }
    return 0.0;
}

static double op_bytes(const bp_linked_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    double bytes = 0.0;
    for (uint32_t t = 0; t < op->tuples && info->pending == BP_PENDING_NONE; t++) {
        bp_extent extents[BP_OPERANDS_MAX];
        uint32_t first = t * info->operand_count;
        info->extents((const uint64_t *)op->scalars + t * info->scalar_count, extents);
        for (uint32_t i = 0; i < info->operand_count; i++) {
            if (op->offsets[first + i] != BP_OFFSET_ABSENT) {
                bytes += (double)bp_extent_bytes(
                    &extents[i], bp_operand_element_bytes(info->operand[i].type,
                                                          (bp_dtype)op->dtypes[first + i]));
            }
        }
    }
    return bytes;
}

/* "matmul 256 x 2304 x 768 NT + bias gelu": op(a) is (m, k), op(b) (k, n). */
static void op_name(const bp_linked_op *op, char name[NAME_BYTES])
{
    const bp_matmul_scalars *s = op->scalars;
    const char *kernel = bp_kernel_describe(op->kernel)->name;
    if (op->kernel == BP_KERNEL_matmul_quantised) {
        snprintf(name, NAME_BYTES, "%s %lld x %lld x %lld", kernel, (long long)s->m,
                 (long long)s->n, (long long)s->k);
        return;
    }
    if (op->kernel != BP_KERNEL_matmul) {
        snprintf(name, NAME_BYTES, "%s", kernel);
        return;
    }
    enum { BEFORE = 1, BIAS = 4, RESIDUAL = 5 };
    snprintf(name, NAME_BYTES, "%s %lld x %lld x %lld %c%c%s%s%s%s%s", kernel, (long long)s->m,
             (long long)s->n, (long long)s->k, s->transpose_a != 0 ? 'T' : 'N',
             s->transpose_b != 0 ? 'T' : 'N', s->accumulate != 0 ? " accumulate" : "",
             op->offsets[BIAS] != BP_OFFSET_ABSENT ? " bias" : "",
             op->offsets[RESIDUAL] != BP_OFFSET_ABSENT ? " residual" : "",
             s->gelu != 0 ? " gelu" : "", op->offsets[BEFORE] != BP_OFFSET_ABSENT ? " before" : "");
}

static void count_op(const bp_linked_op *op, double seconds)
{
    const uint32_t scalars = bp_kernel_describe(op->kernel)->scalar_count;
    char name[NAME_BYTES];
    int r = 0;
    op_name(op, name);
    while (r < one.row_count && strcmp(one.rows[r].name, name) != 0) {
        r++;
    }
    if (r == ROWS_MOST) {
        return;
    }
    ops_row *row = &one.rows[r];
    if (r == one.row_count) {
        const bp_matmul_scalars *s = op->scalars;
        *row = (ops_row){.bytes = op_bytes(op)};
        memcpy(row->name, name, sizeof name);
        row->calls[0] = malloc(2 * CALLS_MOST * sizeof(double));
        row->calls[1] = row->calls[0] != NULL ? row->calls[0] + CALLS_MOST : NULL;
        for (uint32_t t = 0; t < op->tuples; t++) {
            row->flops += op_flops(op->kernel, (const uint64_t *)op->scalars + t * scalars);
        }
        if (op->kernel == BP_KERNEL_matmul || op->kernel == BP_KERNEL_matmul_quantised) {
            row->least = s->m < s->n ? s->m : s->n;
            row->least = row->least < s->k ? row->least : s->k;
        }
        one.row_count++;
    }
    if (row->count < CALLS_MOST && row->calls[0] != NULL) {
        row->calls[0][row->count] = seconds;
        row->calls[1][row->count] = seconds * one.peak;
    }
    row->count++;
}

static bp_status probe_link(void *context, uint32_t program, const bp_linked_program *linked,
                            void *memory, size_t bytes)
{
    one.copies[program] = *linked;
    return bp_device_host.link(context, program, linked, memory, bytes);
}

/* Not forwarded: a device that is not sealed links one op after the other. */
static bp_status probe_seal(void *context)
{
    (void)context;
    return BP_OK;
}

static bp_status probe_run(void *context, uint32_t program)
{
    const bp_linked_program *linked = &one.copies[program];
    for (uint32_t i = 0; i < linked->count; i++) {
        const bp_linked_program single = {&linked->ops[i], 1};
        BP_TRY(bp_device_host.link(context, SINGLE, &single, one.memory, MEGABYTES << 20));
        if (one.counting && one.since >= PEAK_EVERY) {
            measure_peak();
        }
        double began = seconds_now();
        BP_TRY(bp_device_host.run(context, SINGLE));
        double seconds = seconds_now() - began;
        one.since += seconds;
        if (one.counting) {
            count_op(&linked->ops[i], seconds);
        }
    }
    return BP_OK;
}

static bp_status probe_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const bp_spec *spec = source->context;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = (first + i) * UINT64_C(0x9e3779b97f4a7c15);
        if (spec->config.vocabulary == 0) { /* of images */
            const float number = (float)(x >> 40) * 0x1p-24f;
            memcpy(&to[i], &number, sizeof number);
            continue;
        }
        to[i] = (int32_t)((x >> 33) % spec->config.vocabulary);
    }
    return BP_OK;
}

/* Rows with a label, of models that judge samples. */
static bp_status probe_row(bp_source *source, uint64_t index, bp_example *to)
{
    const bp_spec *spec = source->context;
    *to = (bp_example){.first = index * spec->sequence, .count = spec->sequence};
    to->label = index % spec->config.classes;
    return BP_OK;
}

static bool run_steps(bp_runtime *runtime, const bp_spec *spec, uint32_t steps)
{
    bp_error error = {.code = BP_OK};
    bp_source source = {.context = (void *)(uintptr_t)spec,
                        .name = "made-up tokens",
                        .count = UINT64_C(1) << 40,
                        .read = probe_tokens};
    bp_feed feed = {.source = &source,
                    .error = &error,
                    .seed = spec->seed,
                    .sequence = spec->sequence,
                    .batch = spec->batch,
                    .group = spec->batch * spec->accumulation,
                    .vocabulary = spec->config.vocabulary,
                    .kind = bp_feed_labels(spec->config.task),
                    .masking = {.probability = 0.15, .special = {-1, -1, -1, -1}},
                    .shuffle = true};
    if (spec->config.task == BP_TASK_CLASSES) {
        feed.classes = spec->config.classes;
        source.examples = source.count / spec->sequence;
        source.example = probe_row;
    }
    bp_status status = bp_feed_init(&feed, &error);
    for (uint32_t i = 0; status == BP_OK && i < WARM_UP + steps; i++) {
        bp_outcome outcome;
        one.counting = i >= WARM_UP;
        status = bp_runtime_step(runtime, &feed, &outcome);
    }
    return status == BP_OK;
}

static bool open_and_run(bp_runtime *runtime, bp_plan *plan, const bp_spec *spec, uint32_t steps)
{
    const size_t bytes = (size_t)plan->report.arena_bytes;
    void *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) {
        return false;
    }
    (void)madvise(arena, bytes, MADV_HUGEPAGE);
    bool done = bp_runtime_open(runtime, plan, arena, bytes) == BP_OK &&
                bp_runtime_initialize(runtime) == BP_OK && run_steps(runtime, spec, steps);
    bp_runtime_close(runtime);
    (void)munmap(arena, bytes);
    return done;
}

static int by_seconds(const void *a, const void *b)
{
    const ops_row *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From one call to the calls of a step, by medians. */
static void sum_up(ops_row *row, uint32_t steps)
{
    size_t count = row->count < CALLS_MOST ? (size_t)row->count : CALLS_MOST;
    double calls = (double)row->count / steps;
    if (row->calls[0] == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        qsort(row->calls[i], count, sizeof(double), by_value);
    }
    row->seconds = calls * row->calls[0][count / 2];
    row->possible = calls * row->calls[1][count / 2];
    row->flops *= calls;
    row->bytes *= calls;
    free(row->calls[0]);
}

static void add_row(ops_row *sum, const ops_row *row)
{
    sum->count += row->count;
    sum->seconds += row->seconds;
    sum->flops += row->flops;
    sum->bytes += row->bytes;
    sum->possible += row->possible;
}

static void print_row(const ops_row *row, double all, uint32_t steps)
{
    printf("| %s | %.0f | %.2f | %.1f | %.1f |", row->name, (double)row->count / steps,
           1e3 * row->seconds, 100.0 * row->seconds / all, 1e-9 * row->bytes / row->seconds);
    if (row->flops > 0.0) {
        printf(" %.3f |\n", row->flops / row->possible);
    } else {
        printf(" |\n");
    }
}

static void print_rows(uint32_t steps)
{
    ops_row all = {.name = "all"};
    ops_row products = {.name = "all products"};
    ops_row large = {.name = "products of dimensions of 256 and more"};
    for (int i = 0; i < one.row_count; i++) {
        sum_up(&one.rows[i], steps);
        add_row(&all, &one.rows[i]);
        if (one.rows[i].least > 0) {
            add_row(&products, &one.rows[i]);
        }
        if (one.rows[i].least >= 256) {
            add_row(&large, &one.rows[i]);
        }
    }
    qsort(one.rows, (size_t)one.row_count, sizeof one.rows[0], by_seconds);
    printf("| op | a step | ms | %% | GB/s | of peak |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < one.row_count; i++) {
        print_row(&one.rows[i], all.seconds, steps);
    }
    print_row(&large, all.seconds, steps);
    print_row(&products, all.seconds, steps);
    print_row(&all, all.seconds, steps);
    printf("\nThe peak: %.1f GFLOP/s.\n", 1e-9 * all.possible / all.seconds);
}

/* The model that the arguments name; false: there is none. */
static bool config_of(int argc, char **argv, bp_model_config *config)
{
    static uint64_t scratch[BP_HF_CONFIG_SCRATCH / sizeof(uint64_t)];
    static bp_store_posix posix;
    bp_error error = {.code = BP_OK};
    const char *model = word(argc, argv, "model", NULL);
    const bp_preset *preset = bp_preset_find(word(argc, argv, "preset", "gpt2"));
    if (model == NULL) {
        *config = preset != NULL ? bp_preset_config(preset) : *config;
        return preset != NULL;
    }
    return bp_store_posix_init(&posix, model) == BP_OK &&
           bp_hf_config_read(&posix.store, "config.json", scratch, config, &error) == BP_OK;
}

static bp_spec spec_of(int argc, char **argv, const bp_model_config *config)
{
    static const char *const everywhere[] = {"all-linear"};
    const char *type = word(argc, argv, "type", "f32");
    const char *quantised = word(argc, argv, "quant", "none");
    const bp_dtype working = strcmp(type, "bf16") == 0 ? BP_BF16 : BP_F32;
    bp_spec spec = {.model = config->family->model,
                    .config = *config,
                    .optimizer = &bp_optimizer_adamw,
                    .optimizer_options = {.learning_rate = 1e-4,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .epsilon = 1e-8,
                                          .max_grad_norm = 1.0},
                    .device = &one.device,
                    .device_options = {.threads = number(argc, argv, "threads", "1"),
                                       .variant = word(argc, argv, "kernels", "avx512")},
                    .working = working,
                    .gradient = working,
                    .master = working == BP_F32 ? BP_MASTER_WEIGHT : BP_MASTER_SPLIT,
                    .batch = number(argc, argv, "batch", "4"),
                    .sequence = number(argc, argv, "sequence", "64"),
                    .accumulation = number(argc, argv, "accumulation", "1"),
                    .lora = {.rank = number(argc, argv, "lora", "0"),
                             .alpha = 16.0,
                             .targets = everywhere,
                             .target_count = 1},
                    .quantised = strcmp(quantised, "nf4") == 0    ? BP_QUANTISED_NF4
                                 : strcmp(quantised, "int8") == 0 ? BP_QUANTISED_INT8
                                                                  : BP_QUANTISED_NONE};
    bp_family_set_dropouts(&spec.config, 0.0);
    return spec;
}

int main(int argc, char **argv)
{
    static bp_plan plan;
    static bp_runtime runtime;
    bp_model_config config = {0};
    const char *name = word(argc, argv, "model", word(argc, argv, "preset", "gpt2"));
    const uint32_t steps = number(argc, argv, "steps", "4");
    if (!config_of(argc, argv, &config) || steps == 0) {
        fprintf(stderr, "step_ops: %s: no such model, or no steps\n", name);
        return 2;
    }
    one.busy = strcmp(word(argc, argv, "clock", "wall"), "busy") == 0;
    one.device = bp_device_host;
    one.device.link = probe_link;
    one.device.run = probe_run;
    one.device.seal = probe_seal;
    one.memory = malloc(MEGABYTES << 20);
    bp_spec spec = spec_of(argc, argv, &config);
    spec.device_options.verify = number(argc, argv, "verify", "0") != 0 ? &one.checked : NULL;
    void *memory = NULL;
    bool done = one.memory != NULL && bench_plan(&plan, &spec, &memory) &&
                peak_begin(spec.device_options.threads, spec.device_options.variant) &&
                open_and_run(&runtime, &plan, &spec, steps);
    if (done) {
        printf("%s %u x %u, %u threads, %s\n\n", name, spec.batch, spec.sequence,
               spec.device_options.threads, spec.device_options.variant);
        print_rows(steps);
        if (one.checked.ops > 0) {
            printf("\nChecked: %llu ops, %llu columns computed again, %llu repaired, %llu own\n",
                   (unsigned long long)one.checked.ops, (unsigned long long)one.checked.columns,
                   (unsigned long long)one.checked.repaired, (unsigned long long)one.checked.own);
        }
    } else {
        const bp_error *error = bp_plan_error(&plan);
        fprintf(stderr, "step_ops: %s: %s %s\n", name, error->text, error->name);
    }
    free(memory);
    free(one.memory);
    return done ? 0 : 1;
}
