/* SPDX-License-Identifier: MIT */
/* A rig against a file of reference values. */
#include "tests/support/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A weight as the model publishes it, in codes; those are made of the matrix as (out, in). */
static void put_quantised(rig *r, uint32_t index, const float *weight)
{
    const bp_parameter *p = &r->runtime.emit.parameters[index];
    const uint64_t columns = p->shape[1], rows = p->shape[0];
    float *turned = malloc(p->count * sizeof *turned);
    assert_non_null(turned);
    for (uint64_t i = 0; i < p->count; i++) {
        bool turn = r->runtime.spec.model->input_major;
        turned[turn ? i % columns * rows + i / columns : i] = weight[i];
    }
    for (uint32_t pass = 0; pass < bp_quantised_passes(p->quantised); pass++) {
        uint64_t first = p->count < 128 ? p->count : 128; /* in two calls, like a piece of a file */
        assert_int_equal(bp_runtime_quantise(&r->runtime, index, pass, 0, turned, first), BP_OK);
        assert_int_equal(
            bp_runtime_quantise(&r->runtime, index, pass, first, turned + first, p->count - first),
            BP_OK);
    }
    free(turned);
}

static void put_weight(const golden *g, rig *r, uint32_t index)
{
    const bp_emit *emit = &r->runtime.emit;
    const uint32_t buffer = emit->parameters[index].weight;
    size_t bytes = 0;
    float *weight = golden_tensor(g, bp_graph_name(&r->runtime.graph, buffer), &bytes);
    if (bp_emit_quantised(emit, index)) {
        assert_int_equal(bytes, emit->parameters[index].count * sizeof *weight);
        put_quantised(r, index, weight);
    } else {
        assert_int_equal(bytes, r->runtime.graph.buffers[buffer].bytes);
        rig_write(r, buffer, weight);
    }
    free(weight);
}

void reference_weights(const golden *g, rig *r)
{
    for (uint32_t i = 0; i < r->runtime.emit.parameter_count; i++) {
        put_weight(g, r, i);
    }
}

void reference_base_weights(const golden *g, rig *r)
{
    for (uint32_t i = 0; i < r->runtime.emit.parameter_count; i++) {
        if (r->runtime.emit.parameters[i].base == BP_NO_PARAMETER) {
            put_weight(g, r, i);
        }
    }
}

static float *gradient_of(const golden *g, const rig *r, uint32_t index)
{
    char name[160];
    size_t bytes = 0;
    const bp_parameter *parameter = &r->runtime.emit.parameters[index];
    snprintf(name, sizeof name, "grad.%s", bp_graph_name(&r->runtime.graph, parameter->weight));
    float *gradient = golden_tensor(g, name, &bytes);
    assert_int_equal(bytes, parameter->count * sizeof *gradient);
    return gradient;
}

double reference_largest(const float *values, uint64_t count)
{
    double most = 0.0;
    for (uint64_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)values[i]));
    }
    return most;
}

double reference_number(const golden *g, const char *name, size_t index)
{
    size_t bytes = 0;
    double *value = golden_tensor(g, name, &bytes);
    assert_true(index < bytes / sizeof *value);
    double number = value[index];
    free(value);
    return number;
}

double reference_gradients(const golden *g, rig *r, const char *name)
{
    double most = 0.0, worst = 0.0;
    const bp_emit *emit = &r->runtime.emit;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        if (!emit->parameters[i].trainable) {
            continue;
        }
        float *wanted = gradient_of(g, r, i);
        most = fmax(most, reference_largest(wanted, emit->parameters[i].count));
        free(wanted);
    }
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_parameter *parameter = &emit->parameters[i];
        if (!parameter->trainable) {
            continue;
        }
        float *wanted = gradient_of(g, r, i), *found = rig_read(r, parameter->gradient);
        double error = 0.0;
        for (uint64_t k = 0; k < parameter->count; k++) {
            assert_true(isfinite(found[k]));
            error = fmax(error, fabs((double)found[k] - (double)wanted[k]));
        }
        /* A gradient that is 0 but for rounding has no scale of its own. */
        const double largest = reference_largest(wanted, parameter->count);
        error /= largest > 1e-12 * most ? fmax(largest, 1e-3 * most) : most;
        if (error > 1e-5) {
            fail_msg("%s: gradient of %s off by %g", name,
                     bp_graph_name(&r->runtime.graph, parameter->weight), error);
        }
        worst = fmax(worst, error);
        free(wanted);
        free(found);
    }
    return worst;
}

