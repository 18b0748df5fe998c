/* SPDX-License-Identifier: MIT */
/* Low-rank adapters (LoRA, Hu et al., arXiv 2106.09685): which weights get one, and their
 * parameters.
 *
 * A weight W of a dense layer with an adapter acts as W + s B A, A (r, in), B (out, r), s = alpha /
 * r or, rank-stabilised (Kalajdzievski, arXiv 2312.03732), alpha / sqrt(r). A starts as normal
 * variates of the variance 1 / (3 in) (that of PEFT's uniform ones), B as zeros. Everything else is
 * frozen but what a rule of the spec trains, biases where they are asked for and a classifier of
 * the model's own.
 *
 * With magnitudes (DoRA, Liu et al., arXiv 2402.09353) output o acts as m[o] / n[o] times that,
 * n[o] the length of row o of W + s B A, a constant of backward (their section 4.3). m (out) begins
 * as n, so that the model begins as its base. */
#ifndef BP_CORE_ADAPTER_H
#define BP_CORE_ADAPTER_H

#include "core/plan/model.h"

/* Bound on the parameters of a spec's model, its adapters included. */
uint32_t bp_adapter_parameters(const bp_spec *spec);

/* Whether a weight is that of a dense layer of the blocks: a matrix that is no table of an
 * embedding, between the first and the last stage. These are what adapters adapt and what
 * spec->quantised quantises. */
bool bp_adapter_dense(const bp_builder *builder, uint32_t parameter);

/* Whether a weight is the table of the model's tokens, which a target may name, though no
 * "all-linear" does. The table T (vocabulary, width) then acts as T + s A B^T, A (vocabulary, r),
 * zeros, B (width, r), normal variates: "<module>.lora_embedding_A", which PEFT's files have
 * transposed, and "_B". A head that is tied to the table multiplies by T alone, as in PEFT. */
bool bp_adapter_table(const bp_builder *builder, uint32_t parameter);

/* Whether a weight is that of a convolution, (out, in, height, width), which a target may name,
 * though no "all-linear" does, as in PEFT. Its A (r, in, height, width) moves over the image as it
 * does, its B (out, r, 1, 1) is 1 x 1: seen as (out, in * height * width) it acts as W + s B A. One
 * of each channel by itself has none: it is refused, or with lora.usual passed over. There are no
 * magnitudes. */
bool bp_adapter_convolution(const bp_builder *builder, uint32_t parameter);

/* Rank and alpha of the adapter that a name of `length` bytes gets: spec's, or what is chosen. */
bp_lora_part bp_adapter_part_of(const bp_lora *lora, const char *name, size_t length);

/* Whether a weight is that of all experts of a layer, (experts, out, in), which a target that ends
 * with its last two words may name ("experts.gate_up_proj"), though no "all-linear" does, as with
 * PEFT's target_parameters. Each expert has its own A and B: (experts, r, in) and (experts, out,
 * r), without dropout and magnitudes. */
bool bp_adapter_experts(const bp_builder *builder, uint32_t parameter);

/* Whether a target names a weight of experts, which has this name, or any where name is NULL. */
bool bp_adapter_names_experts(const char *target, const char *name);

/* The beginning of the names of its adapter, behind "base_model.model.": of two weights of a layer
 * with adapters PEFT wraps the first one's within the second's. False: no target names it. */
bool bp_adapter_experts_module(const bp_lora *lora, const char *name, char *module, size_t room);

/* Whether a parameter is the A of a table's adapter, or the B of experts: files have the transposed
 * matrix, of experts (out * r, experts). */
bool bp_adapter_transposed(const bp_builder *builder, uint32_t parameter);

/* Publishes two parameters for every weight that spec->lora names, under PEFT's names
 * "base_model.model.<module>.lora_A.weight" and ".lora_B.weight", with magnitudes a third,
 * ".lora_magnitude_vector", after those of the model. A
 * target is the end of a module's name ("q_proj", "attn.c_attn"), or "all-linear" for every dense
 * layer of the blocks; spec->lora.choose decides in place of targets. BP_ERR_USAGE in
 * builder->status when a target names nothing, or nothing is chosen. */
void bp_adapter_publish(bp_builder *builder);

/* Length of the name of the module whose weight has this name: 0 for what is no weight. */
size_t bp_adapter_module_length(const char *name);

/* Whether a module's name of `length` bytes is `target`, or ends with a dot and it. */
bool bp_adapter_ends_with(const char *name, size_t length, const char *target);

/* Where the spec has adapters: whether the parameter of this name, which need not be published yet,
 * is a bias that is trained beside them: with BP_LORA_BIAS_ADAPTED that of a module whose weight,
 * published before it, has or gets an adapter. */
bool bp_adapter_trains_bias(const bp_builder *builder, const char *name);

/* Whether such a bias is that of a module with an adapter: PEFT's files then say base_layer. */
bool bp_adapter_wraps_bias(const bp_builder *builder, const char *name);

/* s of an adapter: alpha / r, or alpha / sqrt(r). */
double bp_adapter_scale(const bp_lora *lora, bp_lora_part part);

/* The adapter of a weight (a parameter) that has one. */
bp_lora_part bp_adapter_part(const bp_builder *builder, uint32_t parameter);

/* Emits the lengths of the rows of W + s B A, (out) F32, of a weight with an adapter. Cost:
 * out * in * rank multiply-adds; nothing of W's size is made. */
void bp_adapter_norms(bp_builder *builder, uint32_t weight, bp_ref norms);

/* The lowest stage that uses a parameter: the model's answer, for an adapter that of its weight. */
uint32_t bp_adapter_stage(const bp_builder *builder, uint32_t parameter);

#endif
