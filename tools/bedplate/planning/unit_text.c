/* SPDX-License-Identifier: MIT */
/* Three templates, in which {X} stands for a number or a text of the plan. */
#define _DEFAULT_SOURCE /* readlink, getcwd */
#include "tools/bedplate/planning/unit_text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/version.h"
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/ranks/ranks.h"

#define MARGIN_BYTES  ((uint64_t)64 << 20)
#define SLOW_MEDIUM   50e6 /* bytes a second that a save may count on */
#define GRACE_SECONDS 60u

enum { UNIT_VALUE = 512 };

typedef struct unit {
    const session *s;
    bp_text *text;
    bp_unit kind;
    const bp_device_entry *device;
    char name[64]; /* of the run: letters, digits and - */
    char output[UNIT_VALUE];
    uint64_t grace;  /* seconds that stopping may take */
    uint32_t words;  /* put so far */
    uint32_t files;  /* mounted so far */
    bp_error *error; /* of a word that cannot stand in it; NULL: it was looked for */
    bp_status status;
} unit;

static const char systemd_template[] =
    "# {N}.service, by `bedplate plan --unit systemd`: arena {A} bytes, beside it {H} bytes.\n"
    "# Put it into /etc/systemd/system, then: systemctl enable --now {N}\n"
    "[Unit]\n"
    "Description=Bedplate training run {N}\n"
    "Documentation=man:bedplate(1)\n"
    "StartLimitIntervalSec=3600\n"
    "StartLimitBurst=20\n"
    "\n"
    "[Service]\n"
    "Type=notify\n"
    "ExecStart={C}\n"
    "Environment=BEDPLATE_GRACE={T}\n"
    "Restart=on-failure\n"
    "RestartSec=30\n"
    "# What is wrong with the command or the data, and doubtful hardware, no restart heals.\n"
    "RestartPreventExitStatus=2 3 4 5 8 9\n"
    "SuccessExitStatus=130 143\n"
    "WatchdogSec=900\n"
    "TimeoutStartSec=900\n"
    "TimeoutStopSec={T}\n"
    "KillMode=mixed\n"
    "OOMPolicy=stop\n"
    "MemoryMax={M}\n"
    "MemorySwapMax=0\n"
    "LimitCORE=0\n"
    "{U}"
    "ProtectSystem=strict\n"
    "ProtectHome=read-only\n"
    "PrivateTmp={P}\n"
    "{G}"
    "PrivateNetwork=yes\n"
    "RestrictAddressFamilies=AF_UNIX\n"
    "NoNewPrivileges=yes\n"
    "CapabilityBoundingSet=\n"
    "AmbientCapabilities=\n"
    "SystemCallFilter=@system-service\n"
    "SystemCallFilter=~@privileged\n"
    "SystemCallArchitectures=native\n"
    "ProtectClock=yes\n"
    "ProtectHostname=yes\n"
    "ProtectKernelLogs=yes\n"
    "ProtectKernelModules=yes\n"
    "ProtectKernelTunables=yes\n"
    "ProtectControlGroups=yes\n"
    "ProtectProc=invisible\n"
    "RestrictNamespaces=yes\n"
    "RestrictRealtime=yes\n"
    "RestrictSUIDSGID=yes\n"
    "LockPersonality=yes\n"
    "RemoveIPC=yes\n"
    "UMask=0077\n"
    "\n"
    "[Install]\n"
    "WantedBy=multi-user.target\n";

static const char slurm_template[] =
    "#!/bin/bash\n"
    "# {N}, by `bedplate plan --unit slurm`: arena {A} bytes, beside it {H} bytes.\n"
    "#SBATCH --job-name={N}\n"
    "#SBATCH --nodes=1\n"
    "#SBATCH --ntasks=1\n"
    "#SBATCH --cpus-per-task={K}\n"
    "#SBATCH --mem={m}M\n"
    "{G}"
    "{L}"
    "#SBATCH --signal=B:USR1@{S}\n"
    "#SBATCH --requeue\n"
    "#SBATCH --open-mode=append\n"
    "#SBATCH --output={N}-%j.log\n"
    "export BEDPLATE_GRACE={T}\n"
    "output={o}\n"
    "{C} --on-usr1 stop &\n"
    "pid=$!\n"
    "trap 'kill -USR1 $pid' USR1\n"
    "trap 'kill -TERM $pid' TERM\n"
    "wait $pid\n"
    "code=$?\n"
    "# A signal that the shell hears ends its wait before the run has ended.\n"
    "while kill -0 $pid 2>/dev/null; do\n"
    "    wait $pid\n"
    "    code=$?\n"
    "done\n"
    "# Saved and not complete, by a signal or a limit: once more, with the same line.\n"
    "if [[ $code -eq 138 || $code -eq 143 ]]{Q}; then\n"
    "    scontrol requeue \"$SLURM_JOB_ID\"\n"
    "fi\n"
    "exit $code\n";

