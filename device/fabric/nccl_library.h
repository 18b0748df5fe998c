/* SPDX-License-Identifier: MIT */
/* NCCL as a table of functions, found by name in libnccl.so.2 when GPUs of several ranks are to be
 * joined: nothing of it is needed to build, and a run that asks for none loads none.
 *
 * The types are this project's own; tests/gpu/nccl.c compares them with nccl.h. */
#ifndef BP_DEVICE_FABRIC_NCCL_LIBRARY_H
#define BP_DEVICE_FABRIC_NCCL_LIBRARY_H

#include "core/base/error.h"

typedef struct bp_nccl_comm_object *bp_nccl_comm;
typedef struct bp_nccl_window_object *bp_nccl_window;

/* ncclUniqueId: passed by value. */
typedef struct bp_nccl_id {
    char bytes[128];
} bp_nccl_id;

/* ncclConfig_t as of 2.28: older libraries read the beginning of it that they know, by `size` of
 * their own and by `version`. What is not set is BP_NCCL_UNSET, or NULL. */
typedef struct bp_nccl_config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int cga_cluster_size;
    int min_blocks; /* of a kernel of NCCL's */
    int max_blocks;
    const char *net_name;
    int split_share;
    int traffic_class;
    const char *comm_name;
    int collnet_enable;
    int block_policy;
    int shrink_share;
    int nvls_blocks;
    int channels_per_net_peer;
    int nvlink_centric;
} bp_nccl_config;

#define BP_NCCL_MAGIC          0xcafebeefu
#define BP_NCCL_UNSET          INT32_MIN
#define BP_NCCL_CONFIG_VERSION 22800
#define BP_NCCL_LEAST          21800 /* 2.18: 10000 times the first number, 100 times the second */
#define BP_NCCL_NO_BLOCKS      2     /* a policy: copy engines wherever they can do it */
#define BP_NCCL_SYMMETRIC      1     /* a window: at the same places in all ranks */
/* ncclResult_t and ncclDataType_t */
#define BP_NCCL_SUCCESS     0
#define BP_NCCL_CUDA        1
#define BP_NCCL_ARGUMENT    4
#define BP_NCCL_USAGE       5
#define BP_NCCL_IN_PROGRESS 7
#define BP_NCCL_UINT8       1

/* An optional entry is NULL where the library has it not. */
typedef struct bp_nccl_library {
    int version;
#define ENTRY(result, name, parameters)    result(*name) parameters;
#define OPTIONAL(result, name, parameters) result(*name) parameters;
#include "device/fabric/nccl_entries.def"
} bp_nccl_library;

/* Loads libnccl.so.2 with the system's loader (LD_LIBRARY_PATH counts), which stays loaded, and
 * keeps this thread's arithmetic as it was. BP_ERR_DEVICE: there is none, or it is older than
 * BP_NCCL_LEAST. */
bp_status bp_nccl_library_load(bp_nccl_library *library, bp_error *error) BP_MUST_CHECK;

#endif
