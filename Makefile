# Bedplate. `make` builds, `make demo` shows it, `make test` proves it. See README.md.
SHELL  := /bin/bash
BUILD  ?= build/release
CC     := gcc
OPT    ?= -O2 -g
EXTRA  ?=
PREFIX ?= /usr/local
ARCH   := $(shell $(CC) -dumpmachine | cut -d- -f1)

WARN := -Wall -Wextra -pedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
        -Wvla -Wdouble-promotion -Werror
CFLAGS := -std=c99 $(WARN) $(OPT) -ffp-contract=off -fno-math-errno -I. -MMD -MP -D_POSIX_C_SOURCE=200809L $(EXTRA)
LDLIBS := -lm -lpthread

LIBDIRS := arena core layers optim device/host tools/formats
LIBSRC  := $(wildcard $(addsuffix /*.c,$(LIBDIRS)))
ifneq ($(ARCH),x86_64)
LIBSRC  := $(filter-out %_avx2.c %_avx512.c,$(LIBSRC))
endif
LIBOBJ  := $(LIBSRC:%.c=$(BUILD)/%.o)
BINSRC  := $(wildcard tools/bedplate/*.c)
BINOBJ  := $(BINSRC:%.c=$(BUILD)/%.o)
TESTSRC := $(wildcard tests/unit/test_*.c tests/golden/test_*.c tests/fault/test_*.c)
TESTS   := $(TESTSRC:%.c=$(BUILD)/%)
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))

.PHONY: all test clean
all: $(BUILD)/bedplate

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(ISA) -c $< -o $@
$(BUILD)/%_avx2.o: ISA := -mavx2 -mfma
$(BUILD)/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512

$(BUILD)/libbedplate.a: $(LIBOBJ)
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/bedplate: $(BINOBJ) $(BUILD)/libbedplate.a
	$(CC) $(OPT) $(EXTRA) $^ -o $@ $(LDLIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT) $(BUILD)/libbedplate.a
	@mkdir -p $(@D)
	$(CC) $(OPT) $(EXTRA) $^ -o $@ $(LDLIBS) -lcmocka -ljansson

tests: $(TESTS)
test: all tests
	@tests/run.sh $(BUILD)
clean:
	rm -rf build

-include $(LIBOBJ:.o=.d) $(BINOBJ:.o=.d) $(TESTS:=.d) $(SUPPORT:.o=.d)
