# Two commands matter: `make run` and `make test`. Both work on a bare Debian 12 as root with a Rust toolchain, install what
# is missing, ask nothing, and may be repeated. The others are for those who change Berth.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.SUFFIXES:

# A build of all tests takes less time without incremental files. CARGO_INCREMENTAL=1 make test keeps them.
run test soak bench lab: export CARGO_INCREMENTAL ?= 0

# A login that did not source cargo's environment still finds it.
export PATH := $(PATH):$(HOME)/.cargo/bin

NEED := packaging/scripts/need.sh
say = @printf '\n== %s\n'

.PHONY: help run test check bench soak lab peers deb

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Show Berth on this machine and stay up as a node (ONCE=1: end after the show)
	$(say) "what a node needs"
	@$(NEED) build node
	$(say) "building berth"
	@# With a test program, a small one, cargo chooses the features of all crates as for `make test`: what one has compiled,
	@# the other does not compile again.
	@cargo build --workspace --bin berth --test options
	$(say) "running"
	@ONCE="$(ONCE)" packaging/scripts/run.sh

test: ## Everything, the real Placement, Keystone, Glance, Cyborg, Neutron, MariaDB, PostgreSQL and libvirtd included
	$(say) "what the build needs"
	@$(NEED) build
	$(say) "building berth, and installing what the tests need meanwhile"
	@{ $(NEED) node peers && tests/peers/install.sh; } & peers=$$!; built=0; cargo test --workspace --tests --no-run || built=$$?; \
		wait $$peers || { echo "test: what the tests need was not installed; the lines above that begin with need: or peers: say why" >&2; exit 1; }; \
		exit $$built
	$(say) "testing"
	@packaging/scripts/test.sh

check: ## Format, lints, documentation, imports, licences, advisories
	$(say) "what the build needs"
	@$(NEED) build
	$(say) "format"
	@cargo fmt --all --check
	$(say) "lints"
	@cargo clippy --workspace --all-targets -- -D warnings
	$(say) "documentation"
	@RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	$(say) "who imports whom; licences, bans, sources"
	@cargo test --quiet --workspace --test repository
	@if command -v cargo-deny >/dev/null; then cargo deny --log-level error check bans licenses sources; fi
	$(say) "known vulnerabilities of dependencies"
	@packaging/scripts/advisories.sh

peers: ## Install the real services that the tests talk to
	@$(NEED) peers
	@tests/peers/install.sh

deb: ## Make the Debian package
	$(say) "what the build needs"
	@$(NEED) build
	@packaging/scripts/deb.sh

bench: ## Measure, beside the peers where they are installed; writes a table under docs/
	@packaging/scripts/long-run.sh bench

soak: ## The long runs of the fault tests; writes a table under docs/
	@packaging/scripts/long-run.sh soak

lab: ## The libvirt driver on this machine, and a virtual host with VFIO devices; writes a table under docs/
	@packaging/scripts/long-run.sh lab
