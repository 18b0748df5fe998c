/* SPDX-License-Identifier: MIT */
/* Between startup.c, which every board has, and the instructions of one core (cortex.c, riscv32.c).
 */
#ifndef BP_TOOLS_BOARD_STARTUP_H
#define BP_TOOLS_BOARD_STARTUP_H

#include <stdint.h>

/* Of the core: asks the debugger for an operation, and returns what it answers. */
uintptr_t board_semihost(uintptr_t operation, uintptr_t argument);

/* Of the core: where it starts. The stack pointer is set, nothing else is. */
void board_reset(void);

/* Of startup.c: fills static memory, runs main and ends. A core calls it once its unit of
 * floating point, if it has one, is on. */
void board_begin(void);
void board_fault(void);
void board_exit(int code);

#endif
