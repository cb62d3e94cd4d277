#!/bin/bash
# Neutron ports on real devices: a virtual function of a network card as a `direct` port, with its MAC address and VLAN on the card,
# through a kill of the node and back; a trusted one, attached to a running guest and detached; a macvtap; a whole card; then a port
# of Open vSwitch with the kernel's datapath. The visit does what the conductor does: it claims, sends the build request, and binds
# the ports.
. /share/checks.sh
. /share/node.sh
dpkg -i /share/berth.deb >/dev/null 2>&1
drivers
modprobe openvswitch
modprobe tun
modprobe macvtap
# A card without virtual functions.
CARD2=$(function_of 8086:10c9 2)
images
check "libvirt answers" libvirt
check "the switch runs" /usr/share/openvswitch/scripts/ovs-ctl --system-id=random start
ovs-vsctl add-br br-int
check "with the kernel's datapath" says 'system@ovs-system' ovs-dpctl show
configure
sed -i '/^\[accelerators\]/,$d' /etc/berth/berth.toml
cat >>/etc/berth/berth.toml <<TOML
[pci]
report_in_placement = true
device_spec = [
    { vendor_id = "8086", product_id = "10ca", physical_network = "storage", trusted = true },
    { address = "$IGB", num_vfs = 2 },
    { address = "$CARD2", physical_network = "whole" },
]
TOML
check "the configuration is good" berth config check
check "the node is up" node
check "virtual functions are in Placement, for ports" within 60 says 'SRIOV_NET_VF' berth provider tree

CARD=$(basename "/sys/bus/pci/devices/$IGB/net/"*)
ip link set "$CARD" up
VF=$(basename "$(readlink "/sys/bus/pci/devices/$IGB/virtfn0")")
before=$(driver_of "$VF")
GUEST=11111111-2222-4333-8444-000000000001
PORT=88a15950-b8b3-4000-8000-000000000001
MAC=fa:16:3e:54:eb:91

agent() { curl -sS --fail-with-body --unix-socket /run/berth/agent.sock -X "$1" -H 'content-type: application/json' ${3:+--data "$3"} "http://agent$2"; }
# The status of the agent's answer.
status() { curl -sS -o /dev/null -w '%{http_code}\n' --unix-socket /run/berth/agent.sock -X "$1" -H 'content-type: application/json' ${3:+--data "$3"} "http://agent$2"; }
provider_of() {
    local answer
    answer=$(placement GET "/resource_providers?name=$1") || return
    grep -o '"uuid": *"[^"]*"' <<<"$answer" | head -n 1 | cut -d'"' -f4
}
ROOT=$(provider_of "$(hostname)")
PROVIDER=$(provider_of "$(hostname)_${IGB^^}")
check "the card is a provider" test -n "$PROVIDER"
check "on its physical network" says 'CUSTOM_PHYSNET_STORAGE' placement GET "/resource_providers/$PROVIDER/traits"
check "with functions that may be trusted" says 'HW_NIC_SRIOV_TRUSTED' placement GET "/resource_providers/$PROVIDER/traits"
WHOLE=$(provider_of "$(hostname)_${CARD2^^}")
check "the second card is a provider of itself" says 'CUSTOM_SRIOV_NET_PF' placement GET "/resource_providers/$WHOLE/inventories"

