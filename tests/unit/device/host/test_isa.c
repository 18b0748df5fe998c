/* SPDX-License-Identifier: MIT */
/* Every row of kernels.def over random shapes: all forms and numbers of threads give equal bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/isa_table.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/share.h"

#define ARENA_BYTES  (UINT64_C(48) << 20)
#define DEVICES_MOST 8

/* Prints the first element in which two images differ. */
static void report(const kernel_case *c, const unsigned char *right, const char *form)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    for (uint32_t slot = 0; slot < c->tuples * info->operand_count; slot++) {
        bp_dtype dtype = kernel_case_typed(c, slot) ? (bp_dtype)c->dtypes[slot] : BP_F32;
        const unsigned char *at = c->image + c->offsets[slot], *other = right + c->offsets[slot];
        uint64_t count =
            c->offsets[slot] == BP_OFFSET_ABSENT ? 0 : c->bytes[slot] / bp_dtype_bytes(dtype);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t place = i * bp_dtype_bytes(dtype);
            if (memcmp(at + place, other + place, bp_dtype_bytes(dtype)) != 0) {
                print_error("%s %s: tuple %u, %s[%llu] (%s) is %a, portable gives %a\n", form,
                            info->name, slot / info->operand_count,
                            info->operand[slot % info->operand_count].name, (unsigned long long)i,
                            bp_dtype_name(dtype), (double)element_of(at, dtype, i),
                            (double)element_of(other, dtype, i));
                return;
            }
        }
    }
}

static void print_scalars(const kernel_case *c)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    for (uint32_t i = 0; i < info->scalar_count; i++) {
        double real;
        memcpy(&real, &c->scalars[i], sizeof(real));
        print_error(" %s=%.17g", info->scalar[i].name,
                    info->scalar[i].real ? real : (double)(int64_t)c->scalars[i]);
    }
    print_error("\n");
}

typedef struct form_devices {
    kernel_device device[DEVICES_MOST]; /* the first is portable, on the caller's thread */
    const char *name[DEVICES_MOST];
    uint32_t count;
} form_devices;

static void open_all(form_devices *all)
{
    static const uint32_t threads[] = {1, 3};
    all->count = 0;
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        for (uint32_t t = 0; bp_host_isa_runs(form) && t < 2; t++) {
            all->name[all->count] = bp_host_isa_name(form);
            kernel_device_open(&all->device[all->count++], &bp_device_host, bp_host_isa_name(form),
                               threads[t], ARENA_BYTES);
        }
    }
}

static void close_all(form_devices *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        kernel_device_close(&all->device[i]);
    }
}

/* Runs a case on every device; what the first leaves is right. Frees the case. */
static void compare_all(form_devices *all, kernel_case *c)
{
    unsigned char *start = kernel_case_save(c);
    kernel_case_run(c, &all->device[0]);
    unsigned char *right = kernel_case_save(c);
    for (uint32_t i = 1; i < all->count; i++) {
        kernel_case_restore(c, start);
        kernel_case_run(c, &all->device[i]);
        if (memcmp(c->image, right, c->image_bytes) != 0) {
            report(c, right, all->name[i]);
            print_scalars(c);
            fail();
        }
    }
    free(start);
    free(right);
    kernel_case_free(c);
}

static bool has_form(bp_kernel kernel, bp_dtype dtype)
{
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)dtype, sizeof(dtypes));
    bp_dtype working = bp_kernel_working(bp_kernel_describe(kernel), dtypes);
    return bp_host_portable.kernels[working][kernel] != NULL;
}

/* verifies device-1.6909 */
static void all_forms_give_equal_bits(void **state)
{
    static form_devices all;
    static const bp_dtype dtypes[] = {BP_F32, BP_BF16, BP_F16};
    uint64_t seeds = share_of(24, 2, 3);
    (void)state;
    open_all(&all);
    for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
        for (uint64_t i = 0; i < 3 * seeds; i++) {
            kernel_case c;
            bp_dtype dtype = dtypes[i % 3];
            if (has_form((bp_kernel)kernel, dtype)) {
                kernel_random_case_typed(&c, &bp_device_host, (bp_kernel)kernel, dtype, 1 + i / 3);
                compare_all(&all, &c);
            }
        }
    }
    close_all(&all);
}

/* A form that lacks a function, or is of another processor, has that of a form before it. */
/* verifies device-31.2bb6 */
static void each_form_has_all_functions(void **state)
{
    bool summed = false; /* the portable form and others have no sum of words but bp_word_sum */
    (void)state;
    assert_null(bp_host_isa_words(0));
    for (uint32_t form = 0; form < BP_HOST_ISAS_ALL; form++) {
        assert_non_null(bp_host_isa_codes(form));
        assert_true(!summed || bp_host_isa_words(form) != NULL);
        summed = bp_host_isa_words(form) != NULL;
        assert_non_null(bp_host_isa_kernel(form, 0, BP_KERNEL_matmul));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_give_equal_bits),
        cmocka_unit_test(each_form_has_all_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
