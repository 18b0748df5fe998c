/* SPDX-License-Identifier: MIT */
/* Entry points of libpng's simplified interface and of TurboJPEG, as their manuals declare them:
 * both report errors by their return, so that nothing here jumps. */
#include "tools/bedplate/sources/pictures.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"

#define MOST ((uint64_t)1 << 28)

static const char where[] = "image";

static bp_status picture_refuse(const bp_data_reader *file, const char *text)
{
    return bp_error_set(file->error, BP_ERR_DATA, where, text, file->path);
}

/* The entry points by name, all or none. */
static bp_status picture_load(pictures *p, const bp_data_reader *file, uint32_t which,
                              const char *const *names, void **entries, uint32_t count)
{
    static const char *const libraries[2] = {"libpng16.so.16", "libturbojpeg.so.0"};
    static const char static_build[] =
        "PNG and JPEG images are read by libraries that the static build of this program cannot "
        "load; the build that is linked with glibc can";
    static const char *const lacks[2] = {
        "PNG images are read by libpng, and this machine has no libpng16.so.16 (Debian: apt "
        "install libpng16-16)",
        "JPEG images are read by libjpeg-turbo, and this machine has no libturbojpeg.so.0 (Debian: "
        "apt install libturbojpeg0)"};
    if (p->handle[which] == NULL) {
        p->handle[which] = dlopen(libraries[which], RTLD_NOW | RTLD_LOCAL);
    }
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = p->handle[which] != NULL ? dlsym(p->handle[which], names[i]) : NULL;
        if (entries[i] == NULL) {
            return picture_refuse(file,
                                  dlopen(NULL, RTLD_NOW) != NULL ? lacks[which] : static_build);
        }
    }
    return BP_OK;
}

/* Room for `bytes`, in which the first `kept` stay. */
static bp_status picture_room(pictures *p, const bp_data_reader *file, uint64_t bytes)
{
    if (bytes <= p->bytes) {
        return BP_OK;
    }
    unsigned char *more = realloc(p->memory, (size_t)bytes);
    if (more == NULL) {
        return bp_error_set(file->error, BP_ERR_FIT, where, "there is no memory for the image",
                            file->path);
    }
    p->memory = more;
    p->bytes = (size_t)bytes;
    return BP_OK;
}

/* The whole file at the beginning of the memory. */
static bp_status picture_file(pictures *p, bp_data_reader *file)
{
    if (file->size > MOST) {
        return bp_error_limit(file->error, BP_ERR_DATA, where, "the image's file is too large",
                              file->path, bp_size_signed(file->size), BP_LIMIT_MOST, (int64_t)MOST);
    }
    BP_TRY(picture_room(p, file, file->size));
    return file->store->read_at(file->store, file->file, 0, p->memory, (size_t)file->size) == BP_OK
               ? BP_OK
               : bp_storage_failed(file->error, file->store, "read", file->path);
}

/* Room for the pixels behind the file's bytes. */
static bp_status picture_pixels(pictures *p, const bp_data_reader *file, const uint64_t size[3],
                                uint64_t planes)
{
    const uint64_t numbers = bp_size_mul(bp_size_mul(size[0], size[1]), planes);
    if (numbers > MOST) {
        return bp_error_limit(file->error, BP_ERR_DATA, where, "the image has too many numbers",
                              file->path, bp_size_signed(numbers), BP_LIMIT_MOST, (int64_t)MOST);
    }
    return picture_room(p, file, bp_size_add(file->size, numbers));
}

/* ---- PNG ---- */

/* png_image of png.h, version 1. */
typedef struct png_picture {
    void *opaque;
    uint32_t version, width, height, format, flags, colours, warned;
    char message[64];
} png_picture;

enum { PNG_ALPHA = 1, PNG_COLOUR = 2 };
enum { PNG_FLAG_NOT_LINEAR = 4 }; /* 16 bits a number mean what 8 bits do */

