/* SPDX-License-Identifier: MIT */
/* Streams of zlib and libzstd over two buffers and an arena of the caller's. */
#define ZSTD_STATIC_LINKING_ONLY
#include "tools/formats/files/unpack.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "core/base/storage.h"

enum { IN = 65536, OUT = 131072, HEADER = 18 /* the longest of a zstd frame */ };

/* What inflate takes at most (zlib's zconf.h: about 44 KB with a window of 32 KB). */
#define GZIP_BYTES 65536u

static const char where[] = "unpack";

static const char cut_short[] = "the packed file is cut short";
static const char damaged[] = "the packed file is damaged";

/* An unpacking on its way. */
typedef struct flow {
    bp_unpack *u;
    bp_file out;
    uint64_t size;   /* of the packed file */
    uint64_t offset; /* of what of it is read next */
    unsigned char *in;
    size_t in_at;
    size_t in_end;
    unsigned char *to;
    size_t filled;
    unsigned char *arena;
    size_t arena_used;
    size_t arena_size;
} flow;

static bp_status unpack_refuse(bp_unpack *u, const char *text)
{
    return bp_error_set(u->error, BP_ERR_DATA, where, text, u->name);
}

static bp_status unpack_read(bp_unpack *u, uint64_t offset, void *to, size_t count)
{
    return u->store->read_at(u->store, u->from, offset, to, count) == BP_OK
               ? BP_OK
               : bp_storage_failed(u->error, u->store, "read", u->name);
}

static bp_status unpack_size(bp_unpack *u, uint64_t *size)
{
    return u->store->file_size(u->store, u->from, size) == BP_OK
               ? BP_OK
               : bp_storage_failed(u->error, u->store, "size", u->name);
}

/* ---- Measuring ---- */

/* Passes over the blocks of a frame, whose headers say how long they are. */
static bp_status walk_blocks(bp_unpack *u, uint64_t size, uint64_t *offset)
{
    for (bool last = false; !last;) {
        unsigned char header[3];
        if (size - *offset < sizeof header) {
            return unpack_refuse(u, cut_short);
        }
        BP_TRY(unpack_read(u, *offset, header, sizeof header));
        uint32_t word = header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16;
        uint64_t length = (word >> 1 & 3) == 1 ? 1 : word >> 3;
        last = (word & 1) != 0;
        *offset += sizeof header;
        if ((word >> 1 & 3) == 3) {
            return unpack_refuse(u, damaged);
        }
        if (size - *offset < length) {
            return unpack_refuse(u, cut_short);
        }
        *offset += length;
    }
    return BP_OK;
}

static bp_status walk_frame(bp_unpack *u, uint64_t size, uint64_t *offset, uint64_t *window)
{
    unsigned char head[HEADER];
    ZSTD_frameHeader frame;
    size_t count = size - *offset < HEADER ? (size_t)(size - *offset) : HEADER;
    BP_TRY(unpack_read(u, *offset, head, count));
    size_t more = ZSTD_getFrameHeader(&frame, head, count);
    if (ZSTD_isError(more)) {
        return unpack_refuse(u, *offset == 0 ? damaged : "something else follows the packed data");
    }
    if (more > 0) {
        return unpack_refuse(u, cut_short);
    }
    if (frame.frameType == ZSTD_skippableFrame) {
        if (size - *offset - 8 < frame.frameContentSize) {
            return unpack_refuse(u, cut_short);
        }
        *offset += 8 + frame.frameContentSize;
        return BP_OK;
    }
    if (frame.dictID != 0) {
        return unpack_refuse(u, "the file was packed with a dictionary, which is not here");
    }
    *window = frame.windowSize > *window ? frame.windowSize : *window;
    *offset += frame.headerSize;
    BP_TRY(walk_blocks(u, size, offset));
    if (frame.checksumFlag != 0 && size - *offset < 4) {
        return unpack_refuse(u, cut_short);
    }
    *offset += frame.checksumFlag != 0 ? 4 : 0;
    return BP_OK;
}

bp_status bp_unpack_measure(bp_unpack *u)
{
    uint64_t size = 0, offset = 0, window = 1024;
    u->bytes = IN + OUT + GZIP_BYTES;
    if (u->kind == BP_CONTENT_GZIP) {
        return BP_OK;
    }
    BP_TRY(unpack_size(u, &size));
    while (offset < size) {
        BP_TRY(walk_frame(u, size, &offset, &window));
    }
    if (window > BP_UNPACK_WINDOW) {
        return bp_error_limit(u->error, BP_ERR_DATA, where,
                              "the file was packed with a window that takes more memory than is "
                              "given; unpack it first (zstd -d --long=31)",
                              u->name, bp_size_signed(window), BP_LIMIT_MOST,
                              (int64_t)BP_UNPACK_WINDOW);
    }
    u->bytes = IN + OUT + bp_size_align(ZSTD_estimateDStreamSize((size_t)window), 64);
    return BP_OK;
}

/* ---- Unpacking ---- */

/* Reads on when all that was read is used; nothing is there at the end of the file. */
static bp_status flow_fill(flow *f)
{
    if (f->in_at < f->in_end || f->offset == f->size) {
        return BP_OK;
    }
    uint64_t left = f->size - f->offset;
    f->in_at = 0;
    f->in_end = left < IN ? (size_t)left : IN;
    BP_TRY(unpack_read(f->u, f->offset, f->in, f->in_end));
    f->offset += f->in_end;
    return BP_OK;
}

static bool flow_ended(const flow *f)
{
    return f->in_at == f->in_end; /* after flow_fill, which leaves none while there are more */
}

