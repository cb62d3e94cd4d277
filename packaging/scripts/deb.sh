#!/bin/bash
# Makes the Debian package: the program, its units, its configuration, manual pages, completions, documentation, monitoring.
#
# Usage:  deb.sh [FOLDER]                 FOLDER: where the package goes (default target/deb)
#         deb.sh --documentation FOLDER   only the package's documentation, and a check of its links
#
# Environment: BERTH_PROGRAM, a program that is built already (default: a release build is made).
# Nothing is installed, and no root is needed. The package: berth_VERSION_ARCH.deb
set -eu -o pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

fail() {
    printf 'deb: %s\n' "$*" >&2
    exit 1
}

documentation=
if [ "${1:-}" = --documentation ]; then
    documentation=${2:-}
    [ -n "$documentation" ] || fail "--documentation needs a folder"
else
    folder=$(realpath -m "${1:-$target/deb}")
fi

[ -n "$documentation" ] || command -v dpkg-deb >/dev/null || fail "dpkg-deb is missing: Debian packages are made on Debian"

version() {
    sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml
}

# Which version of which library the program needs. dpkg-shlibdeps knows it exactly, and is in dpkg-dev.
needed_libraries() {
    local work
    command -v dpkg-shlibdeps >/dev/null || {
        echo "libc6 (>= 2.36), libgcc-s1"
        return
    }
    work=$(mktemp -d)
    mkdir "$work/debian"
    printf 'Source: berth\n\nPackage: berth\nArchitecture: any\n' >"$work/debian/control"
    (cd "$work" && dpkg-shlibdeps -O -e"$1" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
    rm -rf "$work"
}

# All of docs, so that links between its folders work; the pages beside it with their links changed accordingly.
stage_documentation() {
    local folder=$1 page broken
    mkdir -p "$folder/monitoring"
    cp -R docs/. "$folder/"
    # A link from the guide to a page next to docs.
    sed -i 's,](\.\./\.\./\.\./,](../../,g' "$folder"/guide/*/*.md
    for page in README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md; do
        sed -e 's,](docs/,](,g' -e 's,](CHANGELOG.md),](CHANGELOG.md.gz),g' "$page" >"$folder/$page"
    done
    gzip -9nc CHANGELOG.md >"$folder/CHANGELOG.md.gz"
    install -m 0644 -t "$folder/monitoring" packaging/monitoring/*
    install -D -m 0644 -t "$folder/examples" systemd/*.conf
    install -m 0644 packaging/debian/copyright packaging/berth.toml.sample "$folder/"
    broken=$(broken_links "$folder")
    [ -z "$broken" ] || fail "links that lead to no file of the package:"$'\n'"$broken"
}

# Prints each relative link of the pages below a folder that leads to no file. Code blocks have no links.
broken_links() {
    local page link
    while IFS= read -r -d '' page; do
        while IFS= read -r link; do
            [ -e "$(dirname "$page")/$link" ] || echo "${page#"$1"/}: $link"
        done < <(sed '/^ *```/,/^ *```/d' "$page" | grep -oE '\]\([^)# ]+' | cut -c3- | grep -v ://)
    done < <(find "$1" -name '*.md' -print0)
}

stage() {
    local root=$1 program=$2 file
    install -D -m 0755 "$program" "$root/usr/bin/berth"
    # A release is stripped by its build; what is given may not be.
    ! command -v strip >/dev/null || strip --strip-unneeded "$root/usr/bin/berth"
    install -D -m 0640 packaging/berth.toml "$root/etc/berth/berth.toml"
    install -d -m 0750 "$root/etc/berth/berth.d"
    install -D -m 0644 -t "$root/lib/systemd/system" systemd/*.service
    install -D -m 0644 systemd/berth.sysusers "$root/usr/lib/sysusers.d/berth.conf"
    install -D -m 0644 systemd/berth.tmpfiles "$root/usr/lib/tmpfiles.d/berth.conf"
    install -D -m 0644 packaging/debian/default "$root/etc/default/berth"
    install -D -m 0644 packaging/debian/logrotate "$root/etc/logrotate.d/berth"
    mkdir -p "$root/usr/share/man/man1"
    "$program" man --dir "$root/usr/share/man/man1" >/dev/null
    find "$root/usr/share/man" -type f -exec gzip -9n {} +
    install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
        "$root/usr/share/fish/vendor_completions.d"
    "$program" completion bash >"$root/usr/share/bash-completion/completions/berth"
    "$program" completion zsh >"$root/usr/share/zsh/vendor-completions/_berth"
    "$program" completion fish >"$root/usr/share/fish/vendor_completions.d/berth.fish"
    stage_documentation "$root/usr/share/doc/berth"
    find "$root/usr/share" -type f -exec chmod 0644 {} +
    find "$root/usr" -type d -exec chmod 0755 {} +
    mkdir -p "$root/DEBIAN"
    for file in postinst prerm postrm; do
        install -m 0755 "packaging/debian/$file" "$root/DEBIAN/$file"
    done
    printf '/etc/berth/berth.toml\n/etc/default/berth\n/etc/logrotate.d/berth\n' >"$root/DEBIAN/conffiles"
    (cd "$root" && find usr lib -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
}

control() {
    local root=$1
    cat <<CONTROL
Package: berth
Version: $(version)
Architecture: $(dpkg --print-architecture)
Maintainer: The Berth project <maintainers@berth.example>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $(needed_libraries "$root/usr/bin/berth"), iproute2
Recommends: libvirt-daemon-system, qemu-system-x86 | qemu-system, qemu-utils, novnc
Suggests: ovmf, openvswitch-switch, ovn-host
Section: admin
Priority: optional
Description: compute-node agent for OpenStack-style clouds
 Reports this host's inventory to Placement, reshapes its provider tree when a
 new version models the machine differently, and boots libvirt guests with the
 accelerators that were bound for them. Placement and an accelerator service
 are built in.
CONTROL
}

if [ -n "$documentation" ]; then
    stage_documentation "$documentation"
    exit
fi
program=${BERTH_PROGRAM:-}
if [ -z "$program" ]; then
    echo "deb: building the release (some minutes)"
    # Without `replay`: answering files of test cases is no task of an installation.
    cargo build --release -p berth-cli --no-default-features --features libvirt
    program=$target/release/berth
fi
[ -x "$program" ] || fail "$program is not an executable file"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"
stage "$root" "$program"
control "$root" >"$root/DEBIAN/control"
mkdir -p "$folder"
package=$folder/berth_$(version)_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package.new" >/dev/null
mv "$package.new" "$package"
echo "deb: $package ($(du -h "$package" | cut -f1)); install it with: apt install $package"