# network PHYSICAL: the network of a port.
network() { printf '{"id": "4c2a7401-0000-4000-8000-000000000001", "label": "lab", "meta": {"physical_network": %s, "mtu": 1500}}' "$1"; }
# The next port: how Neutron binds it, its physical network, and what else its profile has.
VNIC=direct VIF=hw_veb PHYSICAL=storage PROFILE=
unbound() {
    printf '{"id": "%s", "address": "%s", "type": "unbound", "vnic_type": "%s", "profile": {%s}, "network": %s}' \
        "$PORT" "$MAC" "$VNIC" "$PROFILE" "$(network "\"$PHYSICAL\"")"
}
# bound FUNCTION: the port as Neutron's sriovnicswitch binds it.
bound() {
    printf '{"id": "%s", "address": "%s", "type": "%s", "vnic_type": "%s", "profile": {"pci_slot": "%s"%s}, "details": {"vlan": "42"}, "network": %s}' \
        "$PORT" "$MAC" "$VIF" "$VNIC" "$1" "${PROFILE:+, $PROFILE}" "$(network "\"$PHYSICAL\"")"
}
# claim GUEST ALLOCATIONS [GENERATION]: the guest holds them in Placement; the generation is that of an earlier claim.
claim() { placement PUT "/allocations/$1" "{\"allocations\": $2, \"consumer_generation\": ${3:-null}, \"project_id\": \"lab\", \"user_id\": \"lab\", \"consumer_type\": \"INSTANCE\"}"; }
# build GUEST NAME PORT ALLOCATIONS [MORE]: MORE are other members of the request.
build() {
    local networks=
    [ -z "$3" ] || networks="{\"source\": {\"port\": $3}}"
    agent POST /v1/guests "{\"uuid\": \"$1\", \"name\": \"$2\", \"project_id\": \"lab\", \"node\": \"$(hostname)\",
        \"flavor\": {\"name\": \"f\", \"vcpus\": 1, \"ram_mb\": 128},
        \"networks\": [$networks], \"allocations\": $4${5:+, $5}}"
}
act() { agent POST "/v1/guests/$GUEST/action" "{\"action\": \"$1\", $2}"; }
kill_node() {
    kill -9 "$NODE"
    wait "$NODE" 2>/dev/null
}
is_active() { says '"status": *"active"' agent GET "/v1/guests/$GUEST"; }
is_gone() { says '^404$' status GET "/v1/guests/$GUEST"; }
amounts='{"VCPU": 1, "MEMORY_MB": 128}'
function='{"SRIOV_NET_VF": 1}'
function_of_port() { agent GET "/v1/guests/$GUEST" | grep -o '"pci_slot": *"[^"]*"' | head -n 1 | cut -d'"' -f4; }
on_card() { ip link show "$CARD"; }
# The function's number on its card.
number_of() {
    local at
    for at in 0 1; do
        [ "$(basename "$(readlink "/sys/bus/pci/devices/$IGB/virtfn$at")")" != "$1" ] || echo "$at"
    done
}

check "the guest has its claim" claim "$GUEST" "{\"$ROOT\": {\"resources\": $amounts}, \"$PROVIDER\": {\"resources\": $function}}"
check "the host takes a guest with a direct port" build "$GUEST" fast "$(unbound)" "{\"$ROOT\": $amounts, \"$PROVIDER\": $function}"
FUNCTION=$(function_of_port)
check "and selects a function of the card" test "$(basename "$(readlink "/sys/bus/pci/devices/$FUNCTION/physfn")")" = "$IGB"
check "the guest waits for its port" says '"status": *"building"' agent GET "/v1/guests/$GUEST"
NUMBER=$(number_of "$FUNCTION")
kill_node
check "the node is up after a kill" node
check "the guest still waits" within 60 says "$FUNCTION" agent GET "/v1/guests/$GUEST"
check "a port with another function is refused" says '^400$' status POST "/v1/guests/$GUEST/action" "{\"action\": \"bind_ports\", \"ports\": [$(bound 0000:00:1f.7)]}"
check "its port is bound" agent POST "/v1/guests/$GUEST/action" "{\"action\": \"bind_ports\", \"ports\": [$(bound "$FUNCTION")]}"
check "and the guest runs" within 120 is_active
check "the emulator has the function open" has_open fast
check "which is VFIO's" test "$(driver_of "$FUNCTION")" = vfio-pci
check "the card has the port's MAC address and VLAN" says "vf $NUMBER .*$MAC.*vlan 42" on_card
kill_node
check "the node is up after a kill beside a running guest" node
check "nothing differs from what it should be" within 60 says_nothing berth reconcile --dry-run -f value
check "the guest still has the function" says "$MAC.*vlan 42" on_card
check "nobody trusts it" not says 'trust on' on_card
check "the guest is deleted" agent DELETE "/v1/guests/$GUEST"
check "and gone" within 120 is_gone
check "the VLAN is off the function" within 30 not says 'vlan 42' on_card
check "and so is the MAC address" not says "$MAC" on_card
check "the function is its driver's again" within 30 driven_by "$before" "$FUNCTION"
placement DELETE "/allocations/$GUEST" >/dev/null

