/* SPDX-License-Identifier: MIT */
/* Examples of two texts, of which one is made of the other. */
#include "core/run/feed.h"

static const char where[] = "feed";

static bp_status texts_split(const bp_feed *feed, bp_example *row, bp_example *source)
{
    *source = *row;
    if (row->prompt == 0 || row->prompt >= row->count) {
        return bp_error_set(feed->error, BP_ERR_DATA, where,
                            "an example has no two texts, of which one is made of the other",
                            feed->source->name);
    }
    source->count = row->prompt;
    row->first += row->prompt;
    row->count -= row->prompt;
    row->prompt = 0;
    row->second = 0;
    return BP_OK;
}

/* Of a text that is too long the beginning, and its last token. */
static bp_status texts_fill(const bp_feed *feed, const bp_example *from, uint32_t elements,
                            int32_t *to)
{
    const uint32_t kept = from->count < elements ? (uint32_t)from->count : elements;
    bp_source *source = feed->source;
    for (uint32_t t = kept; t < elements; t++) {
        to[t] = feed->padding;
    }
    bp_status status = kept > 0 ? source->read(source, from->first, kept, to) : BP_OK;
    if (status == BP_OK && kept < from->count && kept > 0) {
        status = source->read(source, from->first + from->count - 1, 1, to + kept - 1);
    }
    return status == BP_OK
               ? BP_OK
               : bp_error_set(feed->error, status, where, "the data cannot be read", source->name);
}

const bp_feed_texts bp_feed_two_texts = {texts_split, texts_fill};
