/* SPDX-License-Identifier: MIT */
/* What ptxvm says of its device, its version and its errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

/* verifies device-33.ff3f */
static void test_device(void **state)
{
    (void)state;
    int value = 0;
    char name[40];
    size_t bytes = 0;
    void *context = NULL;
    const char *text = NULL;
    assert_int_equal(cuDeviceGetCount(&value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(cuDeviceGet(&value, 0), 0);
    assert_int_equal(cuDeviceGet(&value, 1), 101);
    assert_int_equal(cuDeviceGetName(name, sizeof name, 0), 0);
    assert_string_equal(name, "ptxvm sm_80");
    assert_int_equal(cuDeviceTotalMem_v2(&bytes, 0), 0);
    assert_true(bytes > 0);
    assert_int_equal(cuDeviceGetAttribute(&value, 10, 0), 0);
    assert_int_equal(value, 32);
    assert_int_equal(cuDeviceGetAttribute(&value, 9999, 0), 1);
    assert_int_equal(cuDriverGetVersion(&value), 0);
    assert_int_equal(value, 13000);
    assert_int_equal(cuCtxGetCurrent(&context), 0);
    assert_non_null(context);
    assert_int_equal(cuCtxGetDevice(&value), 0);
    assert_int_equal(cuCtxSetCurrent(name), 201);
    assert_int_equal(cuGetErrorName(700, &text), 0);
    assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(cuGetErrorString(2, &text), 0);
    assert_int_equal(cuGetErrorName(12345, &text), 1);
    assert_null(text);
}

/* Devices are told apart, and a stream of one takes no kernel of another. */
/* verifies device-33.ff3f */
static void test_devices(void **state)
{
    int count = 0;
    abi_uuid first, second;
    void *contexts[2], *current, *stream, *module = NULL, *function = NULL;
    (void)state;
    assert_int_equal(cuCtxGetCurrent(&current), 0);
    ptxvmSet("PTXVM_DEVICES", "2");
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuDeviceGetCount(&count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(cuDeviceGetUuid_v2(&first, 0), 0);
    assert_int_equal(cuDeviceGetUuid_v2(&second, 1), 0);
    assert_memory_not_equal(&first, &second, sizeof first);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuDevicePrimaryCtxRetain(&contexts[i], i), 0);
    }
    assert_ptr_not_equal(contexts[0], contexts[1]);
    assert_int_equal(cuCtxSetCurrent(contexts[1]), 0);
    assert_int_equal(cuCtxGetDevice(&count), 0);
    assert_int_equal(count, 1);
    size_t before, after, total;
    uint64_t address;
    assert_int_equal(cuMemAlloc_v2(&address, 1 << 20), 0);
    assert_int_equal(cuMemGetInfo_v2(&after, &total), 0);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuCtxSetCurrent(contexts[0]), 0);
    assert_int_equal(cuMemGetInfo_v2(&before, &total), 0);
    assert_int_equal(before - after, 1 << 20);
    assert_int_equal(cuModuleLoad(&module, "tests/ptxvm/nvcc/saxpy.ptx"), 0);
    assert_int_equal(cuModuleGetFunction(&function, module, "k"), 0);
    assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), 400);
    assert_int_equal(cuModuleUnload(module), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuMemFree_v2(address), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuDevicePrimaryCtxRelease_v2(i), 0);
    }
    assert_int_equal(cuCtxSetCurrent(current), 0);
    ptxvmSet("PTXVM_DEVICES", "");
    assert_int_equal(cuInit(0), 0);
}

