# SPDX-License-Identifier: MIT
# Bedplate. `make` builds, `make demo` shows it, `make test` proves it; `make help` lists the rest.
# `make VARIANT=clang` and the like build the same into build/clang with other flags; V=1 says which.
SHELL   := /bin/bash
VERSION := $(shell sed -n 's/^\#define BP_VERSION "\(.*\)"$$/\1/p' core/base/version.h)
comma   := ,
PREFIX  ?= /usr/local
DESTDIR ?=

# The builds that tests compare. Warnings that come and go with an optimiser's passes are errors in
# clang's only. HOSTOPT goes to device/host: kernels must end in a test's time. Lines (-g1) are all
# that a report of a sanitizer names: test objects are a third as large, and compile in half the time.
# The sanitizers' build counts what the tests run (make coverage): clang counts the source as it is written,
# whatever the optimiser does, so that one run of all tests gives both.
CC-clang      := clang
OPT-clang     := -O2 -g1
CC-sanitize   := clang
OPT-sanitize  := -O1 -g1
HOSTOPT-sanitize := -O2
OPT-tsan      := -O2 -g1
SANITIZERS    := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
EXTRA-sanitize  = $(SANITIZERS) \
                  -fprofile-instr-generate -fcoverage-mapping -fcoverage-prefix-map=$(CURDIR)=. -DBP_COVERAGE
# The same without counters, which take a fifth of the time.
CC-sanitize-short      := $(CC-sanitize)
OPT-sanitize-short     := $(OPT-sanitize)
HOSTOPT-sanitize-short := $(HOSTOPT-sanitize)
EXTRA-sanitize-short   := $(SANITIZERS)
EXTRA-tsan    := -fsanitize=thread -Wno-error
# Who calls whom is read from this build as well (tools/check/recursion.sh): no call may become a loop.
OPT-unoptimised := -O0 -g1
EXTRA-unoptimised := -Wno-error -fcallgraph-info -fno-optimize-sibling-calls
HOSTOPT-unoptimised := -O2
# Warnings of clang alone (tools/check/warnings.sh): no object is made, only the time of looking is kept.
CC-syntax     := clang
EXTRA-syntax  := -fsyntax-only
CC-mcdc       := clang-19
OPT-mcdc      := -O0 -g
EXTRA-mcdc     = -fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc -Wno-error \
                 -fcoverage-prefix-map=$(CURDIR)=.
HOSTOPT-mcdc  := -O1
# gcc's count of conditions: optimised, decisions that it simplified would be missing. Kernels' loops run in
# threads and are long: an outcome that a race loses comes again.
CC-mcdc-gcc    := gcc-14
OPT-mcdc-gcc   := -O0 -g1
EXTRA-mcdc-gcc := -ftest-coverage -fcondition-coverage -fprofile-update=atomic -Wno-error
HOSTOPT-mcdc-gcc := -fprofile-update=single
CC-aarch64    := aarch64-linux-gnu-gcc
EXTRA-aarch64 := -static -Wno-error -isystem tests/fixtures/cross
EXTRA-stack   := -fcallgraph-info=su -Wno-error
CC-fuzz       := clang
OPT-fuzz      := -O1 -g
EXTRA-fuzz    := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all

