/* SPDX-License-Identifier: MIT */
/* Sums over words where they lie: a launch of its own beside the programs, whose blocks leave their
 * parts in pinned memory. */
#include "core/base/digest.h"
#include "device/cuda/context.h"
#include "device/cuda/ptx_table.h"

#define WORDS_BLOCKS_MOST 1024
#define WORDS_PER_BLOCK   4096 /* as few as a block is worth */
#define WORDS_THREADS     256  /* of a block: BP_RUN_THREADS of the kernel */
#define WORDS_READ        4096 /* bytes that are read at once without the kernel */

/* bp_word_sum's parameters, in the kernel's order. */
typedef struct words_parameters {
    uint64_t at;
    uint64_t bytes;
    uint64_t from;
    uint64_t partial;
} words_parameters;

bp_status cuda_words_begin(cuda_context *context)
{
    const uint16_t module = bp_cuda_module_choose(&context->target, BP_CUDA_FAMILY_words, BP_F32);
    const bp_cuda_launch launch = {
        .module = module, .function = BP_CUDA_FUNCTION_word_sum, .cluster = {1, 1, 1}};
    if (module == BP_CUDA_NO_MODULE || context->modules[module] == NULL) {
        return BP_OK; /* no program that decides a step: nothing is compared */
    }
    return cuda_function_find(context, &launch, sizeof(words_parameters), &context->word_sum);
}

/* Of a context without the kernel: the bytes come to the host. */
static bp_status words_read(cuda_context *context, uint64_t place, uint64_t bytes, uint64_t from,
                            uint64_t *sum)
{
    uint32_t words[WORDS_READ / sizeof(uint32_t)];
    for (uint64_t done = 0; done < bytes; done += WORDS_READ) {
        const size_t piece = bytes - done < WORDS_READ ? (size_t)(bytes - done) : WORDS_READ;
        BP_TRY(cuda_download(context, place + done, words, piece));
        *sum += bp_word_sum(words, piece, from + done / sizeof(uint32_t));
    }
    return BP_OK;
}

bp_status cuda_word_sum(void *memory, uint64_t place, uint64_t bytes, uint64_t from, uint64_t *sum)
{
    cuda_context *context = memory;
    const bp_cu_address at = cuda_address(context, place, bytes);
    const uint64_t wanted = bp_size_ceil_div(bytes, WORDS_PER_BLOCK * sizeof(uint32_t));
    const uint32_t blocks = wanted < WORDS_BLOCKS_MOST ? (uint32_t)wanted : WORDS_BLOCKS_MOST;
    uint64_t *partial = (uint64_t *)(void *)(context->staging + CUDA_SLOTS * CUDA_SLOT_BYTES);
    const words_parameters parameters = {at, bytes, from, (uint64_t)(uintptr_t)partial};
    const cuda_record record = {.kind = CUDA_RECORD_KERNEL,
                                .as.kernel = {.function = context->word_sum,
                                              .grid = {blocks, 1, 1},
                                              .block = {WORDS_THREADS, 1, 1},
                                              .cluster = {1, 1, 1},
                                              .parameters = &parameters,
                                              .parameter_bytes = sizeof parameters}};
    *sum = 0;
    if (at == 0) {
        return BP_ERR_USAGE;
    }
    if (context->word_sum == NULL || bytes == 0) {
        return words_read(context, place, bytes, from, sum);
    }
    BP_TRY(cuda_enter(context));
    BP_TRY(cuda_record_make(context, &record));
    CUDA_TRY(context, cuStreamSynchronize, context->work);
    for (uint32_t i = 0; i < blocks; i++) {
        *sum += partial[i];
    }
    return cuda_calls_ended(context);
}
