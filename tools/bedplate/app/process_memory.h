/* SPDX-License-Identifier: MIT */
/* What the process keeps resident beside the memories that are planned: its code and its
 * libraries', tables, stacks. On Linux, from /proc/self/maps; elsewhere nothing is known of files.
 *
 * Pages of files come and go as the system likes, and which of them a run touches differs from
 * machine to machine. So where the host computes they are all made resident before the first step,
 * but for the GPU's code: then what a plan says is what VmHWM shows, and no step waits for a page
 * of code. A GPU's driver has memory of its own, of which nothing can be said beforehand. */
#ifndef BP_BEDPLATE_PROCESS_MEMORY_H
#define BP_BEDPLATE_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Only memory that asks for it gets large pages from now on: where the system gives them to all, a
 * stack or a table would take 2 MiB for its first byte. Called once, first. */
void process_plain_pages(bool plain);

/* Bytes that are resident in a run on the host beside its planned memories: pages of files without
 * the GPU's code, and a fixed allowance for tables, heap and stacks with `threads` threads. */
uint64_t process_bytes(uint32_t threads);

/* What reading a model directory leaves beside that: measured over 25 families. */
#define PROCESS_DIRECTORY_BYTES ((uint64_t)56 << 10)

/* Makes the pages of files resident, and lets those of the GPU's code go. */
void process_resolve(void);

/* The most bytes that were resident so far, as the system counts them (VmHWM); 0: it does not say.
 */
uint64_t process_peak(void);

#endif
