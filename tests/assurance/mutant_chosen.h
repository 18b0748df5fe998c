/* SPDX-License-Identifier: MIT */
/* How a file with mutants asks whether one of them is the chosen one (mutate.py). */
#ifndef BP_TESTS_MUTANT_CHOSEN_H
#define BP_TESTS_MUTANT_CHOSEN_H

#include <stdbool.h> /* what a condition may become */

extern int bp_mutant_chosen;
extern unsigned char *bp_mutant_reached;

/* Numbers of a file begin behind this one (mutate_requirements.py). */
#ifndef BP_MUTANT_BASE
#define BP_MUTANT_BASE 0
#endif
#define BP_MUTANT(n)                                                                               \
    (bp_mutant_reached[BP_MUTANT_BASE + (n)] = 1, bp_mutant_chosen == BP_MUTANT_BASE + (n))

#endif
