/* SPDX-License-Identifier: MIT */
/* Parsing at module scope: versions, variables with initialisers, function headers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

static bool parse_integer(vm_parser *parser, uint64_t *value)
{
    if (parser->lexer.token.kind != TK_INTEGER) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "expected a number");
    }
    *value = parser->lexer.token.bits;
    vm_lexer_next(&parser->lexer);
    return true;
}

/* .version 8.0: the lexer reads 8.0 as a float, whose text says it exactly. */
static bool parse_version(vm_parser *parser)
{
    vm_lexer_next(&parser->lexer);
    const vm_token *token = &parser->lexer.token;
    char text[16] = "";
    int major = 0;
    int minor = 0;
    memcpy(text, token->text, token->length < sizeof text ? token->length : sizeof text - 1);
    if (token->kind != TK_FLOAT || sscanf(text, "%2d.%1d", &major, &minor) != 2) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "unreadable .version");
    }
    parser->module->version = (uint32_t)(10 * major + minor);
    /* Toolkit 11.0 spoke 7.0 and each minor release one more; 12.0 spoke 8.0, 13.0 9.0. */
    uint32_t spoken = (parser->driver / 1000 - 4) * 10 + (parser->driver % 1000) / 10;
    if (parser->module->version > spoken) {
        return vm_parse_fail(parser, VM_UNSUPPORTED_PTX,
                             ".version %d.%d is newer than the driver's", major, minor);
    }
    vm_lexer_next(&parser->lexer);
    return true;
}

static bool parse_target(vm_parser *parser)
{
    vm_lexer_next(&parser->lexer);
    vm_token *token = &parser->lexer.token;
    if (token->kind != TK_WORD || strncmp(token->text, "sm_", 3) != 0) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "unreadable .target");
    }
    char *end = NULL;
    parser->module->target = (uint32_t)strtoul(token->text + 3, &end, 10);
    bool specific = *end == 'a' || *end == 'f';
    parser->module->target_specific = specific;
    bool fits = specific ? parser->module->target == parser->device
                         : parser->module->target <= parser->device;
    if (!fits) {
        return vm_parse_fail(parser, VM_NO_BINARY, ".target %.*s does not run on sm_%u",
                             (int)token->length, token->text, parser->device);
    }
    vm_lexer_next(&parser->lexer);
    while (vm_punct_is(parser, ',')) {
        vm_lexer_next(&parser->lexer);
        vm_lexer_next(&parser->lexer);
    }
    return true;
}

static bool parse_file(vm_parser *parser)
{
    uint64_t index = 0;
    vm_lexer_next(&parser->lexer);
    if (!parse_integer(parser, &index) || index > 100000) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "unreadable .file");
    }
    if (parser->lexer.token.kind != TK_STRING) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "expected a file name");
    }
    while (parser->files.count <= index) {
        vm_list_push(&parser->files, NULL);
    }
    char **names = parser->files.items;
    free(names[index]);
    names[index] = vm_name_copy(vm_token_name(&parser->lexer.token));
    vm_lexer_next(&parser->lexer);
    while (vm_punct_is(parser, ',')) { /* time and size */
        vm_lexer_next(&parser->lexer);
        vm_lexer_next(&parser->lexer);
    }
    return true;
}

/* .section NAME { ... } holds debugging data of no concern here. */
static bool skip_section(vm_parser *parser)
{
    while (parser->lexer.token.kind != TK_END && !vm_punct_is(parser, '}')) {
        vm_lexer_next(&parser->lexer);
    }
    return vm_expect(parser, '}');
}

