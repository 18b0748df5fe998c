# SPDX-License-Identifier: MIT
# What the tests of device/cuda load beside themselves: the instrument, a management library, a
# driver that is too old, and a stand-in for NCCL.
FAKE_ML  := $(BUILD)/ptxvm/libnvidia-ml.so.1
FAKE_OLD := $(BUILD)/ptxvm/old/libcuda.so.1
$(FAKE_ML): tests/gpu/fake_ml.c
$(FAKE_OLD): tests/gpu/fake_old.c
KEEP_CONTEXT := $(BUILD)/ptxvm/keep_context.so
$(KEEP_CONTEXT): tests/gpu/keep_context.c
$(FAKE_ML) $(FAKE_OLD) $(KEEP_CONTEXT):
	@mkdir -p $(@D)
	$(call say,"$(CC) $<") $(CC) $(CFLAGS) -fPIC -shared -Wl,-soname,$(@F) $< -o $@
FAKE_NCCL := $(BUILD)/ptxvm/nccl/libnccl.so.2
$(FAKE_NCCL): $(wildcard tests/fixtures/nccl/*.[ch]) device/fabric/nccl_entries.def
	@mkdir -p $(@D)
	$(call say,"$(CC) tests/fixtures/nccl") $(CC) $(CFLAGS) -MF $@.d -fPIC -shared -Wl,-soname,$(@F) $(filter %.c,$^) -ldl -o $@
$(filter $(BUILD)/tests/unit/device/cuda/%,$(TESTS) $(SUITES)) $(BUILD)/tests/house/test_noalloc: | $(PTXVM_LIB) $(FAKE_ML) $(FAKE_OLD) $(FAKE_NCCL)

# The same tests against the driver of the machine, and the benchmarks; with REHEARSE=1 on the
# instrument, in small. Building counts towards its eight minutes, so the clock starts here.
ifneq ($(filter gpu,$(MAKECMDGOALS)),)
GPU_BEGAN := $(shell date +%s)
$(foreach header,xxhash utf8proc zlib zstd cmocka jansson,$(if $(wildcard /usr/include/$(header).h),,\
  $(warning no $(header).h: `make deps` installs it; without a network, `make gpu-bundle` elsewhere)))
endif
GPU_TESTS  := $(filter $(BUILD)/tests/unit/device/cuda/%,$(SUITES) $(ALONE))
GPU_BUNDLE ?= build/gpu-bundle
.PHONY: gpu gpu-bundle
gpu: all $(GPU_TESTS) $(BUILD)/tools/bench/gpu_kernels
	@REHEARSE=$(REHEARSE) BEGAN=$(GPU_BEGAN) tests/gpu/run.sh $(BUILD)
-include $(BUILD)/tools/bench/gpu_kernels.d

# For a machine with a GPU and without what building needs: all that tests/gpu/run.sh runs, without
# symbols, and the libraries of the tests. There, in a checkout: tests/gpu/run.sh build/gpu-bundle
# build/gpu.tar.xz is the same to carry along, below 12 MiB: unpacked in a checkout there it makes the folder again,
# and first.txt and second.txt are the two commands. A test of the suite has a script of its own name too.
gpu-bundle: all $(GPU_TESTS) $(BUILD)/tools/bench/gpu_kernels $(KEEP_CONTEXT)
	@rm -rf $(GPU_BUNDLE) && mkdir -p $(GPU_BUNDLE)/lib
	@for f in bedplate tools/bench/gpu_kernels $(GPU_TESTS:$(BUILD)/%=%) $(PTXVM_LIB:$(BUILD)/%=%) \
	    $(FAKE_ML:$(BUILD)/%=%) $(FAKE_OLD:$(BUILD)/%=%) $(FAKE_NCCL:$(BUILD)/%=%); do \
	    mkdir -p $$(dirname $(GPU_BUNDLE)/$$f) && strip -o $(GPU_BUNDLE)/$$f $(BUILD)/$$f || exit 1; \
	done
	@ldd $(GPU_TESTS) | awk '/lib(cmocka|jansson)/ { print $$3 }' | sort -u | xargs cp -Lt $(GPU_BUNDLE)/lib
	@cp tests/gpu/visit.py tests/gpu/report.py $(GPU_BUNDLE) && cp $(KEEP_CONTEXT) $(GPU_BUNDLE)/lib && \
	    cp tools/bench/torch_gpu.py $(GPU_BUNDLE)/tools/bench
	@for t in $$($(BUILD)/tests/unit/device/cuda/suite --list); do \
	    printf '#!/bin/sh\nexec "$${0%%/*}/suite" %s "$$@"\n' $$t >$(GPU_BUNDLE)/tests/unit/device/cuda/$$t && \
	    chmod +x $(GPU_BUNDLE)/tests/unit/device/cuda/$$t || exit 1; \
	done
	@tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - $(GPU_BUNDLE) | \
	    xz -6 >$(dir $(GPU_BUNDLE))gpu.tar.xz
	@bytes=$$(stat -c %s $(dir $(GPU_BUNDLE))gpu.tar.xz); echo "$(dir $(GPU_BUNDLE))gpu.tar.xz: $$bytes bytes"; \
	    [ $$bytes -lt 12582912 ] || { echo "gpu.tar.xz is too large to carry: found $$bytes bytes, expected less than 12582912"; exit 1; }
