/* SPDX-License-Identifier: MIT */
/* Settings from the environment or from a test, and the pool of cluster storage. */
#include "tools/ptxvm/config.h"

#include <stdlib.h>
#include <unistd.h>

enum { SETTINGS_MAX = 32, POOL_MAX = 64 };

/* One process has one driver, and the driver one set of settings. */
static struct {
    pthread_mutex_t lock;
    char names[SETTINGS_MAX][40];
    char values[SETTINGS_MAX][400];
    size_t count;
    vm_cluster *pool[POOL_MAX];
    size_t pooled;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *vm_config_text(const char *name)
{
    for (size_t i = 0; i < state.count; i++) {
        if (strcmp(state.names[i], name) == 0) {
            return state.values[i][0] != '\0' ? state.values[i] : NULL;
        }
    }
    return getenv(name);
}

uint64_t vm_config_number(const char *name, uint64_t otherwise)
{
    const char *text = vm_config_text(name);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 0);
}

void vm_config_set(const char *name, const char *value)
{
    size_t at = 0;
    while (at < state.count && strcmp(state.names[at], name) != 0) {
        at++;
    }
    if (at < SETTINGS_MAX) {
        state.count = at == state.count ? at + 1 : state.count;
        strncpy(state.names[at], name, sizeof state.names[at] - 1);
        strncpy(state.values[at], value, sizeof state.values[at] - 1);
    }
}

unsigned vm_config_threads(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t wanted = vm_config_number("PTXVM_THREADS", online > 0 ? (uint64_t)online : 1);
    return (unsigned)(wanted == 0 ? 1 : wanted);
}

bool vm_config_permits(const char *what)
{
    const char *text = vm_config_text("PTXVM_PERMIT");
    return text != NULL && strstr(text, what) != NULL;
}

vm_cluster *vm_config_cluster_take(void)
{
    vm_cluster *taken = NULL;
    pthread_mutex_lock(&state.lock);
    if (state.pooled > 0) {
        taken = state.pool[--state.pooled];
    }
    pthread_mutex_unlock(&state.lock);
    return taken != NULL ? taken : vm_allocate(sizeof(vm_cluster));
}

void vm_config_cluster_give(vm_cluster *cluster)
{
    pthread_mutex_lock(&state.lock);
    if (state.pooled < POOL_MAX) {
        state.pool[state.pooled++] = cluster;
    }
    pthread_mutex_unlock(&state.lock);
}
