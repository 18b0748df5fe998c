/* SPDX-License-Identifier: MIT */
/* Scaled rotary positions in GGUF: keys of linear, yarn and longrope, and the tensors of factors.
 */
#include "tools/formats/gguf/gguf_rope.h"

#include <math.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/base/math.h"

#define TWO_PI 6.283185307179586

enum {
    FACTORS_MOST = 512,
    ORIGINAL_FIRST = 13, /* 8192 */
    ORIGINAL_BITS = 20,
    POSITIONS_MOST = 1 << 24
};

/* ---- writing ---- */

/* modeling_rope_utils.py, _compute_llama3_parameters: long waves are slowed by the factor, short
 * ones are left alone, and those between go over smoothly. */
size_t bp_gguf_llama_frequencies(const bp_model_config *config, float *factors, size_t room)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_rope_scaling *s = &own.rope_scaling;
    size_t count = bp_gguf_llama_head_width(&own) / 2;
    if (s->factor == 0.0 || s->kind != BP_ROPE_LLAMA3) {
        return 0;
    }
    for (size_t i = 0; i < count && i < room; i++) {
        double wave = TWO_PI * bp_pow(own.rope_theta, (double)i / (double)count);
        double turns = (double)s->original / wave;
        double share = (turns - s->low) / (s->high - s->low);
        double factor = turns > s->high  ? 1.0
                        : turns < s->low ? s->factor
                                         : 1.0 / ((1.0 - share) / s->factor + share);
        factors[i] = (float)factor;
    }
    return count;
}

size_t bp_gguf_llama_factors(const bp_model_config *config, uint32_t number, const char **name,
                             float *factors, size_t room)
{
    *name = "rope_freqs.weight";
    return number == 0 ? bp_gguf_llama_frequencies(config, factors, room) : 0;
}

size_t bp_gguf_long_factors(const bp_model_config *config, uint32_t number, const char **name,
                            float *factors, size_t room)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bp_llama_long both;
    *name = number == 0 ? "rope_factors_long.weight" : "rope_factors_short.weight";
    if (number > 1 || own.rope_pairs == 0 || own.rope_scaling.kind != BP_ROPE_LONG) {
        return 0;
    }
    bp_family_config_get(config, &both, sizeof both);
    const size_t some = own.rope_pairs < room ? own.rope_pairs : room;
    memcpy(factors, number == 0 ? both.far : both.near, some * sizeof *factors);
    return own.rope_pairs;
}

/* What readers multiply cosines and sines by under yarn, whatever the file says. */
static double yarn_own(double factor)
{
    return factor > 1.0 ? 0.1 * bp_log(factor) + 1.0 : 1.0;
}

static void rope_put_f32(bp_gguf_writer *w, const char *a, const char *rest, double value)
{
    bp_gguf_put_f32(w, bp_gguf_key_of(a, rest).text, (float)value);
}

void bp_gguf_rope_put(bp_gguf_writer *w, const char *a, const bp_llama_config *own)
{
    const bp_rope_scaling *s = &own->rope_scaling;
    const bool yarn = s->kind == BP_ROPE_YARN, is_long = s->kind == BP_ROPE_LONG;
    if (!(s->factor > 0.0) || s->kind == BP_ROPE_LLAMA3 || s->kind == BP_ROPE_DYNAMIC) {
        return;
    }
    if (!is_long) {
        bp_gguf_put_string(w, bp_gguf_key_of(a, "rope.scaling.type").text, yarn ? "yarn" : "linear",
                           yarn ? 4 : 6);
        rope_put_f32(w, a, "rope.scaling.factor", s->factor);
    }
    if (yarn || is_long) {
        bp_gguf_put_u32(w, bp_gguf_key_of(a, "rope.scaling.original_context_length").text,
                        s->original);
    }
    if (is_long) {
        rope_put_f32(w, a, "rope.scaling.attn_factor", bp_rope_magnitude(s));
    }
    if (yarn) {
        rope_put_f32(w, a, "rope.scaling.yarn_beta_fast", s->high);
        rope_put_f32(w, a, "rope.scaling.yarn_beta_slow", s->low);
    }
    if (yarn && s->magnitude > 0.0) {
        rope_put_f32(w, a, "rope.scaling.attn_factor", s->magnitude / yarn_own(s->factor));
    }
}

static bp_status rope_refuse_export(bp_error *error, const char *text, const char *name)
{
    return bp_error_set(error, BP_ERR_USAGE, "gguf", text, name);
}

