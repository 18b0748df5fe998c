/* SPDX-License-Identifier: MIT */
/* Finding the driver, filling the table, and saying in words what a result means. */
#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "arena/text.h"

static const char where[] = "cuda device";
static const char library[] = "libcuda.so.1";

typedef struct entry_row {
    const char *name;
    size_t place;
    bool optional;
} entry_row;

static const entry_row entries[] = {
#define ENTRY(name, parameters)    {#name, offsetof(bp_cu_driver, name), false},
#define OPTIONAL(name, parameters) {#name, offsetof(bp_cu_driver, name), true},
#include "device/cuda/entries.def"
};

/* POSIX lets an object pointer hold what dlsym found; C wants it copied. */
static bp_status driver_fill(bp_cu_driver *driver, void *handle, bp_error *error)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const entry_row *row = &entries[i];
        void *symbol = dlsym(handle, row->name);
        if (symbol == NULL && !row->optional) {
            return bp_error_set(error, BP_ERR_DEVICE, where,
                                "the NVIDIA driver is too old: it has no such entry point; "
                                "drivers for CUDA 12.0 and later have it",
                                row->name);
        }
        memcpy((unsigned char *)driver + row->place, &symbol, sizeof symbol);
    }
    return BP_OK;
}

static const char no_driver[] = "there is no NVIDIA driver on this machine, or it cannot be loaded";
static const char static_build[] = "this is the static build, which uses no GPU; the build that is "
                                   "linked with glibc does";

bp_status bp_cu_driver_load(bp_cu_driver *driver, bp_error *error)
{
    /* A program that loads nothing at run time cannot open even itself. */
    const bool loads = dlopen(NULL, RTLD_NOW) != NULL;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return bp_error_set(error, BP_ERR_DEVICE, where, loads ? no_driver : static_build,
                            dlerror());
    }
    return driver_fill(driver, handle, error);
}

bp_status bp_cu_driver_begin(const bp_cu_driver *driver, int *version, bp_error *error)
{
    /* This fails only for want of memory, and then the driver loads when it likes to. */
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    bp_cu_result result = driver->cuInit(0);
    if (result != BP_CU_SUCCESS) {
        return bp_cu_result_status(driver, result, "cuInit", error);
    }
    result = driver->cuDriverGetVersion(version);
    if (result != BP_CU_SUCCESS) {
        return bp_cu_result_status(driver, result, "cuDriverGetVersion", error);
    }
    return BP_OK;
}

/* Results with a cause that a user can act on, and those after which the context is lost. */
typedef struct result_row {
    bp_cu_result result;
    bool fatal;
    const char *text;
} result_row;

static const char lost[] = "the GPU or this program's hold on it is lost; start again from the "
                           "last checkpoint";
static const char fault[] = "a kernel went wrong, and with it this program's hold on the GPU";

static const result_row results[] = {
    {BP_CU_OUT_OF_MEMORY, false, "the GPU has not enough free memory"},
    {4, true, lost}, /* DEINITIALIZED */
    {34, false, "the driver library is a stub for linking, not a driver"},
    {46, true, "another program holds the GPU for itself, or it cannot be used now"},
    {BP_CU_NO_DEVICE, false, "the NVIDIA driver finds no GPU"},
    {201, true, lost}, /* INVALID_CONTEXT */
    {209, false, "the GPU cannot run these kernels"},
    {214, true, "the GPU's memory has an error that cannot be corrected"},
    {218, false, "the driver refuses a kernel's PTX; see its log"},
    {220, true, lost}, /* NVLINK_UNCORRECTABLE */
    {221, false, "the driver's PTX compiler is not installed"},
    {223, false, "the driver's PTX compiler is switched off (CUDA_DISABLE_PTX_JIT)"},
    {226, true, "the GPU's memory has an error that cannot be corrected"}, /* CONTAINED */
    {BP_CU_UNSUPPORTED_PTX_VERSION, false,
     "the NVIDIA driver is too old for the PTX of this program"},
    {700, true, fault}, /* ILLEGAL_ADDRESS */
    {702, true, fault}, /* LAUNCH_TIMEOUT */
    {709, true, lost},  /* CONTEXT_IS_DESTROYED */
    {710, true, fault}, /* ASSERT */
    {714, true, fault}, /* HARDWARE_STACK_ERROR */
    {715, true, fault}, /* ILLEGAL_INSTRUCTION */
    {716, true, fault}, /* MISALIGNED_ADDRESS */
    {717, true, fault}, /* INVALID_ADDRESS_SPACE */
    {718, true, fault}, /* INVALID_PC */
    {719, true, fault}, /* LAUNCH_FAILED */
    {721, true, fault}, /* TENSOR_MEMORY_LEAK */
    {802, false, "the GPU's links are still starting (SYSTEM_NOT_READY); try again later"},
    {803, false, "the driver's library and its kernel module are of different versions"},
    {804, false, "the driver's compatibility library does not work on this GPU"},
    {810, true, lost}, /* MPS_CLIENT_TERMINATED */
    {911, true, lost}, /* EXTERNAL_DEVICE */
    {999, true, lost}, /* UNKNOWN */
};

static const result_row *driver_find(bp_cu_result result)
{
    static const result_row other = {0, false, "the NVIDIA driver refused a call"};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (results[i].result == result) {
            return &results[i];
        }
    }
    return &other;
}

bool bp_cu_result_fatal(bp_cu_result result)
{
    return driver_find(result)->fatal;
}

bp_status bp_cu_result_status(const bp_cu_driver *driver, bp_cu_result result, const char *entry,
                              bp_error *error)
{
    char name[BP_ERROR_NAME_MAX];
    const char *word = NULL;
    const char *words = NULL;
    bp_text text;
    bp_text_init(&text, NULL, NULL, name, sizeof name);
    if (driver->cuGetErrorName(result, &word) != BP_CU_SUCCESS || word == NULL) {
        word = "an unknown CUresult";
    }
    bp_text_string(&text, word);
    bp_text_string(&text, " (");
    bp_text_i64(&text, result);
    bp_text_string(&text, ") from ");
    bp_text_string(&text, entry);
    if (driver->cuGetErrorString(result, &words) == BP_CU_SUCCESS && words != NULL) {
        bp_text_string(&text, ", ");
        bp_text_string(&text, words);
    }
    bp_status cut = bp_text_flush(&text); /* longer words are cut, which is all right */
    (void)cut;
    return bp_error_set(error, BP_ERR_DEVICE, where, driver_find(result)->text, name);
}
