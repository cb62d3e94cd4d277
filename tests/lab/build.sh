#!/bin/bash
# Builds the laboratory: a virtual host with an IOMMU, SR-IOV cards and a card with mediated devices, all emulated, from
# Debian's packages alone. What is already built stays; a change of this script or a newer kernel builds it again.
#
# Usage:  build.sh FOLDER          (FOLDER: about 2 GB, usually target/lab)
#
#   FOLDER/vmlinuz, initrd.gz     Debian's generic kernel (its cloud kernel has neither mediated devices nor igb)
#   FOLDER/host.ext4              the host's root: libvirt, QEMU, mdevctl, the kernel's modules
#   FOLDER/qemu                   the emulator that the host runs in: a newer one, for its igb card (from backports)
#
# Called by tests/lab/run.sh.
set -eu -o pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

TOOLS="mmdebstrap e2fsprogs cpio kmod gcc make xz-utils libc6-dev busybox-static"
HOST_PACKAGES="libvirt-daemon-system,libvirt-daemon-driver-qemu,libvirt-clients,qemu-system-x86,qemu-utils,mdevctl,kmod,pciutils,iproute2,udev,procps,curl,python3-minimal,busybox-static,systemd,systemd-sysv,dbus,openvswitch-switch"
# The host's own devices, and how guests get them.
MODULES="vfio-pci vfio_iommu_type1 mdev igb igbvf nvme e1000e virtio_net virtio_pci virtio_blk ext4 9p 9pnet_virtio tun bridge
kvm-amd overlay isofs vfat nls_iso8859-1 nls_ascii nls_cp437 openvswitch macvtap"
# What ebtables and iptables of Debian (nftables behind) load for libvirt's network filters, and for its networks.
FILTER_MODULES="nf_tables nft_compat nft_chain_nat nft_ct nft_limit nft_log nft_masq nft_meta_bridge nft_reject_bridge
nft_reject_ipv4 nft_reject_ipv6 nf_conntrack_bridge nf_log_syslog br_netfilter
ebt_802_3 ebt_among ebt_arp ebt_arpreply ebt_dnat ebt_ip ebt_ip6 ebt_limit ebt_log ebt_mark ebt_mark_m ebt_nflog ebt_pkttype
ebt_redirect ebt_snat ebt_stp ebt_vlan
xt_CHECKSUM xt_MASQUERADE xt_comment xt_connlimit xt_conntrack xt_mac xt_mark xt_multiport xt_physdev xt_set xt_state xt_tcpudp"
BOOT_MODULES="virtio_pci virtio_blk ext4 crc32c_generic"

say() { printf 'lab: %s\n' "$*"; }
fail() {
    printf 'lab: %s\n' "$*" >&2
    exit 1
}

# The generic kernel of this release, by its full name.
kernel_version() {
    apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ { sub("linux-image-", "", $2); print $2; exit }'
}

install_tools() {
    local package lacking=""
    for package in $TOOLS "linux-headers-$1"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || lacking="$lacking $package"
    done
    [ -n "$lacking" ] || return 0
    say "installing$lacking"
    # shellcheck disable=SC2086 # a list of words
    apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 install $lacking >/dev/null ||
        fail "apt-get could not install$lacking"
}

# This system's own sources, as one-line entries that also name backports.
sources() {
    local mirror
    mirror=$(apt-get indextargets --format '$(RELEASE)/$(COMPONENT) $(REPO_URI)' | awk '$1 == "bookworm/main" { print $2; exit }')
    [ -n "$mirror" ] || fail "no apt source of bookworm/main is known here"
    printf 'deb %s bookworm main\n' "$mirror"
    [ "${1:-}" != backports ] || printf 'deb %s bookworm-backports main\n' "$mirror"
}

# The emulator and all it is linked to, unpacked only: it runs from here, and nothing of this system changes.
emulator() {
    rm -rf "$1/qemu" "$1/qemu.new"
    sources backports >"$1/backports.list"
    mmdebstrap --quiet --mode=root --format=directory --variant=extract --aptopt='Acquire::Languages "none"' \
        --aptopt='APT::Default-Release "bookworm-backports"' --include=qemu-system-x86,qemu-system-data,seabios \
        bookworm "$1/qemu.new" "$1/backports.list" || fail "the emulator could not be fetched from bookworm-backports"
    mv "$1/qemu.new" "$1/qemu"
}

