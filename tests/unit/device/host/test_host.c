/* SPDX-License-Identifier: MIT */
/* The host device's calls: what they refuse, and what they promise beside the kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/cpu.h"
#include "device/host/isa.h"
#include "device/host/isa_table.h"
#include "device/host/host.h"
#include "device/host/kernel.h"
#include "device/host/pool.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define ARENA_BYTES 4096

static const bp_device *const host = &bp_device_host;

/* A context and an aligned arena for tests that call open themselves. */
typedef struct bench {
    void *context;
    void *memory;
    unsigned char *arena;
    bp_error error;
} bench;

static int bench_setup(void **state)
{
    bench *b = calloc(1, sizeof(*b));
    b->context = malloc(host->context_bytes);
    b->memory = malloc(2 * ARENA_BYTES);
    uintptr_t address = (uintptr_t)b->memory;
    b->arena = (unsigned char *)b->memory +
               (BP_ARENA_ALIGNMENT - address % BP_ARENA_ALIGNMENT) % BP_ARENA_ALIGNMENT;
    *state = b;
    return 0;
}

static int bench_teardown(void **state)
{
    bench *b = *state;
    free(b->context);
    free(b->memory);
    free(b);
    return 0;
}

static bp_status open_with(bench *b, const char *variant, uint32_t threads)
{
    bp_device_options options = {.threads = threads, .variant = variant};
    memset(&b->error, 0, sizeof(b->error));
    const bp_regions places = bp_regions_device(b->arena, ARENA_BYTES);
    return host->open(b->context, &options, &places, &b->error);
}

/* verifies device-5.2dc3 */
static void open_refuses_what_makes_no_sense(void **state)
{
    bench *b = *state;
    bp_device_options options = {.threads = 1};
    assert_int_equal(open_with(b, NULL, BP_THREADS_MAX + 1), BP_ERR_USAGE);
    assert_int_equal(b->error.found, BP_THREADS_MAX + 1);
    assert_int_equal(b->error.wanted, BP_THREADS_MAX);
    assert_int_equal(open_with(b, "sse2", 1), BP_ERR_USAGE);
    assert_string_equal(b->error.name, "kernels: sse2");
    bp_regions places = bp_regions_device(NULL, ARENA_BYTES);
    assert_int_equal(host->open(b->context, &options, &places, NULL), BP_ERR_USAGE);
    places = bp_regions_device(b->arena + 64, ARENA_BYTES);
    assert_int_equal(host->open(b->context, &options, &places, NULL), BP_ERR_USAGE);
    b->error = (bp_error){0};
    places = bp_regions_device(b->arena, ARENA_BYTES);
    places.space[BP_SPACE_HOST].bytes = 1;
    assert_int_equal(host->open(b->context, &options, &places, &b->error), BP_ERR_USAGE);
    assert_string_equal(b->error.name, "host");
}

/* verifies device-5.2dc3 */
static void every_variant_opens_or_is_a_device_error(void **state)
{
    bench *b = *state;
    const char *best = NULL;
    for (uint32_t i = 0; i < BP_HOST_ISAS; i++) {
        const char *name = bp_host_isa_name(i);
        if (bp_host_isa_runs(i)) {
            best = strcmp(name, "sve") != 0 || bp_cpu_has_wide_sve() ? name : best;
            assert_int_equal(open_with(b, name, 2), BP_OK);
            const char *variant = host->variant(b->context);
            assert_int_equal(strncmp(variant, "host ", 5), 0);
            assert_string_equal(variant + 5, name);
            assert_int_equal(host->bytes_in_use(b->context), ARENA_BYTES);
            host->close(b->context);
        } else {
            assert_int_equal(open_with(b, name, 2), BP_ERR_DEVICE);
            assert_memory_equal(b->error.name, "kernels: ", strlen("kernels: "));
            assert_string_equal(b->error.name + strlen("kernels: "), name);
        }
    }
    assert_int_equal(open_with(b, NULL, 0), BP_OK);
    assert_string_equal(host->variant(b->context) + 5, best);
    host->close(b->context);
}

/* A table in which this processor runs nothing but the portable form: what a plain CPU sees. */
/* verifies device-5.2dc3 */
static void a_missing_form_is_a_device_error(void **state)
{
    bench *b = *state;
    static const bool none[BP_HOST_ISAS_ALL] = {true};
    uint32_t index = 9;
    assert_int_equal(bp_host_isa_choose("avx512", none, &index), BP_ERR_DEVICE);
    assert_int_equal(bp_host_isa_choose("avx2", none, &index), BP_ERR_DEVICE);
    assert_int_equal(bp_host_isa_choose("portable", none, &index), BP_OK);
    assert_int_equal(index, 0);
    assert_int_equal(bp_host_isa_choose(NULL, none, &index), BP_OK);
    assert_int_equal(index, 0);
    assert_int_equal(bp_host_isa_choose("neon", none, &index), BP_ERR_DEVICE);
    assert_int_equal(bp_host_isa_choose("sve", none, &index), BP_ERR_DEVICE);
    assert_int_equal(bp_host_isa_choose("sse", none, &index), BP_ERR_USAGE);
    (void)b;
}

