#!/bin/bash
# The long runs of the fault tests, by `make soak`: SIGKILLs of the shipped binary against the real Placement, and the long
# sweeps. Goes on where it was left: a batch of seeds that this commit has passed already is not run again. Writes
# docs/soak/DATE.md; its table sums all runs under that date, a row for each batch with its commit.
#
#   SOAK_KILLS=2000        how many seeds in all; each is one kill, or two where the recovery is killed as well
#   SOAK_SEED_FROM=1       the first seed
#   SOAK_BATCH=100         seeds per batch; after each the page is written
#
# A batch is the test program `kill` with BERTH_KILLS (how many seeds), BERTH_SEED_FROM (the first) and BERTH_KILL_REPORT: a
# file to which the program writes a line `CROSSING <tab> KILLS <tab> VIOLATIONS` for each crossing it killed at.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

KILLS=${SOAK_KILLS:-2000}
FROM=${SOAK_SEED_FROM:-1}
BATCH=${SOAK_BATCH:-100}
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
STATE=$TARGET/soak
BATCHES=$STATE/batches.tsv      # date commit program first-seed seeds kills violations seconds
CROSSINGS=$STATE/crossings.tsv  # date commit first-seed crossing kills violations

say() { printf 'soak: %s\n' "$*"; }

commit() { git describe --always --dirty --abbrev=12; }

# Whether this commit has passed this program from this seed over so many.
is_done() {
    awk -F'\t' -v c="$COMMIT" -v p="$1" -v s="$2" -v n="$3" \
        '$2==c && $3==p && $4==s && $5==n && $7==0 {found=1} END {exit !found}' "$BATCHES"
}

# The machine's paragraph, as the benchmark has it.
machine() {
    local cpu
    cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1)
    printf 'On %s (%s cores), %s GiB, %s.\n' "$cpu" "$(nproc)" "$(awk '/MemTotal/ {print int($2/1048576)}' /proc/meminfo)" "$(uname -sr)"
}

page() {
    local file=docs/soak/$DATE.md
    mkdir -p docs/soak
    {
        printf '# Soak, %s\n\nWritten by `make soak`; do not edit. ' "$DATE"
        machine
        printf '\nA violation is a unit lost, doubled or left without owner, a half-made child, or any other invariant of the audit.\n'
        printf '\n| run | commit | seeds | kills | violations | time |\n| --- | --- | --- | ---: | ---: | ---: |\n'
        awk -F'\t' -v d="$DATE" '$1==d {
            printf "| %s | %s | %s | %d | %d | %d s |\n", $3, $2, ($5 > 0 ? $4 "-" ($4 + $5 - 1) : "-"), $6, $7, $8
            kills += $6; violations += $7; seconds += $8
        } END { printf "| **all** | | | **%d** | **%d** | %d s |\n", kills, violations, seconds }' "$BATCHES"
        printf '\n## Kills by crossing\n\n| crossing | kills | violations |\n| --- | ---: | ---: |\n'
        awk -F'\t' -v d="$DATE" '$1==d { kills[$4] += $5; bad[$4] += $6 }
            END { for (at in kills) printf "| %s | %d | %d |\n", at, kills[at], bad[at] }' "$CROSSINGS" | sort
    } >"$file"
}

# One batch: its name, how many seeds, the first, then the command.
batch() {
    local name=$1 seeds=$2 seed=$3 began=$SECONDS kills=0 violations=0 log report
    shift 3
    if is_done "$name" "$seed" "$seeds"; then
        say "$name from seed $seed: done before"
        return
    fi
    log=$STATE/$name-$seed.log
    report=$STATE/$name-$seed.tsv
    rm -f "$report"
    say "$name: $seeds from seed $seed"
    if ! BERTH_KILLS=$seeds BERTH_SEED_FROM=$seed BERTH_KILL_REPORT=$report "$@" >"$log" 2>&1; then
        violations=1
        say "FAILED, see $log:"
        tail -n 20 "$log"
    fi
    if [ -s "$report" ]; then
        awk -F'\t' -v OFS='\t' -v d="$DATE" -v c="$COMMIT" -v s="$seed" '{print d, c, s, $1, $2, $3}' "$report" >>"$CROSSINGS"
        violations=$(awk -F'\t' -v v="$violations" '{sum += $3} END {print (sum > v ? sum : v)}' "$report")
        kills=$(awk -F'\t' '{sum += $2} END {print sum}' "$report")
    fi
    [ "$violations" = 0 ] || FAILED=1
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$DATE" "$COMMIT" "$name" "$seed" "$seeds" "$kills" "$violations" \
        $((SECONDS - began)) >>"$BATCHES"
    page
}

mkdir -p "$STATE"
touch "$BATCHES" "$CROSSINGS"
DATE=$(date -u +%F)
COMMIT=$(commit)
FAILED=0
cargo build --release -p berth-cli
cargo test -p berth-tests --test kill --test fault --no-run
export BERTH_PROGRAM=$TARGET/release/berth

batch sweep 0 1 cargo test -q -p berth-tests --test fault
for ((seed = FROM; seed < FROM + KILLS; seed += BATCH)); do
    left=$((FROM + KILLS - seed))
    batch kill $((left < BATCH ? left : BATCH)) "$seed" cargo test -q -p berth-tests --test kill
done
page
say "written to docs/soak/$DATE.md"
exit $FAILED
