/* SPDX-License-Identifier: MIT */
/* Finding NCCL and filling its table. */
#include "device/fabric/nccl_library.h"

#include <dlfcn.h>
#include <fenv.h>
#include <stddef.h>
#include <string.h>

static const char where[] = "nccl";
static const char file[] = "libnccl.so.2";

static const struct entry_row {
    const char *name;
    size_t place;
    bool optional;
} entries[] = {
#define ENTRY(result, name, parameters)    {#name, offsetof(bp_nccl_library, name), false},
#define OPTIONAL(result, name, parameters) {#name, offsetof(bp_nccl_library, name), true},
#include "device/fabric/nccl_entries.def"
};

static bp_status nccl_old(const bp_nccl_library *library, const char *missing, bp_error *error)
{
    return bp_error_limit(error, BP_ERR_DEVICE, where,
                          "NCCL is too old; versions are 10000 times the first number and 100 "
                          "times the second",
                          missing, library->version, BP_LIMIT_LEAST, BP_NCCL_LEAST);
}

/* POSIX lets an object pointer hold what dlsym found; C wants it copied. The version, which every
 * NCCL tells, comes first. */
static bp_status nccl_fill(bp_nccl_library *library, void *handle, bp_error *error)
{
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        void *symbol = dlsym(handle, entries[i].name);
        memcpy((unsigned char *)library + entries[i].place, &symbol, sizeof symbol);
        missing =
            symbol == NULL && !entries[i].optional && missing == NULL ? entries[i].name : missing;
    }
    if (library->ncclGetVersion == NULL ||
        library->ncclGetVersion(&library->version) != BP_NCCL_SUCCESS) {
        return bp_error_set(error, BP_ERR_DEVICE, where, "a library is no NCCL", file);
    }
    if (missing != NULL || library->version < BP_NCCL_LEAST) {
        return nccl_old(library, missing != NULL ? missing : file, error);
    }
    return BP_OK;
}

bp_status bp_nccl_library_load(bp_nccl_library *library, bp_error *error)
{
    fenv_t arithmetic; /* what a library made with -ffast-math changes as it is loaded */
    *library = (bp_nccl_library){.version = 0};
    (void)fegetenv(&arithmetic);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    (void)fesetenv(&arithmetic);
    if (handle == NULL) {
        return bp_error_set(error, BP_ERR_DEVICE, where, "NCCL cannot be loaded", dlerror());
    }
    return nccl_fill(library, handle, error);
}
