/* SPDX-License-Identifier: MIT */
/* Kernels of the CUDA device by themselves: products in GFLOP/s, attention likewise, and what
 * memory bounds against a copy that was measured in the same run.
 *
 *     build/release/tools/bench/gpu_kernels [N [REPEATS [SECTION..]]]
 *
 * N is the side of the products (4096) and sets the other sizes; a program of REPEATS (20) equal
 * launches is replayed ROUNDS times and the fastest counts. Sections: modules (what the driver's
 * compiler makes of each text), products, shapes (those of training), attention, memory, tiles; all
 * where none is named. Elements are random numbers, since a
 * GPU's clock is kinder to zeros; ids and labels are 0. What memory bounds is several times a
 * cache. On a Hopper the rows of device/cuda/hopper_tiles.h are measured too. `make gpu` runs it,
 * and `make gpu REHEARSE=1` with a tiny N on tools/ptxvm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/ir/device.h"
#include "core/base/dtype.h"
#include "core/base/random.h"
#include "core/ir/step.h"
#include "core/ops/codec.h"
#include "core/ops/master.h"
#include "core/ops/quantised.h"
#include "device/cuda/context.h"
#include "device/cuda/cuda.h"
#include "device/cuda/hopper_tiles.h"
#include "device/cuda/query.h"

#define ROUNDS      3
#define REPEATS_MAX 64
#define PATTERN     (1 << 18) /* random numbers */

static bp_error error;

static void die(const char *what)
{
    printf("FAILED: %s: %s %s\n", what, error.text != NULL ? error.text : "", error.name);
    exit(1);
}

/* One op, many times, as a program of a device of its own. */
typedef struct job {
    const char *name;
    bp_kernel kernel;
    bp_dtype working;
    bp_dtype other;      /* of operands with a type of their own */
    const void *scalars; /* of the one tuple */
    uint32_t absent;     /* bit i: operand i is not there */
    double flops;        /* of one launch; 0: its bytes are what counts */
    uint32_t repeats;
    uint32_t tile; /* of Hopper's products; 0: the planner's choice */
} job;

