/* SPDX-License-Identifier: MIT */
/* Converting rows of numbers into a token file. */
#include "tools/formats/data/data_numbers.h"

#include <string.h>

#include "core/base/number.h"
#include "tools/formats/data/data_documents.h"
#include "tools/formats/images/data_images.h"
#include "tools/formats/data/data_tokenise.h"
#include "tools/formats/data/data_npy.h"
#include "tools/formats/images/data_pnm.h"
#include "tools/formats/files/data_table.h"

#define RULES     0x4e554d32u /* goes up when the same data would give other rows */
#define NO_COLUMN UINT32_MAX

enum { WINDOW_BYTES = 262144, FIELD_BYTES = 512, NUMBER_BYTES = 64 };

static const char where[] = "numbers";

/* Rows on their way into a token file. */
typedef struct maker {
    bp_numbers *work;
    bp_tokens_writer writer;
    bool first;        /* first rows are looked at, and nothing is written */
    bp_documents rule; /* for labels: nothing is read by it */
    bp_data_reader reader;
    bp_table table;
    uint32_t label_column; /* of the present file */
    uint32_t columns;      /* of the row, so far */
    char field[FIELD_BYTES];
    size_t length;
    bp_example example;
} maker;

static bp_data_reader reader_of(const bp_numbers *work, uint32_t file)
{
    const bp_data_file *row = &work->data->files[file];
    return (bp_data_reader){.store = work->data->store,
                            .file = row->file,
                            .path = row->path,
                            .buffer = work->scratch,
                            .capacity = WINDOW_BYTES,
                            .error = work->error};
}

static void trim(maker *m)
{
    size_t before = 0;
    while (before < m->length && m->field[before] == ' ') {
        before++;
    }
    while (m->length > before && m->field[m->length - 1] == ' ') {
        m->length--;
    }
    m->length -= before;
    memmove(m->field, m->field + before, m->length);
}

/* Reads one field to its end. What does not fit is no number that anybody writes. */
static bp_status take_field(maker *m, bp_table_event *what)
{
    m->length = 0;
    do {
        BP_TRY(bp_table_next(&m->table, what));
        if (*what == BP_TABLE_PIECE) {
            size_t room = FIELD_BYTES - m->length;
            if (m->table.count > room) {
                return bp_data_refuse(&m->reader, "the field is not a number");
            }
            memcpy(m->field + m->length, m->table.piece, m->table.count);
            m->length += m->table.count;
        }
    } while (*what == BP_TABLE_PIECE);
    if (*what == BP_TABLE_END) {
        return bp_data_refuse(&m->reader, "the file changed while it was read");
    }
    trim(m);
    return BP_OK;
}

/* Looks at the first row: how many columns there are, and whether it names them. */
static bp_status read_heading(maker *m, uint32_t *count)
{
    bp_table_event what = BP_TABLE_FIELD;
    bp_number number;
    bp_row_columns *columns = &m->rule.columns;
    bool names = !m->work->reading.no_header;
    BP_TRY(bp_table_skip_blank(&m->table));
    const bp_table first = m->table;
    bp_row_columns_begin(columns, &m->work->reading);
    columns->numbers = true;
    while (what == BP_TABLE_FIELD && !bp_table_ended(&m->table)) {
        BP_TRY(take_field(m, &what));
        names = names && bp_number_parse(m->field, m->length, &number) != BP_OK;
        bp_row_columns_take(columns, m->field, m->length);
    }
    *count = columns->count;
    m->label_column = NO_COLUMN;
    if (*count == 0) {
        return BP_OK;
    }
    columns->named = names;
    BP_TRY(bp_row_columns_end(columns, &m->reader));
    m->label_column = columns->of[BP_COLUMN_LABEL].number;
    if (names && m->label_column == NO_COLUMN && !m->work->bare) {
        return bp_data_refuse(&m->reader, "the first row names no column that is known as the "
                                          "label (--label-column names it)");
    }
    if (m->label_column == NO_COLUMN && !m->work->bare) {
        m->label_column = *count - 1;
        bp_row_columns_set(columns, BP_COLUMN_LABEL, m->label_column, "", 0);
    }
    if (!names) {
        m->table = first;
    }
    return BP_OK;
}

