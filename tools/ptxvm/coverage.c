/* SPDX-License-Identifier: MIT */
/* Coverage of the .cu sources (an lcov file) and of PTX instructions, from each instruction's hit
 * byte. PTXVM_COVERAGE=prefix writes prefix.<pid>.info and prefix.<pid>.ptx at the process's end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/ptxvm/driver/driver.h"

typedef struct line_hit {
    char *file;
    uint32_t line;
    uint32_t instructions;
    uint32_t hits;
} line_hit;

/* One function of a module; the same one loaded again adds to its hits. Functions of one name in
 * two modules are told apart by where in the text they begin. */
typedef struct code_hit {
    char *function;
    uint32_t count;
    uint32_t *lines; /* of the PTX text; 0: the return that running off the end amounts to */
    uint8_t *hits;
} code_hit;

/* Counts outlive modules; one set for each process, guarded by the driver's lock. */
static struct {
    line_hit *lines;
    size_t line_count;
    code_hit *functions;
    size_t function_count;
} state;

static char *copy_text(const char *text)
{
    return vm_copy(text, strlen(text) + 1);
}

/* Headers of the toolkit and the system are not the project's to cover. */
static bool is_system(const char *file)
{
    return strncmp(file, "/usr/", 5) == 0 || strstr(file, "/include/") != NULL;
}

static void count_line(const char *file, uint32_t line, bool hit)
{
    if (file == NULL || line == 0 || is_system(file)) {
        return;
    }
    for (size_t i = state.line_count; i > 0; i--) {
        line_hit *at = &state.lines[i - 1];
        if (at->line == line && strcmp(at->file, file) == 0) {
            at->instructions++;
            at->hits += hit ? 1 : 0;
            return;
        }
    }
    state.lines = vm_resize(state.lines, (state.line_count + 1) * sizeof(line_hit));
    line_hit made = {copy_text(file), line, 1, hit ? 1 : 0};
    state.lines[state.line_count++] = made;
}

/* An inlined instruction counts for its own line and for each place it was inlined at. */
static void count_places(const vm_module *module, uint32_t place, bool hit)
{
    for (int depth = 0; place != 0 && depth < 8; depth++) {
        const vm_place *at = &module->places[place];
        const char *file = at->file < module->file_count ? module->files[at->file] : NULL;
        count_line(file, at->line, hit);
        place = at->inlined_at;
    }
}

static code_hit *find_function(const vm_function *function)
{
    for (size_t i = 0; i < state.function_count; i++) {
        code_hit *at = &state.functions[i];
        if (at->count == function->insn_count && strcmp(at->function, function->name) == 0 &&
            at->lines[0] == function->insns[0].line) {
            return at;
        }
    }
    uint32_t count = function->insn_count;
    state.functions = vm_resize(state.functions, (state.function_count + 1) * sizeof(code_hit));
    code_hit *made = &state.functions[state.function_count++];
    made->function = copy_text(function->name);
    made->count = count;
    made->lines = vm_allocate(count * sizeof(uint32_t));
    made->hits = vm_allocate(count);
    for (uint32_t i = 0; i < count; i++) {
        made->lines[i] = function->insns[i].line;
    }
    return made;
}

void dr_coverage_take(const vm_module *module)
{
    if (vm_config_text("PTXVM_COVERAGE") == NULL) {
        return;
    }
    for (uint32_t f = 0; f < module->function_count; f++) {
        const vm_function *function = &module->functions[f];
        code_hit *code = find_function(function);
        for (uint32_t i = 0; i < function->insn_count; i++) {
            bool hit = function->hits[i] != 0;
            code->hits[i] |= hit ? 1 : 0;
            if (code->lines[i] != 0) {
                count_places(module, function->insns[i].place, hit);
            }
        }
    }
}

static int compare_lines(const void *a, const void *b)
{
    const line_hit *x = a;
    const line_hit *y = b;
    int files = strcmp(x->file, y->file);
    return files != 0 ? files : (x->line > y->line) - (x->line < y->line);
}

static bool write_lines(const char *path)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return false;
    }
    if (state.line_count > 0) {
        qsort(state.lines, state.line_count, sizeof(line_hit), compare_lines);
    }
    for (size_t i = 0; i < state.line_count; i++) {
        const line_hit *at = &state.lines[i];
        bool opens = i == 0 || strcmp(at->file, at[-1].file) != 0;
        bool closes = i + 1 == state.line_count || strcmp(at->file, at[1].file) != 0;
        if (opens) {
            fprintf(out, "TN:\nSF:%s\n", at->file);
        }
        fprintf(out, "DA:%u,%u\n", at->line, at->hits);
        if (closes) {
            fprintf(out, "end_of_record\n");
        }
    }
    return fclose(out) == 0;
}

static bool write_code(const char *path)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return false;
    }
    for (size_t i = 0; i < state.function_count; i++) {
        const code_hit *at = &state.functions[i];
        uint32_t total = 0;
        uint32_t hits = 0;
        for (uint32_t k = 0; k < at->count; k++) {
            total += at->lines[k] != 0 ? 1 : 0;
            hits += at->lines[k] != 0 && at->hits[k] != 0 ? 1 : 0;
        }
        fprintf(out, "%s %u of %u, missed lines:", at->function, hits, total);
        for (uint32_t k = 0; k < at->count; k++) {
            if (at->lines[k] != 0 && at->hits[k] == 0) {
                fprintf(out, " %u", at->lines[k]);
            }
        }
        fprintf(out, " from %u\n", at->lines[0]);
    }
    return fclose(out) == 0;
}

static int dr_coverage_write(void)
{
    const char *prefix = vm_config_text("PTXVM_COVERAGE");
    if (prefix == NULL) {
        return VM_OK;
    }
    char path[512];
    snprintf(path, sizeof path, "%s.%ld.info", prefix, (long)getpid());
    bool fine = write_lines(path);
    snprintf(path, sizeof path, "%s.%ld.ptx", prefix, (long)getpid());
    fine = write_code(path) && fine;
    return fine ? VM_OK : 999;
}

int ptxvmWriteCoverage(void)
{
    pthread_mutex_lock(&dr_state.lock);
    for (const dr_module *at = dr_state.modules; at != NULL; at = at->next) {
        dr_coverage_take(at->program);
    }
    int result = dr_coverage_write();
    pthread_mutex_unlock(&dr_state.lock);
    return result;
}

static void write_at_end(void) __attribute__((destructor));
static void write_at_end(void)
{
    ptxvmWriteCoverage();
}
