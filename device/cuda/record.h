/* SPDX-License-Identifier: MIT */
/* What a linked program is for a GPU: a list of launch records, each with everything decided and
 * with a tag that says what it is. They are made one by one on the stream, or once while it is
 * captured as a graph. */
#ifndef BP_DEVICE_CUDA_RECORD_H
#define BP_DEVICE_CUDA_RECORD_H

#include "core/ir/device.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"

/* Bytes that the parameters of one launch may have. Those of one op together are planned for as
 * much: an op of several launches has no structures by value. */
#define CUDA_PARAMETERS_BYTES (BP_CUDA_LAUNCHES_MAX * BP_CUDA_PARAMETERS_MAX * sizeof(uint64_t))

/* Those of an engine beside the work begin when the work before them has ended; a wait holds the
 * work up until one of them has landed. */
typedef enum cuda_record_kind {
    CUDA_RECORD_KERNEL,
    CUDA_RECORD_SET,      /* 32-bit words of one value */
    CUDA_RECORD_UNDEFINE, /* bytes lose their meaning: only an instrument can do it */
    CUDA_RECORD_COPY,     /* begun beside the work */
    CUDA_RECORD_CALL,     /* of the fabric, begun beside the work */
    CUDA_RECORD_WAIT
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

typedef struct cuda_record_copy {
    bp_cu_address to;
    bp_cu_address from;
    uint64_t rows;
    uint64_t width; /* bytes of a row */
    uint64_t to_pitch;
    uint64_t from_pitch;
} cuda_record_copy;

/* Pieces go through pinned memory, `chunk` bytes of each of them at a time, where an operand is not
 * the host's. Host functions of one stream are made in order, so the next of them
 * knows by `done` what it is about. */
typedef struct cuda_record_call {
    struct cuda_context *context;
    bp_fabric_transfer transfer; /* its addresses: of the operands, whoever can reach them */
    uint64_t longest;            /* bytes of the longest piece of any rank */
    uint32_t to_pieces;
    uint32_t from_pieces;
    bool queued;    /* by the fabric itself, between GPUs */
    uint64_t chunk; /* 0: the operands are the host's, and nothing is staged */
    uint64_t done;  /* bytes of each piece */
} cuda_record_call;

typedef struct cuda_record {
    uint8_t kind;           /* cuda_record_kind */
    uint8_t engine;         /* bp_engine of what is begun or waited for */
    uint32_t request;       /* and which of them */
    const bp_linked_op *op; /* that it belongs to; NULL: none, and nothing is said of operands */
    union {
        cuda_record_kernel kernel;
        cuda_record_set set;
        cuda_record_copy copy;
        cuda_record_call *call; /* in the link's memory; it changes when it is made */
    } as;
} cuda_record;

#endif
