/* SPDX-License-Identifier: MIT */
/* libFuzzer target: adapter_config.json. What is read is written in our own form, and that reads as
 * the same again. */
#include "layers/families/llama.h"
#include "tests/fuzz/one_file.h"
#include "tools/formats/peft/peft_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Reads the bytes as a configuration; every file is closed and every refusal told. */
static bp_status read_adapter(const void *bytes, size_t size, bp_peft_config *config)
{
    static uint64_t scratch[BP_PEFT_CONFIG_SCRATCH / 8];
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    bp_error error = {.code = BP_OK};
    bp_status status = bp_peft_config_read(&store, "adapter_config.json", scratch, config, &error);
    if (one.open != 0 || status != error.code || (status != BP_OK && status != BP_ERR_DATA)) {
        abort();
    }
    return status;
}

static bool same_targets(const bp_lora *a, const bp_lora *b)
{
    for (uint32_t t = 0; t < a->target_count; t++) {
        if (strcmp(a->targets[t], b->targets[t]) != 0) {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static bp_peft_config first;
    static bp_peft_config second;
    char text[BP_PEFT_CONFIG_TEXT];
    size_t length;
    if (read_adapter(bytes, size, &first) != BP_OK) {
        return 0;
    }
    const bp_lora *lora = &first.lora;
    bool good = lora->rank > 0 && lora->target_count > 0 && lora->dropout >= 0.0;
    if (!good) {
        abort();
    }
    const bp_spec spec = {.model = &bp_model_llama, .lora = *lora};
    bp_builder builder;
    bp_build_init(&builder, NULL, &spec, NULL, 0);
    /* Names of control characters only may grow beyond the room. */
    if (bp_peft_config_text(&builder, first.base, text, sizeof text, &length) != BP_OK) {
        return 0;
    }
    bool again = read_adapter(text, length, &second) == BP_OK && second.lora.rank == lora->rank &&
                 second.lora.rank_stabilized == lora->rank_stabilized &&
                 second.lora.target_count == lora->target_count &&
                 strcmp(first.base, second.base) == 0 && same_targets(lora, &second.lora);
    if (!again) {
        abort();
    }
    return 0;
}
