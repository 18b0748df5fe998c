/* SPDX-License-Identifier: MIT */
/* A module after decoding: functions as arrays of instructions whose operands are lane arrays. */
#ifndef PTXVM_PROGRAM_H
#define PTXVM_PROGRAM_H

#include "tools/ptxvm/text/types.h"

struct vm_warp;
struct vm_insn;

/* Executes one instruction for the lanes of mask. False: a report was made, the launch is over. */
typedef bool vm_exec(struct vm_warp *warp, const struct vm_insn *in, uint32_t mask);

/* Lane arithmetic: 32 results from up to three times 32 operands. how is round | flags. d does not
 * overlap the operands. Operand width follows the instruction, never a structure. */
typedef void vm_kernel(void *restrict d, const void *a, const void *b, const void *c, unsigned how);

/* What an instruction asks of the scheduler. */
typedef enum vm_sync {
    SY_NONE,
    SY_BRANCH,
    SY_CALL,
    SY_RETURN,
    SY_EXIT,
    SY_MASKED,  /* meets by opcode, qualifiers and mask: shfl.sync, vote.sync, bar.warp.sync ... */
    SY_ALIGNED, /* every live lane of the warp at this instruction: mma, ldmatrix */
    SY_BARRIER  /* the same, and then waits for other warps: bar.sync, bar.red */
} vm_sync;

/* Where an operand's lane array lives. */
typedef enum vm_where { VW_REGISTER, VW_CONSTANT, VW_SPECIAL, VW_SINK } vm_where;

typedef struct vm_operand {
    int64_t displacement; /* of a memory operand */
    uint32_t offset;      /* bytes into the registers, constants or special values */
    uint8_t where;
    uint8_t bytes; /* per lane; 0 is a predicate, which is one 32-bit mask */
    bool negate;
} vm_operand;

enum { VM_NO_PC = -1, VM_TYPES = 4 };

typedef struct vm_insn {
    vm_exec *exec;
    vm_kernel *kernel;
    uint32_t flags; /* round in the low bits: `how` of the kernel */
    uint32_t first; /* operand index */
    int32_t guard;  /* register offset of the guarding predicate, or -1 */
    int32_t target; /* branch: pc; call: function index; brx: table index */
    int32_t join;   /* branch: immediate post-dominator's pc, or VM_NO_PC */
    uint32_t line;  /* of the PTX text */
    uint32_t place; /* index into the module's source places, 0 unknown */
    uint32_t row;   /* of the instruction table: for reports and for .sync meeting */
    uint8_t operands;
    uint8_t types[VM_TYPES];
    uint8_t compare;
    uint8_t choice;
    uint8_t choice2;
    uint8_t space;
    uint8_t space2;
    uint8_t vector; /* elements of a vector access, or the x of ldmatrix */
    uint8_t sync;
    bool guard_not;
    bool touches; /* registers, in ways that wgmma has to be fenced from */
} vm_insn;

/* A .loc: file, line, and the place it was inlined at (index into places, 0 none). */
typedef struct vm_place {
    uint32_t file;
    uint32_t line;
    uint32_t inlined_at;
} vm_place;

typedef struct vm_parameter {
    uint32_t offset;
    uint32_t bytes;
    uint32_t align;
    bool is_register; /* a .reg parameter of a device function: offset is its register */
} vm_parameter;

/* One argument of a call: bytes of the caller's frame, or an operand. */
typedef struct vm_argument {
    vm_operand operand;
    uint32_t frame;
    bool in_frame;
} vm_argument;

typedef struct vm_call {
    uint32_t function;
    uint32_t first_argument; /* inputs, then results */
    uint32_t inputs;
    uint32_t results;
} vm_call;

typedef struct vm_function {
    char *name;
    bool kernel;
    bool defined;
    bool matrix; /* has wgmma */
    uint32_t line;
    vm_insn *insns;
    uint32_t insn_count;
    uint8_t *hits; /* one byte per instruction: was it ever executed */
    vm_operand *operands;
    uint32_t operand_count;
    uint8_t *constants; /* lane arrays */
    uint32_t constant_bytes;
    vm_call *calls;
    uint32_t call_count;
    vm_argument *arguments;
    uint32_t argument_count;
    int32_t *targets; /* of brx.idx: count, then pcs */
    uint32_t target_count;
    vm_parameter *params;
    uint32_t param_count;
    uint32_t result_count; /* the first of params are results, for a device function */
    uint32_t param_bytes;
    uint32_t register_bytes;
    uint32_t register_base; /* within a warp's registers */
    uint32_t frame_bytes;   /* .param variables of calls and of a device function, per thread */
    uint32_t frame_base;
    uint32_t local_bytes;
    uint32_t shared_bytes;
    uint32_t dynamic_base;        /* where extern shared memory starts */
    uint32_t required_threads[3]; /* .reqntid; zero means unsaid */
    uint32_t cluster;             /* .reqnctapercluster; zero means unsaid */
    uint32_t max_threads;         /* .maxntid's product; zero means unsaid */
    uint32_t callees_mark;        /* recursion check */
} vm_function;

