/* SPDX-License-Identifier: MIT */
/* One kernel call made through a device, with guard bytes around every operand.
 *
 * A case lays the operands of one op (or list op) out in an image of the arena, as kernels.def
 * sizes them. A test fills the image, runs it on any device in any form, and reads the results from
 * the image. Each run checks that nothing changed but what kernels.def allows to be written. */
#ifndef BP_TESTS_SUPPORT_KERNEL_CASE_H
#define BP_TESTS_SUPPORT_KERNEL_CASE_H

#include "core/program/device.h"

#define CASE_THREADS 5 /* workspaces suffice for this many */
#define CASE_TUPLES  8 /* most tuples of a list op */
#define CASE_PATTERN 0xa5

/* An open device that cases run on. */
typedef struct kernel_device {
    const bp_device *device;
    void *context;
    unsigned char *arena; /* of the host device; NULL where the device brings its own */
    void *arena_memory;
    uint64_t arena_bytes;
} kernel_device;

/* Opens a device over an arena of arena_bytes; fails the test when it cannot. */
void kernel_device_open(kernel_device *on, const bp_device *device, const char *variant,
                        uint32_t threads, uint64_t arena_bytes);
void kernel_device_close(kernel_device *on);

typedef struct kernel_case {
    bp_kernel kernel;
    uint32_t tuples;
    uint64_t scalars[CASE_TUPLES * BP_SCALARS_MAX];
    uint64_t offsets[CASE_TUPLES * BP_OPERANDS_MAX];
    uint64_t bytes[CASE_TUPLES * BP_OPERANDS_MAX]; /* of each operand */
    uint8_t dtypes[CASE_TUPLES * BP_OPERANDS_MAX]; /* the same in all tuples */
    unsigned char *image;
    unsigned char *writable; /* one flag per byte: 0 kept, 1 written, 2 workspace */
    uint64_t image_bytes;
} kernel_case;

/* Lays out `tuples` tuples of a kernel. scalars: that many bp_<kernel>_scalars; absent: bit i says
 * that operand i is not there. Every byte of the image is CASE_PATTERN. */
void kernel_case_init(kernel_case *c, const bp_device *device, bp_kernel kernel,
                      const void *scalars, uint32_t tuples, uint32_t absent);

/* The same with element types: a bp_dtype for each operand of the row, of which those of type ANY
 * and FLOAT count. */
void kernel_case_init_typed(kernel_case *c, const bp_device *device, bp_kernel kernel,
                            const void *scalars, uint32_t tuples, uint32_t absent,
                            const uint8_t *dtypes);
void kernel_case_free(kernel_case *c);

/* Whether the operand in this slot (tuple * operands + operand) has elements of a chosen type, and
 * is there. */
bool kernel_case_typed(const kernel_case *c, uint32_t slot);

/* wide: the same call as c with every element as a float. Extents must agree. */
void kernel_case_widen(const kernel_case *c, const bp_device *device, kernel_case *wide);

/* Operand number `operand` of a tuple, in the image; NULL when absent. */
void *kernel_case_at(const kernel_case *c, uint32_t tuple, uint32_t operand);

/* Puts operand x of the first tuple onto operand y: an IN_PLACE pair. */
void kernel_case_join(kernel_case *c, uint32_t x, uint32_t y);

/* Uploads the image, links and runs the op as program 0, downloads the image. Fails the test when a
 * byte changed that may not. Workspaces are CASE_PATTERN afterwards. */
void kernel_case_run(kernel_case *c, kernel_device *on);

/* Defines the test `name` as name##_on(device) on the host device twice: portable form on the
 * caller's thread, and this processor's fastest form on three workers. */
#define TEST_ON_HOST(name)                                                                         \
    static void name(void **state)                                                                 \
    {                                                                                              \
        static const char *const variants[] = {"portable", NULL};                                  \
        (void)state;                                                                               \
        for (uint32_t i = 0; i < 2; i++) {                                                         \
            kernel_device on;                                                                      \
            kernel_device_open(&on, &bp_device_host, variants[i], 1 + 2 * i, UINT64_C(24) << 20);  \
            name##_on(&on);                                                                        \
            kernel_device_close(&on);                                                              \
        }                                                                                          \
    }

/* Position of an operand in its row, by name. */
#define OPERAND(kernel, name) (uint32_t)(offsetof(bp_##kernel##_operands, name) / sizeof(bp_ref))

/* A copy of an image's state, to run the same case again. */
unsigned char *kernel_case_save(const kernel_case *c);
void kernel_case_restore(kernel_case *c, const unsigned char *saved);

/* Fails the test unless max |got - right| <= tolerance * max(max |right|, least). `least` is the
 * size of the terms where the right values are differences of larger ones. */
void assert_close_to(const float *got, const double *right, uint64_t count, double tolerance,
                     double least);
void assert_close(const float *got, const double *right, uint64_t count, double tolerance);

/* Rounds floats to nearest even into elements of that type at `to`. */
void store_elements(void *to, bp_dtype dtype, const float *from, uint64_t count);
float element_of(const void *from, bp_dtype dtype, uint64_t i);

/* Fills with normal numbers times `scale`; the same numbers for the same seed. */
void fill_normal(float *to, uint64_t count, uint64_t seed, double scale);

#endif
