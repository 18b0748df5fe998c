/* SPDX-License-Identifier: MIT */
/* From opcode words and operand nodes to an instruction, by the rows of the instruction table.
 *
 * A row's shape names the operands in order:
 *   d0 D0  target register of type 0's size, or at least that size
 *   s0 S0  source of type 0's size, or at least that size; a literal becomes a constant
 *   v0 V0  source or target that may be a vector of `vector` elements of type 0, wider allowed
 *   u U    source or target of 32 bits whatever the types
 *   p P    predicate source (may be negated) or target
 *   R      optional predicate target written after '|'
 *   o      optional predicate source
 *   m      memory operand
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

static const vm_row *const families[] = {
    vm_rows_move,     vm_rows_integer, vm_rows_bits,    vm_rows_float,    vm_rows_approx,
    vm_rows_half,     vm_rows_convert, vm_rows_memory,  vm_rows_atomic,   vm_rows_flow,
    vm_rows_sync,     vm_rows_matrix,  vm_rows_async,   vm_rows_mbarrier, vm_rows_bulk,
    vm_rows_bulk_out, vm_rows_wgmma,   vm_rows_cluster, vm_rows_video};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* ---- operands ---- */

static vm_operand *vm_add_operand(vm_parser *parser, vm_insn *in)
{
    in->operands++;
    return vm_list_push(&parser->operands, NULL);
}

/* A constant lane array of `bytes` per lane; returns its offset. */
static uint32_t vm_add_constant(vm_parser *parser, uint64_t bits, unsigned bytes)
{
    unsigned char lanes[VM_LANES * 8];
    unsigned size = bytes == 0 ? 4 : bytes * VM_LANES;
    for (unsigned i = 0; i < size; i += bytes == 0 ? 4 : bytes) {
        memcpy(lanes + i, &bits, bytes == 0 ? 4 : bytes);
    }
    const unsigned char *known = parser->constants.items;
    for (size_t at = 0; at + size <= parser->constants.count; at += 64) {
        if (memcmp(known + at, lanes, size) == 0) {
            return (uint32_t)at;
        }
    }
    uint32_t offset = (uint32_t)parser->constants.count;
    unsigned padded = (size + 63) / 64 * 64;
    for (unsigned i = 0; i < padded; i++) {
        unsigned char byte = i < size ? lanes[i] : 0;
        vm_list_push(&parser->constants, &byte);
    }
    return offset;
}

/* The bits of a float literal in the type asked for. */
static uint64_t float_bits(const vm_node *node, vm_type type)
{
    if (node->single) {
        if (type != VT_F64) {
            return node->bits;
        }
        float narrow;
        uint32_t word = (uint32_t)node->bits;
        memcpy(&narrow, &word, sizeof narrow);
        double wide = (double)narrow;
        uint64_t bits;
        memcpy(&bits, &wide, sizeof bits);
        return bits;
    }
    if (type == VT_F32 || type == VT_B32) {
        double wide;
        memcpy(&wide, &node->bits, sizeof wide);
        float narrow = (float)wide;
        uint32_t word;
        memcpy(&word, &narrow, sizeof word);
        return word;
    }
    return node->bits;
}

static bool size_fails(vm_parser *parser, const vm_node *node, unsigned wanted)
{
    return vm_parse_fail(parser, VM_INVALID_PTX, "operand '%.*s' has %u bits, wanted %u",
                         (int)node->name.length, node->name.text, node->bytes * 8u, wanted * 8);
}

bool vm_add_source(vm_parser *parser, vm_insn *in, const vm_node *node, vm_type type, bool wider)
{
    unsigned bytes = vm_type_bytes(type);
    vm_operand *operand = vm_add_operand(parser, in);
    if (node->kind == ND_REGISTER || node->kind == ND_SPECIAL) {
        if (node->bytes != bytes && !(wider && node->bytes > bytes)) {
            return size_fails(parser, node, bytes);
        }
        operand->where = node->kind == ND_REGISTER ? VW_REGISTER : VW_SPECIAL;
        operand->offset = node->offset;
        operand->bytes = node->bytes;
        return true;
    }
    if (node->kind == ND_SYMBOL && node->symbol->dynamic) {
        operand->where = VW_SPECIAL;
        operand->offset =
            VM_LANES * 4 * (uint32_t)(bytes == 8 ? VP_DYNAMIC_BASE64 : VP_DYNAMIC_BASE);
        operand->bytes = (uint8_t)bytes;
        return true;
    }
    uint64_t bits = node->bits;
    if (node->kind == ND_FLOAT) {
        bits = float_bits(node, type);
    } else if (node->kind != ND_INTEGER &&
               !(node->kind == ND_SYMBOL && node->symbol->kind == SK_VARIABLE)) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "'%.*s' cannot be a source",
                             (int)node->name.length, node->name.text);
    }
    bytes = bytes < 2 ? 2 : bytes;
    uint32_t offset = vm_add_constant(parser, bits, bytes > 8 ? 8 : bytes);
    operand->where = VW_CONSTANT;
    operand->offset = offset;
    operand->bytes = (uint8_t)bytes;
    return true;
}