typedef struct layout {
    uint64_t offsets[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    uint64_t end;
    double moved; /* bytes read and written by one launch */
} layout;

static layout lay_out(const job *j)
{
    const bp_kernel_info *info = bp_kernel_describe(j->kernel);
    const bp_device_options options = {.threads = 1};
    bp_extent extents[BP_OPERANDS_MAX];
    layout l = {.end = 0};
    info->extents(j->scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        l.dtypes[i] = (uint8_t)(info->operand[i].type == BP_TYPE_FLOAT ||
                                        info->operand[i].type == BP_TYPE_WEIGHT
                                    ? j->other
                                    : j->working);
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        bool workspace = info->operand[i].workspace;
        size_t element = bp_operand_element_bytes(info->operand[i].type, (bp_dtype)l.dtypes[i]);
        uint64_t bytes = workspace
                             ? bp_device_cuda.workspace(&options, j->kernel, j->scalars, l.dtypes)
                             : bp_extent_bytes(&extents[i], element);
        bool absent = (j->absent >> i & 1) != 0 || bytes == 0;
        l.offsets[i] = absent ? BP_OFFSET_ABSENT : l.end;
        l.end += absent ? 0 : bp_size_align(bytes, BP_ARENA_ALIGNMENT);
        double ways = (extents[i].access & BP_ACCESS_READ ? 1.0 : 0.0) +
                      (extents[i].access & BP_ACCESS_WRITE ? 1.0 : 0.0);
        l.moved += absent || workspace ? 0.0 : ways * (double)bytes;
    }
    return l;
}

static double seconds(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *take(uint64_t bytes)
{
    void *memory = malloc((size_t)bytes);
    if (memory == NULL) {
        die("memory");
    }
    return memory;
}

static void upload(void *context, uint64_t to, const void *from, size_t bytes)
{
    if (bp_device_cuda.upload(context, to, from, bytes) != BP_OK) {
        die("upload");
    }
}

/* Random numbers over `bytes` bytes, the same ones again after PATTERN of them. */
static void upload_random(void *context, uint64_t to, uint64_t bytes, bp_dtype dtype)
{
    static unsigned char pattern[PATTERN * sizeof(float)];
    uint64_t size = bp_dtype_bytes(dtype), length = PATTERN * size;
    for (uint64_t i = 0; i < PATTERN; i++) {
        float x = (float)bp_random_uniform(1, 2, i) - 0.5f;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        uint16_t narrow = dtype == BP_F16 ? bp_f16_from_f32(x) : (uint16_t)(bits >> 16);
        memcpy(pattern + i * size, dtype == BP_F32 ? (void *)&x : (void *)&narrow, size);
    }
    for (uint64_t done = 0; done < bytes; done += length) {
        upload(context, to + done, pattern, bytes - done < length ? bytes - done : length);
    }
}

static void upload_zeros(void *context, uint64_t to, uint64_t bytes)
{
    static const unsigned char zeros[1 << 16];
    for (uint64_t done = 0; done < bytes; done += sizeof zeros) {
        const uint64_t left = bytes - done;
        upload(context, to + done, zeros, left < sizeof zeros ? (size_t)left : sizeof zeros);
    }
}

/* Elements, and a step block that makes sense, wherever an op reads them. */
static void fill(const job *j, const layout *l, void *context)
{
    const bp_kernel_info *info = bp_kernel_describe(j->kernel);
    const bp_step_block step = {.learning_rate = 1e-3f, .inverse_valid = 1e-3f};
    bp_extent extents[BP_OPERANDS_MAX];
    info->extents(j->scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        const bp_operand_info *operand = &info->operand[i];
        bp_dtype dtype = operand->type == BP_TYPE_F32 ? BP_F32 : (bp_dtype)l->dtypes[i];
        if (l->offsets[i] == BP_OFFSET_ABSENT || operand->workspace ||
            (extents[i].access & BP_ACCESS_READ) == 0) {
            continue;
        }
        const bool floats = operand->type <= BP_TYPE_WEIGHT || operand->type == BP_TYPE_F32;
        if (!floats) { /* ids, codes, control blocks: 0 */
            upload_zeros(
                context, l->offsets[i],
                bp_extent_bytes(&extents[i], bp_operand_element_bytes(operand->type, dtype)));
        }
        if (strcmp(operand->name, "step") == 0) {
            upload(context, l->offsets[i], &step, sizeof step);
        } else if (floats) {
            upload_random(context, l->offsets[i],
                          bp_extent_bytes(&extents[i], bp_dtype_bytes(dtype)), dtype);
        }
    }
}

static double time_program(void *context)
{
    double best = 1e30;
    for (int round = 0; round <= ROUNDS; round++) {
        double began = seconds();
        if (bp_device_cuda.run(context, 0) != BP_OK || bp_device_cuda.wait(context) != BP_OK) {
            die("run");
        }
        double took = seconds() - began;
        best = round > 0 && took < best ? took : best; /* the first one warms up */
    }
    return best;
}

/* The best target of the GPU, so that its own forms are timed; tiles are Hopper's. */
static const char *target_of(const job *j)
{
    bp_cuda_gpu gpu;
    if (j->tile > 0) {
        return "sm_90a";
    }
    return bp_cuda_query(0, &gpu, &error) == BP_OK ? gpu.target : NULL;
}

/* Seconds of one launch; *moved becomes its bytes. */
static double measure(const job *j, double *moved)
{
    const bp_device *cuda = &bp_device_cuda;
    const bp_kernel_info *info = bp_kernel_describe(j->kernel);
    const bp_device_options options = {.threads = 1, .target = target_of(j)};
    layout l = lay_out(j);
    bp_linked_op ops[REPEATS_MAX];
    uint64_t table = l.end, tables = bp_device_cuda.table_bytes(j->kernel, 1);
    for (uint32_t i = 0; i < j->repeats; i++) {
        ops[i] = (bp_linked_op){j->kernel, 1, l.offsets, j->scalars, l.dtypes, table};
    }
    const bp_linked_program program = {ops, j->repeats};
    void *context = take(cuda->context_bytes);
    uint64_t bytes = cuda->link_bytes(j->repeats, (uint64_t)j->repeats * info->operand_count,
                                      (uint64_t)j->repeats * info->scalar_count);
    void *memory = take(bytes);
    const bp_regions places = bp_regions_device(NULL, l.end + tables);
    if (cuda->open(context, &options, &places, &error) != BP_OK) {
        die(j->name);
    }
    ((cuda_context *)context)->target.tile = j->tile;
    if (cuda->link(context, 0, &program, memory, bytes) != BP_OK || cuda->seal(context) != BP_OK) {
        die(j->name);
    }
    fill(j, &l, context);
    double best = time_program(context) / j->repeats;
    cuda->close(context);
    free(memory);
    free(context);
    *moved = l.moved;
    return best;
}

static const char *const types[] = {"f32", "bf16", "f16"};

#define BIT(kernel, name)                                                                          \
    (UINT32_C(1) << (uint32_t)(offsetof(bp_##kernel##_operands, name) / sizeof(bp_ref)))

static void products(int64_t n, uint32_t repeats)
{
    static const struct {
        const char *name;
        int64_t a;
        int64_t b;
    } forms[] = {{"forward  x w^T", 0, 1}, {"inputs   d w  ", 0, 0}, {"weights  d^T x", 1, 0}};
    uint32_t absent = BIT(matmul, before) | BIT(matmul, bias) | BIT(matmul, residual);
    printf("products of %lld x %lld x %lld\n", (long long)n, (long long)n, (long long)n);
    for (uint32_t type = BP_F32; type <= BP_F16; type++) {
        for (size_t form = 0; form < 3; form++) {
            const bp_matmul_scalars s = {.m = n,
                                         .n = n,
                                         .k = n,
                                         .lda = n,
                                         .ldb = n,
                                         .ldc = n,
                                         .transpose_a = forms[form].a,
                                         .transpose_b = forms[form].b};
            bp_dtype dtype = (bp_dtype)type, sum = form == 2 ? BP_F32 : dtype;
            double moved, flops = 2.0 * (double)n * (double)n * (double)n;
            const job j = {"matmul", BP_KERNEL_matmul, dtype, sum, &s, absent, flops, repeats, 0};
            double took = measure(&j, &moved);
            printf("  %-4s %s  %10.3f ms  %10.1f GFLOP/s\n", types[type], forms[form].name,
                   took * 1e3, flops / took * 1e-9);
        }
    }
}

/* Rows, outputs and terms of products in training, as tests/gpu/visit.py has PyTorch make them:
 * GPT-2 124M at 16 x 1024 and Llama 3 8B at 4 x 2048. bf16 with bias, and where GELU follows with
 * it. */
static const struct {
    int64_t m, n, k;
    bool gelu;
} shapes_of[] = {
    {16384, 2304, 768, false}, {16384, 768, 768, false},   {16384, 3072, 768, false},
    {16384, 3072, 768, true},  {16384, 768, 3072, false},  {16384, 50304, 768, false},
    {8192, 4096, 4096, false}, {8192, 14336, 4096, false}, {8192, 4096, 14336, false},
};
#define SHAPES (sizeof shapes_of / sizeof shapes_of[0])

static void print_product(const char *name, const job *j, int64_t m, int64_t n, int64_t k)
{
    double moved;
    const double took = measure(j, &moved);
    printf("  %-12s %6lld %6lld %6lld  %10.1f us  %8.1f TFLOP/s\n", name, (long long)m,
           (long long)n, (long long)k, took * 1e6, j->flops / took * 1e-12);
}

static void quantised_shape(int64_t m, int64_t n, int64_t k, uint32_t repeats)
{
    const bp_matmul_quantised_scalars s = {
        .m = m, .n = n, .k = k, .lda = k, .ldc = n, .transpose_b = 1, .form = BP_QUANTISED_NF4};
    const uint32_t absent = BIT(matmul_quantised, before) | BIT(matmul_quantised, bias) |
                            BIT(matmul_quantised, residual) | BIT(matmul_quantised, nested);
    const double flops = 2.0 * (double)m * (double)n * (double)k;
    const job j = {"matmul_quantised",
                   BP_KERNEL_matmul_quantised,
                   BP_BF16,
                   BP_BF16,
                   &s,
                   absent,
                   flops,
                   repeats,
                   0};
    print_product("NF4", &j, m, n, k);
}

static void shapes(int64_t n, uint32_t repeats)
{
    const int64_t by = n >= 1024 ? 1 : 64; /* a rehearsal's are small */
    const size_t count = n >= 1024 ? SHAPES : 4;
    printf("products of training, bf16: rows, outputs, terms\n");
    for (size_t i = 0; i < count; i++) {
        const int64_t m = by == 1 ? shapes_of[i].m : 16;
        const int64_t across = shapes_of[i].n / by, k = shapes_of[i].k / by / 8 * 8 + 8 * (by > 1);
        const bp_matmul_scalars s = {.m = m,
                                     .n = across,
                                     .k = k,
                                     .lda = k,
                                     .ldb = k,
                                     .ldc = across,
                                     .transpose_b = 1,
                                     .gelu = shapes_of[i].gelu};
        const uint32_t absent =
            BIT(matmul, residual) | (shapes_of[i].gelu ? 0 : BIT(matmul, before));
        const double flops = 2.0 * (double)m * (double)across * (double)k;
        const job j = {"matmul", BP_KERNEL_matmul, BP_BF16, BP_BF16, &s, absent, flops, repeats, 0};
        print_product(shapes_of[i].gelu ? "bias, GELU" : "bias", &j, m, across, k);
    }
    for (size_t i = 6; n >= 1024 && i < SHAPES; i++) {
        quantised_shape(shapes_of[i].m, shapes_of[i].n, shapes_of[i].k, repeats);
    }
}

/* Of bf16, as tests/gpu/visit.py has PyTorch's fused attention make them. */
static void attention_shapes(int64_t n, uint32_t repeats)
{
    static const int64_t of[][4] = {{16, 12, 1024, 64}, {4, 32, 2048, 128}, {1, 32, 8192, 128}};
    const int64_t by = n >= 1024 ? 1 : 64;
    printf("attention of training, bf16: sequences, heads, tokens, width\n");
    for (size_t i = 0; i < (by > 1 ? 1u : 3u); i++) {
        const int64_t batch = by > 1 ? 1 : of[i][0], heads = by > 1 ? 1 : of[i][1];
        const bp_attention_forward_scalars f = {.batch = batch,
                                                .sequence = of[i][2] / by,
                                                .heads = heads,
                                                .kv_heads = heads,
                                                .head_width = of[i][3],
                                                .causal = 1,
                                                .scale = 0.125};
        const bp_attention_backward_scalars b = {.batch = batch,
                                                 .sequence = of[i][2] / by,
                                                 .heads = heads,
                                                 .kv_heads = heads,
                                                 .head_width = of[i][3],
                                                 .causal = 1,
                                                 .scale = 0.125};
        const job jobs[] = {{"forward", BP_KERNEL_attention_forward, BP_BF16, BP_BF16, &f,
                             BIT(attention_forward, lengths), 0.0, repeats, 0},
                            {"backward", BP_KERNEL_attention_backward, BP_BF16, BP_BF16, &b,
                             BIT(attention_backward, lengths), 0.0, repeats, 0}};
        for (size_t k = 0; k < 2; k++) {
            double moved;
            printf("  %lld %lld %lld %lld %-9s %10.1f us\n", (long long)batch, (long long)heads,
                   (long long)(of[i][2] / by), (long long)of[i][3], jobs[k].name,
                   measure(&jobs[k], &moved) * 1e6);
        }
    }
}

static void attentions(int64_t n, uint32_t repeats)
{
    int64_t sequence = n / 4, heads = 12, width = 64, batch = n >= 1024 ? 8 : 1;
    const bp_attention_forward_scalars f = {.batch = batch,
                                            .sequence = sequence,
                                            .heads = heads,
                                            .kv_heads = heads,
                                            .head_width = width,
                                            .causal = 1,
                                            .scale = 0.125};
    const bp_attention_backward_scalars b = {.batch = batch,
                                             .sequence = sequence,
                                             .heads = heads,
                                             .kv_heads = heads,
                                             .head_width = width,
                                             .causal = 1,
                                             .scale = 0.125};
    uint32_t f_absent = BIT(attention_forward, lengths);
    uint32_t b_absent = BIT(attention_backward, lengths);
    double pairs = 0.5 * (double)sequence * (double)(sequence + 1) * (double)(batch * heads);
    printf("attention, %lld x %lld tokens, 12 heads of 64\n", (long long)batch,
           (long long)sequence);
    for (uint32_t type = BP_F32; type <= BP_F16; type++) {
        bp_dtype dtype = (bp_dtype)type;
        double moved, forward = 4.0 * pairs * (double)width;
        const job jobs[] = {
            {"forward ", BP_KERNEL_attention_forward, dtype, dtype, &f, f_absent, forward, repeats,
             0},
            {"backward", BP_KERNEL_attention_backward, dtype, dtype, &b, b_absent, 2.5 * forward,
             repeats, 0},
        };
        for (size_t i = 0; i < 2; i++) {
            double took = measure(&jobs[i], &moved);
            printf("  %-4s %s        %10.3f ms  %10.1f GFLOP/s\n", types[type], jobs[i].name,
                   took * 1e3, jobs[i].flops / took * 1e-9);
        }
    }
}

static void bound_by_memory(int64_t n, uint32_t repeats)
{
    int64_t rows = n * 16, width = n >= 768 ? 768 : n, count = rows * width;
    const bp_copy_scalars copy = {.count = count};
    const bp_gelu_forward_scalars gelu = {.count = count};
    const bp_gelu_backward_scalars slope = {.count = count};
    const bp_dropout_scalars dropout = {
        .count = count, .per_sample = count, .site = 1, .dropout = 0.1};
    const bp_layernorm_forward_scalars norm = {.rows = rows, .width = width, .epsilon = 1e-5};
    const bp_layernorm_backward_input_scalars inputs = {.rows = rows, .width = width};
    const bp_layernorm_backward_parameters_scalars sums = {.rows = rows, .width = width};
    const bp_bias_backward_scalars bias = {.rows = rows, .n = width, .pitch = width};
    const bp_cross_entropy_scalars loss = {
        .rows = rows / 64, .vocabulary = n * 12, .pitch = n * 12};
    const struct {
        const char *name;
        bp_kernel kernel;
        const void *scalars;
        uint32_t absent;
    } rows_of[] = {
        {"copy", BP_KERNEL_copy, &copy, 0},
        {"gelu_forward", BP_KERNEL_gelu_forward, &gelu, 0},
        {"gelu_backward", BP_KERNEL_gelu_backward, &slope, 0},
        {"dropout", BP_KERNEL_dropout, &dropout, 0},
        {"layernorm_forward", BP_KERNEL_layernorm_forward, &norm, 0},
        {"layernorm_backward_input", BP_KERNEL_layernorm_backward_input, &inputs, 0},
        {"layernorm_backward_parameters", BP_KERNEL_layernorm_backward_parameters, &sums, 0},
        {"bias_backward", BP_KERNEL_bias_backward, &bias, 0},
        {"cross_entropy", BP_KERNEL_cross_entropy, &loss, BIT(cross_entropy, statistics)},
    };
    printf("bound by memory, against the copy of floats\n");
    double copied = 0.0;
    for (uint32_t type = BP_F32; type <= BP_F16; type++) {
        for (size_t i = 0; i < sizeof rows_of / sizeof rows_of[0]; i++) {
            double moved = 0.0;
            const job j = {rows_of[i].name,
                           rows_of[i].kernel,
                           (bp_dtype)type,
                           BP_F32,
                           rows_of[i].scalars,
                           rows_of[i].absent,
                           0.0,
                           repeats,
                           0};
            double rate = 1e-9 * measure(&j, &moved);
            rate = rate > 0.0 ? moved * 1e-18 / rate : 0.0; /* GB/s */
            copied = copied == 0.0 ? rate : copied;
            printf("  %-4s %-30s %9.1f GB/s  %5.1f %%\n", types[type], rows_of[i].name, rate,
                   100.0 * rate / copied);
        }
    }
}

/* Updates of 124M weights in bf16, their masters in fp32, against the copy of floats. */
static void updates(int64_t n, uint32_t repeats)
{
    const int64_t count = n >= 1024 ? 124439808 : 4096;
    const bp_copy_scalars copy = {.count = count};
    const job floats = {"copy", BP_KERNEL_copy, BP_F32, BP_F32, &copy, 0, 0.0, repeats, 0};
    const struct {
        const char *name;
        bp_codec form;
    } of[] = {{"adamw, states in fp32", BP_CODEC_F32}, {"adamw_8bit", BP_CODEC_BLOCK8}};
    double moved, took = measure(&floats, &moved);
    const double copied = moved / took;
    printf("updates of %lld weights\n", (long long)count);
    for (size_t i = 0; i < 2; i++) {
        const bp_adamw_scalars s = {.count = count,
                                    .form = of[i].form,
                                    .master_form = BP_MASTER_FP32,
                                    .decay = 0.1,
                                    .rate_scale = 1.0,
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .epsilon = 1e-8};
        const job j = {of[i].name, BP_KERNEL_adamw,
                       BP_BF16,    BP_BF16,
                       &s,         BIT(adamw, state3) | BIT(adamw, trust),
                       0.0,        repeats,
                       0};
        took = measure(&j, &moved);
        printf("  %-30s %10.1f us  %9.1f GB/s  %5.1f %%\n", of[i].name, took * 1e6,
               moved / took * 1e-9, 100.0 * moved / took / copied);
    }
}

/* Most registers and bytes of local memory of a module's functions. */
static void module_takes(const bp_cu_driver *driver, const bp_cuda_module *module, bp_cu_module of,
                         int *registers, int *local)
{
    for (uint32_t i = 0; i < module->function_count; i++) {
        bp_cu_function function = NULL;
        int value = 0;
        if (module->functions[i].name == NULL ||
            driver->cuModuleGetFunction(&function, of, module->functions[i].name) !=
                BP_CU_SUCCESS) {
            continue;
        }
        if (driver->cuFuncGetAttribute(&value, BP_CU_FUNCTION_REGISTERS, function) ==
            BP_CU_SUCCESS) {
            *registers = value > *registers ? value : *registers;
        }
        if (driver->cuFuncGetAttribute(&value, BP_CU_FUNCTION_LOCAL_BYTES, function) ==
            BP_CU_SUCCESS) {
            *local = value > *local ? value : *local;
        }
    }
}

/* What the driver's compiler makes of each text that this GPU runs, without its cache. */
static void modules(void)
{
    char log[2048];
    bp_cu_jit_option options[] = {BP_CU_JIT_ERROR_LOG, BP_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    const job none = {.tile = 0};
    const bp_device_options how = {.threads = 1, .target = target_of(&none)};
    const bp_regions places = bp_regions_device(NULL, 4096);
    (void)setenv("CUDA_CACHE_DISABLE", "1", 1);
    cuda_context *context = take(bp_device_cuda.context_bytes);
    if (bp_device_cuda.open(context, &how, &places, &error) != BP_OK) {
        die("modules");
    }
    printf("modules: ms of the driver's compiler, most registers, bytes of local memory\n");
    for (uint32_t i = 0; i < bp_cuda_module_count; i++) {
        const bp_cuda_module *module = &bp_cuda_modules[i];
        bp_cu_module made = NULL;
        int registers = 0, local = 0;
        if (bp_cuda_target_rank(&context->target, module->target) < 0) {
            continue;
        }
        memset(log, 0, sizeof log);
        const double began = seconds();
        const bp_cu_result result =
            context->driver.cuModuleLoadDataEx(&made, module->begin, 2, options, values);
        const double took = seconds() - began;
        if (result != BP_CU_SUCCESS) {
            printf("  %-24s %-7s FAILED (%d) %s\n", module->name, module->target, (int)result, log);
            continue;
        }
        module_takes(&context->driver, module, made, &registers, &local);
        (void)context->driver.cuModuleUnload(made);
        printf("  %-24s %-7s %8.1f ms  %3d registers  %d bytes\n", module->name, module->target,
               took * 1e3, registers, local);
    }
    bp_device_cuda.close(context);
    free(context);
}

/* Seconds of a product of bf16 of so many tiles, k terms long. */
static double time_tiles(uint32_t tile, int64_t down, int64_t across, int64_t k, uint32_t repeats)
{
    const bp_hopper_tile *t = &bp_hopper_tiles[tile];
    const int64_t pitch = k > 1024 ? k : 1024; /* a tensor map's operand has 128 KiB */
    const bp_matmul_scalars s = {.m = down * t->rows,
                                 .n = across * t->columns,
                                 .k = k,
                                 .lda = pitch,
                                 .ldb = pitch,
                                 .ldc = across * t->columns,
                                 .transpose_b = 1};
    const uint32_t absent = BIT(matmul, before) | BIT(matmul, bias) | BIT(matmul, residual);
    double moved;
    const job j = {"matmul", BP_KERNEL_matmul, BP_BF16, BP_BF16, &s, absent,
                   0.0,      repeats,          tile + 1};
    return measure(&j, &moved);
}

/* The rows of device/cuda/hopper_tiles.h anew, in tenths of a nanosecond: from two products of four
 * waves of tiles on 132 multiprocessors, or of one tile, that differ in their terms alone. */
static void tiles(int64_t n, uint32_t repeats)
{
    const bool large = n >= 1024;
    const int64_t few = large ? n / 4 / 64 : 1, many = large ? n / 32 : 2; /* slices */
    const int64_t down = large ? 66 : 1, across = large ? 8 : 1, waves = large ? 4 : 1;
    bp_cuda_gpu gpu;
    const bool on_hopper = bp_cuda_query(0, &gpu, &error) == BP_OK && gpu.target != NULL &&
                           strcmp(gpu.target, "sm_90a") == 0;
    printf("%s\n", on_hopper ? "Hopper's tiles, for device/cuda/hopper_tiles.h"
                             : "Hopper's tiles: this GPU is none");
    for (uint32_t i = 0; on_hopper && i < BP_HOPPER_TILES; i++) {
        const bp_hopper_tile *t = &bp_hopper_tiles[i];
        const double brief = time_tiles(i, down, across, few * 64, repeats) / (double)waves;
        const double whole = time_tiles(i, down, across, many * 64, repeats) / (double)waves;
        const double slice = (whole - brief) / (double)(many - few);
        printf("    {%u, %u, %u, %.0f, %.0f},\n", t->rows, t->columns, t->shared, slice * 1e10,
               (brief - slice * (double)few) * 1e10);
    }
}

static bool asked(int count, char **arguments, const char *section)
{
    bool found = count <= 3;
    for (int i = 3; i < count; i++) {
        found = found || strcmp(arguments[i], section) == 0;
    }
    (void)fflush(stdout); /* what came before a fault is there */
    return found;
}

int main(int count, char **arguments)
{
    static const char *const names[] = {"modules",   "products", "shapes",
                                        "attention", "memory",   "tiles"};
    int64_t n = count > 1 ? atoll(arguments[1]) : 4096;
    uint32_t repeats = count > 2 ? (uint32_t)atoi(arguments[2]) : 20;
    bool known = true;
    for (int i = 3; i < count; i++) {
        bool one = false;
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            one = one || strcmp(arguments[i], names[k]) == 0;
        }
        known = known && one;
    }
    if (n < 16 || n > 65536 || repeats < 1 || repeats > REPEATS_MAX || !known) {
        printf("usage: gpu_kernels [N 16 to 65536 [REPEATS 1 to %d [SECTION..]]], of modules, "
               "products, shapes, attention, memory, tiles\n",
               REPEATS_MAX);
        return 2;
    }
    if (asked(count, arguments, "modules")) {
        modules();
    }
    if (asked(count, arguments, "products")) {
        products(n, repeats);
    }
    if (asked(count, arguments, "shapes")) {
        shapes(n, repeats);
    }
    if (asked(count, arguments, "attention")) {
        attentions(n, repeats);
        attention_shapes(n, repeats);
    }
    if (asked(count, arguments, "memory")) {
        bound_by_memory(n, repeats);
        updates(n, repeats);
    }
    if (asked(count, arguments, "tiles")) {
        tiles(n, repeats);
    }
    return 0;
}
