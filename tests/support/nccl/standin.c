/* SPDX-License-Identifier: MIT */
/* A libnccl.so.2 for tests beside a driver for tests: ranks are processes, or threads of one, that
 * meet in shared memory. It computes nothing and hurries nobody, but it is strict: every rank makes
 * the same calls of the same sizes at the same places of the window, none before the one before it
 * has ended (a call says that it is in progress), and none on what is not there; who waits too long
 * says for whom; communicators that are left are counted as the process ends.
 *
 *   BP_NCCL_VERSION=21504     what it says it is
 *   BP_NCCL_LIMIT=MS          how long a rank is waited for
 *   BP_NCCL_FAILS=RANK:CALL:CODE, BP_NCCL_STALLS=RANK:CALL   what goes wrong
 *   BP_NCCL_WINDOWS=no        windows cannot be registered
 */
#include "tests/support/nccl/standin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct nccl_id {
    char internal[128];
} nccl_id;

typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
} nccl_config;

/* As the program declares them. */
#define API __attribute__((visibility("default")))
typedef comm *bp_nccl_comm;
typedef void *bp_nccl_window;
typedef nccl_id bp_nccl_id;
typedef const nccl_config bp_nccl_config;
#define ENTRY(result, name, parameters)    API result name parameters;
#define OPTIONAL(result, name, parameters) API result name parameters;
#include "device/fabric/nccl_entries.def"

static comm *comms; /* all of this process */
static __thread int depth;
static __thread call group; /* what this thread's group holds */
static __thread void *group_stream;

long standin_number(const char *name, long else_)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? atol(text) : else_;
}

static void driver_find(void *handle, const char *name, void *entry)
{
    void *symbol = handle != NULL ? dlsym(handle, name) : NULL;
    memcpy(entry, &symbol, sizeof symbol);
}

const driver *standin_driver(void)
{
    static driver found;
    if (found.copy == NULL) {
        void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        driver_find(handle, "cuLaunchHostFunc", &found.launch);
        driver_find(handle, "cuMemAllocHost_v2", &found.allocate);
        driver_find(handle, "cuMemFreeHost", &found.free);
        driver_find(handle, "cuMemAlloc_v2", &found.take);
        driver_find(handle, "cuMemFree_v2", &found.give_back);
        driver_find(handle, "cuMemRetainAllocationHandle", &found.retain);
        driver_find(handle, "cuMemRelease", &found.release);
        driver_find(handle, "cuMemcpyAsync", &found.copy);
    }
    return &found;
}

int standin_wrong(comm *c, int code, const char *format, ...)
{
    char words[400];
    va_list values;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    if (__atomic_exchange_n(&c->all->told, 1, __ATOMIC_ACQ_REL) == 0) {
        fprintf(stderr, "nccl stand-in: %s\n", words);
    }
    __atomic_store_n(&c->failed, code, __ATOMIC_RELEASE);
    return code;
}

static void __attribute__((destructor)) standin_end(void)
{
    unsigned left = 0;
    for (const comm *c = comms; c != NULL; c = c->next) {
        left += c->state != GONE;
    }
    if (left > 0) {
        fprintf(stderr, "nccl stand-in: %u communicators are left\n", left);
    }
}

int ncclGetVersion(int *version)
{
    *version = (int)standin_number("BP_NCCL_VERSION", 22809);
    return SUCCESS;
}

int ncclGetUniqueId(nccl_id *id)
{
    static unsigned count;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, NAME, "/bp-nccl-%d-%u", (int)getpid(), __sync_add_and_fetch(&count, 1));
    shm_unlink(id->internal); /* of a process of that number, long ago */
    return SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    static const char *const words[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return result >= 0 && result <= IN_PROGRESS ? words[result] : "unknown result code";
}

const char *ncclGetLastError(comm *c)
{
    return c != NULL && c->failed != 0 ? "the stand-in says so" : "";
}

/* ---- coming and going ---- */

