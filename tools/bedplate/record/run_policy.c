/* SPDX-License-Identifier: MIT */
/* The policy of the page of runs. */
#include <string.h>

#include "core/base/sha256.h"
#include "tools/bedplate/record/run_script.h"

/* 32 bytes in base64: ten groups of three, and one of two. */
static void policy_base64(bp_text *text, const unsigned char bytes[32])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < 32; i += 3) {
        const uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 |
                               (i + 2 < 32 ? bytes[i + 2] : 0u);
        bp_text_char(text, letters[group >> 18]);
        bp_text_char(text, letters[group >> 12 & 63]);
        bp_text_char(text, letters[group >> 6 & 63]);
        bp_text_char(text, i + 2 < 32 ? letters[group & 63] : '=');
    }
}

void run_script_policy(bp_text *text)
{
    unsigned char digest[32];
    bp_sha256 sha;
    bp_sha256_begin(&sha);
    for (size_t i = 0; run_script[i] != NULL; i++) {
        bp_sha256_add(&sha, run_script[i], strlen(run_script[i]));
        bp_sha256_add(&sha, "\n", 1);
    }
    bp_sha256_end(&sha, digest);
    bp_text_string(text,
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; img-src data:; script-src 'sha256-");
    policy_base64(text, digest);
    bp_text_string(text, "'\">\n");
}

void run_script_put(bp_text *text)
{
    bp_text_string(text, "<script>");
    for (size_t i = 0; run_script[i] != NULL; i++) {
        bp_text_string(text, run_script[i]);
        bp_text_char(text, '\n');
    }
    bp_text_string(text, "</script>\n");
}
