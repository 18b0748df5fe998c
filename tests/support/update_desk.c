/* SPDX-License-Identifier: MIT */
/* One tensor and one update row. */
#include "tests/support/update_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/number/math.h"
#include "device/host/host.h"

#define CHUNK 512

static void find_states(update_desk *d)
{
    static const struct {
        bp_kernel kernel;
        uint32_t states, signs;
    } rows[] = {{BP_KERNEL_sgd, 1, 1},      {BP_KERNEL_adam, 3, 1},
                {BP_KERNEL_adamw, 3, 1},    {BP_KERNEL_lion, 1, 1},
                {BP_KERNEL_rmsprop, 3, 2},  {BP_KERNEL_adagrad, 1, 0},
                {BP_KERNEL_lamb, 3, 1},     {BP_KERNEL_lars, 1, 1},
                {BP_KERNEL_ademamix, 7, 3}, {BP_KERNEL_schedule_free, 3, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].kernel == d->kernel) {
            d->states = rows[i].states;
            d->signs = rows[i].signs;
        }
    }
    if (d->kernel == BP_KERNEL_sgd && d->scalars.sgd.momentum <= 0.0) {
        d->states = 0;
    }
    if (d->kernel == BP_KERNEL_rmsprop && d->scalars.rmsprop.momentum <= 0.0) {
        d->states = 1;
    }
}

static void put(update_desk *d, int place, uint64_t bytes)
{
    d->place[place] = bytes == 0 ? BP_OFFSET_ABSENT : d->bytes;
    d->bytes += bp_size_align(bytes + 64, BP_ARENA_ALIGNMENT);
}

void update_desk_open(update_desk *d, bp_kernel kernel, const update_scalars *scalars,
                      const update_setup *setup)
{
    memset(d, 0, sizeof *d);
    d->setup = *setup;
    d->setup.device = setup->device != NULL ? setup->device : &bp_device_host;
    d->kernel = kernel;
    d->scalars = *scalars;
    d->scalars.adamw.form = setup->form;
    d->scalars.adamw.master_form = setup->master;
    d->count = (uint64_t)scalars->adamw.count;
    find_states(d);
    put(d, DESK_WEIGHT, bp_master_weight_bytes(setup->weight, setup->master, d->count));
    put(d, DESK_MASTER, d->count * bp_master_bytes(setup->master));
    for (int i = 0; i < 3; i++) {
        put(d, DESK_STATE + i,
            (d->states >> i & 1) != 0 ? bp_codec_bytes(d->count, setup->form) : 0);
    }
    put(d, DESK_GRADIENT, d->count * bp_dtype_bytes(setup->gradient));
    put(d, DESK_TRUST, sizeof(float));
    put(d, DESK_CONTROL, sizeof(bp_control_block));
    put(d, DESK_STEP, sizeof(bp_step_block));
    put(d, DESK_PARTIALS, 16 * bp_size_ceil_div(d->count, CHUNK));
    put(d, DESK_TABLE, 1024);
    d->image = calloc(1, d->bytes);
    d->context = malloc(d->setup.device->context_bytes);
    d->link_bytes = d->setup.device->link_bytes(1, BP_OPERANDS_MAX, BP_SCALARS_MAX);
    d->link = malloc(d->link_bytes);
    assert_non_null(d->image);
    assert_int_equal(posix_memalign(&d->arena, BP_ARENA_ALIGNMENT, d->bytes), 0);
    bp_error error = {0};
    const bp_device_options options = {.threads = setup->threads > 0 ? setup->threads : 1,
                                       .variant = setup->variant};
    bool host = d->setup.device == &bp_device_host;
    const bp_places places = bp_places_device(host ? d->arena : NULL, d->bytes);
    assert_int_equal(d->setup.device->open(d->context, &options, &places, &error), BP_OK);
    d->step.seed = 11;
}

void update_desk_close(update_desk *d)
{
    d->setup.device->close(d->context);
    free(d->image);
    free(d->arena);
    free(d->context);
    free(d->link);
}

