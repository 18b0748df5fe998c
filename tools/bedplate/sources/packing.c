/* SPDX-License-Identifier: MIT */
/* --packing. */
#include "tools/bedplate/sources/packing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/sources/data_tokenised.h"
#include "tools/formats/data/data_packed.h"
#include "tools/bedplate/app/output.h"

static const char where[] = "packing";

bool packing_apart(const settings *set)
{
    return set->packing && strcmp(set->packing_strategy, "wrapped") != 0;
}

bp_status packing_check(session *s)
{
    const bool words = s->spec.config.task == BP_TASK_CAUSAL_LM;
    if (!s->set->packing || (words && s->spec.preference.kind == BP_PREFERENCE_NONE)) {
        return BP_OK;
    }
    return bp_error_set(&s->error, BP_ERR_USAGE, where,
                        "documents are packed for language models that guess the next token: "
                        "--task causal-lm",
                        "--packing");
}

static bp_packing packing_strategy(const settings *set)
{
    const char *strategy = set->packing_strategy;
    return strcmp(strategy, "wrapped") == 0 ? BP_PACKING_WRAPPED
           : strcmp(strategy, "bfd") == 0   ? BP_PACKING_BFD
                                            : BP_PACKING_BFD_SPLIT;
}

bp_status packing_stream_check(session *s, bp_source *source)
{
    static const bp_tokenizer_special none = {-1, -1, -1, -1, -1, -1, -1, false, false, false};
    const bp_pack pack = {.source = source,
                          .end_token =
                              run_tokenizer_end_of(&s->run_tokenizer, &none, &s->spec.config),
                          .packing = packing_strategy(s->set),
                          .error = &s->error};
    return s->set->packing ? bp_pack_check(&pack) : BP_OK;
}

static void say_packed(const session *s, const bp_pack *pack, const bp_tokens *tokens)
{
    const uint64_t places = pack->rows * pack->most;
    if (pack->cut > 0) {
        output_print(stderr,
                     "bedplate: --packing: %" PRIu64 " tokens are beyond the ends of rows\n",
                     pack->cut);
    }
    if (s->set->quiet) {
        return;
    }
    output_print(stderr, "bedplate: --packing: %" PRIu64 " documents", pack->documents);
    if (places > 0) {
        output_print(stderr, " in %" PRIu64 " rows, of whose %" PRIu64 " places %.1f %% are used",
                     pack->rows, places, 100.0 * (double)tokens->head.tokens / (double)places);
    } else {
        output_print(stderr, " in a stream of %" PRIu64 " tokens", tokens->head.tokens);
    }
    output_print(stderr, "\n");
}

static bp_status pack_data(bp_tokens *tokens, session *s, data_set *data, memory_block *memory)
{
    static char path[BP_STORE_PATH_MAX]; /* the token file's name, as long as it is open */
    const int64_t end = run_tokenizer_end_of(&s->run_tokenizer, &data->special, &s->spec.config);
    bp_pack pack = {.source = data->train,
                    .end_token = end,
                    .vocabulary = s->spec.config.vocabulary,
                    .most = (uint64_t)s->spec.sequence + 1,
                    .packing = packing_strategy(s->set),
                    .store = s->store,
                    .path = path,
                    .scratch = memory->address,
                    .error = &s->error};
    BP_TRY(data_token_path(data, s, path, "data.packed"));
    const bp_status status = bp_pack_open(&pack, tokens);
    data_token_unname(s, path);
    BP_TRY(status);
    if (pack.long_number > 0) {
        BP_TRY(
            data_refuse_long(s, data->train->name, pack.long_number, pack.long_tokens, pack.most));
    }
    tokens->source.name = data->train->name;
    data->train = &tokens->source;
    say_packed(s, &pack, tokens);
    return data_check_targets(s, data->train);
}

bp_status packing_open(bp_tokens *tokens, session *s, data_set *data)
{
    memory_block memory;
    if (!s->set->packing) {
        return BP_OK;
    }
    BP_TRY(memory_take(&memory, BP_PACKED_SCRATCH, false, "host memory", &s->error));
    const bp_status status = pack_data(tokens, s, data, &memory);
    memory_give_back(&memory);
    return status;
}
