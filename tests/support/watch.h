/* SPDX-License-Identifier: MIT */
/* The host device under a watch: it executes programs op by op, and chosen ops twice beforehand in
 * a copy of the arena, where every byte that their row does not let them read has one pattern, then
 * another. An op that changes a byte it may not write, or whose results depend on a byte it may not
 * read, is found out, whatever kernels.def says. */
#ifndef BP_TESTS_SUPPORT_WATCH_H
#define BP_TESTS_SUPPORT_WATCH_H

#include "core/program/device.h"

/* Which ops are looked at: those of `ops` (count of them, numbers within the program, poison not
 * counted), and those that look something up by numbers they read. */
typedef struct watch_choice {
    uint32_t program;
    uint32_t op[2];
    uint32_t count;
} watch_choice;

/* The device's table; its functions are the host device's but for those that link and run. */
const bp_device *watch_device(void);

/* For the devices opened from now on: what to look at (NULL: nothing), and where the first fault
 * goes (256 bytes, empty: none). */
void watch_choose(const watch_choice *choice, char *fault);

#endif
