/* SPDX-License-Identifier: MIT */
/* A libnvidia-ml.so.1 for tests: one GPU of the instrument's UUID and three processes, of which
 * the second is the one that asks. FAKE_ML in the environment makes a call fail or hides a
 * number: "init", "find", "list", "unknown". */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct process {
    unsigned number;
    unsigned long long bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
} process;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *processes);

static int gpu;

static int asked(const char *what)
{
    const char *text = getenv("FAKE_ML");
    return text != NULL && strcmp(text, what) == 0;
}

int nvmlInit_v2(void)
{
    return asked("init") ? 999 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = &gpu;
    return asked("find") || strcmp(uuid, "GPU-70747876-6d00-0000-0000-000000000000") != 0 ? 6 : 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *processes)
{
    const unsigned own = (unsigned)getpid();
    const unsigned long long bytes = asked("unknown") ? ~0ull : 123456789ull;
    const process list[] = {{1, 5, 0, 0}, {own, bytes, 0, 0}, {own + 1, 7, 0, 0}};
    if (device != &gpu || *count < 3 || asked("list")) {
        return 7;
    }
    memcpy(processes, list, sizeof list);
    *count = 3;
    return 0;
}
