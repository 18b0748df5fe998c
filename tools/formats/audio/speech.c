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

/* A file that is open. */
typedef struct speech_sound {
    const char *path;
    uint64_t frames; /* samples of a channel */
    uint32_t rate;   /* a second */
    uint32_t channels;
    bool is_flac;
    bp_flac flac;
    bp_wav wav;
} speech_sound;

static void speech_close(speech_sound *sound)
{
    if (sound->is_flac) {
        bp_flac_close(&sound->flac);
    } else {
        bp_wav_close(&sound->wav);
    }
}

/* A FLAC file that does not say how long it is is unpacked once to know. */
static bp_status speech_flac(bp_speech *speech, bp_flac *flac)
{
    if (speech->flac == NULL) {
        return bp_error_set(speech->error, BP_ERR_DATA, where, "this build reads no FLAC",
                            flac->path);
    }
    BP_TRY(speech->flac->load(speech->flac, flac->path, speech->error));
    return flac->frames > 0 ? BP_OK
                            : bp_flac_count(flac, speech->flac, speech->raw_count, speech->error);
}

static bp_status speech_open(bp_speech *speech, const char *path, speech_sound *sound)
{
    *sound = (speech_sound){.path = path};
    BP_TRY(bp_flac_open(&sound->flac, speech->store, path, &sound->is_flac, speech->error));
    if (!sound->is_flac) {
        BP_TRY(bp_wav_open(&sound->wav, speech->store, path, speech->error));
        sound->frames = sound->wav.frames;
        sound->rate = sound->wav.rate;
        sound->channels = sound->wav.channels;
        return BP_OK;
    }
    const bp_status status = speech_flac(speech, &sound->flac);
    sound->frames = sound->flac.frames;
    sound->rate = sound->flac.rate;
    sound->channels = sound->flac.channels;
    if (status != BP_OK) {
        speech_close(sound);
    }
    return status;
}

/* Whether the sound of an open file becomes a spectrum. */
static bp_status speech_fits(bp_speech *speech, const speech_sound *sound)
{
    const uint64_t most = (uint64_t)speech->frames * BP_MEL_HOP;
    const bool turns = sound->rate != BP_MEL_RATE;
    uint64_t count = sound->frames;
    if (turns &&
        (sound->rate > SPEECH_RATE_MOST || !bp_sound_rate_begin(&speech->turn, sound->rate))) {
        return bp_error_limit(speech->error, BP_ERR_DATA, where,
                              "sound of this rate is not turned into 16000 samples a second; try: "
                              "ffmpeg -i FILE -ar 16000 -ac 1 FILE.wav",
                              sound->path, sound->rate, BP_LIMIT_NONE, 0);
    }
    if (turns) {
        count = bp_sound_rate_count(&speech->turn, count);
    }
    if (count > most) {
        return bp_error_limit(speech->error, BP_ERR_DATA, where,
                              "the speech is longer than what the model reads at once; samples at "
                              "16000 a second",
                              sound->path, bp_size_signed(count), BP_LIMIT_MOST,
                              bp_size_signed(most));
    }
    return BP_OK;
}

bp_status bp_speech_check(bp_speech *speech, const char *path)
{
    speech_sound sound;
    BP_TRY(speech_open(speech, path, &sound));
    const bp_status status = speech_fits(speech, &sound);
    speech->said += sound.channels > 1 ? 1 : 0;
    speech->turned += sound.rate != BP_MEL_RATE ? 1 : 0;
    speech_close(&sound);
    return status;
}

static bp_status speech_all(bp_speech *speech, const speech_sound *sound, float *to)
{
    return sound->is_flac
               ? bp_flac_read(&sound->flac, speech->flac, to, speech->error)
               : bp_wav_read(&sound->wav, 0, sound->frames, speech->room, to, speech->error);
}

/* The samples of a file at the spectrum's rate, and how many they are. */
static bp_status speech_samples(bp_speech *speech, const speech_sound *sound, uint64_t *heard)
{
    const bool turns = sound->rate != BP_MEL_RATE;
    BP_TRY(speech_fits(speech, sound));
    *heard = sound->frames;
    if (!turns) {
        return speech_all(speech, sound, speech->samples);
    }
    *heard = bp_sound_rate_count(&speech->turn, sound->frames);
    BP_TRY(speech_all(speech, sound, speech->raw));
    for (uint64_t i = 0; i < *heard; i++) {
        speech->samples[i] = bp_sound_rate_at(&speech->turn, speech->raw, sound->frames, i);
    }
    return BP_OK;
}

bp_status bp_speech_read(bp_speech *speech, const char *path, float *to)
{
    speech_sound sound;
    uint64_t heard = 0;
    BP_TRY(speech_open(speech, path, &sound));
    const bp_status status = speech_samples(speech, &sound, &heard);
    speech_close(&sound);
    BP_TRY(status);
    bp_log_mel_make(&speech->tables, speech->samples, heard, speech->frames, to);
    return BP_OK;
}