bool vm_add_target(vm_parser *parser, vm_insn *in, const vm_node *node, vm_type type, bool wider)
{
    unsigned bytes = vm_type_bytes(type);
    vm_operand *operand = vm_add_operand(parser, in);
    operand->bytes = (uint8_t)(bytes < 2 ? 2 : bytes);
    if (node->kind == ND_SINK) {
        operand->where = VW_SINK;
        return true;
    }
    if (node->kind != ND_REGISTER) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "the target must be a register");
    }
    if (node->bytes != bytes && !(wider && node->bytes > bytes)) {
        return size_fails(parser, node, bytes);
    }
    operand->where = VW_REGISTER;
    operand->offset = node->offset;
    operand->bytes = node->bytes;
    return true;
}

bool vm_add_predicate(vm_parser *parser, vm_insn *in, const vm_node *node, bool target)
{
    vm_operand *operand = vm_add_operand(parser, in);
    operand->negate = node->negate;
    if (target && node->kind == ND_SINK) {
        operand->where = VW_SINK;
        return true;
    }
    if (!target && node->kind == ND_INTEGER) {
        uint32_t offset = vm_add_constant(parser, node->bits != 0 ? VM_ALL_LANES : 0, 0);
        operand->where = VW_CONSTANT;
        operand->offset = offset;
        return true;
    }
    if (node->kind != ND_REGISTER || node->bytes != 0) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "expected a predicate, found '%.*s'",
                             (int)node->name.length, node->name.text);
    }
    operand->where = VW_REGISTER;
    operand->offset = node->offset;
    return true;
}

bool vm_add_memory(vm_parser *parser, vm_insn *in, const vm_node *node)
{
    if (node->kind != ND_MEMORY) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "expected an address in brackets");
    }
    vm_node base = *node;
    base.kind = (vm_node_kind)node->base;
    bool named = base.kind == ND_SYMBOL && !base.symbol->dynamic;
    if (named || base.kind == ND_INTEGER) {
        vm_operand *operand = vm_add_operand(parser, in);
        operand->where = VW_SPECIAL;
        operand->offset = VM_LANES * 4 * (uint32_t)VP_ZERO64;
        operand->bytes = 8;
        operand->displacement = (int64_t)base.bits + node->displacement;
        return true;
    }
    if (base.kind == ND_REGISTER && base.bytes != 4 && base.bytes != 8) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "an address has 32 or 64 bits");
    }
    size_t index = parser->operands.count;
    if (!vm_add_source(parser, in, &base, base.bytes == 8 ? VT_B64 : VT_B32, true)) {
        return false;
    }
    ((vm_operand *)parser->operands.items)[index].displacement = node->displacement;
    return true;
}

/* A scalar, or exactly `vector` elements in braces. */
static bool add_elements(vm_parser *parser, vm_insn *in, size_t *at, vm_type type, bool target)
{
    const vm_node *node = &parser->nodes[*at];
    size_t count = node->kind == ND_VECTOR ? node->children : 1;
    size_t wanted = in->vector == 0 ? 1 : in->vector;
    if (count != wanted) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "%zu elements where %zu are wanted", count,
                             wanted);
    }
    *at += node->kind == ND_VECTOR ? 1 : 0;
    for (size_t i = 0; i < count; i++, (*at)++) {
        const vm_node *element = &parser->nodes[*at];
        if (!(target ? vm_add_target(parser, in, element, type, true)
                     : vm_add_source(parser, in, element, type, true))) {
            return false;
        }
    }
    return true;
}

/* One role of a shape; *at is the next node. */
static bool add_role(vm_parser *parser, vm_insn *in, const char **shape, size_t *at)
{
    char role = *(*shape)++;
    bool typed = strchr("dDsSvV", role) != NULL;
    vm_type type = typed ? (vm_type)in->types[*(*shape)++ - '0'] : VT_B32;
    const vm_node *node = &parser->nodes[*at];
    bool present = *at < parser->node_count;
    if (role == 'R') {
        bool paired = present && node->paired;
        vm_node sink;
        memset(&sink, 0, sizeof sink);
        sink.kind = ND_SINK;
        *at += paired ? 1 : 0;
        return vm_add_predicate(parser, in, paired ? node : &sink, true);
    }
    if (!present && role == 'o') {
        return true;
    }
    if (!present) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "too few operands");
    }
    if (role == 'v' || role == 'V') {
        return add_elements(parser, in, at, type, role == 'V');
    }
    (*at)++;
    switch (role) {
    case 'd':
    case 'D':
    case 'U':
        return vm_add_target(parser, in, node, type, role == 'D');
    case 'm':
        return vm_add_memory(parser, in, node);
    case 'p':
    case 'o':
        return vm_add_predicate(parser, in, node, false);
    case 'P':
        return vm_add_predicate(parser, in, node, true);
    default:
        return vm_add_source(parser, in, node, type, role == 'S');
    }
}

