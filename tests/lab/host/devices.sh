#!/bin/bash
# Devices through VFIO: a whole function, virtual functions of a network card and of an NVMe drive, a mediated device, each from
# a device profile through an accelerator request into a guest and back; what is held is refused; what is pulled out and put
# back is seen at once. Then a guest on a processor, pages and a bridge of its own, and the guest part of `make run`, as on any
# host with an IOMMU.
. /share/checks.sh
. /share/node.sh
. /share/placed.sh
dpkg -i /share/berth.deb >/dev/null 2>&1
drivers
images
huge_pages
check "libvirt answers" libvirt
RECONCILE=3600 configure
check "the configuration is good" berth config check
check "the node is up" node
made() { [ "$(cat "/sys/bus/pci/devices/$1/sriov_numvfs")" = 2 ]; }
check "virtual functions of the network card are made" within 30 made "$IGB"
VF=$(basename "$(readlink "/sys/bus/pci/devices/$IGB/virtfn0")")
check "and of the drive" within 30 made "$NVME"
listed() { says "$1" devices; }
provider() { says "$1" berth provider tree; }
# A word to the emulator that this host runs in.
emulator() { printf '\n%s\n' "$1" >/dev/ttyS1; }
# What the agent says of a device that was reset, and seen to be: when its guest gave it back, or after that.
resets() { grep -cE "device reset (at|after) its release and free device=$1( |$)" /share/berth.log; }
reset_again() { [ "$(resets "$1")" -gt "$2" ]; }
check "the devices are listed" within 30 listed "$NIC"
check "and are providers" within 60 provider "$NIC"
check "virtual functions are devices of their own" within 30 listed "$VF"
check "and become free" within 60 offered
devices

profile nic CUSTOM_NIC
profile vf CUSTOM_VF
profile ssd CUSTOM_SSD
profile vgpu VGPU
check "four profiles are there" test "$(berth accelerator profile list -f value | wc -l)" = 4

before=$(driver_of "$NIC")
check "a guest gets a whole function" kernel whole nic
check "it is VFIO's" test "$(driver_of "$NIC")" = vfio-pci
check "the emulator has it open" has_open whole
check "a second guest is refused it" not guest second nic
check "and nothing is left of that" not says second virsh list --all --name
check "the first still runs" says whole virsh list --name
check "the guest's kernel reads the card's registers" within 120 reads whole
reads whole

check "a guest gets a virtual function of a network card" guest function vf
check "it is of that card" is_part_of "$IGB" function
check "and its emulator has it open" has_open function
check "a guest gets one of an NVMe drive" guest drive ssd
check "it is of that drive" is_part_of "$NVME" drive
check "and its emulator has it open, too" has_open drive
check "a guest gets a mediated device" guest mediated vgpu
check "and that is open in its emulator" has_open mediated
check "it exists once" test "$(mediated)" = 1
virsh list --all
check "four requests are bound" test "$(berth accelerator request list -f value | grep -c Bound)" = 4

resets=$(resets "$NIC")
check "the whole function is given back" berth guest delete whole --wait
check "and is its driver's again" within 30 driven_by "$before" "$NIC"
check "after a reset that was verified" within 60 reset_again "$NIC" "$resets"
check "and is free" within 60 says '\bfree\b' berth device show "$NIC" -f value
check "and can be another's" guest third nic
parts=("$(function_given function)" "$(function_given drive)")
resets=("$(resets "${parts[0]}")" "$(resets "${parts[1]}")")
for name in third function drive mediated; do
    check "$name is deleted" berth guest delete "$name" --wait
done
check "the network card's virtual function was reset, and that was verified" within 60 reset_again "${parts[0]}" "${resets[0]}"
check "and so was the drive's" within 60 reset_again "${parts[1]}" "${resets[1]}"
nothing_is_left

# Pulled out and put back, while each timer stands at an hour: by the kernel, then the card itself.
echo 1 >"/sys/bus/pci/devices/$NIC/remove"
check "a device that is removed leaves Placement at once" within 30 not provider "$NIC"
echo 1 >/sys/bus/pci/rescan
check "and comes back when it is found again" within 30 provider "$NIC"
check "and can be a guest's" guest again nic
check "again is deleted" berth guest delete again --wait
check "and it is clean" within 60 clean
stty -F /dev/ttyS1 raw -echo
emulator "device_del net0"
check "a card that is pulled out leaves Placement at once" within 60 not provider "$NIC"
emulator "device_add e1000e,id=net0,bus=port3,netdev=net2"
check "and comes back when it is plugged in" within 60 provider "$NIC"
check "and can be a guest's, too" guest plugged nic
check "plugged is deleted" berth guest delete plugged --wait
kill "$NODE"
wait "$NODE" 2>/dev/null

placed_guest

# What `make run` shows on a host whose own devices can go to guests.
story() { BERTH_PROGRAM=/usr/bin/berth CARGO_TARGET_DIR=/share timeout 900 /share/packaging/scripts/guest-story.sh /keep/story; }
check "the guest part of make run goes through on a host with an IOMMU" story
cat "$WORDS/check.log"
end
