/* SPDX-License-Identifier: MIT */
/* Names of stages and parameters, and tables of parameters. */
#ifndef BP_LAYERS_PUBLISH_H
#define BP_LAYERS_PUBLISH_H

#include "core/plan/builder.h"

#define BP_NAME_BYTES 96 /* longest name of a parameter, its terminator included */

/* One row of a parameter table. */
typedef struct bp_publish_row {
    const char *name;  /* after the prefix; NULL: this model has no such parameter */
    uint64_t shape[3]; /* shape[1] = 0: a vector; shape[2] = 0: a matrix */
    bp_init_kind init;
    double deviation;
} bp_publish_row;

/* Publishes prefix + row->name; weight decay is for matrices. */
void bp_publish(bp_builder *builder, const char *prefix, const bp_publish_row *row);

/* The same of a dense layer in a block: how its matrix is stored, and how many outputs belong
 * together (bp_parameter_info). */
void bp_publish_dense(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                      bool input_major, uint64_t together);

/* The same of experts, or of their router (bp_parameter_info.routes), and how their matrices are
 * stored; without decay where their name says that they are biases. */
void bp_publish_experts(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                        bool input_major);

/* The same for a vector of running statistics, which nothing moves where it is `still`
 * (bp_parameter_info). */
void bp_publish_statistic(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                          bool still);

/* The same for a weight of a head of the model's. */
void bp_publish_head(bp_builder *builder, const char *prefix, const bp_publish_row *row,
                     bp_head_kind head);

/* The same for a table that is looked up by rows. */
void bp_publish_table(bp_builder *builder, const char *prefix, const bp_publish_row *row);

/* The same for tokens' table whose rows alone are looked up, with nothing added or dropped. */
void bp_publish_tokens(bp_builder *builder, const char *prefix, const bp_publish_row *row);

/* Appends text, or a number's digits, at `to` and returns the new end, which holds the terminator.
 */
char *bp_name_append(char *to, const char *text);
char *bp_name_append_number(char *to, uint32_t number);

#endif
