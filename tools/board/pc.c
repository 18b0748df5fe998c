/* SPDX-License-Identifier: MIT */
/* A PC in the place of a board. */
#include <stdio.h>

#include "tools/board/board.h"

void board_write(const char *text)
{
    (void)fputs(text, stdout);
}
