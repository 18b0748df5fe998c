/* SPDX-License-Identifier: MIT */
/* A file of speech to the spectrum that a model reads. */
#ifndef BP_FORMATS_SPEECH_H
#define BP_FORMATS_SPEECH_H

#include "tools/formats/audio/flac.h"
#include "tools/formats/audio/log_mel.h"
#include "tools/formats/audio/sound_rate.h"
#include "tools/formats/audio/wav.h"

/* Everything that reading needs, made once. */
typedef struct bp_speech {
    bp_store *store;
    bp_error *error;
    bp_flac_library *flac; /* NULL: FLAC is not read */
    uint32_t frames;       /* of a spectrum; a file has at most frames * BP_MEL_HOP samples */
    uint32_t mels;
    float *samples; /* frames * BP_MEL_HOP; these two are the caller's */
    float *raw;     /* raw_count samples of a file before they get another rate */
    uint64_t raw_count;
    uint64_t said; /* files with several channels, and of another rate, so far */
    uint64_t turned;
    char path[BP_STORE_PATH_MAX];
    unsigned char room[BP_WAV_ROOM];
    bp_log_mel tables;
    bp_sound_rate turn;
} bp_speech;

/* Samples that bp_speech.raw is to have for spectra of so many frames. */
uint64_t bp_speech_raw(uint32_t frames);

/* Fills what is not the caller's. BP_ERR_USAGE: mels are beyond BP_MEL_MOST. */
bp_status bp_speech_begin(bp_speech *speech) BP_MUST_CHECK;

/* Whether a file can be read: its header alone, but for FLAC that does not say how long it is.
 * BP_ERR_DATA as bp_wav_open and bp_flac_open say, and where its sound is longer than a spectrum,
 * of a rate that cannot be turned, or FLAC that cannot be unpacked here. */
bp_status bp_speech_check(bp_speech *speech, const char *path) BP_MUST_CHECK;

/* to (frames, mels) */
bp_status bp_speech_read(bp_speech *speech, const char *path, float *to) BP_MUST_CHECK;

#endif
