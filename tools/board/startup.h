/* SPDX-License-Identifier: MIT */
/* Between startup.c, which every board has, and the instructions of one core (cortex.c, riscv32.c).
 */
#ifndef BP_TOOLS_BOARD_STARTUP_H
#define BP_TOOLS_BOARD_STARTUP_H

#include <stdint.h>

/* Asks the debugger for an operation, and returns what it answers. Inline: a call is larger. */
static inline uintptr_t board_semihost(uintptr_t operation, uintptr_t argument)
{
#ifdef __riscv
    register uintptr_t a0 __asm__("a0") = operation;
    register uintptr_t a1 __asm__("a1") = argument;
    /* All three lie in one page, uncompressed, or they are a breakpoint like any other. */
    __asm__ volatile(".balign 16\n.option push\n.option norvc\n"
                     "slli zero, zero, 0x1f\nebreak\nsrai zero, zero, 7\n.option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
#else
    register uintptr_t r0 __asm__("r0") = operation;
    register uintptr_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
#endif
}

/* Of the core: where it starts. The stack pointer is set, nothing else is. */
void board_reset(void);

/* Of startup.c: fills static memory, runs main and ends. A core calls it once its unit of
 * floating point, if it has one, is on. */
void board_begin(void);
void board_fault(void);

#endif
