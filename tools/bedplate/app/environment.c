/* SPDX-License-Identifier: MIT */
/* Reading variables of the environment. */
#include "tools/bedplate/app/environment.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/number.h"

bool environment_number(const char *name, double *number)
{
    const char *text = getenv(name);
    bp_number value;
    const bool is =
        text != NULL && bp_number_parse(text, strlen(text), &value) == BP_OK && value.real >= 0;
    *number = is ? value.real : 0;
    return is;
}

const char *environment_temporary(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL && folder[0] != '\0' ? folder : "/tmp";
}

bp_status environment_check(bp_error *error)
{
    static const char *const names[] = {ENVIRONMENT_GRACE, "WATCHDOG_USEC", "WATCHDOG_PID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        double number;
        if (text != NULL && text[0] != '\0' && !environment_number(names[i], &number)) {
            const bp_status status = bp_error_set(error, BP_ERR_USAGE, "environment",
                                                  "the variable is not a number", names[i]);
            bp_error_found(error, text, strlen(text));
            bp_error_right(error, "a number such as 90, not below 0");
            return status;
        }
    }
    return BP_OK;
}
