/* SPDX-License-Identifier: MIT */
/* Shared by the lexer, the parser and the decoder: tokens, symbols, operand nodes. */
#ifndef PTXVM_PARSE_H
#define PTXVM_PARSE_H

#include "tools/ptxvm/text/program.h"

typedef enum vm_token_kind {
    TK_END,
    TK_WORD,
    TK_INTEGER,
    TK_FLOAT,
    TK_STRING,
    TK_PUNCT
} vm_token_kind;

typedef struct vm_token {
    vm_token_kind kind;
    const char *text;
    size_t length;
    uint32_t line;
    uint64_t bits; /* integers; floats: the bits of a single or a double */
    bool single;   /* a float written 0f... */
    char punct;
} vm_token;

typedef struct vm_lexer {
    const char *at;
    uint32_t line;
    vm_token token; /* the current one */
} vm_lexer;

/* Reads the next token into lexer->token. Bad text becomes a TK_PUNCT nobody expects. */
void vm_lexer_next(vm_lexer *lexer);

/* A name as it lies in the text. */
typedef struct vm_name {
    const char *text;
    size_t length;
} vm_name;

typedef enum vm_symbol_kind { SK_REGISTER, SK_VARIABLE, SK_FUNCTION } vm_symbol_kind;

typedef struct vm_symbol {
    vm_name name;
    vm_symbol_kind kind;
    uint8_t type;
    uint8_t space;
    bool in_frame;     /* a .param variable of a call or of a device function */
    bool dynamic;      /* extern shared */
    uint32_t family;   /* registers declared %r<family>; 0 a single one */
    uint32_t bytes;    /* registers: per lane; in-frame params: size */
    uint64_t address;  /* variables: in their space; registers: offset; functions: index */
    uint32_t variable; /* index of a module variable */
} vm_symbol;

typedef enum vm_node_kind {
    ND_REGISTER,
    ND_INTEGER,
    ND_FLOAT,
    ND_SPECIAL,
    ND_SYMBOL,
    ND_NAME,   /* a word that is no symbol: a label, perhaps */
    ND_VECTOR, /* children follow in the node array */
    ND_MEMORY,
    ND_SINK
} vm_node_kind;

/* One operand as written. Children of a vector are the `children` nodes after it. */
typedef struct vm_node {
    vm_node_kind kind;
    bool negate;
    bool paired;   /* came after '|' */
    bool single;   /* float literal of 32 bits */
    uint8_t bytes; /* registers and specials: per lane, 0 predicate */
    uint8_t children;
    uint8_t base; /* ND_MEMORY: kind of the base (ND_REGISTER, ND_SYMBOL, ND_INTEGER, ND_SPECIAL) */
    uint32_t offset; /* registers, specials */
    uint64_t bits;   /* literals; symbol: its address */
    int64_t displacement;
    const vm_symbol *symbol;
    vm_name name;
} vm_node;

enum { VM_NODES_MAX = 160 };

typedef struct vm_label {
    vm_name name;
    uint32_t scope;
    uint32_t pc;
} vm_label;

typedef struct vm_label_use {
    vm_name name;
    uint32_t scope;
    uint32_t insn;   /* patched here */
    uint32_t target; /* or here, when table */
    bool table;
    uint32_t line;
} vm_label_use;

/* A growing array: pointer, count, capacity. Items have a fixed size. */
typedef struct vm_list {
    void *items;
    size_t count;
    size_t capacity;
    size_t item_bytes;
} vm_list;

typedef struct vm_template {
    vm_name opcode;
    const struct vm_row *row;
    vm_insn insn;
} vm_template;

enum { VM_TEMPLATES = 512, VM_SCOPES_MAX = 64 };

typedef struct vm_parser {
    vm_lexer lexer;
    vm_problem *problem;
    vm_module *module;
    vm_function *function; /* being built */
    bool failed;
    vm_list symbols;   /* vm_symbol, innermost last */
    vm_list functions; /* vm_function */
    vm_list variables;
    vm_list places;
    vm_list files;
    vm_list bank; /* bytes of .const */
    vm_list insns;
    vm_list operands;
    vm_list constants;
    vm_list calls;
    vm_list arguments;
    vm_list targets;
    vm_list labels;
    vm_list label_uses;
    vm_list scope_parents; /* uint32_t */
    vm_list functions_params;
    uint32_t scope;
    uint32_t depth;
    size_t scope_symbols[VM_SCOPES_MAX];
    uint32_t place;
    uint32_t device;
    uint32_t driver;
    vm_name opcode; /* of the instruction being decoded */
    vm_node nodes[VM_NODES_MAX];
    size_t node_count;
    vm_template templates[VM_TEMPLATES];
} vm_parser;