static bp_status put_float(maker *m, float value)
{
    uint32_t bits;
    if (!(value - value == 0.0f)) {
        return bp_data_refuse(&m->reader, "a number is not finite in single precision");
    }
    memcpy(&bits, &value, sizeof bits);
    m->example.count++;
    return m->first ? BP_OK : bp_tokens_put(&m->writer, &bits, 1);
}

/* Number k of an image of bytes. */
static bp_status put_byte(maker *m, uint8_t byte, uint32_t k)
{
    const uint32_t channels = m->work->size[2];
    return put_float(m, bp_image_prep_number(m->work->prep, byte, channels == 3 ? k % 3 : 0));
}

static bp_status use_field(maker *m, uint32_t column)
{
    bp_number number;
    if (column == m->label_column && m->work->bare) {
        return BP_OK;
    }
    if (column == m->label_column) {
        return bp_documents_label(&m->rule, &m->reader, m->field, m->length, &m->example.label);
    }
    bp_status status = bp_number_parse(m->field, m->length, &number);
    if (status != BP_OK || m->length > NUMBER_BYTES) {
        return bp_data_refuse(&m->reader, "the field is not a number");
    }
    return put_float(m, (float)number.real);
}

static bp_status data_numbers_read_row(maker *m)
{
    bp_table_event what = BP_TABLE_FIELD;
    uint32_t columns = 0;
    const uint32_t right = m->work->inputs + (m->label_column != NO_COLUMN ? 1 : 0);
    m->example = (bp_example){.first = m->writer.head.tokens};
    while (what == BP_TABLE_FIELD) {
        BP_TRY(take_field(m, &what));
        if (columns < right) {
            BP_TRY(use_field(m, columns));
        }
        columns++;
    }
    if (columns != right) {
        return bp_data_refuse_numbers(&m->reader,
                                      "the row has another number of fields than the model has "
                                      "inputs, and one for the label where there is one",
                                      columns, right);
    }
    return m->first ? BP_OK : bp_tokens_put_example(&m->writer, &m->example);
}

static bp_status begin_table(maker *m)
{
    char delimiter = m->work->data->format == BP_DATA_TSV ? '\t' : ',';
    m->table = (bp_table){.reader = &m->reader, .delimiter = delimiter, .quotes = delimiter == ','};
    return bp_table_begin(&m->table);
}

static bp_status read_table(maker *m)
{
    uint32_t columns;
    BP_TRY(begin_table(m));
    BP_TRY(read_heading(m, &columns));
    BP_TRY(bp_table_skip_blank(&m->table));
    for (bool more = true; more && !bp_table_ended(&m->table); more = !m->first) {
        BP_TRY(data_numbers_read_row(m));
        BP_TRY(bp_table_skip_blank(&m->table));
    }
    return BP_OK;
}

/* One float32 of the file; a row may lie across windows. */
static bp_status read_float(maker *m, uint64_t offset, float *value)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(&m->reader, offset + i, &bytes, &count));
        bits |= count > 0 ? (uint32_t)*bytes << (8 * i) : 0;
    }
    memcpy(value, &bits, sizeof bits);
    return BP_OK;
}

static bp_status label_of(maker *m, float value)
{
    const bp_numbers *work = m->work;
    uint32_t bits;
    if (work->labels == BP_LABELS_CLASS || work->classes > 0) {
        bool mask = work->labels != BP_LABELS_CLASS;
        float most = mask ? (float)((uint64_t)1 << work->classes) : (float)work->classes;
        bool class = value >= 0.0f && value < most;
        if (!class || (float)(uint32_t)value != value) {
            return bp_data_refuse(&m->reader, "the label is no class of the model");
        }
        m->example.label = (uint32_t)value;
        return BP_OK;
    }
    if (!(value - value == 0.0f)) {
        return bp_data_refuse(&m->reader, "the label is not finite");
    }
    memcpy(&bits, &value, sizeof bits);
    m->example.label = bits;
    return BP_OK;
}

