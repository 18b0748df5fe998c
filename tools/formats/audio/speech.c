/* SPDX-License-Identifier: MIT */
/* Files of speech. */
#include "tools/formats/audio/speech.h"

#include <string.h>

static const char where[] = "speech";

/* Samples a second that files may have, times those of a spectrum: more would be memory for nobody.
 */
#define SPEECH_RATE_MOST 96000

uint64_t bp_speech_raw(uint32_t frames)
{
    return (uint64_t)frames * BP_MEL_HOP * (SPEECH_RATE_MOST / BP_MEL_RATE);
}

bp_status bp_speech_begin(bp_speech *speech)
{
    if (speech->mels < BP_MEL_LEAST || speech->mels > BP_MEL_MOST) {
        const bool few = speech->mels < BP_MEL_LEAST;
        return bp_error_limit(speech->error, BP_ERR_USAGE, where,
                              "spectra of so many mel bands are not computed", "num_mel_bins",
                              speech->mels, few ? BP_LIMIT_LEAST : BP_LIMIT_MOST,
                              few ? BP_MEL_LEAST : BP_MEL_MOST);
    }
    if ((uint64_t)speech->frames * BP_MEL_HOP < BP_MEL_WINDOW) {
        return bp_error_limit(speech->error, BP_ERR_USAGE, where,
                              "a spectrum has more samples than a window", "max_source_positions",
                              speech->frames / 2, BP_LIMIT_LEAST, 2);
    }
    speech->said = 0;
    speech->turned = 0;
    speech->turn.from = 0;
    bp_log_mel_begin(&speech->tables, speech->mels);
    return BP_OK;
}

/* Whether the sound of an open file becomes a spectrum. */
static bp_status speech_fits(bp_speech *speech, const bp_wav *wav)
{
    const uint64_t most = (uint64_t)speech->frames * BP_MEL_HOP;
    const bool turns = wav->rate != BP_MEL_RATE;
    uint64_t count = wav->frames;
    if (turns && (wav->rate > SPEECH_RATE_MOST || !bp_sound_rate_begin(&speech->turn, wav->rate))) {
        return bp_error_limit(speech->error, BP_ERR_DATA, where,
                              "sound of this rate is not turned into 16000 samples a second; try: "
                              "ffmpeg -i FILE -ar 16000 -ac 1 FILE.wav",
                              wav->path, wav->rate, BP_LIMIT_NONE, 0);
    }
    if (turns) {
        count = bp_sound_rate_count(&speech->turn, count);
    }
    if (count > most) {
        return bp_error_limit(speech->error, BP_ERR_DATA, where,
                              "the speech is longer than what the model reads at once; samples at "
                              "16000 a second",
                              wav->path, bp_size_signed(count), BP_LIMIT_MOST,
                              bp_size_signed(most));
    }
    return BP_OK;
}

bp_status bp_speech_check(bp_speech *speech, const char *path)
{
    bp_wav wav;
    BP_TRY(bp_wav_open(&wav, speech->store, path, speech->error));
    const bp_status status = speech_fits(speech, &wav);
    speech->said += wav.channels > 1 ? 1 : 0;
    speech->turned += wav.rate != BP_MEL_RATE ? 1 : 0;
    bp_wav_close(&wav);
    return status;
}

/* The samples of a file at the spectrum's rate, and how many they are. */
static bp_status speech_samples(bp_speech *speech, const bp_wav *wav, uint64_t *heard)
{
    const bool turns = wav->rate != BP_MEL_RATE;
    BP_TRY(speech_fits(speech, wav));
    *heard = wav->frames;
    if (!turns) {
        return bp_wav_read(wav, 0, wav->frames, speech->room, speech->samples, speech->error);
    }
    *heard = bp_sound_rate_count(&speech->turn, wav->frames);
    BP_TRY(bp_wav_read(wav, 0, wav->frames, speech->room, speech->raw, speech->error));
    for (uint64_t i = 0; i < *heard; i++) {
        speech->samples[i] = bp_sound_rate_at(&speech->turn, speech->raw, wav->frames, i);
    }
    return BP_OK;
}

bp_status bp_speech_read(bp_speech *speech, const char *path, float *to)
{
    bp_wav wav;
    uint64_t heard = 0;
    BP_TRY(bp_wav_open(&wav, speech->store, path, speech->error));
    const bp_status status = speech_samples(speech, &wav, &heard);
    bp_wav_close(&wav);
    BP_TRY(status);
    bp_log_mel_make(&speech->tables, speech->samples, heard, speech->frames, to);
    return BP_OK;
}
