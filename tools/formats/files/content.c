/* SPDX-License-Identifier: MIT */
/* Magic numbers, and what is text. */
#include "tools/formats/files/content.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/data/data_columns.h"

enum { PIECE = 8192 };

static const char where[] = "data";

#define AS_BYTES " (--data-format bytes takes its bytes as they are)"
#define UNPACK   "; unpack it first, or pack it with gzip or zstd" AS_BYTES
#define NO_TEXT  "; it holds no text" AS_BYTES
#define WEIGHTS  ", which holds weights and no text" AS_BYTES
#define PARQUET                                                                                    \
    "the file is Parquet, which is not read; this makes JSON lines of it: python3 -c \"import "    \
    "pandas, sys; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], orient='records', "        \
    "lines=True)\" FILE.parquet FILE.jsonl"

typedef struct magic {
    uint32_t at;
    uint32_t length;
    const char *bytes;
    bp_content content;
} magic;

#define MAGIC(at, bytes, text)                                                                     \
    {                                                                                              \
        at, sizeof(bytes) - 1, bytes,                                                              \
        {                                                                                          \
            BP_CONTENT_BINARY, text                                                                \
        }                                                                                          \
    }

static const magic magics[] = {
    {0, 3, "\x1f\x8b\x08", {BP_CONTENT_GZIP, ""}},
    {0, 4, "\x28\xb5\x2f\xfd", {BP_CONTENT_ZSTD, ""}},
    MAGIC(0, "PAR1", PARQUET),
    MAGIC(0, "ARROW1", "the file is Arrow's; write its table as JSON lines" AS_BYTES),
    MAGIC(0, "FEA1", "the file is Feather; write its table as JSON lines" AS_BYTES),
    MAGIC(0, "Obj\x01", "the file is Avro; write its records as JSON lines" AS_BYTES),
    MAGIC(0,
          "\xfd"
          "7zXZ\0",
          "the file is packed with xz" UNPACK),
    MAGIC(4, "1AY&SY", "the file is packed with bzip2" UNPACK),
    MAGIC(0, "\x04\x22\x4d\x18", "the file is packed with lz4" UNPACK),
    MAGIC(0, "\x1f\x9d", "the file is packed with compress" UNPACK),
    MAGIC(0, "PK\x03\x04", "the file is a zip archive" UNPACK),
    MAGIC(0, "PK\x05\x06", "the file is an empty zip archive" AS_BYTES),
    MAGIC(0, "7z\xbc\xaf\x27\x1c", "the file is a 7z archive" UNPACK),
    MAGIC(0, "Rar!\x1a\x07", "the file is a rar archive" UNPACK),
    MAGIC(257, "ustar", "the file is a tar archive; unpack it and name its files" AS_BYTES),
    MAGIC(0, "SQLite format 3\0",
          "the file is an SQLite database; write its table as JSON lines or CSV" AS_BYTES),
    MAGIC(0, "\x89HDF\r\n\x1a\n", "the file is HDF5; write its texts as JSON lines" AS_BYTES),
    MAGIC(0, "%PDF-", "the file is a PDF; take its text out first (pdftotext)" AS_BYTES),
    MAGIC(0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
          "the file is an old Office document; save it as text" AS_BYTES),
    MAGIC(0, "\x89PNG\r\n\x1a\n", "the file is a PNG image" NO_TEXT),
    MAGIC(0, "\xff\xd8\xff", "the file is a JPEG image" NO_TEXT),
    MAGIC(0, "GIF87a", "the file is a GIF image" NO_TEXT),
    MAGIC(0, "GIF89a", "the file is a GIF image" NO_TEXT),
    MAGIC(8, "WEBPVP8", "the file is a WebP image" NO_TEXT),
    MAGIC(8, "WAVEfmt ", "the file is a sound" NO_TEXT),
    MAGIC(0, "fLaC\0", "the file is a sound" NO_TEXT),
    MAGIC(0, "OggS\0", "the file is an Ogg stream" NO_TEXT),
    MAGIC(4, "ftyp", "the file is a film or a picture" NO_TEXT),
    MAGIC(0, "\x93NUMPY",
          "the file is NumPy's, which models of rows of numbers take (--data-format npy); token "
          "ids go as uint16 into a .bin file (--data-format nanogpt)" AS_BYTES),
    MAGIC(0, "GGUF", "the file is a GGUF model" WEIGHTS),
    MAGIC(0, "\x80\x02", "the file is a Python pickle (or torch.save's)" NO_TEXT),
    MAGIC(0, "\x80\x03", "the file is a Python pickle (or torch.save's)" NO_TEXT),
    MAGIC(0, "\x80\x04", "the file is a Python pickle (or torch.save's)" NO_TEXT),
    MAGIC(0, "\x80\x05", "the file is a Python pickle (or torch.save's)" NO_TEXT),
    MAGIC(0,
          "\x7f"
          "ELF",
          "the file is a program" NO_TEXT),
    MAGIC(0, "MZ\x90\0", "the file is a program" NO_TEXT),
    MAGIC(0, "\xca\xfe\xba\xbe", "the file is a program" NO_TEXT),
    MAGIC(0, "\xcf\xfa\xed\xfe", "the file is a program" NO_TEXT),
    MAGIC(0, "\xff\xfe", "the text is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8" AS_BYTES),
    MAGIC(0, "\xfe\xff", "the text is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8" AS_BYTES)};

