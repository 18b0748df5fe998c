/* SPDX-License-Identifier: MIT */
/* Exported tensors, formed again of weights, of the rest of them beside them, and of the state of
 * schedule-free rules. */
#include "tools/bedplate/record/record_forms.h"

#include <math.h>
#include <string.h>

#include "core/ops/convert.h"
#include "core/ops/fp8.h"
#include "core/ops/master.h"

static const bp_tensor_entry *record_state(const record_saved *saved, const char *name,
                                           const char *part)
{
    char whole[BP_TENSOR_NAME_MAX + 16];
    const size_t length = strlen(name);
    memcpy(whole, name, length);
    memcpy(whole + length, part, strlen(part) + 1);
    return bp_safetensors_find(&saved->state, whole);
}

static bool record_is_float(bp_dtype dtype)
{
    return dtype == BP_F32 || dtype == BP_BF16 || dtype == BP_F16;
}

/* Of n elements; BP_MASTER_COUNT: none that is known. A weight in fp8 has its codes there too. */
static bp_master record_master_form(const bp_tensor_entry *master, uint64_t n)
{
    const bp_master form = master->dtype == BP_F32   ? BP_MASTER_FP32
                           : master->dtype == BP_U16 ? BP_MASTER_SPLIT
                           : master->bytes == n      ? BP_MASTER_SPLIT8
                                                     : BP_MASTER_FP8;
    const uint64_t codes = form == BP_MASTER_FP8 ? bp_fp8_bytes(n) : 0;
    return master->bytes == codes + n * bp_master_bytes(form) ? form : BP_MASTER_COUNT;
}

bool record_forms_find(record_forms *f, const bp_tensor_entry *mine, const record_saved *saved)
{
    const bp_tensor_entry *w = bp_safetensors_find(&saved->model, mine->name);
    const bp_tensor_entry *m = record_state(saved, mine->name, ".master");
    const bp_tensor_entry *d =
        saved->averaged ? record_state(saved, mine->name, ".z_less_y") : NULL;
    *f = (record_forms){.weights = w, .master = m, .rest = d};
    if (w == NULL || !record_is_float(mine->dtype) || !record_is_float(w->dtype)) {
        return false;
    }
    const uint64_t n = f->count = mine->bytes / bp_dtype_bytes(mine->dtype);
    f->master_form = m != NULL ? record_master_form(m, n) : BP_MASTER_WEIGHT;
    if (w->bytes != n * bp_dtype_bytes(w->dtype) || f->master_form == BP_MASTER_COUNT) {
        return false;
    }
    while (d != NULL && f->rest_form < BP_CODEC_COUNT &&
           d->bytes != bp_codec_bytes(n, f->rest_form)) {
        f->rest_form++;
    }
    return d == NULL || (saved->factor > 0 && f->rest_form < BP_CODEC_COUNT);
}

/* Codes and remainders of fp8 from a block's beginning on, which lie in one tensor. */
static bp_status record_read_fp8(const record_forms *f, const record_saved *saved, uint64_t at,
                                 size_t count, unsigned char *const raw[3])
{
    const uint64_t first = bp_fp8_bytes(at), end = bp_fp8_bytes(at + count);
    const uint64_t rest = bp_fp8_bytes(f->count) + at * sizeof(uint16_t);
    BP_TRY(bp_safetensors_read(&saved->state, f->master, first, raw[0], (size_t)(end - first)));
    return bp_safetensors_read(&saved->state, f->master, rest, raw[1], count * sizeof(uint16_t));
}

static bp_status record_read_weights(const record_forms *f, const record_saved *saved, uint64_t at,
                                     size_t count, unsigned char *const raw[3])
{
    const size_t width = bp_dtype_bytes(f->weights->dtype);
    const uint64_t rest = bp_master_bytes(f->master_form);
    BP_TRY(bp_safetensors_read(&saved->model, f->weights, at * width, raw[0], count * width));
    return f->master == NULL ? BP_OK
                             : bp_safetensors_read(&saved->state, f->master, at * rest, raw[1],
                                                   (size_t)(count * rest));
}

/* From element `at` on, as many as `room` says, as the run forms them; raw is where they are read.
 */
static bp_status record_form(const record_forms *f, const record_saved *saved, uint64_t at,
                             size_t count, unsigned char *const raw[3], float *values)
{
    BP_TRY(f->master_form == BP_MASTER_FP8 ? record_read_fp8(f, saved, at, count, raw)
                                           : record_read_weights(f, saved, at, count, raw));
    bp_elements_load(f->weights->dtype, f->master_form, raw[0], raw[1], values, count);
    if (f->rest == NULL) {
        return BP_OK;
    }
    const uint64_t first = bp_codec_bytes(at, f->rest_form);
    const uint64_t end = bp_codec_bytes(at + count, f->rest_form);
    BP_TRY(bp_safetensors_read(&saved->state, f->rest, first, raw[2], (size_t)(end - first)));
    for (size_t i = 0; i < count; i += BP_CODEC_BLOCK) {
        float d[BP_CODEC_BLOCK];
        const size_t some = count - i < BP_CODEC_BLOCK ? count - i : BP_CODEC_BLOCK;
        bp_codec_decode(f->rest_form, true, raw[2] + bp_codec_bytes(i, f->rest_form),
                        (uint32_t)some, d);
        for (size_t k = 0; k < some; k++) {
            values[i + k] = fmaf(-saved->factor, d[k], values[i + k]);
        }
    }
    return BP_OK;
}

bp_status record_forms_compare(const bp_staging *staging, const bp_safetensors *made,
                               const bp_tensor_entry *mine, const record_saved *saved,
                               const record_forms *f, bool *same)
{
    enum {
        PARTS = 6
    }; /* the codes of a block and its header are no more bytes than two floats each */
    const size_t room = staging->capacity / PARTS / sizeof(float) / BP_CODEC_BLOCK * BP_CODEC_BLOCK;
    const size_t width = bp_dtype_bytes(mine->dtype);
    float *x = (void *)staging->memory, *y = x + room;
    unsigned char *const raw[3] = {(void *)(y + room), (void *)(y + 2 * room),
                                   (void *)(y + 3 * room)};
    for (uint64_t at = 0; *same && at < f->count; at += room) {
        const size_t count = f->count - at < room ? (size_t)(f->count - at) : room;
        BP_TRY(record_form(f, saved, at, count, raw, y));
        (void)bp_elements_convert(BP_F32, y, mine->dtype, x, count); /* as it was exported */
        BP_TRY(bp_safetensors_read(made, mine, at * width, y, count * width));
        *same = memcmp(x, y, count * width) == 0;
    }
    return BP_OK;
}