# Builds for machines without a system (docs/how-to/appliance.md): no threads, no files, no GPU. Cortex-M55's
# vectors (MVE) flush denormals, so that they are another arithmetic and stay unused. riscv64 asks nothing
# of the Linux that its compiler is for; only examples and tests do, which qemu-user runs.
CORTEX := cortex-m4 cortex-m7 cortex-m33 cortex-m55
BARE   := $(CORTEX) riscv32 riscv64
CPU-cortex-m4  := -mcpu=cortex-m4 -mfpu=fpv4-sp-d16
CPU-cortex-m7  := -mcpu=cortex-m7 -mfpu=fpv5-d16
CPU-cortex-m33 := -mcpu=cortex-m33 -mfpu=fpv5-sp-d16
CPU-cortex-m55 := -mcpu=cortex-m55+nomve
TARGET-riscv64 := -march=rv64gc -static
TARGET-riscv32 := -march=rv32imc -mabi=ilp32 --specs=picolibc.specs
$(foreach core,$(CORTEX),$(eval TARGET-$(core) := $(CPU-$(core)) -mthumb -mfloat-abi=hard --specs=nano.specs))
ifneq ($(filter $(BARE),$(VARIANT)),)
CC-$(VARIANT)    := $(if $(filter $(CORTEX),$(VARIANT)),arm-none-eabi-gcc,$(if $(filter riscv32,$(VARIANT)),riscv64-unknown-elf-gcc,riscv64-linux-gnu-gcc))
OPT-$(VARIANT)   := -Os
EXTRA-$(VARIANT) = $(TARGET-$(VARIANT)) -ffunction-sections -fdata-sections -DBP_THREADS_MAX=1 \
                   -DBP_TRANSFER_BYTES=4096 -include device/bare/fused.h -isystem $(BUILD)/include \
                   -Wno-conversion -Wno-error
endif

# What `make dist` builds beside the release: what ships, so that all flags but these are the release's
# (tools/pkg/README.md). Debian's packages of another architecture lie in SYSROOT (tools/pkg/sysroot.sh). musl gives a
# thread the stack that PT_GNU_STACK names; its own default is 128 KiB. FROM: where the archives below lie.
SYSROOT := build/dist/sysroot
CC-linux-aarch64     := aarch64-linux-gnu-gcc
CC-musl               = musl-gcc -isystem $(BUILD)/include
CC-musl-aarch64       = aarch64-linux-gnu-gcc -specs=$(SYSROOT)/musl-gcc.specs -isystem $(BUILD)/include
STATIC               := $(if $(filter musl%,$(VARIANT)),-static -Wl$(comma)-z$(comma)stack-size=8388608)
FROM-linux-aarch64   := $(SYSROOT)/usr/lib/aarch64-linux-gnu/
FROM-musl             = $(dir $(shell gcc -print-file-name=libz.a))
FROM-musl-aarch64    := $(FROM-linux-aarch64)

# A BUILD in the environment names the build that ships: tests and make kit run goals that build others. To place
# another, give BUILD behind make.
ifeq ($(origin BUILD)$(if $(VARIANT),,none),environment)
BUILD   := build/$(VARIANT)
endif
BUILD   ?= build/$(or $(VARIANT),release)
CC      := $(or $(CC-$(VARIANT)),gcc)
OPT     ?= $(or $(OPT-$(VARIANT)),-O2 -g)
EXTRA   ?= $(EXTRA-$(VARIANT))
HOSTOPT ?= $(HOSTOPT-$(VARIANT))

