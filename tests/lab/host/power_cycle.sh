#!/bin/bash
# Kills of the agent and of libvirtd, and a host that loses its power, while guests with VFIO devices run and while one is being
# made: each comes back with its device or is undone, and nothing is left over. Wants a disk of its own (KEEP of boot.sh), which
# outlives the power-cycle; what is to be done after it stands there.
. /share/checks.sh
. /share/node.sh
phase=$(cat /keep/phase 2>/dev/null || echo first)

prepare() {
    drivers
    check "no boot made a virtual function" test "$(cat "/sys/bus/pci/devices/$IGB/sriov_numvfs")" = 0
    check "libvirt answers" libvirt
    check "the node is up" node
}
guests() { berth guest list -f value -c name -c status; }
status() {
    local all
    all=$(guests) || return
    awk -v name="$1" '$1 == name { print $2 }' <<<"$all"
}
is_active() {
    local now
    now=$(status "$1") || return 2
    [ "$now" = active ]
}
is_back() { is_active "$1" && [ "$(virsh domstate "$1")" = running ] && has_open "$1"; }
has_the_same() {
    local before
    before=$(cat "/keep/$1") && [ -n "$before" ] && [ "$(function_given "$1")" = "$before" ]
}
has_ended() {
    local now
    now=$(status "$1") || return 2
    case $now in active | error | '') ;; *) return 1 ;; esac
}
# count PATTERN COMMAND...: how many lines of what the command says have that in them; nothing where it fails.
count() {
    local pattern=$1 said
    shift
    said=$("$@") || return
    grep -c -e "$pattern" <<<"$said"
}
running() { count . virsh list --name; }
taken() {
    local functions parts
    functions=$(held)
    parts=$(mediated)
    [ -n "$functions" ] && [ -n "$parts" ] && echo $((functions + parts))
}
# Guests, requests and devices are as many.
agree() {
    local active running bound taken
    active=$(count ' active' guests)
    running=$(running)
    bound=$(count Bound berth accelerator request list -f value)
    taken=$(taken)
    echo "$active active, $running running, $bound bound, $taken taken"
    [ -n "$active" ] && [ "$running" = "$active" ] && [ "$bound" = "$active" ] && [ "$taken" = "$active" ]
}
settled() { has_ended "$1" && agree; }
# midst NAME PROFILE: a guest that has taken its device and does not run yet.
more_than() { [ "$(taken)" -gt "$1" ]; }
midst() {
    local before
    before=$(taken)
    blank "$1" "$2" && within 60 more_than "$before" && not is_active "$1"
}
domain() { virsh domid "$1"; }
# went_on NAME DOMAIN: the same life of the guest runs.
went_on() {
    local now
    now=$(domain "$1") || return
    [ -n "$2" ] && [ "$now" = "$2" ]
}

if [ "$phase" = first ]; then
    dpkg -i /share/berth.deb >/dev/null 2>&1
    modprobe kvm-amd
    images
    configure
    prepare
    check "all devices are offered" within 60 offered
    profile nic CUSTOM_NIC
    profile vf CUSTOM_VF
    profile ssd CUSTOM_SSD
    profile vgpu VGPU
    check "a guest runs with a whole function" guest runs nic
    check "and one with a mediated device" guest part vgpu
    check "and one with a virtual function" guest slot vf
    check "it is of the network card" is_part_of "$IGB" slot
    function_given slot >/keep/slot

    runs=$(domain runs)
    kill -KILL "$NODE"
    check "the agent comes back from a kill" node
    check "its guests went on" went_on runs "$runs"
    check "and are known with their devices" within 60 agree

    check "a guest has taken its function" midst midway vf
    kill -KILL "$NODE"
    check "the agent comes back from a kill in a spawn" node
    check "the guest in the midst is made or undone" within 90 settled midway
    check "a guest has taken a mediated device" midst slice vgpu
    kill -KILL "$NODE"
    check "the agent comes back from a kill in that spawn" node
    check "that guest is made or undone, too" within 90 settled slice

    runs=$(domain runs)
    kill -KILL "$(pgrep -x libvirtd)"
    sleep 1
    check "libvirtd comes back from a kill" libvirt
    check "the guests went on" went_on runs "$runs"
    check "and everything agrees" within 60 agree

    check "a guest has taken a drive" midst shaken ssd
    kill -KILL "$(pgrep -x libvirtd)"
    sleep 1
    check "libvirtd comes back from a kill in a spawn" libvirt
    check "the guest in the midst is made or undone, again" within 90 settled shaken

    check "the guests are listed" guests
    for name in midway slice shaken; do
        [ -z "$(status "$name")" ] || check "$name is deleted" berth guest delete "$name" --wait
    done
    check "the functions are clean again" within 60 clean
    echo second >/keep/phase
    sync
    check "a guest has taken its function before the power is cut" midst cut vf
    say "ok the power is cut in a spawn, with $(running) guests"
    echo b >/proc/sysrq-trigger
    sleep 60
fi

prepare
check "the guest that ran is back with its device" within 90 is_back runs
check "and the one with a mediated device" within 90 is_back part
check "and the one with a virtual function, which the agent created again" within 90 is_back slot
check "it is of the network card" is_part_of "$IGB" slot
check "and the one it had before" has_the_same slot
check "the one in the midst of its spawn is made or undone" within 90 settled cut
virsh list --all
devices
check "the guests are listed" guests
for name in $(berth guest list -f value -c name); do
    check "$name is deleted" berth guest delete "$name" --wait
done
nothing_is_left
end
