# SPDX-License-Identifier: MIT
# make demo: MODEL= takes any preset or model directory, DATA= any text file.
MODEL ?= demo
DATA  ?=

.PHONY: demo
demo: $(BUILD)/bedplate $(BUILD)/tools/bench/order2
	@tools/bedplate/demo.sh $(BUILD) '$(MODEL)' '$(DATA)'
