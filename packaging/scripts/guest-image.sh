#!/bin/bash
# Makes a small guest to boot: Debian's cloud kernel and an initrd of busybox, alone and as a disk that starts by itself, from
# this system's own package mirror. Nothing is installed; a folder that is whole already is left as it is.
#
# Usage:  guest-image.sh FOLDER
#
#   FOLDER/vmlinuz       the kernel (about 8 MB)
#   FOLDER/initrd.gz     its initrd (about 4 MB)
#   FOLDER/disk.img      a disk with both and a boot loader, raw (32 MiB)
#   FOLDER/images.toml   that disk as the image "berth-guest", for [compute_service] images_file
#
# The guest says on its serial console which PCI devices it has, what its config drive says, and which addresses it gets by
# DHCP. The SSH keys of its config drive may log in as root. Then it carries out the commands that are typed on the console;
# its power button ends it. `berth guest create --kernel FOLDER/vmlinuz --ramdisk FOLDER/initrd.gz` boots it.
set -eu -o pipefail
export LC_ALL=C

SCRIPT=$(realpath "${BASH_SOURCE[0]}")
KERNEL=linux-image-cloud-amd64
BUSYBOX=busybox-static
SSH_SERVER=dropbear-bin
LOADER="syslinux mtools"
# What the guest's disks and its power button are driven by; their dependencies come along.
MODULES="virtio_pci virtio_blk virtio_scsi virtio_net ahci sr_mod isofs vfat nls_iso8859-1 nls_cp437 nls_ascii button evdev"

fail() {
    printf 'guest-image: %s\n' "$*" >&2
    exit 1
}

# Downloads packages into the current folder, with fresh lists if the old ones name versions that are gone.
download() {
    apt-get -qq download "$@" 2>/dev/null && return
    apt-get -qq -o DPkg::Lock::Timeout=300 update || true
    apt-get -qq download "$@" || fail "apt-get cannot download $*: mend apt (network, sources, disk), then run this again"
}

# The kernel package that the meta package stands for.
kernel_package() {
    apt-cache depends "$KERNEL" | awk '/Depends: linux-image-/ { print $2; exit }'
}

# The SSH server's package and those of its libraries.
server_packages() {
    apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$SSH_SERVER" |
        grep -E '^(dropbear-bin|lib[a-z0-9.+-]+|zlib1g)$'
}

# A program of unpacked packages with its libraries and their loader, into another tree.
copy_program() {
    local from=$1 program=$2 to=$3 folders loader library
    folders=$(find "$from" -name '*.so*' -type f -printf '%h\n' | sort -u | paste -sd:)
    loader=$(find "$from" \( -name 'ld-linux*.so.*' -o -name 'ld-*.so' \) -type f | head -n 1)
    install -D -m 0755 "$from/$program" "$to/$program"
    "$loader" --library-path "$folders" --list "$from/$program" | awk '$2 == "=>" { print $1, $3 }' | while read -r library path; do
        case $library in
        /*) install -D -m 0755 "$path" "$to$library" ;;
        *) install -D -m 0644 "$path" "$to/lib/$library" ;;
        esac
    done
}

# The modules and all they need, of a tree with modules.dep, into another.
copy_modules() {
    local from=$1 to=$2 name path
    for name in $MODULES; do
        awk -F: -v like="/${name}.ko" '
            index($1, like) && substr($1, length($1) - length(like) + 1) == like { print $1; n = split($2, needs, " "); for (i = 1; i <= n; i++) print needs[i] }
        ' "$from/modules.dep"
    done | sort -u | while read -r path; do
        install -D -m 0644 "$from/$path" "$to/$path"
    done
}

write_init() {
    cat >"$1" <<'INIT'
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /run /tmp
mount -t devpts devpts /dev/pts
# Open vSwitch's userspace datapath neither checks nor fills in the checksums that a virtio interface leaves out.
modprobe virtio_net csum=0 gso=0 2>/dev/null
for module in virtio_pci virtio_blk virtio_scsi virtio_net ahci sr_mod isofs vfat nls_iso8859-1 nls_cp437 nls_ascii button evdev; do
    modprobe "$module" 2>/dev/null
done
echo "berth-guest: $(uname -s) $(uname -r), $(grep -c ^processor /proc/cpuinfo) CPU, $(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo) MiB"
for device in /sys/bus/pci/devices/*; do
    echo "berth-guest: pci ${device##*/} $(cut -c3- "$device/vendor"):$(cut -c3- "$device/device") class $(cut -c3- "$device/class")"
