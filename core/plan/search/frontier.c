/* SPDX-License-Identifier: MIT */
/* The fit's curve and its largest micro-batch, each in memory that is given back at once. */
#include "core/plan/search/frontier.h"

#define FRONTIER_CHUNK_LEAST 64
#define FRONTIER_BATCH_MOST  65536u

/* The request with its shapes given: only policies are searched. */
static bp_fit_request frontier_given(const bp_fit_request *request)
{
    bp_fit_request given = *request;
    given.free_batch = false;
    given.free_chunk = false;
    given.free_sequence_chunk = false;
    return given;
}

bp_status bp_frontier_find(bp_frontier *f, const bp_fit_request *request, const bp_lender *memory,
                           bp_error *error)
{
    void *at = NULL;
    uint64_t bytes = 0;
    bp_fit_request free = frontier_given(request);
    free.free_policy = true;
    f->count = BP_FRONTIER_POINTS;
    BP_TRY(bp_choice_lend(&free, memory, &at, &bytes, error));
    bp_status status = bp_fit_curve(&free, at, bytes, f->point, &f->count, error);
    if (status == BP_OK) {
        status = bp_fit_gains(&free, at, bytes, f->gain, BP_FRONTIER_GAINS, error);
    }
    memory->give_back(memory->user, at, bytes);
    return status;
}

/* No more sequences than could have their embeddings in the budget, nor than ids can be counted. */
static uint32_t frontier_most_batch(const bp_fit_request *request, uint32_t width)
{
    const bp_spec *spec = &request->spec;
    const uint64_t row = (uint64_t)(width > 0 ? width : 1) * sizeof(float);
    uint64_t most = request->budget / (row * spec->sequence) + 1;
    const uint64_t counted = INT32_MAX / ((uint64_t)spec->sequence * spec->accumulation);
    most = most < counted ? most : counted;
    most = most < FRONTIER_BATCH_MOST ? most : FRONTIER_BATCH_MOST;
    const uint32_t least = bp_fit_least_batch(spec);
    return most < least ? least : (uint32_t)most - (uint32_t)most % bp_fit_example(spec);
}

bp_status bp_frontier_largest_batch(const bp_fit_request *request, uint32_t width,
                                    const bp_lender *memory, uint32_t *batch, bp_error *error)
{
    void *at = NULL;
    uint64_t bytes = 0;
    bp_fit_request given = frontier_given(request);
    BP_TRY(bp_spec_check(&request->spec, error));
    const uint32_t most = frontier_most_batch(request, width);
    given.spec.batch = most;
    given.spec.device_options.dequantizes = false; /* a budget takes it back (bp_choice_run) */
    if (request->free_chunk) {
        const uint64_t rows = (uint64_t)most * given.spec.sequence;
        given.spec.loss_rows = rows < FRONTIER_CHUNK_LEAST ? (uint32_t)rows : FRONTIER_CHUNK_LEAST;
    }
    BP_TRY(bp_choice_lend(&given, memory, &at, &bytes, error));
    const bp_status status = bp_fit_largest_batch(&given, most, at, bytes, batch, error);
    memory->give_back(memory->user, at, bytes);
    return status;
}
