/* SPDX-License-Identifier: MIT */
/* The only place that lists devices: a line each, in the order in which one is taken by itself. */
#include "device/registry.h"

#include <string.h>

#define DEVICES(X)                                                                                 \
    X(host)                                                                                        \
    X(cuda)                                                                                        \
    X(null)

#define DEVICE_DECLARE(name) extern const bp_device_entry bp_device_entry_##name;
DEVICES(DEVICE_DECLARE)

#define DEVICE_ROW(name) &bp_device_entry_##name,
static const bp_device_entry *const entries[] = {DEVICES(DEVICE_ROW)};

const bp_device_entry *bp_device_at(uint32_t index)
{
    return index < sizeof entries / sizeof entries[0] ? entries[index] : NULL;
}

const bp_device_entry *bp_device_named(const char *name, size_t length)
{
    const bp_device_entry *entry;
    for (uint32_t i = 0; (entry = bp_device_at(i)) != NULL; i++) {
        const char *own = entry->device->name;
        if (strlen(own) == length && memcmp(own, name, length) == 0) {
            return entry;
        }
    }
    return NULL;
}

const bp_device_entry *bp_device_entry_of(const bp_device *device)
{
    const bp_device_entry *entry;
    for (uint32_t i = 0; (entry = bp_device_at(i)) != NULL; i++) {
        if (entry->device == device) {
            return entry;
        }
    }
    return bp_device_at(0);
}

bp_device_found bp_device_find(const bp_device *device, const bp_device_options *options)
{
    const bp_device_entry *entry = bp_device_entry_of(device);
    bp_device_found found = {.identity = 0};
    bp_error unused = {.code = BP_OK};
    const bool there = entry->probe != NULL && entry->probe(options, &found, &unused) == BP_OK;
    return there ? found : (bp_device_found){.identity = 0};
}

static void fact_add(bp_device_facts *facts, const bp_device_fact *fact)
{
    if (facts->count < BP_DEVICE_FACTS) {
        facts->fact[facts->count++] = *fact;
    }
}

void bp_fact_count(bp_device_facts *facts, const char *name, uint64_t count)
{
    fact_add(facts, &(bp_device_fact){.name = name, .kind = BP_FACT_COUNT, .count = count});
}

void bp_fact_flag(bp_device_facts *facts, const char *name, bool flag)
{
    fact_add(facts, &(bp_device_fact){.name = name, .kind = BP_FACT_FLAG, .count = flag});
}

void bp_fact_real(bp_device_facts *facts, const char *name, double real)
{
    fact_add(facts, &(bp_device_fact){.name = name, .kind = BP_FACT_REAL, .real = real});
}

void bp_fact_text(bp_device_facts *facts, const char *name, const char *text)
{
    const size_t left = sizeof facts->text - facts->used;
    if (text == NULL || strlen(text) >= left) {
        return;
    }
    char *own = facts->text + facts->used;
    memcpy(own, text, strlen(text) + 1);
    facts->used += (uint32_t)strlen(text) + 1;
    fact_add(facts, &(bp_device_fact){.name = name, .kind = BP_FACT_TEXT, .text = own});
}