/* Rows are counted as lines are: from 1. */
static bp_status read_floats(maker *m)
{
    const bool bare = m->work->bare;
    uint64_t row_bytes = 4 * ((uint64_t)m->work->inputs + (bare ? 0 : 1));
    if (m->reader.size % row_bytes != 0) {
        return bp_data_refuse_numbers(&m->reader,
                                      bare ? "the file's size is no whole number of rows (inputs "
                                             "of four bytes each)"
                                           : "the file's size is no whole number of rows (inputs "
                                             "and a label, four bytes each)",
                                      (int64_t)m->reader.size,
                                      (int64_t)(m->reader.size / row_bytes * row_bytes));
    }
    for (uint64_t at = 0; !m->first && at < m->reader.size;) {
        float value;
        m->reader.line = at / row_bytes + 1;
        m->example = (bp_example){.first = m->writer.head.tokens};
        for (uint32_t i = 0; i < m->work->inputs; i++, at += 4) {
            BP_TRY(read_float(m, at, &value));
            BP_TRY(put_float(m, value));
        }
        if (!bare) {
            BP_TRY(read_float(m, at, &value));
            BP_TRY(label_of(m, value));
            at += 4;
        }
        BP_TRY(bp_tokens_put_example(&m->writer, &m->example));
    }
    return BP_OK;
}

static bp_images images_of(const bp_numbers *work, uint32_t file, bp_data_reader *reader)
{
    const bp_data_file *row = &work->data->files[file];
    return (bp_images){.reader = reader,
                       .path = row->stored != NULL ? row->stored : row->path,
                       .format = work->data->format,
                       .inputs = work->inputs};
}

/* One image. */
static bp_status read_image(maker *m, bp_images *images, uint64_t i)
{
    uint8_t pixel = 0, label = 0;
    m->reader.line = i + 1;
    m->example = (bp_example){.first = m->writer.head.tokens};
    for (uint32_t k = 0; k < m->work->inputs; k++) {
        BP_TRY(bp_images_pixel(images, i, k, &pixel));
        BP_TRY(put_byte(m, pixel, k));
    }
    BP_TRY(bp_images_label(images, i, &label));
    BP_TRY(label_of(m, (float)label));
    return bp_tokens_put_example(&m->writer, &m->example);
}

/* Images are rows of numbers from 0 to 1; they are counted as lines are. */
static bp_status read_images(maker *m, uint32_t file)
{
    bp_images images = images_of(m->work, file, &m->reader);
    bp_status status = bp_images_begin(&images);
    for (uint64_t i = 0; !m->first && status == BP_OK && i < images.count; i++) {
        status = read_image(m, &images, i);
    }
    bp_images_end(&images);
    return status;
}

/* One row of an array. Bytes without a sign are pixels. */
static bp_status read_npy_row(maker *m, bp_npy *npy, uint64_t row)
{
    const bool pixels = npy->kind == 'u' && npy->bytes == 1;
    m->reader.line = row + 1;
    m->example = (bp_example){.first = m->writer.head.tokens};
    for (uint32_t k = 0; k < m->work->inputs; k++) {
        double number;
        BP_TRY(bp_npy_number(npy, row * npy->each + k, &number));
        BP_TRY(pixels ? put_byte(m, (uint8_t)number, k) : put_float(m, (float)number));
    }
    return BP_OK;
}

static bp_status read_npy_rows(maker *m, bp_npy *npy, bp_npy_labels *labels)
{
    for (uint64_t i = 0; !m->first && i < npy->rows; i++) {
        double label;
        BP_TRY(read_npy_row(m, npy, i));
        if (!m->work->bare) {
            BP_TRY(bp_npy_number(&labels->npy, i, &label));
            BP_TRY(label_of(m, (float)label));
        }
        BP_TRY(bp_tokens_put_example(&m->writer, &m->example));
    }
    return BP_OK;
}

