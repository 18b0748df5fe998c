/* SPDX-License-Identifier: MIT */
/* What the builder and the passes ask of a spec alone. */
#include "core/plan/compile.h"
#include "core/plan/compile_private.h"

#define PREFILL_ROWS_DEFAULT 32

uint32_t bp_compile_prefill_rows(const bp_spec *spec)
{
    uint32_t rows = spec->prefill_rows != 0 ? spec->prefill_rows : PREFILL_ROWS_DEFAULT;
    return rows < spec->generate_context ? rows : spec->generate_context;
}

bool compile_keeps_sums(const bp_spec *spec)
{
    const bool exact = spec->gradient_release == BP_RELEASE_EXACT && bp_spec_needs_norm(spec);
    return spec->ranks > 1 && spec->sharing >= BP_SHARING_GRADIENTS &&
           (spec->gradient_release == BP_RELEASE_NONE || exact);
}

bool compile_orders_stages(const bp_spec *spec)
{
    return compile_keeps_sums(spec) && spec->accumulation > bp_spec_virtual_ranks(spec) &&
           spec->gradient_release == BP_RELEASE_NONE;
}
