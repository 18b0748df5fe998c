/* SPDX-License-Identifier: MIT */
/* List ops tuple by tuple: the newest op's operands and scalars are the last rows of their tables,
 * so a further tuple is appended behind them. */
#include "core/compile/list.h"

void bp_emit_tuple(bp_emit *emit, const bp_ref *refs, const void *scalars)
{
    if (emit->status == BP_OK) {
        emit->status = bp_graph_tuple(emit->graph, refs, scalars);
        bp_emit_note_table(emit);
    }
}
