/* SPDX-License-Identifier: MIT */
/* Declarations: symbols, registers, variables with their initialisers, source places. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

void vm_list_init(vm_list *list, size_t item_bytes)
{
    memset(list, 0, sizeof *list);
    list->item_bytes = item_bytes;
}

void *vm_list_push(vm_list *list, const void *item)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 16 : list->capacity * 2;
        list->items = vm_resize(list->items, list->capacity * list->item_bytes);
    }
    unsigned char *at = (unsigned char *)list->items + list->count * list->item_bytes;
    list->count++;
    if (item == NULL) {
        memset(at, 0, list->item_bytes);
    } else {
        memcpy(at, item, list->item_bytes);
    }
    return at;
}

bool vm_parse_fail(vm_parser *parser, int result, const char *format, ...)
{
    vm_problem *problem = parser->problem;
    if (problem->text[0] == '\0') {
        va_list values;
        va_start(values, format);
        vsnprintf(problem->text, sizeof problem->text, format, values);
        va_end(values);
        problem->line = parser->lexer.token.line;
        problem->result = result;
    }
    return false;
}

bool vm_name_is(vm_name name, const char *text)
{
    return strlen(text) == name.length && memcmp(name.text, text, name.length) == 0;
}

char *vm_name_copy(vm_name name)
{
    char *copy = vm_allocate(name.length + 1);
    memcpy(copy, name.text, name.length);
    return copy;
}

vm_name vm_token_name(const vm_token *token)
{
    vm_name name = {token->text, token->length};
    return name;
}

bool vm_token_is(const vm_parser *parser, const char *word)
{
    return parser->lexer.token.kind == TK_WORD &&
           vm_name_is(vm_token_name(&parser->lexer.token), word);
}

bool vm_punct_is(const vm_parser *parser, char punct)
{
    return parser->lexer.token.kind == TK_PUNCT && parser->lexer.token.punct == punct;
}

bool vm_expect(vm_parser *parser, char punct)
{
    if (!vm_punct_is(parser, punct)) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "expected '%c' before '%.*s'", punct,
                             (int)parser->lexer.token.length, parser->lexer.token.text);
    }
    vm_lexer_next(&parser->lexer);
    return true;
}

vm_symbol *vm_symbol_add(vm_parser *parser, vm_name name, vm_symbol_kind kind)
{
    vm_symbol *symbol = vm_list_push(&parser->symbols, NULL);
    symbol->name = name;
    symbol->kind = kind;
    return symbol;
}

/* Splits %r12 into %r and 12; false when there is no number at the end. */
static bool split_family(vm_name name, size_t *stem, uint32_t *index)
{
    size_t at = name.length;
    while (at > 0 && name.text[at - 1] >= '0' && name.text[at - 1] <= '9') {
        at--;
    }
    if (at == name.length || at == 0 || name.length - at > 8) {
        return false;
    }
    *stem = at;
    *index = (uint32_t)strtoul(name.text + at, NULL, 10);
    return true;
}

const vm_symbol *vm_symbol_find(const vm_parser *parser, vm_name name, uint32_t *family_index)
{
    size_t stem = 0;
    uint32_t index = 0;
    bool numbered = family_index != NULL && split_family(name, &stem, &index);
    const vm_symbol *symbols = parser->symbols.items;
    for (size_t i = parser->symbols.count; i > 0; i--) {
        const vm_symbol *symbol = &symbols[i - 1];
        if (symbol->family == 0) {
            if (symbol->name.length == name.length &&
                memcmp(symbol->name.text, name.text, name.length) == 0) {
                return symbol;
            }
        } else if (numbered && symbol->name.length == stem && index < symbol->family &&
                   memcmp(symbol->name.text, name.text, stem) == 0) {
            *family_index = index;
            return symbol;
        }
    }
    return NULL;
}

