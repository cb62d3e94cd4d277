#!/bin/bash
# Builds the fuzzer: our crates count where they have been (LLVM's coverage for fuzzers), all others are those of every other
# build. Says where the program is.
#
# Usage:  build.sh
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export RUSTC_WORKSPACE_WRAPPER=$PWD/tests/fuzz/rustc.sh CARGO_INCREMENTAL=0
# The whole workspace is named so that every dependency has the features it has everywhere else, and is there already.
cargo build --quiet --workspace --bin berth-fuzz --features berth-fuzz/program
echo "$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/berth-fuzz"
