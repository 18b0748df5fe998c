/* SPDX-License-Identifier: MIT */
/* NCCL's communicator of one rank: made, asked, given back. */
#include "device/fabric/nccl.h"

#include <string.h>
#include <time.h>

#include "arena/text.h"

static const char where[] = "nccl";

enum {
    REQUEST = INT32_MAX, /* of calls of the fabric below: programs' requests are small */
    ASK_US = 200,        /* between two looks at a call that has not ended */
    CHECK_MS = 3000,     /* past END_MS: ranks that end well have waited for each other */
    END_MS = 2000,       /* longest wait for a communicator to end by itself */
    BLOCKS_MOST = 16,    /* of NCCL's kernels: bounds its buffers, which are per block */
    TRIAL_BYTES = 256    /* of a piece of the first calls */
};

typedef struct nccl_rank {
    const bp_nccl_library *library;
    const bp_fabric *inner;
    void *context;
    uint32_t group_count; /* with the group of all */
    bp_fabric_group groups[BP_NCCL_GROUPS_MAX];
    uint64_t patience_ms;
    bool alike;        /* calls have the same places on all ranks */
    bp_nccl_comm comm; /* NULL: not attached */
    bp_nccl_window window;
} nccl_rank;

void bp_nccl_wrap(void *context, const bp_nccl_library *library, const bp_fabric *inner,
                  void *inner_context, const bp_fabric_options *options, bool alike)
{
    nccl_rank *rank = context;
    *rank = (nccl_rank){.library = library,
                        .inner = inner,
                        .context = inner_context,
                        .group_count = options->group_count + 1,
                        .patience_ms = options->patience_ms,
                        .alike = alike};
    for (uint32_t g = 0; g < options->group_count && g + 1 < BP_NCCL_GROUPS_MAX; g++) {
        rank->groups[g + 1] = options->groups[g];
    }
}

/* ---- results ---- */

/* A rank that is gone is seen as a system's or a remote error; else this rank's NCCL or GPU is at
 * fault. */
static bp_status nccl_fail(const nccl_rank *rank, int result, const char *entry, bp_error *error)
{
    char name[BP_ERROR_NAME_MAX];
    bp_text text;
    const char *words = rank->library->ncclGetErrorString(result);
    const char *more = rank->library->ncclGetLastError(rank->comm);
    const bool device = result == BP_NCCL_CUDA || result == BP_NCCL_ARGUMENT ||
                        result == BP_NCCL_USAGE || rank->comm == NULL;
    bp_text_init(&text, NULL, NULL, name, sizeof name);
    bp_text_string(&text, words != NULL ? words : "an unknown result");
    bp_text_string(&text, " (");
    bp_text_i64(&text, result);
    bp_text_string(&text, ") from ");
    bp_text_string(&text, entry);
    if (more != NULL && more[0] != '\0') {
        bp_text_string(&text, ", ");
        bp_text_string(&text, more);
    }
    bp_status cut = bp_text_flush(&text); /* longer words are cut, which is all right */
    (void)cut;
    return bp_error_set(
        error, device ? BP_ERR_DEVICE : BP_ERR_FABRIC, where,
        "the GPUs of the ranks cannot exchange data (NCCL_DEBUG=WARN prints the reason)", name);
}

static void nccl_nap(void)
{
    const struct timespec span = {0, (long)ASK_US * 1000};
    nanosleep(&span, NULL);
}

static uint64_t nccl_now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000;
}

/* All ranks that are still there meet below; who is missing is named there, after its own time. */
static bp_status nccl_late(nccl_rank *rank, bp_error *error)
{
    uint32_t here = 1;
    const bp_fabric_transfer call = {.call = BP_FABRIC_BROADCAST,
                                     .request = REQUEST,
                                     .bytes = sizeof here,
                                     .to = &here,
                                     .from = &here};
    BP_TRY(rank->inner->begin(rank->context, &call, error));
    BP_TRY(rank->inner->wait(rank->context, REQUEST, error));
    return bp_error_set(error, BP_ERR_FABRIC, where,
                        "the GPUs did not end an exchange in time, though all ranks are there",
                        NULL);
}

/* What a call returned, once it has ended. */
static bp_status nccl_ended(nccl_rank *rank, int result, const char *entry, bp_error *error)
{
    const uint64_t began = nccl_now();
    while (result == BP_NCCL_IN_PROGRESS) {
        int asked = rank->library->ncclCommGetAsyncError(rank->comm, &result);
        result = asked != BP_NCCL_SUCCESS ? asked : result;
        if (result != BP_NCCL_IN_PROGRESS) {
            break;
        }
        BP_TRY(rank->inner->check(rank->context, error));
        if (nccl_now() - began > rank->patience_ms) {
            return nccl_late(rank, error);
        }
        nccl_nap();
    }
    return result == BP_NCCL_SUCCESS ? BP_OK : nccl_fail(rank, result, entry, error);
}

