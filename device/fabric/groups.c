/* SPDX-License-Identifier: MIT */
/* What fabrics have in common. */
#include "device/fabric/groups.h"

#include "arena/text.h"
#include "core/base/digest.h"

static const char where[] = "fabric";

/* Ascending, in range, with this rank. */
static bool group_valid(const bp_fabric_group *group, uint32_t rank, uint32_t size)
{
    bool there = false;
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->ranks[i] >= size || (i > 0 && group->ranks[i] <= group->ranks[i - 1])) {
            return false;
        }
        there = there || group->ranks[i] == rank;
    }
    return there;
}

bp_status bp_fabric_options_check(const bp_fabric_options *options, uint32_t size, uint32_t most,
                                  bp_error *error)
{
    if (options->size != size || options->rank >= options->size) {
        return bp_error_numbers(error, BP_ERR_USAGE, where,
                                "a rank or the number of ranks is not that of the others", NULL,
                                options->rank, size);
    }
    if (options->group_count >= most) {
        return bp_error_numbers(error, BP_ERR_USAGE, where, "a rank is in too many groups", NULL,
                                options->group_count, most - 1);
    }
    for (uint32_t g = 0; g < options->group_count; g++) {
        if (!group_valid(&options->groups[g], options->rank, options->size)) {
            return bp_error_numbers(error, BP_ERR_USAGE, where,
                                    "a group is not an ascending list of ranks with this rank",
                                    NULL, g + 1, options->rank);
        }
    }
    return BP_OK;
}

uint32_t bp_fabric_group_position(const bp_fabric_group *group, uint32_t rank)
{
    uint32_t i = 0;
    while (i < group->count && group->ranks[i] != rank) {
        i++;
    }
    return i;
}

bp_status bp_fabric_plans_differ(uint32_t other, uint64_t digest, uint64_t first, bp_error *error)
{
    char name[BP_ERROR_NAME_MAX];
    char text[BP_DIGEST_TEXT];
    bp_text out;
    bp_text_init(&out, NULL, NULL, name, sizeof name);
    bp_text_string(&out, "rank ");
    bp_text_u64(&out, other);
    bp_text_string(&out, " has digest ");
    bp_digest_text(digest, text);
    bp_text_string(&out, text);
    bp_text_string(&out, ", rank 0 has ");
    bp_digest_text(first, text);
    bp_text_string(&out, text);
    bp_status written = bp_text_flush(&out);
    return bp_error_set(error, BP_ERR_USAGE, where, "the ranks have made different plans",
                        written == BP_OK ? name : NULL);
}

bp_status bp_fabric_groups_differ(bp_error *error)
{
    return bp_error_set(error, BP_ERR_USAGE, where,
                        "the ranks do not agree on the members of a group", NULL);
}
