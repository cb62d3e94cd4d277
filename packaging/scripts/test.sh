#!/bin/bash
# Builds and runs the test programs of the workspace, several at once.
#
# Usage:  test.sh [-p CRATE]... [ARGUMENT...]   each program gets the arguments: a part of a test's name, say
#   -p CRATE              only this crate's programs; without it all of the workspace
#   TEST_LANES=3          how many programs at once; by default one more than there are processors
#   RUST_TEST_THREADS=2   how many tests at once in each; by default as many as there are processors
#   TEST_LIMIT=300        seconds after which a test fails and is ended; the other tests of its program run all the same.
#                         Where several tests run at once a limit below 60 acts after 60 seconds
#   TEST_QUIET=30         seconds without a line after which one names the programs that run
#   TEST_CACHE=0          also the programs whose inputs have not changed since all their tests passed: the program,
#                         `berth`, the files of the checkout, and the installed packages
#   TEST_TIMES=FILE       one test at a time; appends a line for each: seconds of processor time, program, test
#
# A line is shown for each program, and all that a program printed where a test failed. The logs stay in target/tmp/test-logs.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

CRATES=()
while [ "${1:-}" = -p ]; do
    CRATES+=(-p "$2")
    shift 2
done
[ ${#CRATES[@]} -gt 0 ] || CRATES=(--workspace)
BUILT=$(mktemp)
trap 'rm -f "$BUILT"' EXIT
cargo test "${CRATES[@]}" --tests --no-run --message-format=json-render-diagnostics >"$BUILT"
packaging/scripts/run_tests.py "$@" <"$BUILT"
