# SPDX-License-Identifier: MIT
# The examples of microcontrollers: make VARIANT=cortex-m7 board builds them for the board that QEMU has
# of that core; without a VARIANT they are programs of this machine. They see what is installed.
BOARD := $(BUILD)/tools/board
MEMORY-cortex-m4  := 0,4M,0x20000000,4M
MEMORY-cortex-m7  := 0,4M,0x20000000,4M
MEMORY-cortex-m33 := 0x10000000,4M,0x38000000,4M
MEMORY-cortex-m55 := 0,512K,0x21000000,2M
MEMORY-riscv32    := 0x80000000,4M,0x80400000,4M
# What starts a core, without a system.
START := $(if $(filter $(CORTEX),$(VARIANT)),cortex,$(filter riscv32,$(VARIANT)))
STARTUP := $(if $(START),startup $(START),pc)
.PHONY: board
board: $(BOARD)/train
$(BOARD)/%.o: CFLAGS := $(filter-out -I.,$(CFLAGS)) -I$(STAGE)/include -iquote .
$(BOARD)/train.o: $(STAGE)/include/bedplate.h
ifneq ($(START),)
split_ := $(subst $(comma), ,$(MEMORY-$(VARIANT)))
BOARD_LINK := -nostartfiles -T tools/board/mps2.ld -Wl,--gc-sections \
    -Wl,--defsym=board_code=$(word 1,$(split_)),--defsym=board_code_bytes=$(word 2,$(split_)) \
    -Wl,--defsym=board_ram=$(word 3,$(split_)),--defsym=board_ram_bytes=$(word 4,$(split_)) \
    -Wl,--defsym=board_stack_bytes=16384
$(BOARD)/train: $(BOARD)/train.o $(STARTUP:%=$(BOARD)/%.o) $(STAGE)/lib/libbedplate.a tools/board/mps2.ld
	$(LINK) $(BOARD_LINK) -lm
else
BOARD_LINK := -Wl,--gc-sections
$(BOARD)/train: $(BOARD)/train.o $(BOARD)/pc.o $(STAGE)/lib/libbedplate.a
	$(LINK) $(LDLIBS)
endif
ifeq ($(filter $(BARE),$(VARIANT)),)
board: $(BOARD)/carry
$(BOARD)/carry.o: $(STAGE)/include/bedplate.h
$(BOARD)/carry: $(BOARD)/carry.o $(STAGE)/lib/libbedplate.a
	$(LINK) $(LDLIBS)
endif
# What a trainer made by plan --emit-c is built with for that board (docs/how-to/appliance.md).
.PHONY: board-kit
# The archive is whole before another make looks at it: beside `board` both would write it.
board-kit: $(STARTUP:%=$(BOARD)/%.o) $(LIB)
	@$(MAKE) -s install-library DESTDIR= PREFIX=$(abspath $(BUILD)/kit) >/dev/null
	@printf '%s\n' 'CC = $(CC)' 'CFLAGS = $(OPT) $(or $(TARGET-$(VARIANT)),$(EXTRA))' \
	    'BEDPLATE = $(abspath $(BUILD)/kit)' 'BOARD = $(abspath $(STARTUP:%=$(BOARD)/%.o))' \
	    'LDFLAGS = $(subst tools/board,$(CURDIR)/tools/board,$(BOARD_LINK))' >$(BUILD)/kit/kit.mk
