/* SPDX-License-Identifier: MIT */
/* Which text of a family of kernels a GPU gets: by family, working type and target, and sm_80's
 * where there is no other or the driver does not take it. This program brings its own table of
 * modules, with kernels that write down which text they are from. */
/* A program of its own (tests/suite.sh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/context.h"
#include "device/cuda/ptx_table.h"
#include "device/cuda/query.h"
#include "tests/fixtures/fake_driver.h"

#define ARENA_BYTES (UINT64_C(1) << 16)
#define SOURCE      4096

/* Thread 0 of every kernel writes a word to its first operand. */
#define TEXT(version, target, name, word)                                                          \
    ".version " version "\n.target " target "\n.address_size 64\n"                                 \
    ".visible .entry " name "(.param .u64 to)\n"                                                   \
    "{\n.reg .u32 %r<2>;\n.reg .u64 %d<2>;\n.reg .pred %p<2>;\n"                                   \
    "ld.param.u64 %d0, [to];\nsetp.eq.u64 %p0, %d0, 0;\n@%p0 ret;\n"                               \
    "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\n"                                  \
    "st.global.u32 [%d0], " word ";\nret;\n}\n"

static const char copy_80[] = TEXT("7.4", "sm_80", "copy", "80");
static const char copy_90a[] = TEXT("8.0", "sm_90a", "copy", "90");
static const char norm_80[] = TEXT("7.4", "sm_80", "norm", "80");
static const char norm_90a[] = TEXT("8.0", "sm_90a", "norm", "fly.me.to.the.moon");
static const char table_80[] = TEXT("7.4", "sm_80", "table", "80");
static const char table_90a[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                ".visible .entry table(.param .u64 to)\n"
                                "{\n.local .align 4 .b8 depot[16];\nret;\n}\n";
static const char rotary_90a[] = TEXT("8.0", "sm_90a", "rotary", "fly.me.to.the.moon");

static const bp_cuda_function copies[16] = {[BP_CUDA_FUNCTION_copy] = {"copy", 0}};
static const bp_cuda_function norms[16] = {[BP_CUDA_FUNCTION_layernorm_forward] = {"norm", 0}};
static const bp_cuda_function tables[16] = {[BP_CUDA_FUNCTION_embedding_forward] = {"table", 0}};
static const bp_cuda_function rotaries[16] = {[BP_CUDA_FUNCTION_rotary_table] = {"rotary", 0}};

#define ROW(name, target, family, types, text, functions)                                          \
    {                                                                                              \
        name, target, BP_CUDA_FAMILY_##family, BP_CUDA_TYPES_##types,                              \
            (const unsigned char *)(text), (const unsigned char *)(text) + sizeof(text) - 1,       \
            functions, 16                                                                          \
    }

/* The special text of copies is for 16 bits alone; that of norms no driver takes; rotary tables
 * have no other. The order of rows is of no matter. */
const bp_cuda_module bp_cuda_modules[] = {
    ROW("copy_16", "sm_90a", elementwise, SIXTEEN, copy_90a, copies),
    ROW("copy", "sm_80", elementwise, ANY, copy_80, copies),
    ROW("norm", "sm_80", layernorm, ANY, norm_80, norms),
    ROW("norm_90", "sm_90a", layernorm, ANY, norm_90a, norms),
    ROW("table", "sm_80", embedding, ANY, table_80, tables),
    ROW("table_90", "sm_90a", embedding, ANY, table_90a, tables),
    ROW("rotary", "sm_90a", rotary, ANY, rotary_90a, rotaries),
};
const uint32_t bp_cuda_module_count = sizeof bp_cuda_modules / sizeof bp_cuda_modules[0];

static instrument on;

/* An op of each family, with a working type. */
typedef struct bench {
    void *memory;
    cuda_context *context;
    void *link_memory;
    bp_error error;
    uint64_t offsets[8];
    uint8_t dtypes[8];
    uint64_t scalars[8];
    bp_linked_op op;
    bp_linked_program program;
} bench;

static int setup(void **state)
{
    bench *b = calloc(1, sizeof *b);
    b->memory = calloc(1, bp_device_cuda.context_bytes);
    b->context = b->memory;
    b->link_memory = malloc((size_t)bp_device_cuda.link_bytes(1, 8, 8));
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    bench *b = *state;
    free(b->memory);
    free(b->link_memory);
    free(b);
    return 0;
}

static void open_on(bench *b, const char *gpu, const char *target)
{
    const bp_device_options options = {.target = target};
    on.set("PTXVM_DEVICE", gpu);
    on.set("PTXVM_FAULT", ""); /* counts calls from here */
    b->error = (bp_error){0};
    const bp_regions places = bp_regions_device(NULL, ARENA_BYTES);
    assert_int_equal(bp_device_cuda.open(b->memory, &options, &places, &b->error), BP_OK);
    b->context->driver.ptxvmNextOperands = NULL; /* these kernels take fewer than they are given */
}

static bp_status link_kernel(bench *b, bp_kernel kernel, bp_dtype dtype)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        b->offsets[i] = (uint64_t)i * SOURCE;
        b->dtypes[i] = (uint8_t)(info->operand[i].type == BP_TYPE_F32 ? BP_F32 : dtype);
    }
    for (uint32_t i = 0; i < info->scalar_count; i++) {
        b->scalars[i] = 4;
    }
    b->op = (bp_linked_op){kernel, 1, b->offsets, b->scalars, b->dtypes, BP_OFFSET_ABSENT};
    b->program = (bp_linked_program){&b->op, 1};
    return bp_device_cuda.link(b->memory, 0, &b->program, b->link_memory,
                               (size_t)bp_device_cuda.link_bytes(1, 8, 8));
}

