# Sourced by the visit `devices`: a guest that the host places as everyday ones are placed, beside its card. A processor of its
# own, one NUMA cell, pages of 2 MiB, an interface on a bridge; each seen in what libvirt says and in what the kernel does.
# shellcheck shell=bash
BRIDGE=lab0
# The second cell has the second processor, the network card, and these pages; the guest takes 64 of them.
CELL=1
PAGES=80
POOL=/sys/devices/system/node/node$CELL/hugepages/hugepages-2048kB

# libvirtd looks where huge pages are mounted when it starts.
huge_pages() {
    mkdir -p /dev/hugepages
    mount -t hugetlbfs hugetlbfs /dev/hugepages
    echo "$PAGES" >"$POOL/nr_hugepages"
}
free_pages() { [ "$(cat "$POOL/free_hugepages")" = "$1" ]; }

# The host's processors that the guest's first one may run on, as the kernel has it.
processors_of() {
    local pid task
    pid=$(pgrep -f "guest=$1") || return
    for task in "/proc/$pid/task"/*; do
        case $(cat "$task/comm") in "CPU 0/"*) sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$task/status" ;; esac
    done
}
# The pages of 2 MiB that its memory is in lie in one cell.
pages_of() {
    local pid
    pid=$(pgrep -f "guest=$1") || return
    grep 'kernelpagesize_kB=2048' "/proc/$pid/numa_maps"
}
on_the_bridge() {
    local interfaces interface
    interfaces=$(virsh domiflist "$1") || return
    interface=$(awk -v bridge="$BRIDGE" '$3 == bridge { print $1 }' <<<"$interfaces")
    echo "$1 has ${interface:-no interface} on $BRIDGE"
    [ -n "$interface" ] && [ -e "/sys/class/net/$BRIDGE/brif/$interface" ]
}

# What the guest sends with another MAC address is dropped.
filtered() {
    local interface
    interface=$(virsh domiflist "$1" | awk -v bridge="$BRIDGE" '$3 == bridge { print $1 }') || return
    ebtables -t nat -L "libvirt-I-$interface"
}

# The node has ended; it starts again with processors that are shared and such that are not, and ends again.
placed_guest() {
    modprobe tun
    ip link add "$BRIDGE" type bridge
    ip link set "$BRIDGE" up
    check "pages of 2 MiB are reserved" free_pages "$PAGES"
    printf '[compute]\ncpu_shared_set = "0"\ncpu_dedicated_set = "1"\n' >>/etc/berth/berth.toml
    check "the configuration with processors for one guest each is good" berth config check
    check "the node is up with them" node
    check "and offers them" within 60 says PCPU berth provider tree
    check "and its devices" within 60 offered
    check "a guest gets a processor, a cell, pages of 2 MiB, a bridge and a card" blank placed nic --bridge "$BRIDGE" \
        --property hw:cpu_policy=dedicated --property hw:numa_nodes=1 --property hw:mem_page_size=2MB --wait --timeout 10m
    check "libvirt has it on that processor" says '^ *0 +1$' virsh vcpupin placed
    check "and the kernel lets it run nowhere else" says '^1$' processors_of placed
    check "libvirt has its memory in that cell" says "^numa_nodeset *: $CELL$" virsh numatune placed
    check "strictly" says '^numa_mode *: strict$' virsh numatune placed
    check "in pages of 2 MiB" says "<page size='2048' unit='KiB'" virsh dumpxml placed
    check "which are taken" free_pages $((PAGES - 64))
    check "and lie in that cell" says "^[0-9a-f]+ bind:$CELL .* N$CELL=64 kernelpagesize_kB=2048" pages_of placed
    check "its interface is on the bridge" on_the_bridge placed
    check "with libvirt's network filter" says "filterref filter='berth-port-security'" virsh dumpxml placed
    check "which drops forged MAC addresses" says '(-s !|! -s) .*-j DROP' filtered placed
    check "its card is open in its emulator" has_open placed
    check "placed is deleted" berth guest delete placed --wait
    check "nothing is on the bridge" says_nothing ls "/sys/class/net/$BRIDGE/brif"
    check "the pages are free again" within 30 free_pages "$PAGES"
    nothing_is_left
    kill "$NODE"
    wait "$NODE" 2>/dev/null
    ip link delete "$BRIDGE"
    echo 0 >"$POOL/nr_hugepages"
}