# Trusted functions of a guest that runs: one that the guest drives, then a macvtap.
GUEST=11111111-2222-4333-8444-000000000003
PORT=88a15950-b8b3-4000-8000-000000000003
MAC=fa:16:3e:54:eb:93
PROFILE='"trusted": "true"'
is_ready() { says 'berth-guest: ready' berth guest console log later; }
interface_of() { virsh dumpxml "$1" | sed -n "/<interface type='$2'/,/<.interface>/p"; }
macvtaps() { ip -o link show type macvtap; }
check "a guest without ports has its claim" claim "$GUEST" "{\"$ROOT\": {\"resources\": $amounts}}"
check "the host takes it" build "$GUEST" later '' "{\"$ROOT\": $amounts}" "\"kernel\": {\"kernel\": \"$IMAGES/vmlinuz\",
    \"ramdisk\": \"$IMAGES/initrd.gz\", \"command_line\": \"console=ttyS0 quiet no_timer_check\"}"
check "and runs it" within 120 is_active
check "its system has started" within 120 is_ready
claims=1
for VNIC in direct macvtap; do
    interface=hostdev driver=vfio-pci
    [ "$VNIC" = direct ] || interface=direct driver=$before
    check "a function is claimed for a $VNIC port" claim "$GUEST" "{\"$ROOT\": {\"resources\": $amounts}, \"$PROVIDER\": {\"resources\": $function}}" "$claims"
    check "the host selects a trusted function" act select_function "\"port\": $(unbound), \"provider\": \"$PROVIDER\""
    FUNCTION=$(function_of_port)
    NUMBER=$(number_of "$FUNCTION")
    if [ "$VNIC" = direct ]; then
        kill_node
        check "the node is up after a kill beside a selected function" node
        check "the guest keeps the function" within 60 says "$FUNCTION" agent GET "/v1/guests/$GUEST"
    fi
    check "the $VNIC port is attached" act attach_interface "\"port\": $(bound "$FUNCTION")"
    check "the running guest has it" says "$MAC" interface_of later "$interface"
    check "the function has the driver for it" test "$(driver_of "$FUNCTION")" = "$driver"
    check "the card has its MAC address, VLAN and trust" says "vf $NUMBER .*$MAC.*vlan 42.*trust on" on_card
    check "a second attachment changes nothing" act attach_interface "\"port\": $(bound "$FUNCTION")"
    check "nothing differs from what it should be" within 60 says_nothing berth reconcile --dry-run -f value
    check "the $VNIC port is detached" act detach_interface "\"port\": \"$PORT\""
    check "the guest does not have it" not says "$MAC" virsh dumpxml later
    check "nor at its next start" not says "$MAC" virsh dumpxml --inactive later
    check "nor is a function selected for it" not says "$FUNCTION" agent GET "/v1/guests/$GUEST"
    check "the function is its driver's" within 30 driven_by "$before" "$FUNCTION"
    check "the card has neither MAC address nor VLAN nor trust" not says "$MAC|vlan 42|trust on" on_card
    check "all devices are clean" within 60 clean
    check "the claim is released" claim "$GUEST" "{\"$ROOT\": {\"resources\": $amounts}}" "$((claims + 1))"
    claims=$((claims + 2))
done
check "no macvtap is left" says_nothing macvtaps
check "the guest runs on" is_active
check "it is deleted" agent DELETE "/v1/guests/$GUEST"
check "and gone" within 120 is_gone
placement DELETE "/allocations/$GUEST" >/dev/null

# A macvtap that the guest is created with.
GUEST=11111111-2222-4333-8444-000000000004
PORT=88a15950-b8b3-4000-8000-000000000004
MAC=fa:16:3e:54:eb:94
check "a guest with a macvtap has its claim" claim "$GUEST" "{\"$ROOT\": {\"resources\": $amounts}, \"$PROVIDER\": {\"resources\": $function}}"
check "the host takes it" build "$GUEST" slow "$(unbound)" "{\"$ROOT\": $amounts, \"$PROVIDER\": $function}"
FUNCTION=$(function_of_port)
NUMBER=$(number_of "$FUNCTION")
OWN=$(basename "/sys/bus/pci/devices/$FUNCTION/net/"*)
check "its port is bound" act bind_ports "\"ports\": [$(bound "$FUNCTION")]"
kill_node
check "the node is up after a kill beside a port that is plugged" node
check "the guest runs" within 120 is_active
check "a macvtap is on the function's interface" says "@$OWN" macvtaps
check "which the guest has" says "$MAC" interface_of slow direct
check "the function stays on its driver" test "$(driver_of "$FUNCTION")" = "$before"
check "the card has the MAC address, VLAN and trust" says "vf $NUMBER .*$MAC.*vlan 42.*trust on" on_card
kill_node
check "the node is up after a kill beside a running guest" node
check "nothing differs from what it should be" within 60 says_nothing berth reconcile --dry-run -f value
check "the guest is started again by a hard reboot" agent POST "/v1/guests/$GUEST/action" '{"action": "hard_reboot"}'
check "and runs" within 120 is_active
check "still with its VLAN" within 60 says "vf $NUMBER .*$MAC.*vlan 42.*trust on" on_card
check "the guest is deleted" agent DELETE "/v1/guests/$GUEST"
check "and gone" within 120 is_gone
check "no macvtap is left" says_nothing macvtaps
check "the card has neither MAC address nor VLAN nor trust" not says "$MAC|vlan 42|trust on" on_card
check "all devices are clean" within 60 clean
placement DELETE "/allocations/$GUEST" >/dev/null

