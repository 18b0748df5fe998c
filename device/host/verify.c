/* SPDX-License-Identifier: MIT */
/* Ops that are checked while they run: products by the sums of matmul_check.h, attention by being
 * computed once more. */
#include "device/host/verify.h"

#include "device/host/device_private.h"
#include "device/host/isa_table.h"
#include "device/host/matmul/matmul_check.h"
#include "device/host/word_sum.h"

#define LEVELS      (sizeof((bp_checked *)0)->level / sizeof(float))
#define LEVEL_LEAST 4.0f    /* units of rounding; what is seen is mostly below 1 */
#define LEVEL_MOST  4096.0f /* whatever a flipped bit has made of one */
#define OTHER_FORM  8       /* attentions to each that is computed again in another form */

uint64_t bp_host_verify_bytes(const bp_device_options *options, bp_kernel kernel,
                              const void *scalars)
{
    if (options->verify == NULL ||
        (kernel != BP_KERNEL_matmul && kernel != BP_KERNEL_matmul_quantised)) {
        return 0;
    }
    const uint64_t threads = options->threads == 0 ? 1 : options->threads;
    return bp_size_mul(threads, bp_matmul_check_bytes(kernel, scalars));
}

/* Products of one kind have a level in common: their sizes, and how their operands lie. */
static float *level_of(bp_checked *verify, const host_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe((bp_kernel)op->number);
    const int64_t *scalars = op->tuples[0].scalars;
    uint64_t key = op->number;
    for (uint32_t i = 0; i < info->scalar_count; i++) {
        key = (key ^ (uint64_t)scalars[i]) * UINT64_C(0x9e3779b97f4a7c15);
        key ^= key >> 29;
    }
    return &verify->level[key % LEVELS];
}

static float level_within(float level)
{
    return !(level > LEVEL_LEAST) ? LEVEL_LEAST : level < LEVEL_MOST ? level : LEVEL_MOST;
}

/* Where a product's workspace is. */
static char *workspace_of_product(const host_op *op)
{
    if (op->number == BP_KERNEL_matmul_quantised) {
        return ((const bp_matmul_quantised_pointers *)op->tuples[0].pointers)->work;
    }
    return ((const bp_matmul_pointers *)op->tuples[0].pointers)->work;
}

static void verify_product(host_context *context, const host_op *op)
{
    bp_checked *verify = context->verify;
    const host_tuple *tuple = &op->tuples[0];
    const bp_device_options options = {.threads = context->pool.threads};
    const uint64_t first =
        bp_host_device_widest(&options, (bp_kernel)op->number, tuple->scalars, tuple->dtypes);
    float *level = level_of(verify, op);
    const bp_host_check check = {.key = verify->ops,
                                 .level = level_within(*level),
                                 .memory = workspace_of_product(op) + first,
                                 .bytes =
                                     bp_matmul_check_bytes((bp_kernel)op->number, tuple->scalars)};
    for (uint32_t i = 0; i < context->pool.threads; i++) {
        *(bp_host_check_found *)(void *)((char *)check.memory + i * check.bytes) =
            (bp_host_check_found){.columns = 0};
    }
    bp_host_device_compute(context, op, &(host_how){.form = context->now, .check = &check});
    for (uint32_t i = 0; i < context->pool.threads; i++) {
        const bp_host_check_found *found =
            (const void *)((const char *)check.memory + i * check.bytes);
        verify->columns += found->columns;
        verify->repaired += found->wrong;
        verify->own += found->own;
        verify->damaged = verify->damaged || found->damaged != 0;
        verify->kernel = found->wrong != 0 || found->damaged != 0 ? op->number : verify->kernel;
        *level = found->level > *level ? level_within(found->level) : *level;
    }
}

/* A number for all that an attention writes. */
static uint64_t written(host_context *context, const host_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe((bp_kernel)op->number);
    const host_tuple *tuple = &op->tuples[0];
    void *const *pointers = tuple->pointers;
    bp_extent extents[BP_OPERANDS_MAX];
    uint64_t sum = 0;
    info->extents(tuple->scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        const bp_operand_info *operand = &info->operand[i];
        if (pointers[i] != NULL && !operand->workspace && extents[i].access != BP_ACCESS_READ) {
            const size_t element =
                bp_operand_element_bytes(operand->type, (bp_dtype)tuple->dtypes[i]);
            sum += bp_host_word_sum(&context->pool, bp_host_isa_words(context->form), pointers[i],
                                    bp_extent_bytes(&extents[i], element), (uint64_t)i << 40);
        }
    }
    return sum;
}

/* Twice, the second time with tasks cut otherwise, now and then in another form; if the two differ
 * a third time decides, then in a third form. */
static void verify_attention(host_context *context, const host_op *op)
{
    bp_checked *verify = context->verify;
    /* Mixed, so that no layer of a model whose ops are a multiple is left out. */
    const bool moved = (verify->ops * UINT64_C(0x9e3779b97f4a7c15) >> 32) % OTHER_FORM == 0;
    const uint32_t other = bp_host_isa_other(context->form, 1);
    const uint32_t third_form = moved ? bp_host_isa_other(context->form, 2) : context->now;
    const host_how how[2] = {{.form = third_form, .turn = true},
                             {.form = moved ? other : context->now, .turn = true}};
    bp_host_device_compute(context, op, &(host_how){.form = context->now});
    const uint64_t first = written(context, op);
    bp_host_device_compute(context, op, &how[1]);
    const uint64_t second = written(context, op);
    if (first == second) {
        return;
    }
    bp_host_device_compute(context, op, &how[0]);
    const uint64_t third = written(context, op);
    verify->kernel = op->number;
    verify->damaged = verify->damaged || (third != first && third != second);
    verify->repaired += third == second ? 1 : 0;
    verify->own += third == first ? 1 : 0;
}

static bool is_attention(const host_op *op)
{
    return op->number == BP_KERNEL_attention_forward ||
           op->number == BP_KERNEL_attention_backward ||
           op->number == BP_KERNEL_attention_packed_forward ||
           op->number == BP_KERNEL_attention_packed_backward ||
           op->number == BP_KERNEL_attention_cross_forward ||
           op->number == BP_KERNEL_attention_cross_backward ||
           op->number == BP_KERNEL_attention_biased_forward ||
           op->number == BP_KERNEL_attention_biased_backward ||
           op->number == BP_KERNEL_attention_disentangled_forward ||
           op->number == BP_KERNEL_attention_disentangled_backward;
}

static bool is_product(const host_op *op)
{
    return (op->number == BP_KERNEL_matmul || op->number == BP_KERNEL_matmul_quantised) &&
           op->tuples[0].end > 0;
}

bp_status bp_host_verify(host_context *context, const host_op *op)
{
    bp_checked *verify = context->verify;
    if (op->count != 1 || !(is_product(op) || is_attention(op))) {
        bp_host_device_compute(context, op, &(host_how){.form = context->now});
        return BP_OK;
    }
    verify->ops++;
    if (is_product(op)) {
        verify_product(context, op);
    } else {
        verify_attention(context, op);
    }
    if (!verify->damaged) {
        return BP_OK;
    }
    return bp_error_set(context->error, BP_ERR_DEVICE, "verify",
                        "its result was wrong, and computing it again did not settle it",
                        bp_kernel_describe((bp_kernel)verify->kernel)->name);
}
