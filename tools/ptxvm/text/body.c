/* SPDX-License-Identifier: MIT */
/* Parsing of function bodies: scopes, labels, registers, instructions and their operands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

static const struct {
    const char *name;
    uint8_t bytes;
    vm_special special;
} specials[] = {{"%tid.x", 4, VP_TID_X},
                {"%tid.y", 4, VP_TID_Y},
                {"%tid.z", 4, VP_TID_Z},
                {"%ntid.x", 4, VP_NTID_X},
                {"%ntid.y", 4, VP_NTID_Y},
                {"%ntid.z", 4, VP_NTID_Z},
                {"%ctaid.x", 4, VP_CTAID_X},
                {"%ctaid.y", 4, VP_CTAID_Y},
                {"%ctaid.z", 4, VP_CTAID_Z},
                {"%nctaid.x", 4, VP_NCTAID_X},
                {"%nctaid.y", 4, VP_NCTAID_Y},
                {"%nctaid.z", 4, VP_NCTAID_Z},
                {"%laneid", 4, VP_LANEID},
                {"%warpid", 4, VP_WARPID},
                {"%nwarpid", 4, VP_NWARPID},
                {"%lanemask_eq", 4, VP_LANEMASK_EQ},
                {"%lanemask_le", 4, VP_LANEMASK_LE},
                {"%lanemask_lt", 4, VP_LANEMASK_LT},
                {"%lanemask_ge", 4, VP_LANEMASK_GE},
                {"%lanemask_gt", 4, VP_LANEMASK_GT},
                {"%dynamic_smem_size", 4, VP_DYNAMIC_SIZE},
                {"%total_smem_size", 4, VP_TOTAL_SHARED},
                {"%gridid", 8, VP_GRIDID},
                {"%cluster_ctarank", 4, VP_CLUSTER_RANK},
                {"%cluster_nctarank", 4, VP_CLUSTER_SIZE},
                {"%cluster_ctaid.x", 4, VP_CLUSTER_RANK},
                {"%cluster_ctaid.y", 4, VP_ZERO},
                {"%cluster_ctaid.z", 4, VP_ZERO},
                {"%cluster_nctaid.x", 4, VP_CLUSTER_SIZE},
                {"%cluster_nctaid.y", 4, VP_ONE},
                {"%cluster_nctaid.z", 4, VP_ONE}};

static bool find_special(vm_name name, vm_node *node)
{
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        if (vm_name_is(name, specials[i].name)) {
            node->kind = ND_SPECIAL;
            node->bytes = specials[i].bytes;
            node->offset = (uint32_t)specials[i].special * VM_LANES * 4;
            return true;
        }
    }
    return false;
}

/* The system's own part of shared memory, which headers that are compiled with -G name although no
 * program uses it: an address that no block has, so that any access is out of bounds. */
static const char reserved[] = "%reserved_smem_offset_";
enum { RESERVED_SHARED = 0xf00000 };

/* What a word means as an operand. */
static bool resolve_word(vm_parser *parser, vm_name name, vm_node *node)
{
    uint32_t index = 0;
    const vm_symbol *symbol = vm_symbol_find(parser, name, &index);
    node->name = name;
    if (vm_name_is(name, "_")) {
        node->kind = ND_SINK;
    } else if (vm_name_is(name, "WARP_SZ")) {
        node->kind = ND_INTEGER;
        node->bits = VM_LANES;
    } else if (symbol != NULL && symbol->kind == SK_REGISTER) {
        unsigned bytes = vm_type_bytes((vm_type)symbol->type);
        unsigned stored = symbol->type == VT_PRED ? 1 : VM_LANES * (bytes < 2 ? 2 : bytes);
        stored = symbol->type == VT_PRED ? 4 : stored;
        node->kind = ND_REGISTER;
        node->bytes = (uint8_t)(symbol->type == VT_PRED ? 0 : (bytes < 2 ? 2 : bytes));
        node->offset = (uint32_t)symbol->address + (symbol->family != 0 ? index * stored : 0);
    } else if (symbol != NULL) {
        node->kind = ND_SYMBOL;
        node->symbol = symbol;
        node->bits = symbol->address;
    } else if (name.length >= sizeof reserved &&
               memcmp(name.text, reserved, sizeof reserved - 1) == 0) {
        node->kind = ND_INTEGER;
        node->bits = RESERVED_SHARED;
    } else if (!find_special(name, node)) {
        if (name.text[0] == '%') {
            return vm_parse_fail(parser, VM_INVALID_PTX, "unknown register '%.*s'",
                                 (int)name.length, name.text);
        }
        node->kind = ND_NAME;
    }
    return true;
}