/* The word that the op's kernel wrote. */
static uint32_t word_of(bench *b, bp_kernel kernel, bp_dtype dtype)
{
    uint32_t word = 0;
    assert_int_equal(link_kernel(b, kernel, dtype), BP_OK);
    assert_int_equal(bp_device_cuda.run(b->memory, 0), BP_OK);
    assert_int_equal(bp_device_cuda.download(b->memory, 0, &word, sizeof word), BP_OK);
    return word;
}

/* Code for sm_90a runs there and nowhere else; every GPU runs that for sm_80. */
/* verifies device-19.95b6 */
static void the_most_special_text_that_runs_is_chosen(void **state)
{
    bench *b = *state;
    static const struct {
        const char *gpu, *target;
        uint32_t single, sixteen;
    } rows[] = {{"sm_80", NULL, 80, 80},     {"sm_86", "sm_80", 80, 80},
                {"sm_89", "sm_80", 80, 80},  {"sm_90", NULL, 80, 80},
                {"sm_90", "sm_90a", 80, 90}, {"sm_100", "sm_80", 80, 80},
                {"sm_120", "sm_80", 80, 80}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_on(b, rows[i].gpu, rows[i].target);
        assert_int_equal(word_of(b, BP_KERNEL_copy, BP_F32), rows[i].single);
        assert_int_equal(word_of(b, BP_KERNEL_copy, BP_BF16), rows[i].sixteen);
        assert_int_equal(word_of(b, BP_KERNEL_copy, BP_F16), rows[i].sixteen);
        bool both = rows[i].single != rows[i].sixteen;
        assert_int_equal(on.calls("cuModuleLoadDataEx"), both ? 2 : 1);
        assert_string_equal(bp_cuda_log(b->memory), "");
        bp_device_cuda.close(b->memory);
        assert_int_equal(on.ledger(NULL, 0), 0);
    }
}

/* The best target of a GPU is the one whose texts it gets. */
/* verifies device-19.95b6 */
static void the_best_target_of_a_gpu_has_them(void **state)
{
    bench *b = *state;
    static const struct {
        const char *gpu;
        uint32_t word;
    } rows[] = {{"sm_80", 80}, {"sm_89", 80}, {"sm_90", 90}, {"sm_100", 80}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_cuda_gpu gpu;
        on.set("PTXVM_DEVICE", rows[i].gpu);
        assert_int_equal(bp_cuda_query(0, &gpu, &b->error), BP_OK);
        open_on(b, rows[i].gpu, gpu.target);
        assert_int_equal(word_of(b, BP_KERNEL_copy, BP_BF16), rows[i].word);
        bp_device_cuda.close(b->memory);
    }
    assert_string_equal(bp_cuda_query_texts("sm_90a"), "sm_90a");
}

/* What the driver refuses is said in the log, with its words, and the other text runs; later
 * programs do not try again. */
