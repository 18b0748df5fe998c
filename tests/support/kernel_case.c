/* SPDX-License-Identifier: MIT */
/* Kernel calls with guard bytes (see kernel_case.h). */
#include "tests/support/kernel_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/number/random.h"

#define GUARD_BYTES                                                                                \
    320 /* more than a cache line and any vector; keeps offsets off powers of two                  \
         */

void kernel_device_open(kernel_device *on, const bp_device *device, const char *variant,
                        uint32_t threads, uint64_t arena_bytes)
{
    bp_device_options options = {.threads = threads, .variant = variant};
    bp_error error = {0};
    memset(on, 0, sizeof(*on));
    on->device = device;
    on->context = malloc(device->context_bytes);
    on->arena_bytes = arena_bytes;
    if (strcmp(device->name, "host") == 0) {
        on->arena_memory = malloc(arena_bytes + BP_ARENA_ALIGNMENT);
        uintptr_t address = (uintptr_t)on->arena_memory;
        uintptr_t up = (BP_ARENA_ALIGNMENT - address % BP_ARENA_ALIGNMENT) % BP_ARENA_ALIGNMENT;
        on->arena = (unsigned char *)on->arena_memory + up;
    }
    const bp_places places = bp_places_device(on->arena, arena_bytes);
    bp_status status = device->open(on->context, &options, &places, &error);
    if (status != BP_OK) {
        print_error("%s %s: %s\n", device->name, variant != NULL ? variant : "", error.text);
    }
    assert_int_equal(status, BP_OK);
}

void kernel_device_close(kernel_device *on)
{
    on->device->close(on->context);
    free(on->arena_memory);
    free(on->context);
}

/* Flags the bytes of an extent that the op may write. */
static void flag_extent(kernel_case *c, uint64_t offset, const bp_extent *extent, size_t element)
{
    if ((extent->access & BP_ACCESS_WRITE) == 0) {
        return;
    }
    for (uint64_t row = 0; row < extent->rows; row++) {
        memset(c->writable + offset + row * extent->pitch * element, 1, extent->width * element);
    }
}

static size_t element_bytes(const kernel_case *c, uint32_t operand)
{
    bp_operand_type type = bp_kernel_describe(c->kernel)->operand[operand].type;
    return bp_operand_element_bytes(type, (bp_dtype)c->dtypes[operand]);
}

static uint64_t operand_bytes(const kernel_case *c, const bp_device *device, const void *scalars,
                              uint32_t operand, const bp_extent *extent)
{
    bp_device_options options = {.threads = CASE_THREADS};
    if (bp_kernel_describe(c->kernel)->operand[operand].workspace) {
        return device->workspace(&options, c->kernel, scalars, c->dtypes);
    }
    return bp_extent_bytes(extent, element_bytes(c, operand));
}

/* Sizes and places of one tuple's operands; returns the image's new end. */
static uint64_t place_tuple(kernel_case *c, const bp_device *device, uint32_t tuple,
                            uint32_t absent, uint64_t end)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    const uint64_t *scalars = c->scalars + tuple * info->scalar_count;
    bp_extent extents[BP_OPERANDS_MAX];
    info->extents(scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        uint32_t slot = tuple * info->operand_count + i;
        uint64_t bytes = operand_bytes(c, device, scalars, i, &extents[i]);
        assert_true(bytes != BP_SIZE_INVALID);
        bool none = (absent >> i & 1) != 0 || (info->operand[i].workspace && bytes == 0);
        c->offsets[slot] = none ? BP_OFFSET_ABSENT : end;
        c->bytes[slot] = none ? 0 : bytes;
        end = none ? end : bp_size_align(end + bytes + GUARD_BYTES, BP_ARENA_ALIGNMENT);
    }
    return end;
}

void kernel_case_init(kernel_case *c, const bp_device *device, bp_kernel kernel,
                      const void *scalars, uint32_t tuples, uint32_t absent)
{
    static const uint8_t floats[BP_OPERANDS_MAX] = {BP_F32};
    kernel_case_init_typed(c, device, kernel, scalars, tuples, absent, floats);
}

