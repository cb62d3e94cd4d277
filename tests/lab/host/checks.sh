# Sourced by what the laboratory's host is told to do: checks with a name, waiting, and who may be asked.
# shellcheck shell=bash
FAILED=0
# Where the last words of what was asked are kept.
WORDS=${WORDS:-/tmp}

say() { echo "LAB $(cut -d' ' -f1 /proc/uptime) $*"; }

# check SENTENCE COMMAND...: the command holds.
check() {
    local sentence=$1
    shift
    if "$@" >"$WORDS/check.log" 2>&1; then
        say "ok $sentence"
    else
        say "FAILED $sentence: $* (status $?): $(tail -n 5 "$WORDS/check.log" | tr '\n' ' ')"
        FAILED=$((FAILED + 1))
    fi
}

# within SECONDS COMMAND...: the command holds before so much time is over. The seconds are an idle machine's: one with much else to
# do has four times as long.
within() {
    local end=$((SECONDS + 4 * $1))
    shift
    until "$@" >"$WORDS/within.log" 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then
            cat "$WORDS/within.log"
            return 1
        fi
        sleep 0.5
    done
}

# Three ways to ask that say yes (0) or no (1), and 2 where the command itself fails: one that could not be asked proves neither
# that something is there nor that nothing is. Never `test -z "$(command)"` or `! command | grep`: both hold where it fails.

# says PATTERN COMMAND...: what the command says has that in it.
says() {
    local pattern=$1 said
    shift
    said=$("$@") || return 2
    printf '%s\n' "$said"
    grep -qE -e "$pattern" <<<"$said"
}

# says_nothing COMMAND...: the command does what it is asked, and says nothing.
says_nothing() {
    local said
    said=$("$@") || return 2
    printf '%s\n' "$said"
    [ -z "$said" ]
}

# not COMMAND...: the command says no. (berth's 1 is a refusal; pgrep's, grep's and test's is theirs.)
not() {
    local status=0
    "$@" || status=$?
    [ "$status" = 1 ]
}

# placement METHOD PATH [BODY]: the built-in Placement's answer, over the socket of `berth up` or from `berth placement serve`.
placement() {
    local at=(http://127.0.0.1:8778)
    [ ! -S /run/berth/placement.sock ] || at=(--unix-socket /run/berth/placement.sock http://placement)
    curl -sSf -X "$1" -H 'x-auth-token: admin' -H 'openstack-api-version: placement 1.39' -H 'content-type: application/json' \
        ${3:+--data "$3"} "${at[@]::${#at[@]}-1}" "${at[-1]}$2"
}

export -f placement

# The function of this vendor and product; the second argument says which of several.
function_of() { lspci -Dn -d "$1" | awk -v which="${2:-1}" 'NR == which { print $1 }'; }

driver_of() { basename "$(readlink "/sys/bus/pci/devices/$1/driver" 2>/dev/null)"; }
# driven_by DRIVER FUNCTION
driven_by() { [ "$(driver_of "$2")" = "$1" ]; }

end() {
    say "end: $FAILED failed"
    [ "$FAILED" = 0 ]
}
