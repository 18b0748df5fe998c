/* SPDX-License-Identifier: MIT */
/* Running single formulas and whole program files through the driver entry points. */
#include "tests/ptxvm/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAME_MAX_BYTES = 40, ITEMS_MAX = 16, CYCLE_MAX = 100, LINE_BYTES = 16384 };

void run_open(void)
{
    void *context = NULL;
    ptxvmSet("PTXVM_QUIET", "1");
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
}

void run_expect(int result, int wanted, const char *what)
{
    if (result != wanted) {
        char text[1024];
        ptxvmReport(text, sizeof text);
        ptxvmRevive();
        fail_msg("%s: result %d, wanted %d; %s", what, result, wanted, text);
    }
}

char *run_read(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        return NULL;
    }
    fseek(in, 0, SEEK_END);
    long size = ftell(in);
    rewind(in);
    char *text = calloc((size_t)size + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, in), size);
    fclose(in);
    return text;
}

uint64_t run_upload(const void *data, size_t bytes)
{
    uint64_t address = 0;
    assert_int_equal(cuMemAlloc_v2(&address, bytes), 0);
    if (data != NULL) {
        assert_int_equal(cuMemcpyHtoD_v2(address, data, bytes), 0);
    }
    return address;
}

void run_download(void *data, uint64_t address, size_t bytes)
{
    assert_int_equal(cuMemcpyDtoH_v2(data, address, bytes), 0);
}

size_t run_bytes(const char *type)
{
    if (strcmp(type, "f16x2") == 0 || strcmp(type, "bf16x2") == 0) {
        return 4;
    }
    size_t digits = strcspn(type, "0123456789");
    return (size_t)strtoul(type + digits, NULL, 10) / 8;
}

/* One operand's share of the text: its register and its load. */
static int add_operand(char *text, size_t size, const char *name, int parameter, const char *type)
{
    if (type == NULL) {
        return 0;
    }
    size_t bytes = run_bytes(type);
    return snprintf(text, size,
                    ".reg .b%zu %%%s;\n ld.param.u64 %%p%s, [k_%d];\n"
                    " mad.wide.u32 %%p%s, %%t, %zu, %%p%s;\n ld.global.b%zu %%%s, [%%p%s];\n",
                    bytes * 8, name, name, parameter, name, bytes, name, bytes * 8, name, name);
}

static int evaluate(const char *text, const run_formula *f, size_t n, void *d,
                    const void *const *inputs)
{
    const char *types[3] = {f->a, f->b, f->c};
    void *module = NULL;
    void *function = NULL;
    int result = cuModuleLoadData(&module, text);
    if (result != 0) {
        return result;
    }
    assert_int_equal(cuModuleGetFunction(&function, module, "k"), 0);
    uint64_t addresses[4] = {run_upload(NULL, n * run_bytes(f->d)), 0, 0, 0};
    void *parameters[4] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3]};
    for (size_t i = 0; i < 3; i++) {
        if (types[i] != NULL) {
            addresses[i + 1] = run_upload(inputs[i], n * run_bytes(types[i]));
        }
    }
    result = cuLaunchKernel(function, 1, 1, 1, (unsigned)n, 1, 1, 0, NULL, parameters, NULL);
    result = result != 0 ? result : cuCtxSynchronize();
    if (result == 0) {
        run_download(d, addresses[0], n * run_bytes(f->d));
    } else {
        char report[1024];
        ptxvmReport(report, sizeof report);
        ptxvmRevive();
        print_message("%s: %s\n", f->text, report);
    }
    for (size_t i = 0; i < 4; i++) {
        cuMemFree_v2(addresses[i]);
    }
    cuModuleUnload(module);
    return result;
}

