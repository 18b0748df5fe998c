/* SPDX-License-Identifier: MIT */
/* libFuzzer target: config.json, read as a configuration and copied with another element type. What
 * is copied is copied again the same way. */
#include "tools/formats/family/family.h"
#include "tests/fuzz/one_file.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/hf/hf_config_copy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct copied {
    char text[262144];
    size_t used;
} copied;

static bp_status keep_config(void *user, const char *text, size_t length)
{
    copied *c = user;
    if (length > sizeof c->text - c->used) {
        return BP_ERR_FIT;
    }
    memcpy(c->text + c->used, text, length);
    c->used += length;
    return BP_OK;
}

static bp_status copy_config(const void *bytes, size_t size, copied *to)
{
    static uint64_t scratch[BP_CONFIG_COPY_SCRATCH / 8];
    bp_json_span span = {bytes, size};
    const bp_json_source source = {bp_json_span_fill, &span, size};
    to->used = 0;
    return bp_hf_config_copy(&source, "float16", scratch, keep_config, to, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];
    static copied first;
    static copied second;
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    bp_error error = {.code = BP_OK};
    bp_model_config config;
    bp_status status = bp_hf_config_read(&store, "config.json", scratch, &config, &error);
    if (status != error.code || (status != BP_OK && status != BP_ERR_DATA)) {
        abort();
    }
    const bool attends = status == BP_OK && bp_family_role(config.family, BP_ROLE_HEADS) != NULL;
    if (one.open != 0 || (attends && bp_family_count(&config, BP_ROLE_HEADS) == 0)) {
        abort();
    }
    if (copy_config(bytes, size, &first) == BP_OK) {
        bp_status again = copy_config(first.text, first.used, &second);
        bool same = again == BP_OK && first.used == second.used &&
                    memcmp(first.text, second.text, first.used) == 0;
        if (!same) {
            abort();
        }
    }
    return 0;
}
