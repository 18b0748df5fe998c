/* SPDX-License-Identifier: MIT */
/* The devices that a program can choose from, and what it asks of each beside running it: options
 * from words, what this machine has, how much memory, how it is listed. A device is a folder with
 * one BP_DEVICE_ENTRY, and a line of device/registry.c. */
#ifndef BP_DEVICE_REGISTRY_H
#define BP_DEVICE_REGISTRY_H

#include "arena/text.h"
#include "core/ir/device.h"

/* What a user asked for. */
typedef struct bp_device_request {
    const char *which;   /* behind the colon of the device's name: "1", "sm_80"; "": nothing */
    const char *kernels; /* the form of kernels; NULL: the best here */
    uint32_t threads;    /* 0: one for each processor */
    uint32_t local;      /* number of this rank among those of its machine */
    bool planned;        /* nothing will be opened: no machine has to be there */
    const char *note;    /* out: static words about what was taken for granted; NULL: nothing */
} bp_device_request;

/* What a machine has of a device. */
typedef struct bp_device_found {
    uint64_t identity;     /* a digest that no other device has; 0: unknown */
    uint64_t memory_bytes; /* all of its own memory; 0: it has none */
} bp_device_found;

/* Free bytes of a device's own memory as its driver counts them, for what lies outside the arena.
 */
typedef struct bp_device_memory {
    uint64_t total;
    uint64_t free_context; /* after the context was made, before the arena */
    uint64_t free_arena;   /* after the arena */
    uint64_t free_linked;  /* when sealing began: modules and graphs are there */
    uint64_t free_sealed;  /* after the seal; a step must not change it */
    uint64_t free_now;
    uint64_t fabric; /* taken by what joins several ranks, as measured; 0: nothing does */
    uint64_t share;  /* this process's share by the driver's management library; 0: unknown */
} bp_device_memory;

#define BP_DEVICE_FACTS      16
#define BP_DEVICE_FACT_BYTES 5120

typedef enum bp_fact_kind { BP_FACT_TEXT, BP_FACT_COUNT, BP_FACT_FLAG, BP_FACT_REAL } bp_fact_kind;

/* One of them: for a member of a JSON object. */
typedef struct bp_device_fact {
    const char *name; /* static */
    bp_fact_kind kind;
    const char *text;
    uint64_t count; /* of a flag 0 or 1 */
    double real;
} bp_device_fact;

/* What a device says of itself, twice: by name, and as a line for people, which `line` puts where
 * its owner wants it. */
typedef struct bp_device_facts {
    bp_text *line;
    bp_device_fact fact[BP_DEVICE_FACTS];
    uint32_t count;
    char text[BP_DEVICE_FACT_BYTES]; /* of facts that are texts */
    uint32_t used;
} bp_device_facts;

void bp_fact_count(bp_device_facts *facts, const char *name, uint64_t count);
void bp_fact_flag(bp_device_facts *facts, const char *name, bool flag);
void bp_fact_real(bp_device_facts *facts, const char *name, double real);
/* Copies the text; NULL: no such fact. */
void bp_fact_text(bp_device_facts *facts, const char *name, const char *text);

/* Whose resource an entry's `unit` asks for. */
typedef enum bp_unit { BP_UNIT_SYSTEMD, BP_UNIT_SLURM, BP_UNIT_KUBERNETES, BP_UNITS } bp_unit;

/* Functions may be NULL where it is said so. */
typedef struct bp_device_entry {
    const bp_device *device; /* its name is the word that chooses it */
    const char *choices;     /* all words that choose it, "cuda[:N]|cuda:sm_80" */
    bool automatic;          /* taken by itself where it is usable */
    bool supplied;           /* its arenas are memory of the caller */
    bool dry;                /* executes nothing: it is for plans alone */
    bool tf32;               /* takes bp_device_options.tf32 */
    bool nccl;               /* NCCL joins several */
    bool verify;             /* takes bp_device_options.verify */
    const char *common;      /* the target whose kernels every other one runs; NULL: no targets */
    const char *unit[BP_UNITS]; /* what a service manager is asked for; NULL: nothing */
    const char *image;          /* end of the container image's name; NULL: none */

    /* The options of a request. BP_ERR_USAGE, and no error recorded, where there is no such
     * `which`; BP_ERR_DEVICE with the reason where it cannot be used. */
    bp_status (*options)(bp_device_request *request, bp_device_options *options, bp_error *error);

    /* What there is of the device that options name. NULL: nothing is its own. */
    bp_status (*probe)(const bp_device_options *options, bp_device_found *found, bp_error *error);

    /* Whether products in fp8 are made as fast as they are small. NULL: they are not. */
    bool (*fp8)(const bp_device_options *options);

    /* What a plan for these options says of it. NULL: no more than its name. */
    void (*describe)(const bp_device_options *options, bp_device_facts *facts);

    /* Why an op runs with the common target's kernel; NULL: it does not. NULL: none ever does. */
    const char *(*misses)(const bp_device_options *options, const bp_linked_op *op);

    /* Number `index` of what this machine has of it, or why there is none to use, among which is
     * that an arena of that many bytes has no room; false past the last. */
    bool (*list)(uint32_t index, uint64_t arena_bytes, bp_device_facts *facts);

    /* Memory of an open device; the share takes tens of milliseconds and allocates. NULL: it has
     * none of its own. */
    bp_status (*memory)(void *context, bool with_share, bp_device_memory *memory);

    /* What its compiler said; "": nothing. Valid as long as the context, also after close. NULL:
     * there is no compiler. */
    const char *(*log)(const void *context);

    /* Where the program's file has what is only read for this device; begin == end: nowhere. NULL
     * likewise. */
    void (*unread)(uintptr_t *begin, uintptr_t *end);
} bp_device_entry;

/* Defines the entry of device/NAME/, which device/registry.c lists. */
#define BP_DEVICE_ENTRY(name)                                                                      \
    extern const bp_device_entry bp_device_entry_##name;                                           \
    const bp_device_entry bp_device_entry_##name

/* Entry `index`, NULL past the last. The first one's device is there on every machine. */
const bp_device_entry *bp_device_at(uint32_t index);

/* The entry of a name of `length` bytes; NULL: there is none. */
const bp_device_entry *bp_device_named(const char *name, size_t length);

/* The entry of a device; of one that is not listed, the first. */
const bp_device_entry *bp_device_entry_of(const bp_device *device);

/* What the machine has of the device that these options name: bp_device_entry.probe, and nothing
 * where that fails. */
bp_device_found bp_device_find(const bp_device *device, const bp_device_options *options);

#endif
