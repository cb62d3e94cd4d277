#!/bin/bash
# Runs a private libvirtd in the foreground: configuration, state, logs and sockets under DIR, none of the machine's own.
# For machines without systemd, for tests and for the demonstration; a node in service runs the distribution's libvirtd.
#
# Usage:  libvirtd.sh DIR [CACHE_DIR]
#   DIR/sock/libvirt-sock      where it listens:  qemu+unix:///system?socket=DIR/sock/libvirt-sock
#   CACHE_DIR                  what it learnt about QEMU; kept between runs it saves about ten seconds (default DIR/cache)
#
# Runs as root: libvirt's paths are fixed, so they are covered by bind mounts in a mount namespace of its own. Where none can be
# made it ends with 69.
set -eu

fail() {
    printf 'libvirtd: %s\n' "$*" >&2
    exit 1
}

prepare() {
    mkdir -p "$DIR"/{etc/qemu,run,lib,log,sock} "$CACHE" /run/libvirt /etc/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt
    cat >"$DIR/etc/libvirtd.conf" <<CONF
unix_sock_dir = "$DIR/sock"
unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
CONF
    # Several such daemons each give their guests VNC ports of their own: one does not know what another is about to use. The
    # daemon keeps the lock (9) of its range, which its guests do not have.
    local range=$(($(printf '%s' "$DIR" | cksum | cut -d' ' -f1) % 268)) ports
    mkdir -p /run/lock
    for _ in $(seq 268); do
        exec 9>"/run/lock/berth-libvirtd-ports-$range"
        flock --nonblock 9 && break
        range=$(((range + 1) % 268))
    done
    ports=$((5900 + range * 100))
    # Neither cgroups, AppArmor nor a log daemon may be assumed.
    cat >"$DIR/etc/qemu.conf" <<CONF
remote_display_port_min = $ports
remote_display_port_max = $((ports + 99))
user = "root"
group = "root"
security_driver = "none"
namespaces = [ ]
cgroup_controllers = [ ]
remember_owner = 0
dynamic_ownership = 0
seccomp_sandbox = 0
stdio_handler = "file"
CONF
    # The QEMU driver looks this account up, whatever qemu.conf says, and gives up without it.
    cp /etc/passwd "$DIR/passwd"
    cp /etc/group "$DIR/group"
    grep -q '^libvirt-qemu:' "$DIR/passwd" || echo 'libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin' >>"$DIR/passwd"
    grep -q '^libvirt-qemu:' "$DIR/group" || echo 'libvirt-qemu:x:64055:' >>"$DIR/group"
}

inside() {
    mount --bind "$DIR/run" /run/libvirt
    mount --bind "$DIR/etc" /etc/libvirt
    mount --bind "$DIR/lib" /var/lib/libvirt
    mount --bind "$DIR/log" /var/log/libvirt
    mount --bind "$CACHE" /var/cache/libvirt
    mount --bind "$DIR/passwd" /etc/passwd
    mount --bind "$DIR/group" /etc/group
    exec libvirtd -f "$DIR/etc/libvirtd.conf" -p "$DIR/libvirtd.pid"
}

[ "$#" -ge 1 ] || fail "usage: libvirtd.sh DIR [CACHE_DIR]"
DIR=$(realpath -m "$1")
CACHE=$(realpath -m "${2:-$DIR/cache}")
if [ "${BERTH_LIBVIRTD_INSIDE:-}" = yes ]; then
    unset BERTH_LIBVIRTD_INSIDE
    inside
fi
command -v libvirtd >/dev/null || fail "libvirtd is not installed; on Debian: packaging/scripts/need.sh node"
[ "$(id -u)" = 0 ] || fail "must run as root"
if ! words=$(unshare --mount true 2>&1); then
    echo "libvirtd: a private libvirtd needs a mount namespace of its own, and none can be made here (a container without CAP_SYS_ADMIN, or a chroot that is no mount point): $words" >&2
    exit 69
fi
prepare
BERTH_LIBVIRTD_INSIDE=yes exec unshare --mount --propagation private -- "$0" "$DIR" "$CACHE"