bp_status bp_gguf_rope_exports(const bp_llama_config *own, unsigned kinds, bp_error *error)
{
    const bp_rope_scaling *s = &own->rope_scaling;
    if (!(s->factor > 0.0)) {
        return BP_OK;
    }
    if ((kinds >> s->kind & 1u) == 0) {
        return rope_refuse_export(
            error, "readers of this architecture do not know this scaling of rotary positions",
            "rope_scaling");
    }
    return s->kind == BP_ROPE_YARN && s->even
               ? rope_refuse_export(error, "readers round the bounds of yarn's ramp",
                                    "rope_scaling.truncate")
               : BP_OK;
}

/* ---- reading ---- */

const bp_tensor_entry *bp_gguf_tensor(const bp_gguf_file *f, const char *name)
{
    for (size_t i = 0; i < f->part.entry_count; i++) {
        if (strcmp(f->part.entries[i].name, name) == 0) {
            return &f->part.entries[i];
        }
    }
    return NULL;
}

/* The floats of a tensor; *there: it is in the file. */
static bp_status take_factors(const bp_gguf_file *f, const char *name, size_t count, float *found,
                              bool *there)
{
    const bp_tensor_entry *entry = bp_gguf_tensor(f, name);
    *there = entry != NULL;
    if (!*there) {
        return BP_OK;
    }
    if (entry->dtype != BP_F32 || entry->packed != 0 || entry->rank != 1 ||
        entry->shape[0] != count) {
        return bp_gguf_refuse(f,
                              "the factors of the rotary frequencies are no floats, one for "
                              "two of a head",
                              name);
    }
    return f->store->read_at(f->store, f->file, f->part.data_at + entry->offset, found,
                             count * sizeof *found) == BP_OK
               ? BP_OK
               : bp_storage_failed(f->error, f->store, "read", f->path);
}

static bool has_factors(const bp_model_config *config, const float *found, size_t count)
{
    float right[FACTORS_MOST];
    bool same = bp_gguf_llama_frequencies(config, right, FACTORS_MOST) == count;
    for (size_t i = 0; same && i < count; i++) {
        const float off = found[i] - right[i];
        same = off <= 1e-4f * right[i] && -off <= 1e-4f * right[i];
    }
    return same;
}

/* Files hold the factors of the frequencies, and config.json the numbers that they follow from:
 * Llama 3's 1 and 4, the largest factor, and the first power of two, from Llama 3's 8192 on, whose
 * factors are those of the file. */
static bp_status find_scaling(const bp_gguf_file *f, const float *found, size_t count,
                              bp_model_config *config, bp_llama_config *own)
{
    own->rope_scaling = (bp_rope_scaling){.factor = 1.0, .low = 1.0, .high = 4.0};
    for (size_t i = 0; i < count; i++) {
        const double factor = (double)found[i];
        own->rope_scaling.factor =
            factor > own->rope_scaling.factor ? factor : own->rope_scaling.factor;
    }
    for (uint32_t turn = 0; turn <= ORIGINAL_BITS; turn++) {
        own->rope_scaling.original = UINT32_C(1) << (ORIGINAL_FIRST + turn) % (ORIGINAL_BITS + 1);
        bp_family_config_set(config, own, sizeof *own);
        if (has_factors(config, found, count)) {
            return BP_OK;
        }
    }
    return bp_gguf_refuse(f, "these factors of the rotary frequencies are not Llama 3's",
                          "rope_freqs.weight");
}

/* A number that may be missing. */
static bp_status take_number(const bp_gguf_file *f, const char *a, const char *rest, double other,
                             double *value)
{
    *value = other;
    return bp_gguf_take_positive(f, bp_gguf_key_of(a, rest).text, value);
}

static bp_status take_original(const bp_gguf_file *f, const char *a, uint32_t positions,
                               uint32_t *original)
{
    const bp_gguf_key_name key = bp_gguf_key_of(a, "rope.scaling.original_context_length");
    *original = positions;
    return bp_gguf_find(f, key.text) == NULL
               ? BP_OK
               : bp_gguf_take_count(f, key.text, 1, POSITIONS_MOST, original);
}

