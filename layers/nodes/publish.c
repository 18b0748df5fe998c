/* SPDX-License-Identifier: MIT */
/* Names and tables of parameters. */
#include "layers/nodes/publish.h"

#include <string.h>

char *bp_name_append(char *to, const char *text)
{
    const size_t length = strlen(text);
    memcpy(to, text, length + 1);
    return to + length;
}

char *bp_name_append_number(char *to, uint32_t number)
{
    char digits[12];
    char *at = digits + sizeof(digits) - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return bp_name_append(to, at);
}

/* Of experts the biases are one matrix. */
static bool names_biases(const char *name)
{
    static const char end[] = "_bias";
    const size_t length = strlen(name);
    return length >= sizeof end && strcmp(name + length - (sizeof end - 1), end) == 0;
}

static void publish(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                    bp_parameter_info info)
{
    char name[BP_NAME_BYTES];
    bp_name_append(bp_name_append(name, prefix), row->name);
    const bool matrix = row->shape[1] != 0;
    info.name = name;
    info.rank = row->shape[2] != 0 ? 3 : matrix ? 2 : 1;
    info.shape[0] = row->shape[0];
    info.shape[1] = row->shape[1];
    info.shape[2] = row->shape[2];
    info.init = row->init;
    info.deviation = row->deviation;
    info.decay = matrix && !names_biases(row->name);
    bp_build_parameter(builder, &info);
}

void bp_publish(bp_builder *builder, const char *prefix, const bp_publish_row *row)
{
    publish(builder, prefix, row, (bp_parameter_info){.embedding = false});
}

void bp_publish_dense(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                      bool input_major, uint64_t together)
{
    const bool matrix = row->shape[1] != 0;
    publish(builder, prefix, row,
            (bp_parameter_info){.input_major = input_major && matrix,
                                .together = matrix ? together : 0});
}

void bp_publish_experts(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                        bool input_major)
{
    publish(builder, prefix, row,
            (bp_parameter_info){.routes = true, .input_major = input_major && row->shape[2] != 0});
}

void bp_publish_head(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                     bp_head_kind head)
{
    publish(builder, prefix, row, (bp_parameter_info){.head = head});
}

void bp_publish_table(bp_builder *builder, const char *prefix, const bp_publish_row *row)
{
    publish(builder, prefix, row, (bp_parameter_info){.embedding = true});
}

void bp_publish_tokens(bp_builder *builder, const char *prefix, const bp_publish_row *row)
{
    publish(builder, prefix, row, (bp_parameter_info){.embedding = true, .unpacks = true});
}

void bp_publish_statistic(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                          bool still)
{
    publish(builder, prefix, row, (bp_parameter_info){.statistic = true, .still = still});
}
