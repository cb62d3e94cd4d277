#!/bin/bash
# Boots the laboratory's host under emulation and ends with the status of what it was told to do.
#
# Usage:  boot.sh FOLDER SHARE
#
#   FOLDER   what build.sh made
#   SHARE    a folder that the host sees as /share: SHARE/host.sh is what it does; the console is written to SHARE/console.log
#
# Environment: LIMIT (seconds for all of it, 1800), KEEP (a disk image that outlives a power-cycle, /keep in the host), INIT (the
# host's first process; systemd is /lib/systemd/systemd, else a script that mounts what is needed).
#
# The machine: two NUMA cells; on cell 0 two `edu` cards and a test card on the root bus, an igb card and an NVMe drive with
# virtual functions behind root ports; on cell 1 a network card and a second igb card.
set -eu
FOLDER=$(realpath "${1:?usage: boot.sh FOLDER SHARE}")
SHARE=$(realpath "${2:?usage: boot.sh FOLDER SHARE}")
QEMU=$FOLDER/qemu
CONSOLE=$SHARE/console.log
MEMORY=${MEMORY:-4096}
rm -f "$SHARE/status"

libraries=$QEMU/lib/x86_64-linux-gnu:$QEMU/usr/lib/x86_64-linux-gnu:$QEMU/usr/lib/x86_64-linux-gnu/pulseaudio
emulator=("$QEMU/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" "$QEMU/usr/bin/qemu-system-x86_64")
[ -x "${emulator[0]}" ] || emulator[0]=$QEMU/lib64/ld-linux-x86-64.so.2
export QEMU_MODULE_DIR=$QEMU/usr/lib/x86_64-linux-gnu/qemu

half=$((MEMORY / 2))
machine=(
    -L "$QEMU/usr/share/qemu" -L "$QEMU/usr/share/seabios"
    -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m "$MEMORY"
    -object "memory-backend-ram,id=m0,size=${half}M" -object "memory-backend-ram,id=m1,size=${half}M"
    -numa node,nodeid=0,memdev=m0,cpus=0 -numa node,nodeid=1,memdev=m1,cpus=1
    -nodefaults -display none -serial "file:$CONSOLE"
    -device intel-iommu,intremap=on
    -drive "file=$FOLDER/host.ext4,if=none,id=root,format=raw,snapshot=on"
    -device virtio-blk-pci,drive=root,bus=pcie.0,addr=0x1b
    -fsdev "local,id=share,path=$SHARE,security_model=none"
    -device virtio-9p-pci,fsdev=share,mount_tag=share,bus=pcie.0,addr=0x1d
)
cards=(
    -device edu,id=edu0,bus=pcie.0,addr=0x10 -device edu,id=edu1,bus=pcie.0,addr=0x11
    -device pci-testdev,id=test0,bus=pcie.0,addr=0x12
    -device pcie-root-port,id=port1,chassis=1,slot=1,bus=pcie.0,addr=0x4
    -device igb,id=igb0,bus=port1,netdev=net1 -netdev user,id=net1,restrict=on
    -device pcie-root-port,id=port2,chassis=2,slot=2,bus=pcie.0,addr=0x5
    -device nvme-subsys,id=drives
    -device nvme,id=nvme0,bus=port2,serial=LABNVME0,subsys=drives,sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=16,msix_qsize=17
    -device pxb-pcie,id=cell1,bus_nr=128,numa_node=1,bus=pcie.0,addr=0x8
    -device pcie-root-port,id=port3,chassis=3,slot=3,bus=cell1
    -device e1000e,id=net0,bus=port3,netdev=net2 -netdev user,id=net2,restrict=on
    -device pcie-root-port,id=port4,chassis=4,slot=4,bus=cell1
    -device igb,id=igb1,bus=port4,netdev=net3 -netdev user,id=net3,restrict=on
)
[ -z "${KEEP:-}" ] || machine+=(-drive "file=$KEEP,if=none,id=keep,format=raw,cache=writethrough" -device virtio-blk-pci,drive=keep,bus=pcie.0,addr=0x1e)
# What the host writes to its second serial port goes to the emulator's monitor: so it pulls its own cards out and puts them back.
monitor=$(mktemp -d)
machine+=(
    -chardev "socket,id=monitor,path=$monitor/socket,server=on,wait=off" -mon chardev=monitor,mode=readline
    -chardev "socket,id=asked,path=$monitor/socket" -serial chardev:asked
)

pid=
finish() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    rm -rf "$monitor"
}
trap finish EXIT

# The emulator's processor time so far, in hundredths of a second.
spent() {
    local emulator
    emulator=$(pgrep -P "$pid") && awk '{ print $14 + $15 }' "/proc/$emulator/stat" 2>/dev/null || echo 0
}

# With interrupts remapped an emulated host now and then loses its timer while it boots: then it is started again. One that
# waits for what never comes does nothing; one that boots is never still for so long, however busy this machine is.
for attempt in 1 2 3 4; do
    : >"$CONSOLE"
    timeout "${LIMIT:-1800}" "${emulator[@]}" "${machine[@]}" "${cards[@]}" \
        -kernel "$FOLDER/vmlinuz" -initrd "$FOLDER/initrd.gz" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check intel_iommu=on iommu=nopt labinit=${INIT:-/lab-init}" </dev/null >"$SHARE/emulator.log" 2>&1 &
    pid=$!
    before=0
    for second in $(seq "${BOOT_LIMIT:-150}"); do
        grep -aq '^LAB .* share' "$CONSOLE" && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 1
        if [ $((second % 15)) = 0 ]; then
            now=$(spent)
            [ $((now - before)) -ge 50 ] || break
            before=$now
        fi
    done
    if grep -aq '^LAB .* share' "$CONSOLE"; then
        wait "$pid" || true
        break
    fi
    echo "lab: start $attempt did not reach the share$(head -c 300 "$SHARE/emulator.log" | sed 's/^/; the emulator: /')" >&2
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
done
pid=
if [ -f "$SHARE/status" ]; then
    exit "$(cat "$SHARE/status")"
fi
exit 124
