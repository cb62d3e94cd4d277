#!/bin/bash
# A host with two graphics cards, and a third that is parted into mediated devices, that this machine does not have: files that
# a command sees as /sys. For the demonstration and for tests; no hardware is looked at or touched. libvirtd (libvirtd.sh) and
# berth run in it as on any host.
#
# Usage:  card-host.sh make DIR                      what is not there yet
#         card-host.sh add-vgpu DIR                  one more card, for tests of vGPU types; before `kernel` and `run`
#         card-host.sh kernel DIR                    plays the kernel's part until it is killed: who is bound to which driver,
#                                                    and which mediated devices there are
#         card-host.sh run DIR COMMAND [ARGUMENT...] runs a command in it; ends with 69 where no mount namespace can be made
#
#   DIR/sys         what /sys shows, with this machine's own CPUs and memory. The cards rest on no driver, each alone in its
#                   IOMMU group. Two are 1234:1111; the third, 1234:1112, makes up to sixteen mediated devices of type virt-1. That
#                   of `add-vgpu`, 10de:2235, has up to two virtual functions (sriov_numvfs) on vfio-pci, which take the vGPU
#                   type 558 (nvidia/current_vgpu_type) as those of NVIDIA's driver do
#   DIR/emulator    QEMU for guests with such a card ([libvirt] emulator): where VFIO would hand in the card stands QEMU's own
#                   display device with the same ids, in the slot that libvirt chose
set -eu

CARDS="0000:81:00.0=12 0000:82:00.0=13"
PARENT=0000:83:00.0
MDEV_TYPE=virt-1
# The IOMMU groups that mediated devices get.
MDEV_GROUPS="20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35"
PHYSICAL=0000:84:00.0=40
FUNCTIONS="0000:84:00.4=41 0000:84:00.5=42"

fail() {
    printf 'card-host: %s\n' "$*" >&2
    exit 1
}

