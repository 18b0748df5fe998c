/* SPDX-License-Identifier: MIT */
/* The colours of classes. */
#include <string.h>

#include "core/ir/program.h"
#include "tools/bedplate/pages/class_colour.h"

/* Colours that most people can tell apart (Okabe and Ito, 2008) and two greys. */
static const char *const class_colours[BP_CLASS_COUNT] = {
    [BP_CLASS_WEIGHTS] = "#0072b2",    [BP_CLASS_MASTER] = "#56b4e9",
    [BP_CLASS_OPTIMIZER] = "#009e73",  [BP_CLASS_GRADIENTS] = "#d55e00",
    [BP_CLASS_CHECKPOINT] = "#cc79a7", [BP_CLASS_TAPE] = "#e69f00",
    [BP_CLASS_WORKSPACE] = "#999999",  [BP_CLASS_IO] = "#555555"};

const char *class_colour(const char *name)
{
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        if (strcmp(bp_class_name((bp_class)c), name) == 0) {
            return class_colours[c];
        }
    }
    return "#888888";
}
