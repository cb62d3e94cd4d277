#!/bin/bash
# The benchmark, by `make bench`: builds the shipped binary and the program that measures it, installs nova-compute as the
# peer where that can be done, and writes docs/bench/DATE.md.
#
# BENCH_GUESTS=10,100 and BENCH_PROVIDERS=100,1000 make a shorter run, BENCH_PARTS=bind,spawn one of these parts alone (main.rs
# lists them), BENCH_PAGE=NAME writes docs/bench/DATE-NAME.md. PEER=none leaves nova-compute out; PEER=nova fails where it cannot be installed.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case "${PEER:-auto}" in
none) export BERTH_NOVA=/nonexistent ;;
nova) tests/bench/nova/install.sh ;;
*) tests/bench/nova/install.sh || echo "bench: nova-compute could not be installed and is left out" >&2 ;;
esac
cargo build --release -p berth-cli
# It measures other processes, so it may be a debug build, which the tests have made already.
cargo build -p berth-tests --example berth-bench
cargo build --release -p berth-scheduler-cases --example workload
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export BERTH_WORKLOAD=$TARGET/release/examples/workload
BERTH_PROGRAM=$TARGET/release/berth exec "$TARGET/debug/examples/berth-bench"
