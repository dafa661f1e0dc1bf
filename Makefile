# make demo   two simulated A100 hosts from bare to serving (root)
# make test   all tests; those that converge lab hosts need root and are skipped without it
# make test-fast   those that take under a minute; make test-slow, make test-lab: the others
# make lint, make lab-down

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
INVENTORY := inventories/lab.yml
LAB_PACKAGES := systemd-container mmdebstrap iproute2 openssh-client gcc libc6-dev qemu-system-x86 e2fsprogs openssl
TEST_PACKAGES := openssh-server openssh-client gcc libc6-dev gnupg

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-slow test-lab lint lab-down venv lab-ready need-root

help:
	@sed -n 's/^# //p' Makefile

$(VENV)/ready: pyproject.toml
	@scripts/make-venv $(VENV)
	@touch $@

venv: $(VENV)/ready

need-root:
	@[ "$$(id -u)" = 0 ] || { echo "The lab boots real systemd hosts and needs root: run 'sudo make $(MAKECMDGOALS)'."; exit 2; }

lab-ready: need-root venv
	@scripts/apt-missing $(LAB_PACKAGES)

demo: lab-ready
	@scripts/demo $(BIN) $(INVENTORY)

lab-down: need-root venv
	@$(BIN)/qwenhost lab down

test-fast: venv
	@scripts/apt-missing $(TEST_PACKAGES)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not lab and not slow"

test-slow: venv
	@scripts/apt-missing $(TEST_PACKAGES)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not lab"

test-lab: lab-ready
	@$(BIN)/python -m pytest -m "lab and slow"  # an emulated machine, which needs this one for itself
	@$(BIN)/python -m pytest -n 2 --dist loadscope -m "lab and not slow" --durations 20

test: test-fast test-slow
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) --no-print-directory test-lab; \
	else echo "The tests that converge lab hosts need root and did not run: 'sudo make test' runs them."; fi

lint: venv
	@$(BIN)/python -m pytest tests/test_architecture.py