static vm_node *body_add_node(vm_parser *parser)
{
    if (parser->node_count == VM_NODES_MAX) {
        vm_parse_fail(parser, VM_INVALID_PTX, "too many operands");
        return NULL;
    }
    vm_node *node = &parser->nodes[parser->node_count++];
    memset(node, 0, sizeof *node);
    return node;
}

/* A literal or a word, with an optional sign or negation before it. */
static bool parse_primary(vm_parser *parser, vm_node *node)
{
    bool minus = vm_punct_is(parser, '-');
    node->negate = vm_punct_is(parser, '!');
    if (minus || node->negate) {
        vm_lexer_next(&parser->lexer);
    }
    const vm_token token = parser->lexer.token;
    if (token.kind == TK_INTEGER) {
        node->kind = ND_INTEGER;
        node->bits = minus ? 0 - token.bits : token.bits;
    } else if (token.kind == TK_FLOAT) {
        node->kind = ND_FLOAT;
        node->single = token.single;
        node->bits = token.bits ^ (minus ? (token.single ? 1ull << 31 : 1ull << 63) : 0);
    } else if (token.kind == TK_WORD) {
        if (!resolve_word(parser, vm_token_name(&token), node)) {
            return false;
        }
    } else {
        return vm_parse_fail(parser, VM_INVALID_PTX, "unreadable operand '%.*s'", (int)token.length,
                             token.text);
    }
    vm_lexer_next(&parser->lexer);
    return true;
}

static bool parse_vector(vm_parser *parser, size_t head);

/* [map, {x, y}]: where the box begins, as a vector that follows the memory operand. */
static bool parse_coordinates(vm_parser *parser)
{
    vm_lexer_next(&parser->lexer);
    vm_node *vector = body_add_node(parser);
    if (vector == NULL || !vm_punct_is(parser, '{')) {
        return vm_expect(parser, '{');
    }
    vector->paired = true;
    return parse_vector(parser, (size_t)(vector - parser->nodes));
}

/* [base], [base+4], [base-4], [16]; a base is a register or a variable. */
static bool parse_memory(vm_parser *parser, vm_node *node)
{
    vm_lexer_next(&parser->lexer);
    if (!parse_primary(parser, node)) {
        return false;
    }
    node->base = (uint8_t)node->kind;
    if (node->kind == ND_NAME || node->kind == ND_FLOAT || node->kind == ND_SINK) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "'%.*s' is no address", (int)node->name.length,
                             node->name.text);
    }
    node->kind = ND_MEMORY;
    if (vm_punct_is(parser, '+') || vm_punct_is(parser, '-')) {
        bool minus = vm_punct_is(parser, '-');
        vm_lexer_next(&parser->lexer);
        if (vm_punct_is(parser, '-')) {
            minus = !minus;
            vm_lexer_next(&parser->lexer);
        }
        if (parser->lexer.token.kind != TK_INTEGER) {
            return vm_parse_fail(parser, VM_INVALID_PTX, "expected a displacement");
        }
        int64_t value = (int64_t)parser->lexer.token.bits;
        node->displacement = minus ? -value : value;
        vm_lexer_next(&parser->lexer);
    }
    if (vm_punct_is(parser, ',') && !parse_coordinates(parser)) {
        return false;
    }
    return vm_expect(parser, ']');
}

static bool parse_vector(vm_parser *parser, size_t head)
{
    vm_lexer_next(&parser->lexer);
    parser->nodes[head].kind = ND_VECTOR;
    while (!vm_punct_is(parser, '}')) {
        vm_node *child = body_add_node(parser);
        if (child == NULL || !parse_primary(parser, child)) {
            return false;
        }
        parser->nodes[head].children++;
        if (vm_punct_is(parser, ',')) {
            vm_lexer_next(&parser->lexer);
        }
    }
    return vm_expect(parser, '}');
}

/* NAME+4 and NAME-4, as a value, of a variable. */
static bool add_offset(vm_parser *parser, vm_node *node)
{
    bool minus = vm_punct_is(parser, '-');
    if (!minus && !vm_punct_is(parser, '+')) {
        return true;
    }
    vm_lexer_next(&parser->lexer);
    uint64_t value = parser->lexer.token.bits;
    if (node->kind != ND_SYMBOL || node->symbol->kind != SK_VARIABLE || node->symbol->dynamic ||
        parser->lexer.token.kind != TK_INTEGER) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "no variable and number to add");
    }
    node->bits += minus ? 0 - value : value;
    vm_lexer_next(&parser->lexer);
    return true;
}

