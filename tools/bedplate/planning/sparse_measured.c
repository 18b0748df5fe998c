/* SPDX-License-Identifier: MIT */
/* Contributions out of a checkpoint's second moments. */
#include "tools/bedplate/planning/sparse_measured.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"

#define HEADER_MOST ((size_t)16 << 20) /* for the tables of a file */
#define PIECE       1024               /* elements that are read at a time */

bp_status sparse_measured_open(sparse_measured *m, bp_store *store, const char *checkpoint,
                               bp_error *error)
{
    *m = (sparse_measured){.scratch = malloc(HEADER_MOST)};
    if (m->scratch == NULL) {
        return bp_error_set(error, BP_ERR_FIT, "contributions", "the memory is not there",
                            checkpoint);
    }
    BP_TRY(bp_storage_join(m->path, checkpoint, "state.safetensors", error));
    BP_TRY(bp_safetensors_open(&m->file, store, m->path, m->scratch, HEADER_MOST, error));
    m->open = true;
    return BP_OK;
}

bp_status sparse_measured_rows(sparse_measured *m, const char *name, uint64_t rows, uint64_t width,
                               double *sums, bp_error *error)
{
    float piece[PIECE];
    char state[BP_TENSOR_NAME_MAX] = "";
    const size_t length = strlen(name);
    if (length + sizeof ".exp_avg_sq" <= sizeof state) {
        memcpy(state, name, length);
        memcpy(state + length, ".exp_avg_sq", sizeof ".exp_avg_sq");
    }
    const bp_tensor_entry *entry = bp_safetensors_find(&m->file, state);
    if (entry == NULL || entry->dtype != BP_F32 || entry->bytes / sizeof(float) != rows * width) {
        return bp_error_set(error, BP_ERR_DATA, m->path,
                            "the checkpoint has no second moments of this tensor in fp32, which a "
                            "run with --optim adamw that trains it leaves",
                            name);
    }
    for (uint64_t row = 0; row < rows; row++) {
        sums[row] = 0.0;
        for (uint64_t at = 0; at < width; at += PIECE) {
            const uint64_t count = width - at < PIECE ? width - at : PIECE;
            BP_TRY(bp_safetensors_read(&m->file, entry, (row * width + at) * sizeof(float), piece,
                                       (size_t)count * sizeof(float)));
            for (uint64_t i = 0; i < count; i++) {
                sums[row] += (double)piece[i];
            }
        }
    }
    return BP_OK;
}

uint64_t sparse_measured_window(const double *sums, uint64_t rows, uint64_t count)
{
    uint64_t best = 0;
    double most = -1.0;
    for (uint64_t first = 0; first + count <= rows; first++) {
        double sum = 0.0;
        for (uint64_t i = 0; i < count; i++) {
            sum += sums[first + i];
        }
        best = sum > most ? first : best;
        most = sum > most ? sum : most;
    }
    return best;
}

void sparse_measured_close(sparse_measured *m)
{
    const bp_status closed = m->open ? bp_safetensors_close(&m->file) : BP_OK;
    (void)closed; /* it was only read */
    free(m->scratch);
    *m = (sparse_measured){.scratch = NULL};
}
