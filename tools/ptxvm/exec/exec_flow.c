/* SPDX-License-Identifier: MIT */
/* Branches, calls, returns, exits, traps: what the decoder has to know of them. */
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

static bool hook_branch(vm_parser *parser, vm_insn *in)
{
    if (parser->node_count != 1 || parser->nodes[0].kind != ND_NAME) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "a branch takes one label");
    }
    vm_label_use use;
    memset(&use, 0, sizeof use);
    use.name = parser->nodes[0].name;
    use.scope = parser->scope;
    use.insn = (uint32_t)parser->insns.count;
    use.line = in->line;
    vm_list_push(&parser->label_uses, &use);
    return true;
}

/* brx.idx index, table */
static bool hook_indexed(vm_parser *parser, vm_insn *in)
{
    const vm_node *nodes = parser->nodes;
    if (parser->node_count != 2 || nodes[1].kind != ND_SYMBOL ||
        nodes[1].symbol->kind != SK_FUNCTION || nodes[1].symbol->space != VS_REG) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "brx.idx takes an index and a table");
    }
    in->target = (int32_t)nodes[1].symbol->address;
    return vm_add_source(parser, in, &nodes[0], VT_U32, false);
}

/* One operand of a call: a .param variable of this function, or a register or literal. */
static bool add_argument(vm_parser *parser, const vm_node *node, const vm_parameter *parameter,
                         bool result)
{
    vm_argument argument;
    memset(&argument, 0, sizeof argument);
    bool variable = node->kind == ND_SYMBOL && node->symbol->space == VS_PARAM;
    if (variable && node->symbol->in_frame) {
        if (node->symbol->bytes != parameter->bytes) {
            return vm_parse_fail(parser, VM_INVALID_PTX, "an argument of %u bytes, wanted %u",
                                 node->symbol->bytes, parameter->bytes);
        }
        argument.in_frame = true;
        argument.frame = (uint32_t)(node->symbol->address - VM_FRAME_BASE);
    } else {
        vm_insn scratch;
        memset(&scratch, 0, sizeof scratch);
        vm_type type = parameter->bytes == 8 ? VT_B64 : (parameter->bytes == 4 ? VT_B32 : VT_B16);
        size_t index = parser->operands.count;
        bool fine = result ? vm_add_target(parser, &scratch, node, type, false)
                           : vm_add_source(parser, &scratch, node, type, false);
        if (!fine) {
            return false;
        }
        argument.operand = ((vm_operand *)parser->operands.items)[index];
        parser->operands.count = index;
    }
    vm_list_push(&parser->arguments, &argument);
    return true;
}

static bool hook_call(vm_parser *parser, vm_insn *in)
{
    const vm_node *nodes = parser->nodes;
    size_t results = nodes[0].children;
    const vm_node *name = &nodes[1 + results];
    const vm_node *list = &nodes[2 + results];
    if (name->kind != ND_SYMBOL || name->symbol->kind != SK_FUNCTION) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "call of unknown function '%.*s'",
                             (int)name->name.length, name->name.text);
    }
    vm_call site;
    memset(&site, 0, sizeof site);
    site.function = (uint32_t)name->symbol->address;
    const vm_function *callee = (vm_function *)parser->functions.items + site.function;
    site.first_argument = (uint32_t)parser->arguments.count;
    site.inputs = list->children;
    site.results = (uint32_t)results;
    if (callee->kernel || results != callee->result_count ||
        site.inputs != callee->param_count - callee->result_count) {
        return vm_parse_fail(parser, VM_INVALID_PTX, "the call does not fit function '%s'",
                             callee->name);
    }
    for (uint32_t i = 0; i < site.inputs; i++) {
        if (!add_argument(parser, list + 1 + i, &callee->params[results + i], false)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < results; i++) {
        if (!add_argument(parser, &nodes[1 + i], &callee->params[i], true)) {
            return false;
        }
    }
    in->target = (int32_t)parser->calls.count;
    vm_list_push(&parser->calls, &site);
    return true;
}

static bool hook_bare(vm_parser *parser, vm_insn *in)
{
    (void)in;
    return parser->node_count == 0 || vm_parse_fail(parser, VM_INVALID_PTX, "too many operands");
}

static bool exec_trap(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    return vm_fail(warp, in, (int)vm_first_lane(mask), VM_LAUNCH_FAILED, "trap");
}

const vm_row vm_rows_flow[] = {{"bra.uni?", NULL, NULL, NULL, 0, SY_BRANCH, hook_branch},
                               {"brx.idx.uni?", NULL, NULL, NULL, 0, SY_BRANCH, hook_indexed},
                               {"call.uni?", NULL, NULL, NULL, 0, SY_CALL, hook_call},
                               {"ret.uni?", NULL, NULL, NULL, 0, SY_RETURN, hook_bare},
                               {"exit", NULL, NULL, NULL, 0, SY_EXIT, hook_bare},
                               {"trap", NULL, exec_trap, NULL, 0, SY_NONE, hook_bare},
                               {"brkpt", NULL, exec_trap, NULL, 0, SY_NONE, hook_bare},
                               {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
