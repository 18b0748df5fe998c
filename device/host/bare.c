/* SPDX-License-Identifier: MIT */
/* The host device with an application's own table of kernels: nothing here names a kernel, so the
 * linker takes those of the table and no others. */
#include <string.h>

#include "device/devices.h"
#include "device/host/device_private.h"

/* The row of a kernel in an application's table; NULL: it has none. */
static const bp_host_kernel *bare_find(const bp_kernel_row *rows, uint32_t element, uint32_t kernel)
{
    const char *name = bp_kernel_describe((bp_kernel)kernel)->name;
    while (rows != NULL && rows->name != NULL) {
        if ((uint32_t)rows->element == element && strcmp(rows->name, name) == 0) {
            return rows->form;
        }
        rows++;
    }
    return NULL;
}

/* A kernel that is not there has none: bare_supports denies it. */
static uint64_t bare_workspace(const bp_device_options *options, bp_kernel kernel,
                               const void *scalars, const uint8_t *dtypes)
{
    const bp_host_kernel *row = NULL;
    for (uint32_t element = 0; element < BP_HOST_ELEMENTS && row == NULL; element++) {
        row = bare_find(options->kernels, element, kernel);
    }
    return row == NULL ? 0 : bp_host_device_workers(row, options, scalars, dtypes);
}

static bool bare_supports(const bp_device_options *options, bp_kernel kernel, const uint8_t *dtypes)
{
    const bp_dtype element = bp_kernel_working(bp_kernel_describe(kernel), dtypes);
    return bare_find(options->kernels, (uint32_t)element, (uint32_t)kernel) != NULL;
}

/* As the portable kernels, of which the table is made. */
static uint32_t bare_alignment(const bp_device_options *options)
{
    (void)options;
    return BP_ARENA_ALIGNMENT_LEAST;
}

static bp_status bare_open(void *memory, const bp_device_options *options,
                           const bp_regions *regions, bp_error *error)
{
    host_context *context = memory;
    BP_TRY(bp_host_device_check(options, regions, error));
    bp_host_device_begin(context, regions, error);
    for (uint32_t element = 0; element < BP_HOST_ELEMENTS; element++) {
        for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
            context->kernels[element][kernel] = bare_find(options->kernels, element, kernel);
        }
    }
    return bp_host_device_start(context, options, error);
}

/* No forms but those of the table, hence none to choose from and none for codes. */
const bp_device bp_device_bare = {
    .name = "host",
    .sums_by_row = true,
    .attention_over = true,
    .blocks = true,
    .alignment = bare_alignment,
    .context_bytes = sizeof(host_context),
    .workspace = bare_workspace,
    .supports = bare_supports,
    .link_bytes = bp_host_device_link_bytes,
    .open = bare_open,
    .link = bp_host_device_link,
    .seal = bp_host_device_seal,
    .upload = bp_host_device_upload,
    .download = bp_host_device_download,
    .address = bp_host_device_reach,
    .run = bp_host_device_run,
    .run_ops = bp_host_device_run_ops,
    .wait = bp_host_device_wait,
    .variant = bp_host_device_variant,
    .bytes_in_use = bp_host_device_bytes_in_use,
    .close = bp_host_device_close,
};