/* Appends one item (zeroed, or copied from item) and returns it; never NULL: out of memory ends the
 * process with a message, as an instrument may. */
void *vm_list_push(vm_list *list, const void *item);
void vm_list_init(vm_list *list, size_t item_bytes);

/* Records the first problem. Always returns false. */
bool vm_parse_fail(vm_parser *parser, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

bool vm_token_is(const vm_parser *parser, const char *word);
bool vm_punct_is(const vm_parser *parser, char punct);
bool vm_expect(vm_parser *parser, char punct);
bool vm_name_is(vm_name name, const char *text);
char *vm_name_copy(vm_name name);
vm_name vm_token_name(const vm_token *token);

/* Sizes of what a text may declare: far above what hardware gives, far below what would harm here.
 */
#define VM_PARAM_MAX    (1ull << 20)
#define VM_CONST_MAX    (1ull << 16)
#define VM_SHARED_MAX   (1ull << 20)
#define VM_LOCAL_MAX    (1ull << 19)
#define VM_GLOBAL_MAX   (1ull << 31)
#define VM_INITIAL_MAX  (1ull << 28)
#define VM_REGISTER_MAX (1ull << 26)
enum { VM_ALIGN_MAX = 4096 };

/* Refuses an element without size, an alignment that is no small power of two, and more than
 * `limit` bytes, `used` of them taken already. */
bool vm_check_extent(vm_parser *parser, uint64_t count, vm_type type, uint64_t align, uint64_t used,
                     uint64_t limit);

/* Symbols. */
vm_symbol *vm_symbol_add(vm_parser *parser, vm_name name, vm_symbol_kind kind);
const vm_symbol *vm_symbol_find(const vm_parser *parser, vm_name name, uint32_t *family_index);

/* Declarations, shared by module and body: the type word after a space, variables, registers. */
bool vm_parse_variable(vm_parser *parser, vm_space space, bool is_extern);
bool vm_parse_type(vm_parser *parser, vm_type *type);
bool vm_parse_location(vm_parser *parser);
bool vm_parse_body(vm_parser *parser);
void vm_scope_open(vm_parser *parser);
void vm_scope_close(vm_parser *parser);
bool vm_skip_statement(vm_parser *parser);

/* Decodes the instruction whose opcode is given and whose operands are parser->nodes. */
bool vm_decode(vm_parser *parser, vm_name opcode, int32_t guard, bool guard_not, uint32_t line);

/* Immediate post-dominators of every branch; fills insn.join. */
void vm_flow_analyse(vm_function *function);

/* ---- the instruction table ---- */

struct vm_row;
typedef bool vm_decode_hook(vm_parser *parser, vm_insn *in);

typedef struct vm_row {
    const char *pattern; /* opcode words; a|b alternatives, ? optional, * any */
    const char *shape;   /* operand roles, see decode.c; NULL: the hook does it all */
    vm_exec *exec;
    vm_kernel *kernel;
    int fast; /* index into the arithmetic table, when kernel is NULL; 0 none */
    vm_sync sync;
    vm_decode_hook *hook; /* after the shape; may be NULL */
} vm_row;

/* Each family's rows end with a NULL pattern. */
extern const vm_row vm_rows_integer[];
extern const vm_row vm_rows_video[];
extern const vm_row vm_rows_bits[];
extern const vm_row vm_rows_float[];
extern const vm_row vm_rows_approx[];
extern const vm_row vm_rows_half[];
extern const vm_row vm_rows_convert[];
extern const vm_row vm_rows_move[];
extern const vm_row vm_rows_memory[];
extern const vm_row vm_rows_atomic[];
extern const vm_row vm_rows_flow[];
extern const vm_row vm_rows_sync[];
extern const vm_row vm_rows_matrix[];
extern const vm_row vm_rows_async[];
extern const vm_row vm_rows_mbarrier[];
extern const vm_row vm_rows_bulk[];
extern const vm_row vm_rows_bulk_out[];
extern const vm_row vm_rows_wgmma[];
extern const vm_row vm_rows_cluster[];

/* For hooks: appends an operand of the instruction being decoded. */
bool vm_add_source(vm_parser *parser, vm_insn *in, const vm_node *node, vm_type type, bool wider);
bool vm_add_target(vm_parser *parser, vm_insn *in, const vm_node *node, vm_type type, bool wider);
bool vm_add_memory(vm_parser *parser, vm_insn *in, const vm_node *node);
bool vm_add_predicate(vm_parser *parser, vm_insn *in, const vm_node *node, bool target);

#endif