static const char kubernetes_template[] =
    "# {N}, by `bedplate plan --unit kubernetes`: arena {A} bytes, beside it {H} bytes.\n"
    "# The claim {N} keeps the output. Containerfile in the release's archive makes the image.\n"
    "apiVersion: batch/v1\n"
    "kind: Job\n"
    "metadata:\n"
    "  name: {N}\n"
    "spec:\n"
    "  backoffLimit: 100\n"
    "  podFailurePolicy:\n"
    "    rules:\n"
    "      - action: FailJob\n"
    "        onExitCodes: {operator: In, values: [2, 3, 4, 5, 8, 9]}\n"
    "      - action: Ignore\n"
    "        onPodConditions: [{type: DisruptionTarget}]\n"
    "  template:\n"
    "    spec:\n"
    "      restartPolicy: Never\n"
    "      terminationGracePeriodSeconds: {T}\n"
    "      automountServiceAccountToken: false\n"
    "      containers:\n"
    "        - name: bedplate\n"
    "          image: bedplate:" BP_VERSION "{I}\n"
    "          command: [{C}]\n"
    "          env:\n"
    "            - {name: BEDPLATE_GRACE, value: \"{T}\"}\n"
    "          resources:\n"
    "            requests: {cpu: {K}, memory: \"{M}\"}\n"
    "            limits: {memory: \"{M}\"{G}}\n"
    "          securityContext:\n"
    "            allowPrivilegeEscalation: false\n"
    "            readOnlyRootFilesystem: true\n"
    "            capabilities: {drop: [ALL]}\n"
    "          volumeMounts:\n"
    "            - {name: output, mountPath: {O}}\n"
    "{V}"
    "      volumes:\n"
    "        - name: output\n"
    "          persistentVolumeClaim: {claimName: {N}}\n"
    "{v}";

/* Bytes that a run may take in all: arenas in the host's memory, what the plan counts beside them,
 * and a margin. */
static uint64_t unit_memory(const session *s)
{
    const bp_report *report = &s->plan.report;
    const uint64_t device = device_takes_memory(&s->plan.spec) ? report->arena_bytes : 0;
    const uint64_t each = device + report->host.arena_bytes + session_host_bytes(s);
    return ranks_in_process(s->set) * each + MARGIN_BYTES;
}

/* A word of the command as its reader takes it. */
static void unit_word(unit *u, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "/._-+=:,";
    bp_text *text = u->text;
    bool plain_word = bp_text_is_utf8(word);
    for (const char *at = word; *at != '\0'; at++) {
        plain_word = plain_word && (unsigned char)*at >= 0x20 && *at != 0x7f;
    }
    if (!plain_word && u->error != NULL) {
        u->status = bp_error_set(u->error, BP_ERR_USAGE, "--unit",
                                 "a unit cannot hold a name or value with a control character, or "
                                 "one that is not UTF-8",
                                 word);
    }
    bp_text_string(text, u->words++ == 0 ? "" : u->kind == BP_UNIT_KUBERNETES ? ", " : " ");
    if (u->kind == BP_UNIT_KUBERNETES) {
        bp_text_json(text, word);
        return;
    }
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        bp_text_string(text, word);
        return;
    }
    const char quote = u->kind == BP_UNIT_SYSTEMD ? '"' : '\'';
    bp_text_char(text, quote);
    for (; *word != '\0'; word++) {
        if (u->kind == BP_UNIT_SLURM) {
            bp_text_string(text, *word == '\'' ? "'\\'" : "");
        } else {
            bp_text_string(text, *word == '%'                    ? "%"
                                 : *word == '$'                  ? "$"
                                 : *word == '"' || *word == '\\' ? "\\"
                                                                 : "");
        }
        bp_text_char(text, *word);
    }
    bp_text_char(text, quote);
}

