# SPDX-License-Identifier: MIT
# The goals that prove: each ends with a line `N passed, N failed`. Included by the root Makefile.
.PHONY: unit tests test test-long test-variants nightly clang sanitize-short boards-m7 sanitize tsan aarch64 aarch64-short riscv64 boards digests digests-clang coverage covered fuzz fuzz-long fuzzers

unit: $(SUITES) $(ALONE)
tests: unit $(BUILD)/tests/house/digest $(BUILD)/tools/bench/exchange
# They look at every byte of an arena, again and again.
$(BUILD)/tests/fixtures/extent_oracle.o $(BUILD)/tests/fixtures/execution_oracle.o: HOST = $(if $(findstring -O2,$(OPT)),-O3)

# Every test, of the build that ships.
# What the tests of kernels execute of the PTX is counted on the way, for ptx-covered.
test: all tests
	@rm -rf $(BUILD)/ptx-coverage && mkdir -p $(BUILD)/ptx-coverage
	@PTX_COVERED="$(PTX_COVERED:%=$(BUILD)/tests/unit/device/cuda/%)" tests/run.sh $(BUILD)

# The long forms of the tests that have one, but for the planted faults (mutants).
test-long: all tests
	@BP_TEST_LONG=1 tests/run.sh $(BUILD) long

# What only another build can find; each part says what it adds. The last run beside each other: emulated
# programs use one processor each. boards builds for what aarch64 and riscv64 have done with.
VARIANTS := sanitize-short aarch64-short,boards-m7/tsan,digests,riscv64
test-variants:
	@tests/goals.sh $(VARIANTS)
# What .ci/run has no time for. It leaves build/nightly.stamp where all of it passed.
NIGHTLY := derivatives clang digests-clang sanitize covered aarch64 boards fuzz test-long jobs bare mutants
nightly:
	@tests/nightly.sh $(NIGHTLY)
# clang: its vectors, fused sums and order of evaluation, optimised: the tests of what computes.
CLANGED := $(foreach d,device/host core/ops optim,$(filter $(BUILD)/tests/unit/$d/%,$(SUITES) $(ALONE)))
.PHONY: clanged
clanged: $(CLANGED) $(BUILD)/tests/house/digest
clang:
	+$(MAKE) VARIANT=$@ all clanged
	@BP_TEST_SHORT=1 BP_TEST_WHOLE=1 tests/run.sh build/$@ numbers
# sanitize-short: what reads files, kernels, fabrics and the arena: the tests in C but for those of device/cuda, of the
# planner, of golden models and of whole trainings, and scripts that drive the readers of files. Its build counts
# nothing, and has no other tests.
SANITIZED := $(filter-out $(BUILD)/tests/house/% $(BUILD)/tests/ptxvm/% $(BUILD)/tests/unit/device/fabric/test_mpi% \
             $(foreach d,device/cuda core/plan tools/bedplate/runs tools/bedplate/rollout,$(BUILD)/tests/unit/$d/%), \
             $(SUITES) $(ALONE))
.PHONY: sanitized
sanitized: $(SANITIZED)
sanitize-short:
	+$(MAKE) VARIANT=$@ all sanitized
	@ASAN_OPTIONS=detect_leaks=0 BP_TEST_SHORT=1 tests/run.sh build/$@ memory
# sanitize: AddressSanitizer and UBSan of clang, so that all tests run as another compiler makes them, the
# program's own paths too. The library allocates nothing; what a test program or a lost driver leaves
# behind is not the matter (leaks are looked for in digests). It leaves the counters that `covered` reads.
sanitize:
	+$(MAKE) VARIANT=$@ all tests
	@rm -rf build/$@/raw
	@LLVM_PROFILE_FILE=$(CURDIR)/build/$@/raw/%4m.profraw ASAN_OPTIONS=detect_leaks=0 BP_TEST_SHORT=1 BP_TEST_WHOLE=1 \
	    tests/run.sh build/$@ variant
# tsan: ThreadSanitizer on what shares memory among threads: the pool, and fabrics of threads.
tsan:
	@tests/variants/threads.sh
# aarch64: another architecture's compiler, alignment and char; NEON's forms. aarch64-short: NEON's and SVE's forms of
# conversions and codecs, of products in part, instructions and one digest, by a library without GPU and files.
# digests: the same bits in every build; sanitize-short is built by then. The portable form after 1,000 steps is left
# to digests-clang.
aarch64:
	+$(MAKE) VARIANT=aarch64 library build/aarch64/libbedplate.a
	@tests/variants/aarch64.sh