static const char *stored_path(const bp_numbers *work, uint32_t file)
{
    const bp_data_file *row = &work->data->files[file];
    return row->stored != NULL ? row->stored : row->path;
}

/* Rows are counted as lines are: from 1. */
static bp_status read_npy(maker *m, uint32_t file)
{
    bp_npy npy = {.reader = &m->reader};
    bp_npy_labels labels = {.open = false};
    BP_TRY(bp_npy_begin(&npy));
    if (npy.each != m->work->inputs) {
        return bp_data_refuse_numbers(&m->reader,
                                      "a row of the array has another number of numbers than the "
                                      "model has inputs",
                                      (int64_t)npy.each, m->work->inputs);
    }
    bp_status status = BP_OK;
    if (!m->work->bare) {
        status = bp_npy_labels_open(&labels, &m->reader, stored_path(m->work, file), npy.rows);
    }
    status = status == BP_OK ? read_npy_rows(m, &npy, &labels) : status;
    bp_npy_labels_close(&labels);
    return status;
}

/* The pixels of one image, or with `key` all that its file holds. */
static bp_status take_image(maker *m, bp_pnm *image, bp_digest *key)
{
    const bp_numbers *work = m->work;
    uint64_t lines = 0;
    BP_TRY(bp_pnm_open(image, &m->reader, m->field, m->length));
    if (key != NULL) {
        return bp_data_key_file(&image->reader, key, &lines);
    }
    BP_TRY(bp_pnm_begin(image));
    if (work->prep != NULL && work->prep->given != 0) {
        BP_TRY(bp_pnm_prepare(image, work->prep));
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (image->size[i] != work->size[i]) {
            return bp_error_numbers(work->error, BP_ERR_DATA, where,
                                    "the image has another height, width or number of channels "
                                    "than the model's",
                                    image->path, (int64_t)image->size[i], work->size[i]);
        }
    }
    for (uint32_t k = 0; k < work->inputs; k++) {
        uint8_t number = 0;
        BP_TRY(bp_pnm_number(image, k, &number));
        BP_TRY(put_byte(m, number, k));
    }
    return BP_OK;
}

/* A row of a list. The error of an image is one of its row. */
static bp_status take_listed(maker *m, uint32_t name_column, bp_digest *key)
{
    bp_table_event what = BP_TABLE_FIELD;
    uint32_t columns = 0;
    m->example = (bp_example){.first = m->writer.head.tokens};
    for (; what == BP_TABLE_FIELD; columns++) {
        BP_TRY(take_field(m, &what));
        if (columns == name_column) {
            bp_pnm image = {.pictures = m->work->pictures, .channels = m->work->size[2]};
            const bp_status status = take_image(m, &image, key);
            bp_pnm_close(&image);
            if (status == BP_ERR_DATA) {
                bp_data_name_position(&m->reader);
            }
            BP_TRY(status);
        } else if (columns == m->label_column && key == NULL) {
            BP_TRY(use_field(m, columns));
        }
    }
    if (columns != m->columns) {
        return bp_data_refuse_numbers(
            &m->reader, "the row has another number of fields than the first", columns, m->columns);
    }
    return key != NULL ? BP_OK : bp_tokens_put_example(&m->writer, &m->example);
}

/* The header of a list of images. */
static bp_status list_heading(maker *m, uint32_t *name_column)
{
    bp_table_event what = BP_TABLE_FIELD;
    bp_row_columns *columns = &m->rule.columns;
    *name_column = NO_COLUMN;
    BP_TRY(bp_table_skip_blank(&m->table));
    bp_row_columns_begin(columns, &m->work->reading);
    columns->named = true;
    while (what == BP_TABLE_FIELD && !bp_table_ended(&m->table)) {
        static const char *const name[] = {"file_name", NULL};
        BP_TRY(take_field(m, &what));
        *name_column = bp_column_named(name, m->field, m->length) ? columns->count : *name_column;
        bp_row_columns_take(columns, m->field, m->length);
    }
    m->columns = columns->count;
    BP_TRY(bp_row_columns_end(columns, &m->reader));
    m->label_column = columns->of[BP_COLUMN_LABEL].number;
    if (*name_column == NO_COLUMN || (m->label_column == NO_COLUMN && !m->work->bare)) {
        return bp_data_refuse(&m->reader, "the first row of a list of images names its columns, "
                                          "`file_name` and `label` among them (--label-column "
                                          "names another)");
    }
    return BP_OK;
}

