/* SPDX-License-Identifier: MIT */
/* What every command that runs a model shares: settings become a spec, a plan, an open runtime. */
#ifndef BP_BEDPLATE_SESSION_H
#define BP_BEDPLATE_SESSION_H

#include "core/run/runtime.h"
#include "core/base/safetensors.h"
#include "device/host/storage/store_posix.h"
#include "tools/bedplate/session/adapter_choice.h"
#include "tools/bedplate/planning/offload_choice.h"
#include "tools/bedplate/planning/choice.h"
#include "tools/bedplate/models/run_tokenizer.h"
#include "tools/bedplate/models/gguf_folder.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/session/policy.h"
#include "tools/bedplate/session/precision.h"
#include "tools/bedplate/predict/predictions.h"
#include "tools/bedplate/ranks/ranks_nccl.h"
#include "tools/bedplate/app/settings.h"
#include "core/plan/search/share.h"
#include "tools/bedplate/planning/shortage.h"
#include "tools/formats/family/class_names.h"
#include "tools/formats/hf/embedder.h"
#include "tools/formats/hf/hf_weights.h"

/* The arena of several sessions that have one frozen base (bp_spec.shares_base). */
typedef struct session_arena {
    memory_block memory; /* of the largest plan */
    bool loaded;         /* the base is in it, */
    bool drawn;          /* and some of it was drawn from the seed of who loaded it */
} session_arena;

/* Must not move once begun. */
typedef struct session {
    const settings *set;
    bp_store_posix posix;
    bp_store *store;
    gguf_folder gguf; /* --model is a GGUF file: what stands for its directory */
    bp_error error;   /* the first error outside of plan and runtime */
    bp_spec spec;
    policy_text policy; /* as given */
    precision_rules rules;
    adapter_choice adapters;
    bool texts_known;    /* of rows of texts: the data said how many there are in each */
    bool batch_resolved; /* batch and accumulation are those of the checkpoint to continue */
    uint32_t largest;    /* plan --max-batch: the micro-batch found */
    bool chunk_resolved; /* and so is loss_rows */
    bp_choice choice;
    shortage lack;           /* of a plan that does not fit: what was looked for already */
    bp_share_choice sharing; /* of --shard auto */
    offload_choice offload;
    bool calibrated; /* --calibrate: `rates` are measured ones */
    bp_rates rates;
    bp_spec rated;                        /* the spec they were measured for */
    const char *one_length;               /* why padded texts have no shorter programs */
    bool directory;                       /* the model is a directory */
    bool weights;                         /* which holds weights */
    bool state_follows;                   /* a checkpoint will give all that is trained */
    bool new_head;                        /* training is for a task that they have no head for */
    char weights_path[BP_STORE_PATH_MAX]; /* one file of them, or the index of several */
    float class_weights[PREDICTIONS_CLASSES];  /* --class-weights, in spec where it is given */
    bp_class_names names;                      /* of the model's classes; count 0: none */
    bp_hf_module modules[BP_VECTOR_DENSE_MAX]; /* weights of its Dense modules */
    bp_embedder embedder;                      /* --task embedding: how vectors are made */
    bp_task own_task;                          /* of the model's files, whatever the run's is */
    bool classes_named;          /* the model's files, not the data, say which classes there are */
    bool classes_open;           /* training, plan: the data names them, for nothing else does */
    run_tokenizer run_tokenizer; /* its tokenizer, when it was asked for */
    bp_plan plan;
    bp_status (*planned)(struct session *s); /* NULL, or called between planning and the arenas */
    bp_runtime runtime;
    session_arena *shared; /* NULL: the arena is its own; else it is planned before its start */
    uint64_t alone_plan;   /* shared: bp_graph_digest of the plan that it would have alone */
    memory_block host;     /* the plan's memory and the work room behind it */
    memory_block arena;    /* the device arena */
    ranks_gpus gpus;       /* of several ranks */
    memory_block host_arena;
    uint32_t turn_end;         /* 1 + the token that ends a turn of the conversations; 0: none */
    uint64_t tokenizer_digest; /* bp_tokenizer_digest of it, once it was opened; 0: there is none */
    uint64_t reference_bytes;  /* of what a reference or a teacher says that is held */
    uint64_t unpack_bytes;     /* of memory that unpacking data took, before the plan's was taken */
    bp_staging work;           /* for reading and writing files */
    bp_checked checked;        /* --verify-products: what the device has seen, */
    bp_checked told;           /* and what of it was told */
} session;

/* Finds the model (a directory or a preset) and fills session->spec: its configuration and what the
 * settings say of device, optimizer and shapes. */
bp_status session_begin(session *s, const settings *set) BP_MUST_CHECK;

/* What the fit is asked: the spec, --arena, and what was not given. */
bp_fit_request session_request(const session *s);

/* Keeps the measured rates, if there are any, in --output-dir. */
bp_status session_save_rates(session *s) BP_MUST_CHECK;

/* With --shard auto: the fastest form that fits. With --arena: runs the fit over what was not given
 * of checkpointing, batch and accumulation, and loss chunk, and puts its choice into session->spec,
 * which must be complete. When nothing fits, session_check_fit will say so. */
bp_status session_choose(session *s) BP_MUST_CHECK;

/* Takes the host memory and plans. */
bp_status session_plan(session *s) BP_MUST_CHECK;

/* bp_graph_digest of its plan; of one that shares an arena, of the plan that it has alone, whose
 * programs are the same. */
uint64_t session_plan_digest(const session *s);

/* Room for reading and writing files: three tensors of state per parameter and a few of the run's
 * own. A function of the model. */
uint64_t session_work_bytes(const session *s);

/* Looks for the model's tokenizer, and loads it (tools/bedplate/models/run_tokenizer.h). */
bp_status session_find_run_tokenizer(session *s) BP_MUST_CHECK;
bp_status session_open_run_tokenizer(session *s) BP_MUST_CHECK;

/* What --group-by-length keeps beside the plan. */
uint64_t session_length_bytes(const session *s);

/* All memory of a planned session beside its arenas: tables, staging, work room, and the
 * tokenizer's memory, which is added while it is held; where it was given back before there were
 * arenas, what it has beyond them counts. On the host device also what the process takes
 * (process_memory.h), so that arenas and this are what VmHWM shows. */
uint64_t session_host_bytes(const session *s);

/* Whether the plan fits --arena; when it does not, prints how many bytes are missing, the largest
 * buffer at the peak, and the cheapest change that would make it fit. */
bp_status session_check_fit(session *s) BP_MUST_CHECK;

/* The weights of s->weights_path, where there are some, with those of --adapter if they are wanted;
 * the rest is drawn. session_start has done it. */
bp_status session_give_weights(session *s, bool adapters) BP_MUST_CHECK;

/* Plans, checks the fit, takes the arena and opens the runtime over it: random weights, or those of
 * the directory. */
bp_status session_start(session *s) BP_MUST_CHECK;

/* Prints the first error and returns the exit code; 0 for BP_OK. */
int session_report(const session *s, bp_status status);

/* Ends everything and gives the memory back. Safe at any stage. */
void session_end(session *s);

#endif
