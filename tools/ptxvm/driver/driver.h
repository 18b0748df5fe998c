/* SPDX-License-Identifier: MIT */
/* Shared by the driver's files: one state, queues of work, handles and their ledger. */
#ifndef PTXVM_DRIVER_H
#define PTXVM_DRIVER_H

#include "tools/ptxvm/abi.h"
#include "tools/ptxvm/config.h"
#include "tools/ptxvm/machine.h"

/* CUresult numbers beyond those of machine.h. */
enum {
    CR_NOT_INITIALIZED = 3,
    CR_NO_DEVICE = 100,
    CR_INVALID_DEVICE = 101,
    CR_INVALID_CONTEXT = 201,
    CR_FILE_NOT_FOUND = 301,
    CR_INVALID_HANDLE = 400,
    CR_NOT_FOUND = 500,
    CR_NOT_READY = 600,
    CR_LAUNCH_OUT_OF_RESOURCES = 701,
    CR_INVALID_CLUSTER = 912,
    CR_CONTEXT_DESTROYED = 709,
    CR_NOT_PERMITTED = 800,
    CR_NOT_SUPPORTED = 801,
    CR_CAPTURE_UNSUPPORTED = 900,
    CR_CAPTURE_INVALIDATED = 901,
    CR_CAPTURE_UNMATCHED = 903,
    CR_CAPTURE_UNJOINED = 904,
    CR_CAPTURE_IMPLICIT = 906,
    CR_CAPTURED_EVENT = 907
};

/* What a handle is; the ledger counts each kind. */
typedef enum dr_kind {
    DK_CONTEXT,
    DK_DEVICE_MEMORY,
    DK_HOST_MEMORY,
    DK_MODULE,
    DK_STREAM,
    DK_EVENT,
    DK_GRAPH,
    DK_GRAPH_EXEC,
    DK_COUNT
} dr_kind;

typedef enum dr_work_kind {
    DW_LAUNCH,
    DW_WRITE, /* host to device */
    DW_READ,  /* device to host */
    DW_COPY,
    DW_FILL,
    DW_UNDEFINE,
    DW_RECORD,
    DW_WAIT,
    DW_GRAPH,
    DW_HOST
} dr_work_kind;

typedef struct dr_module {
    uint32_t magic;
    uint32_t device;
    vm_module *program;
    struct dr_function *functions; /* one for each of the program's */
    struct dr_module *next;
} dr_module;

typedef struct dr_function {
    uint32_t magic;
    dr_module *module;
    uint32_t index;
    int dynamic_limit; /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
} dr_function;

/* What is known to come before: for each stream's slot the work up to that number. Slot 0 is the
 * legacy stream's; streams beyond the last slot are not followed. */
enum { DR_CLOCKS = 24 };
typedef struct dr_clock {
    uint64_t at[DR_CLOCKS];
} dr_clock;

/* One entry of a queue, or one node of a graph. */
typedef struct dr_work {
    dr_work_kind kind;
    uint64_t sequence;
    dr_function *function;
    unsigned grid[3];
    unsigned block[3];
    unsigned cluster;
    bool programmatic; /* may begin before the launch before it has ended */
    unsigned shared;
    uint8_t *params;         /* owned */
    ptxvm_operand *operands; /* owned; NULL: none were declared */
    uint32_t operand_count;
    uint64_t target;
    uint64_t source;
    uint64_t rows; /* of a copy, each of `bytes` */
    uint64_t target_pitch;
    uint64_t source_pitch;
    uint32_t slot; /* of the queue's stream, and when it was put there */
    dr_clock clock;
    void *host;      /* pinned memory read or written at execution */
    uint8_t *staged; /* owned: a copy of pageable memory made at the call */
    uint64_t bytes;
    uint64_t pattern;
    unsigned element;
    struct dr_event *event;
    uint64_t version;
    struct dr_exec *exec;
    void (*callback)(void *);
    void *data;
    uint32_t *after; /* owned: of a graph node: indices it depends on */
    uint32_t after_count;
    struct dr_work *next;
} dr_work;

typedef struct dr_graph {
    uint32_t magic;
    dr_work *nodes;
    uint32_t count;
    uint32_t capacity;
    bool invalid; /* while captured: an illegal call was made */
    bool capturing;
    int mode;
    pthread_t owner; /* the thread that began to capture it */
} dr_graph;

typedef struct dr_exec {
    uint32_t magic;
    dr_work *nodes;
    uint32_t count;
    uint8_t *
        *ordered; /* of each node that copies: which nodes come before or after it; else NULL */
} dr_exec;

typedef struct dr_stream {
    uint32_t magic;
    bool blocking; /* ordered with the legacy stream */
    bool busy;     /* its first work is being run */
    uint32_t device;
    uint32_t slot;
    dr_clock clock; /* what its next work comes after */
    dr_work *head;
    dr_work *tail;
    dr_graph *capture; /* NULL: not capturing */
    bool origin;
    uint32_t *last; /* of a capture: nodes that the next one depends on */
    uint32_t last_count;
    struct dr_stream *next;
} dr_stream;

