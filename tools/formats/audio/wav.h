/* SPDX-License-Identifier: MIT */
/* Sound in WAV files (RIFF, WAVE): linear PCM of 8, 16, 24 or 32 bits, and floats of 32 bits, of
 * any rate and 1 to BP_WAV_CHANNELS_MOST channels; WAVE_FORMAT_EXTENSIBLE of the same. */
#ifndef BP_FORMATS_WAV_H
#define BP_FORMATS_WAV_H

#include "core/base/error.h"
#include "core/base/store.h"

#define BP_WAV_CHANNELS_MOST 64
#define BP_WAV_RATE_MOST     768000

/* What an open file says of itself. */
typedef struct bp_wav {
    bp_store *store;
    bp_file file;
    const char *path;
    uint64_t begin;  /* byte of the first sample */
    uint64_t frames; /* samples of a channel */
    uint32_t rate;   /* a second */
    uint32_t channels;
    uint32_t bits; /* of a sample */
    bool floats;
} bp_wav;

/* Opens the file and reads its header. BP_ERR_DATA, with the file as the error's name: it is none
 * of the above (another format is named, with what would convert it), it has no sample, or it ends
 * before the samples that its header announces. After an error nothing is left open. */
bp_status bp_wav_open(bp_wav *wav, bp_store *store, const char *path,
                      bp_error *error) BP_MUST_CHECK;
void bp_wav_close(bp_wav *wav);

/* Frames first .. first + count - 1, which are in the file, as the mean of their channels: whole
 * numbers divided by 2^(bits - 1). room: BP_WAV_ROOM bytes. BP_ERR_DATA: a sample is not finite. */
#define BP_WAV_ROOM 16384
bp_status bp_wav_read(const bp_wav *wav, uint64_t first, uint64_t count, void *room, float *to,
                      bp_error *error) BP_MUST_CHECK;

#endif