/* Contexts that a program creates, pushes and pops; a module from a file; a device by number. */
/* verifies device-33.ff3f */
static void test_contexts(void **state)
{
    void *context = NULL;
    void *other = NULL;
    void *module = NULL;
    void *function = NULL;
    (void)state;
    assert_int_equal(cuCtxCreate_v2(&context, 0, 1), 101);
    assert_int_equal(cuCtxCreate_v2(&context, 0, 0), 0);
    assert_int_equal(cuCtxPushCurrent_v2(NULL), 201);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&other), 0);
    assert_ptr_equal(other, context);
    assert_int_equal(cuCtxGetCurrent(&other), 0);
    assert_ptr_equal(other, context);
    assert_int_equal(cuModuleLoad(&module, "tests/ptxvm/programs/none.ptx"), 301);
    assert_int_equal(cuModuleLoad(&module, "tests/ptxvm/nvcc/saxpy.ptx"), 0);
    assert_int_equal(cuModuleGetFunction(&function, module, "k"), 0);
    assert_int_equal(cuModuleUnload(module), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&other), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&other), 201);
    assert_int_equal(cuCtxDestroy_v2(NULL), 201);
    assert_int_equal(cuCtxDestroy_v2(context), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
}

/* A module's variables count as device memory; what is no device is said at once. */
/* verifies device-33.ff3f */
static void test_settings(void **state)
{
    static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".global .b8 a[600000];\n.global .b8 b[600000];\n";
    static const struct {
        const char *name;
        int blocks;
    } all[] = {{"80", 32},    {"86", 16},  {"sm_87", 16},       {"sm_89", 24},
               {"sm_90", 32}, {"120", 24}, {"sm_90a:sums", 32}, {"86:sums", 16}};
    void *module = NULL;
    int value = 0;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ptxvmSet("PTXVM_DEVICE", all[i].name);
        assert_int_equal(cuInit(0), 0);
        assert_int_equal(cuDeviceGetAttribute(&value, 106, 0), 0);
        assert_int_equal(value, all[i].blocks);
    }
    static const char *const none_such[] = {"hopper", "sm_75:sums", "sm_90:sum", "sm_90:sums ",
                                            ":sums"};
    for (size_t i = 0; i < sizeof none_such / sizeof none_such[0]; i++) {
        ptxvmSet("PTXVM_DEVICE", none_such[i]);
        assert_int_equal(cuInit(0), 101);
    }
    ptxvmSet("PTXVM_DEVICE", "");
    ptxvmSet("PTXVM_MEMORY", "1000000");
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuModuleLoadData(&module, text), 2);
    ptxvmSet("PTXVM_MEMORY", "2000000");
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuModuleLoadData(&module, text), 0);
    assert_int_equal(cuModuleUnload(module), 0);
    ptxvmSet("PTXVM_MEMORY", "");
    assert_int_equal(cuInit(0), 0);
}

