/* SPDX-License-Identifier: MIT */
/* Finding the instrument beside the running program. */
#include "tests/support/instrument.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* build/X/tests/../test_y belongs to build/X. */
static bool path_of(char *path, size_t size, const char *library)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 64);
    path[length > 0 ? length : 0] = '\0';
    char *tests = strstr(path, "/tests/");
    for (char *next = tests; next != NULL; next = strstr(tests + 1, "/tests/")) {
        tests = next;
    }
    if (tests == NULL) {
        return false;
    }
    *tests = '\0';
    snprintf(path + strlen(path), 64, "/ptxvm/%s", library);
    return access(path, R_OK) == 0;
}

static void find(const instrument *on, const char *name, void *place)
{
    void *symbol = dlsym(on->library, name);
    memcpy(place, &symbol, sizeof symbol);
}

bool instrument_load_other(const char *name)
{
    char path[4096];
    return path_of(path, sizeof path, name) && dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL;
}

bool instrument_load(instrument *on)
{
    static const char library[] = "libcuda.so.1";
    char path[4096];
    memset(on, 0, sizeof *on);
    on->real = getenv("BP_TEST_GPU") != NULL;
    const char *name = on->real ? library : path;
    if (!on->real && !path_of(path, sizeof path, library)) {
        printf("skipped: %s is not built\n", path);
        return false;
    }
    on->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (on->library == NULL) {
        printf("skipped: %s\n", dlerror());
        return false;
    }
    find(on, "ptxvmSet", &on->set);
    find(on, "ptxvmReport", &on->report);
    find(on, "ptxvmRevive", &on->revive);
    find(on, "ptxvmLedger", &on->ledger);
    find(on, "ptxvmCalls", &on->calls);
    find(on, "ptxvmEntryName", &on->entry);
    return true;
}
