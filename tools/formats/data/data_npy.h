/* SPDX-License-Identifier: MIT */
/* Arrays as numpy.save writes them (versions 1, 2 and 3), as rows of numbers.
 *
 * The first size is the number of rows, the others together are the numbers of one, in their order
 * in the file: images are (rows, height, width, channels). Elements are f4, f8, b1, or whole
 * numbers of 1 to 8 bytes with a sign or without (i, u), of either order of bytes, and in C order.
 * Bytes without a sign (u1) are pixels: numbers from 0 to 1.
 *
 * Labels are one element a row, in a file of their own: named as that of the rows with `labels` for
 * the last `images` of its name, or `y` for the first `x` of it (x_train.npy, y_train.npy).
 *
 * The head is at most BP_NPY_HEAD bytes, each of its three keys stands there once. Refused as
 * BP_ERR_DATA with the file, and the row where one is at fault: any other head or type, Fortran's
 * order, sizes that are not the model's, a size of the file that is not what its head says. */
#ifndef BP_FORMATS_DATA_NPY_H
#define BP_FORMATS_DATA_NPY_H

#include "core/base/digest.h"
#include "tools/formats/files/data_reader.h"

#define BP_NPY_HEAD   1024 /* most bytes of a head behind its length */
#define BP_NPY_WINDOW 4096 /* bytes of the window over labels */

/* An array in a file. The reader is the caller's to set, and begun. */
typedef struct bp_npy {
    bp_data_reader *reader;
    uint64_t rows;
    uint64_t each;  /* elements of a row */
    uint64_t start; /* bytes before the first one */
    uint32_t bytes; /* of an element */
    char kind;      /* 'f', 'i', 'u' or 'b' */
    bool big;       /* its first byte is the highest */
} bp_npy;

/* Reads the head. */
bp_status bp_npy_begin(bp_npy *npy) BP_MUST_CHECK;

/* Element `index` of all, rounded to double: whole numbers beyond 2^53 lose their last places. */
bp_status bp_npy_number(bp_npy *npy, uint64_t index, double *number) BP_MUST_CHECK;

/* The labels of an array. Must not be moved once it is open. */
typedef struct bp_npy_labels {
    bp_npy npy;
    bp_data_reader reader;
    bool open;
    char path[BP_STORE_PATH_MAX];
    unsigned char window[BP_NPY_WINDOW];
} bp_npy_labels;

/* Opens the file of labels of the array at `path` and reads its head; with rows not 0 it has that
 * many. bp_npy_labels_close closes it, also after an error. */
bp_status bp_npy_labels_open(bp_npy_labels *labels, const bp_data_reader *array, const char *path,
                             uint64_t rows) BP_MUST_CHECK;
void bp_npy_labels_close(bp_npy_labels *labels);

/* Adds what the labels' file holds to a key. */
bp_status bp_npy_labels_key(const bp_data_reader *array, const char *path,
                            bp_digest *key) BP_MUST_CHECK;

#endif