/* What a function says of itself is what its text declares; how many blocks fit follows from it. */
/* verifies device-33.ff3f */
static void test_functions(void **state)
{
    static const char text[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".const .align 4 .f32 table[25] = {1.0};\n"
        ".visible .entry k()\n.maxntid 96, 1, 1\n{\n"
        " .shared .align 4 .b8 box[3072]; .local .align 8 .b8 own[40]; ret;\n}\n"
        ".visible .entry free()\n{ ret; }\n";
    static const int right[10] = {96, 3072, 100, 40, 32, 80, 80, 0, 49152 - 3072, -1};
    void *module = NULL;
    void *function = NULL;
    void *other = NULL;
    int value = 0;
    (void)state;
    assert_int_equal(cuModuleLoadData(&module, text), 0);
    assert_int_equal(cuModuleGetFunction(&function, module, "k"), 0);
    assert_int_equal(cuModuleGetFunction(&other, module, "free"), 0);
    assert_int_equal(cuModuleGetFunction(&other, module, "none"), 500);
    assert_int_equal(cuModuleGetFunction(&other, NULL, "k"), 400);
    assert_int_equal(cuModuleGetGlobal_v2(NULL, NULL, NULL, "table"), 400);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(cuFuncGetAttribute(&value, i, function), 0);
        assert_int_equal(value, right[i]);
    }
    assert_int_equal(cuFuncGetAttribute(&value, 0, other), 0);
    assert_int_equal(value, 1024);
    assert_int_equal(cuFuncGetAttribute(&value, 10, function), 1);
    assert_int_equal(cuFuncGetAttribute(&value, 0, module), 400);
    assert_int_equal(cuFuncSetAttribute(module, 8, 0), 400);
    assert_int_equal(cuFuncSetAttribute(function, 8, -1), 1);
    assert_int_equal(cuFuncSetAttribute(function, 8, 163 * 1024 - 3072 + 1), 1);
    assert_int_equal(cuFuncSetAttribute(function, 9, 101), 1);
    assert_int_equal(cuFuncSetAttribute(function, 9, 100), 0);
    assert_int_equal(cuFuncSetAttribute(function, 8, 163 * 1024 - 3072), 0);
    assert_int_equal(cuFuncGetAttribute(&value, 8, function), 0);
    assert_int_equal(value, 163 * 1024 - 3072);
    assert_int_equal(cuFuncSetCacheConfig(function, 1), 0);
    assert_int_equal(cuFuncSetCacheConfig(NULL, 1), 400);
    /* By threads, by shared memory (one kilobyte more is the system's), and at most 16. */
    static const struct {
        int threads;
        size_t shared;
        int blocks;
    } fits[] = {{1024, 0, 1}, {512, 0, 3}, {96, 0, 16}, {96, 36 * 1024, 4}, {96, 159 * 1024, 1}};
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                             &value, function, fits[i].threads, fits[i].shared),
                         0);
        assert_int_equal(value, fits[i].blocks);
    }
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 0, 0), 1);
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 1025, 0), 1);
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, NULL, 32, 0), 400);
    assert_int_equal(cuModuleGetLoadingMode(&value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(cuModuleUnload(module), 0);
}

/* The primary context, its state and its limits; a device that there is not is refused everywhere.
 */
/* verifies device-33.ff3f */
static void test_primary(void **state)
{
    void *context = NULL;
    unsigned flags = 1;
    int active = 0;
    int least = 1;
    int greatest = 1;
    size_t bytes = 0;
    char name[8];
    abi_uuid uuid;
    (void)state;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), 101);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuDevicePrimaryCtxGetState(0, &flags, &active), 0);
    assert_int_equal(flags, 0);
    assert_int_equal(active, 1);
    assert_int_equal(cuDevicePrimaryCtxGetState(1, &flags, &active), 101);
    assert_int_equal(cuDevicePrimaryCtxSetFlags_v2(0, 4), 0);
    assert_int_equal(cuDevicePrimaryCtxSetFlags_v2(1, 4), 101);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(1), 101);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    assert_int_equal(cuCtxSetLimit(0, 4096), 0);
    assert_int_equal(cuCtxGetLimit(&bytes, 0), 0);
    assert_int_equal(bytes, 1024); /* the stack of a thread, which ptxvm does not change */
    assert_int_equal(cuCtxGetStreamPriorityRange(&least, &greatest), 0);
    assert_true(least == 0 && greatest < 0);
    assert_int_equal(cuDeviceGetName(name, 0, 0), 1);
    assert_int_equal(cuDeviceGetName(name, sizeof name, 0), 0);
    assert_string_equal(name, "ptxvm s");
    assert_int_equal(cuDeviceGetUuid_v2(&uuid, 1), 101);
    assert_int_equal(cuDeviceGetUuid_v2(&uuid, 0), 0);
    assert_memory_equal(uuid.bytes, "ptxvm", 5);
}

/* Attributes that depend on the device: threads, blocks and shared memory of a multiprocessor. */
/* verifies device-33.ff3f */
static void test_attributes(void **state)
{
    static const struct {
        const char *device;
        int threads;
        int shared;
        int clusters;
    } all[] = {
        {"80", 2048, 164, 0}, {"86", 1536, 100, 0}, {"90", 2048, 228, 1}, {"120", 1536, 100, 1}};
    int value = 0;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ptxvmSet("PTXVM_DEVICE", all[i].device);
        assert_int_equal(cuInit(0), 0);
        assert_int_equal(cuDeviceGetAttribute(&value, 39, 0), 0);
        assert_int_equal(value, all[i].threads);
        assert_int_equal(cuDeviceGetAttribute(&value, 81, 0), 0);
        assert_int_equal(value, all[i].shared * 1024);
        assert_int_equal(cuDeviceGetAttribute(&value, 120, 0), 0);
        assert_int_equal(value, all[i].clusters);
        assert_int_equal(cuDeviceGetAttribute(&value, 39, 1), 101);
    }
    ptxvmSet("PTXVM_DEVICE", "80");
    assert_int_equal(cuInit(0), 0);
}