# Every core works, unless a -j was given.
ifeq ($(MAKELEVEL)$(findstring -j,$(shell tr '\0' ' ' </proc/$$PPID/cmdline 2>/dev/null)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# On a bare machine the goals that promise it install what they need: this file is remade first, and
# make then starts anew. Nothing else installs anything.
ifneq ($(filter demo,$(MAKECMDGOALS)),)
-include build/ready-build.mk
endif
ifneq ($(filter test test-variants check coverage covered sanitize tsan clang aarch64 aarch64-short riscv64 boards digests fuzz fuzz-long \
                ptx-coverage ptx-covered mcdc mcdc-gcc kit nightly sanitize-short boards-m7 test-long format,$(MAKECMDGOALS)),)
-include build/ready-all.mk
endif
build/ready-%.mk: tools/pkg/deps.sh
	@tools/pkg/deps.sh $* && mkdir -p build && touch $@

ARCH := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
WARN := -Wall -Wextra -pedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
        -Wvla -Wdouble-promotion -Werror
CFLAGS := -std=c99 $(WARN) $(OPT) -ffp-contract=off -fno-math-errno -I. -MMD -MP \
          -D_POSIX_C_SOURCE=200809L $(if $(EXTRA),,-ffile-prefix-map='$(CURDIR)'=.) $(EXTRA)
# The archives of utf8proc, zlib and libzstd, so that the program needs no library the system may
# lack. There are none for aarch64 on a Debian of another architecture: that build links only what
# asks for no characters and unpacks nothing.
ARCHIVES := $(if $(filter aarch64 riscv64,$(VARIANT)),,$(foreach name,utf8proc z zstd,$(or \
            $(FROM-$(VARIANT):%=%lib$(name).a),-l:lib$(name).a)))
LDLIBS := $(STATIC) $(ARCHIVES) -lm -lpthread -ldl

# Every .c file in these folders belongs to the library, every test_*.c under tests/ is a test.
# Sorted: the order in which a file system lists its folders would be the order of the archive.
# A device is a folder and a line of device/registry.c; a machine without a system has the host alone.
LIBDIRS := $(filter-out device/bare%,$(sort $(shell find arena core layers optim device tools/formats -type d)))
LIBSRC  := $(wildcard $(LIBDIRS:=/*.c))
ifneq ($(filter $(BARE),$(VARIANT)),)
LIBSRC  := $(filter-out $(filter-out device/host/%,$(filter device/%,$(LIBSRC))) tools/formats/% device/host/entry.c \
             device/host/pool.c device/host/engine.c device/host/storage/store_posix.c \
             device/host/storage/tier_posix.c,$(LIBSRC)) \
           $(wildcard device/bare/*.c)
endif
# What the tests of threads and the fuzz targets never call is not built for them.
LEFT-tsan := device/cuda/% device/registry.c tools/formats/%
LEFT-fuzz := device/% optim/%
# Nor for aarch64-short, which says so (tests/tests.mk).
LEFT-aarch64 := $(BP_AARCH64_LEFT)
LIBSRC  := $(filter-out $(LEFT-$(VARIANT)),$(LIBSRC))
ifneq ($(ARCH),x86_64)
LIBSRC  := $(filter-out %_avx2.c %_avx512.c,$(LIBSRC))
endif
ifneq ($(ARCH),aarch64)
LIBSRC  := $(filter-out %_neon.c %_sve.c,$(LIBSRC))
endif
BINSRC  := $(if $(filter $(BARE),$(VARIANT)),,$(sort $(wildcard tools/bedplate/*/*.c)))
# tests/unit mirrors the source tree.
TESTSRC := $(sort $(shell find tests/unit tests/golden tests/fault tests/house -name 'test_*.c' 2>/dev/null))
# Sources of device/host that are built once per working type: X.o is f32's, X_bf16.o and X_f16.o are the
# others'. They, or the loops that they include, name kernels by BP_BUILT (element.h).
TYPED   := $(filter $(shell grep -lE 'BP_BUILT\b|elements_vector\.h|rows_vector\.h|activation_vector\.h' device/host/*/*.c),$(LIBSRC))
LIBOBJ  := $(LIBSRC:%.c=$(BUILD)/%.o) $(TYPED:%.c=$(BUILD)/%_bf16.o) $(TYPED:%.c=$(BUILD)/%_f16.o)
BINOBJ  := $(BINSRC:%.c=$(BUILD)/%.o) $(BUILD)/source_digest.o
# All tests of a folder are one program, its suite; but for those that have to be programs of their own
# (tests/suite.sh). Any other can be made one as well: make $(BUILD)/tests/unit/core/run/test_feed.
TESTS   := $(TESTSRC:%.c=$(BUILD)/%)
ALONE   := $(patsubst %.c,$(BUILD)/%,$(shell grep -l 'A program of its own (tests/suite.sh)' $(TESTSRC) /dev/null))
SUITES  := $(addsuffix suite,$(sort $(dir $(filter-out $(ALONE),$(TESTS)))))
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/fixtures/*.c $(foreach d,formats kernels plans,tests/fixtures/$d/*.c)))
TESTLIBS := -lcmocka -ljansson
# Under an emulator only what compares kernels runs, and brings its own little cmocka.
ifeq ($(VARIANT),aarch64)
SUPPORT  := $(filter %/update_fixture.o,$(SUPPORT)) $(filter $(BUILD)/tests/fixtures/kernels/kernel_%.o,$(SUPPORT)) \
            $(BUILD)/tests/fixtures/cross/cmocka.o
TESTLIBS :=
endif
ifeq ($(VARIANT),tsan)
SUPPORT  := $(filter %/ranks.o %/hand_program.o %/plan_bytes.o %/fabric_case.o %/unequal.o,$(SUPPORT))
endif
# Counts apart what the cases that carry a requirement do (tests/assurance/methods.md).
ifeq ($(VARIANT),mcdc)
SUPPORT  += $(BUILD)/tests/assurance/mcdc_cases.o
TESTLIBS += -Wl,--wrap=_cmocka_run_group_tests
endif
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
LIB     := $(BUILD)/libbedplate.a
# The same objects with all their names, as tests and the program use them: a list of where they lie.
OBJECTS := $(BUILD)/objects.a

.PHONY: all check deps install install-library uninstall format library objects clean help force
.SECONDARY:
all: $(LIB) $(if $(BINSRC),$(BUILD)/bedplate)

# One short line for each thing made; nothing under -s, the whole command under V=1.
say = $(if $(V),,@$(if $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),,echo $(1) &&))

# Headers that a compiler which does not look into /usr/include finds in the build's own folder.
HEADERS := /usr/include/xxhash.h $(if $(STATIC),$(wildcard $(addprefix /usr/include/,utf8proc.h zlib.h zconf.h zstd.h \
           zstd_errors.h)))
# Objects depend on the command that makes them, so that other flags in the same folder rebuild it.
# Where the tree lies is no part of it: nothing that is made says so.
FLAGS := $(subst $(CURDIR),.,$(CC) $(CFLAGS) $(HOSTOPT))
ifneq ($(strip $(FLAGS)),$(strip $(file <$(BUILD)/flags)))
$(BUILD)/flags: force
endif
$(BUILD)/flags:
	@mkdir -p $(@D)/include && ln -sf $(HEADERS) $(@D)/include/ && printf '%s\n' '$(subst ','\'',$(FLAGS))' >$@
# Nothing unwinds a stack of what ships, and debuggers have tables of their own: 168 KB less. Tests do.
UNWIND  = $(if $(EXTRA)$(filter tests/% tools/ptxvm/%,$<),,-fno-asynchronous-unwind-tables)
COMPILE = $(call say,"$(CC) $<$(ELEMENT:-D%= %)") $(CC) $(CFLAGS) $(UNWIND) $(ISA) $(HOST) $(ELEMENT) \
          -c $< -o $@ $(if $(filter syntax,$(VARIANT)),&& touch $@)
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE)
$(BUILD)/%_bf16.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE)
$(BUILD)/%_f16.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE)
$(BUILD)/%_bf16.o: ELEMENT := -DBP_BUILD_BF16
$(BUILD)/%_f16.o: ELEMENT := -DBP_BUILD_F16
$(addprefix $(BUILD)/%_avx2,.o _bf16.o _f16.o): ISA := -mavx2 -mfma -mf16c
$(addprefix $(BUILD)/%_avx512,.o _bf16.o _f16.o): ISA := -mavx512f -mavx512bw -mavx512dq \
                                                        -mavx512vl -mfma -mprefer-vector-width=512
$(BUILD)/device/host/x86/matmul_amx_avx512.o: ISA += -mamx-tile -mamx-bf16
$(BUILD)/device/host/x86/sha256_avx2.o: ISA += -msha
SVE := -march=armv8.2-a+sve
$(BUILD)/device/host/arm/matmul_sve.o: ISA := $(SVE) $(if $(findstring clang,$(CC)),,-frename-registers)
$(BUILD)/device/host/arm/matmul_bf16_sve.o: ISA := $(SVE)+bf16 $(if $(findstring clang,$(CC)),,-frename-registers)
$(BUILD)/device/host/arm/matmul_bf16_neon.o: ISA := -march=armv8.2-a+bf16
$(BUILD)/device/host/%.o: HOST = $(HOSTOPT)
# Without optimisation clang takes a quarter of the time for a test under the sanitizers; these compute or walk for long.
ifneq ($(filter sanitize sanitize-short,$(VARIANT)),)
$(BUILD)/tests/unit/%.o: HOST = -O0
$(addprefix $(BUILD)/tests/unit/,core/ir/%.o core/ops/%.o device/%.o layers/%.o optim/%.o): HOST = -O1
endif
# A tile's sums need nearly all registers: gcc would load what comes far ahead, and keep sums in memory.
ifeq ($(findstring clang,$(CC)),)
$(BUILD)/device/host/arm/matmul_neon.o $(BUILD)/device/host/arm/matmul_bf16_neon.o: HOST = -fno-schedule-insns $(HOSTOPT)
endif
# What the program itself does is done once a run; what it measures with keeps its speed: 28 KB less.
PLAIN := $(filter-out %/bench_optim.o %/calibrate.o %/sample.o %/predictions.o %/rollout.o,$(BINOBJ))
$(PLAIN): HOST = $(if $(EXTRA),,-Os)
# One member of the archive has all rules: a program whose linker is asked to (bedplate.pc asks) links those it names.
$(BUILD)/optim/rules.o: HOST = -ffunction-sections -fdata-sections
# Loops over one block, which the compiler turns into vectors: traps are not looked at, values stay.
LOOPS := $(if $(filter $(BARE),$(VARIANT)),,-O3 -fno-trapping-math)
$(BUILD)/device/host/update/update_%.o $(BUILD)/device/host/x86/update_%.o $(BUILD)/device/host/arm/update_%.o: HOST = $(LOOPS) $(HOSTOPT)
$(addprefix $(BUILD)/core/ops/,blocks.o convert.o quantised.o): HOST = $(LOOPS) $(HOSTOPT)
$(BUILD)/device/host/x86/words_%.o: HOST = $(LOOPS) $(HOSTOPT)
# Nearly every x86-64 runs another form: there the portable one is the specification, and small.
ifeq ($(ARCH),x86_64)
$(BUILD)/device/host/update/update_portable.o: HOST = $(HOSTOPT)
endif

# Sanitized and counted programs are large and many: lld links them in a quarter of the time.
LINKER := $(if $(filter sanitize sanitize-short mcdc,$(VARIANT)),$(shell command -v ld.lld >/dev/null && echo -fuse-ld=lld))
LINK = $(call say,"link $@") $(CC) $(OPT) $(EXTRA) $(LINKER) $(filter %.o,$^) $(filter %.a,$^) -o $@
# What is archived and linked: another list in the same folder (a file that is gone, aarch64-short behind aarch64) makes
# the archives anew, though no member is newer.
MEMBERS := $(BUILD)/members
ifneq ($(strip $(LIBOBJ) $(BINOBJ)),$(strip $(file <$(MEMBERS))))
$(MEMBERS): force
endif
$(MEMBERS):
	@mkdir -p $(@D) && printf '%s\n' '$(LIBOBJ) $(BINOBJ)' >$@
# Appending keeps both of two members that have the same name in different folders; D leaves out times and owners.
# An application's own plan_order is not to be linked in the library's place: what is not bp_ is renamed in the
# archive, in each member for itself, so that a program still links the members that it uses and no others.
CROSS := $(patsubst %gcc,%,$(filter-out musl-gcc,$(filter %-gcc,$(CC))))
$(LIB): $(LIBOBJ) $(MEMBERS)
	@rm -f $@ $@.new
	$(call say,"archive $@") ar qcsD $@.new $(filter-out $(MEMBERS),$^)
	@$(CROSS)nm --defined-only -P $@.new 2>/dev/null | \
	    awk '$$2 ~ /^[A-Z]$$/ && $$1 ~ /^[a-z]/ && $$1 !~ /^bp_/ { print $$1, "bp_private_" $$1 }' | sort -u >$@.names
	@$(CROSS)objcopy -D --redefine-syms=$@.names $@.new && mv $@.new $@
$(OBJECTS): $(LIBOBJ) $(MEMBERS)
	@rm -f $@ && ar qcsTD $@ $(filter-out $(MEMBERS),$^)
# What the program was built of, in one number: SHA-256 over the list of its sources with theirs.
SOURCES := $(sort $(LIBSRC) $(BINSRC) $(shell find arena core layers optim device tools/formats \
                  tools/bedplate -name '*.h' -o -name '*.def' -o -name '*.ptx') Makefile)
$(BUILD)/source_digest.c: $(SOURCES)
	@mkdir -p $(@D)
	@d=$$(sha256sum $(SOURCES) | sha256sum) && printf '%s\n' 'extern const char train_record_source[];' \
	    "const char train_record_source[] = \"$${d%% *}\";" >$@
$(BUILD)/source_digest.o: $(BUILD)/source_digest.c
	@$(CC) $(CFLAGS) -c $< -o $@
# The program ships without symbols, unless this is a build for looking into.
$(BUILD)/bedplate: $(BINOBJ) $(if $(filter musl,$(VARIANT)),$(BUILD)/tools/pkg/fused.o) $(OBJECTS)
	$(LINK) $(LDLIBS) $(if $(EXTRA),,-s -Wl$(comma)--no-eh-frame-hdr)
$(BUILD)/tools/bench/%: $(BUILD)/tools/bench/%.o $(OBJECTS)
	$(LINK) $(LDLIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT) $(OBJECTS)
	$(LINK) $(LDLIBS) $(TESTLIBS)
# A folder's tests, and what they are linked with; the recipe is that of a test, of copies of its objects.
SUITE = @CC='$(CC)' tests/suite.sh $@ '$(filter-out $(@D)/test_%,$(filter %.o %.a %.so.1,$^))' $(filter $(@D)/test_%.o,$^)
LINK_SUITE = $(call say,"link $@") $(CC) $(OPT) $(EXTRA) $(LINKER) @$@.parts/list \
             $(filter-out $(@D)/test_%,$(filter %.o,$^)) $(filter %.a,$^) $(1) && rm -r $@.parts
$(foreach test,$(filter-out $(ALONE),$(TESTS)),$(eval $(dir $(test))suite: $(test).o))
$(SUITES): $(BUILD)/tests/suite.o $(SUPPORT) $(OBJECTS) tests/suite.sh
	$(SUITE)
	$(call LINK_SUITE,-o $@ $(LDLIBS) $(TESTLIBS))
# A program of the house tests that must link without the test libraries, for any machine.
$(BUILD)/tests/house/digest: $(BUILD)/tests/house/digest.o $(BUILD)/tests/fixtures/bare_fixture.o \
                             $(BUILD)/tests/fixtures/plans/plan_bytes.o $(OBJECTS)
	$(LINK) $(LDLIBS)
$(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.o $(OBJECTS)
	$(LINK) $(LDLIBS)

# Both MPIs: tests of several processes are skipped where they are not installed.
deps:
	@tools/pkg/deps.sh all && tools/pkg/deps.sh ranks

library: $(LIBOBJ)
objects: library $(BINOBJ) $(TESTS:=.o) $(SUPPORT) $(patsubst %.c,$(BUILD)/%.o,$(wildcard \
         tools/bench/*.c tools/docs/*.c tools/embed/*.c tests/house/*.c))
check: all
	@BUILD=$(BUILD) LIBOBJ="$(LIBOBJ)" tools/check/run.sh
# For editors and tools that read compile_commands.json; flags are those of this build.
.PHONY: compile_commands
compile_commands:
	@$(MAKE) -nB V=1 BUILD=$(BUILD) objects 2>/dev/null | tools/dev/compile_commands.sh >compile_commands.json
format:
	clang-format-14 -i $$(tools/check/sources.sh code)

# The public headers are made of those headers of the tree that say so (tools/pkg/headers.sh).
INSTALL := $(DESTDIR)$(PREFIX)
INSTALLED := $(addprefix $(INSTALL)/,bin/bedplate include/bedplate.h lib/libbedplate.a \
             lib/pkgconfig/bedplate.pc share/bash-completion/completions/bedplate \
             share/fish/vendor_completions.d/bedplate.fish share/man/man1/bedplate.1 \
             share/zsh/site-functions/_bedplate)
# With SOURCE_DATE_EPOCH (reproducible-builds.org) files have that time, so that packages of them are equal.
STAMP = $(if $(SOURCE_DATE_EPOCH),@find $(INSTALLED) $(INSTALL)/include/bedplate -type f \
        -exec touch -d @$(SOURCE_DATE_EPOCH) {} + 2>/dev/null || true)
install: all install-library
	install -Dm755 $(BUILD)/bedplate $(INSTALL)/bin/bedplate
	install -Dm644 docs/bedplate.1 $(INSTALL)/share/man/man1/bedplate.1
	$(BUILD)/bedplate completion bash | \
	    install -Dm644 /dev/stdin $(INSTALL)/share/bash-completion/completions/bedplate
	$(BUILD)/bedplate completion zsh | \
	    install -Dm644 /dev/stdin $(INSTALL)/share/zsh/site-functions/_bedplate
	$(BUILD)/bedplate completion fish | \
	    install -Dm644 /dev/stdin $(INSTALL)/share/fish/vendor_completions.d/bedplate.fish
	$(STAMP)
install-library: $(LIB)
	install -Dm644 $(LIB) $(INSTALL)/lib/libbedplate.a
	tools/pkg/headers.sh $(INSTALL)/include
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@SYSTEM@|$(if $(filter $(BARE),$(VARIANT)),, -lpthread -ldl)|' \
	    tools/pkg/bedplate.pc.in | \
	    install -Dm644 /dev/stdin $(INSTALL)/lib/pkgconfig/bedplate.pc
	$(STAMP)
uninstall:
	rm -f $(INSTALLED)
	rm -rf $(INSTALL)/include/bedplate

clean:
	rm -rf build
help:
	@echo "all        the library and the program, in $(BUILD)"
	@echo "demo       trains a small GPT on this machine's licence texts"
	@echo "check      the rules of the house"
	@echo "test       every test of one build; what else is tested: below"
	@echo "  test-variants  what .ci/run takes of other builds; one after the other:"
	@echo "  sanitize-short (AddressSanitizer, UBSan: most tests) aarch64-short riscv64 (under qemu-user)"
	@echo "  boards-m7 (a microcontroller under QEMU) tsan (threads) digests (the same bits in all of them)"
	@echo "nightly    what .ci/run leaves: clang sanitize covered (lines, branches that it ran) boards fuzz"
	@echo "           test-long jobs mutants; make kit wants one of the same commit"
	@echo "  mcdc (conditions that decide by themselves; needs clang-19) mcdc-gcc (the same by gcc 14, for comparison)"
	@echo "  analysis (stack bound, coupling, cost of programs, cppcheck with MISRA: counts may only fall)"
	@echo "  kit (runs what gives evidence and puts it into one archive)"
	@echo "  prove (contracts, by Frama-C) derivatives (of formulas, by sympy) mutation (faults in the code that tests must find; FAULTS=30: fewer)"
	@echo "  mutation-requirements (faults in the code of each requirement, which its own cases must see; an hour)"
	@echo "  fuzz (hostile files; fuzz-long: for hours) ptx-coverage, ptx-covered (what tests execute of the kernels)"
	@echo "  mutants (every fault planted into programs, where test plants a share: an hour or two)"
	@echo "soak HOURS=h  one run that meets every trouble and ends as if it had met none"
	@echo "embed size the integrator's example and its sizes"
	@echo "manual     the manual's tables and the man page, from the program's own"
	@echo "dist       tarballs, Debian packages and wheels, for x86-64 and aarch64 (tools/pkg; deps-dist: what it needs)"
	@echo "install uninstall deps format clean compile_commands (for editors)"

-include tests/tests.mk tools/demo.mk tools/pkg/dist.mk tools/embed.mk tools/board.mk tools/docs/docs.mk tools/ptxvm/ptxvm.mk \
         tools/ptx/ptx.mk tests/gpu/gpu.mk
-include $(LIBOBJ:.o=.d) $(BINOBJ:.o=.d) $(TESTS:=.d) $(SUPPORT:.o=.d) $(FUZZERS:=.d) $(BUILD)/tests/suite.d \
         $(wildcard $(BUILD)/tools/bench/*.d) $(BUILD)/tests/house/digest.d