# One card: what libvirt, libudev and berth look for in a PCI function's directory.
write_card() {
    local sys=$1 address=$2 group=$3 vendor=${4%:*} product=${4#*:}
    local at=$sys/devices/pci0000:80/$address
    mkdir -p "$at" "$sys/kernel/iommu_groups/$group/devices"
    echo "0x$vendor" >"$at/vendor"
    echo "0x$product" >"$at/device"
    echo 0x038000 >"$at/class"
    echo 0 >"$at/numa_node"
    echo 0 >"$at/enable"
    echo '(null)' >"$at/driver_override"
    : >"$at/reset"
    echo 'flr bus' >"$at/reset_method"
    printf 'PCI_CLASS=38000\nPCI_ID=%s\nPCI_SUBSYS_ID=1234:0001\nPCI_SLOT_NAME=%s\n' "$4" "$address" >"$at/uevent"
    # 256 bytes: the ids, and PCI Express with a function level reset as the only capability.
    head -c 256 /dev/zero >"$at/config"
    patch_byte "$at/config" 0 "\\x${vendor:2}\\x${vendor:0:2}\\x${product:2}\\x${product:0:2}"
    patch_byte "$at/config" 6 '\x10'
    patch_byte "$at/config" 52 '\x40'
    patch_byte "$at/config" 64 '\x10'
    patch_byte "$at/config" 71 '\x10'
    ln -s ../../../bus/pci "$at/subsystem"
    ln -s "../../../kernel/iommu_groups/$group" "$at/iommu_group"
    ln -s "../../../devices/pci0000:80/$address" "$sys/bus/pci/devices/$address"
    ln -s "../../../../devices/pci0000:80/$address" "$sys/kernel/iommu_groups/$group/devices/$address"
}

patch_byte() {
    # shellcheck disable=SC2059 # the bytes are the format
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# The card that is parted.
write_parent() {
    local sys=$1 group
    local at=$sys/devices/pci0000:80/$PARENT
    local kind=$at/mdev_supported_types/$MDEV_TYPE
    write_card "$sys" "$PARENT" 14 1234:1112
    mkdir -p "$kind" "$sys"/bus/mdev/devices "$sys/class/mdev_bus"
    echo 'Card part' >"$kind/name"
    echo vfio-pci >"$kind/device_api"
    wc -w <<<"$MDEV_GROUPS" >"$kind/available_instances"
    mkfifo "$kind/create"
    ln -s "../../devices/pci0000:80/$PARENT" "$sys/class/mdev_bus/$PARENT"
    for group in $MDEV_GROUPS; do mkdir -p "$sys/kernel/iommu_groups/$group/devices"; done
}

# The card with virtual functions. Each of them has an IOMMU group, whose device file is there from the beginning.
add_vgpu() {
    local sys=$DIR/sys function
    local at=$sys/devices/pci0000:80/${PHYSICAL%=*}
    for function in $FUNCTIONS; do mkdir -p "$sys/kernel/iommu_groups/${function#*=}/devices"; done
    mkdir -p "$at"
    wc -w <<<"$FUNCTIONS" >"$at/sriov_totalvfs"
    echo 0 >"$at/sriov_numvfs"
    write_card "$sys" "${PHYSICAL%=*}" "${PHYSICAL#*=}" 10de:2235
}

write_tree() {
    local sys=$1 card
    mkdir -p "$sys"/bus/pci/{devices,drivers/vfio-pci} "$sys/devices/system" "$sys/class"
    mkfifo "$sys/bus/pci/drivers_probe" "$sys"/bus/pci/drivers/vfio-pci/{bind,unbind}
    for card in $CARDS; do
        write_card "$sys" "${card%=*}" "${card#*=}" 1234:1111
    done
    write_parent "$sys"
}

# libvirt remembers what it learnt of an emulator by its path and its time: it is written once.
write_emulator() {
    local qemu
    qemu=$(command -v qemu-system-x86_64) || fail "qemu-system-x86_64 is not installed; on Debian: packaging/scripts/need.sh node"
    cat >"$1.$$" <<EMULATOR
#!/bin/bash
arguments=()
for argument; do
    case \$argument in
    '{"driver":"vfio-pci"'*)
        argument=\$(sed -E 's/"driver":"vfio-pci"/"driver":"secondary-vga"/; s/,"(host|sysfsdev|display|ramfb)":("[^"]*"|[a-z]+)//g' <<<"\$argument")
        ;;
    esac
    arguments+=("\$argument")
done
exec $qemu "\${arguments[@]}"
EMULATOR
    chmod 0755 "$1.$$"
    mv "$1.$$" "$1"
}

# What a command's own libc says in this host: a write below /sys has been acted on when it comes back, as the kernel's have. And a
# guest with a VFIO device may lock its memory: a root that may not allow that (in a container) says it did, since these cards
# lock none.
write_libc() {
    cat >"$1.$$.c" <<'LIBC'
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MEMLOCK = 8, LOOKS = 5000 };

/* How often the cards' kernel has looked at everything; less than 0 while it writes the number. */
static long looks(void)
{
    char text[24] = "";
    int file = open("/sys/looks", O_RDONLY | O_CLOEXEC);
    long length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    return length > 0 && text[length - 1] == '\n' ? atol(text) : -1;
}

static long looks_now(int *patience)
{
    const struct timespec moment = {0, 2000000};
    long now;
    while ((now = looks()) < 0 && --*patience > 0)
        nanosleep(&moment, NULL);
    return now;
}

static void wait_until_done(int file)
{
    char link[40], path[64] = "";
    const struct timespec moment = {0, 2000000};
    int patience = LOOKS;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) < 5 || strncmp(path, "/sys/", 5) != 0)
        return;
    /* The look that goes on may have passed this file; the one after it has not. */
    for (long first = looks_now(&patience); first >= 0 && --patience > 0 && looks_now(&patience) < first + 2;)
        nanosleep(&moment, NULL);
}

ssize_t write(int file, const void *bytes, size_t length)
{
    ssize_t written = syscall(SYS_write, file, bytes, length);
    if (written > 0) {
        int error = errno;
        wait_until_done(file);
        errno = error;
    }
    return written;
}

int prlimit64(int process, int limit, const void *wanted, void *found)
{
    if (getenv("CARD_HOST_LOCKS_NOTHING") && limit == MEMLOCK && wanted != 0)
        return 0;
    return (int)syscall(SYS_prlimit64, process, limit, wanted, found);
}

int prlimit(int process, int limit, const void *wanted, void *found)
{
    return prlimit64(process, limit, wanted, found);
}
LIBC
    cc -O1 -shared -fPIC -o "$1.$$" "$1.$$.c" || fail "cc is missing; on Debian: packaging/scripts/need.sh build"
    rm "$1.$$.c"
    mv "$1.$$" "$1"
}

make() {
    mkdir -p "$DIR/dev"
    if [ ! -d "$DIR/sys" ]; then
        write_tree "$DIR/sys.$$"
        # Another may have been first.
        mv -T "$DIR/sys.$$" "$DIR/sys" 2>/dev/null || rm -rf "$DIR/sys.$$"
    fi
    [ -x "$DIR/emulator" ] || write_emulator "$DIR/emulator"
    [ -s "$DIR/libc.so" ] || write_libc "$DIR/libc.so"
}

