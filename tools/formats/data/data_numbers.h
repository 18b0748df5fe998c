/* SPDX-License-Identifier: MIT */
/* Rows of numbers with a label, as a source of examples.
 *
 * CSV, TSV  a row a line, every field a number as JSON writes them, spaces around it. If no field
 *           of the first row is one, that row names the columns, one of which has the name of a
 *           label (data_columns.h); without such a row the label is the last one, or that whose
 *           number is asked for.
 * f32       float32, little-endian, row after row; the last number of each is the label. Of any of
 *           several classes the label is the sum of 2^class.
 *
 * images    data_images.h: numbers from 0 to 1.
 * images in files: a table of their names and labels, data_pnm.h: numbers from 0 to 1.
 * npy       data_npy.h: arrays, with their labels in a file beside.
 *
 * The "ids" of such a source are the bits of the numbers as float32; a feed over it has vocabulary
 * 0 and as many inputs per row as `sequence` says. Labels are classes, or floats (BP_LABELS_BITS
 * without classes). The rows are kept in a token file (data_tokens.h), with a key of their own.
 * Refused, with file and line or row: what is no finite number, another number of fields, a label
 * that is no class, an f32 file whose size is no whole number of rows. */
#ifndef BP_FORMATS_DATA_NUMBERS_H
#define BP_FORMATS_DATA_NUMBERS_H

#include "tools/formats/data/data.h"
#include "tools/formats/data/data_columns.h"
#include "tools/formats/family/class_names.h"
#include "tools/formats/data/data_tokens.h"
#include "tools/formats/images/image_prep.h"
#include "tools/formats/images/picture.h"

#define BP_NUMBERS_SCRATCH 524288 /* bytes */

/* All but the last two are the caller's to set. */
typedef struct bp_numbers {
    bp_data *data;    /* the open files: BP_DATA_CSV, _TSV, _F32, _NPY or of images */
    const char *path; /* the token file; its directory is there */
    uint32_t inputs;  /* numbers of a row beside its label */
    bp_labels labels; /* BP_LABELS_CLASS, or BP_LABELS_BITS for floats */
    uint32_t classes; /* BP_LABELS_CLASS */
    bool bare;        /* rows are nothing but their numbers: no label but in a column of that name,
                         which is left out */
    bp_data_reading reading;
    uint32_t size[3];            /* height, width and channels of a list's images */
    const bp_class_names *names; /* of the classes, for labels of lists, or NULL */
    bp_pictures *pictures;       /* for lists of PNG and JPEG, or NULL */
    const bp_image_prep *prep;   /* what is done to images of bytes, or NULL; with pictures */
    void *scratch;               /* BP_NUMBERS_SCRATCH, aligned to 8 */
    bp_error *error;
    uint64_t rows;
    bool built; /* false: the token file was there */
} bp_numbers;

/* Which columns a table of numbers has, or a list of images: of file number `file`. */
bp_status bp_numbers_columns(const bp_numbers *work, uint32_t file,
                             bp_row_columns *columns) BP_MUST_CHECK;

/* What bp_numbers_open refuses of the files' forms and of the first row of each table, in its
 * words. Lists of images are not looked at, `path` is not used. */
bp_status bp_numbers_first(bp_numbers *work) BP_MUST_CHECK;

/* Opens the token file of the rows, which it makes if it has to. After an error nothing is left
 * open, and an earlier file is as it was. Cost: the data is read once for the key, once more to
 * convert it. */
bp_status bp_numbers_open(bp_numbers *work, bp_tokens *tokens) BP_MUST_CHECK;

/* How many numbers the rows of the first file have beside their label: for a model that is not
 * given yet. BP_ERR_USAGE of f32, which does not say. */
bp_status bp_numbers_inputs(const bp_numbers *work, uint32_t *inputs) BP_MUST_CHECK;

#endif