static bp_status flow_flush(flow *f)
{
    bp_unpack *u = f->u;
    if (f->filled > u->most - u->written) {
        return bp_error_limit(u->error, BP_ERR_STORE, where,
                              "what is unpacked is more than --unpack-limit, or than fits TMPDIR "
                              "or --output-dir; bytes that it may have",
                              u->name, bp_size_signed(u->most), BP_LIMIT_NONE, 0);
    }
    if (f->filled > 0 &&
        u->store->write_at(u->store, f->out, u->written, f->to, f->filled) != BP_OK) {
        return bp_storage_failed(u->error, u->store, "write", u->to);
    }
    u->written += f->filled;
    f->filled = 0;
    return BP_OK;
}

static void *flow_allocate(void *user, unsigned items, unsigned size)
{
    flow *f = user;
    uint64_t bytes = bp_size_align(bp_size_mul(items, size), 16);
    if (bytes > f->arena_size - f->arena_used) {
        return NULL;
    }
    void *at = f->arena + f->arena_used;
    f->arena_used += (size_t)bytes;
    return at;
}

static void flow_free(void *user, void *address)
{
    (void)user; /* all of it goes at once */
    (void)address;
}

/* Behind a member there is another one, or the end, up to which there may be zeros. */
static bp_status gzip_next(flow *f, z_stream *stream, bool *more)
{
    *more = false;
    BP_TRY(flow_fill(f));
    if (!flow_ended(f) && f->in[f->in_at] == 0x1f) {
        *more = true;
        return inflateReset(stream) == Z_OK ? BP_OK : unpack_refuse(f->u, damaged);
    }
    while (!flow_ended(f)) {
        if (f->in[f->in_at++] != 0) {
            return unpack_refuse(f->u, "something else follows the packed data");
        }
        BP_TRY(flow_fill(f));
    }
    return BP_OK;
}

static bp_status gzip_member(flow *f, z_stream *stream)
{
    for (int result = Z_OK; result != Z_STREAM_END;) {
        BP_TRY(flow_fill(f));
        if (flow_ended(f)) {
            return unpack_refuse(f->u, cut_short);
        }
        stream->next_in = f->in + f->in_at;
        stream->avail_in = (uInt)(f->in_end - f->in_at);
        stream->next_out = f->to;
        stream->avail_out = OUT;
        result = inflate(stream, Z_NO_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END) { /* there was input, and room */
            return unpack_refuse(f->u, damaged);
        }
        f->in_at = f->in_end - stream->avail_in;
        f->filled = OUT - stream->avail_out;
        BP_TRY(flow_flush(f));
    }
    return BP_OK;
}

static bp_status unpack_gzip(flow *f)
{
    z_stream stream = {.zalloc = flow_allocate, .zfree = flow_free, .opaque = f};
    bool more = true;
    if (inflateInit2(&stream, 15 + 16) != Z_OK) { /* the largest window, gzip's header */
        return bp_error_set(f->u->error, BP_ERR_INTERNAL, where,
                            "zlib takes more memory than planned", f->u->name);
    }
    bp_status status = BP_OK;
    while (status == BP_OK && more) {
        status = gzip_member(f, &stream);
        if (status == BP_OK) {
            status = gzip_next(f, &stream, &more);
        }
    }
    (void)inflateEnd(&stream); /* it has nothing to free */
    return status;
}

/* In pieces of the output buffer; a frame that does not end with the file is cut short. */
static bp_status unpack_zstd(flow *f)
{
    ZSTD_DStream *stream = ZSTD_initStaticDStream(f->arena, f->arena_size);
    size_t left = 0;
    if (stream == NULL || ZSTD_isError(ZSTD_initDStream(stream)) ||
        ZSTD_isError(ZSTD_DCtx_setMaxWindowSize(stream, BP_UNPACK_WINDOW))) {
        return bp_error_set(f->u->error, BP_ERR_INTERNAL, where,
                            "libzstd takes more memory than planned", f->u->name);
    }
    BP_TRY(flow_fill(f));
    while (!flow_ended(f)) {
        ZSTD_inBuffer in = {f->in, f->in_end, f->in_at};
        ZSTD_outBuffer out = {f->to, OUT, 0};
        left = ZSTD_decompressStream(stream, &out, &in);
        if (ZSTD_isError(left)) {
            return unpack_refuse(f->u, damaged);
        }
        f->in_at = in.pos;
        f->filled = out.pos;
        BP_TRY(flow_flush(f));
        BP_TRY(flow_fill(f));
    }
    while (left != 0) { /* what waits inside of the stream */
        ZSTD_inBuffer in = {f->in, 0, 0};
        ZSTD_outBuffer out = {f->to, OUT, 0};
        left = ZSTD_decompressStream(stream, &out, &in);
        f->filled = out.pos;
        if (left != 0 && out.pos == 0) { /* an error as well */
            return unpack_refuse(f->u, cut_short);
        }
        BP_TRY(flow_flush(f));
    }
    return BP_OK;
}

bp_status bp_unpack_run(bp_unpack *u)
{
    unsigned char *memory = u->memory;
    flow f = {.u = u,
              .arena = memory,
              .arena_size = (size_t)u->bytes - IN - OUT,
              .in = memory + u->bytes - IN - OUT,
              .to = memory + u->bytes - OUT};
    u->written = 0;
    BP_TRY(unpack_size(u, &f.size));
    if (u->store->open_write(u->store, u->to, &f.out) != BP_OK) {
        return bp_storage_failed(u->error, u->store, "create", u->to);
    }
    bp_status status = u->kind == BP_CONTENT_GZIP ? unpack_gzip(&f) : unpack_zstd(&f);
    if (u->store->close(u->store, f.out) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(u->error, u->store, "close", u->to);
    }
    if (status != BP_OK) {
        (void)u->store->remove(u->store, u->to); /* what is there is of no use */
    }
    return status;
}