# The words of a pattern written to one of the kernel's files since the last look. What is cut short is taken with the rest.
written() {
    local -n held=$1
    local char
    # Never with a time limit: one that ends in the midst of a character loses it.
    while read -r -t 0 -u "$2" && IFS= read -r -N 1 -u "$2" char; do
        held+=$char
    done
    words=
    while [[ $held =~ $3 ]]; do
        words+="${BASH_REMATCH[0]} "
        held=${held#*"${BASH_REMATCH[0]}"}
    done
}

is_for_vfio() {
    local first=
    read -r first <"$pci/devices/$1/driver_override" || true
    [ "$first" = vfio-pci ]
}

take_off_vfio() {
    echo "vfio-pci has $1 no more"
    rm -f "$pci/drivers/vfio-pci/$1" "$pci/devices/$1/driver"
}

put_on_vfio() {
    local at=$pci/devices/$1
    [ -d "$at" ] && [ ! -e "$at/driver" ] || return 0
    echo "vfio-pci has $1"
    ln -sn ../../../bus/pci/drivers/vfio-pci "$at/driver"
    ln -sn "../../../../devices/pci0000:80/$1" "$pci/drivers/vfio-pci/$1"
}

# One write, as readers of the kernel's files see it.
put_count() {
    echo "$2" >"$1.next"
    mv "$1.next" "$1"
}

make_mdev() {
    local uuid=$1 group member free=
    [ ! -e "$mdevs/$uuid" ] || return 0
    for group in $MDEV_GROUPS; do
        for member in "$DIR/sys/kernel/iommu_groups/$group/devices"/*; do
            [ -L "$member" ] || free=$group
        done
        [ -z "$free" ] || break
    done
    [ -n "$free" ] || return 0
    echo "mdev $uuid in group $free"
    mkdir "$parent/$uuid"
    : >"$parent/$uuid/remove"
    : >"$parent/$uuid/uevent"
    ln -s "../mdev_supported_types/$MDEV_TYPE" "$parent/$uuid/mdev_type"
    ln -s ../../../../bus/mdev "$parent/$uuid/subsystem"
    ln -s "../../../../kernel/iommu_groups/$free" "$parent/$uuid/iommu_group"
    ln -s "../../../../devices/pci0000:80/$PARENT/$uuid" "$DIR/sys/kernel/iommu_groups/$free/devices/$uuid"
    put_count "$kind/available_instances" $(($(<"$kind/available_instances") - 1))
    ln -s "../../../devices/pci0000:80/$PARENT/$uuid" "$mdevs/$uuid"
}

remove_mdev() {
    local uuid=$1
    echo "no mdev $uuid"
    rm -f "$mdevs/$uuid" "$DIR"/sys/kernel/iommu_groups/*/devices/"$uuid"
    rm -rf "${parent:?}/$uuid"
    put_count "$kind/available_instances" $(($(<"$kind/available_instances") + 1))
}

add_function() {
    local at=$DIR/sys/devices/pci0000:80/$1
    echo "virtual function $1"
    mkdir -p "$at/nvidia"
    printf 'ID    : vGPU Name\n558   : NVIDIA A40-2Q\n' >"$at/nvidia/creatable_vgpu_types"
    echo 0 >"$at/nvidia/current_vgpu_type"
    ln -s "../${physical##*/}" "$at/physfn"
    write_card "$DIR/sys" "$1" "$2" 10de:2235
    put_on_vfio "$1"
    ln -s "../$1" "$physical/virtfn$3"
}

remove_function() {
    echo "no virtual function $1"
    rm -f "$physical/virtfn$3" "$pci/devices/$1" "$pci/drivers/vfio-pci/$1" "$DIR/sys/kernel/iommu_groups/$2/devices/$1"
    rm -rf "$DIR/sys/devices/pci0000:80/$1"
}

# As many as sriov_numvfs says.
put_functions() {
    local wanted='' one number=0
    read -r wanted <"$physical/sriov_numvfs" || true
    # A file without a number is about to be written.
    [ -n "$wanted" ] || return 0
    for one in $FUNCTIONS; do
        if [ "$number" -lt "$wanted" ]; then
            [ -e "$physical/virtfn$number" ] || add_function "${one%=*}" "${one#*=}" "$number"
        else
            [ ! -e "$physical/virtfn$number" ] || remove_function "${one%=*}" "${one#*=}" "$number"
        fi
        number=$((number + 1))
    done
}

# Everything that is written to the files is known before the first of it is done: whoever asks for a probe has asked for the
# unbind before.
kernel() {
    local pci=$DIR/sys/bus/pci mdevs=$DIR/sys/bus/mdev/devices parent=$DIR/sys/devices/pci0000:80/$PARENT
    local kind=$parent/mdev_supported_types/$MDEV_TYPE physical=$DIR/sys/devices/pci0000:80/${PHYSICAL%=*}
    local address='[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]' uuid='[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
    local words probed bound one at first looks=0
    local asked_probe='' asked_bind='' asked_unbind='' asked_create=''
    # Opened both ways, so that no writer waits and none is missed.
    exec 3<>"$pci/drivers_probe" 4<>"$pci/drivers/vfio-pci/bind" 5<>"$pci/drivers/vfio-pci/unbind" 6<>"$kind/create"
    # Nobody writes here: a pause without a process for it.
    mkfifo "$DIR/never.$$"
    exec 7<>"$DIR/never.$$"
    rm "$DIR/never.$$"
    while :; do
        read -r -t 0.02 -u 7 || true
        written asked_probe 3 "$address"
        probed=$words
        written asked_bind 4 "$address"
        bound=$words
        written asked_create 6 "$uuid"
        for one in $words; do make_mdev "$one"; done
        written asked_unbind 5 "$address"
        for one in $words; do take_off_vfio "$one"; done
        for one in $bound; do put_on_vfio "$one"; done
        for at in "$pci"/devices/*; do
            # A line end alone takes the reservation back. A file without one is about to be written.
            if IFS= read -r first <"$at/driver_override" && [ -z "$first" ]; then
                echo '(null)' >"$at/driver_override"
            fi
        done
        for one in $probed; do
            ! is_for_vfio "$one" || put_on_vfio "$one"
            # Whoever took it back meanwhile saw no driver yet that it could be unbound from.
            is_for_vfio "$one" || [ ! -L "$pci/devices/$one/driver" ] || take_off_vfio "$one"
        done
        for at in "$mdevs"/*; do
            [ ! -s "$at/remove" ] || remove_mdev "${at##*/}"
        done
        [ ! -e "$physical" ] || put_functions
        looks=$((looks + 1))
        echo "$looks" >"$DIR/sys/looks"
    done
}