/* From the root of the file system: a service has another working directory. */
static const char *unit_absolute(const char *path, char full[UNIT_VALUE])
{
    char here[UNIT_VALUE / 2] = "";
    bp_text text;
    bp_text_init(&text, NULL, NULL, full, UNIT_VALUE);
    const bool absolute = path[0] == '/' || strcmp(path, "-") == 0;
    if (!absolute && getcwd(here, sizeof here) != NULL) {
        path += strncmp(path, "./", 2) == 0 ? 2 : 0;
        bp_text_string(&text, here);
        bp_text_char(&text, '/');
    }
    bp_text_string(&text, path);
    const bp_status fits = bp_text_flush(&text);
    (void)fits; /* longer paths than the store's are refused by the run */
    return full;
}

/* Options whose values are files that a run writes or looks for, and those that it reads; a model
 * may be a preset's name. */
static bool unit_is_written(const option *which)
{
    return strcmp(which->name, "metrics") == 0 || strcmp(which->name, "logging-dir") == 0;
}

static bool unit_is_path(const option *which, const char *value)
{
    static const char *const names[] = {"data",    "eval-data",     "tokenizer",  "adapter",
                                        "metrics", "stop-when",     "output-dir", "logging-dir",
                                        "config",  "continue-from", "distill"};
    bool is = strcmp(which->name, "model") == 0 && access(value, F_OK) == 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        is = is || strcmp(which->name, names[i]) == 0;
    }
    return is;
}

static void unit_option(unit *u, const option *which, const char *value, bool named)
{
    char full[UNIT_VALUE];
    char name[80];
    snprintf(name, sizeof name, "--%s", which->name);
    if (named) {
        unit_word(u, name);
    }
    unit_word(u, unit_is_path(which, value) ? unit_absolute(value, full) : value);
}

/* The word alone, or with what it is; it takes no word after it. */
static void unit_flag(unit *u, const option *which, bool value)
{
    char name[96];
    snprintf(name, sizeof name, "--%s%s", which->name, value ? "" : "=false");
    unit_word(u, name);
}

static void unit_options(unit *u)
{
    const settings *set = u->s->set;
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const bool trains =
            (which->commands & COMMAND_TRAIN) != 0 && (which->commands & COMMAND_ARENA) == 0;
        const bool own = strcmp(which->name, "output-dir") == 0 ||
                         strcmp(which->name, "resume") == 0 ||
                         (u->kind == BP_UNIT_SLURM && strcmp(which->name, "on-usr1") == 0);
        if (!trains || own || !set->given[i]) {
            continue;
        }
        if (which->kind == OPTION_PATHS || which->kind == OPTION_LIST) {
            const path_list *list = (const void *)((const char *)set + which->offset);
            for (uint32_t p = 0; p < list->count; p++) {
                unit_option(u, which, list->item[p], p == 0 || which->kind == OPTION_LIST);
            }
            continue;
        }
        char value[UNIT_VALUE];
        bp_text text;
        bp_text_init(&text, NULL, NULL, value, sizeof value);
        option_put(&text, which, set);
        const bool whole = bp_text_flush(&text) == BP_OK;
        if (whole && which->kind == OPTION_FLAG) {
            unit_flag(u, which, value[0] == 't');
        } else if (whole) {
            unit_option(u, which, value, true);
        }
    }
}

static void unit_command(unit *u)
{
    char program[UNIT_VALUE] = "/usr/local/bin/bedplate";
    if (u->kind != BP_UNIT_KUBERNETES) {
        const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        program[length > 0 ? (size_t)length : strlen(program)] = '\0';
    }
    unit_word(u, program);
    unit_word(u, "train");
    unit_options(u);
    unit_word(u, "--output-dir");
    unit_word(u, u->output);
    unit_word(u, "--resume");
    unit_word(u, "auto");
}

/* Whether a path of the command lies where PrivateTmp would hide it. */
static bool unit_uses_tmp(const unit *u)
{
    const settings *set = u->s->set;
    char full[UNIT_VALUE];
    bool uses = strncmp(u->output, "/tmp/", 5) == 0 ||
                strncmp(unit_absolute(set->model, full), "/tmp/", 5) == 0;
    for (uint32_t i = 0; i < set->data.count; i++) {
        uses = uses || strncmp(unit_absolute(set->data.item[i], full), "/tmp/", 5) == 0;
    }
    return uses;
}