typedef struct vm_variable {
    char *name;
    uint8_t space; /* VS_GLOBAL or VS_CONST */
    uint64_t bytes;
    uint64_t address; /* once loaded */
    uint8_t *initial; /* bytes, or NULL: zero */
} vm_variable;

typedef struct vm_module {
    uint32_t version;     /* 10 * major + minor */
    uint32_t target;      /* 80, 90, ... */
    bool target_specific; /* sm_90a */
    vm_function *functions;
    uint32_t function_count;
    vm_variable *variables;
    uint32_t variable_count;
    vm_place *places;
    uint32_t place_count;
    char **files;
    uint32_t file_count;
    uint32_t register_bytes; /* the largest kernel's plus every device function's */
    uint32_t frame_bytes;
    uint32_t local_bytes;   /* of device functions */
    uint32_t shared_common; /* module-scope shared variables, at the start of the window */
    uint8_t *constant_bank; /* .const bytes */
    uint64_t constant_bytes;
} vm_module;

/* Address map. Shared, local, constant and parameter windows appear in generic addresses. */
#define VM_WINDOW_BASE    0x1000000000000000ull
#define VM_WINDOW_SHIFT   40
#define VM_SHARED_GENERIC 0x2000000000000000ull
#define VM_LOCAL_GENERIC  0x3000000000000000ull
#define VM_CONST_GENERIC  0x4000000000000000ull
#define VM_PARAM_GENERIC  0x5000000000000000ull
#define VM_GENERIC_MASK   0x7000000000000000ull
#define VM_DEVICE_BASE    0x0010000000000000ull
/* Locals of device functions lie above every kernel's own. */
#define VM_LOCAL_CALLEE 0x00800000u
/* .param variables of calls, above any kernel parameter. */
#define VM_FRAME_BASE 0x10000000u
/* A shared address holds its block's rank in the cluster above this bit. */
#define VM_RANK_SHIFT 24

/* Offsets of the special lane arrays of a warp: 32-bit lanes but where said. */
typedef enum vm_special {
    VP_TID_X,
    VP_TID_Y,
    VP_TID_Z,
    VP_NTID_X,
    VP_NTID_Y,
    VP_NTID_Z,
    VP_CTAID_X,
    VP_CTAID_Y,
    VP_CTAID_Z,
    VP_NCTAID_X,
    VP_NCTAID_Y,
    VP_NCTAID_Z,
    VP_LANEID,
    VP_WARPID,
    VP_NWARPID,
    VP_LANEMASK_EQ,
    VP_LANEMASK_LE,
    VP_LANEMASK_LT,
    VP_LANEMASK_GE,
    VP_LANEMASK_GT,
    VP_DYNAMIC_BASE,   /* address of extern shared memory, 32 bits */
    VP_DYNAMIC_BASE64, /* two rows: the same in 64 bits */
    VP_DYNAMIC_BASE64_HIGH,
    VP_DYNAMIC_SIZE,
    VP_TOTAL_SHARED,
    VP_ZERO,
    VP_ONE,
    VP_GRIDID, /* two rows */
    VP_GRIDID_HIGH,
    VP_ZERO64,
    VP_ZERO64_HIGH,
    VP_CLUSTER_RANK,
    VP_CLUSTER_SIZE,
    VP_COUNT
} vm_special;

/* A parse or decode error: where and what. text[0] == 0 means none. */
typedef struct vm_problem {
    uint32_t line;
    int result; /* the CUresult it becomes */
    char text[400];
} vm_problem;

/* Decodes PTX text. NULL: problem says why. Freed by vm_module_free. device is the compute
 * capability pretended to (80, 90 ...), driver its CUDA version (13000). */
vm_module *vm_module_parse(const char *text, uint32_t device, uint32_t driver, vm_problem *problem);
void vm_module_free(vm_module *module);

#endif
