# SPDX-License-Identifier: MIT
# Bedplate. `make` builds, `make demo` shows it, `make test` proves it; `make help` lists the rest.
# `make VARIANT=clang` and the like build the same into build/clang with other flags; V=1 says which.
SHELL   := /bin/bash
VERSION := $(shell sed -n 's/^\#define BP_VERSION "\(.*\)"$$/\1/p' core/version.h)
comma   := ,
PREFIX  ?= /usr/local
DESTDIR ?=

# The builds that tests compare. Warnings that come and go with an optimiser's passes are errors in
# the first two only. HOSTOPT goes to device/host: kernels must end in a test's time.
CC-clang      := clang
EXTRA-sanitize := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
                  -Wno-error
EXTRA-tsan    := -fsanitize=thread -Wno-error
OPT-coverage  := -O0 -g
EXTRA-coverage := --coverage -Wno-error
HOSTOPT-coverage := -O2
CC-aarch64    := aarch64-linux-gnu-gcc
EXTRA-aarch64 := -static -Wno-error
OPT-callgraph := -O0
EXTRA-callgraph := -fcallgraph-info -Wno-error
CC-fuzz       := clang
OPT-fuzz      := -O1 -g
EXTRA-fuzz    := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all

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
ifneq ($(filter test test-variants check coverage sanitize tsan clang aarch64 digests fuzz fuzz-long \
                ptx-coverage format,$(MAKECMDGOALS)),)
-include build/ready-all.mk
endif
build/ready-%.mk: tools/pkg/deps.sh
	@tools/pkg/deps.sh $* && mkdir -p build && touch $@

ARCH := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
WARN := -Wall -Wextra -pedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
        -Wvla -Wdouble-promotion -Werror
CFLAGS := -std=c99 $(WARN) $(OPT) -ffp-contract=off -fno-math-errno -I. -MMD -MP \
          -D_POSIX_C_SOURCE=200809L $(EXTRA)
# The archives of utf8proc, zlib and libzstd, so that the program needs no library the system may
# lack. There are none for aarch64 on a Debian of another architecture: that build links only what
# asks for no characters and unpacks nothing.
ARCHIVES := $(if $(filter aarch64,$(VARIANT)),,-l:libutf8proc.a -l:libz.a -l:libzstd.a)
LDLIBS := $(ARCHIVES) -lm -lpthread -ldl

# Every .c file in these folders belongs to the library, every test_*.c under tests/ is a test program.
LIBDIRS := $(shell find arena core layers optim device/host device/fabric device/cuda \
                   tools/formats -type d)
