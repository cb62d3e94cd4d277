#!/bin/bash
# What `make run` shows once berth is built: this host's provider tree, an upgrade with running guests, a guest with a device
# from a device profile to its end, then a node that stays up until Ctrl-C (ONCE=1: ends after the show). Keeps its state in the
# build folder, nothing outside it.
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

# The processes that were started here, and no others.
finish() {
    [ -z "$node" ] || kill "$node" 2>/dev/null || true
    [ -z "$libvirtd" ] || kill "$libvirtd" 2>/dev/null || true
}

# A machine with accelerators out of a file: its devices are offered, one is bound for a guest, the guest runs and is deleted.
guest_story() {
    local place=$home/guest on log up
    rm -rf "$place"
    mkdir -p "$place/images"
    log=$place/log
    # The kernel this host has stands for any; a fake machine only looks whether it is there.
    printf 'a kernel\n' >"$place/images/vmlinuz"
    on=(env -i "PATH=$PATH" BERTH__IMAGE_CACHE__IMAGE_DIRECTORIES="$place/images" BERTH__PERIODIC_FUZZY_DELAY=0
        BERTH__PLACEMENT_SERVICE__LISTEN=127.0.0.1:0 BERTH__ACCELERATOR_SERVICE__LISTEN=127.0.0.1:0
        BERTH__CONDUCTOR_SERVICE__LISTEN=127.0.0.1:0
        "$berth" --machine drivers/fake/machines/accelerators.toml --state-dir "$place/state")
    tell() {
        printf '\n$ berth %s\n' "$*"
        "${on[@]}" "$@"
    }
    printf '\n== a guest with a device: berth up on a machine out of a file (accelerators.toml), so no hardware is touched\n'
    "${on[@]}" up >"$log" 2>&1 &
    node=$!
    up=
    local _
    for _ in $(seq 300); do
        if "${on[@]}" agent status -f value -c plan 2>/dev/null | grep -q in_sync; then
            up=yes
            break
        fi
        kill -0 "$node" 2>/dev/null || break
        sleep 0.1
    done
    [ -n "$up" ] || fail "berth up did not come; its last words: $(tail -n 3 "$log")"
    tell device list
    tell accelerator profile create gpu --group resources:PGPU=1
    tell guest create job --vcpus 2 --ram 512 --kernel "$place/images/vmlinuz" --device-profile gpu --wait
    tell guest show job
    tell accelerator request list
    tell device list
    tell guest delete job --wait
    tell accelerator request list
    tell reconcile --dry-run
    kill "$node"
    wait "$node" || fail "berth up did not end well; its last words: $(tail -n 3 "$log")"
    node=
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
    packaging/scripts/libvirtd.sh "$home/libvirtd" "$home/libvirt-cache" >"$home/libvirtd.log" 2>&1 &
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
trap finish EXIT
[ -n "${BERTH__LIBVIRT__CONNECTION_URI:-}" ] || connect
export BERTH__STATE_PATH=${BERTH__STATE_PATH:-$home/state}
export BERTH__AGENT__ADMIN_SOCKET=${BERTH__AGENT__ADMIN_SOCKET:-$home/agent.sock}
# Guests' disks would stand here: its file system's size is the host's DISK_GB.
export BERTH__INSTANCES_PATH=${BERTH__INSTANCES_PATH:-$home/instances}
mkdir -p "$BERTH__STATE_PATH" "$BERTH__INSTANCES_PATH"
# What another terminal needs to ask the node that stays up.
env_file=$home/env
declare -px | grep -E ' BERTH__[A-Z_]+=' >"$env_file"
"$berth" "${show[@]}" --once
guest_story
[ -z "${ONCE:-}" ] && [ "${#show[@]}" = 1 ] || exit 0
printf '\n== this host stays up as a node; Ctrl-C ends it\n'
echo "run: to ask this node from another terminal, first:  . ${env_file#"$PWD"/}"
"$berth" up
