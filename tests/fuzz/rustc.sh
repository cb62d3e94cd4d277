#!/bin/bash
# The compiler for crates of this workspace, as cargo calls it for the fuzzer (RUSTC_WORKSPACE_WRAPPER): what libFuzzer asks of
# the code it looks into, on a stable toolchain. What runs while building is built as ever.
#
#   BERTH_FUZZ_COMPARES=0   not told what is compared with what, which takes a good part of the time: inputs are led by what they
#                           reach alone; of use where the corpus has the words already
set -eu
case " $* " in
*" --crate-name build_script_"* | *" --crate-type proc-macro "* | *" --print"*) exec "$@" ;;
esac
compares=(-C llvm-args=-sanitizer-coverage-trace-compares)
[ "${BERTH_FUZZ_COMPARES:-1}" != 0 ] || compares=()
exec "$@" -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 \
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table \
    "${compares[@]}" -C opt-level=2 -C debuginfo=0 \
    -C debug-assertions=on -C overflow-checks=on