void vm_scope_open(vm_parser *parser)
{
    if (parser->depth >= VM_SCOPES_MAX) {
        vm_parse_fail(parser, VM_INVALID_PTX, "scopes nested too deep");
        parser->failed = true;
        return;
    }
    parser->scope_symbols[parser->depth++] = parser->symbols.count;
    uint32_t parent = parser->scope;
    parser->scope = (uint32_t)parser->scope_parents.count;
    vm_list_push(&parser->scope_parents, &parent);
}

void vm_scope_close(vm_parser *parser)
{
    parser->depth--;
    parser->symbols.count = parser->scope_symbols[parser->depth];
    parser->scope = ((uint32_t *)parser->scope_parents.items)[parser->scope];
}

bool vm_skip_statement(vm_parser *parser)
{
    while (parser->lexer.token.kind != TK_END && !vm_punct_is(parser, ';')) {
        vm_lexer_next(&parser->lexer);
    }
    return vm_expect(parser, ';');
}

bool vm_parse_type(vm_parser *parser, vm_type *type)
{
    const vm_token *token = &parser->lexer.token;
    const vm_keyword *word = NULL;
    if (token->kind == TK_WORD && token->text[0] == '.') {
        word = vm_keyword_find(token->text + 1, token->length - 1);
    }
    if (word == NULL || word->field != VK_TYPE) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "expected a type, found '%.*s'",
                             (int)token->length, token->text);
    }
    *type = (vm_type)word->value;
    vm_lexer_next(&parser->lexer);
    return true;
}

/* .loc FILE LINE COLUMN [, function_name LABEL [+ N], inlined_at FILE LINE COLUMN] */
bool vm_parse_location(vm_parser *parser)
{
    vm_place place = {0, 0, 0};
    uint64_t numbers[3] = {0, 0, 0};
    vm_lexer_next(&parser->lexer);
    for (int i = 0; i < 3 && parser->lexer.token.kind == TK_INTEGER; i++) {
        numbers[i] = parser->lexer.token.bits;
        vm_lexer_next(&parser->lexer);
    }
    place.file = (uint32_t)numbers[0];
    place.line = (uint32_t)numbers[1];
    while (vm_punct_is(parser, ',')) {
        vm_lexer_next(&parser->lexer);
        bool inlined = vm_token_is(parser, "inlined_at");
        vm_lexer_next(&parser->lexer);
        if (!inlined && parser->lexer.token.kind == TK_WORD) {
            vm_lexer_next(&parser->lexer); /* the label */
        }
        vm_place outer = {0, 0, 0};
        uint32_t values[2] = {0, 0};
        int count = 0;
        while (parser->lexer.token.kind != TK_END && !vm_punct_is(parser, ',')) {
            const vm_token *token = &parser->lexer.token;
            bool part = token->kind == TK_INTEGER || vm_punct_is(parser, '+');
            if (!part || count >= 3) {
                break;
            }
            if (token->kind == TK_INTEGER && count < 2) {
                values[count] = (uint32_t)token->bits;
            }
            count += token->kind == TK_INTEGER;
            vm_lexer_next(&parser->lexer);
        }
        if (inlined) {
            outer.file = values[0];
            outer.line = values[1];
            /* The text names the caller's own place on the line before; its chain is kept. */
            const vm_place *places = parser->places.items;
            for (size_t i = parser->places.count; i > 1; i--) {
                if (places[i - 1].file == outer.file && places[i - 1].line == outer.line) {
                    outer.inlined_at = places[i - 1].inlined_at;
                    break;
                }
            }
            place.inlined_at = (uint32_t)parser->places.count;
            vm_list_push(&parser->places, &outer);
        }
    }
    parser->place = (uint32_t)parser->places.count;
    vm_list_push(&parser->places, &place);
    return true;
}

/* ---- initialisers ---- */

typedef struct initialiser {
    uint8_t *bytes;
    uint64_t size;
    uint64_t at;
    unsigned element;
} initialiser;