static bool vm_parse_operand(vm_parser *parser)
{
    vm_node *node = body_add_node(parser);
    if (node == NULL) {
        return false;
    }
    if (vm_punct_is(parser, '[')) {
        return parse_memory(parser, node);
    }
    if (vm_punct_is(parser, '{')) {
        return parse_vector(parser, parser->node_count - 1);
    }
    if (!parse_primary(parser, node) || !add_offset(parser, node)) {
        return false;
    }
    if (vm_punct_is(parser, '|')) {
        vm_lexer_next(&parser->lexer);
        vm_node *second = body_add_node(parser);
        if (second == NULL || !parse_primary(parser, second)) {
            return false;
        }
        second->paired = true;
    }
    return true;
}

/* call[.uni] [(results),] name [, (arguments)] ; the nodes become: name, results in a vector,
 * arguments in a vector. */
static bool parse_call_list(vm_parser *parser, size_t head)
{
    parser->nodes[head].kind = ND_VECTOR;
    if (!vm_expect(parser, '(')) {
        return false;
    }
    while (!vm_punct_is(parser, ')')) {
        vm_node *child = body_add_node(parser);
        if (child == NULL || !parse_primary(parser, child)) {
            return false;
        }
        parser->nodes[head].children++;
        if (vm_punct_is(parser, ',')) {
            vm_lexer_next(&parser->lexer);
        }
    }
    return vm_expect(parser, ')');
}

static bool parse_call_operands(vm_parser *parser)
{
    vm_node *results = body_add_node(parser);
    results->kind = ND_VECTOR;
    if (vm_punct_is(parser, '(')) {
        if (!parse_call_list(parser, 0) || !vm_expect(parser, ',')) {
            return false;
        }
    }
    vm_node *name = body_add_node(parser);
    if (name == NULL || !parse_primary(parser, name)) {
        return false;
    }
    vm_node *arguments = body_add_node(parser);
    if (arguments == NULL) {
        return false;
    }
    arguments->kind = ND_VECTOR;
    if (vm_punct_is(parser, ',')) {
        vm_lexer_next(&parser->lexer);
        return parse_call_list(parser, (size_t)(arguments - parser->nodes));
    }
    return true;
}

static bool parse_guard(vm_parser *parser, int32_t *guard, bool *guard_not)
{
    vm_lexer_next(&parser->lexer);
    vm_node node;
    memset(&node, 0, sizeof node);
    if (!parse_primary(parser, &node)) {
        return false;
    }
    if (node.kind != ND_REGISTER || node.bytes != 0) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "the guard is no predicate register");
    }
    *guard = (int32_t)node.offset;
    *guard_not = node.negate;
    return true;
}

static bool parse_instruction(vm_parser *parser)
{
    int32_t guard = -1;
    bool guard_not = false;
    if (vm_punct_is(parser, '@') && !parse_guard(parser, &guard, &guard_not)) {
        return false;
    }
    vm_name opcode = vm_token_name(&parser->lexer.token);
    uint32_t line = parser->lexer.token.line;
    if (parser->lexer.token.kind != TK_WORD) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "expected an instruction, found '%.*s'",
                             (int)opcode.length, opcode.text);
    }
    vm_lexer_next(&parser->lexer);
    parser->node_count = 0;
    if (opcode.length >= 4 && memcmp(opcode.text, "call", 4) == 0) {
        if (!parse_call_operands(parser)) {
            return false;
        }
    } else {
        while (!vm_punct_is(parser, ';')) {
            if (!vm_parse_operand(parser)) {
                return false;
            }
            if (!vm_punct_is(parser, ',')) {
                break;
            }
            vm_lexer_next(&parser->lexer);
        }
    }
    if (!vm_punct_is(parser, ';')) {
        return vm_expect(parser, ';');
    }
    bool fine = vm_decode(parser, opcode, guard, guard_not, line);
    vm_lexer_next(&parser->lexer);
    return fine;
}

