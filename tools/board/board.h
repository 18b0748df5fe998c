/* SPDX-License-Identifier: MIT */
/* What an example needs of a board; on a PC tools/board/pc.c answers. */
#ifndef BP_TOOLS_BOARD_H
#define BP_TOOLS_BOARD_H

/* Shows a text to whoever watches the board. */
void board_write(const char *text);

#endif
