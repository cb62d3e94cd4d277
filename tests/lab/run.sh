#!/bin/bash
# The libvirt driver on this machine, by `make lab`: its tests against a real libvirtd with the QEMU driver. Writes
# docs/lab/DATE.md: the machine, the versions, each test with what came of it. Devices under VFIO are not part of it; the page
# says whether the machine has an IOMMU.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

DATE=$(date -u +%F)
PAGE=docs/lab/$DATE.md
LOG=$(mktemp)
trap 'rm -f "$LOG"' EXIT

say() { printf 'lab: %s\n' "$*"; }

machine() {
    local cpu groups
    cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1)
    groups=$({ find /sys/kernel/iommu_groups -mindepth 1 -maxdepth 1 2>/dev/null || true; } | wc -l)
    printf 'On %s (%s cores), %s GiB, %s; ' "$cpu" "$(nproc)" "$(awk '/MemTotal/ {print int($2/1048576)}' /proc/meminfo)" \
        "$(uname -sr)"
    printf '%s; %s; %s IOMMU groups.\n' "$(libvirtd --version)" "$(qemu-system-x86_64 --version | head -n1)" "$groups"
}

say "the libvirt driver against libvirtd"
PASSED=0
cargo test -p berth-libvirt --test libvirtd 2>&1 | tee "$LOG" || PASSED=$?

if ! grep -q '^test .* \.\.\.' "$LOG"; then
    say "no test ran, so no page is written" >&2
    exit $((PASSED > 0 ? PASSED : 1))
fi
mkdir -p docs/lab
{
    printf '# Lab, %s\n\nWritten by `make lab`; do not edit. Commit %s. ' "$DATE" "$(git describe --always --dirty --abbrev=12)"
    machine
    printf '\n`cargo test -p berth-libvirt --test libvirtd`, exit code %s:\n' "$PASSED"
    printf '\n| test | result |\n| --- | --- |\n'
    awk '$1 == "test" && $3 == "..." { gsub(/_/, " ", $2); print "| " $2 " | " $4 " |" }' "$LOG"
} >"$PAGE"
say "written to $PAGE"
exit "$PASSED"