# A whole card, which has no port of Neutron's switch: the guest sets VLANs itself.
GUEST=11111111-2222-4333-8444-000000000005
PORT=88a15950-b8b3-4000-8000-000000000005
MAC=$(cat "/sys/bus/pci/devices/$CARD2/net/"*/address)
VNIC=direct-physical VIF=hostdev_physical PHYSICAL=whole PROFILE=
card='{"CUSTOM_SRIOV_NET_PF": 1}'
check "a guest with a whole card has its claim" claim "$GUEST" "{\"$ROOT\": {\"resources\": $amounts}, \"$WHOLE\": {\"resources\": $card}}"
check "the host takes it" build "$GUEST" entire "$(unbound)" "{\"$ROOT\": $amounts, \"$WHOLE\": $card}"
check "and selects the card" test "$(function_of_port)" = "$CARD2"
check "its port is bound" act bind_ports "\"ports\": [$(bound "$CARD2")]"
check "the guest runs" within 120 is_active
check "and has the card" test "$(function_given entire)" = "$CARD2"
check "which is VFIO's" test "$(driver_of "$CARD2")" = vfio-pci
kill_node
check "the node is up after a kill beside a whole card" node
check "nothing differs from what it should be" within 60 says_nothing berth reconcile --dry-run -f value
check "the card is still offered" says 'CUSTOM_SRIOV_NET_PF' placement GET "/resource_providers/$WHOLE/inventories"
check "the guest is deleted" agent DELETE "/v1/guests/$GUEST"
check "and gone" within 120 is_gone
check "the card is its driver's again" within 30 driven_by igb "$CARD2"
check "with its own MAC address" within 30 says "$MAC" cat /sys/class/net/*/address
check "all devices are clean" within 60 clean
placement DELETE "/allocations/$GUEST" >/dev/null

# The kernel's datapath. No controller serves this switch, so the visit gives the port its VLAN, as Neutron's agent does.
GUEST=11111111-2222-4333-8444-000000000002
TAP=tap99b25950-b8
plugged="{\"id\": \"99b25950-b8b3-4000-8000-000000000002\", \"address\": \"fa:16:3e:54:eb:92\", \"type\": \"ovs\", \"details\": {\"bridge_name\": \"br-int\", \"ovs_create_tap\": true}, \"network\": $(network null)}"
check "a second guest has its claim" claim "$GUEST" "{\"$ROOT\": {\"resources\": $amounts}}"
check "the host takes a guest with a port of the switch" build "$GUEST" plain "$plugged" "{\"$ROOT\": $amounts}"
check "its tap is on the bridge" within 60 says "$TAP" ovs-vsctl list-ports br-int
check "and on the kernel's datapath" within 30 says "$TAP" ovs-dpctl show
ovs-vsctl set Port "$TAP" tag=7
check "the guest runs" within 120 is_active
check "the guest is deleted" agent DELETE "/v1/guests/$GUEST"
check "and gone" within 120 is_gone
check "nothing is left on the bridge" says_nothing ovs-vsctl list-ports br-int
check "nor on the datapath" not says "$TAP" ovs-dpctl show
check "no tap is left" not says "$TAP" ip -o link
placement DELETE "/allocations/$GUEST" >/dev/null
check "no guest is left" says_nothing virsh list --all --name
check "no function is VFIO's" test "$(held)" = 0
check "no allocation is left" says_nothing allocations
end
