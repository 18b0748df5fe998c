/* SPDX-License-Identifier: MIT */
/* libFuzzer target: the GGUF reader on any bytes; what it accepts must be consistent. */
#include "layers/families/transformer.h"
#include "tests/fuzz/one_file.h"
#include "tools/formats/gguf/gguf_family.h"
#include "tools/formats/gguf/gguf_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_items(const bp_gguf_file *file, const bp_gguf_key *key)
{
    bp_gguf_items items;
    char text[64];
    size_t length;
    int32_t number;
    if (bp_gguf_items_begin(&items, file, key->name, key->item) != BP_OK) {
        return;
    }
    for (uint64_t i = 0; i < key->count && i < 1000; i++) {
        bp_status status = key->item == BP_GGUF_STRING
                               ? bp_gguf_items_string(&items, text, sizeof text, &length)
                           : key->item == BP_GGUF_I32 ? bp_gguf_items_i32(&items, &number)
                                                      : BP_ERR_DATA;
        if (status != BP_OK) {
            return; /* a longer string than the room */
        }
    }
}

static void read_values(const bp_gguf_file *file)
{
    for (size_t i = 0; i < file->key_count; i++) {
        const bp_gguf_key *key = &file->keys[i];
        uint32_t count;
        double real;
        char text[64];
        if (bp_gguf_find(file, key->name) != key) {
            abort();
        }
        bp_status status = bp_gguf_take_count(file, key->name, 3, 1000, &count);
        if (status == BP_OK && (count < 3 || count > 1000)) {
            abort();
        }
        status = bp_gguf_take_real(file, key->name, &real);
        status = bp_gguf_take_string(file, key->name, text, sizeof text);
        if (status == BP_OK && strlen(text) != key->count) {
            abort();
        }
        read_items(file, key);
    }
}

static void read_tensors(bp_gguf_file *file)
{
    bp_tensor_set set;
    uint64_t work[8];
    bp_tensor_set_init(&set, file->store, "g", &file->part, 1, NULL);
    for (size_t i = 0; i < file->part.entry_count; i++) {
        const bp_tensor_entry *entry = &file->part.entries[i];
        uint64_t digest;
        uint32_t part;
        bp_staging staging = {work, sizeof work};
        if (bp_tensor_set_find(&set, entry->name, &part) != entry ||
            bp_tensor_set_digest(&set, 0, entry, staging, &digest) != BP_OK) {
            abort();
        }
    }
    if (bp_tensor_set_close(&set) != BP_OK) {
        abort();
    }
}

static bp_status drop_text(void *user, const char *text, size_t length)
{
    (void)text;
    *(uint64_t *)user += length;
    return BP_OK;
}

static void read_tokenizer(const bp_gguf_file *file)
{
    static uint64_t scratch[BP_GGUF_TOKENIZER_SCRATCH / 4];
    uint64_t written = 0;
    if (bp_gguf_tokenizer_scratch(file) > sizeof scratch) {
        return;
    }
    bp_status status = bp_gguf_tokenizer_json(file, scratch, drop_text, &written, NULL);
    if (status == BP_OK && written == 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    static uint64_t scratch[4096];
    bp_staging room = {scratch, sizeof scratch};
    bp_error error = {.code = BP_OK};
    bp_gguf_file file;
    bp_status status = bp_gguf_open(&file, &store, "g", &room, &error);
    if (status != error.code) {
        abort();
    }
    if (status == BP_OK) {
        bp_model_config config = {.vocabulary = 1};
        file.error = NULL;
        read_values(&file);
        read_tensors(&file);
        read_tokenizer(&file);
        status = bp_gguf_family_of("gpt2")->take(&file, "gpt2", &config);
        if (status == BP_OK &&
            (bp_transformer_of(&config).heads == 0 ||
             bp_transformer_of(&config).width % bp_transformer_of(&config).heads != 0)) {
            abort();
        }
        status = bp_gguf_close(&file);
    }
    if (one.open != 0 || (status != BP_OK && status != BP_ERR_DATA && status != BP_ERR_FIT)) {
        abort();
    }
    return 0;
}