/* verifies device-6.2f83 */
static void transfers_stay_inside_the_arena(void **state)
{
    bench *b = *state;
    unsigned char from[16] = "fifteen letters", to[16];
    assert_int_equal(open_with(b, NULL, 1), BP_OK);
    assert_int_equal(host->upload(b->context, ARENA_BYTES - 16, from, 16), BP_OK);
    assert_int_equal(host->download(b->context, ARENA_BYTES - 16, to, 16), BP_OK);
    assert_memory_equal(from, to, 16);
    assert_int_equal(host->upload(b->context, ARENA_BYTES - 15, from, 16), BP_ERR_USAGE);
    assert_int_equal(host->download(b->context, ARENA_BYTES - 15, to, 16), BP_ERR_USAGE);
    assert_int_equal(host->upload(b->context, UINT64_MAX - 4, from, 16), BP_ERR_USAGE);
    assert_ptr_equal(host->address(b->context, ARENA_BYTES - 16, 16), b->arena + ARENA_BYTES - 16);
    assert_null(host->address(b->context, ARENA_BYTES - 15, 16));
    assert_null(host->address(b->context, UINT64_MAX - 4, 16));
    host->close(b->context);
}

/* A program of one copy of `count` floats from the arena's byte 2048 to its start. */
typedef struct copy_program {
    bp_copy_scalars scalars;
    uint64_t offsets[2];
    uint8_t dtypes[2];
    bp_linked_op op;
    bp_linked_program program;
} copy_program;

static void copy_program_make(copy_program *p, int64_t count)
{
    *p = (copy_program){.scalars = {count}, .offsets = {0, 2048}};
    p->op = (bp_linked_op){BP_KERNEL_copy, 1, p->offsets, &p->scalars, p->dtypes, BP_OFFSET_ABSENT};
    p->program = (bp_linked_program){&p->op, 1};
}

static void programs_run_after_link_and_seal(void **state)
{
    bench *b = *state;
    copy_program p;
    copy_program_make(&p, 100);
    uint64_t bytes = host->link_bytes(1, 2, 1);
    void *memory = malloc(bytes);
    assert_int_equal(open_with(b, NULL, 2), BP_OK);
    assert_int_equal(host->run(b->context, 0), BP_ERR_USAGE);
    assert_int_equal(host->run(b->context, BP_PROGRAMS_MAX), BP_ERR_USAGE);
    assert_int_equal(host->link(b->context, BP_PROGRAMS_MAX, &p.program, memory, bytes),
                     BP_ERR_USAGE);
    assert_int_equal(host->link(b->context, 3, &p.program, memory, bytes), BP_OK);
    assert_int_equal(host->seal(b->context), BP_OK);
    assert_int_equal(host->link(b->context, 4, &p.program, memory, bytes), BP_ERR_SEALED);
    fill_normal((float *)(void *)(b->arena + 2048), 100, 1, 1.0);
    assert_int_equal(host->run(b->context, 3), BP_OK);
    assert_int_equal(host->wait(b->context), BP_OK);
    assert_memory_equal(b->arena, b->arena + 2048, 400);
    assert_int_equal(host->run(b->context, 4), BP_ERR_USAGE);
    memset(b->arena, 0, 400);
    assert_int_equal(host->run_ops(b->context, 3, 0, 1), BP_OK);
    assert_memory_equal(b->arena, b->arena + 2048, 400);
    assert_int_equal(host->run_ops(b->context, 3, 1, 0), BP_OK);
    assert_int_equal(host->run_ops(b->context, 3, 1, 1), BP_ERR_USAGE);
    assert_int_equal(host->run_ops(b->context, 3, 2, 0), BP_ERR_USAGE);
    assert_int_equal(host->run_ops(b->context, 4, 0, 0), BP_ERR_USAGE);
    assert_int_equal(host->run_ops(b->context, BP_PROGRAMS_MAX, 0, 0), BP_ERR_USAGE);
    host->close(b->context);
    free(memory);
}

/* Each piece of the link memory that is missing is reported, wherever it runs out. */
/* verifies compile-7.7394 */
static void link_reports_too_little_memory(void **state)
{
    bench *b = *state;
    copy_program p;
    copy_program_make(&p, 1);
    uint64_t bytes = host->link_bytes(1, 2, 1), refused = 0;
    unsigned char *memory = malloc(bytes);
    assert_int_equal(open_with(b, NULL, 1), BP_OK);
    for (uint64_t given = 0; given <= bytes; given++) {
        bp_status status = host->link(b->context, 0, &p.program, memory, given);
        assert_true(status == BP_OK || status == BP_ERR_FIT);
        refused += status == BP_ERR_FIT;
    }
    assert_true(refused > 32);
    assert_true(refused <= bytes);
    assert_int_equal(host->link(b->context, 0, &p.program, memory, bytes), BP_OK);
    assert_int_equal(host->link_bytes(UINT64_MAX, 1, 1), BP_SIZE_INVALID);
    host->close(b->context);
    free(memory);
}

