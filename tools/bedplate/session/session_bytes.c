/* SPDX-License-Identifier: MIT */
/* What a session takes beside its plan. */
#include "core/plan/adapter.h"
#include "tools/bedplate/sources/data_answered.h"
#include "tools/bedplate/sources/data_tagged.h"
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/device_memory.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/session/session.h"

#define WORK_BYTES  ((uint64_t)1 << 20) /* to carry data */
#define WORK_TENSOR 2048u               /* tables, per tensor of a file */
#define WORK_RANKS  256u                /* ranks that save a state together without more, */
#define WORK_RANK   1024u               /* and what each rank beyond takes */

uint64_t session_arenas_here(const session *s)
{
    const bp_report *report = &s->runtime.report;
    return device_takes_memory(&s->spec) ? report->arena_bytes + report->host.arena_bytes : 0;
}

/* While text is read the process's own tables and stacks are smaller than in a step: measured, by
 * 170 to 235 KB. */
#define READING_LESS ((uint64_t)96 << 10)

/* What reading text takes; 0: it is not read. */
static uint64_t reading_bytes(const session *s)
{
    const bp_task task = s->spec.config.task;
    const uint64_t more = task == BP_TASK_ANSWERS  ? data_answered_bytes()
                          : task == BP_TASK_TOKENS ? data_tagged_bytes()
                                                   : 0;
    return s->coder.bytes > 0 ? s->coder.bytes + more - READING_LESS : 0;
}

uint64_t session_length_bytes(const session *s)
{
    const uint64_t group = bp_size_mul(s->spec.batch, s->spec.accumulation);
    return s->set->group_by_length ? bp_size_mul(group, BP_STRETCH_GROUPS * sizeof(bp_stretch_row))
                                   : 0;
}

/* Text is tokenised before there are arenas. */
uint64_t session_host_bytes(const session *s)
{
    const uint64_t reading = reading_bytes(s);
    const uint64_t text = reading > s->unpack_bytes ? reading : s->unpack_bytes;
    const uint64_t arenas = session_arenas_here(s);
    const uint64_t tensors = (uint64_t)s->runtime.state_count * sizeof(bp_state_tensor);
    const uint64_t alone = text > arenas ? text - arenas : 0;
    uint64_t run = s->host.bytes + below_room(&s->below, &s->runtime) + tensors +
                   gguf_folder_bytes(&s->gguf) + s->reference_bytes + session_length_bytes(s);
    /* Evaluations in a training read questions once more, beside the plan. */
    const bool asks = s->spec.config.task == BP_TASK_ANSWERS && s->spec.evaluate;
    if (s->coder.block.address != NULL) {
        run += s->coder.bytes;
    } else if (asks && s->spec.optimizer != NULL) {
        run += s->coder.bytes + data_answered_bytes();
    }
    run = run > alone ? run : alone;
    return device_takes_memory(&s->spec) ? run + process_bytes(s->spec.device_options.threads)
                                         : run;
}

uint64_t session_work_bytes(const session *s)
{
    const bp_spec *spec = &s->spec;
    const uint64_t size = ranks_size(s->set), more = size > WORK_RANKS ? size - WORK_RANKS : 0;
    uint64_t tensors = 3 * (uint64_t)bp_adapter_parameters(spec) + 64;
    return WORK_BYTES + tensors * WORK_TENSOR + more * WORK_RANK;
}
