#!/bin/bash
# The laboratory, by `make lab`: the libvirt driver's tests against a real libvirtd on this machine; then a virtual host with an
# IOMMU, whose devices go to guests through VFIO, and one under systemd with the package installed. Writes docs/lab/DATE.md: the
# machine, the versions, each sentence with what came of it.
#
# Environment: VISITS (which of tests/lab/host, default all), BERTH_PROGRAM (a program that is built already).
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

DATE=$(date -u +%F)
PAGE=docs/lab/$DATE.md
# Before the page of an earlier run of today is overwritten, which is a change, too.
COMMIT=$(git describe --always --dirty --abbrev=12)
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

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
VISITS=${VISITS-devices ports power_cycle systemd}

say "the libvirt driver against libvirtd"
PASSED=0
cargo test -p berth-libvirt --test libvirtd 2>&1 | tee "$LOG" || PASSED=$?

if ! grep -q '^test .* \.\.\.' "$LOG"; then
    say "no test ran, so no page is written" >&2
    exit $((PASSED > 0 ? PASSED : 1))
fi
mkdir -p docs/lab
{
    printf '# Lab, %s\n\nWritten by `make lab`; do not edit. Commit %s. ' "$DATE" "$COMMIT"
    machine
    printf '\n`cargo test -p berth-libvirt --test libvirtd`, exit code %s:\n' "$PASSED"
    printf '\n| test | result |\n| --- | --- |\n'
    awk '$1 == "test" && $3 == "..." { gsub(/_/, " ", $2); print "| " $2 " | " $4 " |" }' "$LOG"
} >"$PAGE"

if [ -n "$VISITS" ]; then
    tests/lab/build.sh "$target/lab"
    packaging/scripts/guest-image.sh "$target/guest-image"
    program=${BERTH_PROGRAM:-$target/debug/berth}
    [ -n "${BERTH_PROGRAM:-}" ] || cargo build -p berth-cli
    BERTH_PROGRAM=$program packaging/scripts/deb.sh "$target/deb"
    cp "$target"/deb/berth_*.deb "$target/deb/berth.deb"
fi
for visit in $VISITS; do
    say "a visit to the virtual host: $visit"
    init=/lab-init
    [ "$visit" != systemd ] || init=/lib/systemd/systemd
    started=$SECONDS
    status=0
    INIT=$init LAB=$target/lab tests/lab/visit.sh "$visit" "$target/deb/berth.deb" drivers/fake/machines/eight-gpu-flat.toml \
        "$target/guest-image" packaging | tee "$LOG" || status=$?
    [ "$status" = 0 ] || PASSED=$status
    {
        printf '\nThe virtual host, visit `%s` (%s s, exit code %s):\n' "$visit" $((SECONDS - started)) "$status"
        printf '\n| second | what must hold | result |\n| --- | --- | --- |\n'
        awk '$1 == "LAB" && ($3 == "ok" || $3 == "FAILED") { result = $3; second = $2; $1 = $2 = $3 = ""; sub(/^ +/, ""); sub(/: .*/, ""); print "| " second " | " $0 " | " result " |" }' "$LOG"
    } >>"$PAGE"
done
whole="$((SECONDS / 60)) min $((SECONDS % 60)) s"
printf '\nAll of it took %s.\n' "$whole" >>"$PAGE"
say "all of it took $whole; written to $PAGE"
exit "$PASSED"
