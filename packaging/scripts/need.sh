#!/bin/bash
# Installs the Debian packages that a piece of work needs and that are not there yet.
#
# Usage:  need.sh GROUP...        groups: build node peers
#
#   build   to compile berth and its tests, and to run them: a C and a C++ compiler, libvirt's headers, Python
#   node    to be a hypervisor: libvirt, QEMU and its firmware, curl
#   peers   to test against real services: Python with venv, MariaDB's and PostgreSQL's server programs, Open vSwitch, OVN,
#           systemd-analyze, curl
#
# Asks nothing, starts no service, removes nothing. Where all is there it only looks (dpkg), and says nothing.
# Called by the Makefile; with another package system install the same things by hand and set BERTH_NEED=skip.
set -eu -o pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

BUILD="gcc g++ libc6-dev pkg-config libvirt-dev make python3"
NODE="curl libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients libxml2-utils qemu-system-x86 qemu-utils ovmf util-linux iproute2 dnsmasq-base openssh-client"
# mariadb-server-core holds the server's program and no system service, so that no database of ours starts beside yours.
# PostgreSQL's server has no such package: see no_cluster.
PEERS="systemd curl ca-certificates python3 python3-venv python3-dev mariadb-server-core mariadb-client postgresql util-linux iproute2 openvswitch-switch
    ovn-common"

fail() {
    printf 'need: %s\n' "$*" >&2
    exit 1
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing() {
    local package
    for package; do installed "$package" || printf '%s ' "$package"; done
}

apt() {
    apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold \
        -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

# Debian makes and starts a database system with PostgreSQL's server, unless this file says that it shall not. Where the
# server is already there, or somebody has said how to make one, nothing is touched.
no_cluster() {
    local folder=/etc/postgresql-common/createcluster.d
    [ ! -e /usr/bin/pg_createcluster ] && [ ! -e "$folder" ] || return 0
    mkdir -p "$folder"
    echo 'create_main_cluster = false' >"$folder/berth-tests.conf"
}

# Open vSwitch has no package without a system service. This file keeps Debian from starting services while packages are
# installed. Where the machine has such a file already, its rules apply.
POLICY=/usr/sbin/policy-rc.d
no_services() {
    [ ! -e "$POLICY" ] || return 0
    printf '#!/bin/sh\n# Of need.sh, which removes it after the installation.\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
    trap 'rm -f "$POLICY"' EXIT
}

# QEMU's pieces must be of one version: a newer qemu-utils (from backports, say) blocks the stock emulator. Then
# qemu-utils follows it rather than being removed.
install_packages() {
    apt --no-remove install "$@" && return 0
    case " $* " in
    *" qemu-system-x86 "*)
        installed qemu-utils || return 1
        local version
        version=$(apt-cache policy qemu-system-x86 | sed -n 's/^ *Candidate: \([^+]*\).*/\1/p')
        version=$(apt-cache madison qemu-utils | awk -F'|' -v like="$version" 'index($2, like) {gsub(/ /, "", $2); print $2; exit}')
        [ -n "$version" ] || return 1
        echo "need: qemu-utils goes to $version, the version of the emulator"
        apt --no-remove --allow-downgrades install "$@" "qemu-utils=$version"
        ;;
    *) return 1 ;;
    esac
}

main() {
    [ "${BERTH_NEED:-}" != skip ] || return 0
    local wanted="" group
    for group; do
        case $group in
        build) wanted="$wanted $BUILD" ;;
        node) wanted="$wanted $NODE" ;;
        peers) wanted="$wanted $PEERS" ;;
        *) fail "unknown group '$group'; the groups are build, node, peers" ;;
        esac
    done
    command -v dpkg-query >/dev/null || fail "this is not a Debian system: install by hand what stands for:$wanted; then set BERTH_NEED=skip"
    local lacking
    # shellcheck disable=SC2086 # a list of words
    lacking=$(missing $wanted)
    [ -n "$lacking" ] || return 0
    [ "$(id -u)" = 0 ] || fail "these packages are missing, and only root can install them: $lacking"
    case " $lacking " in *" postgresql "*) no_cluster ;; esac
    case " $lacking " in *" openvswitch-switch "*) no_services ;; esac
    echo "need: installing $lacking"
    # shellcheck disable=SC2086
    if ! install_packages $lacking 2>/dev/null; then
        echo "need: the package lists may be old; refreshing them"
        apt-get -qq -o DPkg::Lock::Timeout=300 update || true
        # shellcheck disable=SC2086
        install_packages $lacking || fail "apt-get could not install: $lacking (its own words are above). Mend apt (network, sources, disk), then run the same command again"
    fi
}

main "$@"