/* A frame of zstd that is passed over: any of 16 magic numbers. */
static bool is_skippable(const unsigned char *head, size_t count)
{
    return count >= 4 && (head[0] & 0xf0) == 0x50 && memcmp(head + 1, "\x2a\x4d\x18", 3) == 0;
}

/* Eight bytes of a length that fits a header, and the brace of its JSON. */
static bool is_safetensors(const unsigned char *head, size_t count)
{
    return count > 9 && head[8] == '{' && (head[9] == '"' || head[9] == '}' || head[9] == ' ') &&
           memcmp(head + 4, "\0\0\0\0", 4) == 0;
}

bp_content bp_content_of(const unsigned char *head, size_t count)
{
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        const magic *m = &magics[i];
        if (count >= m->at + m->length && memcmp(head + m->at, m->bytes, m->length) == 0) {
            return m->content;
        }
    }
    if (is_safetensors(head, count)) {
        return (bp_content){BP_CONTENT_BINARY, "the file is a safetensors file" WEIGHTS};
    }
    return (bp_content){is_skippable(head, count) ? BP_CONTENT_ZSTD : BP_CONTENT_OTHER, ""};
}

/* Whether the first row, cut at the delimiter, has a field that names the label. */
static bool names_label(const unsigned char *head, size_t count, unsigned char delimiter)
{
    size_t first = 0;
    bool found = false;
    bool several = false;
    for (size_t i = 0; i <= count; i++) {
        bool ends = i == count || head[i] == '\n' || head[i] == '\r';
        if (!ends && head[i] != delimiter) {
            continue;
        }
        size_t quote = i - first > 2 && head[first] == '"' && head[i - 1] == '"' ? 1 : 0;
        size_t length = i - first - 2 * quote;
        const unsigned char *field = head + first + quote;
        found = found || bp_column_is_label((const char *)field, length);
        if (ends) {
            break;
        }
        several = true;
        first = i + 1;
    }
    return found && several;
}

static size_t skip_space(const unsigned char *head, size_t count, size_t at)
{
    while (at < count && (head[at] == ' ' || (head[at] >= '\t' && head[at] <= '\r'))) {
        at++;
    }
    return at;
}

bp_data_format bp_content_format(const unsigned char *head, size_t count)
{
    size_t start = count >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t at = skip_space(head, count, start);
    size_t behind = skip_space(head, count, at + 1);
    if (at < count && behind < count) {
        bool object = head[at] == '{' && (head[behind] == '"' || head[behind] == '}');
        bool array = head[at] == '[' && (head[behind] == '{' || head[behind] == ']');
        if (object || array) {
            return BP_DATA_JSONL;
        }
    }
    if (names_label(head + start, count - start, '\t')) {
        return BP_DATA_TSV;
    }
    return names_label(head + start, count - start, ',') ? BP_DATA_CSV : BP_DATA_TEXT;
}