int run_evaluate(const run_formula *f, size_t n, void *d, const void *a, const void *b,
                 const void *c)
{
    char text[LINE_BYTES];
    size_t bytes = run_bytes(f->d);
    int at =
        snprintf(text, sizeof text,
                 ".version 8.6\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 "
                 "k_0, .param .u64 k_1, .param .u64 k_2, .param .u64 k_3)\n{\n .reg .b64 "
                 "%%pa, %%pb, %%pc, %%pd;\n .reg .b32 %%t, %%x, %%y; .reg .b64 %%z; .reg .b16 "
                 "%%h, %%i;\n .reg .pred %%p, %%q;\n .reg .b%zu %%d;\n mov.u32 %%t, %%tid.x;\n",
                 bytes * 8);
    at += add_operand(text + at, sizeof text - (size_t)at, "a", 1, f->a);
    at += add_operand(text + at, sizeof text - (size_t)at, "b", 2, f->b);
    at += add_operand(text + at, sizeof text - (size_t)at, "c", 3, f->c);
    snprintf(text + at, sizeof text - (size_t)at,
             " %s\n ld.param.u64 %%pd, [k_0];\n mad.wide.u32 %%pd, %%t, %zu, %%pd;\n"
             " st.global.b%zu [%%pd], %%d;\n ret;\n}\n",
             f->text, bytes, bytes * 8);
    const void *inputs[3] = {a, b, c};
    return evaluate(text, f, n, d, inputs);
}

/* ---- program files ---- */

typedef struct buffer {
    char name[NAME_MAX_BYTES];
    char type[8];
    size_t count;
    size_t bytes;
    uint64_t address;
} buffer;

/* A tensor map, with room to align it as the driver wants. */
typedef struct tensor {
    unsigned char room[192];
    char name[NAME_MAX_BYTES];
    int buffer;
} tensor;

typedef struct program {
    const char *path;
    char kernel[NAME_MAX_BYTES];
    unsigned grid[3];
    unsigned block[3];
    unsigned shared;
    unsigned cluster;
    buffer buffers[ITEMS_MAX];
    size_t buffer_count;
    tensor tensors[ITEMS_MAX];
    size_t tensor_count;
    void *argument_map[ITEMS_MAX];
    uint64_t arguments[ITEMS_MAX];
    int argument_buffer[ITEMS_MAX];
    size_t argument_count;
    ptxvm_operand operands[ITEMS_MAX];
    uint32_t operand_count;
    int fails;
    bool refused;
    unsigned line;
    char words[200];
} program;

static buffer *find_buffer(program *p, const char *name)
{
    for (size_t i = 0; i < p->buffer_count; i++) {
        if (strcmp(p->buffers[i].name, name) == 0) {
            return &p->buffers[i];
        }
    }
    fail_msg("%s: no buffer %s", p->path, name);
    return NULL;
}

/* A number of the type, from its written form, as bits. Hexadecimal is always bits. */
static uint64_t number(const char *type, const char *text)
{
    uint64_t bits = 0;
    if (strncmp(text, "0x", 2) == 0) {
        return strtoull(text, NULL, 16);
    }
    if (strcmp(type, "f32") == 0) {
        float value = strtof(text, NULL);
        memcpy(&bits, &value, sizeof value);
    } else if (strcmp(type, "f64") == 0) {
        double value = strtod(text, NULL);
        memcpy(&bits, &value, sizeof value);
    } else {
        bits = (uint64_t)strtoll(text, NULL, 10);
    }
    return bits;
}

/* The i-th value of "iota", of a list whose last value repeats, or behind "cycle" of one that
 * begins again. */
static void fill_buffer(program *p, const buffer *b, char *values)
{
    unsigned char *data = calloc(b->count, b->bytes);
    assert_non_null(data);
    char *word = strtok(values, " \t");
    bool undefined = word != NULL && strcmp(word, "undefined") == 0;
    bool iota = word != NULL && strcmp(word, "iota") == 0;
    uint64_t cycle[CYCLE_MAX];
    size_t period = 0;
    if (word != NULL && strcmp(word, "cycle") == 0) {
        for (word = strtok(NULL, " \t"); word != NULL; word = strtok(NULL, " \t")) {
            assert_true(period < CYCLE_MAX);
            cycle[period++] = number(b->type, word);
        }
    }
    for (size_t i = 0; i < b->count && period != 0; i++) {
        memcpy(data + i * b->bytes, &cycle[i % period], b->bytes);
    }
    for (size_t i = 0; i < b->count && !undefined && period == 0; i++) {
        char text[40];
        snprintf(text, sizeof text, "%zu", i);
        uint64_t bits = iota ? number(b->type, text) : (word != NULL ? number(b->type, word) : 0);
        memcpy(data + i * b->bytes, &bits, b->bytes);
        char *next = iota ? NULL : strtok(NULL, " \t");
        word = next != NULL ? next : word;
    }
    if (!undefined) {
        run_expect(cuMemcpyHtoD_v2(b->address, data, b->count * b->bytes), 0, p->path);
    }
    free(data);
}

