# SPDX-License-Identifier: MIT
# Compares the conditions of mcdc_conditions.awk with the justified ones, and what is missing with the list of
# what still may be (arena, core, optim, layers: line by line) or with how many may be (the other folders);
# prints the table and the counting line.
BEGIN {
    while ((getline line < (here "/mcdc.missing")) > 0)
        if (line !~ /^#/ && split(line, part, " ") == 2) allowed[part[1]] = part[2]
    n = split("arena core optim layers", part, " ")
    for (i = 1; i <= n; i++) by_name[part[i]] = 1
    while ((getline line < (here "/mcdc.open")) > 0) {
        if (line ~ /^#/ || line == "") continue
        if (split(line, part, "`") != 3 || part[3] != "") {
            print "mcdc.open: not FILE:FUNCTION `CONDITION`: " line
            bad++
            continue
        }
        sub(/ $/, "", part[1])
        listed[part[1] SUBSEP part[2]] = 1
    }
    while ((getline line < (here "/mcdc.justified")) > 0) {
        if (line ~ /^#/ || line == "") continue
        if (split(line, part, "`") != 3 || part[3] !~ /^ (contract|defensive|tool): ./) {
            print "mcdc.justified: not FILE:FUNCTION `CONDITION` KIND: REASON, with KIND contract, defensive or tool: " line
            bad++
            continue
        }
        sub(/ $/, "", part[1])
        reason[part[1] SUBSEP part[2]] = part[3]
    }
    printf "%-13s %22s %10s %10s %9s %8s\n", "folder", "conditions shown", "justified", "missing", "may be", "traced"
}
{
    apart = FILENAME ~ /traced/
    folder = $1
    if (folder ~ /^(tools|device)\//) sub(/\/[^\/]*$/, "", folder)
    sub(/^device\/host\/.*/, "device/host", folder)
    if (folder !~ /^(tools|device)\//) sub(/\/.*/, "", folder)
    if (apart) { traced[folder] += $5; next }
    all[folder]++
    key = $1 ":" $2 SUBSEP $4
    there[key] = 1
    if ($5 == 1) { shown[folder]++; next }
    open_[key] = 1
    if (key in reason) justified[folder]++
    else if (key in listed) { missing[folder]++; allowed[folder]++ }
    else { missing[folder]++; where[folder] = where[folder] sprintf("    %s:%d %s `%s`\n", $1, $3, $2, $4) }
}
END {
    folders = split("arena core optim layers tools/formats device/host", name, " ")
    for (i = 1; i <= folders; i++) {
        f = name[i]
        low = missing[f] + 0 > allowed[f] + 0 || !(f in allowed || f in by_name) || all[f] == 0
        printf "%-13s %9d/%5d %5.1f %% %10d %10d %9d %6.1f %%%s\n", f, shown[f], all[f], \
            all[f] ? 100 * shown[f] / all[f] : 0, justified[f], missing[f], allowed[f], all[f] ? 100 * traced[f] / all[f] : 0, low ? "   FAILED" : ""
        if (low) { printf "%s", where[f]; failed++ } else passed++
        if (!low && missing[f] + 0 < allowed[f] + 0)
            printf "    fewer are missing than may be: mcdc.missing should say %d\n", missing[f]
    }
    for (key in reason) {
        if (key in open_) continue
        split(key, part, SUBSEP)
        print "mcdc.justified: " part[1] " `" part[2] "` " ((key in there) ? "is shown by a test by now" : "is not there") ": take the line out"
        bad++
    }
    for (key in listed) {
        if (key in open_ && !(key in reason)) continue
        split(key, part, SUBSEP)
        print "mcdc.open: " part[1] " `" part[2] "` " ((key in reason) ? "is justified as well" : (key in there) ? "is shown by a test by now" : "is not there") ": take the line out"
        bad++
    }
    print "conditions: build/mcdc/conditions.tsv; decisions and their vectors: build/mcdc/mcdc.txt"
    print passed + 0 " passed, " failed + bad + 0 " failed"
    exit failed + bad > 0
}