/* ---- a call ---- */

/* Ranks of a group by their numbers among all. */
static uint32_t nccl_peer(const nccl_rank *rank, uint32_t group, uint32_t member)
{
    return group == 0 ? member : rank->groups[group].ranks[member];
}

/* A call as messages of one group: those that have to overlap begin together. */
static int nccl_messages(const nccl_rank *rank, const bp_fabric_transfer *t, void *stream)
{
    const bp_nccl_library *nccl = rank->library;
    const uint32_t count = rank->inner->members(rank->context, t->group);
    const uint32_t self = rank->inner->rank(rank->context);
    const bool all = t->call != BP_FABRIC_BROADCAST;
    const bool gives = all || nccl_peer(rank, t->group, t->root) == self;
    int result = nccl->ncclGroupStart();
    for (uint32_t i = 0; i < count && result == BP_NCCL_SUCCESS; i++) {
        const uint32_t peer = nccl_peer(rank, t->group, i);
        const bp_fabric_piece out = bp_fabric_piece_for(t, i);
        const bp_fabric_piece in = bp_fabric_piece_of(t, i);
        if (gives && out.bytes > 0) {
            result = nccl->ncclSend((const unsigned char *)t->from + out.first, (size_t)out.bytes,
                                    BP_NCCL_UINT8, (int)peer, rank->comm, stream);
        }
        if (result == BP_NCCL_SUCCESS && in.bytes > 0 && (all || i == t->root)) {
            result = nccl->ncclRecv((unsigned char *)t->to + in.first, (size_t)in.bytes,
                                    BP_NCCL_UINT8, (int)peer, rank->comm, stream);
        }
    }
    const int ended = nccl->ncclGroupEnd();
    return result != BP_NCCL_SUCCESS ? result : ended;
}

static bp_status nccl_enqueue(void *context, const bp_fabric_transfer *t, void *stream,
                              bp_error *error)
{
    nccl_rank *rank = context;
    const bp_nccl_library *nccl = rank->library;
    const size_t bytes = (size_t)t->bytes;
    if (t->pieces != NULL) {
        return nccl_ended(rank, nccl_messages(rank, t, stream), "ncclGroupEnd", error);
    }
    if (bytes == 0) {
        return BP_OK;
    }
    if (t->group == 0 && t->call == BP_FABRIC_ALL_GATHER) {
        return nccl_ended(
            rank, nccl->ncclAllGather(t->from, t->to, bytes, BP_NCCL_UINT8, rank->comm, stream),
            "ncclAllGather", error);
    }
    if (t->group == 0 && t->call == BP_FABRIC_BROADCAST) {
        return nccl_ended(rank,
                          nccl->ncclBroadcast(t->from, t->to, bytes, BP_NCCL_UINT8, (int)t->root,
                                              rank->comm, stream),
                          "ncclBroadcast", error);
    }
    if (t->group == 0 && nccl->ncclAlltoAll != NULL) {
        return nccl_ended(
            rank, nccl->ncclAlltoAll(t->from, t->to, bytes, BP_NCCL_UINT8, rank->comm, stream),
            "ncclAlltoAll", error);
    }
    return nccl_ended(rank, nccl_messages(rank, t, stream), "ncclGroupEnd", error);
}

/* ---- coming and going ---- */

/* What every rank tells the others first. Rank 0's id is all ranks'. */
typedef struct nccl_hello {
    bp_nccl_id id;
    int32_t version;
    int32_t result;
} nccl_hello;

static bp_status attach_meet(nccl_rank *rank, bp_nccl_id *id, bp_error *error)
{
    nccl_hello first = {.version = rank->library->version};
    const bp_fabric_transfer call = {.call = BP_FABRIC_BROADCAST,
                                     .request = REQUEST,
                                     .bytes = sizeof first,
                                     .to = &first,
                                     .from = &first};
    if (rank->inner->rank(rank->context) == 0) {
        first.result = rank->library->ncclGetUniqueId(&first.id);
    }
    BP_TRY(rank->inner->begin(rank->context, &call, error));
    BP_TRY(rank->inner->wait(rank->context, REQUEST, error));
    if (first.result != BP_NCCL_SUCCESS) {
        return nccl_fail(rank, first.result, "ncclGetUniqueId", error);
    }
    *id = first.id;
    return first.version == rank->library->version
               ? BP_OK
               : bp_error_numbers(error, BP_ERR_DEVICE, where,
                                  "NCCL has another version than on rank 0", NULL,
                                  rank->library->version, first.version);
}