bp_status bp_content_head(bp_store *store, bp_file file, const char *path,
                          unsigned char head[BP_CONTENT_HEAD], size_t *count, bp_error *error)
{
    uint64_t size = 0;
    if (store->file_size(store, file, &size) != BP_OK) {
        return bp_storage_failed(error, store, "size", path);
    }
    *count = size < BP_CONTENT_HEAD ? (size_t)size : BP_CONTENT_HEAD;
    if (*count > 0 && store->read_at(store, file, 0, head, *count) != BP_OK) {
        return bp_storage_failed(error, store, "read", path);
    }
    return BP_OK;
}

/* Counts while bytes go by; a character may go on in the next piece. */
typedef struct survey {
    uint32_t left; /* bytes that the present character still needs */
    unsigned char lowest, highest;
    uint64_t wrong;      /* bytes that are no UTF-8 */
    uint64_t characters; /* beyond ASCII */
    uint64_t held;       /* bytes of the present one */
} survey;

/* The first byte of a character (The Unicode Standard, table 3-7). */
static void survey_begin(survey *s, unsigned char byte)
{
    s->held = 0;
    s->left = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    s->lowest = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    s->highest = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    if (byte >= 0x80 && (byte < 0xc2 || byte > 0xf4)) {
        s->wrong++;
        s->left = 0;
    }
    s->held = s->left > 0 ? 1 : 0;
}

static void survey_byte(survey *s, unsigned char byte)
{
    if (s->left == 0) {
        survey_begin(s, byte);
        return;
    }
    if (byte < s->lowest || byte > s->highest) {
        s->wrong += s->held;
        survey_begin(s, byte);
        return;
    }
    s->lowest = 0x80;
    s->highest = 0xbf;
    s->held++;
    s->left--;
    s->characters += s->left == 0 ? 1 : 0;
}

static void survey_piece(survey *s, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count;) {
        uint64_t word;
        if (s->left == 0 && count - i >= sizeof word) {
            memcpy(&word, bytes + i, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                i += sizeof word;
                continue;
            }
        }
        survey_byte(s, bytes[i++]);
    }
}

static bp_status check_text(const bp_data *data, const bp_data_file *file)
{
    unsigned char piece[PIECE];
    survey s = {.left = 0};
    for (uint64_t at = 0; at < file->count;) {
        uint64_t left = file->count - at;
        size_t n = left < PIECE ? (size_t)left : PIECE;
        if (data->store->read_at(data->store, file->file, at, piece, n) != BP_OK) {
            return bp_storage_failed(data->error, data->store, "read", file->path);
        }
        if (memchr(piece, '\0', n) != NULL) {
            return bp_error_set(data->error, BP_ERR_DATA, where,
                                "the file holds NUL bytes, so it is no text" AS_BYTES, file->path);
        }
        survey_piece(&s, piece, n);
        at += n;
    }
    if (s.wrong > s.characters && s.wrong > file->count / 10) {
        return bp_error_set(data->error, BP_ERR_DATA, where,
                            "the file is no text in UTF-8; from another encoding: iconv -f "
                            "ENCODING -t UTF-8" AS_BYTES,
                            file->path);
    }
    return BP_OK;
}

bp_status bp_content_check(const bp_data *data)
{
    unsigned char head[BP_CONTENT_HEAD];
    bool table = data->format == BP_DATA_TSV || data->format == BP_DATA_CSV;
    if (data->format != BP_DATA_TEXT && data->format != BP_DATA_JSONL && !table) {
        return BP_OK;
    }
    for (uint32_t i = 0; i < data->file_count; i++) {
        const bp_data_file *file = &data->files[i];
        size_t count;
        BP_TRY(bp_content_head(data->store, file->file, file->path, head, &count, data->error));
        const bp_content content = bp_content_of(head, count);
        if (content.kind == BP_CONTENT_BINARY) {
            return bp_error_set(data->error, BP_ERR_DATA, where, content.text, file->path);
        }
        if (content.kind != BP_CONTENT_OTHER) {
            return bp_error_set(data->error, BP_ERR_DATA, where,
                                "the file is packed twice; unpack it once" AS_BYTES, file->path);
        }
        if (data->format == BP_DATA_TEXT) {
            BP_TRY(check_text(data, file));
        }
    }
    return BP_OK;
}
