/* SPDX-License-Identifier: MIT */
/* What a Cortex-M does between power and main, and how it speaks to whoever watches it: by
 * semihosting, which QEMU and debug probes answer (Arm, "Semihosting for AArch32 and AArch64"). */
#include "tools/board/board.h"

#include <stdint.h>
#include <string.h>

#define SYS_OPEN          0x01
#define SYS_CLOSE         0x02
#define SYS_WRITE0        0x04
#define SYS_WRITE         0x05
#define SYS_READ          0x06
#define SYS_EXIT_EXTENDED 0x20
#define APPLICATION_EXIT  0x20026
#define OPEN_RB           1
#define OPEN_WB           5

int main(void);
void board_reset(void);

/* Of the linker's script. */
extern uint32_t board_stack_top[], board_data_from[], board_data[], board_data_end[], board_bss[],
    board_bss_end[];

static uintptr_t semihost(uintptr_t operation, uintptr_t argument)
{
    register uintptr_t r0 __asm__("r0") = operation;
    register uintptr_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void board_write(const char *text)
{
    semihost(SYS_WRITE0, (uintptr_t)text);
}

/* Opens, reads or writes all bytes, closes. Reading and writing answer with the bytes left. */
static bool board_transfer(const char *name, uintptr_t mode, uintptr_t operation, uintptr_t memory,
                           size_t bytes)
{
    const uintptr_t open[3] = {(uintptr_t)name, mode, strlen(name)};
    const uintptr_t handle = semihost(SYS_OPEN, (uintptr_t)open);
    if (handle == UINTPTR_MAX) {
        return false;
    }
    const uintptr_t move[3] = {handle, memory, bytes};
    const uintptr_t left = semihost(operation, (uintptr_t)move);
    return semihost(SYS_CLOSE, (uintptr_t)&handle) == 0 && left == 0;
}

bool board_read_file(const char *name, void *to, size_t bytes)
{
    return board_transfer(name, OPEN_RB, SYS_READ, (uintptr_t)to, bytes);
}

bool board_write_file(const char *name, const void *from, size_t bytes)
{
    return board_transfer(name, OPEN_WB, SYS_WRITE, (uintptr_t)from, bytes);
}

static void board_exit(int code)
{
    const uintptr_t block[2] = {APPLICATION_EXIT, (uintptr_t)code};
    semihost(SYS_EXIT_EXTENDED, (uintptr_t)block);
    for (;;) {
    }
}

#ifdef BOARD_PAINT
#define PAINT 0xa5a5a5a5u

/* Stack that nobody touches keeps its pattern (tools/board/table.sh). */
static void board_paint(void)
{
    uint32_t *const here = (uint32_t *)__builtin_frame_address(0) - 16;
    for (uint32_t *at = board_bss_end; at < here; at++) {
        *at = PAINT;
    }
}

static void board_say_stack(void)
{
    char text[] = "stack 0x00000000\n";
    const uint32_t *at = board_bss_end;
    while (*at == PAINT) {
        at++;
    }
    uint32_t bytes = (uint32_t)((const char *)board_stack_top - (const char *)at);
    for (int i = 15; bytes > 0; i--, bytes >>= 4) {
        text[i] = "0123456789abcdef"[bytes & 15];
    }
    board_write(text);
}
#endif

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
#ifdef BOARD_PAINT
    board_paint();
    const int code = main();
    board_say_stack();
    board_exit(code);
#else
    board_exit(main());
#endif
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
