/* SPDX-License-Identifier: MIT */
/* libFLAC's stream decoder, as its manual declares it; versions 1.3 to 1.5 have the same. */
#include "tools/bedplate/sources/flac_library.h"

#include <dlfcn.h>
#include <string.h>

static const char where[] = "speech";

enum { FLAC_GO_ON = 0, FLAC_END = 1, FLAC_ABORT_READ = 2, FLAC_ABORT_WRITE = 1 };
enum { FLAC_NO_MEMORY = 8 }; /* a state of the decoder */

/* The beginning of FLAC__Frame (FLAC/format.h). */
typedef struct flac_frame {
    uint32_t count, rate, channels;
    int assignment;
    uint32_t bits;
} flac_frame;

/* Whether the pass goes on. */
static bool flac_goes_on(const bp_flac_pass *pass)
{
    return pass->status == BP_OK && pass->done <= pass->most;
}

static int flac_read(const void *decoder, unsigned char *to, size_t *count, void *user)
{
    flac_library *library = user;
    (void)decoder;
    if (!flac_goes_on(library->pass) || bp_flac_bytes(library->pass, to, count) != BP_OK) {
        return FLAC_ABORT_READ;
    }
    return *count > 0 ? FLAC_GO_ON : FLAC_END;
}

static int flac_tell(const void *decoder, uint64_t *at, void *user)
{
    const flac_library *library = user;
    (void)decoder;
    *at = library->pass->next;
    return FLAC_GO_ON;
}

static int flac_write(const void *decoder, const void *frame, const int32_t *const *channel,
                      void *user)
{
    flac_library *library = user;
    flac_frame head;
    uint64_t behind = 0;
    memcpy(&head, frame, sizeof head);
    if (library->entries.place(decoder, &behind) == 0) {
        behind = 0;
    }
    const bp_flac_block block = {head.count, head.rate, head.channels, head.bits, behind};
    return flac_goes_on(library->pass) && bp_flac_take(library->pass, &block, channel) == BP_OK &&
                   flac_goes_on(library->pass)
               ? FLAC_GO_ON
               : FLAC_ABORT_WRITE;
}

/* The first is kept: a decoder that goes on would find the next block. */
static void flac_error(const void *decoder, int what, void *user)
{
    flac_library *library = user;
    (void)decoder;
    (void)what;
    if (flac_goes_on(library->pass)) {
        (void)bp_flac_damaged(library->pass,
                              "the FLAC file is damaged in the block that begins at byte");
    }
}

/* Samples are missing, which is the better reason. */
static bool flac_ends_early(const bp_flac_pass *pass)
{
    return pass->to != NULL && pass->done < pass->most;
}

static bp_status flac_run(bp_flac_library *table, bp_flac_pass *pass)
{
    flac_library *library = (flac_library *)table; /* its first member */
    const flac_entries *flac = &library->entries;
    void *decoder = flac->make();
    library->pass = pass;
    const bool begun = decoder != NULL && flac->check_md5(decoder, 1) != 0 &&
                       flac->begin(decoder, flac_read, NULL, flac_tell, NULL, NULL, flac_write,
                                   NULL, flac_error, library) == 0;
    const bool ran = begun && flac->run(decoder) != 0;
    const bool full = !begun || flac->state(decoder) == FLAC_NO_MEMORY;
    /* It ends with the comparison of MD5s, where the file has one. */
    const bool equal = begun && flac->finish(decoder) != 0;
    if (decoder != NULL) {
        flac->drop(decoder);
    }
    if (full) {
        pass->status =
            bp_error_set(pass->error, BP_ERR_FIT, where, "libFLAC has no memory", pass->flac->path);
    } else if (flac_goes_on(pass) && !ran) {
        (void)bp_flac_damaged(pass, "the FLAC file is damaged behind byte");
    } else if (flac_goes_on(pass) && !equal && !flac_ends_early(pass)) {
        (void)bp_flac_damaged(pass, "the samples of the FLAC file have another MD5 than its head "
                                    "announces; the last block ends at byte");
    }
    return pass->status;
}

static bp_status flac_load(bp_flac_library *table, const char *path, bp_error *error)
{
    static const char *const files[] = {"libFLAC.so.14", "libFLAC.so.12", "libFLAC.so.8"};
    static const char *const names[] = {
        "FLAC__stream_decoder_new",
        "FLAC__stream_decoder_delete",
        "FLAC__stream_decoder_set_md5_checking",
        "FLAC__stream_decoder_init_stream",
        "FLAC__stream_decoder_process_until_end_of_stream",
        "FLAC__stream_decoder_finish",
        "FLAC__stream_decoder_get_decode_position",
        "FLAC__stream_decoder_get_state",
    };
    enum { FILES = sizeof files / sizeof files[0], NAMES = sizeof names / sizeof names[0] };
    flac_library *library = (flac_library *)table; /* its first member */
    void *entries[NAMES];
    if (library->handle != NULL) {
        return BP_OK;
    }
    for (size_t i = 0; i < FILES && library->handle == NULL; i++) {
        library->handle = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    }
    bool all = library->handle != NULL;
    for (size_t i = 0; i < NAMES && all; i++) {
        entries[i] = dlsym(library->handle, names[i]);
        all = entries[i] != NULL;
    }
    if (!all) {
        flac_library_end(library);
        return bp_error_set(
            error, BP_ERR_DATA, where,
            dlopen(NULL, RTLD_NOW) != NULL
                ? "FLAC is read by libFLAC, and this machine has no libFLAC.so.12, .14 or .8 "
                  "(Debian: apt install libflac12)"
                : "this build reads no FLAC: the static build of this program cannot load libFLAC; "
                  "the build that is linked with glibc can. Try: ffmpeg -i FILE -ar 16000 -ac 1 "
                  "FILE.wav",
            path);
    }
    memcpy(&library->entries, entries, sizeof library->entries); /* C has no other way */
    return BP_OK;
}

void flac_library_begin(flac_library *library)
{
    *library = (flac_library){.table = {flac_load, flac_run}};
}

void flac_library_end(flac_library *library)
{
    if (library->handle != NULL) {
        (void)dlclose(library->handle); /* nothing of it is used any more */
    }
    flac_library_begin(library);
}
