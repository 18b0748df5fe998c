# SPDX-License-Identifier: MIT
# ptxvm: a libcuda.so.1 that runs PTX on the CPU, and its tests. Included by the root Makefile.
PTXVM_SRC := $(filter-out tools/ptxvm/exec/arith.c tools/ptxvm/exec/arith_x86_64.c tools/ptxvm/exec/arith_other.c,\
             $(sort $(shell find tools/ptxvm -name '*.c')))
PTXVM_OBJ := $(PTXVM_SRC:%.c=$(BUILD)/%.o) $(BUILD)/tools/ptxvm/arith_portable.o
ifeq ($(ARCH),x86_64)
PTXVM_OBJ += $(BUILD)/tools/ptxvm/arith_wide.o $(BUILD)/tools/ptxvm/exec/arith_x86_64.o
else
PTXVM_OBJ += $(BUILD)/tools/ptxvm/exec/arith_other.o
endif
PTXVM_LIB := $(BUILD)/ptxvm/libcuda.so.1
# The checks of every access are worth optimising hard.
PTXVM_CFLAGS := $(CFLAGS) $(if $(findstring -O2,$(OPT)),-O3) -fPIC -fvisibility=hidden
PTXVM_TESTS := $(patsubst tests/ptxvm/%.c,$(BUILD)/tests/ptxvm/%,$(wildcard tests/ptxvm/test_*.c))
PTXVM_SUPPORT := $(BUILD)/tests/ptxvm/run.o $(BUILD)/tests/ptxvm/nvcc.o

$(PTXVM_SRC:%.c=$(BUILD)/%.o) $(BUILD)/tools/ptxvm/exec/arith_other.o \
$(BUILD)/tools/ptxvm/exec/arith_x86_64.o: $(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,"$(CC) $<") $(CC) $(PTXVM_CFLAGS) -c $< -o $@
$(BUILD)/tools/ptxvm/arith_portable.o: tools/ptxvm/exec/arith.c
	@mkdir -p $(@D)
	$(call say,"$(CC) $< portable") $(CC) $(PTXVM_CFLAGS) -DVM_ARITH_TABLE=vm_arith_portable \
	    -DVM_MULTIPLY=vm_multiply_portable -c $< -o $@
$(BUILD)/tools/ptxvm/arith_wide.o: tools/ptxvm/exec/arith.c
	@mkdir -p $(@D)
	$(call say,"$(CC) $< avx2") $(CC) $(PTXVM_CFLAGS) -O3 -mavx2 -mfma -DVM_ARITH_TABLE=vm_arith_avx2 \
	    -DVM_MULTIPLY=vm_multiply_avx2 -c $< -o $@

$(PTXVM_OBJ): $(BUILD)/flags
$(PTXVM_LIB): $(PTXVM_OBJ)
	@mkdir -p $(@D)
	$(call say,"link $@") $(CC) $(OPT) $(EXTRA) -shared -Wl,-soname,libcuda.so.1 $^ -o $@ -lm -lpthread

# The tests link the library itself; they find it beside them, wherever the build lies.
PTXVM_LINK = $(PTXVM_LIB) -o $@ -Wl,-rpath,'$$ORIGIN/../../ptxvm' -lm -lcmocka
PTXVM_SUITE := $(BUILD)/tests/ptxvm/suite
$(PTXVM_TESTS): $(BUILD)/tests/ptxvm/%: $(BUILD)/tests/ptxvm/%.o $(PTXVM_SUPPORT) $(PTXVM_LIB)
	$(call say,"link $@") $(CC) $(OPT) $(EXTRA) $(filter %.o,$^) $(PTXVM_LINK)
$(PTXVM_SUITE): $(PTXVM_TESTS:=.o) $(BUILD)/tests/suite.o $(PTXVM_SUPPORT) $(PTXVM_LIB) tests/suite.sh
	$(SUITE)
	$(call LINK_SUITE,$(PTXVM_LINK))

.PHONY: ptxvm ptxvm-tests ptxvm-test
ptxvm: $(PTXVM_LIB)
ptxvm-tests: $(PTXVM_SUITE)
ptxvm-test: $(PTXVM_SUITE)
	@for t in $(notdir $(PTXVM_TESTS)); do $< $$t || exit 1; done
tests: $(PTXVM_SUITE)

-include $(PTXVM_OBJ:.o=.d) $(PTXVM_TESTS:=.d) $(PTXVM_SUPPORT:.o=.d)
