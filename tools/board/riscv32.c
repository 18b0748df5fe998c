/* SPDX-License-Identifier: MIT */
/* A 32-bit RISC-V without floating point: execution begins at its first byte of code (QEMU's virt
 * without firmware), a trap ends it, and three instructions in a row ask the debugger. */
#include <stdint.h>

#include "tools/board/startup.h"

uintptr_t board_semihost(uintptr_t operation, uintptr_t argument)
{
    register uintptr_t a0 __asm__("a0") = operation;
    register uintptr_t a1 __asm__("a1") = argument;
    /* All three lie in one page, uncompressed, or they are a breakpoint like any other. */
    __asm__ volatile(".balign 16\n.option push\n.option norvc\n"
                     "slli zero, zero, 0x1f\nebreak\nsrai zero, zero, 7\n.option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}

__attribute__((section(".vectors"), naked, used)) void board_reset(void)
{
    __asm__ volatile(".option push\n.option arch, +zicsr\n"
                     "la sp, board_stack_top\nla t0, board_trap\ncsrw mtvec, t0\nj board_begin\n"
                     ".option pop");
}

/* mtvec holds multiples of 4. */
__attribute__((aligned(4), used)) void board_trap(void);
void board_trap(void)
{
    board_fault();
}
