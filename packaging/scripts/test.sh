#!/bin/bash
# Builds and runs every test program of the workspace, as many beside each other as there are processors: most of them wait for a
# server or a guest for much of their time. What a program says is shown when it ends; those that failed are named at the end.
#
# Usage:  test.sh [ARGUMENT...]   each program gets the arguments: a part of a test's name, say
#   TEST_LANES=2          how many programs at once
#   RUST_TEST_THREADS=2   how many tests at once in each; both are the number of processors where nothing is said
#   TEST_LIMIT=2700       after how many seconds a program is ended, and has failed: one of its tests waits for ever, then
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

LANES=${TEST_LANES:-$(nproc)}
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(nproc)}
LIMIT=${TEST_LIMIT:-2700}
# Those that take longest, the longest first: nobody waits for one that began last.
LONG='databases program scenarios fault real_cyborg conformance real_placement kill berth_agent berth_agent_instances berth_agent_images'
LOGS=$(mktemp -d)
FAILED=()

# A line for each: where it runs, its file, its name.
programs() {
    cargo test --workspace --tests --no-run --message-format=json-render-diagnostics |
        sed -n '/"profile":{[^}]*"test":true/s/.*"manifest_path":"\([^"]*\)\/Cargo\.toml".*"executable":"\([^"]*\)".*/\1\t\2/p' |
        while IFS=$'\t' read -r folder program; do
            printf '%s\t%s\t%s\n' "$folder" "$program" "$(basename "$program" | sed 's/-[0-9a-f]*$//')"
        done
}

# The long ones first.
in_order() {
    awk -F'\t' -v long="$LONG" 'BEGIN { n = split(long, names, " "); for (i in names) place[names[i]] = i }
        { print (($3 in place) ? place[$3] : n + 1) "\t" $0 }' | sort -s -n -k1,1 | cut -f2-
}

# The tests of a program that had begun long ago and were not at their end. Where tests run one by one that is the last one: its
# line has no end.
not_ended() {
    {
        sed -n 's/^test \(.*\) has been running for over .*/\1/p' "$1"
        sed -n '$s/^test \(.*\) \.\.\. $/\1/p' "$1"
    } | sort -u | grep -vxFf <(sed -n 's/^test \(.*\) \.\.\. [a-zA-Z].*/\1/p' "$1" | sed 's/ - should panic$//') || true
}

# Waits for one of those under way, and shows what it said.
ended() {
    local pid status=0
    wait -n -p pid || status=$?
    printf '\n     Ran %s in %s s\n' "${NAMES[$pid]}" $((SECONDS - BEGAN[$pid]))
    cat "${SAID[$pid]}"
    # 124, or 137: its time is over; others are signals.
    if ((status >= 124)); then
        printf '\ntest: %s was ended (status %s; TEST_LIMIT is %s s); not at their end: %s\n' "${NAMES[$pid]}" "$status" "$LIMIT" \
            "$(not_ended "${SAID[$pid]}" | paste -s -d ' ')"
    fi
    [ "$status" = 0 ] || FAILED+=("${NAMES[$pid]}")
    unset "NAMES[$pid]"
}

# Whoever is under way is ended as well, and named.
give_up() {
    local pid
    for pid in "${!NAMES[@]}"; do
        printf '\ntest: %s was under way for %s s; not at their end: %s\n' "${NAMES[$pid]}" $((SECONDS - BEGAN[$pid])) \
            "$(not_ended "${SAID[$pid]}" | paste -s -d ' ')" >&2
        kill "$pid" 2>/dev/null || true
    done
    rm -rf "$LOGS"
}

declare -A NAMES=() SAID=() BEGAN=()
trap give_up EXIT
trap 'exit 130' INT TERM
programs | in_order >"$LOGS/programs"
if [ ! -s "$LOGS/programs" ]; then
    echo "test: cargo names no test program; cargo test --workspace --tests runs them one after another" >&2
    exit 1
fi
while IFS=$'\t' read -r folder program name <&3; do
    while ((${#NAMES[@]} >= LANES)); do ended; done
    name=${folder#"$PWD"/}/$name
    said=$LOGS/${program##*/}
    printf '     Running %s\n' "$name"
    (cd "$folder" && CARGO_MANIFEST_DIR=$folder exec timeout -k 30 "$LIMIT" "$program" "$@") >"$said" 2>&1 </dev/null &
    NAMES[$!]=$name SAID[$!]=$said BEGAN[$!]=$SECONDS
done 3<"$LOGS/programs"
while ((${#NAMES[@]} > 0)); do ended; done
if ((${#FAILED[@]} > 0)); then
    printf '\ntest: failed: %s\n' "${FAILED[*]}" >&2
    exit 101
fi
