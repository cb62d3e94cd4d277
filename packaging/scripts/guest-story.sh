#!/bin/bash
# The guest part of `make run`: from a device profile to a guest that runs with its device, and to nothing left of it. Three
# stages; the first that this machine is fit for is taken, and it says which:
#
#   host      libvirt with this host's own devices: where it has an IOMMU and [accelerators] device_spec names some
#   cards     a libvirtd of its own and QEMU, on cards that are files (card-host.sh): where a mount namespace can be made
#   machine   the driver that makes its guests in a file
#
# Usage:  guest-story.sh PLACE [stay]    (BERTH_PROGRAM: default target/debug/berth; STAGE: host, cards or machine, without looking)
#
# With `stay` the node stays up afterwards until Ctrl-C, for `openstack` behind its one listener, and it says how it is asked.
# Everything is under PLACE; what it started ends with it, also where it is killed. A new run begins with an empty PLACE.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts=$PWD/packaging/scripts
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
berth=$(realpath -m "${BERTH_PROGRAM:-$target/debug/berth}")
started=()
# The guest's network, and the command prefix that runs a program in it; empty without one.
network=
in_network=()
# Why the guest has no network.
no_network=
node=
asked=

fail() {
    printf 'guest-story: %s\n' "$*" >&2
    exit 1
}

# A child that ends where this script is killed in a way that leaves it no time.
start() {
    local log=$1
    shift
    setpriv --pdeathsig TERM "$@" >"$log" 2>&1 &
    started+=("$!")
}

end() {
    local _
    kill "$1" 2>/dev/null || return 0
    for _ in $(seq 100); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
}

