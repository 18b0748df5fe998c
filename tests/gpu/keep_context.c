/* SPDX-License-Identifier: MIT */
/* Preloaded to tests on a real GPU: keeps the GPU's primary context from the process's start on, so
 * that the hundreds of devices that they open and close do not each make one (0.2 to 0.4 s). */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef int entry_init(unsigned flags);
typedef int entry_device(int *device, int ordinal);
typedef int entry_retain(void **context, int device);

static void *entry(void *library, const char *name)
{
    return library != NULL ? dlsym(library, name) : NULL;
}

__attribute__((constructor)) static void context_keep(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL, *found[3];
    entry_init *init;
    entry_device *device;
    entry_retain *retain;
    int number = 0;
    found[0] = entry(library, "cuInit");
    found[1] = entry(library, "cuDeviceGet");
    found[2] = entry(library, "cuDevicePrimaryCtxRetain");
    memcpy(&init, &found[0], sizeof init);
    memcpy(&device, &found[1], sizeof device);
    memcpy(&retain, &found[2], sizeof retain);
    if (init != NULL && device != NULL && retain != NULL && init(0) == 0 &&
        device(&number, 0) == 0) {
        (void)retain(&context, number);
    }
}