done
# A network card's own address as its registers have it: what only the card behind the bus can answer.
for device in /sys/bus/pci/devices/*; do
    [ "$(cat "$device/vendor"):$(cat "$device/device")" = 0x8086:0x10d3 ] || continue
    echo 1 >"$device/enable"
    base=$(head -n 1 "$device/resource" | cut -d' ' -f1)
    echo "berth-guest: pci ${device##*/} receive address $(devmem $((base + 0x5400)) 32) $(devmem $((base + 0x5404)) 32)"
done
sleep 1
# A SCSI controller finds its drives some time after its driver is there.
for try in $(seq 20); do
    [ -n "$(ls /sys/class/scsi_host 2>/dev/null)" ] || break
    [ ! -b /dev/sr0 ] && [ ! -b /dev/sda ] || break
    sleep 0.5
done
for disk in /dev/sr0 /dev/vdb /dev/vdc /dev/vda; do
    [ -b "$disk" ] || continue
    for kind in iso9660 vfat; do
        mount -r -t "$kind" "$disk" /mnt 2>/dev/null || continue
        for file in /mnt/openstack/latest/meta_data.json /mnt/meta-data; do
            [ -f "$file" ] && echo "berth-guest: config drive $disk ${file#/mnt/}: $(tr -d '\n' <"$file")"
        done
        # The SSH keys are the values of one object: {"name": "ssh-ed25519 ..."}.
        tr -d '\n' 2>/dev/null </mnt/openstack/latest/meta_data.json |
            sed -n 's/.*"public_keys": *{\([^}]*\)}.*/\1/p' | sed 's/\\n//g' | tr ',' '\n' |
            sed -n 's/.*": *"\([^"]*\)".*/\1/p' >>/root/.ssh/authorized_keys
        name=$(tr -d '\n' 2>/dev/null </mnt/openstack/latest/meta_data.json | sed -n 's/.*"hostname": *"\([^"]*\)".*/\1/p')
        [ -z "$name" ] || hostname "$name"
        umount /mnt
        break
    done
done
for interface in /sys/class/net/eth*; do
    interface=${interface##*/}
    ifconfig "$interface" up 2>/dev/null || continue
    udhcpc -i "$interface" -s /etc/udhcpc.script -t 30 -T 2 -q -n >/dev/null 2>&1 &
done
[ ! -s /root/.ssh/authorized_keys ] || /usr/sbin/dropbear -R -E -s 2>/dev/console
acpid -f -l /dev/null &
# A press of the power button before acpid has opened the button is lost, and a guest that is ready may be asked to shut down.
for try in $(seq 50); do
    [ -e /dev/input/event0 ] || break
    ls -l "/proc/$!/fd" 2>/dev/null | grep -q /dev/input/ && break
    sleep 0.1
done
echo "berth-guest: ready" | tee /dev/tty0 2>/dev/null
# What is typed on the serial console is a command.
while read -r command; do sh -c "$command"; done
exec sleep 2147483647
INIT
    chmod 0755 "$1"
}

# What udhcpc does with a lease.
write_dhcp() {
    cat >"$1" <<'DHCP'
#!/bin/sh
case $1 in
bound | renew) ;;
*) exit 0 ;;
esac
ifconfig "$interface" "$ip" netmask "${subnet:-255.255.255.0}" mtu "${mtu:-1500}"
for gateway in $router; do route add default gw "$gateway" dev "$interface"; done
for server in $dns; do echo "nameserver $server"; done >/etc/resolv.conf
echo "berth-guest: $interface has the address $ip" >/dev/console
DHCP
    chmod 0755 "$1"
}

# The account that the keys of a config drive may use.
write_account() {
    printf 'root:x:0:0:root:/root:/bin/sh\n' >"$1/etc/passwd"
    printf 'root:*:19000::::::\n' >"$1/etc/shadow"
    printf 'root:x:0:\n' >"$1/etc/group"
    printf '/bin/sh\n' >"$1/etc/shells"
    chmod 0600 "$1/etc/shadow"
    install -d -m 0700 "$1/root" "$1/root/.ssh"
    install -m 0600 /dev/null "$1/root/.ssh/authorized_keys"
    install -d "$1/etc/dropbear"
}

# A disk without partitions that a BIOS starts: FAT with syslinux in front. The tools are used from where they are unpacked.
# A guest that is emulated on a busy host may find its timer late: the kernel would take it for broken and stop.
make_disk() {
    local tools=$1/usr/bin disk=$2 size=32
    cat >syslinux.cfg <<'CFG'
DEFAULT guest
PROMPT 0
LABEL guest
  LINUX /vmlinuz
  INITRD /initrd.gz
  APPEND console=tty0 console=ttyS0 quiet no_timer_check
CFG
    truncate -s "${size}M" "$disk"
    PATH=$tools:$PATH mformat -i "$disk" -v BERTH -h 16 -s 63 -T $((size * 2048)) ::
    PATH=$tools:$PATH mcopy -i "$disk" vmlinuz initrd.gz syslinux.cfg ::
    PATH=$tools:$PATH syslinux --install "$disk"
}