# Guests outlive the libvirtd that made them.
end_guests() {
    local file number
    for file in "$place"/libvirtd/run/qemu/*.pid; do
        number=$(cat "$file" 2>/dev/null) || continue
        case $(cat "/proc/$number/comm" 2>/dev/null) in
        qemu*) kill -KILL "$number" 2>/dev/null || true ;;
        esac
    done
}

# Nor does a network end with the libvirtd that made it: its DHCP server stays.
end_network() {
    local number
    number=$(cat "$place/libvirtd/run/network/berth.pid" 2>/dev/null) || return 0
    [ "$(cat "/proc/$number/comm" 2>/dev/null)" != dnsmasq ] || kill "$number" 2>/dev/null || true
}

# The last that was started ends first.
finish() {
    local i
    [ -z "$asked" ] || kill "$asked" 2>/dev/null || true
    for ((i = ${#started[@]} - 1; i >= 0; i--)); do end "${started[i]}"; done
    end_guests
    end_network
}

tell() {
    local word words=''
    for word; do
        word=${word/#$PWD\//}
        [[ $word != *' '* ]] || word="'$word'"
        words+=" $word"
    done
    printf '\n$ berth%s\n' "$words"
    # Beside this script, which so hears a signal at once.
    "${on[@]}" "$@" &
    asked=$!
    wait "$asked" || fail "that should have worked; berth up's log is $place/log"
}

# Waits until a command says yes; SECONDS, what is waited for, the command.
await() {
    local patience=$1 what=$2 end
    shift 2
    end=$((SECONDS + patience))
    until "$@"; do
        [ -z "$node" ] || kill -0 "$node" 2>/dev/null || fail "berth up ended; its last words: $(tail -n 3 "$place/log")"
        [ "$SECONDS" -lt "$end" ] || fail "$what: not within $patience seconds; berth up's log is $place/log"
        sleep 0.2
    done
}

is_up() { "${on[@]}" agent status -f value -c plan 2>/dev/null | grep -q in_sync; }
# Devices that are cleaned after their last guest, or before their first, become free one by one.
free_devices() { "${on[@]}" device list -f value -c name -c owner -c resource_class -c state | awk '$2 == "accelerator" && $4 == "free"'; }
devices_are_ready() { free_devices | grep -q .; }
# One that the guest sees by the card's own ids, if there is one: what a mediated device shows is its driver's choice.
chosen_class() { free_devices | awk '{ kind = $1 ~ /\.[0-7]$/ ? 1 : 2; if (!(kind in class)) class[kind] = $3 } END { print (1 in class) ? class[1] : class[2] }'; }
answers() { virsh --quiet --connect "$uri" version >/dev/null 2>&1; }
# The guest's first address, which libvirt's DHCP server gave it.
address() { "${on[@]}" guest list -f value -c networks 2>/dev/null | grep -oE '([0-9]{1,3}\.){3}[0-9]{1,3}' | head -n 1; }
has_address() { [ -n "$(address)" ]; }
can_login() { "$place/bin/ssh-guest" "$1" true </dev/null 2>/dev/null; }
guest_is_ready() { "${on[@]}" guest console log job 2>/dev/null | grep -q 'berth-guest: ready'; }

# Whether this host can hand its own devices to guests.
has_own_devices() {
    [ -n "$(ls /sys/kernel/iommu_groups 2>/dev/null)" ] || return 1
    "$berth" config show -f value 2>/dev/null | grep -q '^accelerators\.device_spec \[[^]]'
}

pick_stage() {
    if has_own_devices; then
        stage=host
    elif [ "$(id -u)" != 0 ]; then
        stage=machine why="this is not root"
    elif ! command -v libvirtd >/dev/null || ! command -v qemu-system-x86_64 >/dev/null; then
        stage=machine why="libvirtd or QEMU is not installed"
    elif ! why=$(unshare --mount --propagation private true 2>&1); then
        stage=machine why="no mount namespace can be made here: $why"
    else
        stage=cards
    fi
}

# What a guest without a network cannot show is said where it is left out, and again at the end.
go_without_network() {
    no_network=$1
    printf '%s\n' "$1" >"$place/no-network"
    echo "   the guest has no network, no address and no ssh login: $no_network"
}

# Logs in to a guest by its address, or by the name of a server of `openstack`. A guest that boots has no address and does not answer
# yet, so both are tried for a minute.
write_ssh_guest() {
    mkdir -p "$place/bin"
    cat >"$place/bin/ssh-guest" <<SSH
#!/bin/bash
# ssh-guest ADDRESS|SERVER [COMMAND]: logs in to a guest with the key of make run, from the network of the guest.
set -eu
guest=\$1
shift
if [[ ! \$guest =~ ^[0-9.]+\$ ]]; then
    name=\$guest guest=
    for try in {1..60}; do
        shown=\$(openstack server show "\$name" -f value -c OS-EXT-STS:task_state -c addresses -c status)
        status=\$(grep -xE 'SHUTOFF|PAUSED|ERROR' <<<"\$shown" || true)
        # A server without a task stays as it is.
        if [ -n "\$status" ] && grep -qx None <<<"\$shown"; then
            echo "ssh-guest: the server \$name is \$status, so it cannot answer: openstack server show \$name" >&2
            exit 1
        fi
        guest=\$(grep -oE '([0-9]{1,3}\.){3}[0-9]{1,3}' <<<"\$shown" | head -n 1)
        [ -z "\$guest" ] || break
        sleep 1
    done
    [ -n "\$guest" ] || { echo "ssh-guest: the server \$name has no address" >&2; exit 1; }
fi
exec$(printf ' %q' "${in_network[@]}" ssh -i "$place/key") -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
    -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=10 -o ConnectionAttempts=60 "root@\$guest" "\$@"
SSH
    chmod +x "$place/bin/ssh-guest"
}

# A network of libvirt for the guest, with its own DHCP server. The namespace of the private libvirtd has nothing else.
make_network() {
    cat >"$place/network.xml" <<'XML'
<network>
  <name>berth</name>
  <forward mode='open'/>
  <bridge name='berth0' stp='off' delay='0'/>
  <ip address='192.168.240.1' netmask='255.255.255.0'>
    <dhcp><range start='192.168.240.10' end='192.168.240.99'/></dhcp>
  </ip>
</network>
XML
    if virsh --quiet --connect "$uri" net-create "$place/network.xml" >"$place/network.log" 2>&1; then
        network=berth
        printf '\n[compute_service]\nauto_network = "network:berth"\n' >>"$place/berth.toml"
        in_network=(nsenter --net --target "$(cat "$place/libvirtd/libvirtd.pid")")
    else
        go_without_network "libvirt does not make one: $(head -n 1 "$place/network.log")"
    fi
}

# What all stages have in common: nothing that stands elsewhere is written.
common() {
    on=(env BERTH__PERIODIC_FUZZY_DELAY=0 BERTH__STATE_PATH="$place/state" BERTH__AGENT__ADMIN_SOCKET="$place/agent.sock"
        BERTH__INSTANCES_PATH="$place/instances" BERTH__IMAGE_CACHE__IMAGE_DIRECTORIES="$images"
        BERTH__API__LISTEN="$api"
        BERTH__COMPUTE_SERVICE__IMAGES_FILE="$images/images.toml")
    mkdir -p "$place/state" "$place/instances"
}

host_stage() {
    printf '\n== a guest with a device of this host, through libvirt\n'
    common
    on+=("$berth")
    uri=$("$berth" config show -f value | sed -n 's/^libvirt\.connection_uri //p')
    uri=${uri:-qemu:///system}
    answers || fail "libvirtd does not answer on $uri: start it (systemctl start libvirtd), or name it in [libvirt] connection_uri"
    if virsh --connect "$uri" net-info default 2>/dev/null | grep -q '^Active: *yes'; then
        network=default
    else
        go_without_network "libvirt's network default is not active (virsh net-start default)"
    fi
    start "$place/log" "${on[@]}" up
}

cards_stage() {
    printf '\n== a guest with a device, through a real libvirtd and QEMU\n'
    if [ -n "$(ls /sys/kernel/iommu_groups 2>/dev/null)" ]; then
        echo "   [accelerators] device_spec names no device of this host, so none is touched: the cards are files that a"
    else
        echo "   this host has no IOMMU, so none of its devices can be handed to a guest: the cards are files that a"
    fi
    echo "   libvirtd of its own and berth see as /sys; in the guest QEMU puts a device with the card's ids where VFIO"
    echo "   would put the card. The rest is as on a host with cards."
    uri="qemu+unix:///system?socket=$place/libvirtd/sock/libvirt-sock"
    cat >"$place/berth.toml" <<CONF
host = "card-host"

[libvirt]
connection_uri = "$uri"
virt_type = "qemu"
emulator = "$place/cards/emulator"
# The guest is alone on its network.
nwfilter = "none"

[accelerators]
device_spec = [{ vendor_id = "1234", product_id = "1111" }]
CONF
    local cards=$scripts/card-host.sh
    "$cards" make "$place/cards" || fail "the cards could not be made (see above)"
    start "$place/kernel.log" "$cards" kernel "$place/cards"
    local apart=() refused=
    if refused=$(unshare --net true 2>&1); then
        apart=(unshare --net -- sh -c 'ip link set lo up; exec "$@"' sh)
        # A VNC server would listen there, where the agent does not reach it. Serial consoles need no network.
        printf '\n[vnc]\nenabled = false\n' >>"$place/berth.toml"
    fi
    start "$place/libvirtd.log" "$cards" run "$place/cards" "${apart[@]}" "$scripts/libvirtd.sh" "$place/libvirtd" "$place/libvirt-cache"
    local libvirtd=$! _
    for _ in $(seq 600); do
        answers && break
        kill -0 "$libvirtd" 2>/dev/null || fail "libvirtd ended; its last words: $(tail -n 3 "$place/libvirtd.log")"
        sleep 0.1
    done
    answers || fail "libvirtd did not answer within a minute; see $place/libvirtd.log"
    if [ "${#apart[@]}" != 0 ]; then
        make_network
    else
        go_without_network "no network namespace can be made here: $refused"
    fi
    common
    unset_settings
    on+=("$berth" --config "$place/berth.toml")
    within=("$cards" run "$place/cards")
    start "$place/log" "${within[@]}" "${on[@]}" up
}

machine_stage() {
    printf '\n== a guest with a device: no libvirt and no QEMU here, since %s;\n' "$why"
    echo "   the guest is made by the fake driver, on a machine out of a file (accelerators.toml)"
    common
    unset_settings
    on+=("$berth" --machine drivers/fake/machines/accelerators.toml --state-dir "$place/state")
    start "$place/log" "${on[@]}" up
}

# What configures berth for this host means nothing on another one.
unset_settings() {
    local name names=()
    while IFS='=' read -r name _; do
        case $name in BERTH__* | BERTH_DATABASE_URL) names+=(-u "$name") ;; esac
    done < <(env)
    on=(env "${names[@]}" "${on[@]:1}")
}

# A guest's allocation, which Placement shows to operators of this host. Its socket is next to that of the agent.
allocation() {
    local socket=$place/placement.sock url=http://placement/allocations/$1
    [ "$stage" != machine ] || socket=$place/state/placement.sock
    printf '\n$ curl --unix-socket %s -H "X-Auth-Token: admin" %s\n' "${socket/#$PWD\//}" "$url"
    curl -sS --fail-with-body --unix-socket "$socket" -H 'X-Auth-Token: admin' "$url" || fail "Placement does not answer on $socket"
    echo
}

virsh_list() {
    [ "$stage" != machine ] || return 0
    printf '\n$ virsh --connect %s list --all\n' "$uri"
    virsh --connect "$uri" list --all
}

# The guest answers at its address, and the key of its config drive opens it.
log_in() {
    local at
    await 120 "the guest gets an address" has_address
    tell guest list
    at=$(address)
    await 120 "the guest answers ssh at $at" can_login "$at"
    printf '\n$%s ssh -i %s root@%s\n' "${in_network[0]:+ ${in_network[*]}}" "${place#"$PWD"/}/key" "$at"
    </dev/null "$place/bin/ssh-guest" "$at" 'echo "logged in to $(hostname), kernel $(uname -r)"; ifconfig eth0 | head -n 2'
}

story() {
    local uuid device product
    await 120 "berth up" is_up
    await 120 "a device that [accelerators] device_spec means is cleaned and free" devices_are_ready
    tell device list
    class=$(chosen_class)
    tell accelerator profile create one --group "resources:$class=1"
    if [ -n "$network" ]; then
        ssh-keygen -q -t ed25519 -N '' -C berth -f "$place/key"
        write_ssh_guest
        boot+=(--network "$network" --ssh-key "$place/key.pub")
        # The guest's kernel has no driver for SATA, the usual bus of a config drive.
        boot+=(--image "$images/disk.img" --image-property hw_cdrom_bus=scsi --image-property hw_scsi_model=virtio-scsi)
    fi
    tell guest create job --vcpus 1 --ram 256 "${boot[@]}" --device-profile one --wait
    virsh_list
    if [ "$stage" != machine ]; then
        printf '\n$ virsh --connect %s dumpxml job --xpath //hostdev\n' "$uri"
        virsh --connect "$uri" dumpxml job --xpath //hostdev
    fi
    tell guest list
    tell device list
    tell accelerator request list
    uuid=$("${on[@]}" guest list -f value -c uuid)
    allocation "$uuid"
    tell provider tree
    if [ "$stage" != machine ]; then
        await 300 "the guest boots" guest_is_ready
        tell guest console log job
        read -r device product < <("${on[@]}" device list -f value -c name -c guest -c product | sed -n "s/ $uuid / /p")
        case $device in
        *:*.[0-7])
            "${on[@]}" guest console log job | grep -q "pci .* $product " || fail "the guest does not see its device, $product"
            echo "   $product is the device"
            ;;
        *) echo "   it has the mediated device $device" ;;
        esac
        [ -z "$network" ] || log_in
    fi
    tell guest delete job --wait
    tell accelerator profile delete one
    virsh_list
    tell accelerator request list
    allocation "$uuid"
    tell reconcile --dry-run
}

# What another terminal does to ask the node, and the walk that the README tells.
stay() {
    local shell=${place%/*}/openstack nic=()
    [ "$network" != berth ] || nic=(--nic auto --key-name key)
    # A berth that asks this node, and sees the machine that the node sees.
    mkdir -p "$place/bin"
    printf '#!/bin/bash\nexec%s "$@"\n' "$(printf ' %q' "${within[@]}" "${on[@]}")" >"$place/bin/berth"
    chmod +x "$place/bin/berth"
    cat >"$place/openrc" <<RC
export OS_CLIENT_CONFIG_FILE=$place/state/clouds.yaml OS_CLOUD=berth
export PATH=$shell/bin:$place/bin:\$PATH
RC
    printf '\n== everything above worked%s\n== this node stays up, all its services behind http://%s; Ctrl-C ends it\n' "${no_network:+, without an address and an ssh login of the guest: $no_network}" "$api"
    cat <<SAY
To ask it by OpenStack's own client, from another terminal in this folder:

  python3 -m venv ${shell#"$PWD"/} && ${shell#"$PWD"/}/bin/pip install python-openstackclient osc-placement
  . ${place#"$PWD"/}/openrc
  openstack hypervisor list; openstack compute service list; openstack resource provider list
  openstack accelerator device profile create gpu --group resources:$class=1
  openstack flavor create tiny --ram 256 --vcpus 1 --disk 0 --property accel:device_profile=gpu
${nic[0]:+  openstack keypair create --public-key ${place#"$PWD"/}/key.pub key
}  openstack server create web --flavor tiny --image berth-guest ${nic[*]:---no-network} --wait
  openstack console log show web
${nic[0]:+  ssh-guest web uname -sr      # ssh from the network of the guest, with the key
}  openstack accelerator arq list
  openstack server delete web --wait
  berth scheduler explain --help      # berth, too, asks this node there
SAY
    wait "$node" || fail "berth up ended; its last words: $(tail -n 3 "$place/log")"
    exit 0
}

[ "$#" = 1 ] || [ "$*" = "$1 stay" ] || fail "usage: guest-story.sh PLACE [stay]"
# The show alone takes no port that may be somebody's.
api=none
[ "${2:-}" != stay ] || api=${BERTH__API__LISTEN:-127.0.0.1:8770}
[ -x "$berth" ] || fail "$berth is missing; make run builds it first"
place=$(realpath -m "$1")
mkdir -p "$place"
# Of a run that was killed; what is dear to make and the same each time is kept.
end_guests
end_network
rm -rf "$place"/{state,instances,images,libvirtd,cards/sys,log,agent.sock,openrc,bin,key,key.pub,no-network}
within=()
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
stage=${STAGE:-} why="that was asked for"
[ -n "$stage" ] || pick_stage
if [ "$stage" = machine ]; then
    # A fake machine only looks whether the kernel is there.
    images=$place/images
    mkdir -p "$images"
    printf 'a kernel\n' >"$images/vmlinuz"
    boot=(--kernel "$images/vmlinuz")
    printf 'a disk\n' >"$images/disk.img"
    cat >"$images/images.toml" <<TOML
[[image]]
name = "berth-guest"
path = "$images/disk.img"
disk_format = "raw"
checksum = "sha256:$(sha256sum <"$images/disk.img" | cut -d' ' -f1)"
TOML
else
    images=$target/guest-image
    "$scripts/guest-image.sh" "$images" || fail "there is no guest to boot (see above)"
    boot=(--kernel "$images/vmlinuz" --ramdisk "$images/initrd.gz" --cmdline "console=ttyS0 quiet no_timer_check")
fi
case $stage in
host | cards | machine) "${stage}_stage" ;;
*) fail "there is no stage '$stage'; there are host, cards and machine" ;;
esac
node=${started[-1]}
story
[ "${2:-}" != stay ] || stay
kill "$node"
wait "$node" || fail "berth up did not end well; its last words: $(tail -n 3 "$place/log")"
