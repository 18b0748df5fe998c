/* SPDX-License-Identifier: MIT */
/* A store that outlasts its medium: where ranks share out the state, all of them read it while the
 * first one writes, so that one may not stop half way. */
#ifndef BP_BEDPLATE_STORE_LASTING_H
#define BP_BEDPLATE_STORE_LASTING_H

#include "core/base/store.h"

/* Must not move while `store` is used. */
typedef struct store_lasting {
    bp_store store;
    bp_store *medium;
    bool lost;
} store_lasting;

/* `store` does what the medium does, up to its first failure; from there on every call but those
 * that read files succeeds, does nothing and finds nothing. There is always room: who writes has
 * looked before. */
void store_lasting_begin(store_lasting *l, bp_store *medium);

/* BP_ERR_STORE where the medium was lost; why stands in the medium's reason and code, as of the
 * failure. */
bp_status store_lasting_end(store_lasting *l) BP_MUST_CHECK;

#endif