/* .reg .type %r<10>, %p, ... ; */
static bool parse_registers(vm_parser *parser)
{
    vm_lexer_next(&parser->lexer);
    vm_type type = VT_NONE;
    if (!vm_parse_type(parser, &type)) {
        return false;
    }
    unsigned bytes = vm_type_bytes(type);
    unsigned stored = type == VT_PRED ? 4 : VM_LANES * (bytes < 2 ? 2 : bytes);
    for (;;) {
        vm_symbol *symbol = vm_symbol_add(parser, vm_token_name(&parser->lexer.token), SK_REGISTER);
        symbol->type = (uint8_t)type;
        vm_lexer_next(&parser->lexer);
        uint32_t count = 1;
        if (vm_punct_is(parser, '<')) {
            vm_lexer_next(&parser->lexer);
            count = (uint32_t)parser->lexer.token.bits;
            symbol->family = count == 0 ? 1 : count;
            vm_lexer_next(&parser->lexer);
            if (count > 1u << 20 || !vm_expect(parser, '>')) {
                return vm_parse_fail(parser, VM_INVALID_PTX, "too many registers");
            }
        }
        vm_function *function = parser->function;
        uint32_t base = function->register_bytes;
        base = type == VT_PRED ? base : (base + 63) / 64 * 64;
        if (base + (uint64_t)count * stored > VM_REGISTER_MAX) {
            return vm_parse_fail(parser, VM_INVALID_PTX, "too many registers");
        }
        symbol->address = base;
        function->register_bytes = base + count * stored;
        if (!vm_punct_is(parser, ',')) {
            break;
        }
        vm_lexer_next(&parser->lexer);
    }
    return vm_expect(parser, ';');
}

static bool parse_target_list(vm_parser *parser, vm_name label)
{
    vm_label_use use;
    memset(&use, 0, sizeof use);
    use.scope = parser->scope;
    use.table = true;
    vm_symbol *symbol = vm_symbol_add(parser, label, SK_FUNCTION);
    symbol->address = parser->targets.count;
    symbol->space = VS_REG; /* marks a branch table among names */
    int32_t *head = vm_list_push(&parser->targets, NULL);
    int32_t count = 0;
    size_t head_index = (size_t)(head - (int32_t *)parser->targets.items);
    vm_lexer_next(&parser->lexer);
    while (!vm_punct_is(parser, ';') && parser->lexer.token.kind == TK_WORD) {
        use.name = vm_token_name(&parser->lexer.token);
        use.line = parser->lexer.token.line;
        use.target = (uint32_t)parser->targets.count;
        vm_list_push(&parser->targets, NULL);
        vm_list_push(&parser->label_uses, &use);
        count++;
        vm_lexer_next(&parser->lexer);
        if (vm_punct_is(parser, ',')) {
            vm_lexer_next(&parser->lexer);
        }
    }
    ((int32_t *)parser->targets.items)[head_index] = count;
    return vm_expect(parser, ';');
}

static bool parse_body_directive(vm_parser *parser)
{
    if (vm_token_is(parser, ".reg")) {
        return parse_registers(parser);
    }
    if (vm_token_is(parser, ".loc")) {
        return vm_parse_location(parser);
    }
    if (vm_token_is(parser, ".pragma")) {
        return vm_skip_statement(parser);
    }
    static const struct {
        const char *word;
        vm_space space;
    } spaces[] = {{".local", VS_LOCAL},
                  {".shared", VS_SHARED},
                  {".param", VS_PARAM},
                  {".global", VS_GLOBAL},
                  {".const", VS_CONST}};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        if (vm_token_is(parser, spaces[i].word)) {
            return vm_parse_variable(parser, spaces[i].space, false);
        }
    }
    return vm_parse_fail(parser, VM_INVALID_PTX, "unknown directive '%.*s'",
                         (int)parser->lexer.token.length, parser->lexer.token.text);
}

/* A label is a word right before a colon; the lexer stands behind the word then. */
static bool at_label(const vm_parser *parser)
{
    const char *at = parser->lexer.at;
    while (*at == ' ' || *at == '\t') {
        at++;
    }
    return parser->lexer.token.kind == TK_WORD && *at == ':';
}

static bool parse_label(vm_parser *parser)
{
    vm_label label = {vm_token_name(&parser->lexer.token), parser->scope,
                      (uint32_t)parser->insns.count};
    uint32_t line = parser->lexer.token.line;
    vm_lexer_next(&parser->lexer);
    vm_lexer_next(&parser->lexer);
    if (vm_token_is(parser, ".branchtargets")) {
        return parse_target_list(parser, label.name);
    }
    if (vm_token_is(parser, ".callprototype") || vm_token_is(parser, ".calltargets")) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "indirect calls are not supported");
    }
    const vm_label *labels = parser->labels.items;
    for (size_t i = 0; i < parser->labels.count; i++) {
        if (labels[i].scope == label.scope && labels[i].name.length == label.name.length &&
            memcmp(labels[i].name.text, label.name.text, label.name.length) == 0) {
            parser->lexer.token.line = line;
            return vm_parse_fail(parser, VM_INVALID_PTX, "label '%.*s' defined twice",
                                 (int)label.name.length, label.name.text);
        }
    }
    vm_list_push(&parser->labels, &label);
    return true;
}

