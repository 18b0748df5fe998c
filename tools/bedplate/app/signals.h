/* SPDX-License-Identifier: MIT */
/* What signals ask of a run. Handlers write flags, and nothing else: the loop looks at them between
 * steps, so that with several ranks these flags are what the ranks agree on. */
#ifndef BP_BEDPLATE_SIGNALS_H
#define BP_BEDPLATE_SIGNALS_H

#include <stdbool.h>

typedef enum signal_wish {
    SIGNAL_STOP = 1,   /* TERM, INT, XCPU, and USR1 where it stops: save and end */
    SIGNAL_SAVE = 2,   /* USR1: save and go on */
    SIGNAL_REPORT = 4, /* USR2: write report and metrics now */
    SIGNAL_REOPEN = 8  /* HUP: open the logs again, they were moved */
} signal_wish;

/* From here on USR1, USR2 and HUP are only remembered; XFSZ and PIPE do nothing, so that a file
 * that may not grow and a closed pipe are errors of the call that writes. Called first: before
 * this each of them ends the program. */
void signals_begin(bool usr1_stops);

/* From here on TERM, INT and XCPU are remembered as well. A TERM or INT after one of them has its
 * usual effect, at once. XCPU comes every second once it has begun, so it counts but once. */
void signals_watch(void);

/* The wishes (bits) that came since the last call; SIGNAL_STOP stays. */
unsigned signals_take(void);

/* Wishes of another rank, or of a test. */
void signals_add(unsigned wishes);

/* The signal that asks to stop, 0 if none does. */
int signals_caught(void);

#endif