/* The workspace is one part per worker, whole cache lines each, for every kernel that has one. */
static void workspace_grows_with_the_threads(void **state)
{
    (void)state;
    bp_attention_forward_scalars attention = {1, 65, 2, 2, 20, 1, 0, 0.2, 0.0, 0, 0.0};
    bp_matmul_scalars matmul = {70, 80, 90, 90, 80, 80, 0, 0, 0, 0};
    bp_copy_scalars copy = {5};
    for (uint32_t threads = 0; threads < 5; threads++) {
        bp_device_options options = {.threads = threads};
        uint64_t times = threads == 0 ? 1 : threads;
        bp_device_options one = {.threads = 1};
        uint64_t single = host->workspace(&one, BP_KERNEL_attention_forward, &attention, NULL);
        assert_true(single % 64 == 0 && single >= 2 * 65 * sizeof(float));
        assert_int_equal(host->workspace(&options, BP_KERNEL_attention_forward, &attention, NULL),
                         times * single);
        single = host->workspace(&one, BP_KERNEL_matmul, &matmul, NULL);
        assert_int_equal(host->workspace(&options, BP_KERNEL_matmul, &matmul, NULL),
                         times * single);
        assert_int_equal(host->workspace(&options, BP_KERNEL_copy, &copy, NULL), 0);
    }
    /* The plain form by name has its own, here two rows of 80 floats. */
    const bp_device_options plain = {.threads = 1, .variant = "portable"};
    assert_int_equal(host->workspace(&plain, BP_KERNEL_attention_forward, &attention, NULL), 640);
    bp_attention_forward_scalars huge = {1, INT64_MAX, 1, 1, INT64_MAX, 1, 0, 0.2, 0.0, 0, 0.0};
    bp_device_options options = {.threads = 2};
    assert_int_equal(host->workspace(&options, BP_KERNEL_attention_forward, &huge, NULL),
                     BP_SIZE_INVALID);
}

/* A form without a row takes the next slower form's. */
/* verifies device-31.2bb6 */
static void forms_fall_back(void **state)
{
    (void)state;
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    for (uint32_t i = 0; i < BP_HOST_ISAS; i++) {
        if (bp_host_isa_runs(i)) {
            bp_host_isa_kernels(i, kernels);
            for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
                assert_non_null(kernels[0][kernel]);
                assert_non_null(kernels[0][kernel]->run);
                assert_non_null(kernels[0][kernel]->tasks);
            }
        }
    }
    bp_host_isa_kernels(0, kernels);
    /* Its products with the instruction of fmaf, where there is one (test_matmul_forms.c compares
     * them). */
    for (uint32_t element = 0; element < BP_HOST_ELEMENTS; element++) {
        const bp_host_kernel **of = kernels[element];
        if (of[BP_KERNEL_matmul] != bp_host_portable.kernels[element][BP_KERNEL_matmul]) {
            assert_true(bp_cpu_has_avx2());
            of[BP_KERNEL_matmul] = &bp_host_matmul;
            of[BP_KERNEL_matmul_quantised] = &bp_host_matmul_quantised;
        }
    }
    assert_memory_equal(kernels, bp_host_portable.kernels, sizeof(kernels));
    assert_true(bp_cpu_count() >= 1);
}

/* Another form to compute the same bits again: never the same one where there are others, and not
 * for a form with bits of its own. */
/* verifies device-31.2bb6 */
static void other_forms_are_others(void **state)
{
    (void)state;
    const uint32_t last = BP_HOST_ISAS_ALL - 1;
    assert_int_equal(bp_host_isa_other(0, 1), 0); /* its plan has room for no other */
    assert_int_equal(bp_host_isa_other(0, 2), 0);
    for (uint32_t i = 1; i < BP_HOST_ISAS; i++) {
        const uint32_t fast = bp_host_isa_other(i, 1), third = bp_host_isa_other(i, 2);
        assert_int_equal(bp_host_isa_other(i, 0), i);
        assert_true(bp_host_isa_runs(fast) || fast == i);
        assert_true(fast > 0);
        assert_true(third != i);
        assert_true(!bp_host_isa_runs(BP_HOST_ISAS - 1) || (fast != i && third != fast));
    }
    assert_int_equal(bp_host_isa_other(last, 1), last);
    assert_int_equal(bp_host_isa_other(last, 2), last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_forms_are_others),
        cmocka_unit_test_setup_teardown(open_refuses_what_makes_no_sense, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(every_variant_opens_or_is_a_device_error, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(a_missing_form_is_a_device_error, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(transfers_stay_inside_the_arena, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(programs_run_after_link_and_seal, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(link_reports_too_little_memory, bench_setup,
                                        bench_teardown),
        cmocka_unit_test(workspace_grows_with_the_threads),
        cmocka_unit_test(forms_fall_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
