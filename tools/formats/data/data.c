/* SPDX-License-Identifier: MIT */
/* Reading data files: detection, sizes, and tokens of 1, 2 or 4 bytes into int32. */
#include "tools/formats/data/data.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/files/content.h"

#define LLMC_HEADER_BYTES 1024
#define LLMC_TOKENS_16    20240520
#define LLMC_TOKENS_32    20240801
#define TOKENS_MAGIC      0x4f545042u

static const char where[] = "data";

static uint32_t u32_from_bytes(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* Other files that llm.c writes (dev/data/data_common.py, train_gpt2.py): not tokens. */
static bool magic_of_other_kind(uint32_t magic)
{
    static const uint32_t others[] = {20240522, 20240326, 20240327, 20240328, 20240527, 20240803};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (magic == others[i]) {
            return true;
        }
    }
    return false;
}

/* Whether the first `length` bytes of a path end so. */
static bool data_ends_with(const char *path, size_t length, const char *ending)
{
    size_t least = strlen(ending);
    return length >= least && memcmp(path + length - least, ending, least) == 0;
}

size_t bp_data_packed_ending(const char *path)
{
    static const char *const endings[] = {".gz", ".gzip", ".zst", ".zstd"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (data_ends_with(path, strlen(path), endings[i])) {
            return strlen(endings[i]);
        }
    }
    return 0;
}

bp_data_format bp_data_format_of_name(const char *path)
{
    const size_t length = strlen(path) - bp_data_packed_ending(path);
    static const struct {
        const char *ending;
        bp_data_format format;
    } endings[] = {{".bin", BP_DATA_NANOGPT}, {".jsonl", BP_DATA_JSONL}, {".ndjson", BP_DATA_JSONL},
                   {".json", BP_DATA_JSONL},  {".tsv", BP_DATA_TSV},     {".csv", BP_DATA_CSV},
                   {".f32", BP_DATA_F32},     {"-ubyte", BP_DATA_IDX},   {".npy", BP_DATA_NPY}};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (data_ends_with(path, length, endings[i].ending)) {
            return endings[i].format;
        }
    }
    return BP_DATA_TEXT;
}

static bp_data_format detect(const bp_data_file *file, uint64_t size, uint32_t magic)
{
    if (size >= LLMC_HEADER_BYTES && (magic == LLMC_TOKENS_16 || magic == LLMC_TOKENS_32)) {
        return BP_DATA_LLMC;
    }
    /* "BPTO", the beginning of a token file that was made from documents (data_tokens.h). */
    return magic == TOKENS_MAGIC ? BP_DATA_TOKENS : bp_data_format_of_name(file->path);
}

/* What a file without a name holds. */
static bp_status detect_nameless(const bp_data *data, const bp_data_file *file,
                                 bp_data_format *format)
{
    unsigned char head[BP_CONTENT_HEAD];
    size_t count;
    if (*format == BP_DATA_TEXT) {
        BP_TRY(bp_content_head(data->store, file->file, file->path, head, &count, data->error));
        *format = bp_content_format(head, count);
    }
    return BP_OK;
}

/* header: the first 12 bytes of the file: magic, version, count. */
static bp_status measure_llmc(bp_data_file *file, uint64_t size, const unsigned char *header,
                              bp_error *error)
{
    uint32_t magic = u32_from_bytes(header);
    if (size < LLMC_HEADER_BYTES || (magic != LLMC_TOKENS_16 && magic != LLMC_TOKENS_32)) {
        return bp_error_numbers(error, BP_ERR_DATA, where,
                                "the file has no llm.c token header (the magic number differs)",
                                file->path, bp_size_signed(magic), LLMC_TOKENS_16);
    }
    uint32_t version = u32_from_bytes(header + 4);
    uint32_t wanted = magic == LLMC_TOKENS_16 ? 1 : 7;
    if (version != wanted) {
        return bp_error_numbers(error, BP_ERR_DATA, where,
                                "the llm.c token file has a version that is not known", file->path,
                                bp_size_signed(version), bp_size_signed(wanted));
    }
    file->width = magic == LLMC_TOKENS_16 ? 2 : 4;
    file->start = LLMC_HEADER_BYTES;
    file->count = u32_from_bytes(header + 8);
    uint64_t right = file->start + file->count * file->width;
    if (size != right) {
        return bp_error_numbers(error, BP_ERR_DATA, where,
                                "the file's size differs from its header; it is cut "
                                "short or damaged",
                                file->path, bp_size_signed(size), bp_size_signed(right));
    }
    return BP_OK;
}

static bp_status measure_nanogpt(bp_data_file *file, uint64_t size, bp_error *error)
{
    if (size % 2 != 0) {
        return bp_error_numbers(error, BP_ERR_DATA, where,
                                "a file of 16-bit tokens has an odd number of bytes (use "
                                "--data-format text if it is text)",
                                file->path, bp_size_signed(size), bp_size_signed(size) - 1);
    }
    file->width = 2;
    file->start = 0;
    file->count = size / 2;
    return BP_OK;
}