LIBSRC  := $(wildcard $(LIBDIRS:=/*.c))
ifneq ($(ARCH),x86_64)
LIBSRC  := $(filter-out %_avx2.c %_avx512.c,$(LIBSRC))
endif
BINSRC  := $(wildcard tools/bedplate/*.c)
# tests/unit mirrors the source tree.
TESTSRC := $(wildcard $(addsuffix /test_*.c,$(LIBDIRS:%=tests/unit/%) tests/unit/tools/bedplate \
                      tests/unit/fuzz tests/golden tests/fault tests/house))
# Sources of device/host that are built once per working type (element.h): X.o is f32's, X_bf16.o
# and X_f16.o are the others'.
TYPED   := bias cross_entropy dropout embedding gelu layernorm elements_avx2 elements_avx512 \
           rows_avx2 rows_avx512 samples plain_rows activation plain_rows_avx2 \
           plain_rows_avx512 activation_avx2 activation_avx512 plain_cells
TYPED   := $(foreach name,$(TYPED),$(filter device/host/%/$(name).c,$(LIBSRC)))
LIBOBJ  := $(LIBSRC:%.c=$(BUILD)/%.o) $(TYPED:%.c=$(BUILD)/%_bf16.o) $(TYPED:%.c=$(BUILD)/%_f16.o)
BINOBJ  := $(BINSRC:%.c=$(BUILD)/%.o)
TESTS   := $(TESTSRC:%.c=$(BUILD)/%)
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
LIB     := $(BUILD)/libbedplate.a

.PHONY: all check deps install install-library uninstall format library objects clean help force
.SECONDARY:
all: $(LIB) $(if $(BINSRC),$(BUILD)/bedplate)

# One short line for each thing made; nothing under -s, the whole command under V=1.
say = $(if $(V),,@$(if $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),,echo $(1) &&))

# Objects depend on the command that makes them, so that other flags in the same folder rebuild it.
FLAGS := $(CC) $(CFLAGS) $(HOSTOPT)
ifneq ($(strip $(FLAGS)),$(strip $(file <$(BUILD)/flags)))
$(BUILD)/flags: force
endif
$(BUILD)/flags:
	@mkdir -p $(@D) && printf '%s\n' '$(subst ','\'',$(FLAGS))' >$@
# Nothing unwinds a stack of what ships, and debuggers have tables of their own: 168 KB less. Tests do.
UNWIND  = $(if $(EXTRA)$(filter tests/% tools/ptxvm/%,$<),,-fno-asynchronous-unwind-tables)
COMPILE = $(call say,"$(CC) $<$(ELEMENT:-D%= %)") $(CC) $(CFLAGS) $(UNWIND) $(ISA) $(HOST) $(ELEMENT) \
          -c $< -o $@
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
$(BUILD)/device/host/matmul/matmul_amx_avx512.o: ISA += -mamx-tile -mamx-bf16
$(BUILD)/device/host/%.o: HOST = $(HOSTOPT)
# What the program itself does is done once a run; what it measures with keeps its speed: 28 KB less.
PLAIN := $(filter-out %/bench_optim.o %/calibrate.o %/sample.o %/predictions.o,$(BINOBJ))
$(PLAIN): HOST = $(if $(EXTRA),,-Os)
# Loops over one block, which the compiler turns into vectors: traps are not looked at, values stay.
$(BUILD)/device/host/update/update_%.o: HOST = -O3 -fno-trapping-math $(HOSTOPT)
$(addprefix $(BUILD)/core/number/,convert.o quantised.o): HOST = -O3 -fno-trapping-math $(HOSTOPT)
# Nearly every x86-64 runs another form: there the portable one is the specification, and small.
ifeq ($(ARCH),x86_64)
$(BUILD)/device/host/update/update_portable.o: HOST = $(HOSTOPT)
endif

LINK = $(call say,"link $@") $(CC) $(OPT) $(EXTRA) $(filter %.o,$^) $(filter %.a,$^) -o $@
# Appending keeps both of two members that have the same name in different folders.
$(LIB): $(LIBOBJ)
	@rm -f $@
	$(call say,"archive $@") ar qcs $@ $^
# The program ships without symbols, unless this is a build for looking into.
$(BUILD)/bedplate: $(BINOBJ) $(LIB)
	$(LINK) $(LDLIBS) $(if $(EXTRA),,-s -Wl$(comma)--no-eh-frame-hdr)
$(BUILD)/tools/bench/%: $(BUILD)/tools/bench/%.o $(LIB)
	$(LINK) $(LDLIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT) $(LIB)
	$(LINK) $(LDLIBS) -lcmocka -ljansson
# A program of the house tests that must link without the test libraries, for any machine.
$(BUILD)/tests/house/digest: $(BUILD)/tests/house/digest.o $(BUILD)/tests/support/trial.o \
                             $(BUILD)/tests/support/plan_bytes.o $(LIB)
	$(LINK) $(LDLIBS)
$(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.o $(LIB)
	$(LINK) $(LDLIBS)

deps:
	@tools/pkg/deps.sh all

library: $(LIBOBJ)
objects: library $(BINOBJ) $(TESTS:=.o) $(SUPPORT) $(patsubst %.c,$(BUILD)/%.o,$(wildcard \
         tools/bench/*.c tools/docs/*.c tools/embed/*.c tests/house/*.c))
check: all
	@BUILD=$(BUILD) LIBOBJ="$(LIBOBJ)" tools/check/run.sh
format:
	clang-format-14 -i $$(tools/check/sources.sh code)

# The public headers are made of those headers of the tree that say so (tools/pkg/headers.sh).
INSTALL := $(DESTDIR)$(PREFIX)
install: all install-library
	install -Dm755 $(BUILD)/bedplate $(INSTALL)/bin/bedplate
	install -Dm644 docs/bedplate.1 $(INSTALL)/share/man/man1/bedplate.1
	$(BUILD)/bedplate completion bash | \
	    install -Dm644 /dev/stdin $(INSTALL)/share/bash-completion/completions/bedplate
	$(BUILD)/bedplate completion zsh | \
	    install -Dm644 /dev/stdin $(INSTALL)/share/zsh/site-functions/_bedplate
	$(BUILD)/bedplate completion fish | \
	    install -Dm644 /dev/stdin $(INSTALL)/share/fish/vendor_completions.d/bedplate.fish
install-library: $(LIB)
	install -Dm644 $(LIB) $(INSTALL)/lib/libbedplate.a
	tools/pkg/headers.sh $(INSTALL)/include
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' tools/pkg/bedplate.pc.in | \
	    install -Dm644 /dev/stdin $(INSTALL)/lib/pkgconfig/bedplate.pc
uninstall:
	rm -f $(INSTALL)/lib/libbedplate.a $(INSTALL)/bin/bedplate $(INSTALL)/include/bedplate.h \
	    $(INSTALL)/share/man/man1/bedplate.1 $(INSTALL)/lib/pkgconfig/bedplate.pc \
	    $(INSTALL)/share/bash-completion/completions/bedplate \
	    $(INSTALL)/share/zsh/site-functions/_bedplate \
	    $(INSTALL)/share/fish/vendor_completions.d/bedplate.fish
	rm -rf $(INSTALL)/include/bedplate

clean:
	rm -rf build
help:
	@echo "all        the library and the program, in $(BUILD)"
	@echo "demo       trains a small GPT on this machine's licence texts"
	@echo "check      the rules of the house"
	@echo "test       every test of one build; what else is tested: below"
	@echo "  test-variants  the test programs in the builds below, and their digests; one after the other:"
	@echo "  clang sanitize (AddressSanitizer, UBSan) tsan (threads) coverage (lines, branches)"
	@echo "  aarch64 (under qemu-user) digests (the same bits in all of them)"
	@echo "  fuzz (hostile files; fuzz-long: for hours) ptx-coverage (what tests execute of the kernels)"
	@echo "  mutants (every fault planted into programs, where test plants a share: an hour or two)"
	@echo "embed size the integrator's example and its sizes"
	@echo "manual     the manual's tables and the man page, from the program's own"
	@echo "install uninstall deps format clean"

-include tests/tests.mk tools/demo.mk tools/embed.mk tools/docs/docs.mk tools/ptxvm/ptxvm.mk \
         tools/ptx/ptx.mk tests/gpu/gpu.mk
-include $(LIBOBJ:.o=.d) $(BINOBJ:.o=.d) $(TESTS:=.d) $(SUPPORT:.o=.d) $(FUZZERS:=.d) \
         $(BUILD)/tests/house/digest.d
