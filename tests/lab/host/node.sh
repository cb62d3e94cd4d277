# Sourced by the visits that run a whole node: its configuration, its start, and what is asked of it.
# shellcheck shell=bash
# On /keep, if there is one, so that it outlives a power-cycle.
STATE=${STATE:-/keep/berth}
# What guests start from: a disk on which nothing starts, for those whose device alone matters, and a kernel.
IMAGES=${IMAGES:-/keep/images}

NIC=$(function_of 8086:10d3)
IGB=$(function_of 8086:10c9)
NVME=$(function_of 1b36:0010)
EDU=$(function_of 1234:11e8 1)
EDU2=$(function_of 1234:11e8 2)

libvirt() {
    virsh -c qemu:///system version >/dev/null 2>&1 && return
    cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
security_driver = "none"
remember_owner = 0
CONF
    sed -i 's/^#\?auth_unix_rw.*/auth_unix_rw = "none"/' /etc/libvirt/libvirtd.conf
    mkdir -p /run/libvirt
    pgrep -x virtlogd >/dev/null || virtlogd -d
    libvirtd -d 2>/tmp/libvirtd.err
    within 60 virsh -c qemu:///system version
}

drivers() {
    for module in vfio-pci vfio_iommu_type1 igb igbvf nvme e1000e mdev kvm-amd; do modprobe "$module"; done
    insmod /lib/modules/*/extra/mttypci.ko
    udevadm settle
}

images() {
    install -d -m 0755 "$IMAGES"
    install -m 0644 -t "$IMAGES" /share/guest-image/vmlinuz /share/guest-image/initrd.gz
    qemu-img create -q -f qcow2 "$IMAGES/blank.qcow2" 64M
    chmod 0644 "$IMAGES/blank.qcow2"
}

configure() {
    # Guests of a host that is itself emulated: its processor's own virtualisation is emulated, too, and still is the faster way.
    local kind=qemu
    [ ! -e /dev/kvm ] || kind=kvm
    mkdir -p "$STATE" /etc/berth
    cat >/etc/berth/berth.toml <<TOML
compute_driver = "libvirt"
state_path = "$STATE"
update_resources_interval = 3600
reconcile_interval = ${RECONCILE:-5}
[libvirt]
virt_type = "$kind"
cpu_mode = "none"
disk_cachemodes = ["file=writeback"]
[image_cache]
image_directories = ["$IMAGES"]
[agent]
admin_socket = "/run/berth/agent.sock"
[devices]
enabled_mdev_types = ["pci-1"]
[accelerators]
device_spec = [
    { address = "$NIC", resource_class = "CUSTOM_NIC" },
    { vendor_id = "8086", product_id = "10ca", resource_class = "CUSTOM_VF" },
    { address = "$IGB", num_vfs = 2 },
    { address = "$NVME", resource_class = "CUSTOM_SSD", num_vfs = 2 },
    { address = "$EDU" },
    { address = "$EDU2", resource_class = "CUSTOM_EDU" },
]
TOML
}

node() {
    mkdir -p /run/berth
    RUST_LOG=info,berth_agent_devices::reset=debug setsid berth up >>/share/berth.log 2>&1 </dev/null &
    NODE=$!
    within 60 berth agent status
}

devices() { berth device list -f value; }

# begin NAME PROFILE [ARGUMENT...]: asks for a guest with what the profile says. guest: and waits until it runs.
begin() { berth guest create "$1" --vcpus 1 --ram 128 --device-profile "$2" "${@:3}"; }
blank() { begin "$1" "$2" --image "$IMAGES/blank.qcow2" "${@:3}"; }
guest() { blank "$1" "$2" --wait --timeout 10m; }
# One that starts a kernel, which tells what it sees.
kernel() {
    begin "$1" "$2" --kernel "$IMAGES/vmlinuz" --ramdisk "$IMAGES/initrd.gz" --cmdline "console=ttyS0 quiet no_timer_check" \
        --image "$IMAGES/blank.qcow2" --wait --timeout 10m
}

profile() {
    berth accelerator profile create "$1" --group "resources:$2=1" "${@:3}"
}

# How many of VFIO's devices the guest's emulator has open.
vfio_of() {
    local pid
    pid=$(pgrep -f "guest=$1" | head -n 1)
    ls -l "/proc/$pid/fd" 2>/dev/null | grep -c /dev/vfio/[0-9]
}

# has_open NAME: its emulator has a device of VFIO's open.
has_open() { [ "$(vfio_of "$1")" -ge 1 ]; }

# The host's function that a guest has; nothing where it has none.
function_given() {
    local document
    document=$(virsh dumpxml "$1") || return
    sed -n "s/^ *<address domain='0x\(....\)' bus='0x\(..\)' slot='0x\(..\)' function='0x\(.\)'\/>$/\1:\2:\3.\4/p" <<<"$document"
}

# is_part_of CARD NAME: what the guest has is a virtual function of that card, and VFIO's.
is_part_of() {
    local function card
    function=$(function_given "$2") || return
    echo "$2 has ${function:-nothing}"
    card=$(readlink "/sys/bus/pci/devices/$function/physfn") || return
    [ "$(basename "$card")" = "$1" ] && [ "$(driver_of "$function")" = vfio-pci ]
}

# The card's own address, out of its registers: nobody but the card behind VFIO knows it.
reads() { berth guest console log "$1" | grep "receive address 0x12005452 0x8000"; }

# How many functions are VFIO's, and how many mediated devices there are.
held() {
    local functions
    functions=$(ls /sys/bus/pci/drivers/vfio-pci) || return
    grep -c '^0000:' <<<"$functions"
}
mediated() {
    local devices
    devices=$(ls /sys/bus/mdev/devices) || return
    grep -c . <<<"$devices"
}
# Each is cleaned before its first guest, for nobody knows who had it before, and after each guest.
clean() { says . devices && not says '\b(unclean|resetting)\b' devices; }
# All that guests may ask for is in Placement, and clean.
offered() {
    local class tree
    clean || return 1
    tree=$(berth provider tree) || return
    for class in CUSTOM_NIC CUSTOM_VF CUSTOM_SSD VGPU; do
        grep -qw "$class" <<<"$tree" || return 1
    done
}
# What anybody's guests hold in Placement.
allocations() {
    local providers provider of
    providers=$(placement GET /resource_providers) || return
    providers=$(grep -o '"uuid": *"[^"]*"' <<<"$providers" | cut -d'"' -f4)
    [ -n "$providers" ] || return
    for provider in $providers; do
        of=$(placement GET "/resource_providers/$provider/allocations") || return
        grep -o '"resources": *{[^}]*}' <<<"$of"
    done
    return 0
}
# What there is of guests' disks, but the images they lie over.
disks() { find "$STATE/instances" -mindepth 1 ! -path '*/_base*' ! -name _config ! -name '.*'; }

# Nothing of any guest is left anywhere.
nothing_is_left() {
    check "no request is left" says_nothing berth accelerator request list -f value
    check "no guest is left" says_nothing virsh list --all --name
    check "no emulator is left" not pgrep -f guest=
    check "no function is VFIO's" test "$(held)" = 0
    check "no mediated device is left" test "$(mediated)" = 0
    check "no allocation is left" says_nothing allocations
    check "no guest's disk is left" says_nothing disks
    check "all devices are clean again" within 60 clean
    check "and nothing differs from what it should be" within 60 says_nothing berth reconcile --dry-run -f value
}
