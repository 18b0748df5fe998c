/* SPDX-License-Identifier: MIT */
/* The common head and style of pages. */
#include "arena/page.h"

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";

/* Texts of the drawings: tm, te, ts are ticks by their anchor; ps and pe marks; n names; w is left
 * out where the page is narrow. */
static const char page_style[] =
    "</title>\n<style>\n"
    ":root{color-scheme:light dark;--ink:#1f2933;--soft:#55636f;--line:#dfe5ea;--paper:#fff;"
    "--card:#f5f7f9;--good:#1a7f4b;--bad:#b4540a}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6ebf0;--soft:#a3b1be;--line:#2f3a44;"
    "--paper:#14191e;--card:#1c232a;--good:#4cc38a;--bad:#f0a35e}}\n"
    "body{margin:0 auto;max-width:1280px;padding:24px 28px 48px;background:var(--paper);"
    "color:var(--ink);font:15px/1.45 system-ui,sans-serif}\n"
    "h1{font-size:22px;margin:0 0 6px;overflow-wrap:anywhere}h2{font-size:16px;margin:26px 0 6px}\n"
    ".sub{color:var(--soft);margin:0 0 14px;overflow-wrap:anywhere}\n"
    ".cards{display:flex;flex-wrap:wrap;gap:10px}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;"
    "padding:8px 14px;min-width:130px}\n"
    ".card b{display:block;font-size:19px}.card small{display:block;color:var(--soft);"
    "overflow-wrap:anywhere}\n"
    ".good b{color:var(--good)}.bad b{color:var(--bad)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:8px 0 2px;color:var(--soft)}\n"
    ".legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px;"
    "vertical-align:-1px}\n"
    ".plot{padding:0 20px 0 76px}.plot>svg{display:block;overflow:visible}"
    "svg text{fill:var(--soft);font:12px system-ui,sans-serif}\n"
    ".g{stroke:var(--line);stroke-width:1}.p{stroke:var(--ink);stroke-width:1;"
    "stroke-dasharray:5 3;pointer-events:none}.l{stroke:var(--bad);stroke-width:1.5;"
    "stroke-dasharray:8 4}\n"
    ".k *{vector-effect:non-scaling-stroke}.tm{text-anchor:middle}.te,.pe{text-anchor:end}svg "
    ".ps,svg .pe{fill:var(--ink)}\n"
    ".b{stroke:var(--paper);stroke-width:.6}g:hover>rect{stroke:var(--ink);stroke-width:2}\n"
    "svg .n{text-anchor:middle;pointer-events:none;font-size:10px;fill:#10161c}\n"
    ".part{fill:var(--card);stroke:var(--line)}.part+.n{fill:var(--ink)}\n"
    ".scroll{overflow-x:auto}pre{overflow-x:auto;font:12px ui-monospace,monospace}\n"
    "table{border-collapse:collapse;font-size:13px}th,td{text-align:left;padding:3px 14px 3px 0;"
    "border-bottom:1px solid var(--line)}\n"
    "td.r,th.r{text-align:right;font-variant-numeric:tabular-nums}th{color:var(--soft)}\n"
    "td.r{white-space:nowrap}code{font:12px ui-monospace,monospace}\n"
    ".bars{width:100%;max-width:900px}.bars .t{width:60%;padding-right:0}.bars "
    "span{display:flex;height:14px;background:var(--card)}.bars .all{background:var(--soft)}\n"
    ".most td:first-child,.most b{color:var(--bad)}.most b{font-weight:600;white-space:nowrap}\n"
    "@media(max-width:700px){body{padding:14px 12px 32px}.plot{padding:0 14px 0 64px}"
    "svg text.w{display:none}.card{min-width:0;flex:1 1 40%;box-sizing:border-box}"
    ".legend{gap:4px 12px;font-size:13px}table{font-size:12px}th,td{padding-right:9px}"
    ".scroll td:first-child{overflow-wrap:anywhere}}\n";

void bp_page_head(bp_text *out)
{
    bp_text_string(out, page_head);
}

void bp_page_style(bp_text *out)
{
    bp_text_string(out, page_style);
}