static shared *comm_map(const char *name)
{
    int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    void *mapped = MAP_FAILED;
    if (file >= 0 && ftruncate(file, sizeof(shared)) == 0) {
        mapped = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    if (file >= 0) {
        close(file);
    }
    return mapped == MAP_FAILED ? NULL : mapped;
}

int ncclCommInitRankConfig(comm **made, int size, nccl_id id, int rank, const nccl_config *config)
{
    static int lock;
    if (size < 1 || size > RANKS || rank < 0 || rank >= size || config->magic != 0xcafebeef ||
        config->size < sizeof *config || config->blocking != 0 || depth > 0 ||
        strncmp(id.internal, "/bp-nccl-", 9) != 0) {
        return BAD_ARGUMENT;
    }
    comm *c = calloc(1, sizeof *c);
    c->rank = rank;
    c->size = size;
    memcpy(c->name, id.internal, NAME - 1);
    c->all = comm_map(c->name);
    if (c->all == NULL || standin_driver()->copy == NULL) {
        free(c);
        return SYSTEM_ERROR;
    }
    while (__sync_lock_test_and_set(&lock, 1) != 0) {
    }
    c->next = comms;
    comms = c;
    __sync_lock_release(&lock);
    __atomic_store_n(&c->all->ranks[rank].joined, 1, __ATOMIC_RELEASE);
    *made = c;
    return IN_PROGRESS;
}

/* Whether all ranks have come as far. */
static bool comm_all(const comm *c, size_t field)
{
    bool all = true;
    for (int i = 0; i < c->size; i++) {
        const unsigned char *place_of = (const unsigned char *)&c->all->ranks[i];
        all = all && __atomic_load_n((const uint32_t *)(const void *)(place_of + field),
                                     __ATOMIC_ACQUIRE) != 0;
    }
    return all;
}

static int comm_start(comm *c)
{
    void *given = NULL, *gotten = NULL;
    const size_t bytes = (size_t)c->size * CHUNK;
    if (standin_driver()->allocate(&given, bytes) != 0 ||
        standin_driver()->allocate(&gotten, bytes) != 0) {
        return CUDA_ERROR;
    }
    if (standin_driver()->take(&c->taken, 1 << 20) != 0) {
        return CUDA_ERROR;
    }
    c->given = given;
    c->gotten = gotten;
    c->state = READY;
    return SUCCESS;
}

static int comm_registered(comm *c)
{
    for (int i = 0; i < c->size; i++) {
        if (c->all->ranks[i].window != c->window_bytes) {
            return standin_wrong(c, BAD_USAGE,
                                 "rank %d registers %llu bytes where rank %d has %llu", c->rank,
                                 (unsigned long long)c->window_bytes, i,
                                 (unsigned long long)c->all->ranks[i].window);
        }
    }
    c->state = READY;
    return SUCCESS;
}

/* What goes on: nothing, a call that has not ended, or what went wrong. */
static int comm_ask(comm *c)
{
    const int failed = __atomic_load_n(&c->failed, __ATOMIC_ACQUIRE);
    if (failed != 0) {
        return failed;
    }
    if (c->asked > 0) {
        c->asked--;
        return IN_PROGRESS;
    }
    switch (c->state) {
    case STARTING:
        return comm_all(c, offsetof(place, joined)) ? comm_start(c) : IN_PROGRESS;
    case REGISTERING:
        return comm_all(c, offsetof(place, registered)) ? comm_registered(c) : IN_PROGRESS;
    case ENDING:
        return comm_all(c, offsetof(place, finalized)) ? SUCCESS : IN_PROGRESS;
    case READY:
        return SUCCESS;
    case GONE:
        break;
    }
    return BAD_ARGUMENT;
}

int ncclCommGetAsyncError(comm *c, int *result)
{
    *result = comm_ask(c);
    return SUCCESS;
}

/* Whether a communicator takes another call: `where` it was made. */
static int comm_ready(comm *c, const char *entry)
{
    if (c->failed != 0) {
        return c->failed;
    }
    if (c->state != READY || c->asked > 0) {
        return standin_wrong(c, BAD_USAGE, "rank %d calls %s while a call is in progress", c->rank,
                             entry);
    }
    return SUCCESS;
}

int ncclCommFinalize(comm *c)
{
    const int ready = comm_ready(c, "ncclCommFinalize");
    if (ready == SUCCESS) {
        c->state = ENDING;
        __atomic_store_n(&c->all->ranks[c->rank].finalized, 1, __ATOMIC_RELEASE);
    }
    return ready == SUCCESS ? IN_PROGRESS : ready;
}

int ncclCommDestroy(comm *c)
{
    if (c->state != ENDING || c->window_bytes != 0) {
        return standin_wrong(c, BAD_USAGE, "rank %d destroys what it has not finalized", c->rank);
    }
    (void)standin_driver()->give_back(c->taken);
    (void)standin_driver()->free(c->given);
    (void)standin_driver()->free(c->gotten);
    (void)munmap(c->all, sizeof *c->all);
    shm_unlink(c->name);
    c->state = GONE;
    return SUCCESS;
}

/* What is queued may still come to its host functions: all but the name stays until the end. */
int ncclCommAbort(comm *c)
{
    __atomic_store_n(&c->aborted, 1, __ATOMIC_RELEASE);
    shm_unlink(c->name);
    c->state = GONE;
    return SUCCESS;
}

/* Only memory that the driver has mapped can be a window. */
int ncclCommWindowRegister(comm *c, void *memory, size_t bytes, bp_nccl_window *window, int flags)
{
    uint64_t handle = 0;
    const char *windows = getenv("BP_NCCL_WINDOWS");
    const int ready = comm_ready(c, "ncclCommWindowRegister");
    *window = NULL;
    if (ready != SUCCESS || (windows != NULL && strcmp(windows, "no") == 0)) {
        return ready;
    }
    if ((flags & ~1) != 0 || (uintptr_t)memory % 4096 != 0 || standin_driver()->retain == NULL ||
        standin_driver()->retain(&handle, memory) != 0) {
        return BAD_ARGUMENT;
    }
    (void)standin_driver()->release(handle);
    c->window = (uint64_t)(uintptr_t)memory;
    c->window_bytes = bytes;
    c->symmetric = flags == 1;
    c->all->ranks[c->rank].window = bytes;
    c->state = REGISTERING;
    __atomic_store_n(&c->all->ranks[c->rank].registered, 1, __ATOMIC_RELEASE);
    *window = c;
    return IN_PROGRESS;
}

int ncclCommWindowDeregister(comm *c, void *window)
{
    if (window != c || c->window_bytes == 0) {
        return BAD_ARGUMENT;
    }
    c->window_bytes = 0;
    return SUCCESS;
}

/* ---- calls ---- */

static uint64_t window_place(const comm *c, const void *to)
{
    const uint64_t at = (uint64_t)(uintptr_t)to;
    const bool within = c->symmetric && at >= c->window && at - c->window < c->window_bytes;
    return within ? at - c->window : UINT64_MAX;
}

/* Every call is in progress for a while. */
static int call_end(comm *c, const call *made, void *stream)
{
    const int queued = standin_queue(made, stream);
    c->asked = queued == SUCCESS ? 2 : 0;
    return queued == SUCCESS ? IN_PROGRESS : queued;
}

static int call_all(comm *c, call_kind kind, const void *from, void *to, size_t bytes, int type,
                    int root, void *stream)
{
    const int ready = comm_ready(c, "a collective call");
    if (ready != SUCCESS || type != 1 || depth > 0) {
        return ready != SUCCESS ? ready : BAD_ARGUMENT;
    }
    call made = {
        .comm = c,
        .sign = {
            .bytes = bytes, .kind = kind, .root = (uint32_t)root, .place = window_place(c, to)}};
    for (int i = 0; i < c->size; i++) {
        const size_t sent = kind == ALL_TO_ALL ? (size_t)i * bytes : 0;
        const size_t got = kind == BROADCAST ? 0 : (size_t)i * bytes;
        const bool gives = kind != BROADCAST || root == c->rank;
        const bool gets = kind != BROADCAST || root == i;
        made.sends[i] = (message){
            .there = true, .address = (uint64_t)(uintptr_t)from + sent, .bytes = gives ? bytes : 0};
        made.gets[i] = (message){
            .there = true, .address = (uint64_t)(uintptr_t)to + got, .bytes = gets ? bytes : 0};
    }
    return call_end(c, &made, stream);
}

int ncclAllGather(const void *from, void *to, size_t bytes, int type, comm *c, void *stream)
{
    return call_all(c, ALL_GATHER, from, to, bytes, type, 0, stream);
}

int ncclAlltoAll(const void *from, void *to, size_t bytes, int type, comm *c, void *stream)
{
    return call_all(c, ALL_TO_ALL, from, to, bytes, type, 0, stream);
}

int ncclBroadcast(const void *from, void *to, size_t bytes, int type, int root, comm *c,
                  void *stream)
{
    return call_all(c, BROADCAST, from, to, bytes, type, root, stream);
}

int ncclGroupStart(void)
{
    if (depth++ == 0) {
        group = (call){.comm = NULL};
    }
    return SUCCESS;
}

int ncclGroupEnd(void)
{
    if (depth == 0) {
        return BAD_USAGE;
    }
    return --depth > 0 || group.comm == NULL ? SUCCESS : call_end(group.comm, &group, group_stream);
}

/* One message each way and peer in a group; out of one it would wait for its peer's alone. */
static int group_add(message *m, comm *c, uint64_t address, size_t bytes, int type, void *stream)
{
    const int ready = comm_ready(c, "a message");
    if (ready != SUCCESS || type != 1) {
        return ready != SUCCESS ? ready : BAD_ARGUMENT;
    }
    if (depth == 0 || m->there || (group.comm != NULL && group.comm != c)) {
        return standin_wrong(c, BAD_USAGE, "rank %d sends or gets out of a group, or twice in it",
                             c->rank);
    }
    *m = (message){.there = true, .address = address, .bytes = bytes};
    group.comm = c;
    group.sign.kind = MESSAGES;
    group.sign.place = UINT64_MAX;
    group.sign.bytes = bytes > group.sign.bytes ? bytes : group.sign.bytes;
    group_stream = stream;
    return SUCCESS;
}

int ncclSend(const void *from, size_t bytes, int type, int peer, comm *c, void *stream)
{
    return peer < 0 || peer >= c->size
               ? BAD_ARGUMENT
               : group_add(&group.sends[peer], c, (uint64_t)(uintptr_t)from, bytes, type, stream);
}

int ncclRecv(void *to, size_t bytes, int type, int peer, comm *c, void *stream)
{
    return peer < 0 || peer >= c->size
               ? BAD_ARGUMENT
               : group_add(&group.gets[peer], c, (uint64_t)(uintptr_t)to, bytes, type, stream);
}
