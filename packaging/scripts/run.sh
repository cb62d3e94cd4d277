#!/bin/bash
# What `make run` shows once berth is built: this host's provider tree, an upgrade with running guests, a guest with a device
# from a device profile to its end (guest-story.sh), whose node then stays up until Ctrl-C (ONCE=1: ends after the show); where
# libvirt cannot run, a machine out of a file instead. Keeps its state in the build folder, nothing outside it. What it started ends with it.
#
# Usage:  run.sh          (BERTH_PROGRAM: default target/debug/berth; BERTH__... configures berth as always)
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
berth=${BERTH_PROGRAM:-$target/debug/berth}
home=$target/run
libvirtd=
node=
show=(demo)

fail() {
    printf 'run: %s\n' "$*" >&2
    exit 1
}

answers() {
    virsh --quiet --connect "$1" version >/dev/null 2>&1
}

# A child in the background, so that a signal for this script is acted on at once; it ends with this script, however that ends.
start() {
    setpriv --pdeathsig TERM "$@" &
    node=$!
}

# Waits for the child; its exit status.
ended() {
    local status=0
    wait "$node" || status=$?
    node=
    return "$status"
}

# The processes that were started here, and no others; their end is awaited.
finish() {
    local child
    for child in "$node" "$libvirtd"; do
        [ -z "$child" ] || ! kill "$child" 2>/dev/null || wait "$child" 2>/dev/null || true
    done
}

# A host in service has its own libvirtd; where none runs (no systemd in a container), one is started by hand.
connect() {
    if answers qemu:///system; then
        echo "run: libvirtd answers on qemu:///system"
        return
    fi
    local socket=$home/libvirtd/sock/libvirt-sock
    local uri="qemu+unix:///system?socket=$socket"
    echo "run: no libvirtd runs here; starting one under ${home#"$PWD"/}/libvirtd"
    mkdir -p "$home"
    setpriv --pdeathsig TERM packaging/scripts/libvirtd.sh "$home/libvirtd" "$home/libvirt-cache" >"$home/libvirtd.log" 2>&1 9>&- &
    libvirtd=$!
    local _
    for _ in $(seq 300); do
        if answers "$uri"; then
            export BERTH__LIBVIRT__CONNECTION_URI=$uri
            return
        fi
        if ! kill -0 "$libvirtd" 2>/dev/null; then
            local status=0
            wait "$libvirtd" || status=$?
            libvirtd=
            [ "$status" = 69 ] || fail "libvirtd ended at once; its last words: $(tail -n 3 "$home/libvirtd.log")"
            echo "run: $(tail -n 1 "$home/libvirtd.log")"
            echo "run: so this host's own tree is left out; the upgrade of the eight-GPU machine needs no libvirt and follows"
            show+=(--skip-host)
            return
        fi
        sleep 0.1
    done
    fail "libvirtd did not answer within 30 seconds; see $home/libvirtd.log"
}

[ -x "$berth" ] || fail "$berth is missing; make run builds it first"
mkdir -p "$home"
exec 9>"$home/lock"
flock --nonblock 9 || fail "another make run is going on in ${home#"$PWD"/}; end it first"
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
[ -n "${BERTH__LIBVIRT__CONNECTION_URI:-}" ] || connect
# A machine out of a file is another node than this host.
state=$home/state
[ "${#show[@]}" = 1 ] || state=$home/machine
export BERTH__STATE_PATH=${BERTH__STATE_PATH:-$state}
export BERTH__AGENT__ADMIN_SOCKET=${BERTH__AGENT__ADMIN_SOCKET:-$home/agent.sock}
# Guests' disks would stand here: its file system's size is the host's DISK_GB.
export BERTH__INSTANCES_PATH=${BERTH__INSTANCES_PATH:-$home/instances}
mkdir -p "$BERTH__STATE_PATH" "$BERTH__INSTANCES_PATH"
start "$berth" "${show[@]}" --once 9>&-
ended || fail "the show did not end well (see above)"
stay=(stay)
[ -z "${ONCE:-}" ] || stay=()
start packaging/scripts/guest-story.sh "$home/guest" "${stay[@]}" 9>&-
ended || fail "the story of a guest did not end well (see above)"
echo
[ ! -s "$home/guest/no-network" ] || echo "run: left out: the guest had no address and no ssh login: $(cat "$home/guest/no-network")"
echo "run: everything worked: the resource providers, the upgrade with running guests, and a guest with a device to its end"
