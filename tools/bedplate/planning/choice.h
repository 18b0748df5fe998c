/* SPDX-License-Identifier: MIT */
/* What the fit chose for --arena: the way to train that is fastest inside it. */
#ifndef BP_BEDPLATE_CHOICE_H
#define BP_BEDPLATE_CHOICE_H

#include "core/plan/search/fit.h"
#include "tools/bedplate/app/output.h"

typedef struct choice {
    bool made; /* there was an --arena, and the fit ran */
    bool fits;
    bool release_dropped; /* --gradient-release would have enlarged the arena: chosen without */
    bp_fit_request request;
    bp_fit fit;
    bp_action *actions; /* of fit.spec.policy; owned */
} choice;

/* Runs the fit. Nothing that fits is no error: c->fits says so, and c->fit.spec is then what needs
 * the fewest bytes. Exact gradient release, which changes no bit of the result, is left out where
 * the choice is smaller without it. `calibrated` (NULL: none) are measured rates; they choose the
 * policy alone. Uses the heap, before anything is sealed. */
bp_status choice_run(choice *c, const bp_fit_request *request, const bp_rates *calibrated,
                     bp_error *error) BP_MUST_CHECK;

void choice_end(choice *c);

/* One line: the options chosen, bytes, estimated seconds. */
void choice_put_line(bp_text *text, const choice *c);

/* The chosen one, the runner-up, and what each other one would need. */
void choice_put_table(bp_text *text, const choice *c);

/* Members "choice", "runner_up" and "rejected" of an open JSON object; "choice" alone when not
 * `all`. */
void choice_json(output *out, const choice *c, bool all);

#endif