/* The folder of a path from the root. */
static void unit_parent(const char *path, char parent[UNIT_VALUE])
{
    char full[UNIT_VALUE];
    snprintf(parent, UNIT_VALUE, "%s", unit_absolute(path, full));
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent) {
        *slash = '\0';
    }
}

/* The folder of the i-th option, where the run writes one that its output directory has not; false:
 * no such option was given. */
static bool unit_written(const unit *u, uint32_t i, char folder[UNIT_VALUE])
{
    const settings *set = u->s->set;
    const option *which = option_at(i);
    if (!set->given[i] || !unit_is_written(which)) {
        return false;
    }
    unit_parent(*(const char *const *)(const void *)((const char *)set + which->offset), folder);
    const size_t length = strlen(u->output);
    return strncmp(folder, u->output, length) != 0 ||
           (folder[length] != '/' && folder[length] != '\0');
}

static void unit_may_write(unit *u, const char *folder)
{
    bp_text_string(u->text, "ReadWritePaths=");
    u->words = 0;
    unit_word(u, folder);
    bp_text_char(u->text, '\n');
}

/* Who runs it, and where it may write. */
static void unit_user(unit *u)
{
    bp_text *text = u->text;
    char folder[UNIT_VALUE];
    if (u->s->set->output_dir == NULL) {
        bp_text_string(text, "DynamicUser=yes\nStateDirectory=bedplate/");
        bp_text_string(text, u->name);
        bp_text_char(text, '\n');
    } else {
        bp_text_string(text, "User=");
        bp_text_u64(text, getuid());
        bp_text_string(text, "\nGroup=");
        bp_text_u64(text, getgid());
        bp_text_char(text, '\n');
        unit_parent(u->output, folder);
        unit_may_write(u, folder);
    }
    for (uint32_t i = 0; option_at(i) != NULL; i++) {
        if (unit_written(u, i, folder)) {
            unit_may_write(u, folder);
        }
    }
}

static void unit_device(const unit *u, const char *text)
{
    bp_text_string(u->text, text != NULL ? text : "");
}

/* One mount, or the volume that it is of. */
static void unit_volume(unit *u, bool volume, const char *path, bool reads)
{
    bp_text *text = u->text;
    bp_text_string(text, volume ? "        - {name: file-" : "            - {name: file-");
    bp_text_u64(text, u->files++);
    bp_text_string(text, volume  ? ", hostPath: {path: "
                         : reads ? ", readOnly: true, mountPath: "
                                 : ", mountPath: ");
    bp_text_json(text, path);
    bp_text_string(text, volume ? "}}\n" : "}\n");
}

/* The files that are read and the folders that are written, each at its own path: {V} mounts, {v}
 * volumes. */
static void unit_volumes(unit *u, bool volumes)
{
    const settings *set = u->s->set;
    const option *which;
    char full[UNIT_VALUE];
    u->files = 0;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const void *at = (const char *)set + which->offset;
        const bool list = which->kind == OPTION_PATHS;
        const path_list *paths = at;
        if (unit_written(u, i, full)) {
            unit_volume(u, volumes, full, false);
        }
        if (!set->given[i] || (!list && which->kind != OPTION_TEXT) || unit_is_written(which) ||
            strcmp(which->name, "output-dir") == 0 || strcmp(which->name, "stop-when") == 0) {
            continue;
        }
        for (uint32_t p = 0; p < (list ? paths->count : 1); p++) {
            const char *value = list ? paths->item[p] : *(const char *const *)at;
            if (unit_is_path(which, value)) {
                unit_volume(u, volumes, unit_absolute(value, full), true);
            }
        }
    }
}

/* A time limit ends a run with 0, complete or not: the record has a last line when it is. */
static void unit_requeue(const unit *u)
{
    if (u->s->set->time_limit > 0) {
        bp_text_string(u->text, " || { [[ $code -eq 0 ]] &&\n"
                                "    ! tail -n 1 \"$output/record.jsonl\" | grep -q "
                                "'^{\"end\":'; }");
    }
}

