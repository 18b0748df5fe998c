/* SPDX-License-Identifier: MIT */
/* Asking the management library, whose declarations here are this project's own. */
#include "device/cuda/share.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "arena/text.h"

#define PROCESSES_MAX 256
#define UUID_TEXT     48
#define UNKNOWN       UINT64_MAX /* what the library says when it does not count */

typedef struct ml_process { /* nvmlProcessInfo_t of version 3 */
    unsigned number;
    unsigned long long bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
} ml_process;

typedef struct ml_device_object *ml_device;

typedef struct ml_library {
    int (*begin)(void);
    int (*end)(void);
    int (*find)(const char *uuid, ml_device *device);
    int (*processes)(ml_device device, unsigned *count, ml_process *processes);
} ml_library;

/* "GPU-" and the bytes in hexadecimal in groups of 4, 2, 2, 2, 6. */
static void write_uuid(const bp_cu_uuid *uuid, char out[UUID_TEXT])
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, out, UUID_TEXT);
    bp_text_string(&text, "GPU");
    for (unsigned i = 0; i < 16; i++) {
        bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        bp_text_string(&text, group ? "-" : "");
        bp_text_hex(&text, uuid->bytes[i], 2);
    }
    bp_status fits = bp_text_flush(&text); /* 40 characters */
    (void)fits;
}

static bool share_resolve(void *handle, ml_library *library)
{
    static const char *const names[] = {"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetHandleByUUID",
                                        "nvmlDeviceGetComputeRunningProcesses_v3"};
    unsigned char *regions[] = {(unsigned char *)&library->begin, (unsigned char *)&library->end,
                                (unsigned char *)&library->find,
                                (unsigned char *)&library->processes};
    bool all = true;
    for (size_t i = 0; i < 4; i++) {
        void *symbol = dlsym(handle, names[i]);
        memcpy(regions[i], &symbol, sizeof symbol);
        all = all && symbol != NULL;
    }
    return all;
}

static uint64_t count_bytes(const ml_library *library, const bp_cu_uuid *uuid)
{
    static const ml_process none = {0, 0, 0, 0};
    ml_process processes[PROCESSES_MAX];
    char name[UUID_TEXT];
    ml_device device = NULL;
    unsigned count = PROCESSES_MAX;
    processes[0] = none;
    write_uuid(uuid, name);
    bool known =
        library->find(name, &device) == 0 && library->processes(device, &count, processes) == 0;
    uint64_t bytes = 0;
    for (unsigned i = 0; known && i < count; i++) {
        bool own = processes[i].number == (unsigned)getpid() && processes[i].bytes != UNKNOWN;
        bytes += own ? processes[i].bytes : 0;
    }
    return bytes;
}

uint64_t bp_cuda_share(const bp_cu_uuid *uuid)
{
    ml_library library;
    uint64_t bytes = 0;
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return 0;
    }
    if (share_resolve(handle, &library) && library.begin() == 0) {
        bytes = count_bytes(&library, uuid);
        (void)library.end();
    }
    (void)dlclose(handle);
    return bytes;
}
