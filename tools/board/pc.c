/* SPDX-License-Identifier: MIT */
/* A PC in the place of a board. */
#include <stdio.h>

#include "tools/board/board.h"

void board_write(const char *text)
{
    (void)fputs(text, stdout);
}

bool board_read_file(const char *name, void *to, size_t bytes)
{
    FILE *file = fopen(name, "rb");
    const bool read = file != NULL && fread(to, 1, bytes, file) == bytes;
    return file != NULL && fclose(file) == 0 && read;
}

bool board_write_file(const char *name, const void *from, size_t bytes)
{
    FILE *file = fopen(name, "wb");
    const bool written = file != NULL && fwrite(from, 1, bytes, file) == bytes;
    return file != NULL && fclose(file) == 0 && written;
}