/* cuTensorMapEncodeTiled: what can be described, and each limit one step beyond. */
typedef struct map_call {
    int type;
    uint32_t rank;
    uint64_t address, extents[5], strides[4];
    uint32_t box[5], steps[5];
    int interleave, swizzle, promotion, fill;
} map_call;

static int encode(const map_call *c)
{
    unsigned char room[192];
    void *map = room + (64 - (uintptr_t)room % 64);
    return cuTensorMapEncodeTiled(map, c->type, c->rank, (void *)(uintptr_t)c->address, c->extents,
                                  c->strides, c->box, c->steps, c->interleave, c->swizzle,
                                  c->promotion, c->fill);
}

static void test_maps(void **state)
{
    (void)state;
    const map_call right = {9, 2, 4096, {100, 10}, {208}, {64, 8}, {1, 1}, 0, 3, 2, 1};
    assert_int_equal(encode(&right), 0);
    map_call wrong[16];
    for (unsigned i = 0; i < 16; i++) {
        wrong[i] = right;
    }
    wrong[0].type = 13;
    wrong[1].rank = 0;
    wrong[2].rank = 6;
    wrong[3].address = 4104;
    wrong[4].extents[1] = 0;
    wrong[5].extents[0] = (UINT64_C(1) << 32) + 1;
    wrong[6].strides[0] = 200;
    wrong[7].strides[0] = UINT64_C(1) << 40;
    wrong[8].box[1] = 257;
    wrong[9].box[0] = 4;
    wrong[10].box[0] = 72; /* wider than the pattern */
    wrong[11].steps[0] = 9;
    wrong[12].interleave = 1;
    wrong[13].swizzle = 4;
    wrong[14].promotion = 4;
    wrong[15].type = 1; /* integers have no NaN to fill with */
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(encode(&wrong[i]), 1);
    }
    unsigned char room[192];
    void *aside = room + (64 - (uintptr_t)room % 64) + 16;
    assert_int_equal(cuTensorMapEncodeTiled(aside, 9, 2, (void *)(uintptr_t)4096, right.extents,
                                            right.strides, right.box, right.steps, 0, 3, 2, 1),
                     1);
}

/* ---- Hopper's launches ---- */

