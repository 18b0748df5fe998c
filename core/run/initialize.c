/* SPDX-License-Identifier: MIT */
/* What a run begins with: zero optimizer state, and first values of the weights that nobody gives.
 * Each value is a function of (seed, parameter, element), so those of a few are those of all. */
#include <string.h>

#include "core/base/random.h"
#include "core/run/runtime.h"

#define PIECE BP_BLOCK_MOST /* values at once: whole blocks of 4 bits */

void bp_runtime_given(bp_runtime *runtime, uint32_t parameter)
{
    runtime->plan->builder.parameters[parameter].given = true;
}

void bp_runtime_state_given(bp_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count; i++) {
        if (bp_runtime_in_state(runtime, i)) {
            bp_runtime_given(runtime, i);
        }
    }
}

bool bp_runtime_in_state(const bp_runtime *runtime, uint32_t parameter)
{
    const uint32_t weight = runtime->plan->builder.parameters[parameter].weight;
    return runtime->plan->graph.buffers[weight].scope == BP_SCOPE_PERSISTENT;
}

bool bp_runtime_in_base(const bp_runtime *runtime, uint32_t parameter)
{
    const uint32_t weight = runtime->plan->builder.parameters[parameter].weight;
    return runtime->plan->graph.buffers[weight].scope == BP_SCOPE_CONSTANT;
}

void bp_runtime_base_given(bp_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count; i++) {
        if (bp_runtime_in_base(runtime, i)) {
            bp_runtime_given(runtime, i);
        }
    }
}

bool bp_runtime_draws_base(const bp_runtime *runtime)
{
    bool draws = false;
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count; i++) {
        draws = draws ||
                (bp_runtime_in_base(runtime, i) && !runtime->plan->builder.parameters[i].given);
    }
    return draws;
}

static bp_status fill_zeros(bp_runtime *runtime, const bp_buffer *buffer)
{
    memset(runtime->transfer, 0, BP_TRANSFER_BYTES);
    for (uint64_t done = 0; done < buffer->bytes; done += BP_TRANSFER_BYTES) {
        uint64_t left = buffer->bytes - done;
        size_t piece = left < BP_TRANSFER_BYTES ? (size_t)left : BP_TRANSFER_BYTES;
        BP_TRY(bp_runtime_write(runtime, buffer, done, runtime->transfer, piece));
    }
    return BP_OK;
}

/* What the first step finds in the control block. */
static bp_status fill_control(bp_runtime *runtime)
{
    const bp_control_block control = {.scale = (float)runtime->plan->spec.scaling.initial};
    return bp_runtime_write(runtime,
                            &runtime->plan->graph.buffers[runtime->plan->builder.control.buffer], 0,
                            &control, sizeof control);
}

bp_status bp_runtime_clear(bp_runtime *runtime)
{
    BP_TRY(bp_runtime_require(runtime, runtime->open, "the runtime is not open"));
    const bool zero = runtime->zeroed; /* writing ends it */
    for (uint32_t i = 0; i < runtime->state_count && !zero; i++) {
        const bp_buffer *buffer = bp_runtime_state(runtime, i);
        if (buffer->class_of != BP_CLASS_WEIGHTS && buffer->class_of != BP_CLASS_MASTER) {
            BP_TRY(fill_zeros(runtime, buffer));
        }
    }
    BP_TRY(fill_control(runtime));
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count; i++) {
        runtime->plan->builder.parameters[i].given = false;
    }
    runtime->steps = 0;
    runtime->skipped = 0;
    return BP_OK;
}

/* Whether the model publishes a matrix as it is quantised, (out, in), or is not quantised. */
static bool published_as_is(const bp_runtime *runtime, const bp_parameter *p)
{
    const bool turned = p->rank == 3 ? p->input_major : runtime->plan->spec.model->input_major;
    return p->quantised == BP_QUANTISED_NONE || !turned;
}

/* Element number `at` of a matrix as it is quantised, where the model publishes it turned. */
static uint64_t published(const bp_runtime *runtime, const bp_parameter *p, uint64_t at)
{
    const bp_matrices m = bp_build_matrices(&runtime->plan->spec, p);
    const uint64_t first = at / (m.out * m.in) * (m.out * m.in);
    return first + (at - first) % m.in * m.out + (at - first) / m.in;
}

static void draw_values(const bp_runtime *runtime, uint32_t parameter, uint64_t first,
                        uint64_t count, float *to)
{
    const bp_device *device = runtime->plan->spec.device;
    const double deviation = runtime->plan->builder.parameters[parameter].deviation;
    const uint64_t seed = runtime->plan->spec.seed;
    if (device->normals != NULL) {
        device->normals(runtime->device, seed, parameter, first, count, deviation, to);
    } else {
        bp_random_normals(seed, parameter, first, count, deviation, to);
    }
}

/* What elements `first` on of a parameter begin with. */
static void first_values(const bp_runtime *runtime, uint32_t parameter, uint64_t first,
                         uint64_t count, float *to)
{
    const bp_parameter *p = &runtime->plan->builder.parameters[parameter];
    const bp_spec *spec = &runtime->plan->spec;
    if (p->constant) {
        for (uint64_t k = 0; k < count; k++) {
            to[k] = (float)spec->model->constant(&spec->config, parameter, first + k);
        }
    } else if (p->init != BP_INIT_NORMAL) {
        for (uint64_t k = 0; k < count; k++) {
            to[k] = p->init == BP_INIT_ONES    ? 1.0f
                    : p->init == BP_INIT_VALUE ? (float)p->deviation
                                               : 0.0f;
        }
    } else if (published_as_is(runtime, p)) {
        draw_values(runtime, parameter, first, count, to);
    } else {
        for (uint64_t k = 0; k < count; k++) {
            to[k] = (float)(p->deviation * bp_random_normal(runtime->plan->spec.seed, parameter,
                                                            published(runtime, p, first + k)));
        }
    }
}

/* Ones, zeros, what is to be quantised and what lives in storage, made here; every form of weight
 * and master holds ones and zeros exactly. */
static bp_status fill_weight(bp_runtime *runtime, uint32_t parameter, uint32_t pass)
{
    float values[PIECE];
    const bp_parameter *p = &runtime->plan->builder.parameters[parameter];
    for (uint64_t done = 0; done < p->count;) {
        uint64_t left = p->count - done;
        uint64_t piece = left < PIECE ? left : PIECE;
        first_values(runtime, parameter, done, piece, values);
        BP_TRY(p->quantised != BP_QUANTISED_NONE
                   ? bp_runtime_quantise(runtime, parameter, pass, done, values, piece)
                   : bp_runtime_put_weight(runtime, parameter, done, values, piece));
        done += piece;
    }
    return BP_OK;
}

bp_status bp_runtime_draw(bp_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count; i++) {
        const bp_parameter *p = &runtime->plan->builder.parameters[i];
        const bool codes = p->quantised != BP_QUANTISED_NONE;
        const bool simple = p->init <= BP_INIT_VALUE;
        const bool here = !p->given && (codes || p->offloaded || p->fixed || p->aside ||
                                        p->master_form == BP_MASTER_FP8 || simple);
        const uint32_t passes = codes ? bp_quantised_passes(p->quantised) : 1;
        for (uint32_t pass = 0; here && pass < passes; pass++) {
            BP_TRY(fill_weight(runtime, i, pass));
        }
    }
    return bp_runtime_draw_normal(runtime);
}

bp_status bp_runtime_initialize(bp_runtime *runtime)
{
    BP_TRY(bp_runtime_clear(runtime));
    return bp_runtime_draw(runtime);
}