static bool store_value(vm_parser *parser, initialiser *target, uint64_t bits)
{
    if (target->at + target->element > target->size) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "more initial values than elements");
    }
    memcpy(target->bytes + target->at, &bits, target->element);
    target->at += target->element;
    return true;
}

/* NAME, NAME+4, generic(NAME), generic(NAME)+4 */
static bool parse_address_value(vm_parser *parser, initialiser *target)
{
    bool generic = vm_token_is(parser, "generic");
    if (generic) {
        vm_lexer_next(&parser->lexer);
        if (!vm_expect(parser, '(')) {
            return false;
        }
    }
    const vm_symbol *symbol = vm_symbol_find(parser, vm_token_name(&parser->lexer.token), NULL);
    if (symbol == NULL || symbol->kind != SK_VARIABLE ||
        (symbol->space != VS_GLOBAL && symbol->space != VS_CONST)) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "unknown address '%.*s' in an initialiser",
                             (int)parser->lexer.token.length, parser->lexer.token.text);
    }
    vm_lexer_next(&parser->lexer);
    if (generic && !vm_expect(parser, ')')) {
        return false;
    }
    uint64_t address = symbol->address;
    if (vm_punct_is(parser, '+')) {
        vm_lexer_next(&parser->lexer);
        address += parser->lexer.token.bits;
        vm_lexer_next(&parser->lexer);
    }
    if (generic && symbol->space == VS_CONST) {
        address += VM_CONST_GENERIC;
    }
    return store_value(parser, target, address);
}

static bool parse_value(vm_parser *parser, initialiser *target, vm_type type)
{
    bool minus = vm_punct_is(parser, '-');
    if (minus) {
        vm_lexer_next(&parser->lexer);
    }
    const vm_token *token = &parser->lexer.token;
    uint64_t bits = token->bits;
    if (token->kind == TK_WORD && !minus) {
        return parse_address_value(parser, target);
    }
    if (token->kind == TK_FLOAT && !token->single) {
        double value;
        memcpy(&value, &bits, sizeof value);
        value = minus ? -value : value;
        if (type == VT_F32) {
            float narrow = (float)value;
            uint32_t word;
            memcpy(&word, &narrow, sizeof word);
            bits = word;
        } else {
            memcpy(&bits, &value, sizeof value);
        }
    } else if (token->kind == TK_INTEGER) {
        bits = minus ? 0 - bits : bits;
    } else if (token->kind != TK_FLOAT) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "unreadable initial value '%.*s'",
                             (int)token->length, token->text);
    }
    vm_lexer_next(&parser->lexer);
    return store_value(parser, target, bits);
}

static bool parse_values(vm_parser *parser, initialiser *target, vm_type type)
{
    int depth = 0;
    do {
        if (vm_punct_is(parser, '{')) {
            depth++;
            vm_lexer_next(&parser->lexer);
        } else if (vm_punct_is(parser, '}')) {
            depth--;
            vm_lexer_next(&parser->lexer);
        } else if (vm_punct_is(parser, ',')) {
            vm_lexer_next(&parser->lexer);
        } else if (!parse_value(parser, target, type)) {
            return false;
        }
    } while (depth > 0 && parser->lexer.token.kind != TK_END);
    return true;
}

bool vm_check_extent(vm_parser *parser, uint64_t count, vm_type type, uint64_t align, uint64_t used,
                     uint64_t limit)
{
    uint64_t element = vm_type_bytes(type);
    if (element == 0) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "type %s has no place in memory",
                             vm_type_name(type));
    }
    if (align == 0 || align > VM_ALIGN_MAX || (align & (align - 1)) != 0) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "alignment %llu is no power of two up to %d",
                             (unsigned long long)align, (int)VM_ALIGN_MAX);
    }
    if (used + align > limit || count > (limit - used - align) / element) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "more than %llu bytes declared in one space",
                             (unsigned long long)limit);
    }
    return true;
}

static uint64_t align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

