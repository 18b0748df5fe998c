/* SPDX-License-Identifier: MIT */
/* Every row of kernels.def over random shapes: all forms and numbers of threads give equal bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/form_table.h"
#include "device/host/host.h"
#include "tests/support/kernel_case.h"
#include "tests/support/kernel_random.h"

#define ARENA_BYTES  (UINT64_C(48) << 20)
#define SEEDS        24
#define SEEDS_SHORT  3 /* with BP_TEST_SHORT set: builds that are slow */
#define DEVICES_MOST 8

/* Prints the first byte in which two images differ, as operand and element. */
static void report(const kernel_case *c, const unsigned char *right, const char *form)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    for (uint32_t slot = 0; slot < c->tuples * info->operand_count; slot++) {
        const unsigned char *at = c->image + c->offsets[slot];
        for (uint64_t i = 0; c->offsets[slot] != BP_OFFSET_ABSENT && i < c->bytes[slot]; i += 4) {
            const unsigned char *other = right + c->offsets[slot] + i;
            if (memcmp(at + i, other, 4) != 0) {
                float got, want;
                memcpy(&got, at + i, 4);
                memcpy(&want, other, 4);
                print_error("%s %s: tuple %u, %s[%llu] is %a, portable gives %a\n", form,
                            info->name, slot / info->operand_count,
                            info->operand[slot % info->operand_count].name,
                            (unsigned long long)(i / 4), (double)got, (double)want);
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

static void all_forms_give_equal_bits(void **state)
{
    (void)state;
    static kernel_device devices[DEVICES_MOST];
    static const char *names[DEVICES_MOST];
    uint32_t count = 0;
    uint64_t seeds = getenv("BP_TEST_SHORT") != NULL ? SEEDS_SHORT : SEEDS;
    static const uint32_t threads[] = {1, 3};
    for (uint32_t form = 0; form < BP_HOST_FORMS; form++) {
        for (uint32_t t = 0; bp_host_form_runs(form) && t < 2; t++) {
            names[count] = bp_host_form_name(form);
            kernel_device_open(&devices[count++], &bp_device_host, bp_host_form_name(form),
                               threads[t], ARENA_BYTES);
        }
    }
    for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            kernel_case c;
            kernel_random_case(&c, &bp_device_host, (bp_kernel)kernel, seed);
            unsigned char *start = kernel_case_save(&c);
            kernel_case_run(&c, &devices[0]);
            unsigned char *right = kernel_case_save(&c);
            for (uint32_t i = 1; i < count; i++) {
                kernel_case_restore(&c, start);
                kernel_case_run(&c, &devices[i]);
                if (memcmp(c.image, right, c.image_bytes) != 0) {
                    report(&c, right, names[i]);
                    print_scalars(&c);
                    fail();
                }
            }
            free(start);
            free(right);
            kernel_case_free(&c);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        kernel_device_close(&devices[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_give_equal_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