static void read_buffer(program *p, char *rest)
{
    buffer *b = &p->buffers[p->buffer_count++];
    int used = 0;
    assert_int_equal(sscanf(rest, "%39s %7s %zu %n", b->name, b->type, &b->count, &used), 3);
    b->bytes = run_bytes(b->type);
    b->address = run_upload(NULL, b->count * b->bytes);
    fill_buffer(p, b, rest + used);
}

static void *tensor_bytes(tensor *t)
{
    return t->room + (64 - (uintptr_t)t->room % 64) % 64;
}

/* map NAME BUFFER TYPE SWIZZLE FILL RANK extents.. strides.. box.., numbers as the driver has them.
 */
static void read_map(program *p, char *rest)
{
    tensor *t = &p->tensors[p->tensor_count++];
    char name[NAME_MAX_BYTES];
    int used = 0, type = 0, swizzle = 0, fill = 0;
    unsigned rank = 0;
    uint64_t numbers[14] = {0};
    uint32_t box[5] = {0};
    const uint32_t steps[5] = {1, 1, 1, 1, 1};
    assert_int_equal(sscanf(rest, "%39s %39s %d %d %d %u %n", t->name, name, &type, &swizzle, &fill,
                            &rank, &used),
                     6);
    const buffer *b = find_buffer(p, name);
    t->buffer = (int)(b - p->buffers);
    char *at = rest + used;
    for (unsigned i = 0; i + 1 < 3 * rank; i++) {
        numbers[i] = strtoull(at, &at, 10);
    }
    for (unsigned i = 0; i < rank; i++) {
        box[i] = (uint32_t)numbers[2 * rank - 1 + i];
    }
    run_expect(cuTensorMapEncodeTiled(tensor_bytes(t), type, rank, (void *)(uintptr_t)b->address,
                                      numbers, numbers + rank, box, steps, 0, swizzle, 0, fill),
               0, p->path);
}

static bool read_map_argument(program *p, const char *name)
{
    for (size_t i = 0; i < p->tensor_count; i++) {
        if (strcmp(p->tensors[i].name, name) == 0) {
            p->argument_map[p->argument_count] = tensor_bytes(&p->tensors[i]);
            p->argument_buffer[p->argument_count++] = p->tensors[i].buffer;
            return true;
        }
    }
    return false;
}

static void read_argument(program *p, char *rest)
{
    char type[NAME_MAX_BYTES] = "";
    char value[NAME_MAX_BYTES] = "";
    int words = sscanf(rest, "%39s %39s", type, value);
    if (words == 1 && read_map_argument(p, type)) {
        return;
    }
    size_t at = p->argument_count++;
    p->argument_buffer[at] = -1;
    if (words == 2) {
        p->arguments[at] = number(type, value);
    } else {
        buffer *b = find_buffer(p, type);
        p->arguments[at] = b->address;
        p->argument_buffer[at] = (int)(b - p->buffers);
    }
}

/* operand NAME r|w|rw [rows row_bytes pitch] */
static void read_operand(program *p, const char *rest)
{
    char name[NAME_MAX_BYTES];
    char access[4];
    unsigned long rows = 1;
    unsigned long row = 0;
    unsigned long pitch = 0;
    int words = sscanf(rest, "%39s %3s %lu %lu %lu", name, access, &rows, &row, &pitch);
    assert_true(words == 2 || words == 5);
    const buffer *b = find_buffer(p, name);
    ptxvm_operand *operand = &p->operands[p->operand_count++];
    for (size_t i = 0; i < p->argument_count; i++) {
        if (p->argument_buffer[i] == (int)(b - p->buffers)) {
            operand->parameter = (uint32_t)i;
        }
    }
    operand->access = (strchr(access, 'r') != NULL ? PTXVM_READ : 0u) |
                      (strchr(access, 'w') != NULL ? PTXVM_WRITE : 0u);
    operand->rows = rows;
    operand->row_bytes = words == 5 ? row : b->count * b->bytes;
    operand->pitch = words == 5 ? pitch : operand->row_bytes;
}

