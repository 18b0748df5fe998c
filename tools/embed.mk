# SPDX-License-Identifier: MIT
# The integrator's example: make embed runs it, make size says how small it is.
EMBED := $(BUILD)/tools/embed

.PHONY: embed size embed-report
$(EMBED)/%.o: CFLAGS += -fstack-usage
$(EMBED)/embed: $(EMBED)/embed.o $(LIB)
	$(LINK) $(LDLIBS)
$(EMBED)/main.o: tools/embed/embed.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(filter-out -Wmissing-prototypes,$(CFLAGS)) -Dmain=embed_main -c $< -o $@
$(EMBED)/stack: $(EMBED)/stack.o $(EMBED)/main.o $(LIB)
	$(LINK) $(LDLIBS)
embed: $(EMBED)/embed
	@$<

# Code of what was linked, by part; the deepest stack of a whole run; the largest frames.
size embed-report:
	+@$(MAKE) -s BUILD=$(BUILD)/size OPT="-O2 -ffunction-sections -fdata-sections" \
	    EXTRA="-fstack-usage -Wl,--gc-sections" $(BUILD)/size/tools/embed/embed \
	    $(BUILD)/size/tools/embed/stack
	@tools/embed/report.sh $(BUILD)/size
