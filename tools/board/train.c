/* SPDX-License-Identifier: MIT */
/* A microcontroller trains the GPT of tools/embed/embed.c for 20 steps and says its state's digest,
 * which is that of any PC. The table names the kernels of this model and its update rule; the
 * linker leaves out all others. */
#include <bedplate.h>

#include "tools/board/board.h"
#include "tools/embed/poem.h"

#define STEPS   20
#define TENSORS 128

static uint64_t host_memory[29744];
static unsigned char arena_memory[1100000];
static unsigned char staging[4096];
static bp_state_tensor tensors[TENSORS];

#define KERNEL_TABLE(X)                                                                            \
    X(embedding_forward)                                                                           \
    X(embedding_token_backward)                                                                    \
    X(embedding_position_backward)                                                                 \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward_input)                                                                    \
    X(layernorm_backward_parameters)                                                               \
    X(matmul)                                                                                      \
    X(bias_backward)                                                                               \
    X(gelu_backward)                                                                               \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(cross_entropy)                                                                               \
    X(random_normal)                                                                               \
    X(loss_sum)                                                                                    \
    X(norm_partial)                                                                                \
    X(step_decide)                                                                                 \
    X(adamw)

#define KERNEL_DECLARE(name) extern const bp_host_kernel bp_host_##name;
#define KERNEL_ROW(name)     {#name, BP_F32, &bp_host_##name},
KERNEL_TABLE(KERNEL_DECLARE)

static const bp_kernel_row kernels[] = {KERNEL_TABLE(KERNEL_ROW){NULL, BP_F32, NULL}};

static void write_number(const char *before, uint64_t number, unsigned base)
{
    char digits[24];
    size_t at = sizeof digits - 2;
    digits[sizeof digits - 2] = '\n';
    digits[sizeof digits - 1] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0 || (base == 16 && at > sizeof digits - 18));
    board_write(before);
    board_write(digits + at);
}

static bp_status say_digest(bp_runtime *runtime)
{
    const bp_checkpoint_location place = {.staging = {staging, sizeof staging}};
    bp_checkpoint checkpoint = {.step = bp_runtime_steps(runtime),
                                .tensors = tensors,
                                .tensor_count = bp_runtime_state_count(runtime),
                                .io = bp_runtime_state_io(runtime)};
    uint64_t digest;
    if (checkpoint.tensor_count > TENSORS) {
        return BP_ERR_FIT;
    }
    for (uint32_t i = 0; i < checkpoint.tensor_count; i++) {
        tensors[i] = bp_runtime_state_tensor(runtime, i);
    }
    BP_TRY(bp_checkpoint_digest(&place, &checkpoint, &digest));
    write_number("state digest ", digest, 16);
    return BP_OK;
}

static bp_status train(bp_runtime *runtime, bp_plan *plan, const bp_feed *feed)
{
    const size_t skew = (uintptr_t)arena_memory % BP_ARENA_ALIGNMENT;
    const size_t start = skew > 0 ? BP_ARENA_ALIGNMENT - skew : 0;
    BP_TRY(bp_plan_make(plan, &spec, host_memory, sizeof host_memory));
    const bp_footprint footprint = bp_plan_footprint(plan);
    write_number("arena bytes ", footprint.arena_bytes, 10);
    write_number("plan bytes ", footprint.host_bytes, 10);
    BP_TRY(bp_runtime_open(runtime, plan, arena_memory + start, sizeof arena_memory - start));
    BP_TRY(bp_runtime_initialize(runtime));
    for (int step = 1; step <= STEPS; step++) {
        bp_outcome outcome;
        BP_TRY(bp_runtime_step(runtime, feed, &outcome));
        write_number("loss in millionths ", (uint64_t)(outcome.loss * 1e6), 10);
    }
    return say_digest(runtime);
}

int main(void)
{
    static bp_plan_room planned;
    static bp_runtime_room room;
    bp_plan *plan = bp_plan_begin(&planned);
    bp_runtime *runtime = bp_runtime_make(&room);
    spec.device = &bp_device_bare;
    spec.device_options = (bp_device_options){.threads = 1, .kernels = kernels};
    bp_family_config_set(&spec.config, &sizes, sizeof sizes);
    bp_source source;
    bp_feed feed = poem_feed(&source);
    bp_error error = {.code = BP_OK};
    bp_status status = bp_feed_init(&feed, &error);
    if (status == BP_OK) {
        status = train(runtime, plan, &feed);
        error =
            bp_plan_error(plan)->code != BP_OK ? *bp_plan_error(plan) : *bp_runtime_error(runtime);
    }
    if (status != BP_OK) {
        board_write(error.name);
        board_write(": ");
        board_write(error.text != NULL ? error.text : "");
        board_write("\n");
        write_number("wanted ", (uint64_t)error.wanted, 10);
    }
    bp_runtime_close(runtime);
    return bp_status_exit_code(status);
}