describe_disk() {
    cat >"$1/images.toml.new" <<TOML
[[image]]
name = "berth-guest"
path = "$1/disk.img"
disk_format = "raw"
checksum = "sha256:$(sha256sum <"$1/disk.img" | cut -d' ' -f1)"
min_ram = 128
# The cloud kernel has no driver for SATA, the usual bus of a config drive.
properties = { hw_cdrom_bus = "scsi", hw_scsi_model = "virtio-scsi" }
TOML
    mv "$1/images.toml.new" "$1/images.toml"
}

main() {
    [ $# = 1 ] || fail "give one folder, for example: guest-image.sh target/guest-image"
    mkdir -p "$1"
    local folder
    folder=$(realpath "$1")
    # One run at a time: a second one waits, and finds the first one's work done.
    exec 9>"$folder/.lock"
    flock 9
    # An image of another version of this script is made anew.
    local stamp
    stamp=$(sha256sum <"$SCRIPT" | cut -d' ' -f1)
    if [ -s "$folder/vmlinuz" ] && [ -s "$folder/initrd.gz" ] && [ -s "$folder/disk.img" ] && [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then
        grep -qxF "path = \"$folder/disk.img\"" "$folder/images.toml" 2>/dev/null || describe_disk "$folder" # it was moved
        return 0
    fi
    command -v apt-get >/dev/null || fail "this is not a Debian system: put a kernel at $folder/vmlinuz and an initrd at $folder/initrd.gz"
    echo "guest-image: making a guest from Debian's kernel package and busybox in $1 (about 35 MB to download)"
    local work
    work=$(mktemp -d "$folder/.making.XXXXXX")
    # shellcheck disable=SC2064 # the folder of this run
    trap "rm -rf '$work'" EXIT
    cd "$work"
    local package
    package=$(kernel_package)
    if [ -z "$package" ]; then
        apt-get -qq -o DPkg::Lock::Timeout=300 update || true
        package=$(kernel_package)
    fi
    [ -n "$package" ] || fail "apt knows no package $KERNEL: does /etc/apt/sources.list name Debian's main archive?"
    # shellcheck disable=SC2046 # a list of packages
    download "$package" "$BUSYBOX" $LOADER $(server_packages)
    dpkg-deb -x "$package"_*.deb kernel
    dpkg-deb -x "$BUSYBOX"_*.deb busybox
    local tool
    for tool in $LOADER; do dpkg-deb -x "$tool"_*.deb loader; done
    for tool in $(server_packages); do dpkg-deb -x "$tool"_*.deb server; done
    local busybox=$work/busybox/bin/busybox version
    [ -x "$busybox" ] || busybox=$work/busybox/usr/bin/busybox
    version=$(ls kernel/lib/modules)
    "$busybox" depmod -b kernel "$version"

    local root=$work/root
    mkdir -p "$root"/{bin,sbin,dev,proc,sys,mnt,etc/acpi/PWRF,lib/modules/"$version"}
    cp "$busybox" "$root/bin/busybox"
    local applet
    for applet in $("$busybox" --list); do
        [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
    done
    copy_modules "kernel/lib/modules/$version" "$root/lib/modules/$version"
    "$busybox" depmod -b "$root" "$version"
    copy_program "$work/server" usr/sbin/dropbear "$root"
    write_init "$root/init"
    write_dhcp "$root/etc/udhcpc.script"
    write_account "$root"
    printf '#!/bin/sh\necho "berth-guest: power button"\nsync\npoweroff -f\n' >"$root/etc/acpi/PWRF/00000080"
    chmod 0755 "$root/etc/acpi/PWRF/00000080"

    (cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -9) >initrd.gz
    install -m 0644 kernel/boot/vmlinuz-"$version" vmlinuz
    make_disk "$work/loader" disk.img || fail "the disk could not be made (see above)"
    rm -f "$folder/stamp"
    mv vmlinuz initrd.gz disk.img "$folder/"
    describe_disk "$folder"
    echo "$stamp" >"$folder/stamp"
    echo "guest-image: $(du -h "$folder/vmlinuz" | cut -f1) of kernel $version, $(du -h "$folder/initrd.gz" | cut -f1) of initrd"
}

main "$@"