static void read_setup(program *p, char *line)
{
    char word[NAME_MAX_BYTES] = "";
    int used = 0;
    if (sscanf(line, "%39s %n", word, &used) < 1) {
        return;
    }
    char *rest = line + used;
    if (strcmp(word, "kernel") == 0) {
        int words = sscanf(rest, "%39s grid %u block %u shared %u cluster %u", p->kernel,
                           &p->grid[0], &p->block[0], &p->shared, &p->cluster);
        assert_true(words >= 3);
    } else if (strcmp(word, "buffer") == 0) {
        read_buffer(p, rest);
    } else if (strcmp(word, "map") == 0) {
        read_map(p, rest);
    } else if (strcmp(word, "argument") == 0) {
        read_argument(p, rest);
    } else if (strcmp(word, "operand") == 0) {
        read_operand(p, rest);
    } else if (strcmp(word, "set") == 0) {
        char name[NAME_MAX_BYTES];
        char value[NAME_MAX_BYTES];
        assert_int_equal(sscanf(rest, "%39s %39s", name, value), 2);
        ptxvmSet(name, value);
    } else if (strcmp(word, "fails") == 0) {
        assert_true(sscanf(rest, "%d %199[^\n]", &p->fails, p->words) >= 1);
    } else if (strcmp(word, "refused") == 0) {
        p->refused = true;
        assert_true(sscanf(rest, "%u %199[^\n]", &p->line, p->words) >= 1);
    } else if (strcmp(word, "expect") != 0 && strcmp(word, "near") != 0 &&
               strcmp(word, "about") != 0) {
        fail_msg("%s: unknown word %s", p->path, word);
    }
}

/* Whether two f32 numbers differ by at most the tolerance times the wanted one. */
static bool is_near(uint64_t found, uint64_t wanted, double tolerance)
{
    float a;
    float b;
    memcpy(&a, &found, sizeof a);
    memcpy(&b, &wanted, sizeof b);
    return fabs((double)a - (double)b) <= tolerance * fabs((double)b);
}

/* expect NAME values; near NAME tolerance values, of f32; the last value repeats to the end. */
static void check_expectation(program *p, char *line, uint64_t *digest)
{
    char word[NAME_MAX_BYTES] = "";
    char name[NAME_MAX_BYTES] = "";
    int used = 0;
    double tolerance = 0;
    if (sscanf(line, "%39s %39s %n", word, name, &used) < 2) {
        return;
    }
    bool near = strcmp(word, "near") == 0;
    if (!near && strcmp(word, "expect") != 0) {
        return;
    }
    if (near) {
        char *end = NULL;
        tolerance = strtod(line + used, &end);
        used = (int)(end - line);
    }
    const buffer *b = find_buffer(p, name);
    unsigned char *data = calloc(b->count, b->bytes);
    assert_non_null(data);
    run_download(data, b->address, b->count * b->bytes);
    char *value = strtok(line + used, " \t");
    for (size_t i = 0; i < b->count; i++) {
        uint64_t found = 0;
        memcpy(&found, data + i * b->bytes, b->bytes);
        *digest = (*digest ^ found) * 1099511628211u;
        uint64_t wanted = 0;
        uint64_t cut = number(b->type, value);
        memcpy(&wanted, &cut, b->bytes);
        if (strcmp(value, "iota") == 0) {
            char text[40];
            snprintf(text, sizeof text, "%zu", i);
            wanted = number(b->type, text);
        }
        if (found != wanted && strcmp(value, "*") != 0 &&
            !(near && is_near(found, wanted, tolerance))) {
            fail_msg("%s: %s[%zu] is 0x%llx, wanted 0x%llx", p->path, name, i,
                     (unsigned long long)found, (unsigned long long)wanted);
        }
        char *next = strtok(NULL, " \t");
        value = next != NULL ? next : value;
    }
    free(data);
}

typedef void line_action(program *p, char *line, uint64_t *digest);

static void setup_action(program *p, char *line, uint64_t *digest)
{
    (void)digest;
    read_setup(p, line);
}

/* Every //! line of the text, as a copy that may be cut up. */
static void each_line(program *p, const char *text, line_action *action, uint64_t *digest)
{
    for (const char *at = text; (at = strstr(at, "//!")) != NULL;) {
        char line[LINE_BYTES];
        size_t length = strcspn(at + 3, "\n");
        assert_true(length < sizeof line);
        memcpy(line, at + 3, length);
        line[length] = '\0';
        action(p, line, digest);
        at += 3 + length;
    }
}