/* Where the logits of an evaluation stand in the file's. */
typedef struct kept {
    const float *wanted;
    const int32_t *lengths;
    uint64_t rows; /* of the file */
    uint64_t row;  /* reached so far */
    double scale;
    double worst;
} kept;

/* Of answers the file has (samples, 2, sequence), a batch (2, batch, sequence). */
static bp_status compare_answers(kept *k, const bp_runtime *runtime)
{
    const bp_spec *spec = &runtime->spec;
    for (uint64_t i = 0; i < runtime->group.samples; i++) {
        for (uint64_t end = 0; end < 2; end++, k->row++) {
            for (uint64_t t = 0; t < spec->sequence; t++) {
                const uint64_t at = (end * spec->batch + i) * spec->sequence + t;
                const double off = fabs((double)runtime->logits_host[at] -
                                        (double)k->wanted[k->row * spec->sequence + t]);
                k->worst = fmax(k->worst, isfinite(off) ? off / k->scale : 1.0);
            }
        }
    }
    return BP_OK;
}

/* Whether a sample has one row of them. */
static bool reference_judges(bp_task task)
{
    return bp_task_judges_samples(task) || task == BP_TASK_EMBEDDING;
}

static bp_status compare_kept(void *user, const bp_runtime *runtime)
{
    kept *k = user;
    const bp_spec *spec = &runtime->spec;
    const uint64_t width = bp_compile_logits_width(spec);
    const bp_task task = spec->config.task;
    const bool tokens = !reference_judges(task) && task != BP_TASK_ANSWERS;
    const uint64_t per_sample = tokens ? spec->sequence : 1;
    if (task == BP_TASK_ANSWERS) {
        return compare_answers(k, runtime);
    }
    for (uint64_t i = 0; i < runtime->group.samples * per_sample; i++, k->row++) {
        const uint64_t place = tokens ? k->row % spec->sequence : 0;
        const bool padding =
            k->lengths != NULL && place >= (uint64_t)k->lengths[k->row / per_sample];
        for (uint64_t v = 0; v < width && k->row < k->rows && !padding; v++) {
            const float wanted = k->wanted[k->row * width + v];
            const double off = fabs((double)runtime->logits_host[i * width + v] - (double)wanted);
            k->worst = fmax(k->worst, isfinite(off) ? off / k->scale : 1.0);
        }
    }
    return BP_OK;
}

double reference_kept_logits(const golden *g, rig *r, const int32_t *lengths)
{
    size_t bytes = 0;
    float *logits = golden_tensor(g, "logits", &bytes);
    const uint64_t count = bytes / sizeof *logits;
    kept k = {.wanted = logits,
              .lengths = lengths,
              .rows = count / bp_compile_logits_width(&r->runtime.spec),
              .scale = reference_largest(logits, count)};
    double loss = 0.0;
    uint64_t targets = 0;
    assert_int_equal(
        bp_runtime_evaluate_each(&r->runtime, &r->feed, 0, compare_kept, &k, &loss, &targets),
        BP_OK);
    assert_true(k.rows > 0 && k.row >= k.rows);
    assert_true(k.worst <= 1e-5);
    free(logits);
    return loss;
}

void reference_logits(const golden *g, rig *r, const int32_t *tokens, uint32_t count,
                      uint32_t at_once)
{
    const uint32_t vocabulary = r->runtime.spec.config.vocabulary;
    size_t bytes = 0;
    float *logits = golden_tensor(g, "logits", &bytes);
    assert_int_equal(bytes, (size_t)count * vocabulary * sizeof *logits);
    const double scale = reference_largest(logits, bytes / sizeof *logits);
    assert_int_equal(bp_runtime_restart(&r->runtime), BP_OK);
    for (uint32_t t = 0; t < count; t += at_once) {
        const uint32_t piece = at_once < count - t ? at_once : count - t;
        assert_int_equal(bp_runtime_accept(&r->runtime, tokens + t, piece), BP_OK);
        for (uint32_t v = 0; v < vocabulary; v++) {
            const float wanted = logits[(t + piece - 1) * vocabulary + v];
            const double off = fabs((double)r->runtime.logits_host[v] - (double)wanted);
            assert_true(off <= 1e-5 * scale);
        }
    }
    free(logits);
}