# The kernel's sample driver for mediated devices, twice: with a parent of its own, and with a PCI function for a parent as a
# GPU has it.
mdev_modules() {
    local folder=$1 version=$2 work
    work=$(mktemp -d)
    (cd "$work" && apt-get -qq download linux-source-6.1 2>/dev/null && dpkg-deb -x linux-source-6.1_*.deb source)
    tar -xJf "$work"/source/usr/src/linux-source-6.1.tar.xz -C "$work" --wildcards '*/samples/vfio-mdev/mtty.c' --strip-components=3
    sed -e 's/mdev_register_parent(&mtty_dev.parent, &mtty_dev.dev,/mdev_register_parent(\&mtty_dev.parent, \&pci_get_device(0x1234, 0x11e8, NULL)->dev,/' \
        -e 's/#include <linux\/module.h>/#include <linux\/module.h>\n#include <linux\/pci.h>/' \
        -e 's/MTTY_CLASS_NAME\t.*/MTTY_CLASS_NAME "mttypci"/; s/#define MTTY_NAME .*/#define MTTY_NAME "mttypci"/' \
        "$work/mtty.c" >"$work/mttypci.c"
    echo 'obj-m := mtty.o mttypci.o' >"$work/Makefile"
    make -s -C "/lib/modules/$version/build" M="$work" modules >/dev/null
    mkdir -p "$folder/modules"
    cp "$work"/*.ko "$folder/modules/"
    rm -rf "$work"
}

# Paths of modules and of what they need, in the order of loading.
closure() {
    local tree=$1 version=$2 name
    shift 2
    for name; do
        modprobe -d "$tree" -S "$version" --show-depends "$name" 2>/dev/null | awk '$1 == "insmod" { print $2 }'
    done | awk '!seen[$0]++'
}

initrd() {
    local folder=$1 version=$2 root file
    root=$(mktemp -d)
    mkdir -p "$root"/{bin,proc,sys,dev,new,modules}
    cp "$(command -v busybox)" "$root/bin/busybox"
    # shellcheck disable=SC2086 # a list of words
    closure "$folder/kernel" "$version" $BOOT_MODULES | while read -r file; do
        cp "$file" "$root/modules/"
        basename "$file" >>"$root/modules/order"
    done
    cat >"$root/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod "/modules/$module" 2>/dev/null; done </modules/order
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -b /dev/vda ] && break
    $b sleep 0.2
done
$b mount -t ext4 /dev/vda /new || exec $b sh
init=/lab-init
for word in $($b cat /proc/cmdline); do
    case $word in labinit=*) init=${word#labinit=} ;; esac
done
$b umount /sys /dev /proc
exec $b switch_root /new "$init"
INIT
    chmod 0755 "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$folder/initrd.gz"
    rm -rf "$root"
}

# The host's root as a file system, without mounting anything.
host() {
    local folder=$1 version=$2 root=$1/host modules file
    rm -rf "$root"
    sources >"$folder/sources.list"
    mmdebstrap --quiet --mode=root --format=directory --variant=minbase --aptopt='Acquire::Languages "none"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --include="$HOST_PACKAGES${LAB_INCLUDE:+,$LAB_INCLUDE}" \
        bookworm "$root" "$folder/sources.list" || fail "the host's root could not be made"
    modules=$root/lib/modules/$version
    mkdir -p "$modules/kernel"
    # shellcheck disable=SC2086 # a list of words
    closure "$folder/kernel" "$version" $MODULES $FILTER_MODULES | while read -r file; do
        install -D -m 0644 "$file" "$modules/${file#*"/lib/modules/$version/"}"
    done
    install -m 0644 "$folder"/kernel/lib/modules/"$version"/modules.{builtin,builtin.modinfo,order} "$modules/"
    install -D -m 0644 -t "$modules/extra" "$folder"/modules/*.ko
    depmod -b "$root" "$version"
    install -m 0755 "$HERE/init" "$root/lab-init"
    mkdir -p "$root/share" "$root/keep"
    # The same under systemd, for those who boot with INIT=/lib/systemd/systemd.
    install -D -m 0644 "$HERE/lab.service" "$root/etc/systemd/system/lab.service"
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
    ln -sf ../lab.service "$root/etc/systemd/system/multi-user.target.wants/lab.service"
    install -m 0755 "$HERE/service" "$root/lab-service"
    truncate -s 1600M "$folder/host.ext4.new"
    mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1,nodiscard -m 0 -d "$root" "$folder/host.ext4.new"
    mv "$folder/host.ext4.new" "$folder/host.ext4"
    rm -rf "$root"
}

main() {
    [ $# = 1 ] || fail "give one folder, for example: build.sh target/lab"
    [ "$(id -u)" = 0 ] || fail "only root can build it (mmdebstrap)"
    mkdir -p "$1"
    local folder version stamp started=$SECONDS
    folder=$(realpath "$1")
    version=$(kernel_version)
    [ -n "$version" ] || fail "apt knows no package linux-image-amd64: does it know Debian's main archive?"
    stamp="$version $(cat "$HERE"/{build.sh,init,service,lab.service} | sha256sum | cut -d' ' -f1) ${LAB_INCLUDE:-}"
    [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ] || return 0
    say "building the host's image in $1 (kernel $version; two to five minutes, kept afterwards)"
    rm -f "$folder/stamp"
    install_tools "$version"
    local work
    work=$(mktemp -d)
    (cd "$work" && apt-get -qq download "linux-image-$version" 2>/dev/null) || fail "apt-get cannot download linux-image-$version"
    rm -rf "$folder/kernel"
    dpkg-deb -x "$work"/linux-image-*.deb "$folder/kernel"
    rm -rf "$work"
    depmod -b "$folder/kernel" "$version"
    cp "$folder/kernel/boot/vmlinuz-$version" "$folder/vmlinuz"
    say "kernel ($((SECONDS - started)) s); the sample drivers for mediated devices"
    mdev_modules "$folder" "$version"
    say "drivers ($((SECONDS - started)) s); the emulator"
    emulator "$folder"
    say "emulator ($((SECONDS - started)) s); the host's root"
    initrd "$folder" "$version"
    host "$folder" "$version"
    rm -rf "$folder/kernel"
    echo "$stamp" >"$folder/stamp"
    say "built in $((SECONDS - started)) s: $(du -sh "$folder" | cut -f1)"
}

main "$@"
