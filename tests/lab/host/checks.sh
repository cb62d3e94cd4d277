# Sourced by what the laboratory's host is told to do: checks with a name, waiting, and who may be asked.
# shellcheck shell=bash
FAILED=0

say() { echo "LAB $(cut -d' ' -f1 /proc/uptime) $*"; }

# check SENTENCE COMMAND...: the command holds.
check() {
    local sentence=$1
    shift
    if "$@" >/tmp/check.log 2>&1; then
        say "ok $sentence"
    else
        say "FAILED $sentence: $* (status $?): $(tail -n 5 /tmp/check.log | tr '\n' ' ')"
        FAILED=$((FAILED + 1))
    fi
}

# within SECONDS COMMAND...: the command holds before so much time is over. The seconds are an idle machine's: one with much else to
# do has four times as long.
within() {
    local end=$((SECONDS + 4 * $1))
    shift
    until "$@" >/tmp/within.log 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then
            cat /tmp/within.log
            return 1
        fi
        sleep 0.5
    done
}

not() { ! "$@"; }

# placement METHOD PATH [BODY]: the built-in Placement's answer.
placement() {
    curl -sS -X "$1" -H 'x-auth-token: admin' -H 'openstack-api-version: placement 1.39' -H 'content-type: application/json' \
        ${3:+--data "$3"} "http://127.0.0.1:8778$2"
}

export -f placement

# The function of this vendor and product; the second argument says which of several.
function_of() { lspci -Dn -d "$1" | awk -v which="${2:-1}" 'NR == which { print $1 }'; }

driver_of() { basename "$(readlink "/sys/bus/pci/devices/$1/driver" 2>/dev/null)"; }

end() {
    say "end: $FAILED failed"
    [ "$FAILED" = 0 ]
}
