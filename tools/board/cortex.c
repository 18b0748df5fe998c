/* SPDX-License-Identifier: MIT */
/* A Cortex-M: its vectors and its unit of floating point. */
#include <stdint.h>

#include "tools/board/startup.h"

extern uint32_t board_stack_top[]; /* of the linker's script */

/* Coprocessors 10 and 11 are the floating-point unit, which is off at reset. */
void board_reset(void)
{
    volatile uint32_t *const access = (volatile uint32_t *)0xe000ed88;
    *access |= 0xfu << 20;
    __asm__ volatile("dsb\n isb" ::: "memory");
    board_begin();
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))(uintptr_t)board_stack_top,
    board_reset,
    board_fault,
    board_fault,
    board_fault,
    board_fault,
    board_fault,
};
