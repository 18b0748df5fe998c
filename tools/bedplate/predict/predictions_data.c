/* SPDX-License-Identifier: MIT */
/* Which data a source was made of. */
#include "tools/bedplate/predict/predictions_data.h"

#include "tools/bedplate/predict/predictions_answers.h"
#include "tools/bedplate/predict/predictions_vectors.h"
#include "tools/bedplate/predict/predictions_words.h"

bp_status predictions_data_begin(predictions *p, session *s, bp_source *source)
{
    const bp_task task = s->spec.config.task;
    p->source = source;
    return task == BP_TASK_TOKENS       ? predictions_words_begin(p, &s->error)
           : task == BP_TASK_ANSWERS    ? predictions_answers_begin(p, s)
           : task == BP_TASK_EMBEDDING  ? predictions_vectors_begin(p, s)
           : task == BP_TASK_REGRESSION ? predictions_numbers_begin(p, s)
                                        : BP_OK;
}

bp_status predictions_data_end(predictions *p, session *s, data_set *data)
{
    const bp_task task = s->spec.config.task;
    const bool part = p->source == &data->held_part.source;
    const uint64_t first = part ? data->held_part.first_example : 0;
    data_files *files = p->source == data->held.source ? &data->held : &data->main;
    bp_status status = BP_OK;
    if (files->data.format != BP_DATA_TOKENS && task == BP_TASK_TOKENS) {
        status = predictions_words_write(p, s, files, first);
    } else if (files->data.format != BP_DATA_TOKENS && task == BP_TASK_ANSWERS) {
        status = predictions_answers_end(p, s, files, first);
    } else if (task == BP_TASK_EMBEDDING) {
        status = predictions_vectors_end(p);
    } else if (task == BP_TASK_REGRESSION) {
        predictions_numbers_end(p);
    }
    memory_give_back(&p->room);
    return status;
}
