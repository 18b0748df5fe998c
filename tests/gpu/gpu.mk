# SPDX-License-Identifier: MIT
# What the tests of device/cuda load beside themselves: the instrument, a management library, and a
# driver that is too old.
FAKE_ML  := $(BUILD)/ptxvm/libnvidia-ml.so.1
FAKE_OLD := $(BUILD)/ptxvm/old/libcuda.so.1
$(FAKE_ML): tests/gpu/fake_ml.c
$(FAKE_OLD): tests/gpu/fake_old.c
$(FAKE_ML) $(FAKE_OLD):
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fPIC -shared -Wl,-soname,$(@F) $< -o $@
$(filter $(BUILD)/tests/unit/test_cuda_%,$(TESTS)) $(BUILD)/tests/house/test_noalloc: | $(PTXVM_LIB) $(FAKE_ML) $(FAKE_OLD)

# The same tests against the driver of the machine, and the benchmarks; with REHEARSE=1 on the
# instrument, in small.
.PHONY: gpu
gpu: all $(filter $(BUILD)/tests/unit/test_cuda_%,$(TESTS)) $(BUILD)/tools/bench/gpu_kernels
	@REHEARSE=$(REHEARSE) tests/gpu/run.sh $(BUILD)
-include $(BUILD)/tools/bench/gpu_kernels.d
