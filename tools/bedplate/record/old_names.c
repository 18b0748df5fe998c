/* SPDX-License-Identifier: MIT */
/* From old names to today's. */
#include "tools/bedplate/record/old_names.h"

#include <stdlib.h>
#include <string.h>

/* What stands before the dot is a checkpoint's; lines have the name behind it. */
static const struct {
    const char *old;
    const char *now;
} names[] = {
    {"step.norm", "step.grad_norm"},
    {"result.lanes", "result.virtual-ranks"},
    {"run.below", "run.offload"},
    {"run.below-what", "run.offload-what"},
    {"run.below-buffered", "run.offload-buffered"},
    {"run.below-two-versions", "run.offload-two-versions"},
    {"run.state-below", "run.state-offload"},
    {"step.norm_bits", "step.grad_norm_bits"},
    {"step.norm_limit", "step.grad_norm_limit"},
    {"step.rate", "step.lr"},
    {"step.rate_bits", "step.lr_bits"},
};

enum { NAMES = sizeof names / sizeof names[0] };

bp_status old_names_read_keys(const bp_checkpoint_location *place, const char *path, bp_pairs *keys)
{
    BP_TRY(bp_checkpoint_read_keys(place, path, keys));
    bp_pair *list = (bp_pair *)keys->list; /* it lies in the place's scratch */
    for (size_t i = 0; i < keys->count; i++) {
        for (size_t n = 0; n < NAMES; n++) {
            list[i].key = strcmp(list[i].key, names[n].old) == 0 ? names[n].now : list[i].key;
        }
    }
    return BP_OK;
}

/* Where a line has a member of that name; a quote within a text is escaped, so it is the member. */
static char *old_names_find(char *line, const char *name, size_t length)
{
    for (char *at = strchr(line, '"'); at != NULL; at = strchr(at + 1, '"')) {
        if (strncmp(at + 1, name, length) == 0 && strncmp(at + 1 + length, "\":", 2) == 0) {
            return at + 1;
        }
    }
    return NULL;
}

bp_status old_names_line(char **line, size_t *room, size_t *length)
{
    for (size_t n = 0; n < NAMES; n++) {
        const char *old = strchr(names[n].old, '.') + 1, *now = strchr(names[n].now, '.') + 1;
        const size_t from = strlen(old), to = strlen(now);
        char *at = old_names_find(*line, old, from);
        if (at == NULL) {
            continue;
        }
        const size_t offset = (size_t)(at - *line), rest = *length - offset - from;
        if (*length + to + 1 > *room) {
            char *more = realloc(*line, *length + to + 1);
            if (more == NULL) {
                return BP_ERR_FIT;
            }
            *line = more;
            *room = *length + to + 1;
        }
        at = *line + offset;
        memmove(at + to, at + from, rest + 1);
        memcpy(at, now, to);
        *length = *length - from + to;
    }
    return BP_OK;
}
