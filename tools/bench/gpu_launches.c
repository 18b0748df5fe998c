/* SPDX-License-Identifier: MIT */
/* The kernels that a training step launches on a GPU, from its plan: no GPU is needed, as launches
 * are a pure function of the ops and the target. Prints a row for each launch, with tabs, and what
 * its op computes and moves (core/ir/cost.h) at the op's first launch; tools/ptx/step.py estimates
 * a step's time from it.
 *
 *     build/release/tools/bench/gpu_launches [KEY=VALUE..]
 *         preset=gpt2 batch=16 sequence=1024 target=sm_90a policy=none|full lora=0
 *         quant=none|nf4|int8 dequantizes=1 chunk=0 (rows of the head's logits at a time; 0: the
 * plan's choice)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ir/cost.h"
#include "core/ir/link.h"
#include "device/cuda/cuda.h"
#include "device/cuda/launch.h"
#include "device/cuda/target.h"
#include "optim/rules.h"
#include "tools/bench/bench_plan.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/preset.h"

static bp_spec spec_of(int argc, char **argv, const bp_preset *preset)
{
    static const char *const everywhere[] = {"all-linear"};
    const char *quantised = word(argc, argv, "quant", "none");
    const bp_quantised form = strcmp(quantised, "nf4") == 0    ? BP_QUANTISED_NF4
                              : strcmp(quantised, "int8") == 0 ? BP_QUANTISED_INT8
                                                               : BP_QUANTISED_NONE;
    const bool full = strcmp(word(argc, argv, "policy", "none"), "full") == 0;
    bp_spec spec = {.model = preset->config.family->model,
                    .config = bp_preset_config(preset),
                    .optimizer = &bp_optimizer_adamw,
                    .optimizer_options = {.learning_rate = 1e-4,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .epsilon = 1e-8,
                                          .max_grad_norm = 1.0},
                    .device = &bp_device_cuda,
                    .device_options = {.threads = 1,
                                       .target = word(argc, argv, "target", "sm_90a"),
                                       .dequantizes = number(argc, argv, "dequantizes", "1") != 0},
                    .working = BP_BF16,
                    .gradient = BP_BF16,
                    .master = BP_MASTER_SPLIT,
                    .batch = number(argc, argv, "batch", "16"),
                    .sequence = number(argc, argv, "sequence", "1024"),
                    .accumulation = 1,
                    .loss_rows = number(argc, argv, "chunk", "0"),
                    .policy = {.kind = full ? BP_POLICY_FULL : BP_POLICY_NONE},
                    .lora = {.rank = number(argc, argv, "lora", "0"),
                             .alpha = (double)number(argc, argv, "alpha", "16"),
                             .targets = everywhere,
                             .target_count = 1},
                    .quantised = form};
    bp_family_set_dropouts(&spec.config, 0.0);
    return spec;
}

/* m x n x k of a product, and what follows its sums; "-" of another op. */
static void print_shape(const bp_op *op, const bp_graph *graph)
{
    const void *scalars = graph->scalars + op->scalar;
    const bp_ref *refs = graph->refs + op->operand;
    if (op->kernel == BP_KERNEL_matmul) {
        const bp_matmul_scalars *s = scalars;
        const bp_matmul_operands *o = (const void *)refs;
        printf("\t%lldx%lldx%lld\t%s%s%s\n", (long long)s->m, (long long)s->n, (long long)s->k,
               s->gelu != 0 ? "gelu" : "",
               bp_ref_present(o->residual) || s->accumulate != 0 ? "adds" : "",
               bp_ref_present(o->bias) ? " bias" : "");
    } else if (op->kernel == BP_KERNEL_matmul_quantised) {
        const bp_matmul_quantised_scalars *s = scalars;
        printf("\t%lldx%lldx%lld\t\n", (long long)s->m, (long long)s->n, (long long)s->k);
    } else {
        printf("\t-\t-\n");
    }
}

/* Whether the launches make the op behind it, too. */
static bool print_op(const bp_graph *graph, const bp_op *op, const bp_linked_op *linked,
                     const bp_linked_op *next, const bp_cuda_target *target)
{
    bool both;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    const uint32_t count = bp_cuda_plan_pair(target, linked, next, launches, &both);
    const bp_cost cost = bp_cost_op(graph, op);
    /* a matrix of codes is dequantized first */
    const uint32_t main_one = op->kernel == BP_KERNEL_matmul_quantised && count == 2 ? 1 : 0;
    for (uint32_t i = 0; i < count && count != BP_CUDA_UNSUPPORTED; i++) {
        const bp_cuda_launch *l = &launches[i];
        const bp_cuda_module *module = &bp_cuda_modules[l->module];
        printf("%s\t%s\t%s\t%llu\t%u\t%.0f\t%.0f", bp_kernel_describe(op->kernel)->name,
               module->name, module->functions[l->function].name,
               (unsigned long long)l->grid[0] * l->grid[1] * l->grid[2],
               l->block[0] * l->block[1] * l->block[2], i == main_one ? cost.flops : 0.0,
               i == main_one ? cost.bytes : 0.0);
        print_shape(op, graph);
    }
    return both;
}

int main(int argc, char **argv)
{
    static bp_plan plan;
    void *memory = NULL;
    const bp_preset *preset = bp_preset_find(word(argc, argv, "preset", "gpt2"));
    const bp_cuda_target_row *row = bp_cuda_target_find(word(argc, argv, "target", "sm_90a"));
    if (preset == NULL || row == NULL) {
        fprintf(stderr, "gpu_launches: no such preset or target\n");
        return 2;
    }
    const bp_spec spec = spec_of(argc, argv, preset);
    if (!bench_plan(&plan, &spec, &memory)) {
        fprintf(stderr, "gpu_launches: the step cannot be planned: %s\n",
                bp_plan_error(&plan)->text);
        return 1;
    }
    bp_cuda_target target = bp_cuda_target_of(row, false);
    target.dequantizes = spec.device_options.dequantizes;
    const bp_graph *graph = &plan.graph;
    const bp_graph_limits limit = {graph->used.buffers, graph->used.ops, graph->used.refs,
                                   graph->used.scalars, graph->used.name_bytes};
    const uint64_t bytes = bp_link_bytes(&limit, &bp_device_cuda, false);
    bp_arena arena;
    bp_link link = {0};
    void *linked = malloc((size_t)bytes);
    bp_arena_init(&arena, linked, (size_t)bytes);
    if (linked == NULL || bp_link_graph(&link, graph, &bp_device_cuda, false, &arena) != BP_OK) {
        fprintf(stderr, "gpu_launches: the step cannot be linked\n");
        return 1;
    }
    printf(
        "# %llu bytes of arena\nop\tmodule\tkernel\tblocks\tthreads\tflops\tbytes\tshape\tafter\n",
        (unsigned long long)plan.report.arena_bytes);
    const uint32_t ops = graph->program_count[BP_PROGRAM_STEP];
    bool both = false;
    for (uint32_t i = 0; i < ops; i += both ? 2 : 1) {
        const bp_linked_op *op = &link.programs[BP_PROGRAM_STEP].ops[i];
        both = print_op(graph, &graph->ops[graph->program_first[BP_PROGRAM_STEP] + i], op,
                        i + 1 < ops ? op + 1 : NULL, &target);
    }
    free(linked);
    free(memory);
    return 0;
}
