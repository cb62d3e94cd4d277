#!/bin/bash
# What `make run` shows once berth is built: ONCE=1 ends after the show, else the node stays up until Ctrl-C.
#
# Usage:  run.sh          (BERTH_PROGRAM: default target/debug/berth)
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
berth=${BERTH_PROGRAM:-${CARGO_TARGET_DIR:-target}/debug/berth}
if ! "$berth" demo --help >/dev/null 2>&1; then
    echo "run: $berth has no demonstration to show" >&2
    exit 1
fi
if [ -n "${ONCE:-}" ]; then
    exec "$berth" demo --once
fi
exec "$berth" demo
