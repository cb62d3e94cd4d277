#!/bin/bash
# Installs nova-compute from PyPI, pinned by requirements.txt beside this file, as the peer of `make bench`.
#
# Usage:  install.sh [DIR]        DIR: default $BERTH_NOVA, else target/peers/nova beside Cargo.toml
#
# Runs twice as well as once. Where it cannot, it says why and exits 1; the benchmark then leaves nova-compute out.
set -eu -o pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../../.." && pwd)
VENV=$(realpath -m "${1:-${BERTH_NOVA:-$ROOT/target/peers/nova}}")

fail() {
    printf 'nova: %s\n' "$*" >&2
    exit 1
}

find_python() {
    local python
    for python in "${BERTH_PYTHON:-}" /usr/bin/python3 python3; do
        [ -n "$python" ] || continue
        "$python" -c 'import ensurepip, sqlite3, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        command -v "$python"
        return
    done
    fail "no Python 3.11 or newer with venv was found; on Debian: apt-get install python3-venv, or name one in BERTH_PYTHON"
}

# Quietly; its last words come out only when it fails.
quietly() {
    "$@" >"$VENV.log" 2>&1 || {
        tail -n 15 "$VENV.log" >&2
        return 1
    }
}

PYTHON=$(find_python)
STAMP=$({ echo "$VENV" && "$PYTHON" --version && cat "$HERE/requirements.txt"; } | sha256sum | cut -c1-16)
if [ "$(cat "$VENV/stamp" 2>/dev/null)" = "$STAMP" ]; then
    exit 0
fi
printf 'nova: installing nova-compute into %s (a minute or two)\n' "$VENV"
mkdir -p "$(dirname "$VENV")"
rm -rf "$VENV"
quietly "$PYTHON" -m venv "$VENV" || fail "could not make a virtual environment with $PYTHON"
quietly "$VENV/bin/python" -m pip install --no-input --disable-pip-version-check -r "$HERE/requirements.txt" ||
    fail "pip could not install requirements.txt (its last words are above); it needs a package index (network)"
echo "$STAMP" >"$VENV/stamp"
