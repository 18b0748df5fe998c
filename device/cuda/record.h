/* SPDX-License-Identifier: MIT */
/* What a linked program is for a GPU: a list of records, each with everything decided and with a
 * tag that says what it is. They are made one by one on the stream, or once while it is captured
 * as a graph. */
#ifndef BP_DEVICE_CUDA_RECORD_H
#define BP_DEVICE_CUDA_RECORD_H

#include "device/cuda/driver.h"
#include "device/cuda/launch.h"

/* Bytes that the parameters of one launch may have. Those of one op together are planned for as
 * much: an op of several launches has no structures by value. */
#define CUDA_PARAMETERS_BYTES (BP_CUDA_LAUNCHES_MAX * BP_CUDA_PARAMETERS_MAX * sizeof(uint64_t))

typedef enum cuda_record_kind {
    CUDA_RECORD_KERNEL,
    CUDA_RECORD_SET,     /* 32-bit words of one value */
    CUDA_RECORD_UNDEFINE /* bytes lose their meaning: only an instrument can do it */
} cuda_record_kind;

typedef struct cuda_record_kernel {
    bp_cu_function function;
    const void *parameters; /* as the kernel takes them */
    uint32_t parameter_bytes;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    uint8_t cluster[3];
    uint8_t index; /* which of the op's launches, to say what it may touch */
} cuda_record_kernel;

typedef struct cuda_record_set {
    bp_cu_address to;
    uint64_t count; /* words; bytes of CUDA_RECORD_UNDEFINE */
    uint32_t value;
} cuda_record_set;

typedef struct cuda_record {
    uint8_t kind;           /* cuda_record_kind */
    const bp_linked_op *op; /* that it belongs to; NULL: none, and nothing is said of operands */
    union {
        cuda_record_kernel kernel;
        cuda_record_set set;
    } as;
} cuda_record;

#endif
