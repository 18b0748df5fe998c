/* SPDX-License-Identifier: MIT */
/* A clock that only goes forward. */
#ifndef BP_BEDPLATE_CLOCK_H
#define BP_BEDPLATE_CLOCK_H

/* Seconds since some moment that stays the same while the machine runs. */
double clock_seconds(void);

#endif
