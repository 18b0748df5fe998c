/* SPDX-License-Identifier: MIT */
/* From options as they were given to settings that a command takes. */
#include "tools/bedplate/session/resolve.h"

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/path_guard.h"
#include "tools/bedplate/policy/policy_run.h"
#include "tools/bedplate/session/optimizer_choice.h"
#include "tools/bedplate/session/preference_choice.h"
#include "tools/bedplate/sources/data_task.h"

bp_status resolve_options(settings *set)
{
    options_resolve_resume(set);
    preference_resolve(set);
    policy_resolve(set);
    return optimizer_resolve(set);
}

bp_status resolve_data(settings *set)
{
    BP_TRY(path_guard_check(set));
    const bp_status found = data_task_resolve(set);
    preference_resolve(set); /* of a task that the data named */
    policy_resolve(set);
    return found;
}
