/* SPDX-License-Identifier: MIT */
/* The memory report outside the arena, and the compiler's log. */
#include "tools/bedplate/app/device_memory.h"
#include "tools/bedplate/app/output.h"

/* False: the device has no memory of its own, or does not answer. */
static bool memory_read(const bp_runtime *runtime, bool with_share, bp_device_memory *memory)
{
    if (runtime->plan == NULL || runtime->device == NULL) {
        return false;
    }
    const bp_device_entry *entry = bp_device_entry_of(runtime->plan->spec.device);
    return entry->memory != NULL && entry->memory(runtime->device, with_share, memory) == BP_OK;
}

void device_memory_step(device_memory *memory, const bp_runtime *runtime)
{
    memory->steps++;
    bp_device_memory now;
    if (memory->steps == DEVICE_MEMORY_STEPS && memory_read(runtime, false, &now)) {
        memory->free_stepped = now.free_now;
    }
}

void device_memory_read(device_memory *memory, bp_runtime *runtime)
{
    memory->known = memory_read(runtime, true, &memory->at);
}

/* What this process has beside its arena; 0: unknown. */
static uint64_t outside(const device_memory *memory, uint64_t arena_bytes)
{
    return memory->at.share > arena_bytes ? memory->at.share - arena_bytes : 0;
}

void device_memory_json(output *out, const device_memory *memory, uint64_t arena_bytes)
{
    if (!memory->known) {
        return;
    }
    uint64_t other = outside(memory, arena_bytes);
    json_open(out, "outside_arena");
    json_count(out, "total_bytes", memory->at.total);
    json_count(out, "free_after_context", memory->at.free_context);
    json_count(out, "free_after_arena", memory->at.free_arena);
    if (memory->at.fabric > 0) {
        json_count(out, "fabric_bytes", memory->at.fabric);
    }
    json_count(out, "free_after_modules_and_graphs", memory->at.free_linked);
    json_count(out, "free_after_seal", memory->at.free_sealed);
    if (memory->free_stepped > 0) {
        json_count(out, "free_after_step_3", memory->free_stepped);
        json_flag(out, "unchanged_by_steps", memory->free_stepped == memory->at.free_sealed);
    }
    if (other > 0) {
        json_count(out, "process_bytes", memory->at.share);
        json_count(out, "driver_bytes", other);
    } else {
        json_text(out, "driver_bytes", "unknown");
    }
    json_close(out);
}

static void put_line(bp_text *text, const char *name, uint64_t bytes)
{
    bp_text_string(text, name);
    bp_text_grouped(text, bytes);
}

void device_memory_text(bp_text *text, const device_memory *memory, uint64_t arena_bytes)
{
    if (!memory->known) {
        return;
    }
    uint64_t other = outside(memory, arena_bytes);
    put_line(text, "\nfree on the device   after context ", memory->at.free_context);
    put_line(text, ", arena ", memory->at.free_arena);
    put_line(text, ", modules and graphs ", memory->at.free_linked);
    put_line(text, ", seal ", memory->at.free_sealed);
    if (memory->free_stepped > 0) {
        put_line(text, ", step 3 ", memory->free_stepped);
    }
    if (memory->at.fabric > 0) {
        put_line(text, "\ntaken by NCCL        ", memory->at.fabric);
        bp_text_string(text, " bytes of the device, as measured");
    }
    bp_text_string(text, "\noutside the arena    ");
    if (other > 0) {
        bp_text_grouped(text, other);
        bp_text_string(text, " bytes of this process are the driver's");
    } else {
        bp_text_string(text, "the driver's share is unknown (libnvidia-ml does not report it)");
    }
}

void device_log_show(const bp_runtime *runtime, bool json)
{
    const bool there = runtime->plan != NULL && runtime->device != NULL;
    const bp_device_entry *entry = bp_device_entry_of(there ? runtime->plan->spec.device : NULL);
    const char *log = there && entry->log != NULL ? entry->log(runtime->device) : "";
    if (log[0] == '\0') {
        return;
    }
    output_print(stderr, "bedplate: the driver's compiler reports:\n%s\n", log);
    if (json) {
        output out;
        output_begin(&out, stdout);
        json_begin(&out);
        json_text(&out, "jit_log", log);
        json_end(&out);
        output_end(&out);
    }
}
