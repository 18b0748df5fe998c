/* SPDX-License-Identifier: MIT */
/* A 32-bit RISC-V without floating point: execution begins at its first byte of code (QEMU's virt
 * without firmware), and a trap ends it. */
#include <stdint.h>

#include "tools/board/startup.h"

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