/* Linear and yarn. A file without a type means linear, as its readers do. */
static bp_status take_keys(const bp_gguf_file *f, const char *a, uint32_t positions,
                           bp_rope_scaling *s)
{
    char type[16] = "linear";
    double factor, magnitude;
    if (bp_gguf_find(f, bp_gguf_key_of(a, "rope.scaling.type").text) != NULL) {
        BP_TRY(
            bp_gguf_take_string(f, bp_gguf_key_of(a, "rope.scaling.type").text, type, sizeof type));
    }
    const bool yarn = strcmp(type, "yarn") == 0, none = strcmp(type, "none") == 0;
    if (!yarn && !none && strcmp(type, "linear") != 0) {
        return bp_gguf_refuse(f, "this rotary scaling is not implemented", "rope.scaling.type");
    }
    BP_TRY(take_number(f, a, "rope.scaling.factor", 1.0, &factor));
    BP_TRY(take_number(f, a, "rope.scaling.attn_factor", 1.0, &magnitude));
    if (none || (factor == 1.0 && magnitude == 1.0)) {
        return BP_OK;
    }
    if (!yarn && magnitude != 1.0) {
        return bp_gguf_refuse(f, "this rotary scaling is not implemented",
                              "rope.scaling.attn_factor");
    }
    *s = (bp_rope_scaling){.factor = factor, .kind = yarn ? BP_ROPE_YARN : BP_ROPE_LINEAR};
    BP_TRY(take_original(f, a, positions, &s->original));
    if (!yarn) {
        return BP_OK;
    }
    s->magnitude = magnitude != 1.0 ? magnitude * yarn_own(factor) : 0.0;
    BP_TRY(take_number(f, a, "rope.scaling.yarn_beta_slow", 1.0, &s->low));
    return take_number(f, a, "rope.scaling.yarn_beta_fast", 32.0, &s->high);
}

static bp_status refuse_unknown(const bp_gguf_file *f, const char *a)
{
    static const char *const keys[] = {"rope.scale_linear", "rope.scaling.alpha",
                                       "rope.scaling.yarn_log_multiplier",
                                       "rope.scaling.yarn_ext_factor"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (bp_gguf_find(f, bp_gguf_key_of(a, keys[i]).text) != NULL) {
            return bp_gguf_refuse(f, "this rotary scaling is not implemented", keys[i]);
        }
    }
    return BP_OK;
}

bp_status bp_gguf_rope_take(const bp_gguf_file *f, const char *a, bp_model_config *config,
                            bp_llama_config *own)
{
    float found[FACTORS_MOST];
    const size_t count = bp_gguf_llama_head_width(own) / 2;
    bool there = false;
    BP_TRY(refuse_unknown(f, a));
    own->rope_scaling = (bp_rope_scaling){.factor = 0.0};
    BP_TRY(take_keys(f, a, config->positions, &own->rope_scaling));
    if (bp_gguf_tensor(f, "rope_freqs.weight") != NULL &&
        (count > FACTORS_MOST || own->rope_scaling.factor > 0.0)) {
        return bp_gguf_refuse(f, "this rotary scaling is not implemented", "rope_freqs.weight");
    }
    BP_TRY(take_factors(f, "rope_freqs.weight", count, found, &there));
    return there ? find_scaling(f, found, count, config, own) : BP_OK;
}

bp_status bp_gguf_long_take(const bp_gguf_file *f, const char *a, bp_model_config *config,
                            bp_llama_long *both)
{
    bp_llama_config *own = &both->llama;
    const uint64_t turned = bp_llama_rotary_width(own, bp_gguf_llama_head_width(own));
    const size_t count = (size_t)(turned / 2);
    bool far = false, near = false;
    double magnitude;
    BP_TRY(refuse_unknown(f, a));
    BP_TRY(take_original(f, a, config->positions, &own->rope_scaling.original));
    BP_TRY(take_number(f, a, "rope.scaling.factor", 1.0, &magnitude));
    if (magnitude != 1.0) {
        return bp_gguf_refuse(f, "this rotary scaling is not implemented", "rope.scaling.factor");
    }
    if (bp_gguf_tensor(f, "rope_factors_long.weight") == NULL) {
        return BP_OK;
    }
    if (count > BP_ROPE_PAIRS_MAX) {
        return bp_gguf_refuse(f, "heads turn by more than this scaling is implemented for",
                              "rope_factors_long.weight");
    }
    BP_TRY(take_factors(f, "rope_factors_long.weight", count, both->far, &far));
    BP_TRY(take_factors(f, "rope_factors_short.weight", count, both->near, &near));
    if (!near) {
        return bp_gguf_refuse(f, "there are long factors and no short ones",
                              "rope_factors_short.weight");
    }
    bp_rope_scaling *s = &own->rope_scaling;
    own->rope_pairs = (uint32_t)count;
    s->kind = BP_ROPE_LONG;
    s->factor = (double)config->positions / (double)s->original;
    BP_TRY(take_number(f, a, "rope.scaling.attn_factor", 1.0, &magnitude));
    if (fabs(magnitude - bp_rope_magnitude(s)) > 1e-6) {
        s->magnitude = magnitude;
    }
    return BP_OK;
}