typedef struct png_entries {
    int (*begin)(png_picture *, const void *, size_t);
    int (*finish)(png_picture *, const void *, void *, int32_t, void *);
    void (*end)(png_picture *);
} png_entries;

static uint64_t png_word(const unsigned char *at)
{
    return (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
}

/* Leaves only the chunks that pixels are made of: what else a file says of its colours (gamma,
 * profiles) is not applied, as others who read images for models do not. *bytes: what is left; 0:
 * the chunks do not end where the file does. */
static void png_keep_pixels(unsigned char *file, size_t size, size_t *bytes)
{
    size_t at = 8, to = 8;
    *bytes = 0;
    while (size - at >= 12) {
        const uint64_t length = png_word(file + at);
        if (length > size - at - 12) {
            return;
        }
        const size_t whole = (size_t)length + 12;
        const unsigned char *name = file + at + 4;
        const bool last = memcmp(name, "IEND", 4) == 0;
        if ((name[0] & 0x20) == 0) {
            memmove(file + to, file + at, whole);
            to += whole;
        }
        at += whole;
        if (last) {
            *bytes = to;
            return;
        }
    }
}

/* Without the last of `planes` numbers of each place. */
static void png_drop_alpha(unsigned char *pixels, uint64_t places, uint64_t planes)
{
    for (uint64_t i = 0; i < places; i++) {
        for (uint64_t k = 0; k + 1 < planes; k++) {
            pixels[i * (planes - 1) + k] = pixels[i * planes + k];
        }
    }
}

static bp_status png_decode(pictures *p, const png_entries *png, const bp_data_reader *file,
                            size_t bytes, uint64_t channels, uint64_t size[3])
{
    png_picture image = {.version = 1};
    unsigned char *pixels = p->memory + file->size;
    const bool begun = png->begin(&image, p->memory, bytes) != 0;
    const bool grey = channels == 1 && (image.format & PNG_COLOUR) == 0;
    bool done = begun && image.height == size[0] && image.width == size[1];
    size[2] = grey ? 1 : 3;
    image.flags |= PNG_FLAG_NOT_LINEAR;
    image.format = PNG_ALPHA | (grey ? 0u : (uint32_t)PNG_COLOUR);
    done = done && png->finish(&image, NULL, pixels, 0, NULL) != 0;
    png->end(&image);
    if (!done) {
        return picture_refuse(file, "the PNG image is damaged");
    }
    png_drop_alpha(pixels, size[0] * size[1], size[2] + 1);
    return BP_OK;
}

/* Its first chunk says how large it is. */
static bp_status png_take(pictures *p, const png_entries *png, const bp_data_reader *file,
                          uint64_t channels, uint64_t size[3])
{
    enum { HEAD = 8 + 12 + 13 };
    size_t bytes = 0;
    if (file->size > HEAD) {
        png_keep_pixels(p->memory, (size_t)file->size, &bytes);
    }
    if (bytes <= HEAD || memcmp(p->memory + 12, "IHDR", 4) != 0) {
        return picture_refuse(file, "the PNG image ends too early; it is cut short or damaged");
    }
    size[1] = png_word(p->memory + 16);
    size[0] = png_word(p->memory + 20);
    BP_TRY(picture_pixels(p, file, size, 4));
    return png_decode(p, png, file, bytes, channels, size);
}

static bp_status png_read(pictures *p, const bp_data_reader *file, uint64_t channels,
                          uint64_t size[3])
{
    static const char *const names[3] = {"png_image_begin_read_from_memory",
                                         "png_image_finish_read", "png_image_free"};
    void *entries[3];
    png_entries png;
    BP_TRY(picture_load(p, file, 0, names, entries, 3));
    memcpy(&png, entries, sizeof png); /* C has no other way from a symbol to a function */
    return png_take(p, &png, file, channels, size);
}

/* ---- JPEG ---- */

typedef struct jpeg_entries {
    void *(*begin)(void);
    int (*header)(void *, const unsigned char *, unsigned long, int *, int *, int *, int *);
    int (*decode)(void *, const unsigned char *, unsigned long, unsigned char *, int, int, int, int,
                  int);
    int (*end)(void *);
} jpeg_entries;

/* Of turbojpeg.h: the accurate inverse transform, which is libjpeg's own default, and every
 * warning an error. */
enum { JPEG_RGB = 0, JPEG_GREY = 6, JPEG_SPACE_GREY = 2, JPEG_SPACE_CMYK = 3 };
enum { JPEG_ACCURATE = 4096, JPEG_STRICT = 8192 };

static bp_status jpeg_decode(pictures *p, const jpeg_entries *jpeg, void *handle,
                             bp_data_reader *file, uint64_t channels, uint64_t size[3])
{
    int width = 0, height = 0, sampling = 0, space = 0;
    if (jpeg->header(handle, p->memory, (unsigned long)file->size, &width, &height, &sampling,
                     &space) != 0) {
        return picture_refuse(file, "the head of the JPEG image is damaged or cut short");
    }
    if (space >= JPEG_SPACE_CMYK) {
        return picture_refuse(file, "the JPEG image has four inks (CMYK); convert it to RGB");
    }
    const bool grey = channels == 1 && space == JPEG_SPACE_GREY;
    size[0] = (uint64_t)height;
    size[1] = (uint64_t)width;
    size[2] = grey ? 1 : 3;
    BP_TRY(picture_pixels(p, file, size, size[2]));
    if (jpeg->decode(handle, p->memory, (unsigned long)file->size, p->memory + file->size, width, 0,
                     height, grey ? JPEG_GREY : JPEG_RGB, JPEG_ACCURATE | JPEG_STRICT) != 0) {
        return picture_refuse(file, "the JPEG image is damaged or cut short");
    }
    return BP_OK;
}

static bp_status jpeg_read(pictures *p, bp_data_reader *file, uint64_t channels, uint64_t size[3])
{
    static const char *const names[4] = {"tjInitDecompress", "tjDecompressHeader3", "tjDecompress2",
                                         "tjDestroy"};
    void *entries[4];
    jpeg_entries jpeg;
    BP_TRY(picture_load(p, file, 1, names, entries, 4));
    memcpy(&jpeg, entries, sizeof jpeg);
    void *handle = jpeg.begin();
    if (handle == NULL) {
        return bp_error_set(file->error, BP_ERR_FIT, where, "libjpeg-turbo has no memory",
                            file->path);
    }
    const bp_status status = jpeg_decode(p, &jpeg, handle, file, channels, size);
    (void)jpeg.end(handle); /* nothing is left to do when it fails */
    return status;
}

static bp_status pictures_read(bp_pictures *table, bp_picture_kind kind, bp_data_reader *file,
                               uint64_t channels, const unsigned char **pixels, uint64_t size[3])
{
    pictures *p = (pictures *)table; /* its first member */
    BP_TRY(picture_file(p, file));
    BP_TRY(kind == BP_PICTURE_PNG ? png_read(p, file, channels, size)
                                  : jpeg_read(p, file, channels, size));
    *pixels = p->memory + file->size;
    return BP_OK;
}

static unsigned char *pictures_room(bp_pictures *table, uint64_t bytes)
{
    pictures *p = (pictures *)table;
    if (bytes > p->more_bytes) {
        unsigned char *more = bytes <= 16 * MOST ? realloc(p->more, (size_t)bytes) : NULL;
        if (more == NULL) {
            return NULL;
        }
        p->more = more;
        p->more_bytes = (size_t)bytes;
    }
    return p->more;
}

void pictures_begin(pictures *p)
{
    *p = (pictures){.table = {.read = pictures_read, .room = pictures_room}};
}

void pictures_end(pictures *p)
{
    free(p->memory);
    free(p->more);
    for (uint32_t i = 0; i < 2; i++) {
        if (p->handle[i] != NULL) {
            (void)dlclose(p->handle[i]); /* nothing of it is used any more */
        }
    }
    pictures_begin(p);
}
