/* SPDX-License-Identifier: MIT */
/* Matching parameters with tensors by a family's table of names. */
#include "tools/formats/hf/tensor_match.h"

#include <string.h>

static const char where[] = "weights";

const char *bp_tensor_fault_text(bp_tensor_fault fault)
{
    static const char *const texts[BP_TENSOR_FAULTS] = {
        "a tensor of the model is missing in the file",
        "the file holds a tensor that the model does not have",
        "a tensor's shape differs from the model's",
        "a tensor's type is not F32, F16 or BF16",
        "the tensor differs from the one that the model's configuration ties it to",
    };
    return texts[fault];
}

typedef struct matching {
    const bp_match *m;
    unsigned faults;
    bp_tensor_fault first;
    char name[BP_TENSOR_NAME_MAX];
} matching;

/* What a base that was made for another task lacks. */
static bool is_of_head(const char *name)
{
    static const char *const patterns[] = {"score.*",  "classifier.*",     "bert.pooler.*",
                                           "pooler.*", "pre_classifier.*", "qa_outputs.*",
                                           "head.*"};
    char rest[BP_TENSOR_NAME_MAX];
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        if (bp_name_rewrite(patterns[i], "*", name, rest, sizeof rest)) {
            return true;
        }
    }
    return false;
}

static bool is_allowed(unsigned allow, const bp_tensor_finding *finding)
{
    const bp_tensor_fault fault = finding->fault;
    char rest[BP_TENSOR_NAME_MAX];
    if (fault == BP_TENSOR_SHAPE && (allow & BP_ALLOW_NEW_HEAD) != 0 &&
        (bp_name_rewrite("classifier.*", "*", finding->tensor, rest, sizeof rest) ||
         bp_name_rewrite("score.*", "*", finding->tensor, rest, sizeof rest))) {
        return true; /* for other classes */
    }
    if (fault == BP_TENSOR_MISSING && (allow & BP_ALLOW_NEW_HEAD) != 0 &&
        is_of_head(finding->tensor)) {
        return true;
    }
    return (fault == BP_TENSOR_MISSING && (allow & BP_ALLOW_MISSING) != 0) ||
           (fault == BP_TENSOR_UNEXPECTED && (allow & BP_ALLOW_UNEXPECTED) != 0) ||
           (fault == BP_TENSOR_SHAPE && (allow & BP_ALLOW_SHAPE) != 0);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void blame(matching *g, bp_tensor_finding finding)
{
    finding.allowed = is_allowed(g->m->allow, &finding);
    if (!finding.allowed && g->faults++ == 0) {
        size_t length = strlen(finding.tensor);
        length = length < BP_TENSOR_NAME_MAX ? length : BP_TENSOR_NAME_MAX - 1;
        g->first = finding.fault;
        memcpy(g->name, finding.tensor, length);
        g->name[length] = '\0';
    }
    if (g->m->watch != NULL) {
        g->m->watch(g->m->user, &finding);
    }
}

const bp_tensor_rule *bp_tensor_name(const bp_tensor_naming *naming, const char *ours,
                                     char theirs[BP_TENSOR_NAME_MAX])
{
    for (size_t i = 0; i < naming->rule_count; i++) {
        const bp_tensor_rule *rule = &naming->rules[i];
        if (bp_name_rewrite(rule->ours, rule->theirs, ours, theirs, BP_TENSOR_NAME_MAX)) {
            return rule;
        }
    }
    return NULL;
}

/* The tensor of a name, or the one under which a file keeps it: safetensors.torch.save_model writes
 * of tensors that share memory one, and in its metadata the names of the others with that one's. */
static bp_tensor_entry *find_kept(const bp_tensor_set *set, const char *name, uint32_t *part)
{
    bp_tensor_entry *entry = bp_tensor_set_find(set, name, part);
    for (uint32_t i = 0; entry == NULL && i < set->part_count; i++) {
        const char *kept = bp_tensor_set_metadata(set, i, name);
        entry = kept != NULL ? bp_tensor_set_find(set, kept, part) : NULL;
    }
    return entry;
}

/* The name of the first of its tensors; none where there is none. */
static void first_piece(const bp_tensor_rule *rule, const char *ours, char name[BP_TENSOR_NAME_MAX])
{
    bp_tensor_pieces pieces;
    const uint64_t any[3] = {1, BP_PIECES_SIDES, BP_PIECES_SIDES};
    if (!bp_tensor_pieces_of(&pieces, rule, ours, 3, any) ||
        !bp_tensor_pieces_name(&pieces, 0, name)) {
        name[0] = '\0';
    }
}

/* The first name of the parameter that the file holds. */
static const bp_tensor_rule *look_up(const matching *g, const char *ours, bp_tensor_entry **entry,
                                     uint32_t *part)
{
    const bp_tensor_naming *naming = g->m->naming;
    char name[BP_TENSOR_NAME_MAX];
    for (size_t i = 0; i < naming->rule_count; i++) {
        const bp_tensor_rule *rule = &naming->rules[i];
        if (!bp_name_rewrite(rule->ours, rule->theirs, ours, name, sizeof name)) {
            continue;
        }
        if (bp_tensor_in_pieces(rule->form)) {
            first_piece(rule, ours, name);
        }
        *entry = find_kept(g->m->set, name, part);
        if (*entry != NULL) {
            return rule;
        }
    }
    return NULL;
}

static bool wants(const matching *g, const char *name)
{
    for (size_t i = 0; i < g->m->count; i++) {
        if (strcmp(g->m->wanted[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a parameter has that name in the file: a head of its own is not tied. */
static bool is_wanted(const matching *g, const char *theirs)
{
    char name[BP_TENSOR_NAME_MAX];
    bool found = false;
    for (size_t i = 0; !found && i < g->m->count; i++) {
        for (size_t r = 0; !found && r < g->m->naming->rule_count; r++) {
            const bp_tensor_rule *rule = &g->m->naming->rules[r];
            found = bp_name_rewrite(rule->ours, rule->theirs, g->m->wanted[i].name, name,
                                    sizeof name) &&
                    strcmp(name, theirs) == 0;
        }
    }
    return found;
}

/* The same, or the first of its twins: a file may hold any one tensor of those that are tied. */
static const bp_tensor_rule *look_up_tied(const matching *g, const char *ours,
                                          bp_tensor_entry **entry, uint32_t *part)
{
    const bp_tensor_naming *naming = g->m->naming;
    char name[BP_TENSOR_NAME_MAX];
    const bp_tensor_rule *rule = look_up(g, ours, entry, part);
    for (size_t i = 0; rule == NULL && !g->m->untied && i < naming->twin_count; i++) {
        const bp_tensor_twin *twin = &naming->twins[i];
        if (strcmp(twin->ours, ours) == 0 && (twin->unless == NULL || !wants(g, twin->unless)) &&
            !is_wanted(g, twin->theirs)) {
            *entry = bp_tensor_set_find(g->m->set, twin->theirs, part);
            rule = *entry != NULL ? bp_tensor_name(naming, ours, name) : NULL;
        }
    }
    return rule;
}

static bool same_shape(const bp_wanted *wanted, const bp_tensor_view *view)
{
    bool same = wanted->rank == view->rank;
    for (uint32_t i = 0; same && i < wanted->rank; i++) {
        same = wanted->shape[i] == view->shape[i];
    }
    return same;
}

/* The transposed matrix that the B of experts is in a file. `wanted` is (experts, out * r), with
 * out behind it. */
static bool see_experts(const bp_wanted *wanted, bp_tensor_entry *entry, uint32_t part,
                        bp_tensor_heads heads, bp_tensor_view *view)
{
    const uint64_t experts = wanted->shape[0], out = wanted->shape[2];
    if (entry->rank != 2 || entry->shape[0] != out || entry->shape[1] % experts != 0 ||
        !bp_tensor_view_of(view, part, entry, BP_LAYOUT_PLAIN, heads)) {
        return false;
    }
    view->shape[0] = out * (entry->shape[1] / experts);
    view->shape[1] = experts;
    return bp_tensor_view_transpose(view, BP_LAYOUT_TRANSPOSED, heads);
}

/* A tensor as it lies in the file, or the matrix that its codes stand for; NULL entry: it does not
 * fit.
 */
static bp_status see(const matching *g, size_t index, const bp_tensor_rule *rule,
                     bp_tensor_entry *entry, uint32_t part, bp_tensor_view *view)
{
    bp_bnb bnb = {.form = BP_QUANTISED_NONE};
    if (bp_bnb_possible(entry)) {
        BP_TRY(bp_bnb_find(g->m->set, entry, part, (uint64_t)index + 1, &bnb));
    }
    if (bnb.form != BP_QUANTISED_NONE && rule->form == BP_LAYOUT_PLAIN) {
        bp_tensor_view_codes(view, &bnb, g->m->input_major);
    } else if (rule->form == BP_LAYOUT_EXPERTS) {
        view->entry =
            see_experts(&g->m->wanted[index], entry, part, g->m->heads, view) ? entry : NULL;
    } else if (!bp_tensor_view_of(view, part, entry, rule->form, g->m->heads)) {
        view->entry = NULL;
    }
    return BP_OK;
}

/* What is wrong with tensor `name` of a parameter's pieces; false: nothing. */
static bool piece_fault(const bp_wanted *piece, const bp_tensor_entry *entry,
                        bp_tensor_fault *fault)
{
    const bool there = entry != NULL;
    const bool fits = there && entry->rank == piece->rank &&
                      memcmp(entry->shape, piece->shape, piece->rank * sizeof piece->shape[0]) == 0;
    *fault = !there ? BP_TENSOR_MISSING : !fits ? BP_TENSOR_SHAPE : BP_TENSOR_DTYPE;
    return !fits || !bp_tensor_readable(entry->dtype);
}

/* A parameter in pieces: all of them are there, and of their shape. The first that is not is told.
 */
static void find_pieces(matching *g, size_t index, const bp_tensor_rule *rule)
{
    bp_wanted *wanted = &g->m->wanted[index];
    bp_tensor_pieces pieces;
    bool faulty = !bp_tensor_pieces_of(&pieces, rule, wanted->name, wanted->rank, wanted->shape);
    const uint64_t count = faulty ? 0 : bp_tensor_pieces_count(&pieces);
    for (uint64_t i = 0; i < count; i++) {
        char name[BP_TENSOR_NAME_MAX] = "";
        bp_wanted piece = {.name = name};
        bp_tensor_fault fault;
        uint32_t part = 0;
        const bool named = bp_tensor_pieces_name(&pieces, i, name);
        bp_tensor_entry *entry = named ? bp_tensor_set_find(g->m->set, name, &part) : NULL;
        piece.rank = bp_tensor_pieces_shape(&pieces, piece.shape);
        if (piece_fault(&piece, entry, &fault) && !faulty) {
            blame(g, (bp_tensor_finding){
                         .fault = fault, .tensor = name, .wanted = &piece, .entry = entry});
            faulty = true;
        }
        if (entry != NULL) {
            entry->handle = (uint64_t)index + 1;
        }
        if (i == 0 && entry != NULL) {
            bp_tensor_view_pieces(&wanted->view, part, entry, &pieces);
        }
    }
    wanted->view.entry = faulty ? NULL : wanted->view.entry;
}

/* A parameter of experts that the file has in blocks. */
static bool find_mxfp4(const matching *g, size_t index)
{
    bp_wanted *wanted = &g->m->wanted[index];
    char name[BP_TENSOR_NAME_MAX];
    bp_mxfp4 mx = {.in = 0};
    bool found = false;
    for (size_t i = 0; wanted->rank == 3 && !found && i < g->m->naming->rule_count; i++) {
        const bp_tensor_rule *rule = &g->m->naming->rules[i];
        found = rule->form == BP_LAYOUT_PLAIN &&
                bp_name_rewrite(rule->ours, rule->theirs, wanted->name, name, sizeof name) &&
                bp_mxfp4_find(g->m->set, name, wanted->shape, (uint64_t)index + 1, &mx);
    }
    if (found) {
        bp_tensor_view_mxfp4(&wanted->view, &mx);
    }
    return found;
}

static bp_status tensor_match_find(matching *g, size_t index)
{
    bp_wanted *wanted = &g->m->wanted[index];
    bp_tensor_entry *entry = NULL;
    uint32_t part = 0;
    const bp_tensor_rule *rule = look_up_tied(g, wanted->name, &entry, &part);
    wanted->view.entry = NULL;
    bp_tensor_finding finding = {
        .fault = BP_TENSOR_MISSING, .tensor = wanted->name, .wanted = wanted};
    if (rule == NULL && find_mxfp4(g, index)) {
        return BP_OK;
    }
    if (rule == NULL) {
        blame(g, finding);
        return BP_OK;
    }
    if (bp_tensor_in_pieces(rule->form)) {
        find_pieces(g, index, rule);
        return BP_OK;
    }
    finding.entry = entry;
    finding.transposed = rule->form == BP_LAYOUT_TRANSPOSED;
    entry->handle = (uint64_t)index + 1;
    bp_tensor_view view;
    BP_TRY(see(g, index, rule, entry, part, &view));
    if (view.entry == NULL || !same_shape(wanted, &view)) {
        finding.fault = BP_TENSOR_SHAPE;
        blame(g, finding);
    } else if (!bp_tensor_readable(entry->dtype) && view.bnb.form == BP_QUANTISED_NONE) {
        finding.fault = BP_TENSOR_DTYPE;
        blame(g, finding);
    } else {
        wanted->view = view;
    }
    return BP_OK;
}

/* Whether the file's tensor has the type, the shape and the bytes of a parameter's. */
static bp_status equals(const matching *g, uint32_t part, const bp_tensor_entry *entry,
                        const char *ours, bool *equal)
{
    uint32_t other_part = 0;
    bp_tensor_entry *other = NULL;
    uint64_t digests[2];
    *equal = false;
    if (look_up_tied(g, ours, &other, &other_part) == NULL || other == entry ||
        other->dtype != entry->dtype || other->rank != entry->rank ||
        memcmp(other->shape, entry->shape, entry->rank * sizeof entry->shape[0]) != 0) {
        return BP_OK;
    }
    BP_TRY(bp_tensor_set_digest(g->m->set, part, entry, g->m->work, &digests[0]));
    BP_TRY(bp_tensor_set_digest(g->m->set, other_part, other, g->m->work, &digests[1]));
    *equal = digests[0] == digests[1];
    return BP_OK;
}

static bp_status judge_twin(matching *g, uint32_t part, const bp_tensor_entry *entry,
                            const bp_tensor_twin *twin)
{
    bool equal = g->m->untied || (twin->unless != NULL && wants(g, twin->unless));
    if (!equal) {
        BP_TRY(equals(g, part, entry, twin->ours, &equal));
    }
    if (!equal) {
        blame(g, (bp_tensor_finding){BP_TENSOR_UNTIED, entry->name, .entry = entry});
    }
    return BP_OK;
}

uint64_t bp_tensor_layers(const bp_wanted *list, size_t count)
{
    static const char prefix[] = "model.layers.";
    uint64_t layers = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = 0;
        if (strncmp(list[i].name, prefix, sizeof prefix - 1) != 0) {
            continue;
        }
        for (const char *at = list[i].name + sizeof prefix - 1; is_digit(*at); at++) {
            number = 10 * number + (uint64_t)(*at - '0');
        }
        layers = number >= layers ? number + 1 : layers;
    }
    return layers;
}

/* Whether the tensor's name goes with the pattern, which has ^ for a number. */
static bool matches_behind(const char *pattern, uint64_t number, const char *name)
{
    const char *rest = strchr(pattern, '^');
    const size_t before = (size_t)(rest - pattern);
    uint64_t found = 0;
    if (strncmp(pattern, name, before) != 0 || !is_digit(name[before]) || number == 0) {
        return false;
    }
    for (name += before; is_digit(*name) && found <= number; name++) {
        found = 10 * found + (uint64_t)(*name - '0');
    }
    return found == number && bp_name_matches(rest + 1, name);
}

bool bp_tensor_ignored(const bp_tensor_naming *naming, uint64_t layers, const char *name)
{
    bool ignored = false;
    for (size_t i = 0; !ignored && i < naming->ignored_count; i++) {
        const char *pattern = naming->ignored[i];
        ignored = strchr(pattern, '^') != NULL ? matches_behind(pattern, layers, name)
                                               : bp_name_matches(pattern, name);
    }
    return ignored;
}

/* A tensor that no parameter claimed. */
static bp_status judge(matching *g, uint32_t part, const bp_tensor_entry *entry)
{
    const bp_tensor_naming *naming = g->m->naming;
    for (size_t i = 0; i < naming->twin_count; i++) {
        if (strcmp(naming->twins[i].theirs, entry->name) == 0) {
            return judge_twin(g, part, entry, &naming->twins[i]);
        }
    }
    if (bp_tensor_ignored(naming, bp_tensor_layers(g->m->wanted, g->m->count), entry->name)) {
        return BP_OK;
    }
    blame(g, (bp_tensor_finding){BP_TENSOR_UNEXPECTED, entry->name, .entry = entry});
    return BP_OK;
}

static bp_status judge_rest(matching *g)
{
    const bp_tensor_set *set = g->m->set;
    for (uint32_t p = 0; p < set->part_count; p++) {
        const bp_tensor_part *part = &set->parts[p];
        for (size_t i = 0; i < part->entry_count; i++) {
            if (part->entries[i].handle == 0) {
                BP_TRY(judge(g, p, &part->entries[i]));
            }
        }
    }
    return BP_OK;
}

bp_status bp_tensor_match(const bp_match *match)
{
    matching g = {.m = match};
    const bp_tensor_set *set = match->set;
    for (uint32_t p = 0; p < set->part_count; p++) {
        for (size_t i = 0; i < set->parts[p].entry_count; i++) {
            set->parts[p].entries[i].handle = 0;
        }
    }
    for (size_t i = 0; i < match->count; i++) {
        BP_TRY(tensor_match_find(&g, i));
    }
    BP_TRY(judge_rest(&g));
    if (g.faults > 0) {
        bp_status status =
            bp_error_set(set->error, BP_ERR_DATA, where, bp_tensor_fault_text(g.first), g.name);
        bp_error_prefix(set->error, set->path);
        return status;
    }
    return BP_OK;
}

/* Matching without recursion: one star at most, so one loop over its lengths is
 * enough. */

typedef struct span {
    const char *at;
    size_t length;
} span;

/* What the wildcards of a pattern stood for. */
typedef struct capture {
    span digits[BP_NAME_DIGITS_MAX];
    size_t digit_count;
    span star;
} capture;

/* Matches the pattern up to its star or end; *name moves past what was matched. */
static const char *match_plain(const char *pattern, const char **name, capture *found)
{
    while (*pattern != '\0' && *pattern != '*') {
        if (*pattern == '#') {
            const char *first = *name;
            while (is_digit(**name)) {
                ++*name;
            }
            if (*name == first || found->digit_count == BP_NAME_DIGITS_MAX) {
                return NULL;
            }
            found->digits[found->digit_count++] = (span){first, (size_t)(*name - first)};
        } else if (*pattern != **name) {
            return NULL;
        } else {
            ++*name;
        }
        pattern++;
    }
    return pattern;
}

static bool match(const char *pattern, const char *name, capture *found)
{
    *found = (capture){.digit_count = 0};
    pattern = match_plain(pattern, &name, found);
    if (pattern == NULL) {
        return false;
    }
    if (*pattern == '\0') {
        return *name == '\0';
    }
    const capture before = *found;
    size_t left = strlen(name);
    for (size_t length = 0; length <= left; length++) {
        const char *rest = name + length;
        *found = before;
        found->star = (span){name, length};
        const char *end = match_plain(pattern + 1, &rest, found);
        if (end != NULL && *end == '\0' && *rest == '\0') {
            return true;
        }
    }
    return false;
}

bool bp_name_matches(const char *pattern, const char *name)
{
    capture found;
    return match(pattern, name, &found);
}

bool bp_name_rewrite(const char *from, const char *to, const char *name, char *out, size_t room)
{
    capture found;
    size_t used = 0;
    size_t digits = 0;
    if (!match(from, name, &found)) {
        return false;
    }
    for (; *to != '\0'; to++) {
        span piece = {to, 1};
        if (*to == '#' && digits < found.digit_count) {
            piece = found.digits[digits++];
        } else if (*to == '*' && found.star.at != NULL) {
            piece = found.star;
        }
        if (piece.length >= room - used) {
            return false;
        }
        memcpy(out + used, piece.at, piece.length);
        used += piece.length;
    }
    out[used] = '\0';
    return true;
}
