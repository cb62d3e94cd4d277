# Sourced by the visits that run a whole node: its configuration, its start, and what is asked of it.
# shellcheck shell=bash
# On /keep, if there is one, so that it outlives a power-cycle.
STATE=${STATE:-/keep/berth}

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
    within 120 virsh -c qemu:///system version
}

configure() {
    # Guests of a host that is itself emulated: its processor's own virtualisation is emulated, too, and still is the faster way.
    local kind=qemu
    modprobe kvm-amd 2>/dev/null
    [ ! -e /dev/kvm ] || kind=kvm
    mkdir -p "$STATE" /etc/berth
    cat >/etc/berth/berth.toml <<TOML
compute_driver = "libvirt"
state_path = "$STATE"
update_resources_interval = 3600
reconcile_interval = 5
[libvirt]
virt_type = "$kind"
cpu_mode = "none"
disk_cachemodes = ["file=writeback"]
[image_cache]
image_directories = ["/share"]
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
    mkdir -p /run/berth
}

node() {
    setsid berth up >>/share/berth.log 2>&1 </dev/null &
    NODE=$!
    within 120 berth agent status
}

devices() { berth device list -f value; }

# guest NAME PROFILE: boots one and waits until it runs.
guest() {
    berth guest create "$1" --vcpus 1 --ram 128 --kernel /share/vmlinuz --ramdisk /share/initrd.gz \
        --cmdline "console=ttyS0 quiet no_timer_check" --device-profile "$2" --wait --timeout 5m
}

profile() {
    berth accelerator profile create "$1" --group "resources:$2=1" "${@:3}"
}

# What VFIO devices the guest's emulator has open.
vfio_of() {
    local pid
    pid=$(pgrep -f "guest=$1" | head -n 1)
    ls -l "/proc/$pid/fd" 2>/dev/null | grep -c /dev/vfio/[0-9]
}
