#!/bin/bash
# Makes the real services that tests talk to: OpenStack Placement, Keystone, Glance, Cyborg and Neutron from PyPI with the
# command line client of all, pinned by requirements.txt, and empty databases of theirs as templates, so that a test starts
# one by copying a file; RabbitMQ for Cyborg's processes, Open vSwitch and OVN for Neutron.
#
# Usage:  install.sh [DIR]        DIR: default $BERTH_PEERS, else target/peers beside Cargo.toml
#
# Runs twice as well as once: a stamp file holds a hash of everything that decides the result. Where it still holds,
# nothing is done. Packages of the system come from packaging/scripts/need.sh peers.
set -eu -o pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$(dirname "$HERE")")
PEERS=$(realpath -m "${1:-${BERTH_PEERS:-$ROOT/target/peers}}")
VENV=$PEERS/venv
TEMPLATES=$PEERS/templates
RABBITMQ=$PEERS/rabbitmq
OVN=$PEERS/ovn
# RabbitMQ's server and the parts of Erlang that it loads.
BROKER="rabbitmq-server erlang-base erlang-asn1 erlang-crypto erlang-eldap erlang-inets erlang-mnesia erlang-os-mon
    erlang-parsetools erlang-public-key erlang-runtime-tools erlang-ssl erlang-syntax-tools erlang-tools erlang-xmerl"
# The packages of Open vSwitch and OVN that would start services. Their libraries are of openvswitch-common and ovn-common.
SWITCH="openvswitch-switch ovn-central ovn-host"

say() { printf 'peers: %s\n' "$*"; }
fail() {
    printf 'peers: %s\n' "$*" >&2
    exit 1
}

# The distribution's Python before one of the user's own making: uWSGI is compiled against it.
find_python() {
    local python
    for python in "${BERTH_PYTHON:-}" /usr/bin/python3 python3; do
        [ -n "$python" ] || continue
        "$python" -c 'import ensurepip, sqlite3, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        command -v "$python"
        return
    done
    fail "no Python 3.11 or newer with venv was found; on Debian: apt-get install python3-venv python3-dev, or name one in BERTH_PYTHON"
}

# Runs a step quietly; its words come out only when it fails.
quietly() {
    local log=$PEERS/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 25 "$log" >&2
        return 1
    }
}

make_venv() {
    say "installing Placement, Keystone, Glance, Cyborg, Neutron and their client into $VENV (about two minutes)"
    rm -rf "$VENV"
    quietly venv "$PYTHON" -m venv "$VENV" || fail "could not make a virtual environment with $PYTHON; on Debian: apt-get install python3-venv"
    local pip=("$VENV/bin/python" -m pip install --no-input --disable-pip-version-check)
    grep -v '^uWSGI==' "$HERE/requirements.txt" >"$PEERS/wheels.txt"
    # The list names every package, so pip need not search for dependencies.
    quietly pip "${pip[@]}" --no-deps -r "$PEERS/wheels.txt" ||
        fail "pip could not install requirements.txt (its last words are above); it needs a package index (network)"
    # Never from pip's cache: uWSGI holds the interpreter it was compiled against, which may have been another then.
    quietly uwsgi "${pip[@]}" --no-deps --no-cache-dir "$(grep '^uWSGI==' "$HERE/requirements.txt")" ||
        fail "pip could not compile uWSGI (its last words are above); it needs a C compiler and python3-dev"
    quietly pip-check "$VENV/bin/python" -m pip --disable-pip-version-check check ||
        fail "requirements.txt lacks a package, or has a version that another package does not accept (above)"
}

