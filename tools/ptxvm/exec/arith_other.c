/* SPDX-License-Identifier: MIT */
/* On other processors the portable build is the only one. */
#include "tools/ptxvm/exec/arith.h"

bool vm_arith_has_avx2(void)
{
    return false;
}

vm_kernel *vm_arith_wide(int index)
{
    return vm_arith_portable[index];
}

vm_multiply *vm_arith_wide_multiply(void)
{
    return vm_multiply_portable;
}