void update_desk_set(update_desk *d, const float *weights)
{
    void *weight = d->image + d->place[DESK_WEIGHT];
    const uint64_t at = d->place[DESK_MASTER];
    void *master = at != BP_OFFSET_ABSENT ? d->image + at : NULL;
    if (d->setup.master == BP_MASTER_FP8) {
        bp_fp8_store(weights, d->count, weight, master);
        return;
    }
    for (uint64_t i = 0; i < d->count; i++) {
        bp_master_store(d->setup.weight, d->setup.master, weight, master, i, weights[i]);
    }
}

static void run_op(update_desk *d, bp_kernel kernel, const void *scalars, const uint64_t *offsets,
                   const uint8_t *dtypes)
{
    const bp_device *device = d->setup.device;
    const bp_linked_op op = {kernel, 1, offsets, scalars, dtypes, d->place[DESK_TABLE]};
    const bp_linked_program program = {&op, 1};
    assert_int_equal(device->link(d->context, 0, &program, d->link, d->link_bytes), BP_OK);
    assert_int_equal(device->run(d->context, 0), BP_OK);
    assert_int_equal(device->wait(d->context), BP_OK);
}

/* The row of norms before lamb or lars, then the ratio. */
static void run_trust(update_desk *d, double coefficient, double ratio_decay)
{
    const uint8_t dtypes[] = {BP_F64, (uint8_t)d->setup.weight,   BP_U8, BP_U8,
                              BP_U8,  (uint8_t)d->setup.gradient, BP_U8, BP_U8};
    bool lamb = d->kernel == BP_KERNEL_lamb;
    const uint64_t absent = BP_OFFSET_ABSENT;
    const uint64_t offsets[] = {d->place[DESK_PARTIALS],
                                d->place[DESK_WEIGHT],
                                d->place[DESK_MASTER],
                                lamb ? d->place[DESK_STATE] : absent,
                                lamb ? d->place[DESK_STATE + 1] : absent,
                                d->place[DESK_GRADIENT],
                                d->place[DESK_CONTROL],
                                d->place[DESK_STEP]};
    bp_lamb_norms_scalars norms = {.chunk = CHUNK};
    memcpy(&norms, &d->scalars, sizeof(bp_lamb_scalars));
    bp_lars_norms_scalars lars = {.chunk = CHUNK};
    memcpy(&lars, &d->scalars, offsetof(bp_lars_norms_scalars, chunk));
    run_op(d, lamb ? BP_KERNEL_lamb_norms : BP_KERNEL_lars_norms,
           lamb ? (const void *)&norms : (const void *)&lars, offsets, dtypes);
    const bp_trust_ratio_scalars ratio = {.pairs = (int64_t)bp_size_ceil_div(d->count, CHUNK),
                                          .coefficient = coefficient,
                                          .decay = ratio_decay};
    const uint64_t places[] = {d->place[DESK_TRUST], d->place[DESK_PARTIALS]};
    const uint8_t types[] = {BP_F32, BP_F64};
    run_op(d, BP_KERNEL_trust_ratio, &ratio, places, types);
}

static void put_gradients(update_desk *d, const float *gradients)
{
    for (uint64_t i = 0; i < d->count; i++) {
        bp_master_store(d->setup.gradient, BP_MASTER_WEIGHT, d->image + d->place[DESK_GRADIENT],
                        NULL, i, gradients[i]);
    }
}

/* What step_decide does when nothing is clipped. */
static void count_step(update_desk *d, double rate)
{
    const bool lion =
        d->kernel == BP_KERNEL_lion; /* all with corrections have these two in one place */
    d->control.clip = 1.0f;
    d->control.applied++;
    d->control.correction1 = 1.0 - bp_powi(lion ? 0.5 : d->scalars.adamw.beta1, d->control.applied);
    d->control.correction2 = 1.0 - bp_powi(lion ? 0.5 : d->scalars.adamw.beta2, d->control.applied);
    d->step.learning_rate = (float)rate;
    memcpy(d->image + d->place[DESK_CONTROL], &d->control, sizeof d->control);
    memcpy(d->image + d->place[DESK_STEP], &d->step, sizeof d->step);
    d->step.step++;
}

