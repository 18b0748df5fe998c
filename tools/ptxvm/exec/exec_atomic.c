/* SPDX-License-Identifier: MIT */
/* atom and red: one lane after the other, in lane order, under one lock for all host threads. */
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"
#include "tools/ptxvm/exec/softfloat.h"

static pthread_mutex_t atomic_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t extremum(uint64_t a, uint64_t b, vm_type type, bool largest)
{
    bool less = a < b;
    if (vm_type_signed(type)) {
        unsigned shift = 64 - vm_type_bytes(type) * 8;
        less = (int64_t)(a << shift) < (int64_t)(b << shift);
    }
    return less != largest ? a : b;
}

static uint16_t add_half(uint32_t a, uint32_t b, bool brain)
{
    return brain ? vm_bf16_of_f64(
                       vm_add_odd(vm_f64_of_bf16((uint16_t)a), vm_f64_of_bf16((uint16_t)b)), 0)
                 : vm_f16_of_f64(vm_f64_of_f16((uint16_t)a) + vm_f64_of_f16((uint16_t)b), 0);
}

/* f32 sums in global memory flush subnormal numbers, in shared memory they do not (PTX manual). */
static uint64_t exec_atomic_add(uint64_t a, uint64_t b, vm_type type, unsigned how)
{
    bool brain = type == VT_BF16 || type == VT_BF16X2;
    switch (type) {
    case VT_F32:
        return vm_bits_f32(vm_finish_f32(vm_flush_f32(vm_f32_bits((uint32_t)a), how) +
                                             vm_flush_f32(vm_f32_bits((uint32_t)b), how),
                                         how));
    case VT_F64:
        return vm_bits_f64(vm_f64_bits(a) + vm_f64_bits(b));
    case VT_F16:
    case VT_BF16:
        return add_half((uint32_t)a, (uint32_t)b, brain);
    case VT_F16X2:
    case VT_BF16X2:
        return (uint32_t)add_half((uint32_t)(a >> 16), (uint32_t)(b >> 16), brain) << 16 |
               (uint32_t)add_half((uint32_t)a, (uint32_t)b, brain);
    default:
        return a + b;
    }
}

static uint64_t operate(const vm_insn *in, bool shared, uint64_t old, uint64_t b, uint64_t c)
{
    vm_type type = (vm_type)in->types[0];
    switch ((vm_choice)in->choice) {
    case VX_ADD:
        return exec_atomic_add(old, b, type, shared ? 0 : VF_FTZ);
    case VX_MIN:
        return extremum(old, b, type, false);
    case VX_MAX:
        return extremum(old, b, type, true);
    case VX_AND:
        return old & b;
    case VX_OR:
        return old | b;
    case VX_XOR:
        return old ^ b;
    case VX_INC:
        return old >= b ? 0 : old + 1;
    case VX_DEC:
        return old == 0 || old > b ? b : old - 1;
    case VX_CAS:
        return old == b ? c : old;
    default:
        return b;
    }
}

static bool exec_atomic(vm_warp *warp, const vm_insn *in, uint32_t mask)
{
    bool returns = in->vector != 0;
    unsigned first = returns ? 1 : 0;
    unsigned bytes = vm_type_bytes((vm_type)in->types[0]);
    const vm_operand *memory = vm_operand_at(warp, in, first);
    const void *base = vm_source(warp, in, first);
    const void *b = vm_source(warp, in, first + 1);
    const void *c = in->operands > first + 2 ? vm_source(warp, in, first + 2) : b;
    vm_space space = (vm_space)in->space;
    uint64_t lanes[VM_LANES];
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        uint64_t address = vm_lane(base, memory->bytes, lane) + (uint64_t)memory->displacement;
        if (space == VS_SHARED) {
            address &= 0xffffffffu;
        }
        const vm_race *race = NULL;
        uint64_t offset = 0;
        vm_locate(warp, lane, space, address, &race, &offset);
        if (race != NULL && ((in->flags & VF_RELEASE) != 0 || warp->clock.fence_time != 0)) {
            if ((in->flags & VF_RELEASE) != 0) {
                vm_race_fence(warp);
            }
            vm_race_release(warp, race, offset);
        }
        pthread_mutex_lock(&atomic_lock);
        uint8_t *data =
            vm_access(warp, in, lane, space, address, bytes, VA_READ | VA_WRITE | VA_STRONG);
        if (data != NULL) {
            uint64_t old = 0;
            memcpy(&old, data, bytes);
            bool shared = space == VS_SHARED || (address & VM_GENERIC_MASK) == VM_SHARED_GENERIC;
            uint64_t made =
                operate(in, shared, old, vm_lane(b, bytes, lane), vm_lane(c, bytes, lane));
            memcpy(data, &made, bytes);
            vm_set_lane(lanes, bytes, lane, old);
        }
        pthread_mutex_unlock(&atomic_lock);
        if (data == NULL) {
            return false;
        }
        if (race != NULL) {
            vm_race_acquire(warp, lane, race, offset);
        }
    }
    if (returns) {
        vm_put(warp, in, 0, mask, lanes);
    }
    return true;
}

static bool hook_atom(vm_parser *parser, vm_insn *in)
{
    (void)parser;
    in->vector = 1;
    return true;
}

/* The manual puts meaning and scope before the space; nvcc also writes the scope behind it
 * (atom.global.cta.add), Triton both (atom.global.gpu.acq_rel.add). */
#define ORDER   "relaxed|acquire|release|acq_rel?."
#define SCOPE   "cta|gpu|sys|cluster?."
#define MEANING "." ORDER SCOPE
#define SPACES  "global|shared|shared::cta|shared::cluster?." SCOPE ORDER
#define OPS     "add.noftz?.u32|s32|u64|s64|f32|f64|f16|f16x2|bf16|bf16x2"
#define ROWS(op)                                                                                   \
    {"atom" MEANING SPACES op, "d0 m s0", exec_atomic, NULL, 0, SY_NONE, hook_atom},               \
    {                                                                                              \
        "red" MEANING SPACES op, "m s0", exec_atomic, NULL, 0, SY_NONE, NULL                       \
    }

const vm_row vm_rows_atomic[] = {ROWS(OPS),
                                 ROWS("min.u32|s32|u64|s64"),
                                 ROWS("max.u32|s32|u64|s64"),
                                 ROWS("and|or|xor.b32|b64"),
                                 ROWS("inc|dec.u32"),
                                 {"atom" MEANING SPACES "exch.b32|b64|u32|u64|s32|f32", "d0 m s0",
                                  exec_atomic, NULL, 0, SY_NONE, hook_atom},
                                 {"atom" MEANING SPACES "cas.b16|b32|b64|u32|u64|s32", "d0 m s0 s0",
                                  exec_atomic, NULL, 0, SY_NONE, hook_atom},
                                 {NULL, NULL, NULL, NULL, 0, SY_NONE, NULL}};
