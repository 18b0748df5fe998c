/* SPDX-License-Identifier: MIT */
/* Which forms this build has and which of them this processor runs. */
#include "device/host/isa.h"

#include <string.h>

#include "device/host/cpu.h"
#include "device/host/isa_table.h"

typedef struct form_row {
    const char *name;
    const bp_host_isa *form;
    bool (*runs)(void);
    uint32_t alignment;
    bool (*pays)(void); /* NULL: wherever it runs */
} form_row;

static bool always(void)
{
    return true;
}

static const form_row rows[BP_HOST_ISAS_ALL] = {
    {"portable", &bp_host_portable, always, 32, NULL},
    {"neon", BP_ARM(bp_host_neon), bp_cpu_has_neon, 32, NULL},
    {"sve", BP_ARM(bp_host_sve), bp_cpu_has_sve, 64, bp_cpu_has_wide_sve},
    {"avx2", BP_X86(bp_host_avx2), bp_cpu_has_avx2, 32, NULL},
    {"avx512", BP_X86(bp_host_avx512), bp_cpu_has_avx512, 64, NULL},
    {"amx", BP_X86(bp_host_amx), bp_cpu_has_amx, 64, NULL},
};

const char *bp_host_isa_name(uint32_t index)
{
    return rows[index].name;
}

bool bp_host_isa_runs(uint32_t index)
{
    return rows[index].runs();
}

bp_status bp_host_isa_choose(const char *name, const bool runs[BP_HOST_ISAS_ALL], uint32_t *index)
{
    for (uint32_t i = name == NULL ? BP_HOST_ISAS : BP_HOST_ISAS_ALL; i-- > 0;) {
        bool meant = name == NULL ? runs[i] : strcmp(name, rows[i].name) == 0;
        if (meant) {
            *index = i;
            return runs[i] ? BP_OK : BP_ERR_DEVICE;
        }
    }
    return BP_ERR_USAGE;
}

bp_status bp_host_isa_find(const char *name, uint32_t *index)
{
    bool runs[BP_HOST_ISAS_ALL];
    for (uint32_t i = 0; i < BP_HOST_ISAS_ALL; i++) {
        runs[i] = rows[i].runs() && (name != NULL || rows[i].pays == NULL || rows[i].pays());
    }
    return bp_host_isa_choose(name, runs, index);
}

uint32_t bp_host_isa_alignment(const char *name)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < BP_HOST_ISAS_ALL; i++) {
        if (name != NULL && strcmp(name, rows[i].name) == 0) {
            return rows[i].alignment;
        }
        most = rows[i].alignment > most ? rows[i].alignment : most;
    }
    return most;
}

/* A portable product, compiled for this processor where that has an instruction for fmaf. */
static const bp_host_kernel *with_fused(const bp_host_kernel *kernel)
{
    static const struct {
        const bp_host_kernel *calls, *fused;
    } products[] = {
        {&bp_host_matmul, BP_X86(bp_plain_matmul_avx2)},
        {&bp_host_matmul_quantised, BP_X86(bp_plain_matmul_quantised_avx2)},
    };
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        if (kernel == products[i].calls && products[i].fused != NULL && bp_cpu_has_avx2()) {
            return products[i].fused;
        }
    }
    return kernel;
}

const bp_host_kernel *bp_host_isa_kernel(uint32_t index, uint32_t element, uint32_t kernel)
{
    while (index > 0 &&
           (rows[index].form == NULL || rows[index].form->kernels[element][kernel] == NULL)) {
        index--;
    }
    const bp_host_kernel *found = rows[index].form->kernels[element][kernel];
    return index == 0 ? with_fused(found) : found;
}

uint32_t bp_host_isa_other(uint32_t index, uint32_t turn)
{
    uint32_t fast = index;
    if (turn == 0 || index == 0 || index >= BP_HOST_ISAS) {
        return index;
    }
    for (uint32_t i = 1; i < BP_HOST_ISAS; i++) {
        fast = i != index && bp_host_isa_runs(i) ? i : fast;
    }
    return turn == 1 ? fast : 0; /* the portable one is neither, and runs everywhere */
}

void bp_host_isa_kernels(uint32_t index,
                         const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT])
{
    for (uint32_t element = 0; element < BP_HOST_ELEMENTS; element++) {
        for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
            kernels[element][kernel] = bp_host_isa_kernel(index, element, kernel);
        }
    }
}

bp_host_codes *bp_host_isa_codes(uint32_t index)
{
    while (rows[index].form == NULL || rows[index].form->codes == NULL) {
        index--;
    }
    return rows[index].form->codes;
}

bp_host_normals *bp_host_isa_normals(uint32_t index)
{
    while (rows[index].form == NULL || rows[index].form->normals == NULL) {
        index--;
    }
    return rows[index].form->normals;
}

bp_host_words *bp_host_isa_words(uint32_t index)
{
    while (index > 0 && (rows[index].form == NULL || rows[index].form->words == NULL)) {
        index--;
    }
    return rows[index].form->words;
}
