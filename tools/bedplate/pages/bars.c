/* SPDX-License-Identifier: MIT */
/* Bars of bytes. */
#include "tools/bedplate/pages/bars.h"

void bars_begin(bp_text *text)
{
    bp_text_string(text, "<table class=\"bars\">\n");
}

static void bars_part(bp_text *text, const char *style, uint64_t bytes, uint64_t most,
                      const char *name)
{
    bp_text_string(text, "<i class=\"");
    bp_text_string(text, style);
    bp_text_string(text, "\" style=\"width:");
    bp_text_fixed(text, 100.0 * (double)bytes / (double)(most > 0 ? most : 1), 3);
    bp_text_string(text, "%\" title=\"");
    bp_text_html(text, name);
    bp_text_char(text, ' ');
    bp_text_grouped(text, bytes);
    bp_text_string(text, " bytes\"></i>");
}

void bars_put(bp_text *text, const bar *one, uint64_t most)
{
    bp_text_string(text, one->note != NULL ? "<tr class=\"most\"><td>" : "<tr><td>");
    bp_text_html(text, one->name);
    if (one->note != NULL) {
        bp_text_string(text, " <b>");
        bp_text_html(text, one->note);
        bp_text_string(text, "</b>");
    }
    bp_text_string(text, "</td><td class=\"r\" title=\"");
    bp_text_grouped(text, one->bytes);
    bp_text_string(text, " bytes\">");
    bp_text_bytes_human(text, one->bytes);
    bp_text_string(text, "</td><td class=\"t\"><span>");
    if (one->classes == NULL) {
        bars_part(text, "all", one->bytes, most, one->name);
    }
    for (uint32_t c = 0; one->classes != NULL && c < BP_CLASS_COUNT; c++) {
        const char style[] = {'c', (char)('0' + c), '\0'};
        if (one->classes[c] > 0) {
            bars_part(text, style, one->classes[c], most, bp_class_name((bp_class)c));
        }
    }
    bp_text_string(text, "</span></td></tr>\n");
}

void bars_end(bp_text *text)
{
    bp_text_string(text, "</table>\n");
}
