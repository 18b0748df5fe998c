/* SPDX-License-Identifier: MIT */
/* Kinds of nodes over images: values are (batch, height, width, channels). */
#include "layers/nodes/node_kinds.h"

/* Whether a value is what a window moves over, and another what it gives. */
static bool window_fits(const bp_image_window *w, const bp_value *x, const bp_value *y,
                        uint64_t out)
{
    return x->shape[1] == w->height && x->shape[2] == w->width && x->shape[3] == w->channels &&
           y->shape[0] == x->shape[0] && y->shape[1] == w->out_height &&
           y->shape[2] == w->out_width && y->shape[3] == out;
}

static bool convolution_fits(const bp_block *block, const bp_node *node)
{
    const bp_convolution *layer = &node->convolution;
    return (!layer->depthwise || layer->out == layer->window.channels) &&
           window_fits(&layer->window, input_of(block, node, 0), output_of(block, node, 0),
                       layer->out);
}

static bool convolution_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_convolution_trains(builder, &node->convolution);
}

static bool convolution_trains_reading(const bp_builder *builder, const bp_node *node)
{
    return bp_convolution_trains_reading(builder, &node->convolution);
}

static void convolution_forward(const block_run *run, const bp_node *node)
{
    bp_convolution_forward(run->builder, &node->convolution, ref_of_input(run, node, 0),
                           ref_of_output(run, node, 0));
}

static void convolution_backward(block_run *run, const bp_node *node)
{
    const bp_ref d_y = run->grad[node->out[0]];
    bp_convolution_backward_parameters(run->builder, &node->convolution, ref_of_input(run, node, 0),
                                       d_y);
    if (wants(run, node, 0)) {
        const bp_ref d_x = node_make_gradient(run, node->in[0]);
        bp_convolution_backward_input(run->builder, &node->convolution, d_y, d_x);
        node_take_gradient(run, node->in[0], d_x);
    }
}

static bool batch_norm_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *x = input_of(block, node, 0), *statistics = output_of(block, node, 1);
    return same_fits(block, node) && value_width(x) == node->batch_norm.width &&
           value_rows(x) == x->shape[0] * node->batch_norm.places && statistics->statistics &&
           value_rows(statistics) == 2 && value_width(statistics) == value_width(x);
}

static bool batch_norm_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_batch_norm_trains(builder, &node->batch_norm);
}

static uint32_t batch_norm_reads(const bp_builder *builder, const bp_node *node)
{
    return (bp_batch_norm_reads(builder, &node->batch_norm) ? READS_INPUT(0) : 0) |
           (bp_batch_norm_runs(builder, &node->batch_norm) ? 0 : READS_OUTPUT(1));
}

static void batch_norm_forward(const block_run *run, const bp_node *node)
{
    const bool makes = (run->making & value_bit(node->out[1])) != 0;
    const bp_ref statistics = ref_of_output(run, node, 1);
    bp_batch_norm_forward(run->builder, &node->batch_norm, ref_of_input(run, node, 0),
                          ref_of_output(run, node, 0), statistics,
                          !makes && bp_ref_present(statistics));
}

static void batch_norm_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]];
    const bool wanted = wants(run, node, 0);
    bp_batch_norm_backward(run->builder, &node->batch_norm, ref_of_input(run, node, 0),
                           ref_of_output(run, node, 1), d, wanted);
    if (wanted) {
        node_take_gradient(run, node->in[0], d);
    }
}

static bool pool_fits(const bp_block *block, const bp_node *node)
{
    return window_fits(&node->window, input_of(block, node, 0), output_of(block, node, 0),
                       node->window.channels);
}

static bool max_pool_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *place = output_of(block, node, 1);
    return pool_fits(block, node) && place->statistics &&
           window_fits(&node->window, input_of(block, node, 0), place, node->window.channels);
}

static void max_pool_forward(const block_run *run, const bp_node *node)
{
    const bool makes = (run->making & value_bit(node->out[1])) != 0;
    bp_pool_max_forward(run->builder, &node->window, ref_of_input(run, node, 0),
                        ref_of_output(run, node, 0),
                        makes ? ref_of_output(run, node, 1) : BP_ABSENT);
}

static void max_pool_backward(block_run *run, const bp_node *node)
{
    const bp_ref d_x = node_make_gradient(run, node->in[0]);
    bp_pool_max_backward(run->builder, &node->window, ref_of_output(run, node, 1),
                         run->grad[node->out[0]], d_x);
    node_take_gradient(run, node->in[0], d_x);
}

static void mean_pool_forward(const block_run *run, const bp_node *node)
{
    bp_pool_mean_forward(run->builder, &node->window, ref_of_input(run, node, 0),
                         ref_of_output(run, node, 0));
}

/* The gradient of one place of each image, for the ReLU before it to take at every place. */
static void mean_pool_leave(block_run *run, const bp_node *node)
{
    const bp_ref place = bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, BP_F32,
                                         run->builder->rows, node->window.channels, "d_place");
    bp_pool_mean_backward_place(run->builder, &node->window, run->grad[node->out[0]], place);
    run->grad[node->in[0]] = place;
    run->placed |= value_bit(node->in[0]);
}

static void mean_pool_backward(block_run *run, const bp_node *node)
{
    const uint32_t maker = run->masks.maker[node->in[0]];
    if (maker < run->block->nodes && run->block->node[maker].kind == BP_NODE_ACTIVATION) {
        mean_pool_leave(run, node);
        return;
    }
    const bp_ref d_x = node_make_gradient(run, node->in[0]);
    bp_pool_mean_backward(run->builder, &node->window, run->grad[node->out[0]], d_x);
    node_take_gradient(run, node->in[0], d_x);
}

const node_row node_image_rows[BP_NODE_KIND_COUNT - BP_NODE_CONVOLUTION] = {
    [0] = {.name = "convolution",
           .inputs = 1,
           .outputs = 1,
           .fits = convolution_fits,
           .trains = convolution_trains,
           .trains_reading = convolution_trains_reading,
           .forward = convolution_forward,
           .backward = convolution_backward},
    [BP_NODE_BATCH_NORM - BP_NODE_CONVOLUTION] = {.name = "batch norm",
                                                  .inputs = 1,
                                                  .outputs = 2,
                                                  .reads_of = batch_norm_reads,
                                                  .places = 1,
                                                  .fits = batch_norm_fits,
                                                  .trains = batch_norm_trains,
                                                  .forward = batch_norm_forward,
                                                  .backward = batch_norm_backward},
    [BP_NODE_MAX_POOL - BP_NODE_CONVOLUTION] = {.name = "max pool",
                                                .inputs = 1,
                                                .outputs = 2,
                                                .reads = READS_OUTPUT(1),
                                                .fits = max_pool_fits,
                                                .forward = max_pool_forward,
                                                .backward = max_pool_backward},
    [BP_NODE_MEAN_POOL - BP_NODE_CONVOLUTION] = {.name = "mean pool",
                                                 .inputs = 1,
                                                 .outputs = 1,
                                                 .fits = pool_fits,
                                                 .forward = mean_pool_forward,
                                                 .backward = mean_pool_backward}};
