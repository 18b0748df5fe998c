/* SPDX-License-Identifier: MIT */
/* Spectra of speech. */
#include "tools/formats/audio/log_mel.h"

#include <string.h>

#include "core/base/math.h"

#define PI 3.141592653589793238462643383279502884

/* The mel scale of Slaney's Auditory Toolbox: linear up to 1000 Hz, then 27 steps for a factor of
 * 6.4. */
static double mel_of(double hertz)
{
    return hertz < 1000.0 ? 3.0 * hertz / 200.0
                          : 15.0 + bp_log(hertz / 1000.0) * (27.0 / bp_log(6.4));
}

static double hertz_of(double mel)
{
    return mel < 15.0 ? 200.0 * mel / 3.0 : 1000.0 * bp_exp((mel - 15.0) * (bp_log(6.4) / 27.0));
}

/* Triangles between three neighbours of mels + 2 frequencies, evenly spaced in mel, of area 1. */
static void mel_filter(bp_mel_filter *filter, uint32_t index, uint32_t mels)
{
    const double top = mel_of(BP_MEL_RATE / 2.0);
    double edge[3];
    for (uint32_t i = 0; i < 3; i++) {
        edge[i] = hertz_of(top * (double)(index + i) / (double)(mels + 1));
    }
    filter->count = 0;
    for (uint32_t k = 0; k < BP_MEL_BINS; k++) {
        const double hertz = (double)k * (BP_MEL_RATE / 2.0) / (double)(BP_MEL_BINS - 1);
        const double up = (hertz - edge[0]) / (edge[1] - edge[0]);
        const double down = (edge[2] - hertz) / (edge[2] - edge[1]);
        const double weight = up < down ? up : down;
        if (weight <= 0.0 || filter->count == BP_MEL_RUN) {
            continue;
        }
        if (filter->count == 0) {
            filter->first = k;
        }
        filter->weight[filter->count++] = weight * 2.0 / (edge[2] - edge[0]);
    }
}

void bp_log_mel_begin(bp_log_mel *tables, uint32_t mels)
{
    memset(tables, 0, sizeof *tables);
    tables->mels = mels;
    for (uint32_t i = 0; i < BP_MEL_WINDOW; i++) {
        const double angle = 2.0 * PI * (double)i / BP_MEL_WINDOW;
        tables->window[i] = 0.5 - 0.5 * bp_cos(angle);
        tables->turn[i][0] = bp_cos(angle);
        tables->turn[i][1] = -bp_sin(angle);
    }
    for (uint32_t i = 0; i < mels; i++) {
        mel_filter(&tables->filter[i], i, mels);
    }
}

/* One pass of a Fourier transform by factors (Stockham's order). x has, for each q below radix *
 * after, the transform of every (radix * after)-th number from q on, whose bin p, below `before`,
 * is number p * radix * after + q; y the same of every `after`-th. */
static void mel_pass(const bp_log_mel *t, double (*x)[2], double (*y)[2], uint32_t radix,
                     uint32_t before)
{
    const uint32_t after = BP_MEL_WINDOW / radix / before; /* numbers between two of a sum */
    for (uint32_t p = 0; p < before; p++) {
        for (uint32_t r = 0; r < radix; r++) {
            const uint32_t step = (p + before * r) * after; /* of a full turn, for each of a sum */
            for (uint32_t q = 0; q < after; q++) {
                double real = 0.0, imaginary = 0.0;
                for (uint32_t i = 0; i < radix; i++) {
                    const double *w = t->turn[step * i % BP_MEL_WINDOW];
                    const double *v = x[(p * radix + i) * after + q];
                    real += v[0] * w[0] - v[1] * w[1];
                    imaginary += v[0] * w[1] + v[1] * w[0];
                }
                y[(p + before * r) * after + q][0] = real;
                y[(p + before * r) * after + q][1] = imaginary;
            }
        }
    }
}

/* The power of bins of t->frame[0]. */
static void mel_power(bp_log_mel *t)
{
    static const uint32_t radix[4] = {4, 4, 5, 5};
    uint32_t before = 1;
    for (uint32_t i = 0; i < 4; i++) {
        mel_pass(t, t->frame[i % 2], t->frame[(i + 1) % 2], radix[i], before);
        before *= radix[i];
    }
    for (uint32_t k = 0; k < BP_MEL_BINS; k++) {
        const double *v = t->frame[0][k];
        t->power[k] = v[0] * v[0] + v[1] * v[1];
    }
}

/* Samples around that of frame number `frame`, times the window; false: all are 0. */
static bool mel_window(bp_log_mel *t, const float *samples, uint64_t count, uint64_t heard,
                       uint64_t frame)
{
    const uint64_t middle = frame * BP_MEL_HOP, half = BP_MEL_WINDOW / 2;
    bool sounds = false;
    for (uint64_t i = 0; i < BP_MEL_WINDOW; i++) {
        const uint64_t at = middle + i;
        const uint64_t left = at >= half ? at - half : half - at;           /* reflected */
        const uint64_t from = left < count ? left : 2 * (count - 1) - left; /* at both ends */
        const double value = from < heard ? (double)samples[from] : 0.0;
        sounds = sounds || value < 0.0 || value > 0.0;
        t->frame[0][i][0] = value * t->window[i];
        t->frame[0][i][1] = 0.0;
    }
    return sounds;
}

void bp_log_mel_make(bp_log_mel *t, const float *samples, uint64_t heard, uint32_t frames,
                     float *to)
{
    const double silence = -10.0, log_ten = bp_log(10.0);
    const uint64_t count = (uint64_t)frames * BP_MEL_HOP;
    double top = silence;
    for (uint64_t f = 0; f < frames; f++) {
        float *row = to + f * t->mels;
        const bool sounds = mel_window(t, samples, count, heard, f);
        if (sounds) {
            mel_power(t);
        }
        for (uint32_t m = 0; m < t->mels; m++) {
            const bp_mel_filter *filter = &t->filter[m];
            double sum = 0.0;
            for (uint32_t k = 0; sounds && k < filter->count; k++) {
                sum += t->power[filter->first + k] * filter->weight[k];
            }
            const double level = sum > 1e-10 ? bp_log(sum) / log_ten : silence;
            top = level > top ? level : top;
            row[m] = (float)level;
        }
    }
    for (uint64_t i = 0; i < (uint64_t)frames * t->mels; i++) {
        const double level = (double)to[i] > top - 8.0 ? (double)to[i] : top - 8.0;
        to[i] = (float)((level + 4.0) / 4.0);
    }
}
