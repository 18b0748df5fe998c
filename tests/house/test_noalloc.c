/* SPDX-License-Identifier: MIT */
/* After the seal nothing allocates: the allocator and the calls that ask the system for memory are
 * this file's own, and 20 steps, an evaluation and a generation must reach none of them. On a GPU
 * the driver may: what is called from inside its library is counted apart, and told. */
/* A program of its own (tests/suite.sh). */
#define _GNU_SOURCE 1 /* syscall */
#include <execinfo.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/own_allocator.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/bare_fixture.h"

#define MAPS_MOST  65536
#define CUDA_STEPS 2

#define FRAMES_MOST 64

/* Calls seen on any thread while it is on; of them, those with the driver among their callers. */
static atomic_bool watching;
static atomic_int seen;
static atomic_int seen_inside;

/* Where the driver's library lies; empty while there is none. */
static uintptr_t driver_begin;
static uintptr_t driver_end;

#if OWN_ALLOCATOR
/* This file and the driver have the tables that a walk up the stack needs; the program's have none,
 * which ends the walk where it no longer matters. */
static bool from_driver(void)
{
    void *frames[FRAMES_MOST];
    int count = driver_end > driver_begin ? backtrace(frames, FRAMES_MOST) : 0;
    for (int i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)frames[i];
        if (address >= driver_begin && address < driver_end) {
            return true;
        }
    }
    return false;
}

static void note(void)
{
    if (atomic_load(&watching)) {
        atomic_fetch_add(from_driver() ? &seen_inside : &seen, 1);
    }
}

/* glibc's own functions under the names that they keep when they are interposed. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);
void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
void *mremap(void *address, size_t from, size_t to, int flags, ...);

void *malloc(size_t bytes)
{
    note();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    note();
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    note();
    return __libc_realloc(memory, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    note();
    *memory = __libc_memalign(alignment, bytes);
    return *memory == NULL ? 12 : 0;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    note();
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    note();
    return __libc_memalign(alignment, bytes);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    note();
    return (void *)(intptr_t)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

void *mremap(void *address, size_t from, size_t to, int flags, ...)
{
    note();
    return (void *)(intptr_t)syscall(SYS_mremap, address, from, to, flags, NULL);
}

int brk(void *address)
{
    note();
    return (void *)(intptr_t)syscall(SYS_brk, address) == address ? 0 : -1;
}

/* Only ever reached while it is watched for: malloc inside glibc has its own way to the system. */
void *sbrk(intptr_t bytes)
{
    note();
    (void)bytes;
    return (void *)-1;
}
#endif

/* What the system has given this process: the text of /proc/self/maps, read without buffering. */
typedef struct memory_map {
    char text[MAPS_MOST];
    size_t length;
} memory_map;

static void read_maps(memory_map *map)
{
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    static char buffer[4096];
    setvbuf(file, buffer, _IOFBF, sizeof buffer);
    map->length = fread(map->text, 1, sizeof map->text, file);
    assert_true(map->length > 0 && map->length < sizeof map->text);
    fclose(file);
}

/* The system gives the stack its pages as they are touched: not in the steps, whatever a build's
 * frames. Called by a pointer, so that no caller's frame holds what it touches. */
static void touch_stack(void)
{
    volatile char deep[256 << 10];
    for (size_t i = 0; i < sizeof deep; i += 1024) {
        deep[i] = 0;
    }
}
static void (*volatile touch)(void) = touch_stack;

static void *aligned(uint64_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, BP_ARENA_ALIGNMENT, (size_t)bytes), 0);
    return memory;
}

static bp_status generate(bp_runtime *runtime)
{
    const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6};
    BP_TRY(bp_runtime_restart(runtime));
    BP_TRY(bp_runtime_accept(runtime, prompt, 8));
    return bp_runtime_accept(runtime, prompt, 1);
}

/* verifies run-2.fd4a */
static void steps_allocate_nothing(void **state)
{
    (void)state;
    static trial t;
    static memory_map before;
    static memory_map after;
    bp_spec spec = bare_fixture_spec();
    spec.device_options.threads = 3;
    spec.device_options.variant = NULL;
    uint64_t bytes = plan_bytes(&spec);
    void *host = aligned(bytes);
    assert_int_equal(bare_fixture_plan(&t, &spec, host, bytes), BP_OK);
    void *arena = aligned(t.plan.report.arena_bytes);
    assert_int_equal(bare_fixture_open(&t, arena, t.plan.report.arena_bytes), BP_OK);

    double loss = 0.0;
    double held_out = 0.0;
    uint64_t targets = 0;
    touch();
    read_maps(&before);
    atomic_store(&seen, 0);
    atomic_store(&watching, true);
    bp_status trained = bare_fixture_train(&t, &loss);
    bp_status evaluated = bare_fixture_evaluate(&t, 2, &held_out, &targets);
    bp_status generated = generate(&t.runtime);
    atomic_store(&watching, false);
    read_maps(&after);

    assert_int_equal(trained, BP_OK);
    assert_int_equal(evaluated, BP_OK);
    assert_int_equal(generated, BP_OK);
    assert_int_equal(atomic_load(&seen), 0);
    /* Nor did the system give anything by a way that is not watched. */
    assert_int_equal(before.length, after.length);
    assert_memory_equal(before.text, after.text, before.length);
    assert_true(t.runtime.steps == TRIAL_STEPS);
    assert_true(targets > 0);
    bp_runtime_close(&t.runtime);
    free(arena);
    free(host);
}

