/* SPDX-License-Identifier: MIT */
/* A module from its text: parsing, laying out of frames and registers, checks, release. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

static void init_lists(vm_parser *parser)
{
    vm_list_init(&parser->symbols, sizeof(vm_symbol));
    vm_list_init(&parser->functions, sizeof(vm_function));
    vm_list_init(&parser->variables, sizeof(vm_variable));
    vm_list_init(&parser->places, sizeof(vm_place));
    vm_list_init(&parser->files, sizeof(char *));
    vm_list_init(&parser->bank, 1);
    vm_list_init(&parser->insns, sizeof(vm_insn));
    vm_list_init(&parser->operands, sizeof(vm_operand));
    vm_list_init(&parser->constants, 1);
    vm_list_init(&parser->calls, sizeof(vm_call));
    vm_list_init(&parser->arguments, sizeof(vm_argument));
    vm_list_init(&parser->targets, sizeof(int32_t));
    vm_list_init(&parser->labels, sizeof(vm_label));
    vm_list_init(&parser->label_uses, sizeof(vm_label_use));
    vm_list_init(&parser->scope_parents, sizeof(uint32_t));
    vm_list_init(&parser->functions_params, sizeof(vm_parameter));
    vm_list_push(&parser->scope_parents, NULL); /* the root scope is its own parent */
    vm_list_push(&parser->places, NULL);        /* place 0 is unknown */
}

static void free_lists(vm_parser *parser)
{
    vm_list *lists[] = {
        &parser->symbols,   &parser->functions,  &parser->variables,     &parser->places,
        &parser->files,     &parser->bank,       &parser->insns,         &parser->operands,
        &parser->constants, &parser->calls,      &parser->arguments,     &parser->targets,
        &parser->labels,    &parser->label_uses, &parser->scope_parents, &parser->functions_params};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        free(lists[i]->items);
    }
}

static void take_lists(vm_parser *parser)
{
    vm_module *module = parser->module;
    module->function_count = (uint32_t)parser->functions.count;
    module->functions =
        vm_copy(parser->functions.items, parser->functions.count * sizeof(vm_function));
    module->variable_count = (uint32_t)parser->variables.count;
    module->variables =
        vm_copy(parser->variables.items, parser->variables.count * sizeof(vm_variable));
    module->place_count = (uint32_t)parser->places.count;
    module->places = vm_copy(parser->places.items, parser->places.count * sizeof(vm_place));
    module->file_count = (uint32_t)parser->files.count;
    module->files = vm_copy(parser->files.items, parser->files.count * sizeof(char *));
    module->constant_bytes = parser->bank.count;
    module->constant_bank = vm_copy(parser->bank.items, parser->bank.count);
}

/* Calls may nest but not recur: each function has one set of registers for each lane. */
static bool check_calls(const vm_module *module, uint32_t index, vm_problem *problem)
{
    /* Depth first with an explicit stack: state 1 on the path, 2 finished. */
    uint32_t *stack = vm_allocate((module->function_count + 1) * sizeof(uint32_t));
    uint32_t *cursor = vm_allocate((module->function_count + 1) * sizeof(uint32_t));
    uint32_t depth = 1;
    bool fine = true;
    stack[0] = index;
    module->functions[index].callees_mark = 1;
    while (depth > 0 && fine) {
        vm_function *function = &module->functions[stack[depth - 1]];
        if (cursor[depth - 1] < function->call_count) {
            vm_function *callee = &module->functions[function->calls[cursor[depth - 1]++].function];
            if (callee->callees_mark == 1 || !callee->defined) {
                problem->line = callee->line;
                problem->result = VM_INVALID_PTX;
                snprintf(problem->text, sizeof problem->text, "function '%s' %s", callee->name,
                         callee->defined ? "calls itself" : "has no definition");
                fine = false;
            } else if (callee->callees_mark == 0) {
                callee->callees_mark = 1;
                stack[depth] = (uint32_t)(callee - module->functions);
                cursor[depth] = 0;
                depth++;
            }
        } else {
            function->callees_mark = 2;
            depth--;
        }
    }
    free(stack);
    free(cursor);
    return fine;
}

static uint32_t align_up(uint32_t value, uint32_t align)
{
    return (value + align - 1) / align * align;
}

static bool program_lay_out(vm_module *module, vm_problem *problem)
{
    uint32_t registers = 0;
    uint32_t frame = 0;
    for (uint32_t i = 0; i < module->function_count; i++) {
        vm_function *function = &module->functions[i];
        if (function->kernel) {
            registers = registers > function->register_bytes ? registers : function->register_bytes;
            frame = frame > function->frame_bytes ? frame : function->frame_bytes;
            function->shared_bytes += module->shared_common;
            function->dynamic_base = align_up(function->shared_bytes, 16);
        }
        if (function->defined && function->callees_mark == 0 && !check_calls(module, i, problem)) {
            return false;
        }
    }
    registers = align_up(registers, 64);
    frame = align_up(frame, 16);
    for (uint32_t i = 0; i < module->function_count; i++) {
        vm_function *function = &module->functions[i];
        if (!function->kernel) {
            function->register_base = registers;
            function->frame_base = frame;
            registers = align_up(registers + function->register_bytes, 64);
            frame = align_up(frame + function->frame_bytes, 16);
        }
    }
    module->register_bytes = registers;
    module->frame_bytes = frame;
    return true;
}

vm_module *vm_module_parse(const char *text, uint32_t device, uint32_t driver, vm_problem *problem)
{
    vm_parser *parser = vm_allocate(sizeof *parser);
    vm_module *module = vm_allocate(sizeof *module);
    memset(problem, 0, sizeof *problem);
    parser->lexer.at = text;
    parser->lexer.line = 1;
    parser->problem = problem;
    parser->module = module;
    parser->device = device;
    parser->driver = driver;
    init_lists(parser);
    bool fine = vm_parse_module(parser);
    take_lists(parser);
    fine = fine && program_lay_out(module, problem);
    if (!fine) {
        vm_module_free(module);
        module = NULL;
    }
    free_lists(parser);
    free(parser);
    return module;
}

void vm_module_free(vm_module *module)
{
    for (uint32_t i = 0; i < module->function_count; i++) {
        vm_function *function = &module->functions[i];
        free(function->name);
        free(function->insns);
        free(function->hits);
        free(function->operands);
        free(function->constants);
        free(function->calls);
        free(function->arguments);
        free(function->targets);
        free(function->params);
    }
    for (uint32_t i = 0; i < module->variable_count; i++) {
        free(module->variables[i].name);
        free(module->variables[i].initial);
    }
    for (uint32_t i = 0; i < module->file_count; i++) {
        free(module->files[i]);
    }
    free(module->functions);
    free(module->variables);
    free(module->places);
    free(module->files);
    free(module->constant_bank);
    free(module);
}
