# SPDX-License-Identifier: MIT
# What the tests of device/cuda load beside themselves: the instrument, and a management library.
FAKE_ML := $(BUILD)/ptxvm/libnvidia-ml.so.1
$(FAKE_ML): tests/gpu/fake_ml.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fPIC -shared -Wl,-soname,libnvidia-ml.so.1 $< -o $@
$(filter $(BUILD)/tests/unit/test_cuda_%,$(TESTS)): | $(PTXVM_LIB) $(FAKE_ML)
