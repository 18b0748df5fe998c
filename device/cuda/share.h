/* SPDX-License-Identifier: MIT */
/* This process's share of a GPU's memory, from the driver's management library when it is there. */
#ifndef BP_DEVICE_CUDA_SHARE_H
#define BP_DEVICE_CUDA_SHARE_H

#include "device/cuda/driver.h"

/* Bytes that this process uses on the GPU of that UUID, as libnvidia-ml.so.1 counts them: arena,
 * context and module code together. 0 when unknown: no such library, a container that hides
 * process numbers, a GPU that does not count. Loads the library and unloads it again. */
uint64_t bp_cuda_share(const bp_cu_uuid *uuid);

#endif