static bool parse_parameter(vm_parser *parser, vm_function *function, uint32_t *offset)
{
    bool is_register = vm_token_is(parser, ".reg");
    if (!is_register && !vm_token_is(parser, ".param")) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "expected a parameter");
    }
    vm_lexer_next(&parser->lexer);
    uint64_t align = 0;
    if (vm_token_is(parser, ".align")) {
        vm_lexer_next(&parser->lexer);
        if (!parse_integer(parser, &align)) {
            return false;
        }
    }
    vm_type type = VT_NONE;
    if (!vm_parse_type(parser, &type)) {
        return false;
    }
    if (vm_token_is(parser, ".ptr")) { /* .ptr .space .align N: a promise not relied on */
        vm_lexer_next(&parser->lexer);
        while (parser->lexer.token.kind == TK_WORD && parser->lexer.token.text[0] == '.') {
            bool aligned = vm_token_is(parser, ".align");
            vm_lexer_next(&parser->lexer);
            if (aligned) {
                vm_lexer_next(&parser->lexer);
            }
        }
    }
    vm_symbol *symbol = vm_symbol_add(parser, vm_token_name(&parser->lexer.token),
                                      is_register ? SK_REGISTER : SK_VARIABLE);
    vm_lexer_next(&parser->lexer);
    uint64_t count = 1;
    if (vm_punct_is(parser, '[')) {
        vm_lexer_next(&parser->lexer);
        if (!parse_integer(parser, &count) || !vm_expect(parser, ']')) {
            return false;
        }
    }
    align = align != 0 ? align : vm_type_bytes(type);
    if ((!is_register || type != VT_PRED) &&
        !vm_check_extent(parser, count, type, align, is_register ? 0 : *offset, VM_PARAM_MAX)) {
        return false;
    }
    uint32_t bytes = (uint32_t)(count * vm_type_bytes(type));
    symbol->type = (uint8_t)type;
    symbol->space = VS_PARAM;
    symbol->bytes = bytes;
    vm_parameter parameter = {0, bytes, (uint32_t)align, is_register};
    if (is_register) {
        symbol->address = function->register_bytes;
        parameter.offset = function->register_bytes;
        function->register_bytes += (bytes < 2 ? 2 : bytes) * VM_LANES;
    } else {
        *offset = (*offset + (uint32_t)align - 1) / (uint32_t)align * (uint32_t)align;
        parameter.offset = *offset;
        symbol->in_frame = !function->kernel;
        symbol->address = *offset + (function->kernel ? 0 : VM_FRAME_BASE);
        *offset += bytes;
    }
    vm_list_push(&parser->functions_params, &parameter);
    return true;
}

static bool parse_parameters(vm_parser *parser, vm_function *function, uint32_t *offset)
{
    if (!vm_expect(parser, '(')) {
        return false;
    }
    while (!vm_punct_is(parser, ')')) {
        if (!parse_parameter(parser, function, offset)) {
            return false;
        }
        if (vm_punct_is(parser, ',')) {
            vm_lexer_next(&parser->lexer);
        }
    }
    return vm_expect(parser, ')');
}

static bool parse_triple(vm_parser *parser, uint32_t triple[3])
{
    for (int i = 0; i < 3; i++) {
        triple[i] = 1;
    }
    for (int i = 0; i < 3; i++) {
        uint64_t value = 0;
        if (!parse_integer(parser, &value)) {
            return false;
        }
        triple[i] = (uint32_t)value;
        if (!vm_punct_is(parser, ',')) {
            break;
        }
        vm_lexer_next(&parser->lexer);
    }
    return true;
}

static bool parse_performance(vm_parser *parser, vm_function *function)
{
    while (parser->lexer.token.kind == TK_WORD && parser->lexer.token.text[0] == '.') {
        bool required = vm_token_is(parser, ".reqntid");
        bool maximum = vm_token_is(parser, ".maxntid");
        bool clustered = vm_token_is(parser, ".reqnctapercluster");
        bool counted = vm_token_is(parser, ".minnctapersm") || vm_token_is(parser, ".maxnreg") ||
                       vm_token_is(parser, ".maxclusterrank");
        bool bare = vm_token_is(parser, ".noreturn") || vm_token_is(parser, ".explicitcluster");
        if (!required && !maximum && !counted && !clustered && !bare) {
            return vm_parse_fail(parser, VM_INVALID_PTX, "unknown directive '%.*s'",
                                 (int)parser->lexer.token.length, parser->lexer.token.text);
        }
        vm_lexer_next(&parser->lexer);
        uint32_t triple[3];
        if (!bare && !parse_triple(parser, triple)) {
            return false;
        }
        if (required) {
            memcpy(function->required_threads, triple, sizeof triple);
        } else if (clustered) {
            function->cluster = triple[0] * triple[1] * triple[2];
        } else if (maximum) {
            function->max_threads = triple[0] * triple[1] * triple[2];
        }
    }
    return true;
}

static vm_function *function_slot(vm_parser *parser, vm_name name)
{
    const vm_symbol *known = vm_symbol_find(parser, name, NULL);
    if (known != NULL && known->kind == SK_FUNCTION) {
        return (vm_function *)parser->functions.items + known->address;
    }
    vm_symbol *symbol = vm_symbol_add(parser, name, SK_FUNCTION);
    symbol->address = parser->functions.count;
    vm_function *function = vm_list_push(&parser->functions, NULL);
    function->name = vm_name_copy(name);
    return function;
}

/* Takes the parameters gathered since `from` into the function. */
static void take_parameters(vm_parser *parser, vm_function *function, uint32_t results)
{
    free(function->params);
    function->param_count = (uint32_t)parser->functions_params.count;
    function->result_count = results;
    function->params = vm_copy(parser->functions_params.items,
                               parser->functions_params.count * sizeof(vm_parameter));
    parser->functions_params.count = 0;
}