void kernel_case_init_typed(kernel_case *c, const bp_device *device, bp_kernel kernel,
                            const void *scalars, uint32_t tuples, uint32_t absent,
                            const uint8_t *dtypes)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    memset(c, 0, sizeof(*c));
    c->kernel = kernel;
    c->tuples = tuples;
    assert_true(tuples <= CASE_TUPLES);
    for (uint32_t tuple = 0; tuple < tuples; tuple++) {
        memcpy(c->dtypes + tuple * info->operand_count, dtypes, info->operand_count);
    }
    memcpy(c->scalars, scalars, tuples * info->scalar_count * sizeof(uint64_t));
    uint64_t end = bp_size_align(GUARD_BYTES, BP_ARENA_ALIGNMENT);
    for (uint32_t tuple = 0; tuple < tuples; tuple++) {
        end = place_tuple(c, device, tuple, absent, end);
    }
    c->image_bytes = end;
    c->image = malloc(end);
    c->writable = calloc(end, 1);
    assert_non_null(c->image);
    assert_non_null(c->writable);
    memset(c->image, CASE_PATTERN, end);
    for (uint32_t slot = 0; slot < tuples * info->operand_count; slot++) {
        uint32_t tuple = slot / info->operand_count, i = slot % info->operand_count;
        if (c->offsets[slot] == BP_OFFSET_ABSENT) {
            continue;
        }
        bp_extent extents[BP_OPERANDS_MAX];
        info->extents(c->scalars + tuple * info->scalar_count, extents);
        if (info->operand[i].workspace) {
            memset(c->writable + c->offsets[slot], 2, c->bytes[slot]);
        } else {
            flag_extent(c, c->offsets[slot], &extents[i], element_bytes(c, i));
        }
    }
}

void kernel_case_free(kernel_case *c)
{
    free(c->image);
    free(c->writable);
}

bool kernel_case_typed(const kernel_case *c, uint32_t slot)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    const bp_operand_info *operand = &info->operand[slot % info->operand_count];
    return operand->type <= BP_TYPE_WEIGHT && !operand->workspace && c->dtypes[slot] != BP_U8 &&
           c->offsets[slot] != BP_OFFSET_ABSENT;
}

void kernel_case_widen(const kernel_case *c, const bp_device *device, kernel_case *wide)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    uint32_t operands = info->operand_count, absent = 0;
    for (uint32_t i = 0; i < operands; i++) {
        bool gone = c->offsets[i] == BP_OFFSET_ABSENT && !info->operand[i].workspace;
        absent |= gone ? UINT32_C(1) << i : 0;
    }
    kernel_case_init(wide, device, c->kernel, c->scalars, c->tuples, absent);
    for (uint32_t slot = 0; slot < c->tuples * operands; slot++) {
        bp_dtype dtype = (bp_dtype)c->dtypes[slot];
        if (c->offsets[slot] == BP_OFFSET_ABSENT || info->operand[slot % operands].workspace) {
            continue;
        }
        const unsigned char *from = c->image + c->offsets[slot];
        if (!kernel_case_typed(c, slot)) {
            memcpy(wide->image + wide->offsets[slot], from, c->bytes[slot]);
            continue;
        }
        float *to = (float *)(void *)(wide->image + wide->offsets[slot]);
        for (uint64_t i = 0; i < wide->bytes[slot] / sizeof(float); i++) {
            to[i] = element_of(from, dtype, i);
        }
    }
}

void *kernel_case_at(const kernel_case *c, uint32_t tuple, uint32_t operand)
{
    uint32_t slot = tuple * bp_kernel_describe(c->kernel)->operand_count + operand;
    return c->offsets[slot] == BP_OFFSET_ABSENT ? NULL : c->image + c->offsets[slot];
}

void kernel_case_join(kernel_case *c, uint32_t x, uint32_t y)
{
    memcpy(c->writable + c->offsets[y], c->writable + c->offsets[x], c->bytes[y]);
    memset(c->writable + c->offsets[x], 0, c->bytes[x]);
    c->offsets[x] = c->offsets[y];
}

static void check_kept(const kernel_case *c, const unsigned char *before)
{
    for (uint64_t i = 0; i < c->image_bytes; i++) {
        if (c->writable[i] == 0 && c->image[i] != before[i]) {
            print_error("%s: byte %llu of the image changed\n", bp_kernel_describe(c->kernel)->name,
                        (unsigned long long)i);
            fail();
        }
    }
}

/* What is written must be written to its end: no word of an output keeps the pattern. (Rows of
 * attention_decode past the cache's end are left alone.) */
