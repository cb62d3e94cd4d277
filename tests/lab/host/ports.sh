#!/bin/bash
# Neutron ports on real devices: a virtual function of a network card as a `direct` port, with its MAC address and VLAN on the card,
# through a kill of the node and back; then a port of Open vSwitch with the kernel's datapath. The visit does what the conductor
# does: it claims, sends the build request, and binds the ports.
. /share/checks.sh
. /share/node.sh
dpkg -i /share/berth.deb >/dev/null 2>&1
drivers
modprobe openvswitch
modprobe tun
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
    { vendor_id = "8086", product_id = "10ca", physical_network = "storage" },
    { address = "$IGB", num_vfs = 2 },
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

# network PHYSICAL: the network of a port.
network() { printf '{"id": "4c2a7401-0000-4000-8000-000000000001", "label": "lab", "meta": {"physical_network": %s, "mtu": 1500}}' "$1"; }
unbound() { printf '{"id": "%s", "address": "%s", "type": "unbound", "vnic_type": "direct", "network": %s}' "$PORT" "$MAC" "$(network '"storage"')"; }
# bound FUNCTION: the port as Neutron's sriovnicswitch binds it.
bound() {
    printf '{"id": "%s", "address": "%s", "type": "hw_veb", "vnic_type": "direct", "profile": {"pci_slot": "%s"}, "details": {"vlan": "42"}, "network": %s}' \
        "$PORT" "$MAC" "$1" "$(network '"storage"')"
}
# claim GUEST ALLOCATIONS: the guest holds them in Placement.
claim() { placement PUT "/allocations/$1" "{\"allocations\": $2, \"consumer_generation\": null, \"project_id\": \"lab\", \"user_id\": \"lab\", \"consumer_type\": \"INSTANCE\"}"; }
# build GUEST NAME PORT ALLOCATIONS
build() {
    agent POST /v1/guests "{\"uuid\": \"$1\", \"name\": \"$2\", \"project_id\": \"lab\", \"node\": \"$(hostname)\",
        \"flavor\": {\"name\": \"f\", \"vcpus\": 1, \"ram_mb\": 128},
        \"networks\": [{\"source\": {\"port\": $3}}], \"allocations\": $4}"
}
amounts='{"VCPU": 1, "MEMORY_MB": 128}'
function='{"SRIOV_NET_VF": 1}'
function_of_port() { agent GET "/v1/guests/$GUEST" | grep -o '"pci_slot": *"[^"]*"' | head -n 1 | cut -d'"' -f4; }
on_card() { ip link show "$CARD"; }

check "the guest has its claim" claim "$GUEST" "{\"$ROOT\": {\"resources\": $amounts}, \"$PROVIDER\": {\"resources\": $function}}"
check "the host takes a guest with a direct port" build "$GUEST" fast "$(unbound)" "{\"$ROOT\": $amounts, \"$PROVIDER\": $function}"
FUNCTION=$(function_of_port)
check "and selects a function of the card" test "$(basename "$(readlink "/sys/bus/pci/devices/$FUNCTION/physfn")")" = "$IGB"
check "the guest waits for its port" says '"status": *"building"' agent GET "/v1/guests/$GUEST"
NUMBER=$(for at in 0 1; do [ "$(basename "$(readlink "/sys/bus/pci/devices/$IGB/virtfn$at")")" != "$FUNCTION" ] || echo "$at"; done)
kill -9 "$NODE"
wait "$NODE" 2>/dev/null
check "the node is up after a kill" node
check "the guest still waits" within 60 says "$FUNCTION" agent GET "/v1/guests/$GUEST"
check "a port with another function is refused" says '^400$' status POST "/v1/guests/$GUEST/action" "{\"action\": \"bind_ports\", \"ports\": [$(bound 0000:00:1f.7)]}"
check "its port is bound" agent POST "/v1/guests/$GUEST/action" "{\"action\": \"bind_ports\", \"ports\": [$(bound "$FUNCTION")]}"
check "and the guest runs" within 120 says '"status": *"active"' agent GET "/v1/guests/$GUEST"
check "the emulator has the function open" has_open fast
check "which is VFIO's" test "$(driver_of "$FUNCTION")" = vfio-pci
check "the card has the port's MAC address and VLAN" says "vf $NUMBER .*$MAC.*vlan 42" on_card
kill -9 "$NODE"
wait "$NODE" 2>/dev/null
check "the node is up after a kill beside a running guest" node
check "nothing differs from what it should be" within 60 says_nothing berth reconcile --dry-run -f value
check "the guest still has the function" says "$MAC.*vlan 42" on_card
check "the guest is deleted" agent DELETE "/v1/guests/$GUEST"
check "and gone" within 120 says '^404$' status GET "/v1/guests/$GUEST"
check "the VLAN is off the function" within 30 not says 'vlan 42' on_card
check "and so is the MAC address" not says "$MAC" on_card
check "the function is its driver's again" within 30 test "$(driver_of "$FUNCTION")" = "$before"
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
check "the guest runs" within 120 says '"status": *"active"' agent GET "/v1/guests/$GUEST"
check "the guest is deleted" agent DELETE "/v1/guests/$GUEST"
check "and gone" within 120 says '^404$' status GET "/v1/guests/$GUEST"
check "nothing is left on the bridge" says_nothing ovs-vsctl list-ports br-int
check "nor on the datapath" not says "$TAP" ovs-dpctl show
check "no tap is left" not says "$TAP" ip -o link
placement DELETE "/allocations/$GUEST" >/dev/null
check "no guest is left" says_nothing virsh list --all --name
check "no function is VFIO's" test "$(held)" = 0
check "no allocation is left" says_nothing allocations
end
