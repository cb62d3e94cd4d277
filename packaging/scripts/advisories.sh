#!/bin/bash
# Looks for dependencies with known vulnerabilities, and for versions that were withdrawn (deny.toml, [advisories]).
#
# Exit status: 0 if none was found, or if the question cannot be asked here: without cargo-deny, or without its database in a
# closed network. The output says which.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v cargo-deny >/dev/null; then
    echo "advisories: NOT CHECKED: cargo-deny is not installed (cargo install --locked cargo-deny)"
    exit 0
fi
copies=${CARGO_HOME:-$HOME/.cargo}/advisory-dbs
if ! cargo deny --log-level error fetch db; then
    if [ -z "$(ls -A "$copies" 2>/dev/null)" ]; then
        echo "advisories: NOT CHECKED: the advisory database cannot be reached, and there is no copy of it in $copies"
        exit 0
    fi
    echo "advisories: the database cannot be reached: its copy of $(date -r "$copies" +%F) is used"
fi
cargo deny --log-level error --offline check advisories
echo "advisories: none applies"