static bp_status data_measure(bp_data *data, bp_data_file *file, bp_data_format *format)
{
    uint64_t size = 0;
    unsigned char header[12] = {0};
    if (data->store->file_size(data->store, file->file, &size) != BP_OK) {
        return bp_storage_failed(data->error, data->store, "size", file->path);
    }
    if (size >= sizeof header &&
        data->store->read_at(data->store, file->file, 0, header, sizeof header) != BP_OK) {
        return bp_storage_failed(data->error, data->store, "read", file->path);
    }
    if (*format == BP_DATA_AUTO) {
        uint32_t magic = u32_from_bytes(header);
        if (magic_of_other_kind(magic) && data_ends_with(file->path, strlen(file->path), ".bin")) {
            return bp_error_numbers(data->error, BP_ERR_DATA, where,
                                    "this llm.c file holds no tokens", file->path,
                                    bp_size_signed(magic), LLMC_TOKENS_16);
        }
        *format = detect(file, size, magic);
        if (file->nameless) {
            BP_TRY(detect_nameless(data, file, format));
        }
    }
    if (*format == BP_DATA_LLMC) {
        return measure_llmc(file, size, header, data->error);
    }
    if (*format == BP_DATA_NANOGPT) {
        return measure_nanogpt(file, size, data->error);
    }
    file->width = 1;
    file->start = 0;
    file->count = size;
    return BP_OK;
}

/* Spreads n tokens of `width` bytes, which lie in the last n * width bytes of `to`, over all of it.
 * Front to back: element i is written below every byte that is still to be read. */
static void spread(int32_t *to, uint32_t n, uint32_t width)
{
    const unsigned char *from = (unsigned char *)to + (size_t)n * (4 - width);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = 0;
        for (uint32_t byte = 0; byte < width; byte++) {
            value |= (uint32_t)from[(size_t)i * width + byte] << (8 * byte);
        }
        /* Ids of 2^31 and above become negative, which the feed refuses as it does all others. */
        to[i] = (int32_t)value;
    }
}

bp_status bp_data_read_ids(bp_store *store, bp_file file, const char *path, uint64_t offset,
                           uint32_t width, uint32_t n, int32_t *to, bp_error *error)
{
    unsigned char *tail = (unsigned char *)to + (size_t)n * (4 - width);
    if (store->read_at(store, file, offset, tail, (size_t)n * width) != BP_OK) {
        return bp_storage_failed(error, store, "read", path);
    }
    spread(to, n, width);
    return BP_OK;
}

static bp_status data_read_file(bp_data *data, const bp_data_file *file, uint64_t first, uint32_t n,
                                int32_t *to)
{
    return bp_data_read_ids(data->store, file->file, file->path, file->start + first * file->width,
                            file->width, n, to, data->error);
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    bp_data *data = source->context;
    if (first > source->count || n > source->count - first) {
        return bp_error_set(data->error, BP_ERR_INTERNAL, where, "a read beyond the data",
                            source->name);
    }
    for (uint32_t i = 0; n > 0; i++) {
        const bp_data_file *file = &data->files[i];
        uint64_t past = file->first + file->count;
        if (first < past) {
            uint32_t part = past - first < n ? (uint32_t)(past - first) : n;
            BP_TRY(data_read_file(data, file, first - file->first, part, to));
            first += part;
            to += part;
            n -= part;
        }
    }
    return BP_OK;
}

static bp_status open_one(bp_data *data, bp_data_file *file, bp_data_format asked)
{
    const char *path = file->stored != NULL ? file->stored : file->path;
    if (data->store->open_read(data->store, path, &file->file) != BP_OK) {
        return bp_storage_failed(data->error, data->store, "open", file->path);
    }
    file->open = true;
    bp_data_format format = asked == BP_DATA_BYTES ? BP_DATA_TEXT : asked;
    BP_TRY(data_measure(data, file, &format));
    bool first = data->format == BP_DATA_AUTO;
    if (!first && format != data->format) {
        return bp_error_set(data->error, BP_ERR_DATA, where,
                            "the data files are of two kinds: all must be text, or all JSON "
                            "lines, or all llm.c token files, and so on",
                            file->path);
    }
    data->format = format;
    file->first = data->source.count;
    data->source.count += file->count;
    return BP_OK;
}

bp_status bp_data_open(bp_data *data, bp_store *store, bp_data_file *files, uint32_t file_count,
                       bp_data_format format, bp_error *error)
{
    *data = (bp_data){.store = store, .error = error, .files = files, .file_count = file_count};
    if (file_count == 0) {
        return bp_error_numbers(error, BP_ERR_DATA, where, "no data file was given", "", 0, 1);
    }
    data->source = (bp_source){.context = data, .name = files[0].path, .read = read_tokens};
    for (uint32_t i = 0; i < file_count; i++) {
        files[i] = (bp_data_file){
            .path = files[i].path, .stored = files[i].stored, .nameless = files[i].nameless};
    }
    bp_status status = BP_OK;
    for (uint32_t i = 0; i < file_count && status == BP_OK; i++) {
        status = open_one(data, &files[i], format);
    }
    if (status != BP_OK) {
        bp_data_close(data);
    }
    return status;
}

void bp_data_close(bp_data *data)
{
    for (uint32_t i = 0; i < data->file_count; i++) {
        if (data->files[i].open) {
            data->files[i].open = false;
            /* Nothing was written: a failing close of a file that was read loses nothing. */
            (void)data->store->close(data->store, data->files[i].file);
        }
    }
}