/* A list of images; with `key` what they hold is added to it instead. */
static bp_status read_list(maker *m, bp_digest *key)
{
    uint32_t name_column;
    BP_TRY(begin_table(m));
    BP_TRY(list_heading(m, &name_column));
    BP_TRY(bp_table_skip_blank(&m->table));
    while (!bp_table_ended(&m->table)) {
        BP_TRY(take_listed(m, name_column, key));
        BP_TRY(bp_table_skip_blank(&m->table));
    }
    return BP_OK;
}

static bp_status list_key(bp_numbers *work, uint32_t file, bp_digest *key)
{
    maker m = {.work = work, .reader = reader_of(work, file)};
    BP_TRY(bp_data_reader_begin(&m.reader));
    return read_list(&m, key);
}

/* The key, and how many rows there can be at most. */
static bp_status data_numbers_survey(bp_numbers *work, uint64_t *key, uint64_t *rows)
{
    bp_digest digest;
    uint64_t bytes = 0;
    bp_digest_begin(&digest, 0);
    bp_data_key_number(&digest, RULES);
    bp_data_key_number(&digest, work->data->format);
    bp_data_key_number(&digest, work->inputs);
    bp_data_key_number(&digest, work->labels);
    bp_data_key_number(&digest, work->classes);
    bp_data_key_number(&digest, work->bare);
    bp_data_reading_key(&work->reading, &digest);
    for (uint32_t i = 0; i < 3; i++) {
        bp_data_key_number(&digest, work->size[i]);
    }
    if (work->prep != NULL && work->prep->given != 0) {
        bp_digest_add(&digest, work->prep, sizeof *work->prep);
    }
    for (uint32_t i = 0; work->names != NULL && i < work->names->used; i++) {
        bp_data_key_number(&digest, (unsigned char)work->names->text[i]);
    }
    *rows = 0;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        bp_data_reader reader = reader_of(work, i);
        BP_TRY(bp_data_key_file(&reader, &digest, rows));
        bytes += reader.size;
        ++*rows;
        if (work->data->format == BP_DATA_FOLDER) {
            BP_TRY(list_key(work, i, &digest));
        }
        if (work->data->format == BP_DATA_NPY && !work->bare) {
            BP_TRY(bp_npy_labels_key(&reader, stored_path(work, i), &digest));
        }
        if (bp_images_format(work->data->format)) {
            bp_images images = images_of(work, i, &reader);
            BP_TRY(bp_images_key(&images, &digest));
        }
    }
    if (bp_images_format(work->data->format) || work->data->format == BP_DATA_NPY) {
        *rows = bytes / (work->inputs > 0 ? work->inputs : 1);
    }
    if (work->data->format == BP_DATA_F32) {
        *rows = bytes / 4 / ((uint64_t)work->inputs + (work->bare ? 0 : 1));
    }
    *key = bp_digest_end(&digest);
    return BP_OK;
}

static bp_status data_numbers_read(maker *m)
{
    bp_numbers *work = m->work;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        m->reader = reader_of(work, i);
        BP_TRY(bp_data_reader_begin(&m->reader));
        if (bp_images_format(work->data->format)) {
            BP_TRY(read_images(m, i));
        } else if (work->data->format == BP_DATA_NPY) {
            BP_TRY(read_npy(m, i));
        } else if (work->data->format == BP_DATA_FOLDER) {
            BP_TRY(m->first ? BP_OK : read_list(m, NULL));
        } else {
            BP_TRY(work->data->format == BP_DATA_F32 ? read_floats(m) : read_table(m));
        }
    }
    return BP_OK;
}