# Debian's packages, unpacked and not installed: the system gets no broker, port mapper or switch that would start with it.
unpack() {
    local folder=$1 packages=$1/packages package
    shift
    say "unpacking $1 into $folder"
    rm -rf "$folder"
    mkdir -p "$folder/system" "$packages"
    (cd "$packages" && quietly "$1" apt-get -qq download "$@") || {
        say "the package lists may be old; refreshing them"
        apt-get -qq -o DPkg::Lock::Timeout=300 update || true
        (cd "$packages" && quietly "$1" apt-get -qq download "$@") ||
            fail "apt-get could not download $* (its last words are above)"
    }
    for package in "$packages"/*.deb; do
        dpkg-deb -x "$package" "$folder/system" || fail "$package could not be unpacked"
    done
    rm -r "$packages"
}

unpack_rabbitmq() {
    local system=$RABBITMQ/system
    # shellcheck disable=SC2086 # a list of words
    unpack "$RABBITMQ" $BROKER
    # Erlang's own start script says where Debian would have put it.
    sed -i "s|ROOTDIR=/usr/lib/erlang|ROOTDIR=$system/usr/lib/erlang|" "$system/usr/lib/erlang/bin/erl"
}

# Both databases hold the standard traits and resource classes already: two workers that fill them at once on SQLite fail.
placement_template() {
    local name=$1 url=$2 etc=$PEERS/etc-placement
    mkdir -p "$etc"
    printf '[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = %s\n' "$url" >"$etc/placement.conf"
    export OS_PLACEMENT_CONFIG_DIR=$etc
    quietly "placement-$name" "$VENV/bin/placement-manage" --config-file "$etc/placement.conf" db sync ||
        fail "placement-manage db sync failed on $name (its last words are above)"
    quietly "placement-$name-traits" "$VENV/bin/python" -c 'import placement.wsgi.api' ||
        fail "Placement could not write its standard traits on $name (its last words are above)"
    rm -r "$etc"
}

# Cyborg's migrations do not run on SQLite.
cyborg_template() {
    local etc=$PEERS/etc-cyborg
    mkdir -p "$etc"
    printf '[database]\nconnection = %s\n' "$1" >"$etc/cyborg.conf"
    quietly cyborg-dbsync "$VENV/bin/cyborg-dbsync" --config-file "$etc/cyborg.conf" upgrade ||
        fail "cyborg-dbsync failed (its last words are above)"
    rm -r "$etc"
}

neutron_template() {
    local etc=$PEERS/etc-neutron
    mkdir -p "$etc"
    printf '[DEFAULT]\ncore_plugin = ml2\n[database]\nconnection = %s\n' "$1" >"$etc/neutron.conf"
    quietly neutron-db-manage "$VENV/bin/neutron-db-manage" --config-file "$etc/neutron.conf" upgrade heads ||
        fail "neutron-db-manage failed (its last words are above)"
    rm -r "$etc"
}

# A data directory, never running: each test process copies it and starts a server of its own on the copy.
mariadb_template() {
    local data=$TEMPLATES/mariadb run=$PEERS/mariadb-run
    local server=(setpriv --pdeathsig TERM mariadbd --no-defaults --datadir="$data" --socket="$run/sock" --pid-file="$run/pid"
        --skip-networking --user=root --skip-log-bin --innodb-buffer-pool-size=64M --innodb-fast-shutdown=0
        # Small logs: the directory is copied for each test process.
        --innodb-log-file-size=4M)
    rm -rf "$run"
    mkdir -p "$run"
    quietly mariadb-install mariadb-install-db --no-defaults --user=root --datadir="$data" --skip-test-db \
        --auth-root-authentication-method=normal --innodb-log-file-size=4M || fail "mariadb-install-db failed (its last words are above)"
    # Without the lock (9), which it would hold on to were this script killed.
    "${server[@]}" >"$PEERS/mariadb.log" 2>&1 9>&- &
    SERVER=$!
    trap 'kill "$SERVER" 2>/dev/null || true' EXIT
    local sql=(mariadb --no-defaults -uroot -S "$run/sock")
    for _ in $(seq 300); do
        "${sql[@]}" -e 'select 1' >/dev/null 2>&1 && break
        kill -0 "$SERVER" 2>/dev/null || break
        sleep 0.1
    done
    "${sql[@]}" -e "create database placement character set utf8mb3;
        create user placement@'127.0.0.1' identified by 'test-only'; create user placement@localhost identified by 'test-only';
        grant all on *.* to placement@'127.0.0.1'; grant all on *.* to placement@localhost;" 2>>"$PEERS/mariadb.log" || {
        tail -n 15 "$PEERS/mariadb.log" >&2
        fail "MariaDB did not start (its last words are above)"
    }
    placement_template mariadb "mysql+pymysql://placement:test-only@localhost/placement?charset=utf8&unix_socket=$run/sock"
    mariadb-dump --no-defaults -uroot -S "$run/sock" placement >"$TEMPLATES/placement.sql"
    "${sql[@]}" -e 'drop database placement; create database cyborg character set utf8mb3'
    cyborg_template "mysql+pymysql://placement:test-only@localhost/cyborg?charset=utf8&unix_socket=$run/sock"
    mariadb-dump --no-defaults -uroot -S "$run/sock" cyborg >"$TEMPLATES/cyborg.sql"
    "${sql[@]}" -e 'drop database cyborg; create database neutron character set utf8mb3'
    neutron_template "mysql+pymysql://placement:test-only@localhost/neutron?charset=utf8&unix_socket=$run/sock"
    mariadb-dump --no-defaults -uroot -S "$run/sock" neutron >"$TEMPLATES/neutron.sql"
    "${sql[@]}" -e 'drop database neutron'
    kill "$SERVER"
    wait "$SERVER" || true
    trap - EXIT
    rm -rf "$run"
}

glance_template() {
    local etc=$PEERS/etc-glance
    mkdir -p "$etc"
    printf '[database]\nconnection = %s\n' "$1" >"$etc/glance.conf"
    quietly glance-sync "$VENV/bin/glance-manage" --config-file "$etc/glance.conf" db sync ||
        fail "glance-manage db sync failed (its last words are above)"
    rm -r "$etc"
}

keystone_template() {
    local dir=$TEMPLATES/keystone
    mkdir -p "$dir/fernet" "$dir/credential"
    chmod 0700 "$dir/fernet" "$dir/credential"
    sed "s|@DIR@|$dir|g; s|@EXPIRATION@|3600|" "$HERE/keystone.conf" >"$dir/keystone.conf"
    local manage=("$VENV/bin/keystone-manage" --config-file "$dir/keystone.conf") user group
    user=$(id -un)
    group=$(id -gn)
    quietly keystone-sync "${manage[@]}" db_sync || fail "keystone-manage db_sync failed (its last words are above)"
    quietly keystone-fernet "${manage[@]}" fernet_setup --keystone-user "$user" --keystone-group "$group" || fail "keystone-manage fernet_setup failed"
    quietly keystone-credential "${manage[@]}" credential_setup --keystone-user "$user" --keystone-group "$group" || fail "keystone-manage credential_setup failed"
    quietly keystone-bootstrap "${manage[@]}" bootstrap --bootstrap-password test-only --bootstrap-region-id RegionOne || fail "keystone-manage bootstrap failed (its last words are above)"
    OS_KEYSTONE_CONFIG_DIR=$dir quietly keystone-seed "$VENV/bin/python" "$HERE/keystone_seed.py" "$dir/seed.json" || fail "Keystone could not be given its users (its last words are above)"
    rm "$dir/keystone.conf"
}

main() {
    PYTHON=$(find_python)
    mkdir -p "$PEERS"
    # One at a time: two that install into one place would each break the other's work.
    exec 9>"$PEERS/lock"
    flock 9
    local venv_stamp rabbitmq_stamp switch_stamp stamp
    venv_stamp=$({
        echo "$VENV $PYTHON" && "$PYTHON" --version && declare -f make_venv && cat "$HERE/requirements.txt"
    } | sha256sum | cut -c1-16)
    rabbitmq_stamp=$({ echo "$RABBITMQ $BROKER" && declare -f unpack unpack_rabbitmq; } | sha256sum | cut -c1-16)
    switch_stamp=$({ echo "$OVN $SWITCH" && declare -f unpack; } | sha256sum | cut -c1-16)
    stamp=$({
        echo "$venv_stamp" && cat "$HERE"/install.sh "$HERE"/keystone_seed.py "$HERE"/keystone.conf && mariadbd --version
    } | sha256sum | cut -c1-16)
    if [ "$(cat "$PEERS/stamp" 2>/dev/null)" = "$stamp" ]; then
        say "already in $PEERS"
        return
    fi
    rm -f "$PEERS/stamp"
    if [ "$(cat "$VENV/stamp" 2>/dev/null)" != "$venv_stamp" ]; then
        make_venv
        echo "$venv_stamp" >"$VENV/stamp"
    fi
    if [ "$(cat "$RABBITMQ/stamp" 2>/dev/null)" != "$rabbitmq_stamp" ]; then
        unpack_rabbitmq
        echo "$rabbitmq_stamp" >"$RABBITMQ/stamp"
    fi
    if [ "$(cat "$OVN/stamp" 2>/dev/null)" != "$switch_stamp" ]; then
        # shellcheck disable=SC2086 # a list of words
        unpack "$OVN" $SWITCH
        echo "$switch_stamp" >"$OVN/stamp"
    fi
    say "making the template databases"
    rm -rf "$TEMPLATES"
    mkdir -p "$TEMPLATES"
    placement_template sqlite "sqlite:///$TEMPLATES/placement.sqlite"
    glance_template "sqlite:///$TEMPLATES/glance.sqlite"
    keystone_template
    mariadb_template
    echo "$stamp" >"$PEERS/stamp"
    say "ready in $PEERS"
}

main
