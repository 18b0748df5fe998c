/* SPDX-License-Identifier: MIT */
/* Spectra of files of speech, as feeds ask for them. */
#include "tools/bedplate/sources/speech_source.h"

#include <stdlib.h>
#include <string.h>

#include "layers/families/whisper.h"
#include "tools/bedplate/models/model_table.h"

static const char where[] = "speech";

bp_status speech_source_path(bp_source *source, const bp_example *example,
                             char path[BP_STORE_PATH_MAX], bp_error *error)
{
    int32_t ids[BP_STORE_PATH_MAX];
    if (example->count == 0 || example->count >= BP_STORE_PATH_MAX) {
        return bp_error_set(error, BP_ERR_DATA, where, "an example has no path of a file of speech",
                            source->name);
    }
    const uint32_t count = (uint32_t)example->count;
    if (source->read(source, example->first, count, ids) != BP_OK) {
        return bp_error_set(error, BP_ERR_DATA, where, "the data cannot be read", source->name);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] <= 0 || ids[i] > 255) {
            return bp_error_set(error, BP_ERR_DATA, where,
                                "an example has no path of a file of speech", source->name);
        }
        path[i] = (char)(unsigned char)ids[i];
    }
    path[count] = '\0';
    return BP_OK;
}

uint64_t speech_source_elements(const speech_source *source)
{
    return (uint64_t)source->speech.frames * source->speech.mels;
}

/* A row that a short group lacks is silence. */
static bp_status speech_fill(const bp_feed *feed, const bp_example *from, uint32_t elements,
                             int32_t *to)
{
    speech_source *source = (speech_source *)(uintptr_t)feed->texts;
    bp_speech *speech = &source->speech;
    if (from->count == 0) {
        memset(to, 0, (size_t)elements * sizeof *to);
        return BP_OK;
    }
    if (elements != speech_source_elements(source)) {
        return bp_error_set(feed->error, BP_ERR_INTERNAL, where,
                            "a spectrum has another size than its column", feed->source->name);
    }
    speech->error = feed->error;
    BP_TRY(speech_source_path(feed->source, from, speech->path, feed->error));
    return bp_speech_read(speech, speech->path, (float *)(void *)to);
}

bp_status speech_source_open(speech_source **source, session *s)
{
    if (*source != NULL || !model_hears(&s->spec.config)) {
        return BP_OK;
    }
    const bp_whisper_config own = bp_whisper_config_of(&s->spec.config);
    const uint32_t frames = bp_whisper_frames(&own);
    speech_source *made = calloc(1, sizeof *made);
    *source = made;
    if (made != NULL) {
        made->texts = (bp_feed_texts){bp_feed_two_texts.split, speech_fill};
        made->speech.store = s->store;
        made->speech.error = &s->error;
        flac_library_begin(&made->flac);
        made->speech.flac = &made->flac.table;
        made->speech.frames = frames;
        made->speech.mels = own.mels;
        made->speech.samples = malloc((size_t)frames * BP_MEL_HOP * sizeof(float));
        made->speech.raw_count = bp_speech_raw(frames);
        made->speech.raw = malloc((size_t)made->speech.raw_count * sizeof(float));
    }
    if (made == NULL || made->speech.samples == NULL || made->speech.raw == NULL) {
        return bp_error_set(&s->error, BP_ERR_FIT, where, "no memory for sound", "--data");
    }
    return bp_speech_begin(&made->speech);
}

void speech_source_close(speech_source **source)
{
    if (*source != NULL) {
        flac_library_end(&(*source)->flac);
        free((*source)->speech.samples);
        free((*source)->speech.raw);
        free(*source);
        *source = NULL;
    }
}