/* verifies device-19.95b6 */
static void a_refused_text_is_replaced(void **state)
{
    bench *b = *state;
    open_on(b, "sm_90", "sm_90a");
    assert_int_equal(word_of(b, BP_KERNEL_layernorm_forward, BP_F32), 80);
    assert_int_equal(on.calls("cuModuleLoadDataEx"), 2);
    const char *log = bp_cuda_log(b->memory);
    assert_non_null(strstr(log, "norm_90: the driver does not take the text for sm_90a"));
    assert_non_null(strstr(log, "moon"));
    assert_int_equal(word_of(b, BP_KERNEL_layernorm_forward, BP_BF16), 80);
    assert_int_equal(word_of(b, BP_KERNEL_copy, BP_BF16), 90);
    assert_int_equal(on.calls("cuModuleLoadDataEx"), 3);
    assert_non_null(strstr(log, "norm_90"));
    assert_int_equal(bp_device_cuda.seal(b->memory), BP_OK);
    bp_device_cuda.close(b->memory);
    assert_int_equal(on.ledger(NULL, 0), 0);
}

/* A special text whose registers the driver's compiler keeps in memory is there for nothing. */
/* verifies device-19.95b6 */
static void a_text_that_spills_is_replaced(void **state)
{
    bench *b = *state;
    open_on(b, "sm_90", "sm_90a");
    assert_int_equal(link_kernel(b, BP_KERNEL_embedding_forward, BP_F32), BP_OK);
    assert_int_equal(on.calls("cuModuleLoadDataEx"), 2);
    assert_int_equal(on.calls("cuModuleUnload"), 1);
    assert_non_null(strstr(bp_cuda_log(b->memory),
                           "table_90: the driver's compiler spills registers of the text for "
                           "sm_90a; a text for every GPU is used instead"));
    bp_device_cuda.close(b->memory);
    assert_int_equal(on.ledger(NULL, 0), 0);
    open_on(b, "sm_90", "sm_90a");
    on.set("PTXVM_FAULT", "cuFuncGetAttribute:1:1");
    assert_int_equal(link_kernel(b, BP_KERNEL_embedding_forward, BP_F32), BP_ERR_DEVICE);
    on.set("PTXVM_FAULT", "");
    bp_device_cuda.close(b->memory);
}

/* Any result but a lost context: also of a driver whose compiler says nothing. */
/* verifies device-19.95b6 */
static void drivers_that_say_nothing_are_fallen_back_from(void **state)
{
    bench *b = *state;
    open_on(b, "sm_90", "sm_90a");
    on.set("PTXVM_FAULT", "cuModuleLoadDataEx:1:222");
    assert_int_equal(word_of(b, BP_KERNEL_copy, BP_BF16), 80);
    assert_non_null(strstr(bp_cuda_log(b->memory), "copy_16: the driver does not take"));
    bp_device_cuda.close(b->memory);
    open_on(b, "sm_90", "sm_90a");
    on.set("PTXVM_FAULT", "cuModuleLoadDataEx:1:719");
    assert_int_equal(link_kernel(b, BP_KERNEL_copy, BP_BF16), BP_ERR_DEVICE);
    assert_non_null(strstr(b->error.name, "copy_16: CUDA_ERROR_LAUNCH_FAILED"));
    on.set("PTXVM_FAULT", "");
    bp_device_cuda.close(b->memory);
    on.revive();
}

/* With nothing to fall back to the refusal is the error; on another target the family is not
 * there. */
/* verifies device-19.95b6 */
static void without_another_text_it_is_an_error(void **state)
{
    bench *b = *state;
    open_on(b, "sm_90", "sm_90a");
    assert_int_equal(link_kernel(b, BP_KERNEL_rotary_table, BP_F32), BP_ERR_DEVICE);
    assert_string_equal(b->error.text, "the driver could not compile a kernel's PTX");
    assert_true(strncmp(b->error.name, "rotary: ", 8) == 0);
    bp_device_cuda.close(b->memory);
    open_on(b, "sm_90", "sm_80");
    assert_int_equal(link_kernel(b, BP_KERNEL_rotary_table, BP_F32), BP_ERR_USAGE);
    bp_device_cuda.close(b->memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_most_special_text_that_runs_is_chosen, setup, teardown),
        cmocka_unit_test_setup_teardown(the_best_target_of_a_gpu_has_them, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_text_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(a_text_that_spills_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(drivers_that_say_nothing_are_fallen_back_from, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(without_another_text_it_is_an_error, setup, teardown),
    };
    if (!fake_driver_load(&on)) {
        return 1;
    }
    if (on.real) {
        printf("skipped: a real GPU is of one kind, and takes all texts\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