/* Peers connect at their first call, which takes memory and may not be recorded. */
static bp_status attach_try(nccl_rank *rank, void *arena, uint64_t bytes, void *stream,
                            bp_error *error)
{
    const uint64_t pieces = rank->inner->size(rank->context);
    unsigned char *to = (unsigned char *)arena + pieces * TRIAL_BYTES;
    bp_fabric_transfer call = {.bytes = TRIAL_BYTES, .to = to, .from = arena};
    if (bytes < 2 * pieces * TRIAL_BYTES) {
        return BP_OK;
    }
    for (int i = BP_FABRIC_ALL_GATHER; i <= BP_FABRIC_BROADCAST; i++) {
        call.call = (bp_fabric_call)i;
        BP_TRY(nccl_enqueue(rank, &call, stream, error));
    }
    return BP_OK;
}

/* A window is as large on all ranks, whose arenas need not be: the fewest bytes of any. What lies
 * behind them goes through NCCL's own buffers. */
static bp_status attach_least(nccl_rank *rank, uint64_t *bytes, bp_error *error)
{
    const uint64_t own = *bytes;
    for (uint32_t root = 0; root < rank->inner->size(rank->context); root++) {
        uint64_t theirs = own;
        const bp_fabric_transfer call = {.call = BP_FABRIC_BROADCAST,
                                         .request = REQUEST,
                                         .root = root,
                                         .bytes = sizeof theirs,
                                         .to = &theirs,
                                         .from = &theirs};
        BP_TRY(rank->inner->begin(rank->context, &call, error));
        BP_TRY(rank->inner->wait(rank->context, REQUEST, error));
        *bytes = theirs < *bytes ? theirs : *bytes;
    }
    return BP_OK;
}

/* Without it calls go through NCCL's own buffers. */
static bp_status attach_register(nccl_rank *rank, void *arena, uint64_t bytes, bp_error *error)
{
    const bp_nccl_library *nccl = rank->library;
    BP_TRY(attach_least(rank, &bytes, error));
    if (nccl->ncclCommWindowRegister == NULL || nccl->ncclCommWindowDeregister == NULL) {
        return BP_OK;
    }
    int result = nccl->ncclCommWindowRegister(rank->comm, arena, (size_t)bytes, &rank->window,
                                              rank->alike ? BP_NCCL_SYMMETRIC : 0);
    return nccl_ended(rank, result, "ncclCommWindowRegister", error);
}

static bp_status nccl_attach(void *context, void *arena, uint64_t bytes, bool mapped, void *stream,
                             bp_error *error)
{
    nccl_rank *rank = context;
    bp_nccl_id id;
    bp_nccl_comm comm = NULL;
    bp_nccl_config config = {.size = sizeof config,
                             .magic = BP_NCCL_MAGIC,
                             .version = BP_NCCL_CONFIG_VERSION,
                             .blocking = 0,
                             .cga_cluster_size = BP_NCCL_UNSET,
                             .min_blocks = BP_NCCL_UNSET,
                             .max_blocks = BLOCKS_MOST,
                             .split_share = BP_NCCL_UNSET,
                             .traffic_class = BP_NCCL_UNSET,
                             .collnet_enable = BP_NCCL_UNSET,
                             .block_policy =
                                 mapped && rank->alike ? BP_NCCL_NO_BLOCKS : BP_NCCL_UNSET,
                             .shrink_share = BP_NCCL_UNSET,
                             .nvls_blocks = BP_NCCL_UNSET,
                             .channels_per_net_peer = BP_NCCL_UNSET,
                             .nvlink_centric = BP_NCCL_UNSET};
    BP_TRY(attach_meet(rank, &id, error));
    int result =
        rank->library->ncclCommInitRankConfig(&comm, (int)rank->inner->size(rank->context), id,
                                              (int)rank->inner->rank(rank->context), &config);
    if (comm == NULL && (result == BP_NCCL_SUCCESS || result == BP_NCCL_IN_PROGRESS)) {
        result = BP_NCCL_USAGE; /* it would have nothing to be asked by */
    }
    rank->comm = comm;
    BP_TRY(nccl_ended(rank, result, "ncclCommInitRankConfig", error));
    if (mapped) {
        BP_TRY(attach_register(rank, arena, bytes, error));
    }
    return attach_try(rank, arena, bytes, stream, error);
}

