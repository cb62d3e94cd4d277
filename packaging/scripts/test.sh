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
#   TEST_AGAIN=3          if no more tests than this have failed, each runs once more, alone; a line says so
#   TEST_CACHE=0          also the programs whose inputs have not changed since all their tests passed: the program,
#                         `berth`, the files of the checkout, and the installed packages
#   TMPDIR=FOLDER         where the tests' temporary files are; by default in memory, where 8 GiB of it are available
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

# Hundreds of databases are created and deleted: on a disk that takes a quarter more processor time. The file system in memory is
# in a mount namespace of the tests' own, so it ends with them. Disk images need O_DIRECT, which files in memory have since Linux 6.6.
MEMORY=/run/berth-tests
in_memory() {
    unshare --mount --propagation private -- sh -c 'mount -t tmpfs -o mode=0755,size=75% berth-tests "$0" && exec "$@"' "$MEMORY" "$@"
}
if [ -z "${TMPDIR:-}" ] && [ "$(awk '$1 == "MemAvailable:" { print int($2 / 1048576) }' /proc/meminfo)" -ge 8 ] &&
    mkdir -p "$MEMORY" 2>/dev/null && in_memory dd if=/dev/zero of="$MEMORY/probe" bs=4096 count=1 oflag=direct 2>/dev/null; then
    export TMPDIR=$MEMORY
    in_memory packaging/scripts/run_tests.py "$@" <"$BUILT"
else
    packaging/scripts/run_tests.py "$@" <"$BUILT"
fi
