/* SPDX-License-Identifier: MIT */
/* Launches of windows over images and of batch normalisation. */
#include "device/cuda/plan.h"
#include "device/cuda/kernels/parameters.h"

#define RUN_THREADS 256 /* an element each */
#define COLUMNS     8   /* of a block that sums over rows, */
#define GROUPS      32  /* of which it has so many groups */

static void plan_window_scalars(bp_cuda_plan *plan)
{
    const bp_patches_scalars *s = plan->op->scalars; /* all rows of windows begin with these */
    const bp_window_parameters p = {
        (uint64_t)s->batch,         (uint64_t)s->height,        (uint64_t)s->width,
        (uint64_t)s->channels,      (uint64_t)s->pitch,         (uint64_t)s->out_height,
        (uint64_t)s->out_width,     (uint64_t)s->kernel_height, (uint64_t)s->kernel_width,
        (uint64_t)s->stride_height, (uint64_t)s->stride_width,  (uint64_t)s->top,
        (uint64_t)s->left,          (uint64_t)s->dilation};
    bp_cuda_value_of(plan, &p, sizeof p, sizeof(uint64_t));
}

/* The rest of a row: its operands, of which the first `outputs` are written, and the window. */
static bool plan_window(bp_cuda_plan *plan, uint32_t function, uint64_t blocks, uint32_t outputs,
                        bool adds)
{
    const uint32_t operands = bp_kernel_describe(plan->op->kernel)->operand_count;
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_images, function, blocks, 1, RUN_THREADS)) {
        return false;
    }
    for (uint32_t i = 0; i < operands; i++) {
        const bp_access written = adds ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE;
        bp_cuda_operand(plan, i, i < outputs ? written : BP_ACCESS_READ);
    }
    plan_window_scalars(plan);
    return true;
}

static uint64_t blocks_of(uint64_t elements)
{
    return bp_size_ceil_div(elements, RUN_THREADS);
}

static uint64_t window_elements(const bp_patches_scalars *s)
{
    const uint64_t windows =
        bp_size_mul((uint64_t)s->batch * (uint64_t)s->out_height, (uint64_t)s->out_width);
    return bp_size_mul(windows, (uint64_t)s->channels);
}

static uint64_t image_elements(const bp_patches_scalars *s)
{
    const uint64_t regions =
        bp_size_mul((uint64_t)s->batch * (uint64_t)s->height, (uint64_t)s->width);
    return bp_size_mul(regions, (uint64_t)s->channels);
}

static uint64_t window_positions(const bp_patches_scalars *s)
{
    return bp_size_mul((uint64_t)s->kernel_height, (uint64_t)s->kernel_width);
}

bool bp_cuda_plan_patches(bp_cuda_plan *plan)
{
    const bp_patches_scalars *s = plan->op->scalars;
    if (plan->op->kernel == BP_KERNEL_patches) {
        (void)plan_window(plan, BP_CUDA_FUNCTION_patches,
                          blocks_of(bp_size_mul(window_elements(s), window_positions(s))), 1,
                          false);
    } else {
        const bp_patches_backward_scalars *own = plan->op->scalars;
        if (plan_window(plan, BP_CUDA_FUNCTION_patches_backward, blocks_of(image_elements(s)), 1,
                        own->accumulate != 0)) {
            bp_cuda_word32(plan, own->accumulate != 0);
        }
    }
    return true;
}

bool bp_cuda_plan_depthwise(bp_cuda_plan *plan)
{
    const bp_patches_scalars *s = plan->op->scalars;
    const bp_depthwise_backward_weight_scalars *own = plan->op->scalars;
    if (plan->op->kernel == BP_KERNEL_depthwise) {
        (void)plan_window(plan, BP_CUDA_FUNCTION_depthwise, blocks_of(window_elements(s)), 1,
                          false);
    } else if (plan->op->kernel == BP_KERNEL_depthwise_backward_input) {
        (void)plan_window(plan, BP_CUDA_FUNCTION_depthwise_backward_input,
                          blocks_of(image_elements(s)), 1, false);
    } else if (plan_window(plan, BP_CUDA_FUNCTION_depthwise_backward_weight,
                           bp_size_mul((uint64_t)s->channels, window_positions(s)), 1,
                           own->accumulate != 0)) {
        bp_cuda_word32(plan, own->accumulate != 0);
        bp_cuda_word32(plan, bp_cuda_width_of(plan, 0, 0, 0));
    }
    return true;
}