inside() {
    local node group
    mount --rbind /sys/devices/system "$DIR/sys/devices/system"
    mount -t tmpfs dev "$DIR/dev"
    # Not kvm: such a card is only emulated.
    for node in null zero full random urandom tty; do cp -a "/dev/$node" "$DIR/dev"; done
    mkdir "$DIR/dev/pts" "$DIR/dev/shm" "$DIR/dev/vfio" "$DIR/dev/net"
    [ ! -e /dev/net/tun ] || cp -a /dev/net/tun "$DIR/dev/net"
    mount --rbind /dev/pts "$DIR/dev/pts"
    ln -s pts/ptmx "$DIR/dev/ptmx"
    ln -s /proc/self/fd "$DIR/dev/fd"
    touch "$DIR/dev/vfio/vfio"
    for group in "$DIR"/sys/kernel/iommu_groups/*; do touch "$DIR/dev/vfio/${group##*/}"; done
    mount --rbind "$DIR/sys" /sys
    mount --rbind "$DIR/dev" /dev
    # Else libudev refuses a /sys that is none of the kernel's.
    export SYSTEMD_DEVICE_VERIFY_SYSFS=0
    prlimit --memlock=unlimited:unlimited true 2>/dev/null || export CARD_HOST_LOCKS_NOTHING=1
    export LD_PRELOAD=$DIR/libc.so
    exec "$@"
}

[ "$#" -ge 2 ] || fail "usage: card-host.sh make|add-vgpu|kernel|run DIR [COMMAND...]"
verb=$1
DIR=$(realpath -m "$2")
shift 2
[ "$(id -u)" = 0 ] || fail "must run as root"
case $verb in
make) make ;;
add-vgpu) add_vgpu ;;
kernel)
    make
    kernel
    ;;
run)
    if ! words=$(unshare --mount true 2>&1); then
        echo "card-host: another /sys needs a mount namespace of its own, and none can be made here (a container without CAP_SYS_ADMIN, or a chroot that is no mount point): $words" >&2
        exit 69
    fi
    make
    exec unshare --mount --propagation private -- "$0" inside "$DIR" "$@"
    ;;
inside) inside "$@" ;;
*) fail "there is no '$verb'; usage: card-host.sh make|add-vgpu|kernel|run DIR [COMMAND...]" ;;
esac
