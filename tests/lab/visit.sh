#!/bin/bash
# One visit to the laboratory's host: boots it, has it do one of tests/lab/host/*.sh, and prints what held and what did not.
#
# Usage:  visit.sh NAME [FILE...]       NAME: systemd, devices, ...; FILEs are put into the share
#
# Environment: LAB (default target/lab), and that of boot.sh.
set -eu -o pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
NAME=${1:?usage: visit.sh NAME [FILE...]}
shift
LAB=${LAB:-$HERE/../../target/lab}
share=${SHARE:-$LAB/visit-$NAME}
rm -rf "$share"
mkdir -p "$share"
cp "$HERE"/host/*.sh "$share/"
cp "$HERE/host/$NAME.sh" "$share/host.sh"
cp "$LAB"/modules/*.ko "$share/"
for file; do cp -rH "$file" "$share/"; done
# A disk that outlives a power-cycle.
export KEEP=$share.keep
rm -f "$KEEP"
truncate -s 2G "$KEEP"
mke2fs -q -t ext4 -F "$KEEP"
status=0
"$HERE/boot.sh" "$LAB" "$share" || status=$?
# A login prompt may stand before one of them.
grep -aoE 'LAB [0-9.]+ (ok |FAILED |end:).*' "$share/console.log" | tr -d '\r' || true
rm -f "$KEEP"
exit "$status"