bool bp_cuda_plan_window(bp_cuda_plan *plan)
{
    const bp_patches_scalars *s = plan->op->scalars;
    const bp_window_mean_scalars *mean = plan->op->scalars; /* both means have the same */
    const uint64_t windows = blocks_of(window_elements(s)), image = blocks_of(image_elements(s));
    if (plan->op->kernel == BP_KERNEL_window_max) {
        (void)plan_window(plan, BP_CUDA_FUNCTION_window_max, windows, 2, false);
    } else if (plan->op->kernel == BP_KERNEL_window_max_backward) {
        (void)plan_window(plan, BP_CUDA_FUNCTION_window_max_backward, image, 1, false);
    } else {
        const bool forward = plan->op->kernel == BP_KERNEL_window_mean;
        if (plan_window(plan,
                        forward ? BP_CUDA_FUNCTION_window_mean
                                : BP_CUDA_FUNCTION_window_mean_backward,
                        forward ? windows : image, 1, false)) {
            bp_cuda_word32(plan, mean->inside != 0);
        }
    }
    return true;
}

/* A block's columns of a sum over rows, or elements; then all operands, the first ones written, and
 * the sizes that these rows begin with. */
static bool plan_norm(bp_cuda_plan *plan, uint32_t function, bool sums, uint64_t elements,
                      uint32_t outputs)
{
    const bp_batchnorm_statistics_scalars *s = plan->op->scalars;
    const uint32_t operands = bp_kernel_describe(plan->op->kernel)->operand_count;
    const uint64_t blocks = sums ? bp_cuda_cut(s->width, COLUMNS) : blocks_of(elements);
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_images, function, blocks, 1,
                       sums ? COLUMNS : RUN_THREADS)) {
        return false;
    }
    if (sums) {
        plan->launch[plan->count - 1].block[1] = GROUPS;
    }
    const bool changes = plan->op->kernel == BP_KERNEL_batchnorm_running;
    for (uint32_t i = 0; i < operands; i++) {
        const bp_access written = changes ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE;
        bp_cuda_operand(plan, i, i < outputs ? written : BP_ACCESS_READ);
    }
    bp_cuda_word64(plan, (uint64_t)s->batch);
    bp_cuda_word64(plan, (uint64_t)s->sequence);
    bp_cuda_word64(plan, (uint64_t)s->width);
    return true;
}

static void plan_norm_forward(bp_cuda_plan *plan)
{
    const bp_batchnorm_forward_scalars *s = plan->op->scalars;
    const uint64_t elements = bp_size_mul((uint64_t)s->rows, (uint64_t)s->width);
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_images, BP_CUDA_FUNCTION_batchnorm_forward,
                      blocks_of(elements), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, batchnorm_forward, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, batchnorm_forward, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, batchnorm_forward, mean, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, batchnorm_forward, variance, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, batchnorm_forward, weight, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, batchnorm_forward, bias, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_single(plan, (float)s->epsilon);
    }
}

static void plan_norm_backward(bp_cuda_plan *plan)
{
    const bp_batchnorm_backward_scalars *s = plan->op->scalars;
    const uint64_t rows = bp_size_mul((uint64_t)s->batch, (uint64_t)s->sequence);
    if (plan_norm(plan, BP_CUDA_FUNCTION_batchnorm_backward, false,
                  bp_size_mul(rows, (uint64_t)s->width), 1)) {
        bp_cuda_single(plan, (float)s->epsilon);
        bp_cuda_word32(plan, s->frozen != 0);
    }
}

bool bp_cuda_plan_batchnorm(bp_cuda_plan *plan)
{
    const bp_batchnorm_running_scalars *running = plan->op->scalars;
    const bp_batchnorm_sums_scalars *sums = plan->op->scalars;
    if (plan->op->kernel == BP_KERNEL_batchnorm_statistics) {
        (void)plan_norm(plan, BP_CUDA_FUNCTION_batchnorm_statistics, true, 0, 2);
    } else if (plan->op->kernel == BP_KERNEL_batchnorm_forward) {
        plan_norm_forward(plan);
    } else if (plan->op->kernel == BP_KERNEL_batchnorm_backward) {
        plan_norm_backward(plan);
    } else if (plan->op->kernel == BP_KERNEL_batchnorm_sums) {
        if (plan_norm(plan, BP_CUDA_FUNCTION_batchnorm_sums, true, 0, 2)) {
            bp_cuda_single(plan, (float)sums->epsilon);
        }
    } else if (plan_norm(plan, BP_CUDA_FUNCTION_batchnorm_running, false, (uint64_t)running->width,
                         3)) {
        bp_cuda_single(plan, (float)running->momentum);
    }
    return true;
}
