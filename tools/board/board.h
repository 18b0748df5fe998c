/* SPDX-License-Identifier: MIT */
/* What an example needs of a board; on a PC tools/board/pc.c answers. */
#ifndef BP_TOOLS_BOARD_H
#define BP_TOOLS_BOARD_H

#include <stdbool.h>
#include <stddef.h>

/* Shows a text to whoever watches the board. */
void board_write(const char *text);

/* A file of whoever watches: false where it is not there or shorter, or could not be written. */
bool board_read_file(const char *name, void *to, size_t bytes);
bool board_write_file(const char *name, const void *from, size_t bytes);

#endif
