/* SPDX-License-Identifier: MIT */
/* numpy's arrays. The format: numpy/lib/format.py. */
#include "tools/formats/data/data_npy.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/data/data_tokenise.h"

#define SIZES_MOST  32 /* numpy's own limit was 32 until 2.0 */
#define MAGIC_BYTES 8  /* magic and version */

static const char where[] = "npy";

/* A head on its way. */
typedef struct head {
    bp_npy *npy;
    const char *at;
    const char *end;
    bool given[3]; /* descr, fortran_order, shape */
    uint32_t sizes;
} head;

static bp_status npy_refuse(const bp_npy *npy, const char *text)
{
    return bp_error_set(npy->reader->error, BP_ERR_DATA, where, text, npy->reader->path);
}

static bp_status npy_bytes(bp_data_reader *reader, uint64_t at, unsigned char *to, size_t count)
{
    for (size_t done = 0; done < count;) {
        const unsigned char *bytes;
        size_t held;
        BP_TRY(bp_data_look(reader, at + done, &bytes, &held));
        if (held == 0) {
            return bp_data_refuse(reader, "the file ends inside an array");
        }
        held = held < count - done ? held : count - done;
        memcpy(to + done, bytes, held);
        done += held;
    }
    return BP_OK;
}

/* Spaces, and then whether `word` stands there, which is taken. */
static bool npy_take(head *h, const char *word)
{
    const size_t length = strlen(word);
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n')) {
        h->at++;
    }
    if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length) != 0) {
        return false;
    }
    h->at += length;
    return true;
}

static bool take_descr(head *h)
{
    bp_npy *npy = h->npy;
    const bool quote = npy_take(h, "'") || npy_take(h, "\"");
    if (!quote || h->end - h->at < 4 || strchr("<>|=", h->at[0]) == NULL || h->at[0] == '\0') {
        return false;
    }
    npy->big = h->at[0] == '>';
    npy->kind = h->at[1];
    npy->bytes = (uint32_t)(h->at[2] - '0');
    const bool power = npy->bytes == 1 || npy->bytes == 2 || npy->bytes == 4 || npy->bytes == 8;
    const bool known = npy->kind == 'f'   ? npy->bytes == 4 || npy->bytes == 8
                       : npy->kind == 'b' ? npy->bytes == 1
                                          : power && (npy->kind == 'i' || npy->kind == 'u');
    const char close = h->at[3];
    h->at += 4;
    return known && (close == '\'' || close == '"');
}

/* A size, whose digits stop before `most` is passed. */
static bool take_size(head *h, uint64_t *size)
{
    const uint64_t most = UINT64_MAX / 16;
    const char *first = h->at;
    *size = 0;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
        if (*size > most) {
            return false;
        }
        *size = *size * 10 + (uint64_t)(*h->at - '0');
    }
    const bool there = h->at > first;
    (void)(there && npy_take(h, "L")); /* Python 2 wrote long numbers so */
    return there;
}

static bool take_shape(head *h)
{
    if (!npy_take(h, "(")) {
        return false;
    }
    h->npy->each = 1;
    while (!npy_take(h, ")")) {
        uint64_t size;
        if (h->sizes == SIZES_MOST || !take_size(h, &size)) {
            return false;
        }
        h->npy->rows = h->sizes == 0 ? size : h->npy->rows;
        h->npy->each = h->sizes == 0 ? 1 : bp_size_mul(h->npy->each, size);
        h->sizes++;
        if (!npy_take(h, ",")) {
            return npy_take(h, ")");
        }
    }
    return true;
}

/* 'key': value */
static bool take_member(head *h)
{
    static const char *const keys[][2] = {{"'descr'", "\"descr\""},
                                          {"'fortran_order'", "\"fortran_order\""},
                                          {"'shape'", "\"shape\""}};
    uint32_t key = 0;
    while (key < 3 && !npy_take(h, keys[key][0]) && !npy_take(h, keys[key][1])) {
        key++;
    }
    if (key == 3 || h->given[key] || !npy_take(h, ":")) {
        return false;
    }
    h->given[key] = true;
    return key == 0 ? take_descr(h) : key == 1 ? npy_take(h, "False") : take_shape(h);
}

static bool take_head(head *h)
{
    bool more = npy_take(h, "{");
    if (!more) {
        return false;
    }
    while (more && !npy_take(h, "}")) {
        if (!take_member(h)) {
            return false;
        }
        more = npy_take(h, ",");
        if (!more && !npy_take(h, "}")) {
            return false;
        }
    }
    (void)npy_take(h, ""); /* the spaces to its end */
    return h->at == h->end && h->given[0] && h->given[1] && h->given[2] && h->sizes > 0;
}

/* Where the head lies, and how long it is. */
static bp_status find_head(bp_npy *npy, uint64_t *start, uint64_t *length)
{
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    unsigned char first[MAGIC_BYTES + 4] = {0};
    if (npy->reader->size < sizeof first) {
        return npy_refuse(npy, "the file is too short to be one of numpy's arrays");
    }
    BP_TRY(npy_bytes(npy->reader, 0, first, sizeof first));
    if (memcmp(first, magic, sizeof magic) != 0 || first[6] < 1 || first[6] > 3 || first[7] != 0) {
        return npy_refuse(npy, "the file is none of numpy's arrays of versions 1 to 3 (its first "
                               "bytes differ)");
    }
    const bool wide = first[6] > 1;
    *start = MAGIC_BYTES + (wide ? 4 : 2);
    *length = (uint64_t)first[8] | (uint64_t)first[9] << 8;
    *length |= wide ? (uint64_t)first[10] << 16 | (uint64_t)first[11] << 24 : 0;
    if (*length > BP_NPY_HEAD) {
        return bp_error_limit(npy->reader->error, BP_ERR_DATA, where,
                              "the array's head is longer than that of any array of plain numbers",
                              npy->reader->path, bp_size_signed(*length), BP_LIMIT_MOST,
                              BP_NPY_HEAD);
    }
    if (*start + *length > npy->reader->size) {
        return npy_refuse(npy, "the file ends inside its head");
    }
    return BP_OK;
}

