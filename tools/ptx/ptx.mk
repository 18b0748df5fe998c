# SPDX-License-Identifier: MIT
# PTX: `make ptx` compiles kernels/**/*.cu in device/cuda (nvcc); every build embeds the committed texts as binary
# data, each followed by a zero byte. Included by the root Makefile.
PTX_TEXTS := $(wildcard device/cuda/kernels/*.ptx device/cuda/kernels/*/*.ptx)
PTX_OBJ   := $(BUILD)/device/cuda/kernels/ptx.o
$(LIB) $(OBJECTS): $(PTX_OBJ)

$(BUILD)/device/cuda/kernels/ptx.s: $(PTX_TEXTS) tools/ptx/ptx.mk
	@mkdir -p $(@D)
	@{ echo '.section .rodata'; \
	   for p in $(PTX_TEXTS); do \
	       f=$$(basename $$p .ptx); \
	       printf '.global bp_ptx_%s\n.global bp_ptx_%s_end\nbp_ptx_%s:\n' $$f $$f $$f; \
	       printf '.incbin "%s"\nbp_ptx_%s_end:\n.byte 0\n' $$p $$f; \
	   done; \
	   echo '.section .note.GNU-stack,"",%progbits'; } >$@
$(PTX_OBJ): $(BUILD)/device/cuda/kernels/ptx.s
	$(call say,"$(CC) $<") $(CC) -c $< -o $@

.PHONY: ptx
ptx:
	@tools/ptx/compile.py

# What compilers from 12.8 on make of the texts: spills, serialised products, issue slots. `make ptx-tools` brings
# them, for this check alone; without them it takes the ptxas that is there.
.PHONY: ptx-tools check-ptx
ptx-tools:
	@tools/ptx/slots.py --fetch
check-ptx:
	@tools/ptx/slots.py --check

# What the tests execute of the kernels' sources and instructions, on the instrument. ptx-covered: what the
# last `make test` executed.
PTX_COVERED := $(addprefix test_,kernels kernels16 tf32 hopper fp8 families update device_training flip)
.PHONY: ptx-coverage ptx-covered
ptx-coverage: $(BUILD)/tests/unit/device/cuda/suite
	@rm -rf $(BUILD)/ptx-coverage && mkdir -p $(BUILD)/ptx-coverage
	@for t in $(PTX_COVERED); do PTXVM_COVERAGE=$(BUILD)/ptx-coverage/$$t $< $$t >/dev/null 2>&1 || \
	    { echo "fails: $$t"; echo "0 passed, 1 failed"; exit 1; }; done
	@tools/ptx/coverage.py $(BUILD)/ptx-coverage/*
ptx-covered:
	@for t in $(PTX_COVERED); do ls $(BUILD)/ptx-coverage/$$t.*.ptx >/dev/null 2>&1 || \
	    { echo "$$t was not counted: make test does it"; echo "0 passed, 1 failed"; exit 1; }; done
	@tools/ptx/coverage.py $(BUILD)/ptx-coverage/*