static bp_status nccl_poll(void *context, uint64_t waited_ms, bp_error *error)
{
    nccl_rank *rank = context;
    int result = BP_NCCL_SUCCESS;
    int asked = rank->library->ncclCommGetAsyncError(rank->comm, &result);
    result = asked != BP_NCCL_SUCCESS ? asked : result;
    if (result != BP_NCCL_SUCCESS && result != BP_NCCL_IN_PROGRESS) {
        return nccl_fail(rank, result, "ncclCommGetAsyncError", error);
    }
    BP_TRY(waited_ms > CHECK_MS ? rank->inner->check(rank->context, error) : BP_OK);
    return waited_ms > rank->patience_ms ? nccl_late(rank, error) : BP_OK;
}

/* Whether a call that ends a communicator has ended, within its time. */
static bool nccl_end(const nccl_rank *rank, int result)
{
    const uint64_t began = nccl_now();
    while (result == BP_NCCL_IN_PROGRESS && nccl_now() - began < END_MS) {
        nccl_nap();
        int asked = rank->library->ncclCommGetAsyncError(rank->comm, &result);
        result = asked != BP_NCCL_SUCCESS ? asked : result;
    }
    return result == BP_NCCL_SUCCESS;
}

/* Finalizing waits for all ranks; one that is late has to be left behind. */
static void nccl_detach(void *context, bool failed)
{
    nccl_rank *rank = context;
    const bp_nccl_library *nccl = rank->library;
    if (rank->comm == NULL) {
        return;
    }
    bool well = !failed;
    if (well && rank->window != NULL) {
        well = nccl_end(rank, nccl->ncclCommWindowDeregister(rank->comm, rank->window));
    }
    well = well && nccl_end(rank, nccl->ncclCommFinalize(rank->comm));
    const int gone = well ? nccl->ncclCommDestroy(rank->comm) : nccl->ncclCommAbort(rank->comm);
    (void)gone; /* nobody could do anything about it */
    rank->comm = NULL;
    rank->window = NULL;
}

/* ---- what is the fabric's below ---- */

static bp_status nccl_open(void *context, const bp_fabric_options *options, bp_error *error)
{
    (void)context;
    (void)options;
    return bp_error_set(error, BP_ERR_USAGE, where, "NCCL joins GPUs over an open fabric", NULL);
}

static bp_status nccl_agree(void *context, uint64_t digest, bp_error *error)
{
    const nccl_rank *rank = context;
    return rank->inner->agree(rank->context, digest, error);
}

static uint32_t nccl_number(const void *context)
{
    const nccl_rank *rank = context;
    return rank->inner->rank(rank->context);
}

static uint32_t nccl_size(const void *context)
{
    const nccl_rank *rank = context;
    return rank->inner->size(rank->context);
}

static uint32_t nccl_members(const void *context, uint32_t group)
{
    const nccl_rank *rank = context;
    return rank->inner->members(rank->context, group);
}

static bp_status nccl_begin(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    const nccl_rank *rank = context;
    return rank->inner->begin(rank->context, transfer, error);
}

static bp_status nccl_wait(void *context, uint32_t request, bp_error *error)
{
    const nccl_rank *rank = context;
    return rank->inner->wait(rank->context, request, error);
}

static bp_status nccl_check(void *context, bp_error *error)
{
    const nccl_rank *rank = context;
    return rank->inner->check(rank->context, error);
}

static void nccl_abandon(void *context, const bp_error *cause)
{
    const nccl_rank *rank = context;
    rank->inner->abandon(rank->context, cause);
}

static void nccl_close(void *context)
{
    (void)context; /* the one below is its owner's */
}

static const bp_fabric_stream nccl_stream = {
    .attach = nccl_attach, .enqueue = nccl_enqueue, .poll = nccl_poll, .detach = nccl_detach};

const bp_fabric bp_fabric_nccl = {.name = "nccl",
                                  .context_bytes = sizeof(nccl_rank),
                                  .collectives = 8, /* as of the fabrics below */
                                  .stream = &nccl_stream,
                                  .open = nccl_open,
                                  .agree = nccl_agree,
                                  .rank = nccl_number,
                                  .size = nccl_size,
                                  .members = nccl_members,
                                  .begin = nccl_begin,
                                  .wait = nccl_wait,
                                  .check = nccl_check,
                                  .abandon = nccl_abandon,
                                  .close = nccl_close};
