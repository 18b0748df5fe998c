/* SPDX-License-Identifier: MIT */
/* Signals that ask a run to stop. */
#ifndef BP_BEDPLATE_SIGNALS_H
#define BP_BEDPLATE_SIGNALS_H

/* From here on the first SIGINT or SIGTERM is only remembered; the second one has its usual effect.
 * A closed pipe on stdout no longer ends the program. */
void signals_watch(void);

/* The signal that came, 0 if none did. */
int signals_caught(void);

#endif
