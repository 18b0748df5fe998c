# SPDX-License-Identifier: MIT
# make demo: MODEL= takes any preset or model directory, DATA= any text file, ARGS= more options.
MODEL ?= demo
DATA  ?=
ARGS  ?=

.PHONY: demo
demo: $(BUILD)/bedplate $(BUILD)/tools/bench/order2
	@tools/bedplate/app/demo.sh $(BUILD) '$(MODEL)' '$(DATA)' $(ARGS)
