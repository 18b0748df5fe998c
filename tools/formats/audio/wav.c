/* SPDX-License-Identifier: MIT */
/* WAV files. The format: Microsoft's "Multiple channel audio data and WAVE files". */
#include "tools/formats/audio/wav.h"

#include <float.h>
#include <string.h>

#include "core/base/storage.h"

static const char where[] = "speech";

enum { WAV_PCM = 1, WAV_FLOATS = 3, WAV_EXTENSIBLE = 0xfffe, WAV_HEAD = 12, WAV_FORMAT = 40 };

static uint32_t wav_u16(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t wav_u32(const unsigned char *at)
{
    return wav_u16(at) | wav_u16(at + 2) << 16;
}

static bp_status wav_refuse(const bp_wav *wav, const char *text, bp_error *error)
{
    return bp_error_set(error, BP_ERR_DATA, where, text, wav->path);
}

static bp_status wav_bytes(const bp_wav *wav, uint64_t at, void *to, size_t bytes, bp_error *error)
{
    return wav->store->read_at(wav->store, wav->file, at, to, bytes) == BP_OK
               ? BP_OK
               : bp_storage_failed(error, wav->store, "read", wav->path);
}

/* What a file is that is none, by its first bytes. */
static bp_status wav_refuse_other(const bp_wav *wav, const unsigned char head[WAV_HEAD],
                                  bp_error *error)
{
    static const struct {
        const char *magic;
        const char *text;
    } others[] = {
        {"OggS", "this is Ogg, which is not read; try: ffmpeg -i FILE -ar 16000 -ac 1 FILE.wav"},
        {"ID3", "this is MP3, which is not read; try: ffmpeg -i FILE -ar 16000 -ac 1 FILE.wav"},
        {"RF64", "this is a WAV file of 64-bit sizes (RF64), which is not read"},
        {"RIFX", "this is a WAV file of big-endian numbers (RIFX), which is not read"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (memcmp(head, others[i].magic, strlen(others[i].magic)) == 0) {
            return wav_refuse(wav, others[i].text, error);
        }
    }
    return wav_refuse(wav, "this is neither a WAV nor a FLAC file", error);
}

/* The chunk that says what samples are. */
static bp_status wav_format(bp_wav *wav, uint64_t at, uint32_t bytes, bp_error *error)
{
    unsigned char f[WAV_FORMAT] = {0};
    if (bytes < 16) {
        return wav_refuse(wav, "the format chunk of the WAV file is too short", error);
    }
    BP_TRY(wav_bytes(wav, at, f, bytes < WAV_FORMAT ? bytes : WAV_FORMAT, error));
    uint32_t kind = wav_u16(f);
    if (kind == WAV_EXTENSIBLE && bytes >= 26) {
        kind = wav_u16(f + 24); /* the first two bytes of its sub-format */
    }
    wav->channels = wav_u16(f + 2);
    wav->rate = wav_u32(f + 4);
    wav->bits = wav_u16(f + 14);
    wav->floats = kind == WAV_FLOATS;
    const bool whole = kind == WAV_PCM && wav->bits % 8 == 0 && wav->bits >= 8 && wav->bits <= 32;
    if (!whole && !(wav->floats && wav->bits == 32)) {
        return bp_error_limit(error, BP_ERR_DATA, where,
                              "samples are PCM of 8, 16, 24 or 32 bits, or floats of 32: this WAV "
                              "file has another format tag, or so many bits",
                              wav->path, kind != WAV_PCM && kind != WAV_FLOATS ? kind : wav->bits,
                              BP_LIMIT_NONE, 0);
    }
    if (wav->channels == 0 || wav->channels > BP_WAV_CHANNELS_MOST) {
        return bp_error_limit(error, BP_ERR_DATA, where,
                              "the sound has too few or too many channels", wav->path,
                              wav->channels, BP_LIMIT_MOST, BP_WAV_CHANNELS_MOST);
    }
    if (wav->rate == 0 || wav->rate > BP_WAV_RATE_MOST) {
        return bp_error_limit(error, BP_ERR_DATA, where, "the sound has no rate that can be",
                              wav->path, wav->rate, BP_LIMIT_MOST, BP_WAV_RATE_MOST);
    }
    return wav_u16(f + 12) == wav->channels * (wav->bits / 8)
               ? BP_OK
               : wav_refuse(wav, "the WAV file's samples have another size than its bits say",
                            error);
}

/* A writer that does not know a sound's length leaves the largest number there. */
static bp_status wav_samples(bp_wav *wav, uint64_t at, uint64_t bytes, uint64_t size,
                             bp_error *error)
{
    const uint64_t each = (uint64_t)wav->channels * (wav->bits / 8);
    const bool open = bytes == UINT32_MAX;
    if (each == 0) {
        return wav_refuse(wav, "the WAV file has samples before their format", error);
    }
    if (!open && bytes > size - at) {
        return bp_error_limit(error, BP_ERR_DATA, where,
                              "the file ends before the samples that its header announces: bytes "
                              "of samples",
                              wav->path, bp_size_signed(size - at), BP_LIMIT_LEAST,
                              bp_size_signed(bytes));
    }
    wav->begin = at;
    wav->frames = (open ? size - at : bytes) / each;
    return wav->frames > 0
               ? BP_OK
               : wav_refuse(wav, "the sound has no sample: the size of its data is 0", error);
}

static bp_status wav_head(bp_wav *wav, bp_error *error)
{
    unsigned char head[WAV_HEAD] = {0}, chunk[8];
    uint64_t size = 0, at = WAV_HEAD;
    if (wav->store->file_size(wav->store, wav->file, &size) != BP_OK) {
        return bp_storage_failed(error, wav->store, "size", wav->path);
    }
    BP_TRY(size > 0 ? wav_bytes(wav, 0, head, size < WAV_HEAD ? (size_t)size : WAV_HEAD, error)
                    : BP_OK);
    if (memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0) {
        return wav_refuse_other(wav, head, error);
    }
    while (size - at >= sizeof chunk) {
        BP_TRY(wav_bytes(wav, at, chunk, sizeof chunk, error));
        const uint64_t bytes = wav_u32(chunk + 4);
        at += sizeof chunk;
        if (memcmp(chunk, "data", 4) == 0) {
            return wav_samples(wav, at, bytes, size, error);
        }
        if (bytes > size - at) {
            break;
        }
        if (memcmp(chunk, "fmt ", 4) == 0) {
            BP_TRY(wav_format(wav, at, (uint32_t)bytes, error));
        }
        const uint64_t next = bytes + bytes % 2; /* chunks begin at even bytes */
        at += next < size - at ? next : size - at;
    }
    return wav_refuse(wav, "the file ends before its samples", error);
}

bp_status bp_wav_open(bp_wav *wav, bp_store *store, const char *path, bp_error *error)
{
    bool there = false;
    *wav = (bp_wav){.store = store, .path = path};
    BP_TRY(bp_storage_exists(store, path, &there, error));
    if (!there) {
        return wav_refuse(wav, "there is no such file of speech", error);
    }
    if (store->open_read(store, path, &wav->file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    const bp_status status = wav_head(wav, error);
    if (status != BP_OK) {
        bp_wav_close(wav);
    }
    return status;
}

void bp_wav_close(bp_wav *wav)
{
    if (wav->file.handle != 0) {
        const bp_status closed = wav->store->close(wav->store, wav->file);
        (void)closed; /* it was only read */
        wav->file.handle = 0;
    }
}

/* A sample as a number from -1 to 1. */
static double wav_sample(const bp_wav *wav, const unsigned char *at)
{
    const uint32_t bytes = wav->bits / 8;
    uint32_t word = 0;
    if (bytes == 1) {
        return ((double)at[0] - 128.0) / 128.0;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        word |= (uint32_t)at[i] << (8 * (4 - bytes + i));
    }
    if (wav->floats) {
        float real;
        memcpy(&real, &word, sizeof real);
        return (double)real;
    }
    const double value = word < 0x80000000u ? (double)word : (double)word - 4294967296.0;
    return value / 2147483648.0;
}

bp_status bp_wav_read(const bp_wav *wav, uint64_t first, uint64_t count, void *room, float *to,
                      bp_error *error)
{
    const uint32_t bytes = wav->bits / 8, each = wav->channels * bytes;
    const uint64_t most = BP_WAV_ROOM / each;
    for (uint64_t done = 0; done < count;) {
        const uint64_t now = count - done < most ? count - done : most;
        BP_TRY(
            wav_bytes(wav, wav->begin + (first + done) * each, room, (size_t)(now * each), error));
        for (uint64_t i = 0; i < now; i++) {
            const unsigned char *at = (const unsigned char *)room + i * each;
            double sum = 0.0;
            for (uint32_t c = 0; c < wav->channels; c++) {
                sum += wav_sample(wav, at + (size_t)c * bytes);
            }
            to[done + i] = (float)(wav->channels > 1 ? sum / wav->channels : sum);
            if (!(to[done + i] >= -FLT_MAX && to[done + i] <= FLT_MAX)) {
                return bp_error_limit(error, BP_ERR_DATA, where, "a sample is not finite",
                                      wav->path, bp_size_signed(first + done + i), BP_LIMIT_NONE,
                                      0);
            }
        }
        done += now;
    }
    return BP_OK;
}
