/* SPDX-License-Identifier: MIT */
/* On x86-64 the AVX2 build is there; whether the processor has it is asked. */
#include "tools/ptxvm/exec/arith.h"

bool vm_arith_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

vm_kernel *vm_arith_wide(int index)
{
    return vm_arith_avx2[index];
}

vm_multiply *vm_arith_wide_multiply(void)
{
    return vm_arith_has_avx2() ? vm_multiply_avx2 : vm_multiply_portable;
}
