/* SPDX-License-Identifier: MIT */
/* Not a program: compiling it proves that device/fabric declares NCCL's types, numbers and
 * parameters as nccl.h does. tests/unit/device/cuda/test_nccl.c compiles it where there is an
 * nccl.h, as it is, and once with MISTAKE defined, which has to fail. */
#include <nccl.h>
#include <stddef.h>

#include "device/fabric/nccl_library.h"

#define SAME(own, theirs) _Static_assert((own) == (theirs), #theirs)
#define FIELD(own, theirs)                                                                         \
    SAME(offsetof(bp_nccl_config, own), offsetof(ncclConfig_t, theirs));                           \
    SAME(sizeof((bp_nccl_config *)0)->own, sizeof((ncclConfig_t *)0)->theirs)

SAME(sizeof(bp_nccl_id), sizeof(ncclUniqueId));
FIELD(size, size);
FIELD(magic, magic);
FIELD(version, version);
FIELD(blocking, blocking);
FIELD(cga_cluster_size, cgaClusterSize);
FIELD(min_blocks, minCTAs);
FIELD(max_blocks, maxCTAs);
FIELD(net_name, netName);
FIELD(split_share, splitShare);
FIELD(traffic_class, trafficClass);
FIELD(comm_name, commName);
FIELD(collnet_enable, collnetEnable);
FIELD(block_policy, CTAPolicy);
FIELD(shrink_share, shrinkShare);
FIELD(nvls_blocks, nvlsCTAs);
FIELD(channels_per_net_peer, nChannelsPerNetPeer);
FIELD(nvlink_centric, nvlinkCentricSched);
SAME(BP_NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
SAME(BP_NCCL_NO_BLOCKS, NCCL_CTA_POLICY_ZERO);
SAME(BP_NCCL_SYMMETRIC, NCCL_WIN_COLL_SYMMETRIC);
SAME(BP_NCCL_SUCCESS, ncclSuccess);
SAME(BP_NCCL_CUDA, ncclUnhandledCudaError);
SAME(BP_NCCL_ARGUMENT, ncclInvalidArgument);
SAME(BP_NCCL_USAGE, ncclInvalidUsage);
SAME(BP_NCCL_IN_PROGRESS, ncclInProgress);
#ifdef MISTAKE
SAME(BP_NCCL_UINT8, ncclFloat);
#else
SAME(BP_NCCL_UINT8, ncclUint8);
#endif

/* From here on the names of device/fabric mean nccl.h's types: each entry takes what it is declared
 * to take. Numbers and enumerations go into each other, and a stream is a pointer. */
#define bp_nccl_id     ncclUniqueId
#define bp_nccl_comm   ncclComm_t
#define bp_nccl_window ncclWindow_t
#define bp_nccl_config ncclConfig_t

typedef struct own_table {
#define ENTRY(result, name, parameters)    result(*own_##name) parameters;
#define OPTIONAL(result, name, parameters) result(*own_##name) parameters;
#include "device/fabric/nccl_entries.def"
} own_table;

#define EQUAL(name, ...)                                                                           \
    do {                                                                                           \
        (void)own->own_##name(__VA_ARGS__);                                                        \
        (void)name(__VA_ARGS__);                                                                   \
    } while (0)

void check(const own_table *own, ncclComm_t comm, ncclUniqueId id, ncclConfig_t *config, void *at,
           size_t count, int number);

void check(const own_table *own, ncclComm_t comm, ncclUniqueId id, ncclConfig_t *config, void *at,
           size_t count, int number)
{
    ncclWindow_t window = NULL;
    ncclResult_t result = ncclSuccess;
    EQUAL(ncclGetVersion, &number);
    EQUAL(ncclGetUniqueId, &id);
    EQUAL(ncclGetErrorString, result);
    EQUAL(ncclGetLastError, comm);
    EQUAL(ncclCommInitRankConfig, &comm, number, id, number, config);
    (void)own->own_ncclCommGetAsyncError(comm, (int *)&result);
    (void)ncclCommGetAsyncError(comm, &result);
    EQUAL(ncclCommFinalize, comm);
    EQUAL(ncclCommDestroy, comm);
    EQUAL(ncclCommAbort, comm);
    (void)own->own_ncclGroupStart();
    (void)own->own_ncclGroupEnd();
    EQUAL(ncclSend, at, count, ncclUint8, number, comm, at);
    EQUAL(ncclRecv, at, count, ncclUint8, number, comm, at);
    EQUAL(ncclAllGather, at, at, count, ncclUint8, comm, at);
    EQUAL(ncclBroadcast, at, at, count, ncclUint8, number, comm, at);
    EQUAL(ncclAlltoAll, at, at, count, ncclUint8, comm, at);
    EQUAL(ncclCommWindowRegister, comm, at, count, &window, number);
    EQUAL(ncclCommWindowDeregister, comm, window);
}
