/* SPDX-License-Identifier: MIT */
/* Plans with tables that are shorter than what they need. */
#ifndef BP_TESTS_SUPPORT_SHORT_TABLES_H
#define BP_TESTS_SUPPORT_SHORT_TABLES_H

#include "core/run/runtime.h"

/* A plan in the memory that was counted, and with tables that are too short, each of which has to
 * be refused with BP_ERR_FIT: `most` lengths of a table at places that `number` moves, three times
 * as many of buffers, eight times as many of ops; all lengths where BP_TEST_LONG is set. False
 * where the model or the rule refuses the spec while it is counted. */
bool short_tables_refused(const bp_spec *spec, const char *name, uint32_t number, uint32_t most);

#endif