static bool parse_function(vm_parser *parser, bool kernel)
{
    vm_lexer_next(&parser->lexer);
    vm_function header;
    memset(&header, 0, sizeof header);
    header.kernel = kernel;
    uint32_t offset = 0;
    vm_scope_open(parser);
    parser->functions_params.count = 0;
    if (vm_punct_is(parser, '(') && !parse_parameters(parser, &header, &offset)) {
        return false;
    }
    uint32_t results = (uint32_t)parser->functions_params.count;
    vm_name name = vm_token_name(&parser->lexer.token);
    header.line = parser->lexer.token.line;
    vm_lexer_next(&parser->lexer);
    if (vm_punct_is(parser, '(') && !parse_parameters(parser, &header, &offset)) {
        return false;
    }
    if (!parse_performance(parser, &header)) {
        return false;
    }
    /* The function's own name belongs to the scope outside its parameters. */
    size_t inner = parser->symbols.count - parser->scope_symbols[parser->depth - 1];
    parser->symbols.count -= inner;
    const vm_symbol *last = parser->symbols.items;
    vm_symbol *kept =
        vm_copy(inner > 0 ? last + parser->symbols.count : NULL, inner * sizeof *kept);
    vm_function *function = function_slot(parser, name);
    char *copied = function->name;
    if (function->defined) {
        free(kept);
        return vm_parse_fail(parser, VM_INVALID_PTX, "function '%s' defined twice", copied);
    }
    free(function->params);
    *function = header;
    function->name = copied;
    take_parameters(parser, function, results);
    function->param_bytes = kernel ? offset : 0;
    function->frame_bytes = kernel ? 0 : offset;
    parser->scope_symbols[parser->depth - 1] = parser->symbols.count;
    for (size_t i = 0; i < inner; i++) {
        vm_list_push(&parser->symbols, &kept[i]);
    }
    free(kept);
    bool fine = true;
    if (vm_punct_is(parser, ';')) {
        vm_lexer_next(&parser->lexer);
    } else {
        size_t index = (size_t)(function - (vm_function *)parser->functions.items);
        vm_function building = *function;
        building.defined = true;
        parser->function = &building;
        fine = vm_expect(parser, '{') && vm_parse_body(parser);
        parser->function = NULL;
        ((vm_function *)parser->functions.items)[index] = building;
    }
    vm_scope_close(parser);
    return fine;
}

static bool is_linking(const vm_parser *parser)
{
    return vm_token_is(parser, ".visible") || vm_token_is(parser, ".weak") ||
           vm_token_is(parser, ".common");
}

static bool parse_directive(vm_parser *parser)
{
    bool is_extern = false;
    while (is_linking(parser) || vm_token_is(parser, ".extern")) {
        is_extern = vm_token_is(parser, ".extern") || is_extern;
        vm_lexer_next(&parser->lexer);
    }
    if (vm_token_is(parser, ".version")) {
        return parse_version(parser);
    }
    if (vm_token_is(parser, ".target")) {
        return parse_target(parser);
    }
    if (vm_token_is(parser, ".address_size")) {
        vm_lexer_next(&parser->lexer);
        uint64_t size = 0;
        return parse_integer(parser, &size) &&
               (size == 64 || vm_parse_fail(parser, VM_INVALID_PTX, "only .address_size 64"));
    }
    if (vm_token_is(parser, ".file")) {
        return parse_file(parser);
    }
    if (vm_token_is(parser, ".section")) {
        return skip_section(parser);
    }
    if (vm_token_is(parser, ".pragma")) {
        return vm_skip_statement(parser);
    }
    if (vm_token_is(parser, ".loc")) {
        return vm_parse_location(parser);
    }
    if (vm_token_is(parser, ".entry") || vm_token_is(parser, ".func")) {
        return parse_function(parser, vm_token_is(parser, ".entry"));
    }
    static const struct {
        const char *word;
        vm_space space;
    } spaces[] = {{".global", VS_GLOBAL}, {".const", VS_CONST}, {".shared", VS_SHARED}};
    for (size_t i = 0; i < 3; i++) {
        if (vm_token_is(parser, spaces[i].word)) {
            return vm_parse_variable(parser, spaces[i].space, is_extern);
        }
    }
    return vm_parse_fail(parser, VM_INVALID_PTX, "unknown directive '%.*s'",
                         (int)parser->lexer.token.length, parser->lexer.token.text);
}

bool vm_parse_module(vm_parser *parser)
{
    vm_lexer_next(&parser->lexer);
    while (parser->lexer.token.kind != TK_END) {
        if (!parse_directive(parser)) {
            return false;
        }
    }
    if (parser->module->version == 0 || parser->module->target == 0) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "no .version or no .target");
    }
    return true;
}
