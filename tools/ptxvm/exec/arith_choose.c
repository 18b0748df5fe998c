/* SPDX-License-Identifier: MIT */
/* Which build of the lane arithmetic runs. */
#include "tools/ptxvm/exec/arith.h"

/* One flag for the whole process: the tests compare both builds. */
static bool forced_portable;

void vm_arith_force_portable(bool portable)
{
    forced_portable = portable;
}

vm_kernel *vm_arith_kernel(int index)
{
    if (index == AR_NONE) {
        return NULL;
    }
    bool wide = !forced_portable && vm_arith_has_avx2();
    return wide ? vm_arith_wide(index) : vm_arith_portable[index];
}

vm_multiply *vm_arith_multiply(void)
{
    return forced_portable ? vm_multiply_portable : vm_arith_wide_multiply();
}
