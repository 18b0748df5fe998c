# SPDX-License-Identifier: MIT
# The integrator's example: make embed runs it, make size says how small it is. It sees what make
# install puts down and nothing else: headers and library are those of STAGE.
EMBED := $(BUILD)/tools/embed
STAGE := $(BUILD)/stage

.PHONY: embed size embed-report
PUBLIC := $(shell grep -rl '^/[*] Installed as part of <' --include=*.h $(LIBDIRS) core device)
$(STAGE)/include/bedplate.h: $(PUBLIC) tools/pkg/headers.sh
	@rm -rf $(STAGE)/include && tools/pkg/headers.sh $(STAGE)/include
$(STAGE)/lib/libbedplate.a: $(LIB)
	@install -Dm644 $< $@
$(EMBED)/%.o: CFLAGS := $(filter-out -I.,$(CFLAGS)) -I$(STAGE)/include -iquote . -fstack-usage
$(EMBED)/embed.o: $(STAGE)/include/bedplate.h
$(EMBED)/embed: $(EMBED)/embed.o $(STAGE)/lib/libbedplate.a
	$(LINK) $(LDLIBS)
$(EMBED)/main.o: tools/embed/embed.c $(BUILD)/flags $(STAGE)/include/bedplate.h
	@mkdir -p $(@D)
	$(CC) $(filter-out -Wmissing-prototypes,$(CFLAGS)) -Dmain=embed_main -c $< -o $@
$(EMBED)/stack: $(EMBED)/stack.o $(EMBED)/main.o $(STAGE)/lib/libbedplate.a
	$(LINK) $(LDLIBS)
embed: $(EMBED)/embed
	@$<

# Code of what was linked, by part; the deepest stack of a whole run; the largest frames.
embed-report:
	+@$(MAKE) -s BUILD=$(BUILD)/size OPT="-O2 -ffunction-sections -fdata-sections" \
	    EXTRA="-fstack-usage -Wl,--gc-sections" $(BUILD)/size/tools/embed/embed \
	    $(BUILD)/size/tools/embed/stack
	@tools/embed/report.sh $(BUILD)/size
# Examples of microcontrollers, each profile, beside what tests/variants/board.sizes allows.
size: board-sizes
.PHONY: board-sizes
board-sizes: embed-report
	@tests/variants/boards.sh size
check: $(EMBED)/embed.o