static void check_refusal(program *p, const char *text)
{
    char log[400] = "";
    int options[2] = {5, 6};
    void *values[2] = {log, (void *)(uintptr_t)sizeof log};
    void *module = NULL;
    char wanted[40];
    snprintf(wanted, sizeof wanted, "line %u:", p->line);
    int result = cuModuleLoadDataEx(&module, text, 2, options, values);
    if (result == 0 || strstr(log, wanted) == NULL || strstr(log, p->words) == NULL) {
        fail_msg("%s: loading gave %d and '%s'; wanted '%s' and '%s'", p->path, result, log, wanted,
                 p->words);
    }
    ptxvmRevive();
}

static void launch(program *p, const char *text, uint64_t *digest)
{
    void *module = NULL;
    void *function = NULL;
    void *parameters[ITEMS_MAX];
    run_expect(cuModuleLoadData(&module, text), 0, p->path);
    run_expect(cuModuleGetFunction(&function, module, p->kernel), 0, p->path);
    for (size_t i = 0; i < p->argument_count; i++) {
        parameters[i] = p->argument_map[i] != NULL ? p->argument_map[i] : &p->arguments[i];
    }
    if (p->shared > 48 * 1024) {
        run_expect(cuFuncSetAttribute(function, 8, (int)p->shared), 0, p->path);
    }
    if (p->operand_count > 0) {
        ptxvmNextOperands(p->operands, p->operand_count);
    }
    abi_attribute cluster = {4, {0}, {p->cluster, 1, 1}};
    abi_launch config = {{p->grid[0], 1, 1}, {p->block[0], 1, 1},     p->shared, NULL,
                         &cluster,           p->cluster > 1 ? 1u : 0u};
    run_expect(cuLaunchKernelEx(&config, function, parameters, NULL), 0, p->path);
    int result = cuCtxSynchronize();
    char report[1024];
    if (p->fails != 0) {
        ptxvmReport(report, sizeof report);
        ptxvmRevive();
        if (result != p->fails || strstr(report, p->words) == NULL) {
            fail_msg("%s: result %d and '%s'; wanted %d and '%s'", p->path, result, report,
                     p->fails, p->words);
        }
    } else {
        run_expect(result, 0, p->path);
        each_line(p, text, check_expectation, digest);
    }
    run_expect(cuModuleUnload(module), 0, p->path);
}

void run_program(const char *path)
{
    char *text = run_read(path);
    assert_non_null(text);
    uint64_t first = 0;
    /* Seeds permute fragments, warps, blocks and streams; the last round uses plain arithmetic. */
    static const char *const seeds[] = {"0", "1", "2", "3", "0"};
    for (int round = 0; round < 5; round++) {
        program p;
        memset(&p, 0, sizeof p);
        p.path = path;
        p.grid[1] = p.grid[2] = p.block[1] = p.block[2] = p.cluster = 1;
        uint64_t digest = 1469598103934665603u;
        ptxvmSet("PTXVM_SEED", seeds[round]);
        ptxvmSet("PTXVM_PORTABLE", round == 4 ? "1" : "0");
        each_line(&p, text, setup_action, &digest);
        if (p.refused) {
            check_refusal(&p, text);
        } else {
            launch(&p, text, &digest);
        }
        for (size_t i = 0; i < p.buffer_count; i++) {
            run_expect(cuMemFree_v2(p.buffers[i].address), 0, path);
        }
        ptxvmSet("PTXVM_PERMIT", "");
        ptxvmSet("PTXVM_DEVICE", "");
        ptxvmSet("PTXVM_DRIVER", "");
        ptxvmSet("PTXVM_BUDGET", "");
        ptxvmSet("PTXVM_THREADS", "");
        ptxvmSet("PTXVM_RACES", "");
        first = round == 0 ? digest : first;
        if (digest != first) {
            fail_msg("%s: seed %s gives other bits", path, seeds[round]);
        }
    }
    ptxvmSet("PTXVM_PORTABLE", "0");
    ptxvmSet("PTXVM_SEED", "0");
    free(text);
}