static bp_status data_numbers_make(maker *m, uint64_t rows)
{
    const bp_numbers *work = m->work;
    BP_TRY(bp_tokens_begin(&m->writer, rows));
    BP_TRY(data_numbers_read(m));
    if (m->writer.head.examples == 0) {
        return bp_error_set(work->error, BP_ERR_DATA, where, "the data holds no row",
                            work->data->source.name);
    }
    m->writer.head.documents = m->writer.head.examples;
    return bp_tokens_end(&m->writer);
}

static bp_documents numbers_rule(const bp_numbers *work)
{
    return (bp_documents){.labels = work->labels,
                          .classes = work->classes,
                          .names = work->names,
                          .reading = work->reading};
}

bp_status bp_numbers_first(bp_numbers *work)
{
    maker m = {.work = work, .first = true, .rule = numbers_rule(work)};
    return data_numbers_read(&m);
}

static bp_status build(bp_numbers *work, uint64_t key, uint64_t rows)
{
    maker m = {.work = work, .rule = numbers_rule(work)};
    m.writer = (bp_tokens_writer){.store = work->data->store,
                                  .path = work->path,
                                  .buffer = (unsigned char *)work->scratch + WINDOW_BYTES,
                                  .error = work->error};
    m.writer.head = (bp_tokens_head){.width = 4, .form = BP_FORM_NUMBERS, .key = key};
    bp_status status = data_numbers_make(&m, rows);
    if (status != BP_OK) {
        bp_tokens_abandon(&m.writer);
    }
    work->built = true;
    return status;
}

bp_status bp_numbers_open(bp_numbers *work, bp_tokens *tokens)
{
    uint64_t key;
    uint64_t rows;
    bp_data *data = work->data;
    *tokens = (bp_tokens){.open = false};
    work->built = false;
    BP_TRY(bp_numbers_first(work));
    BP_TRY(data_numbers_survey(work, &key, &rows));
    void *buffer = (unsigned char *)work->scratch + WINDOW_BYTES;
    if (!bp_tokens_fits(tokens, data->store, work->path, key, buffer, work->error)) {
        BP_TRY(build(work, key, rows));
        BP_TRY(bp_tokens_open(tokens, data->store, work->path, NULL, work->error));
    }
    work->rows = tokens->head.examples;
    return BP_OK;
}

bp_status bp_numbers_inputs(const bp_numbers *work, uint32_t *inputs)
{
    uint32_t columns;
    maker m = {.work = (bp_numbers *)work, .reader = reader_of(work, 0)};
    *inputs = 0;
    if (work->data->format == BP_DATA_F32 || work->data->format == BP_DATA_NPY ||
        work->data->format == BP_DATA_FOLDER || bp_images_format(work->data->format)) {
        return bp_error_set(work->error, BP_ERR_USAGE, where,
                            "a file of bare numbers has no row length", work->data->source.name);
    }
    BP_TRY(bp_data_reader_begin(&m.reader));
    BP_TRY(begin_table(&m));
    BP_TRY(read_heading(&m, &columns));
    if (columns < 2) {
        return bp_data_refuse_numbers(&m.reader, "a row has numbers and a label", columns, 2);
    }
    *inputs = columns - 1;
    return BP_OK;
}

bp_status bp_numbers_columns(const bp_numbers *work, uint32_t file, bp_row_columns *columns)
{
    uint32_t other;
    maker m = {.work = (bp_numbers *)work, .reader = reader_of(work, file)};
    BP_TRY(bp_data_reader_begin(&m.reader));
    BP_TRY(begin_table(&m));
    BP_TRY(work->data->format == BP_DATA_FOLDER ? list_heading(&m, &other)
                                                : read_heading(&m, &other));
    *columns = m.rule.columns;
    return BP_OK;
}