static bool apply_shape(vm_parser *parser, vm_insn *in, const char *shape)
{
    size_t at = 0;
    while (*shape != '\0') {
        if (*shape == ' ') {
            shape++;
        } else if (!add_role(parser, in, &shape, &at)) {
            return false;
        }
    }
    if (at != parser->node_count) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "too many operands");
    }
    return true;
}

/* ---- patterns ---- */

/* Whether word is among the alternatives a|b|c of a pattern element. */
static bool in_alternatives(const char *set, size_t set_length, vm_name word)
{
    size_t start = 0;
    for (size_t i = 0; i <= set_length; i++) {
        if (i == set_length || set[i] == '|') {
            if (i - start == word.length && memcmp(set + start, word.text, word.length) == 0) {
                return true;
            }
            start = i + 1;
        }
    }
    return false;
}

static vm_name next_word(const char **at, const char *end)
{
    vm_name word = {*at, 0};
    while (*at + word.length < end && word.text[word.length] != '.') {
        word.length++;
    }
    *at += word.length + (*at + word.length < end ? 1 : 0);
    return word;
}

static void apply_keyword(vm_insn *in, vm_name word, unsigned *types)
{
    const vm_keyword *key = vm_keyword_find(word.text, word.length);
    if (key == NULL) {
        return;
    }
    switch (key->field) {
    case VK_TYPE:
        if (*types < VM_TYPES) {
            in->types[(*types)++] = (uint8_t)key->value;
        }
        break;
    case VK_SPACE:
        in->space2 = in->space;
        in->space = (uint8_t)key->value;
        break;
    case VK_ROUND:
    case VK_FLAG:
        in->flags |= key->value;
        break;
    case VK_COMPARE:
        in->compare = (uint8_t)key->value;
        break;
    case VK_CHOICE:
        in->choice2 = in->choice;
        in->choice = (uint8_t)key->value;
        break;
    default:
        in->vector = (uint8_t)key->value;
        break;
    }
}

/* Fills `in` from the opcode's words if they fit the pattern. */
static bool match_pattern(const char *pattern, vm_name opcode, vm_insn *in)
{
    const char *end = opcode.text + opcode.length;
    const char *at = opcode.text;
    vm_name word = next_word(&at, end);
    bool pending = true;
    bool first = true;
    unsigned types = 0;
    while (*pattern != '\0') {
        size_t length = strcspn(pattern, ".");
        bool optional = length > 0 && pattern[length - 1] == '?';
        size_t set = optional ? length - 1 : length;
        const bool any = set == 1 && pattern[0] == '*';
        if (pending && (any || in_alternatives(pattern, set, word))) {
            if (!first && !any) {
                apply_keyword(in, word, &types);
            }
            pending = at < end;
            word = next_word(&at, end);
        } else if (!optional) {
            return false;
        }
        first = false;
        pattern += length + (pattern[length] == '.' ? 1 : 0);
    }
    return !pending;
}

static const vm_row *find_row(vm_name opcode, vm_insn *in, uint32_t *number)
{
    uint32_t count = 0;
    for (size_t f = 0; f < FAMILIES; f++) {
        for (const vm_row *row = families[f]; row->pattern != NULL; row++) {
            count++;
            memset(in, 0, sizeof *in);
            if (match_pattern(row->pattern, opcode, in)) {
                *number = count;
                return row;
            }
        }
    }
    return NULL;
}

/* Opcodes repeat thousands of times: the row and the template are kept by their text. */
static const vm_row *find_template(vm_parser *parser, vm_name opcode, vm_insn *in)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < opcode.length; i++) {
        hash = (hash ^ (unsigned char)opcode.text[i]) * 16777619u;
    }
    vm_template *kept = &parser->templates[hash % VM_TEMPLATES];
    if (kept->row != NULL && kept->opcode.length == opcode.length &&
        memcmp(kept->opcode.text, opcode.text, opcode.length) == 0) {
        *in = kept->insn;
        return kept->row;
    }
    uint32_t number = 0;
    const vm_row *row = find_row(opcode, in, &number);
    if (row != NULL) {
        in->row = number;
        in->exec = row->exec;
        in->kernel = row->kernel != NULL ? row->kernel : vm_arith_kernel(row->fast);
        in->sync = (uint8_t)row->sync;
        kept->opcode = opcode;
        kept->row = row;
        kept->insn = *in;
    }
    return row;
}

bool vm_decode(vm_parser *parser, vm_name opcode, int32_t guard, bool guard_not, uint32_t line)
{
    vm_insn in;
    const vm_row *row = find_template(parser, opcode, &in);
    if (row == NULL) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "unknown instruction '%.*s'",
                             (int)opcode.length, opcode.text);
    }
    in.guard = guard;
    in.guard_not = guard_not;
    in.touches = true;
    parser->opcode = opcode;
    in.line = line;
    in.place = parser->place;
    in.first = (uint32_t)parser->operands.count;
    in.target = VM_NO_PC;
    in.join = VM_NO_PC;
    if (row->shape != NULL && !apply_shape(parser, &in, row->shape)) {
        return false;
    }
    if (row->hook != NULL && !row->hook(parser, &in)) {
        return false;
    }
    vm_list_push(&parser->insns, &in);
    return true;
}
