/* SPDX-License-Identifier: MIT */
/* Weights and adapters beside them. */
#include "tests/support/merge_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tools/formats/family.h"

merge_desk *merge_desk_new(const bp_model *model, const bp_model_config *config)
{
    merge_desk *d = calloc(1, sizeof *d);
    assert_non_null(d);
    memory_store_init(&d->memory);
    d->room = (bp_staging){d->scratch, sizeof d->scratch};
    assert_int_equal(bp_parameters_list(model, config, &d->room, &d->parameters, &d->error), BP_OK);
    return d;
}

void merge_desk_open(merge_desk *d, const char *family, bp_tensor_heads heads)
{
    assert_int_equal(bp_hf_open(&d->set, &d->memory.store, "in", &d->room, &d->error), BP_OK);
    const bp_match m = {.set = &d->set,
                        .naming = &bp_family_find(family)->naming,
                        .wanted = d->parameters.list,
                        .count = d->parameters.count,
                        .heads = heads,
                        .work = {d->work, sizeof d->work}};
    assert_int_equal(bp_tensor_match(&m), BP_OK);
    d->source =
        (bp_weight_source){&d->set, d->parameters.list, d->parameters.count, heads, NULL, false};
}

bp_status merge_desk_load(merge_desk *d, made_tensors *made, const bp_lora *lora)
{
    made_write(made, 0, made->count, &d->memory.store, "ad");
    made_free(made);
    d->error = (bp_error){0};
    assert_int_equal(bp_hf_open(&d->adapters, &d->memory.store, "ad", &d->room, &d->error), BP_OK);
    return bp_merge_load(&d->merge, &d->adapters, lora, false, &d->source, &d->room, &d->error);
}

void merge_desk_free(merge_desk *d)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    assert_int_equal(bp_tensor_set_close(&d->adapters), BP_OK);
    memory_store_free(&d->memory);
    free(d);
}