/* What a space may hold, and what it holds already. */
static uint64_t space_limit(const vm_parser *parser, vm_space space, uint64_t *used)
{
    const vm_function *function = parser->function;
    bool kernel = function != NULL && function->kernel;
    *used = 0;
    switch (space) {
    case VS_LOCAL:
        *used = kernel ? function->local_bytes : parser->module->local_bytes;
        return VM_LOCAL_MAX;
    case VS_PARAM:
        *used = function->frame_bytes;
        return VM_PARAM_MAX;
    case VS_CONST:
        *used = parser->bank.count;
        return VM_CONST_MAX;
    case VS_GLOBAL:
        return VM_GLOBAL_MAX;
    default:
        *used = parser->module->shared_common + (kernel ? function->shared_bytes : 0);
        return VM_SHARED_MAX;
    }
}

/* Gives the variable its address within its space. */
static bool place_variable(vm_parser *parser, vm_symbol *symbol, uint64_t bytes, uint64_t align)
{
    vm_function *function = parser->function;
    bool kernel = function != NULL && function->kernel;
    if (symbol->space == VS_LOCAL) {
        uint64_t base = kernel ? 0 : VM_LOCAL_CALLEE;
        uint32_t *used = kernel ? &function->local_bytes : &parser->module->local_bytes;
        symbol->address = base + align_up(*used, align);
        *used = (uint32_t)(symbol->address - base + bytes);
    } else if (symbol->space == VS_PARAM) {
        uint32_t at = (uint32_t)align_up(function->frame_bytes, align);
        symbol->address = VM_FRAME_BASE + at;
        symbol->in_frame = true;
        function->frame_bytes = at + (uint32_t)bytes;
    } else if (symbol->space == VS_CONST) {
        uint64_t at = align_up(parser->bank.count, align);
        while (parser->bank.count < at + bytes) {
            vm_list_push(&parser->bank, NULL);
        }
        symbol->address = at;
    } else if (symbol->space == VS_GLOBAL) {
        symbol->address = vm_device_reserve(bytes);
    } else if (symbol->dynamic) {
        symbol->address = 0;
    } else if (kernel) {
        uint32_t base = parser->module->shared_common;
        uint64_t at = align_up(base + function->shared_bytes, align);
        symbol->address = at;
        function->shared_bytes = (uint32_t)(at + bytes) - base;
    } else {
        const vm_function *functions = parser->functions.items;
        for (size_t i = 0; i < parser->functions.count; i++) {
            if (functions[i].kernel && functions[i].shared_bytes != 0) {
                return vm_parse_fail(parser, VM_INVALID_PTX,
                                     "shared variable outside a kernel after a kernel's own");
            }
        }
        symbol->address = align_up(parser->module->shared_common, align);
        parser->module->shared_common = (uint32_t)(symbol->address + bytes);
    }
    return true;
}

static uint8_t *initial_bytes(vm_parser *parser, vm_symbol *symbol, uint64_t bytes)
{
    if (symbol->space == VS_CONST) {
        return (uint8_t *)parser->bank.items + symbol->address;
    }
    vm_variable *variable = (vm_variable *)parser->variables.items + symbol->variable;
    if (variable->initial == NULL) {
        variable->initial = vm_allocate(bytes == 0 ? 1 : bytes);
    }
    return variable->initial;
}