bp_status bp_npy_begin(bp_npy *npy)
{
    char text[BP_NPY_HEAD];
    uint64_t start = 0, length = 0;
    BP_TRY(find_head(npy, &start, &length));
    BP_TRY(npy_bytes(npy->reader, start, (unsigned char *)text, (size_t)length));
    head h = {.npy = npy, .at = text, .end = text + length};
    if (!take_head(&h)) {
        return npy_refuse(npy, "the array is not of plain numbers (f4, f8, i, u, b1) in C order "
                               "with at least one size, or its head is damaged");
    }
    npy->start = start + length;
    const uint64_t right =
        bp_size_add(npy->start, bp_size_mul(bp_size_mul(npy->rows, npy->each), npy->bytes));
    if (npy->reader->size != right) {
        return bp_error_numbers(npy->reader->error, BP_ERR_DATA, where,
                                "the file's size differs from its header; it is cut short "
                                "or damaged",
                                npy->reader->path, bp_size_signed(npy->reader->size),
                                bp_size_signed(right));
    }
    return BP_OK;
}

/* Two's complement of `bytes` bytes. */
static double signed_of(uint64_t bits, uint32_t bytes)
{
    const uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    const uint64_t low = bits & (sign - 1);
    return (bits & sign) == 0 ? (double)low : -(double)(sign - low);
}

bp_status bp_npy_number(bp_npy *npy, uint64_t index, double *number)
{
    unsigned char bytes[8] = {0};
    uint64_t bits = 0;
    float single;
    BP_TRY(npy_bytes(npy->reader, npy->start + index * npy->bytes, bytes, npy->bytes));
    for (uint32_t i = 0; i < npy->bytes; i++) {
        bits = bits << 8 | bytes[npy->big ? i : npy->bytes - 1 - i];
    }
    if (npy->kind == 'f' && npy->bytes == 8) {
        memcpy(number, &bits, sizeof *number);
    } else if (npy->kind == 'f') {
        const uint32_t low = (uint32_t)bits;
        memcpy(&single, &low, sizeof single);
        *number = (double)single;
    } else {
        *number = npy->kind == 'i' ? signed_of(bits, npy->bytes) : (double)bits;
    }
    return BP_OK;
}

/* The last part of a path with `images` or `x` replaced; whether there was one. */
static bool name_labels(const char *path, char to[BP_STORE_PATH_MAX])
{
    const size_t length = strlen(path);
    if (length >= BP_STORE_PATH_MAX) {
        return false;
    }
    memcpy(to, path, length + 1);
    char *name = strrchr(to, '/');
    name = name != NULL ? name + 1 : to;
    char *found = NULL;
    for (char *at = name; (at = strstr(at, "images")) != NULL; at++) {
        found = at;
    }
    if (found != NULL) {
        memcpy(found, "labels", 6);
        return true;
    }
    found = strpbrk(name, "xX");
    if (found != NULL) {
        *found = *found == 'x' ? 'y' : 'Y';
    }
    return found != NULL;
}

static bp_status open_file(bp_npy_labels *labels, const bp_data_reader *array, const char *path)
{
    bp_store *store = array->store;
    labels->open = false;
    if (!name_labels(path, labels->path)) {
        return bp_error_set(array->error, BP_ERR_DATA, where,
                            "labels are looked for in a file named as that of the rows with "
                            "`labels` for `images` or `y` for `x`, and the name has no such part",
                            path);
    }
    labels->reader = (bp_data_reader){.store = store,
                                      .path = labels->path,
                                      .buffer = labels->window,
                                      .capacity = sizeof labels->window,
                                      .error = array->error};
    BP_TRY(bp_data_reader_open(&labels->reader));
    labels->open = true;
    return BP_OK;
}

bp_status bp_npy_labels_open(bp_npy_labels *labels, const bp_data_reader *array, const char *path,
                             uint64_t rows)
{
    BP_TRY(open_file(labels, array, path));
    BP_TRY(bp_data_reader_begin(&labels->reader));
    labels->npy = (bp_npy){.reader = &labels->reader};
    BP_TRY(bp_npy_begin(&labels->npy));
    if (labels->npy.each != 1 || labels->npy.rows != rows) {
        return bp_error_numbers(array->error, BP_ERR_DATA, where,
                                "there are labels for another number of rows", labels->reader.path,
                                bp_size_signed(bp_size_mul(labels->npy.rows, labels->npy.each)),
                                bp_size_signed(rows));
    }
    return BP_OK;
}

void bp_npy_labels_close(bp_npy_labels *labels)
{
    if (labels->open) {
        labels->open = false;
        /* Nothing was written: a failing close loses nothing. */
        (void)labels->reader.store->close(labels->reader.store, labels->reader.file);
    }
}

bp_status bp_npy_labels_key(const bp_data_reader *array, const char *path, bp_digest *key)
{
    bp_npy_labels labels = {.open = false};
    uint64_t lines = 0;
    bp_status status = open_file(&labels, array, path);
    status = status == BP_OK ? bp_data_key_file(&labels.reader, key, &lines) : status;
    bp_npy_labels_close(&labels);
    return status;
}
