/* SPDX-License-Identifier: MIT */
/* What a Cortex-M does between power and main, and how it speaks to whoever watches it: by
 * semihosting, which QEMU and debug probes answer (Arm, "Semihosting for AArch32 and AArch64"). */
#include "tools/board/board.h"

#include <stdint.h>

#define SYS_WRITE0        0x04
#define SYS_EXIT_EXTENDED 0x20
#define APPLICATION_EXIT  0x20026

int main(void);
void board_reset(void);

/* Of the linker's script. */
extern uint32_t board_stack_top[], board_data_from[], board_data[], board_data_end[], board_bss[],
    board_bss_end[];

static void semihost(uintptr_t operation, uintptr_t argument)
{
    register uintptr_t r0 __asm__("r0") = operation;
    register uintptr_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void board_write(const char *text)
{
    semihost(SYS_WRITE0, (uintptr_t)text);
}

static void board_exit(int code)
{
    const uintptr_t block[2] = {APPLICATION_EXIT, (uintptr_t)code};
    semihost(SYS_EXIT_EXTENDED, (uintptr_t)block);
    for (;;) {
    }
}

/* Coprocessors 10 and 11 are the floating-point unit, which is off at reset. */
void board_reset(void)
{
    volatile uint32_t *const access = (volatile uint32_t *)0xe000ed88;
    *access |= 0xfu << 20;
    __asm__ volatile("dsb\n isb" ::: "memory");
    const uint32_t *from = board_data_from;
    for (uint32_t *to = board_data; to < board_data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = board_bss; to < board_bss_end; to++) {
        *to = 0;
    }
    board_exit(main());
}

static void board_fault(void)
{
    board_write("the processor met a fault\n");
    board_exit(7);
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
