/* SPDX-License-Identifier: MIT */
/* A store that keeps nothing: what ranks that do not write give to those who write. */
#ifndef BP_BEDPLATE_STORE_NONE_H
#define BP_BEDPLATE_STORE_NONE_H

#include "core/base/store.h"

/* Every call but those that read succeeds and does nothing; nothing is there, and there is room for
 * everything. */
bp_store store_none(void);

#endif
