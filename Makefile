# The front door. Each target installs the Debian packages it uses, and no others; the logic is in xtask/.

# A suite that cannot run is skipped, with the reason in the table; STRICT=1 makes a skip a failure.
STRICT ?= 0
export STRICT

# By `--bin` and not by `--package`: then third-party crates have the features that the whole workspace asks for, and
# no later command compiles them a second time.
CAPSTAN := cargo run --locked --bin capstan --
XTASK := cargo run --locked --bin xtask --
PACKAGES := @sh tools/packages.sh

.PHONY: help demo demo-real test check test-all bench agent release tools generate book packages clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build Capstan and show the main job on simulated hosts. Needs Rust and a C compiler
	$(PACKAGES) build
	cargo run --config tools/demo/profile.toml --no-default-features --locked --bin capstan -- demo

demo-real: ## The same on real machines: systemd-nspawn, SSH, k3s. Needs root and Go
	$(PACKAGES) build go machines
	$(XTASK) demo --real

check: ## Format, repository rules, lints, unit tests: run it before every commit
	$(PACKAGES) build git fuzz
	$(XTASK) check

test: ## Every suite that decides whether a change lands. Needs Go, and root for real machines
	$(PACKAGES) build git fuzz go machines clients browser valgrind
	$(XTASK) test

test-all: ## Every suite there is, also the long forms. Takes hours
	$(PACKAGES) build git fuzz go machines clients sshd browser valgrind clock nat
	$(XTASK) test --all

bench: ## Run the benchmarks
	$(PACKAGES) build go machines
	$(XTASK) bench

agent: ## Build the agent as machines get it: target/agent/capstan-agent
	$(PACKAGES) build
	$(XTASK) agent

release: ## Build what is published: target/dist/VERSION. Name it: make release VERSION=v0.1.0
	$(PACKAGES) build
	$(XTASK) release $(VERSION)

tools: ## Build the pinned third-party programs that the tests run against
	$(PACKAGES) build go machines
	$(XTASK) tools

# Not written to its place at once: the program that prints it is compiled from it.
generate: ## Write config and the reference of every field from the types
	$(PACKAGES) build
	$(CAPSTAN) crds --out-dir config/crd
	$(CAPSTAN) crds --output json-lines > target/crd.jsonl
	mv target/crd.jsonl config/crd.jsonl
	$(CAPSTAN) crds --reference-dir docs/reference/api
	$(CAPSTAN) generate admission > target/webhooks.yaml
	mv target/webhooks.yaml config/admission/webhooks.yaml

book: ## Build the documentation as a book: target/book
	$(PACKAGES) build
	$(XTASK) book

packages: ## Install the Debian packages of all targets
	$(PACKAGES)

clean: ## Remove what cargo has built; the third-party programs stay in their cache
	cargo clean
