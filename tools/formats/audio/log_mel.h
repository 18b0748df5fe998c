/* SPDX-License-Identifier: MIT */
/* The log-mel spectrum that Whisper reads, as transformers' WhisperFeatureExtractor computes it: of
 * 16000 samples a second, Hann windows of 400 every 160 with the ends reflected, the power of their
 * Fourier transform, Slaney's mel filters from 0 to 8000 Hz, log10 of at least 1e-10, at most 8
 * below the largest, plus 4, divided by 4. All sums are in double, in a fixed order. */
#ifndef BP_FORMATS_LOG_MEL_H
#define BP_FORMATS_LOG_MEL_H

#include "arena/base.h"

#define BP_MEL_RATE   16000
#define BP_MEL_WINDOW 400
#define BP_MEL_HOP    160
#define BP_MEL_BINS   (BP_MEL_WINDOW / 2 + 1)
#define BP_MEL_MOST   256 /* filters */
#define BP_MEL_LEAST  6   /* filters: the widest of fewer sees more than BP_MEL_RUN bins */
#define BP_MEL_RUN    128 /* most bins that a filter of BP_MEL_LEAST or more filters sees */

/* A filter: weights of bins first .. first + count - 1. */
typedef struct bp_mel_filter {
    uint32_t first;
    uint32_t count;
    double weight[BP_MEL_RUN];
} bp_mel_filter;

/* Tables, and room for a frame. Made once; no pointer of it is to anything outside. */
typedef struct bp_log_mel {
    uint32_t mels;
    double window[BP_MEL_WINDOW];
    double turn[BP_MEL_WINDOW][2]; /* exp(-2 pi i n / 400) */
    double frame[2][BP_MEL_WINDOW][2];
    double power[BP_MEL_BINS];
    bp_mel_filter filter[BP_MEL_MOST];
} bp_log_mel;

/* mels: 1 to BP_MEL_MOST. */
void bp_log_mel_begin(bp_log_mel *tables, uint32_t mels);

/* to (frames, mels) of `samples`, frames * BP_MEL_HOP of them, at least BP_MEL_WINDOW; what is
 * behind sample `heard` is 0. */
void bp_log_mel_make(bp_log_mel *tables, const float *samples, uint64_t heard, uint32_t frames,
                     float *to);

#endif
