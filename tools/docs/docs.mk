# SPDX-License-Identifier: MIT
# make manual: writes the tables of docs/manual.md and docs/families.md, and docs/bedplate.1, from the program's own.
MANUAL := $(BUILD)/tools/docs/manual

.PHONY: manual
$(MANUAL): $(MANUAL).o $(BUILD)/tools/docs/families.o $(filter-out %/main.o,$(BINOBJ)) $(OBJECTS)
	$(LINK) $(LDLIBS)
manual: $(MANUAL)
	@tools/docs/manual.sh $<
check: $(MANUAL)
-include $(MANUAL).d $(BUILD)/tools/docs/families.d

# make picture: draws docs/plan.svg, which README.md shows, from the page of a plan.
.PHONY: picture
picture: $(BUILD)/bedplate
	@tools/docs/picture.sh $<
