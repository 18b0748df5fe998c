/* SPDX-License-Identifier: MIT */
/* What a board does between reset and main, and how it speaks to whoever watches it: by
 * semihosting, which QEMU and debug probes answer (Arm, "Semihosting for AArch32 and AArch64";
 * RISC-V, "RISC-V Semihosting", takes the same operations). Instructions of a core are in cortex.c
 * and riscv32.c. */
#include "tools/board/startup.h"

#include <stdint.h>
#include <string.h>

#include "tools/board/board.h"

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

/* Of the linker's script. */
extern uint32_t board_stack_top[], board_data_from[], board_data[], board_data_end[], board_bss[],
    board_bss_end[];

void board_write(const char *text)
{
    board_semihost(SYS_WRITE0, (uintptr_t)text);
}

/* Opens, reads or writes all bytes, closes. Reading and writing answer with the bytes left. */
static bool board_transfer(const char *name, uintptr_t mode, uintptr_t operation, uintptr_t memory,
                           size_t bytes)
{
    const uintptr_t open[3] = {(uintptr_t)name, mode, strlen(name)};
    const uintptr_t handle = board_semihost(SYS_OPEN, (uintptr_t)open);
    if (handle == UINTPTR_MAX) {
        return false;
    }
    const uintptr_t move[3] = {handle, memory, bytes};
    const uintptr_t left = board_semihost(operation, (uintptr_t)move);
    return board_semihost(SYS_CLOSE, (uintptr_t)&handle) == 0 && left == 0;
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
    board_semihost(SYS_EXIT_EXTENDED, (uintptr_t)block);
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

void board_begin(void)
{
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

void board_fault(void)
{
    board_write("the processor met a fault\n");
    board_exit(7);
}