void update_desk_step(update_desk *d, const float *gradients, double rate, double coefficient,
                      double ratio_decay)
{
    const bp_device *device = d->setup.device;
    put_gradients(d, gradients);
    count_step(d, rate);
    d->scalars.adamw.rate_scale = rate / (double)d->step.learning_rate; /* the rate in double */
    assert_int_equal(device->upload(d->context, 0, d->image, d->bytes), BP_OK);
    if (d->kernel == BP_KERNEL_schedule_free) {
        const bp_average_step_scalars average = {.power = 2};
        const uint64_t places[] = {d->place[DESK_CONTROL], d->place[DESK_STEP]};
        run_op(d, BP_KERNEL_average_step, &average, places, (const uint8_t[]){BP_U8, BP_U8});
    }
    if (coefficient > 0.0) {
        run_trust(d, coefficient, ratio_decay);
    }
    const uint8_t dtypes[] = {(uint8_t)d->setup.weight,   BP_U8,  BP_U8, BP_U8, BP_U8,
                              (uint8_t)d->setup.gradient, BP_F32, BP_U8, BP_U8};
    uint64_t offsets[9];
    memcpy(offsets, d->place, sizeof offsets);
    offsets[DESK_TRUST] = coefficient > 0.0 ? offsets[DESK_TRUST] : BP_OFFSET_ABSENT;
    run_op(d, d->kernel, &d->scalars, offsets, dtypes);
    assert_int_equal(device->download(d->context, 0, d->image, d->bytes), BP_OK);
    memcpy(&d->control, d->image + d->place[DESK_CONTROL], sizeof d->control);
}

void update_desk_average(update_desk *d, double factor, float *values)
{
    const bp_device *device = d->setup.device;
    const bp_averaged_weight_scalars s = {.count = (int64_t)d->count,
                                          .form = d->setup.form,
                                          .master_form = d->setup.master,
                                          .factor = factor};
    const uint8_t dtypes[] = {BP_F32, (uint8_t)d->setup.weight, BP_U8, BP_U8};
    const uint64_t places[] = {d->place[DESK_GRADIENT], d->place[DESK_WEIGHT],
                               d->place[DESK_MASTER], d->place[DESK_STATE]};
    assert_int_equal(d->setup.gradient, BP_F32); /* which has room for what is made */
    assert_int_equal(device->upload(d->context, 0, d->image, d->bytes), BP_OK);
    run_op(d, BP_KERNEL_averaged_weight, &s, places, dtypes);
    assert_int_equal(device->download(d->context, 0, d->image, d->bytes), BP_OK);
    memcpy(values, d->image + d->place[DESK_GRADIENT], d->count * sizeof *values);
}

void update_desk_get(const update_desk *d, float *weights)
{
    const void *weight = d->image + d->place[DESK_WEIGHT];
    const uint64_t at = d->place[DESK_MASTER];
    const void *master = at != BP_OFFSET_ABSENT ? d->image + at : NULL;
    if (d->setup.master == BP_MASTER_FP8) {
        bp_fp8_load(weight, master, d->count, weights);
        return;
    }
    for (uint64_t i = 0; i < d->count; i++) {
        weights[i] = bp_master_load(d->setup.weight, d->setup.master, weight, master, i);
    }
}

void update_desk_state(const update_desk *d, uint32_t state, float *values)
{
    const unsigned char *at = d->image + d->place[DESK_STATE + state];
    for (uint64_t first = 0; first < d->count; first += BP_CODEC_BLOCK) {
        uint64_t rest = d->count - first;
        bp_codec_decode(d->setup.form, (d->signs >> state & 1) != 0,
                        at + bp_codec_bytes(first, d->setup.form),
                        (uint32_t)(rest < BP_CODEC_BLOCK ? rest : BP_CODEC_BLOCK), values + first);
    }
}

const void *update_desk_weight(const update_desk *d)
{
    return d->image + d->place[DESK_WEIGHT];
}
