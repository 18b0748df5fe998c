# SPDX-License-Identifier: MIT
# What others get (README.md): make dist builds every form, for x86-64 and aarch64, on an x86-64 Debian 12.
.PHONY: deps-dist dist dist-check
deps-dist:
	@tools/pkg/deps.sh dist && tools/pkg/sysroot.sh
dist: all
	+@[[ '$(VARIANT)' == '' && $(ARCH) == x86_64 ]] || { echo "make dist runs on x86-64, without a VARIANT" >&2; exit 2; }
	+@tools/pkg/sysroot.sh
	+@for variant in musl linux-aarch64 musl-aarch64; do $(MAKE) -s VARIANT=$$variant BUILD=build/$$variant all || exit; done
	@tools/pkg/dist.sh $(VERSION)
# In minimal systems (tests/house/test_dist.sh).
dist-check:
	@BP_TEST_LONG=1 tests/house/test_dist.sh
