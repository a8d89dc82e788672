# SPDX-License-Identifier: GPL-2.0
# The front door: each target hands over.

KVER ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVER)/build

all: modules

modules clean:
	$(MAKE) -C $(KDIR) M=$(CURDIR)/pfrag_mod $@

install: modules
	$(MAKE) -C $(KDIR) M=$(CURDIR)/pfrag_mod modules_install

check:
	scripts/check_style.sh

test:
	scripts/run_tests.sh

bench:
	scripts/run_bench.sh

.PHONY: all modules clean install check test bench