static const char *const pair_text =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry first(.param .u64 a) { .reg .b64 %d<2>; ld.param.u64 %d0, [a];\n"
    " griddepcontrol.launch_dependents; st.global.u32 [%d0], 5; ret; }\n"
    ".visible .entry next(.param .u64 a, .param .u32 wait) { .reg .b64 %d<2>; .reg .b32 %r<3>;\n"
    " .reg .pred %p; ld.param.u64 %d0, [a]; ld.param.u32 %r0, [wait];\n"
    " setp.ne.u32 %p, %r0, 0;\n"
    " @%p griddepcontrol.wait;\n"
    " ld.global.u32 %r1, [%d0]; add.u32 %r1, %r1, 1; st.global.u32 [%d0+4], %r1; ret; }\n"
    ".visible .entry over(.param .u64 a, .param .u32 wait) { .reg .b64 %d<2>;\n"
    " ld.param.u64 %d0, [a]; st.global.u32 [%d0], 9; ret; }\n"
    ".visible .entry two(.param .u64 a) .reqnctapercluster 2 { .reg .b64 %d<2>; .reg .b32 %r<3>;\n"
    " ld.param.u64 %d0, [a]; mov.u32 %r0, %cluster_ctarank; mad.wide.u32 %d0, %r0, 4, %d0;\n"
    " mov.u32 %r1, %cluster_nctarank; st.global.u32 [%d0], %r1; ret; }\n";

/* One launch of a block, programmatic where asked, and what the stream then says. */
static int launch_pair(void *module, const char *name, uint64_t address, uint32_t wait,
                       bool programmatic)
{
    void *function = NULL;
    void *parameters[] = {&address, &wait};
    abi_attribute attribute = {6, {0}, {programmatic ? 1 : 0}};
    const abi_launch config = {{1, 1, 1}, {1, 1, 1}, 0, NULL, &attribute, 1};
    assert_int_equal(cuModuleGetFunction(&function, module, name), 0);
    return cuLaunchKernelEx(&config, function, parameters, NULL);
}

/* A kernel that may begin before the one before it has ended touches what that one touches only
 * behind griddepcontrol.wait. */
/* verifies device-20.1ca2 */
static void test_dependents(void **state)
{
    (void)state;
    ptxvmSet("PTXVM_DEVICE", "sm_90");
    void *module = NULL;
    uint64_t address = 0;
    uint32_t found[2] = {0, 0};
    char words[1024];
    ptxvmReport(words, sizeof words); /* of tests before */
    run_expect(cuModuleLoadData(&module, pair_text), 0, "load");
    assert_int_equal(cuMemAlloc_v2(&address, 8), 0);
    for (uint32_t ordinary = 0; ordinary < 2; ordinary++) {
        assert_int_equal(launch_pair(module, "first", address, 0, false), 0);
        assert_int_equal(launch_pair(module, "next", address, 1 - ordinary, ordinary == 0), 0);
        run_expect(cuCtxSynchronize(), 0, "next");
        assert_int_equal(cuMemcpyDtoH_v2(found, address, 8), 0);
        assert_int_equal(found[1], 6);
    }
    static const char *const early[] = {"next", "over"};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(launch_pair(module, "first", address, 0, false), 0);
        assert_int_equal(launch_pair(module, early[i], address, 0, true), 0);
        assert_int_equal(cuCtxSynchronize(), 719);
        ptxvmReport(words, sizeof words);
        ptxvmRevive();
        assert_non_null(strstr(words, "without griddepcontrol.wait"));
    }
    cuMemFree_v2(address);
    cuModuleUnload(module);
    ptxvmSet("PTXVM_DEVICE", "");
}

/* A kernel that says how many blocks make a cluster. */
/* verifies device-33.ff3f */
static void test_clusters(void **state)
{
    (void)state;
    ptxvmSet("PTXVM_DEVICE", "sm_90");
    void *module = NULL, *function = NULL;
    uint64_t address = 0;
    uint32_t found[2] = {0, 0};
    void *parameters[] = {&address};
    run_expect(cuModuleLoadData(&module, pair_text), 0, "load");
    assert_int_equal(cuMemAlloc_v2(&address, 8), 0);
    assert_int_equal(cuModuleGetFunction(&function, module, "two"), 0);
    assert_int_equal(cuLaunchKernel(function, 2, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), 0);
    run_expect(cuCtxSynchronize(), 0, "two");
    assert_int_equal(cuMemcpyDtoH_v2(found, address, 8), 0);
    assert_true(found[0] == 2 && found[1] == 2);
    abi_attribute four = {4, {0}, {4, 1, 1}};
    const abi_launch config = {{4, 1, 1}, {1, 1, 1}, 0, NULL, &four, 1};
    assert_int_equal(cuLaunchKernelEx(&config, function, parameters, NULL), 912);
    cuMemFree_v2(address);
    cuModuleUnload(module);
    ptxvmSet("PTXVM_DEVICE", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device),     cmocka_unit_test(test_devices),
        cmocka_unit_test(test_functions),  cmocka_unit_test(test_primary),
        cmocka_unit_test(test_attributes), cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_settings),   cmocka_unit_test(test_maps),
        cmocka_unit_test(test_dependents), cmocka_unit_test(test_clusters)};
    run_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
