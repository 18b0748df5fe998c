/* SPDX-License-Identifier: MIT */
/* What a linked program is made of: tagged records, parameters by value, clusters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/context.h"
#include "tests/fixtures/fake_driver.h"

#define ARENA_BYTES (UINT64_C(1) << 20)
#define COUNT       300
#define TARGET      65536

static const bp_device *const cuda = &bp_device_cuda;
static instrument on;

/* Reads a block of 128 bytes that it is given by value behind two scalars, as a tensor map is: each
 * block of a cluster writes its rank, the cluster's size and one word of the block. */
static const char by_value[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry by_value(.param .u64 out, .param .u32 word,\n"
    "                         .param .align 64 .b8 map[128], .param .u32 last)\n"
    "{\n"
    ".reg .u32 %r<8>;\n.reg .u64 %d<4>;\n.reg .pred %p<2>;\n"
    "ld.param.u64 %d0, [out];\n"
    "setp.eq.u64 %p0, %d0, 0;\n"
    "@%p0 ret;\n"
    "mov.u32 %r0, %cluster_ctarank;\n"
    "mov.u32 %r1, %cluster_nctarank;\n"
    "ld.param.u32 %r2, [word];\n"
    "ld.param.u32 %r3, [map+124];\n"
    "ld.param.u32 %r4, [last];\n"
    "add.u32 %r2, %r2, %r4;\n"
    "mov.u32 %r5, %ctaid.x;\n"
    "mul.wide.u32 %d1, %r5, 16;\n"
    "add.u64 %d1, %d0, %d1;\n"
    "st.global.u32 [%d1], %r0;\n"
    "st.global.u32 [%d1+4], %r1;\n"
    "st.global.u32 [%d1+8], %r2;\n"
    "st.global.u32 [%d1+12], %r3;\n"
    "ret;\n"
    "}\n";

typedef struct bench {
    void *memory;
    cuda_context *context;
    void *link_memory;
    size_t link_bytes;
    bp_error error;
    uint64_t offsets[3];
    uint8_t dtypes[2];
    bp_copy_scalars copy;
    bp_poison_scalars poison;
    bp_linked_op ops[2];
    bp_linked_program program;
} bench;

static int setup(void **state)
{
    bench *b = calloc(1, sizeof *b);
    b->memory = calloc(1, cuda->context_bytes);
    b->context = b->memory;
    b->link_bytes = cuda->link_bytes(2, 3, 2);
    b->link_memory = malloc(b->link_bytes);
    b->offsets[0] = TARGET; /* where poison goes, and what is copied on */
    b->offsets[1] = 2 * TARGET;
    b->offsets[2] = TARGET;
    b->copy.count = COUNT;
    b->poison.count = COUNT * 4;
    b->ops[0] =
        (bp_linked_op){BP_KERNEL_poison, 1, b->offsets, &b->poison, b->dtypes, BP_OFFSET_ABSENT};
    b->ops[1] =
        (bp_linked_op){BP_KERNEL_copy, 1, b->offsets + 1, &b->copy, b->dtypes, BP_OFFSET_ABSENT};
    b->program = (bp_linked_program){b->ops, 2};
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

static void open_as(bench *b, const char *gpu, const char *variant)
{
    const bp_device_options options = {.variant = variant};
    if (!on.real) {
        on.set("PTXVM_DEVICE", gpu);
    }
    const bp_regions places = bp_regions_device(NULL, ARENA_BYTES);
    assert_int_equal(cuda->open(b->memory, &options, &places, &b->error), BP_OK);
}

static bp_status link_one(bench *b)
{
    return cuda->link(b->memory, 0, &b->program, b->link_memory, b->link_bytes);
}

/* Poison is words of one value, or under the instrument undefined bytes; a copy is a kernel. */
/* verifies device-29.3a80 */
static void a_program_is_a_list_of_tagged_records(void **state)
{
    bench *b = *state;
    open_as(b, "sm_80", NULL);
    assert_int_equal(link_one(b), BP_OK);
    const cuda_program *program = &b->context->programs[0];
    assert_int_equal(program->count, 2);
    bool undefines = b->context->driver.ptxvmUndefineAsync != NULL;
    assert_int_equal(program->records[0].kind, undefines ? CUDA_RECORD_UNDEFINE : CUDA_RECORD_SET);
    assert_int_equal(program->records[1].kind, CUDA_RECORD_KERNEL);
    assert_ptr_equal(program->records[1].op, &b->ops[1]);
    b->context->driver.ptxvmUndefineAsync = NULL;
    assert_int_equal(link_one(b), BP_OK);
    assert_int_equal(program->records[0].kind, CUDA_RECORD_SET);
    assert_int_equal(program->records[0].as.set.count, COUNT);
    b->poison.count = 0;
    assert_int_equal(link_one(b), BP_OK);
    assert_int_equal(program->count, 1);
    cuda->close(b->memory);
}

/* Under the instrument the copy reads undefined bytes, which it may not; as words it may. */
/* verifies device-29.3a80 */
static void records_are_made_in_order_in_either_form(void **state)
{
    bench *b = *state;
    static const char *const variants[] = {"graph", "plain"};
    uint32_t got[COUNT];
    for (uint32_t i = 0; i < 2; i++) {
        open_as(b, "sm_80", variants[i]);
        b->context->driver.ptxvmUndefineAsync = NULL;
        assert_int_equal(link_one(b), BP_OK);
        assert_int_equal(cuda->seal(b->memory), BP_OK);
        assert_int_equal(cuda->run(b->memory, 0), BP_OK);
        assert_int_equal(cuda->download(b->memory, b->offsets[1], got, sizeof got), BP_OK);
        for (uint32_t k = 0; k < COUNT; k++) {
            assert_int_equal(got[k], 0x7fa00000);
        }
        cuda->close(b->memory);
    }
}

/* The second op alone copies what lay there before, in a program that is a graph too. */
/* verifies device-29.3a80 */
static void some_ops_of_a_program_run_alone(void **state)
{
    bench *b = *state;
    static const char *const variants[] = {"graph", "plain"};
    uint32_t put[COUNT], got[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        put[i] = i + 5;
    }
    for (uint32_t i = 0; i < 2; i++) {
        open_as(b, "sm_80", variants[i]);
        b->context->driver.ptxvmUndefineAsync = NULL;
        assert_int_equal(cuda->run_ops(b->memory, 0, 0, 0), BP_ERR_USAGE); /* not linked */
        assert_int_equal(link_one(b), BP_OK);
        assert_int_equal(cuda->seal(b->memory), BP_OK);
        assert_int_equal(cuda->upload(b->memory, TARGET, put, sizeof put), BP_OK);
        assert_int_equal(cuda->run_ops(b->memory, 0, 1, 1), BP_OK);
        assert_int_equal(cuda->download(b->memory, b->offsets[1], got, sizeof got), BP_OK);
        assert_memory_equal(got, put, sizeof put);
        assert_int_equal(cuda->run_ops(b->memory, 0, 0, 1), BP_OK);
        assert_int_equal(cuda->download(b->memory, TARGET, got, sizeof got), BP_OK);
        assert_int_equal(got[COUNT - 1], 0x7fa00000);
        assert_int_equal(cuda->download(b->memory, b->offsets[1], got, sizeof got), BP_OK);
        assert_memory_equal(got, put, sizeof put);
        assert_int_equal(cuda->run_ops(b->memory, 0, 1, 2), BP_ERR_USAGE);
        assert_int_equal(cuda->run_ops(b->memory, 0, 3, 0), BP_ERR_USAGE);
        assert_int_equal(cuda->run_ops(b->memory, BP_PROGRAMS_MAX, 0, 0), BP_ERR_USAGE);
        cuda->close(b->memory);
    }
}

static bp_cuda_launch launch_by_value(void)
{
    bp_cuda_launch launch = {.grid = {4, 1, 1},
                             .block = {1, 1, 1},
                             .cluster = {2, 1, 1},
                             .parameter_count = 4,
                             .value_count = 1,
                             .parameter = {{BP_CUDA_OPERAND, 0, BP_ACCESS_WRITE, 0},
                                           {BP_CUDA_WORD32, 0, 0, 70},
                                           {BP_CUDA_VALUE, 0, 0, 0},
                                           {BP_CUDA_WORD32, 0, 0, 7}},
                             .value = {{.bytes = 128, .alignment = 64}}};
    for (uint32_t i = 0; i < 128; i++) {
        launch.value[0].content[i] = (unsigned char)i;
    }
    return launch;
}

/* verifies device-29.3a80 */
static void parameters_lie_where_the_kernel_reads_them(void **state)
{
    bench *b = *state;
    unsigned char bytes[CUDA_PARAMETERS_BYTES];
    uint32_t count = 0, word = 0;
    uint64_t address = 0;
    bp_cuda_launch launch = launch_by_value();
    b->context->arena = UINT64_C(1) << 32;
    assert_int_equal(cuda_parameters_write(b->context, &b->ops[0], &launch, bytes, &count), BP_OK);
    assert_int_equal(count, 64 + 128 + 4);
    memcpy(&address, bytes, sizeof address);
    assert_true(address == (UINT64_C(1) << 32) + TARGET);
    memcpy(&word, bytes + 8, sizeof word);
    assert_int_equal(word, 70);
    assert_int_equal(bytes[12], 0);
    assert_memory_equal(bytes + 64, launch.value[0].content, 128);
    memcpy(&word, bytes + 192, sizeof word);
    assert_int_equal(word, 7);
    /* more than a launch may have is refused */
    for (launch.parameter_count = 2; launch.parameter_count < 13; launch.parameter_count++) {
        launch.parameter[launch.parameter_count] = launch.parameter[2];
    }
    assert_int_equal(cuda_parameters_write(b->context, &b->ops[0], &launch, bytes, &count),
                     BP_ERR_FIT);
}

/* Makes the record of a kernel by value with clusters of `blocks`, plainly or through a graph. */
static bp_status make_by_value(bench *b, uint8_t blocks, bool graph)
{
    cuda_context *context = b->context;
    bp_cuda_launch launch = launch_by_value();
    unsigned char bytes[CUDA_PARAMETERS_BYTES];
    uint32_t count = 0;
    cuda_record record = {.kind = CUDA_RECORD_KERNEL};
    cuda_record_kernel *kernel = &record.as.kernel;
    BP_TRY(cuda_parameters_write(context, &b->ops[0], &launch, bytes, &count));
    CUDA_TRY(context, cuModuleLoadDataEx, &context->modules[0], by_value, 0, NULL, NULL);
    CUDA_TRY(context, cuModuleGetFunction, &kernel->function, context->modules[0], "by_value");
    memcpy(kernel->grid, launch.grid, sizeof kernel->grid);
    memcpy(kernel->block, launch.block, sizeof kernel->block);
    kernel->cluster[0] = blocks;
    kernel->cluster[1] = kernel->cluster[2] = 1;
    kernel->parameters = bytes;
    kernel->parameter_bytes = count;
    cuda_program *program = &context->programs[0];
    *program = (cuda_program){.records = &record, .count = 1};
    BP_TRY(graph ? cuda_graph_record(context, program) : BP_OK);
    bp_status status = cuda->run(b->memory, 0);
    program->records = NULL;
    return status;
}

/* verifies device-29.3a80 */
static void kernels_take_structures_and_clusters(void **state)
{
    bench *b = *state;
    if (on.real) {
        return;
    }
    for (uint32_t graph = 0; graph < 2; graph++) {
        for (uint8_t blocks = 1; blocks <= 2; blocks++) {
            uint32_t got[16];
            open_as(b, "sm_90", NULL);
            assert_int_equal(make_by_value(b, blocks, graph == 1), BP_OK);
            assert_int_equal(cuda->download(b->memory, TARGET, got, sizeof got), BP_OK);
            for (uint32_t i = 0; i < 4; i++) {
                assert_int_equal(got[4 * i], i % blocks);
                assert_int_equal(got[4 * i + 1], blocks);
                assert_int_equal(got[4 * i + 2], 77);
                assert_int_equal(got[4 * i + 3], 0x7f7e7d7c);
            }
            cuda->close(b->memory);
        }
    }
}

/* A cluster that does not divide the grid is an error of the driver, and told. */
/* verifies device-12.8cb0 */
static void clusters_that_do_not_fit_are_refused(void **state)
{
    bench *b = *state;
    if (on.real) {
        return;
    }
    open_as(b, "sm_90", NULL);
    assert_int_equal(make_by_value(b, 3, false), BP_ERR_DEVICE);
    assert_non_null(strstr(b->error.name, "from cuLaunchKernelEx"));
    cuda->close(b->memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_program_is_a_list_of_tagged_records, setup, teardown),
        cmocka_unit_test_setup_teardown(records_are_made_in_order_in_either_form, setup, teardown),
        cmocka_unit_test_setup_teardown(some_ops_of_a_program_run_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(parameters_lie_where_the_kernel_reads_them, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(kernels_take_structures_and_clusters, setup, teardown),
        cmocka_unit_test_setup_teardown(clusters_that_do_not_fit_are_refused, setup, teardown),
    };
    if (!fake_driver_load(&on)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