static int find_driver(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (strstr(info->dlpi_name, "libcuda.so") == NULL) {
        return 0;
    }
    for (uint16_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        bool counts = part->p_type == PT_LOAD;
        driver_begin = counts && (driver_end == 0 || begin < driver_begin) ? begin : driver_begin;
        driver_end = counts && end > driver_end ? end : driver_end;
    }
    return 1;
}

/* Entry points that take memory, make handles or compile: none is called by a step. */
static const char *const takers[] = {
    "cuMemAlloc_v2",       "cuMemAllocHost_v2",       "cuMemHostAlloc",
    "cuModuleLoadDataEx",  "cuStreamCreate",          "cuGraphInstantiateWithFlags",
    "cuEventCreate",       "cuStreamBeginCapture_v2", "cuModuleLoadData",
    "cuModuleGetFunction", "cuGraphUpload",           "cuDevicePrimaryCtxRetain"};

static int calls_of_takers(const instrument *on)
{
    int calls = 0;
    for (size_t i = 0; on->calls != NULL && i < sizeof takers / sizeof takers[0]; i++) {
        calls += on->calls(takers[i]);
    }
    return calls;
}

static bp_status cuda_work(trial *t)
{
    double held_out = 0.0;
    uint64_t targets = 0;
    for (uint32_t i = 0; i < CUDA_STEPS; i++) {
        bp_outcome outcome;
        BP_TRY(bp_runtime_step(&t->runtime, &t->feed, &outcome));
    }
    BP_TRY(bare_fixture_evaluate(t, 2, &held_out, &targets));
    return generate(&t->runtime);
}

static void steps_on_cuda(const instrument *on, const char *variant)
{
    static trial t;
    bp_spec spec = bare_fixture_spec();
    spec.device = &bp_device_cuda;
    spec.device_options = (bp_device_options){.threads = 1, .variant = variant};
    uint64_t bytes = plan_bytes(&spec);
    void *host = aligned(bytes);
    assert_int_equal(bare_fixture_plan(&t, &spec, host, bytes), BP_OK);
    assert_int_equal(bare_fixture_open(&t, NULL, t.plan.report.arena_bytes), BP_OK);
    assert_int_equal(dl_iterate_phdr(find_driver, NULL), 1);
    void *warm[2];
    (void)backtrace(warm, 2); /* loads what it needs */
    bp_device_memory memory;
    int before = calls_of_takers(on);
    atomic_store(&seen, 0);
    atomic_store(&seen_inside, 0);
    atomic_store(&watching, true);
    bp_status worked = cuda_work(&t);
    atomic_store(&watching, false);
    assert_int_equal(worked, BP_OK);
    assert_int_equal(calls_of_takers(on), before);
    assert_int_equal(bp_cuda_memory_read(t.runtime.device, false, &memory), BP_OK);
    assert_true(memory.free_now == memory.free_sealed);
    printf("%s: %d allocations inside the driver library, %d elsewhere\n",
           t.plan.spec.device->variant(t.runtime.device), atomic_load(&seen_inside),
           atomic_load(&seen));
    assert_int_equal(atomic_load(&seen), 0);
    bp_runtime_close(&t.runtime);
    free(host);
}

/* verifies run-2.fd4a */
static void steps_on_cuda_allocate_nothing(void **state)
{
    (void)state;
    instrument on;
    if (!fake_driver_load(&on)) {
        return;
    }
    steps_on_cuda(&on, NULL);
    steps_on_cuda(&on, "plain");
}

/* The watch itself works: on this thread and for every name. */
/* verifies run-2.fd4a */
static void allocations_are_seen(void **state)
{
    (void)state;
    if (!OWN_ALLOCATOR) {
        printf("skipped: a sanitizer has the allocator\n");
        return;
    }
    void *memory[3] = {NULL, NULL, NULL};
    atomic_store(&seen, 0);
    atomic_store(&watching, true);
    memory[0] = malloc(100);
    memory[1] = calloc(10, 10);
    memory[0] = realloc(memory[0], 2000);
    int status = posix_memalign(&memory[2], 64, 100);
    atomic_store(&watching, false);
    assert_int_equal(atomic_load(&seen), 4);
    assert_int_equal(status, 0);
    for (int i = 0; i < 3; i++) {
        free(memory[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_seen),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(steps_on_cuda_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