static bool parse_statement(vm_parser *parser)
{
    if (vm_punct_is(parser, '{')) {
        vm_lexer_next(&parser->lexer);
        vm_scope_open(parser);
        return !parser->failed;
    }
    if (vm_punct_is(parser, ';')) {
        vm_lexer_next(&parser->lexer);
        return true;
    }
    if (at_label(parser)) {
        return parse_label(parser);
    }
    if (parser->lexer.token.kind == TK_WORD && parser->lexer.token.text[0] == '.') {
        return parse_body_directive(parser);
    }
    return parse_instruction(parser);
}

/* The label of that name seen from a scope: the innermost enclosing definition. */
static const vm_label *find_label(const vm_parser *parser, const vm_label_use *use)
{
    const vm_label *labels = parser->labels.items;
    const uint32_t *parents = parser->scope_parents.items;
    for (uint32_t scope = use->scope;; scope = parents[scope]) {
        for (size_t i = 0; i < parser->labels.count; i++) {
            if (labels[i].scope == scope && labels[i].name.length == use->name.length &&
                memcmp(labels[i].name.text, use->name.text, use->name.length) == 0) {
                return &labels[i];
            }
        }
        if (parents[scope] == scope) {
            return NULL;
        }
    }
}

static bool resolve_labels(vm_parser *parser)
{
    const vm_label_use *uses = parser->label_uses.items;
    for (size_t i = 0; i < parser->label_uses.count; i++) {
        const vm_label *label = find_label(parser, &uses[i]);
        if (label == NULL) {
            parser->lexer.token.line = uses[i].line;
            return vm_parse_fail(parser, VM_INVALID_PTX, "no label '%.*s'",
                                 (int)uses[i].name.length, uses[i].name.text);
        }
        if (uses[i].table) {
            ((int32_t *)parser->targets.items)[uses[i].target] = (int32_t)label->pc;
        } else {
            ((vm_insn *)parser->insns.items)[uses[i].insn].target = (int32_t)label->pc;
        }
    }
    return true;
}

static void *body_take(vm_list *list)
{
    void *copy = vm_copy(list->items, list->count * list->item_bytes);
    list->count = 0;
    return copy;
}

static void finish_function(vm_parser *parser)
{
    vm_function *function = parser->function;
    function->insn_count = (uint32_t)parser->insns.count;
    function->operand_count = (uint32_t)parser->operands.count;
    function->constant_bytes = (uint32_t)parser->constants.count;
    function->call_count = (uint32_t)parser->calls.count;
    function->argument_count = (uint32_t)parser->arguments.count;
    function->target_count = (uint32_t)parser->targets.count;
    function->insns = body_take(&parser->insns);
    function->operands = body_take(&parser->operands);
    function->constants = body_take(&parser->constants);
    function->calls = body_take(&parser->calls);
    function->arguments = body_take(&parser->arguments);
    function->targets = body_take(&parser->targets);
    function->hits = vm_allocate(function->insn_count + 1);
    function->register_bytes = (function->register_bytes + 63) / 64 * 64;
    parser->labels.count = 0;
    parser->label_uses.count = 0;
}

bool vm_parse_body(vm_parser *parser)
{
    uint32_t depth = parser->depth;
    parser->place = 0;
    vm_scope_open(parser);
    while (parser->depth > depth) {
        if (parser->lexer.token.kind == TK_END) {
            return vm_parse_fail(parser, VM_INVALID_PTX, "the text ends inside a function");
        }
        if (vm_punct_is(parser, '}')) {
            vm_lexer_next(&parser->lexer);
            vm_scope_close(parser);
        } else if (!parse_statement(parser)) {
            return false;
        }
    }
    /* Running off the end is a return. */
    vm_name ret = {"ret", 3};
    parser->node_count = 0;
    if (!vm_decode(parser, ret, -1, false, 0) || !resolve_labels(parser)) {
        return false;
    }
    finish_function(parser);
    vm_flow_analyse(parser->function);
    return true;
}