typedef struct dr_event {
    uint32_t magic;
    uint64_t recorded; /* versions: one for each record call */
    uint64_t completed;
    double seconds; /* when it completed */
    dr_clock clock; /* of its newest record */
    bool timing;
    dr_graph *capture;
    uint32_t *last;
    uint32_t last_count;
    struct dr_event *next; /* of all events */
} dr_event;

/* Devices that this process has: alike, each with memory of its own. */
enum { DR_DEVICES = 16 };
typedef struct dr_context {
    int users;
} dr_context;

typedef struct dr_driver {
    pthread_mutex_t lock;
    pthread_cond_t progress; /* work was queued, or has ended */
    bool initialised;
    int sticky;
    int device_count;
    dr_context contexts[DR_DEVICES];
    uint32_t capability; /* 80, 86, 90 ... */
    uint32_t version;
    dr_stream legacy;
    dr_stream *streams;
    dr_event *events;
    dr_module *modules;
    uint64_t sequence;
    uint32_t launches;
    uint64_t random;
    uint64_t memory_total;
    uint32_t managed; /* allocations that both sides reach */
    int live[DK_COUNT];
    int graphs_capturing;
    char report[VM_REPORT_MAX];
} dr_driver;

extern dr_driver dr_state;

/* Begins an entry point: counts the call, injects a fault, checks for initialisation (unless
 * bare) and the sticky error. 0: go on, the lock is held until dr_leave. */
int dr_enter(const char *name, bool bare);
int dr_leave(int result);
/* Of this thread's current context; 0: it has none. */
uint32_t dr_device(void);
/* Takes device, driver version and memory size from the settings. */
void dr_read_settings(void);
#define DR_ENTER(name)                                                                             \
    do {                                                                                           \
        int dr_result = dr_enter(#name, false);                                                    \
        if (dr_result != VM_OK) {                                                                  \
            return dr_result;                                                                      \
        }                                                                                          \
    } while (0)

enum {
    MAGIC_MODULE = 0x6d6f6475,
    MAGIC_FUNCTION = 0x66756e63,
    MAGIC_STREAM = 0x73747265,
    MAGIC_EVENT = 0x65766e74,
    MAGIC_GRAPH = 0x67726170,
    MAGIC_EXEC = 0x65786563
};

/* The stream of a handle: NULL, 1 and 2 are the legacy stream. NULL for a bad handle. */
dr_stream *dr_stream_of(void *handle);

/* The stream that a capture began in goes away: the capture ends with it, and its graph is no more.
 * Else the capture is spoilt. */
void dr_capture_leave(dr_stream *stream);

/* Queues a copy of the work, or adds it to the stream's capture. Takes over what it owns. */
int dr_submit(dr_stream *stream, dr_work *work);
void dr_work_free(dr_work *work);
dr_work dr_work_clone(const dr_work *work);

/* Runs queues until the stream's is empty (NULL: all), or the event is complete. */
int dr_drain_stream(dr_stream *stream);
/* The same for the streams of this thread's device. */
int dr_drain_device(void);
int dr_drain_event(const dr_event *event);
/* Runs one piece of work that is ready; false when none is. */
bool dr_run_one(void);
void dr_drop_queues(void);
bool dr_queues_empty(void);

/* Runs a kernel now, beside copies in flight that own `count` stretches of memory. */
int dr_execute_launch(const dr_work *work, const vm_owned *owned, uint32_t count);

/* flight.c: what comes before what, by streams, events and the host's waits, and the copies in
 * flight that own memory. */
void dr_clock_open(dr_stream *stream);
void dr_clock_submit(dr_stream *stream, dr_work *work);
/* The host has waited for everything up to there (NULL: everything). */
void dr_clock_await(const dr_clock *clock);
/* What of memory belongs to copies that nothing orders before or after this work: `work` as it was
 * queued, and its node where it is a graph. */
uint32_t dr_flights_beside(const dr_work *work, uint32_t node, vm_owned owned[VM_OWNED_MAX]);
/* Whether a copy or fill may run beside them; false after a report. */
bool dr_flights_allow(const dr_work *work, const vm_owned *owned, uint32_t count);
void dr_flights_forget(void);
void dr_exec_order(dr_exec *exec);

/* This thread is inside a host function, which may ask nothing of the driver. */
extern __thread bool dr_calling;
void dr_fail(int result, const char *text);

/* A call that a capture forbids: invalidates captures and gives the code, or VM_OK outside one. */
int dr_forbid_in_capture(const dr_stream *stream);
int dr_forbid_allocation(void);

/* faults.c */
int dr_fault_check(const char *name);

/* coverage.c: takes a module's counts before it goes; writes the files. */
void dr_coverage_take(const vm_module *module);

/* device limits by capability */
size_t dr_shared_optin(void);
/* Whether the GPU shares the host's memory, as a Jetson's does. */
bool dr_integrated(void);

#endif
