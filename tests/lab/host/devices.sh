#!/bin/bash
# Devices through VFIO: a whole function, virtual functions of a network card and of an NVMe drive, a mediated device, each from
# a device profile through an accelerator request into a guest and back; what is held is refused; what is pulled out and put
# back is seen at once.
. /share/checks.sh
. /share/node.sh
dpkg -i /share/berth.deb >/dev/null 2>&1
for module in vfio-pci vfio_iommu_type1 igb igbvf nvme e1000e mdev kvm-amd; do modprobe "$module"; done
insmod /lib/modules/*/extra/mttypci.ko
udevadm settle
check "libvirt answers" libvirt
configure
check "the configuration is good" berth config check
check "the node is up" node
check "virtual functions were made at start" test "$(cat "/sys/bus/pci/devices/$IGB/sriov_numvfs")" = 2
VF=$(basename "$(readlink "/sys/bus/pci/devices/$IGB/virtfn0")")
check "the drive's too" test "$(cat "/sys/bus/pci/devices/$NVME/sriov_numvfs")" = 2
NVMEVF=$(basename "$(readlink "/sys/bus/pci/devices/$NVME/virtfn0")")
listed() { berth device list -f value | grep -q "$1"; }
provider() { berth provider tree | grep -q "$1"; }
# Nobody knows who had them before: each is cleaned before its first guest.
clean() { ! berth device list -f value | grep -qw unclean; }
check "the devices are listed" within 30 listed "$NIC"
check "and are providers" within 60 provider "$NIC"
check "virtual functions are devices of their own" within 30 listed "$VF"
check "and become free" within 120 clean
devices

profile nic CUSTOM_NIC
profile vf CUSTOM_VF
profile ssd CUSTOM_SSD
profile vgpu VGPU
check "four profiles are there" test "$(berth accelerator profile list -f value | wc -l)" = 4

before=$(driver_of "$NIC")
check "a guest gets a whole function" guest whole nic
check "it is VFIO's" test "$(driver_of "$NIC")" = vfio-pci
check "the emulator has it open" test "$(vfio_of whole)" -ge 1
check "a second guest is refused it" not guest second nic
check "and nothing is left of that" sh -c "! virsh list --all --name | grep -q second"
check "the first still runs" sh -c "virsh list --name | grep -q ."

check "a guest gets a virtual function of a network card" guest function vf
check "a guest gets one of an NVMe drive" guest drive ssd
check "a guest gets a mediated device" guest mediated vgpu
check "it exists once" test "$(ls /sys/bus/mdev/devices | wc -l)" = 1
virsh list --all
check "four requests are bound" test "$(berth accelerator request list -f value | grep -c Bound)" = 4

# The card's own address, out of its registers: nobody but the card behind VFIO knows it.
reads() { berth guest console log "$1" | tee /dev/console | grep -q "receive address 0x12005452 0x8000"; }
check "the guest's kernel reads the card's registers" within 300 reads whole

check "the whole function is given back" berth guest delete whole --wait
check "and is its driver's again" within 30 test "$(driver_of "$NIC")" = "$before"
check "and clean" within 60 sh -c "berth device show $NIC -f json | grep -vq unclean"
check "and can be another's" guest third nic
for name in third function drive mediated; do
    check "$name is deleted" berth guest delete "$name" --wait
done
check "no request is left" test -z "$(berth accelerator request list -f value)"
check "no guest is left" test -z "$(virsh list --all --name | tr -d '\n')"
check "no mediated device is left" test -z "$(ls /sys/bus/mdev/devices)"
check "no allocation is left" sh -c "! berth reconcile --dry-run -f value | grep -q ."

# Pulled out and put back, while the timer stands at an hour.
echo 1 >"/sys/bus/pci/devices/$NIC/remove"
check "a device that is pulled out leaves Placement at once" within 30 not provider "$NIC"
echo 1 >/sys/bus/pci/rescan
check "and comes back when it is put back" within 30 provider "$NIC"
check "and can be a guest's" guest again nic
berth guest delete again --wait
kill "$NODE"
wait "$NODE" 2>/dev/null
end
