/* SPDX-License-Identifier: MIT */
/* The colours of classes of buffers: the same on every page. */
#ifndef BP_BEDPLATE_CLASS_COLOUR_H
#define BP_BEDPLATE_CLASS_COLOUR_H

/* "#0072b2", by the name of the class; a grey for one that is not known. */
const char *class_colour(const char *name);

#endif
