/* SPDX-License-Identifier: MIT */
/* The CUDA device: linked programs on an NVIDIA GPU through the driver alone.
 *
 * One arena from one allocation (one mapped segment where a fabric reaches into it), one block of
 * pinned memory for staging, one stream for work and one for copies; kernels are PTX that the
 * driver compiles when a program that names them is linked. Each program is recorded once as a
 * graph and replayed; with the variant "plain" its launches are made one by one instead, with the
 * same results to the bit.
 *
 * All calls of one context are made by one thread at a time. After a failure the context does
 * nothing more: every call but close answers BP_ERR_DEVICE without touching the driver. */
#ifndef BP_DEVICE_CUDA_CUDA_H
#define BP_DEVICE_CUDA_CUDA_H

#include "core/ir/device.h"
#include "device/devices.h"
#include "device/registry.h"

/* Why a GPU does not take an arena: found and wanted bytes go with it. */
#define BP_CUDA_NO_ROOM "the GPU's free memory, in bytes, is smaller than the arena"

/* What the driver wrote about PTX that it could not compile; "" when there was nothing. Valid as
 * long as the context, after close and after a failed link too. */
const char *bp_cuda_log(const void *context);

/* Asks the driver for free_now, with_share its management library for share (which takes tens of
 * milliseconds and allocates), and tells what was noted before. */
bp_status bp_cuda_memory_read(void *context, bool with_share,
                              bp_device_memory *memory) BP_MUST_CHECK;

#endif