static void unit_time(const unit *u)
{
    const double limit = u->s->set->time_limit;
    if (limit > 0) {
        bp_text_string(u->text, "#SBATCH --time=");
        bp_text_u64(u->text, (uint64_t)(limit / 60.0) + 2);
        bp_text_char(u->text, '\n');
    }
}

static void unit_value(unit *u, char which)
{
    const bp_report *report = &u->s->plan.report;
    bp_text *text = u->text;
    switch (which) {
    case 'A':
        bp_text_u64(text, report->arena_bytes);
        break;
    case 'H':
        bp_text_u64(text, session_host_bytes(u->s));
        break;
    case 'M':
        bp_text_u64(text, unit_memory(u->s));
        break;
    case 'm':
        bp_text_u64(text, (unit_memory(u->s) + (1u << 20) - 1) >> 20);
        break;
    case 'K':
        bp_text_u64(text, u->s->plan.spec.device_options.threads);
        break;
    case 'T':
        bp_text_u64(text, u->grace);
        break;
    case 'S':
        bp_text_u64(text, u->grace + GRACE_SECONDS);
        break;
    case 'N':
        bp_text_string(text, u->name);
        break;
    case 'Q':
        unit_requeue(u);
        break;
    case 'o':
        u->words = 0;
        unit_word(u, u->output);
        break;
    case 'O':
        bp_text_json(text, u->output);
        break;
    case 'P':
        bp_text_string(text, unit_uses_tmp(u) ? "no" : "yes");
        break;
    case 'C':
        u->words = 0;
        unit_command(u);
        break;
    case 'U':
        unit_user(u);
        break;
    case 'G':
        unit_device(u, u->device->unit[u->kind]);
        break;
    case 'I': /* tools/pkg/Containerfile and Containerfile.cuda */
        unit_device(u, u->device->image);
        break;
    case 'L':
        unit_time(u);
        break;
    default:
        unit_volumes(u, which == 'v');
        break;
    }
}

/* What may stand in the name of a unit, a job and a claim. */
static void unit_name(unit *u, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *from = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
    size_t used = 0;
    for (; *from != '\0' && used + 1 < sizeof u->name; from++) {
        const char c = *from >= 'A' && *from <= 'Z' ? (char)(*from + 32) : *from;
        const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (good || (used > 0 && u->name[used - 1] != '-')) {
            u->name[used++] = good ? c : '-';
        }
    }
    while (used > 0 && u->name[used - 1] == '-') {
        used--;
    }
    u->name[used] = '\0';
    if (used == 0) {
        memcpy(u->name, "bedplate", sizeof "bedplate");
    }
}

static bp_status unit_write(bp_text *text, const session *s, bp_error *error)
{
    static const char *const templates[] = {systemd_template, slurm_template, kubernetes_template};
    const settings *set = s->set;
    unit u = {
        .s = s, .text = text, .error = error, .device = bp_device_entry_of(s->plan.spec.device)};
    u.kind = set->unit[1] == 'y'   ? BP_UNIT_SYSTEMD
             : set->unit[1] == 'l' ? BP_UNIT_SLURM
                                   : BP_UNIT_KUBERNETES;
    u.grace = GRACE_SECONDS + (uint64_t)(2.0 * (double)s->plan.report.state_bytes / SLOW_MEDIUM);
    unit_name(&u, set->output_dir != NULL ? set->output_dir : "bedplate");
    if (set->output_dir != NULL) {
        (void)unit_absolute(set->output_dir, u.output);
    } else {
        snprintf(u.output, sizeof u.output, "/var/lib/bedplate/%s", u.name);
    }
    for (const char *at = templates[u.kind]; *at != '\0'; at++) {
        if (at[0] == '{' && at[1] != '\0' && at[2] == '}') {
            unit_value(&u, at[1]);
            at += 2;
        } else {
            bp_text_char(text, *at);
        }
    }
    return u.status;
}

void unit_put(bp_text *text, const session *s)
{
    const bp_status status = unit_write(text, s, NULL);
    (void)status; /* was checked */
}

static bp_status unit_ignore(void *user, const char *text, size_t length)
{
    (void)user;
    (void)text;
    (void)length;
    return BP_OK;
}

bp_status unit_check(session *s)
{
    bp_text text;
    char buffer[64];
    bp_text_init(&text, unit_ignore, NULL, buffer, sizeof buffer);
    BP_TRY(session_check_fit(s));
    return unit_write(&text, s, &s->error);
}
