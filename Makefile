# The front door. Each target does its own set-up; the logic is in xtask/.

# A test that cannot run is skipped with the reason in the table; STRICT=1 makes a skip a failure.
STRICT ?= 0
export STRICT

XTASK := cargo run --quiet --locked --package xtask --

.PHONY: help demo demo-real test check test-all bench agent release tools generate packages clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: packages ## Set everything up and show what works today
	@$(XTASK) demo

demo-real: packages ## The same on real machines: systemd-nspawn, SSH, k3s. Needs root
	@$(XTASK) demo --real

test: packages ## Set everything up and run the tests, the slow suites last
	@$(XTASK) test

check: packages ## Format, lints, unit tests: what to run before every commit
	@$(XTASK) check

test-all: packages ## Every test there is, however long it takes
	@$(XTASK) test --all

bench: packages ## Run the benchmarks
	@$(XTASK) bench

agent: packages ## Build the agent as machines get it: target/agent/capstan-agent
	@$(XTASK) agent

release: packages ## Build what is published: target/dist/VERSION. Say which: make release VERSION=v0.1.0
	@$(XTASK) release $(VERSION)

tools: packages ## Build the pinned third-party programs the tests run against
	@$(XTASK) tools

generate: packages ## Write config/crd and the reference of every field from the types
	@cargo run --quiet --locked --package capstan -- crds --out-dir config/crd
	@cargo run --quiet --locked --package capstan -- crds --reference-dir docs/reference/api

packages:
	@sh tools/packages.sh

clean: ## Remove what cargo has built; the third-party programs stay in their cache
	@cargo clean
