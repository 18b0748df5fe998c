/* SPDX-License-Identifier: MIT */
/* Sets of buffers for the planner's tests: how they are made, solved and checked. */
#ifndef BP_TESTS_SUPPORT_ARENA_SET_H
#define BP_TESTS_SUPPORT_ARENA_SET_H

#include "arena/plan.h"

#define SET_MOST 6800u

/* The set that the makers below fill, and the state of their random numbers. */
extern bp_interval set_buffers[SET_MOST];
extern uint64_t set_seed;

/* A number below limit. */
uint32_t set_random_below(uint32_t limit);

/* Sizes below `sizes` and lifetimes below `times`, zero and empty ones among them. */
void set_fill_random(uint32_t count, uint32_t sizes, uint32_t times);

/* Cuts a rectangle of `times` x `height` into `count` buffers that fill it without a gap; `even`
 * cuts the largest one each time, which makes them alike and the packing hard. */
void set_fill_tight(uint32_t count, uint32_t times, uint32_t height, bool even);

/* Plans with scratch of exactly the size that is asked for, at an odd address. */
bp_plan_report set_solve(bp_interval *set, uint32_t count, const bp_plan_options *options);

/* Fails the test unless the layout and its report have every property that they must have. */
void set_check(const bp_interval *set, uint32_t count, uint64_t alignment,
               const bp_plan_report *report);

/* The least height of any layout of up to 8 buffers, by trying every order of placement. */
uint64_t set_exhaustive(const bp_interval *set, uint32_t count);

#endif
