#!/bin/bash
# Kills of the agent and of libvirtd, and a host that loses its power, while guests with VFIO devices run and while one is being
# made: each comes back with its device or is undone, and nothing is left over. Wants a disk of its own (KEEP of boot.sh), which
# outlives the power-cycle; what is to be done after it stands there.
. /share/checks.sh
. /share/node.sh
phase=$(cat /keep/phase 2>/dev/null || echo first)

prepare() {
    for module in vfio-pci vfio_iommu_type1 igb igbvf nvme e1000e mdev; do modprobe "$module"; done
    insmod /lib/modules/*/extra/mttypci.ko
    udevadm settle
    check "libvirt answers" libvirt
    check "the node is up" node
}
status() { berth guest list -f value -c name -c status | awk -v name="$1" '$1 == name { print $2 }'; }
is_active() { [ "$(status "$1")" = active ]; }
has_ended() { case $(status "$1") in active | error) ;; *) return 1 ;; esac }
runs() { virsh list --name | grep -q . && [ "$(virsh list --name | grep -c .)" = "$1" ]; }
# How many functions are VFIO's: those of guests, and no more.
held() { ls /sys/bus/pci/drivers/vfio-pci | grep -c '^0000:'; }
bound() { berth accelerator request list -f value | grep -c Bound; }
# Guests, requests and functions are as many.
agree() {
    local guests
    guests=$(berth guest list -f value -c name -c status | grep -c ' active')
    [ "$(virsh list --name | grep -c .)" = "$guests" ] && [ "$(bound)" = "$guests" ] && [ "$(held)" = "$guests" ]
}
settled() { has_ended "$1" && agree; }
begin() {
    berth guest create "$1" --vcpus 1 --ram 128 --kernel /share/vmlinuz --ramdisk /share/initrd.gz \
        --cmdline "console=ttyS0 quiet no_timer_check" --device-profile "$2" >/dev/null 2>&1
}

if [ "$phase" = first ]; then
    dpkg -i /share/berth.deb >/dev/null 2>&1
    configure
    prepare
    free() { ! berth device list -f value | grep -qw unclean; }
    check "all devices are clean" within 180 free
    profile nic CUSTOM_NIC
    profile vf CUSTOM_VF
    profile ssd CUSTOM_SSD
    check "a guest runs with a whole function" guest runs nic

    domain=$(virsh domid "$(virsh list --name | head -n 1)")
    kill -KILL "$NODE"
    check "the agent comes back from a kill" node
    check "its guest went on" test "$(virsh domid "$(virsh list --name | head -n 1)")" = "$domain"
    check "and is known with its device" within 60 agree

    begin midway vf
    sleep 2
    kill -KILL "$NODE"
    check "the agent comes back from a kill in a spawn" node
    check "the guest in the midst is made or undone" within 240 settled midway

    kill -KILL "$(pgrep -x libvirtd)"
    sleep 1
    check "libvirtd comes back from a kill" libvirt
    check "and everything agrees" within 120 agree

    begin shaken ssd
    sleep 2
    kill -KILL "$(pgrep -x libvirtd)"
    sleep 1
    check "libvirtd comes back from a kill in a spawn" libvirt
    check "the guest in the midst is made or undone, again" within 240 settled shaken

    status runs >/keep/before
    echo second >/keep/phase
    sync
    [ "$(status midway)" = active ] || berth guest delete midway --wait
    begin cut vf
    sleep 3
    say "ok the power is cut in a spawn, with $(virsh list --name | grep -c .) guests"
    echo b >/proc/sysrq-trigger
    sleep 60
fi

prepare
check "the guest that ran is back with its device" within 300 is_active runs
check "the one in the midst of its spawn is made or undone" within 300 settled cut
virsh list --all
berth device list
for name in $(berth guest list -f value -c name); do
    check "$name is deleted" berth guest delete "$name" --wait
done
check "no guest is left" test -z "$(virsh list --all --name | tr -d '\n')"
check "no request is left" test -z "$(berth accelerator request list -f value)"
check "no function is VFIO's" within 30 test "$(held)" = 0
check "nothing differs" sh -c "berth reconcile --dry-run -f value | grep -vq . || ! berth reconcile --dry-run -f value | grep -q ."
end