/* One declared name: NAME [<N>] [[N][M]] [= initial]. */
static bool parse_declarator(vm_parser *parser, vm_symbol prototype, vm_type type, uint64_t align)
{
    unsigned element = vm_type_bytes(type);
    prototype.name = vm_token_name(&parser->lexer.token);
    vm_lexer_next(&parser->lexer);
    uint64_t count = 1;
    bool open = false;
    while (vm_punct_is(parser, '[')) {
        vm_lexer_next(&parser->lexer);
        if (vm_punct_is(parser, ']')) {
            open = true;
        } else {
            uint64_t factor = parser->lexer.token.bits;
            if (parser->lexer.token.kind != TK_INTEGER ||
                (factor != 0 && count > VM_GLOBAL_MAX / factor)) {
                return vm_parse_fail(parser, VM_INVALID_PTX, "unreadable array size '%.*s'",
                                     (int)parser->lexer.token.length, parser->lexer.token.text);
            }
            count *= factor;
            vm_lexer_next(&parser->lexer);
        }
        if (!vm_expect(parser, ']')) {
            return false;
        }
    }
    uint64_t used = 0;
    uint64_t limit = space_limit(parser, (vm_space)prototype.space, &used);
    if (!vm_check_extent(parser, count, type, align, used, limit)) {
        return false;
    }
    uint64_t bytes = count * element;
    prototype.dynamic = prototype.space == VS_SHARED && (open || prototype.dynamic);
    prototype.bytes = (uint32_t)bytes;
    if (prototype.space == VS_GLOBAL || prototype.space == VS_CONST) {
        prototype.variable = (uint32_t)parser->variables.count;
        vm_variable *variable = vm_list_push(&parser->variables, NULL);
        variable->name = vm_name_copy(prototype.name);
        variable->space = prototype.space;
        variable->bytes = bytes;
    }
    if (!place_variable(parser, &prototype, bytes, align)) {
        return false;
    }
    if (prototype.space == VS_GLOBAL || prototype.space == VS_CONST) {
        vm_variable *variables = parser->variables.items;
        variables[prototype.variable].address = prototype.address;
    }
    vm_list_push(&parser->symbols, &prototype);
    if (vm_punct_is(parser, '=')) {
        vm_lexer_next(&parser->lexer);
        if (prototype.space != VS_GLOBAL && prototype.space != VS_CONST) {
            return vm_parse_fail(parser, VM_INVALID_PTX,
                                 "only .global and .const variables have initial values");
        }
        if (bytes > VM_INITIAL_MAX) {
            return vm_parse_fail(parser, VM_INVALID_PTX, "too large for an initial value");
        }
        initialiser target = {initial_bytes(parser, &prototype, bytes), bytes, 0, element};
        return parse_values(parser, &target, type);
    }
    return true;
}

/* After the space word: [.align N] [.vN] .type declarators ; */
bool vm_parse_variable(vm_parser *parser, vm_space space, bool is_extern)
{
    vm_symbol prototype;
    memset(&prototype, 0, sizeof prototype);
    prototype.kind = SK_VARIABLE;
    prototype.space = (uint8_t)space;
    prototype.dynamic = is_extern;
    vm_lexer_next(&parser->lexer);
    uint64_t align = 0;
    uint64_t vector = 1;
    while (vm_token_is(parser, ".align") || vm_token_is(parser, ".v2") ||
           vm_token_is(parser, ".v4") || vm_token_is(parser, ".attribute")) {
        if (vm_token_is(parser, ".attribute")) {
            return vm_parse_fail(parser, VM_INVALID_PTX, "variable attributes are not supported");
        }
        bool is_align = vm_token_is(parser, ".align");
        vector = is_align ? vector : (uint64_t)(parser->lexer.token.text[2] - '0');
        vm_lexer_next(&parser->lexer);
        if (is_align) {
            align = parser->lexer.token.bits;
            vm_lexer_next(&parser->lexer);
        }
    }
    vm_type type = VT_NONE;
    if (!vm_parse_type(parser, &type)) {
        return false;
    }
    if (vector != 1) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "vector variables are not supported");
    }
    align = align != 0 ? align : vm_type_bytes(type);
    prototype.type = (uint8_t)type;
    if (is_extern && space != VS_SHARED) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "an extern variable has no definition here");
    }
    for (;;) {
        if (!parse_declarator(parser, prototype, type, align)) {
            return false;
        }
        if (!vm_punct_is(parser, ',')) {
            break;
        }
        vm_lexer_next(&parser->lexer);
    }
    return vm_expect(parser, ';');
}