aarch64-short: export BP_AARCH64_LEFT = $(LEFT-tsan)
aarch64-short:
	+$(MAKE) VARIANT=aarch64 build/aarch64/objects.a
	@tests/variants/aarch64.sh short
# riscv64: 20 steps of a freestanding build under qemu-user, the bits of this machine (tests/variants/digests.sh).
riscv64:
	@tests/variants/digests.sh riscv64
# boards: microcontrollers under qemu-system-arm, freestanding builds: the same bits, code in its limits.
boards:
	@tools/pkg/deps.sh boards && tests/variants/boards.sh
boards-m7:
	@tests/variants/boards.sh cortex-m7
digests:
	@tests/variants/digests.sh sanitize-short unoptimised vectors
digests-clang:
	@tests/variants/digests.sh clang table
# digests-release: what `digests` compares on this machine, on every platform of release.digests: two hours of
# processor time.
.PHONY: digests-release
digests-release:
	@tests/variants/release_digests.sh x86 aarch64 riscv64 cortex-m7 sm_80 sm_90a
# coverage: lines and branches that the tests run under the sanitizers; covered: what the last such run counted.
coverage:
	@tests/goals.sh sanitize covered
covered:
	@tools/check/coverage.sh

# mcdc: which conditions of the library the tests show to decide by themselves, by
# clang-19 (tests/assurance). mcdc-gcc: a second opinion, by gcc 14's condition coverage; it has no gate.
.PHONY: mcdc mcdc-gcc
mcdc:
	@tests/assurance/mcdc.sh
mcdc-gcc:
	@tests/assurance/mcdc_gcc.sh

# analysis: stack bound, coupling, cost of programs, findings of cppcheck per rule (tests/assurance).
.PHONY: analysis
analysis: all
	@BUILD=$(BUILD) tests/assurance/analysis.sh

# kit: everything that an assessor asks for as one archive (tests/assurance/README.md).
.PHONY: kit
kit: all
	@BUILD=$(BUILD) tests/assurance/kit.sh

# prove: contracts of integer cores, by Frama-C's WP, without bounds on sizes. mutation: small faults in the code
# of arena, core and optim, and the share that the tests find; FAULTS=30 is the short form.
# mutation-requirements: faults in the code of each requirement that its own cases must see; an hour of what the
# date draws (MINUTES, EACH, SEED).
.PHONY: prove mutation mutation-requirements
prove:
	@tests/assurance/prove.py
# derivatives: each backward formula of core/ops/*.def is the derivative of its forward formula, by sympy.
.PHONY: derivatives
derivatives:
	@tools/pkg/deps.sh derivatives && /usr/bin/env python3 tests/assurance/derivatives/derivatives.py $(ROW)
FAULTS ?= 600
mutation: all tests
	@tests/assurance/mutate.py $(FAULTS) $(SEED)
mutation-requirements: all objects
	@tests/assurance/mutate_requirements.py $(REQ)

# Hostile files: the committed corpora replayed, then every target for FUZZ_SECONDS; a finding is a
# file under build/fuzz/corpus and a failure.
FUZZ_SECONDS ?= $(if $(filter fuzz-long,$(MAKECMDGOALS)),3600,10)
fuzz fuzz-long:
	+$(MAKE) VARIANT=fuzz fuzzers
	@tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS)
fuzzers: EXTRA += -fsanitize=fuzzer
fuzzers: $(FUZZERS)

# Hours of trouble for one run (tests/soak); HOURS=0.02 is a minute.
.PHONY: soak
HOURS ?= 0.02
SEED ?= 1
soak: all
	@tests/soak/run.sh $(BUILD) $(HOURS) $(SEED)

# Every fault that the mutation test knows (tests/unit/core/ir/verify/test_mutants.c), family by family;
# `make test` plants a share of them. An hour or two.
# The pages' commands with the package and with the wheel, in a minimal system.
.PHONY: jobs
jobs: all
	@tests/house/jobs.sh

# A fresh clone in a minimal system.
.PHONY: bare
bare:
	@tests/house/bare.sh

.PHONY: mutants
MUTANTS := gpt2 llama qwen2 bert mlp rnn
mutants:
	@failed=0; for family in $(MUTANTS); do \
	    $(MAKE) -s mutants-$$family || failed=$$((failed + 1)); \
	done; echo "$$(($(words $(MUTANTS)) - failed)) passed, $$failed failed"; [[ $$failed -eq 0 ]]
mutants-%: $(BUILD)/tests/unit/core/ir/verify/test_mutants
	BP_TEST_LONG=1 BP_TEST_MUTANTS="$*" $<