static void check_written(const kernel_case *c)
{
    uint32_t pattern;
    memset(&pattern, CASE_PATTERN, sizeof(pattern));
    for (uint64_t i = 0; i < c->image_bytes && c->kernel != BP_KERNEL_attention_decode; i += 4) {
        uint32_t word;
        memcpy(&word, c->image + i, sizeof(word));
        bool all = memcmp(c->writable + i, "\1\1\1\1", sizeof(word)) == 0;
        if (all && word == pattern) {
            print_error("%s: byte %llu of the image was not written\n",
                        bp_kernel_describe(c->kernel)->name, (unsigned long long)i);
            fail();
        }
    }
}

/* Where a list op's table goes on a device that has them: behind the image. */
static uint64_t place_table(const kernel_case *c, const kernel_device *on)
{
    const bp_device *device = on->device;
    uint64_t bytes = device->table_bytes != NULL ? device->table_bytes(c->kernel, c->tuples) : 0;
    uint64_t place = bp_size_align(c->image_bytes, BP_ARENA_ALIGNMENT);
    assert_true(place + bytes <= on->arena_bytes);
    return bytes > 0 ? place : BP_OFFSET_ABSENT;
}

void kernel_case_run(kernel_case *c, kernel_device *on)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    uint64_t table = place_table(c, on);
    bp_linked_op op = {c->kernel, c->tuples, c->offsets, c->scalars, c->dtypes, table};
    bp_linked_program program = {&op, 1};
    uint64_t link_bytes =
        on->device->link_bytes(1, c->tuples * info->operand_count, c->tuples * info->scalar_count);
    void *link_memory = malloc(link_bytes);
    unsigned char *before = kernel_case_save(c);
    assert_true(c->image_bytes <= on->arena_bytes);
    assert_int_equal(on->device->upload(on->context, 0, c->image, c->image_bytes), BP_OK);
    assert_int_equal(on->device->link(on->context, 0, &program, link_memory, link_bytes), BP_OK);
    assert_int_equal(on->device->run(on->context, 0), BP_OK);
    assert_int_equal(on->device->wait(on->context), BP_OK);
    assert_int_equal(on->device->download(on->context, 0, c->image, c->image_bytes), BP_OK);
    check_kept(c, before);
    check_written(c);
    for (uint64_t i = 0; i < c->image_bytes; i++) {
        c->image[i] = c->writable[i] == 2 ? CASE_PATTERN : c->image[i];
    }
    free(before);
    free(link_memory);
}

unsigned char *kernel_case_save(const kernel_case *c)
{
    unsigned char *saved = malloc(c->image_bytes);
    assert_non_null(saved);
    memcpy(saved, c->image, c->image_bytes);
    return saved;
}

void kernel_case_restore(kernel_case *c, const unsigned char *saved)
{
    memcpy(c->image, saved, c->image_bytes);
}

void assert_close(const float *got, const double *right, uint64_t count, double tolerance)
{
    assert_close_to(got, right, count, tolerance, 1e-30);
}

void assert_close_to(const float *got, const double *right, uint64_t count, double tolerance,
                     double least)
{
    double most = least;
    for (uint64_t i = 0; i < count; i++) {
        most = fabs(right[i]) > most ? fabs(right[i]) : most;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!(fabs((double)got[i] - right[i]) <= tolerance * most)) {
            print_error("element %llu: got %.9g, right is %.9g, largest %.3g\n",
                        (unsigned long long)i, (double)got[i], right[i], most);
            fail();
        }
    }
}

void store_elements(void *to, bp_dtype dtype, const float *from, uint64_t count)
{
    uint16_t *half = to;
    if (dtype == BP_F32) {
        memcpy(to, from, count * sizeof(float));
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        half[i] = dtype == BP_F16 ? bp_f16_from_f32(from[i]) : bp_bf16_even_from_f32(from[i]);
    }
}

float element_of(const void *from, bp_dtype dtype, uint64_t i)
{
    if (dtype == BP_F32) {
        return ((const float *)from)[i];
    }
    uint16_t bits = ((const uint16_t *)from)[i];
    return dtype == BP_F16 ? bp_f32_from_f16(bits) : bp_f32_from_bf16(bits);
}

void fill_normal(float *to, uint64_t count, uint64_t seed, double scale)
{
    for (uint64_t i = 0; i < count; i++) {
        to[i] = (float)(scale * bp_random_normal(seed, 0, i));
    }
}
