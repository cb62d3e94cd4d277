#!/bin/bash
# The long runs of the fault tests, by `make soak`: SIGKILLs of the shipped binary against the real Placement, and the long
# sweeps. Goes on where it was left: a batch of seeds that this commit has passed already is not run again. Writes
# docs/soak/DATE.md; its table sums all runs under that date, a row for each batch with its commit.
#
#   SOAK_KILLS=2000        how many seeds in all; each is one kill, or two where the recovery is killed as well
#   SOAK_SEED_FROM=1       the first seed
#   SOAK_BATCH=50          seeds per batch; after each the page is written
#   SOAK_PAIRS=kill        the sweep's second faults: at every crossing of the recovery from a kill; `all` takes a night
#   SOAK_PARTS=8           into how many batches the sweep is cut; after each the page is written
#   SOAK_CYCLES=1000       how many guests are made and unmade on libvirtd and QEMU, in batches of SOAK_CYCLE_BATCH (200); the
#                          first batch without a kill, so that one process does it, all others with
#   SOAK_GUEST_FAULTS=1    one of so many faults in guests' journeys, each alone, before the pairs; 0: none
#   SOAK_GUEST_OPT_LEVEL=2 how the program of guests' journeys is optimised; 0 needs no build of its own and runs slower
#   SOAK_GUEST_PAIRS=8     after each fault in a guest's journey a kill at one of so many crossings of the recovery
#   SOAK_GUEST_PAIR_FAULTS=kill  what strikes second; `all` is every fault
#   SOAK_GUEST_SEEDS=100000  how many seeds of the swarm of guests' journeys
#   SOAK_GUEST_SEED_FROM=1 the first of them: another commit may go on where one was left
#   SOAK_GUEST_BATCH=1000  seeds of them per batch
#   SOAK_CYCLE_LANES=4     how many batches of them at once: they wait more than they work
#   SOAK_CLAIMS=1000       how many contests for the last units of a provider, for each database, isolation level, number of
#                          processes and of writers, in batches of SOAK_CLAIM_BATCH (20)
#   SOAK_SERVICE_KILLS=200 how often `berth placement serve` is killed under load, on SQLite and on PostgreSQL, in batches of 20
#   SOAK_BOOTS=500         how many servers boot and go while they are killed, in batches of SOAK_BOOT_BATCH (60): half of them on a
#                          `berth up`, half on a `berth controller` and two agents, of which one is killed each time
#   SOAK_FUZZ=100000000    how many inputs the fuzzer of Placement makes up, in batches of SOAK_FUZZ_BATCH (5000000) over its five
#                          targets; what leads somewhere new is kept for the next batch
#   SOAK_FUZZ_COMPARES=1   0: the fuzzer is led by what its inputs reach alone, and not by what is compared with what; quicker
#   SOAK_FUZZ_FROM=1       the first batch: each has a seed of its own, and another machine may go on where one was left
#   SOAK_EXAMPLES=60       how many requests schemathesis makes up for each operation in each of its runs; 0: it is left out
#   SOAK_CLOUD_EXAMPLES    the same for compute and identity; SOAK_EXAMPLES where nothing is said
#   SOAK_CLOUD_SEED=1      what the requests to compute and identity are made up from
#   SOAK_SUITE=1           0: without one run of all that `make test` runs a sample of
#   SOAK_ONLY=guests       only what is about guests' journeys; SOAK_ONLY=cycles: only the guests on libvirtd and QEMU;
#                          SOAK_ONLY=boots: only the servers on processes that are killed;
#                          SOAK_ONLY=claims: only the contests and the kills of the built-in Placement; SOAK_ONLY=fuzz: only bad
#                          input to it
#   BERTH_PROGRAM=FILE     strike this program and build none: a trial, which keeps its own books and writes DATE-trial.md
#
# Guests' journeys are swept and swarmed by the test program `fault` as well, one built for speed (tests/fault/guests/sweep.rs and
# swarm.rs say by which variables).
# The sweep is the test program `fault` with BERTH_FAULT_PAIRS and BERTH_FAULT_PART (N/M). A batch of kills is the test `kill` of the program `processes` with BERTH_KILLS
# (how many seeds), BERTH_KILL_SEED_FROM (the first) and BERTH_KILL_REPORT: a file to which the program writes a line
# `CROSSING <tab> KILLS <tab> VIOLATIONS` for each crossing it killed at. A batch of cycles is its test `cycles`
# (tests/cycles/main.rs).
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

KILLS=${SOAK_KILLS:-2000}
FROM=${SOAK_SEED_FROM:-1}
BATCH=${SOAK_BATCH:-50}
PAIRS=${SOAK_PAIRS:-kill}
PARTS=${SOAK_PARTS:-8}
GUEST_FAULTS=${SOAK_GUEST_FAULTS:-1}
GUEST_OPT_LEVEL=${SOAK_GUEST_OPT_LEVEL:-2}
GUEST_PAIRS=${SOAK_GUEST_PAIRS:-8}
GUEST_PAIR_FAULTS=${SOAK_GUEST_PAIR_FAULTS:-kill}
GUEST_SEEDS=${SOAK_GUEST_SEEDS:-100000}
GUEST_FROM=${SOAK_GUEST_SEED_FROM:-1}
GUEST_BATCH=${SOAK_GUEST_BATCH:-1000}
ONLY=${SOAK_ONLY:-}
SUITE=${SOAK_SUITE:-1}
CLAIMS=${SOAK_CLAIMS:-1000}
CLAIM_BATCH=${SOAK_CLAIM_BATCH:-20}
SERVICE_KILLS=${SOAK_SERVICE_KILLS:-200}
SERVICE_KILL_BATCH=20
FUZZ=${SOAK_FUZZ:-100000000}
FUZZ_BATCH=${SOAK_FUZZ_BATCH:-5000000}
FUZZ_FROM=${SOAK_FUZZ_FROM:-1}
COMPARES=${SOAK_FUZZ_COMPARES:-1}
EXAMPLES=${SOAK_EXAMPLES:-60}
CLOUD_EXAMPLES=${SOAK_CLOUD_EXAMPLES:-$EXAMPLES}
CLOUD_SEED=${SOAK_CLOUD_SEED:-1}
BOOTS=${SOAK_BOOTS:-500}
BOOT_BATCH=${SOAK_BOOT_BATCH:-60}
[ "$ONLY" = '' ] || [ "$ONLY" = boots ] || BOOTS=0
[ "$ONLY" != boots ] || KILLS=0 PARTS=0 CLAIMS=0 SERVICE_KILLS=0
[ "$ONLY" != cycles ] || KILLS=0 PARTS=0 CLAIMS=0 SERVICE_KILLS=0
[ "$ONLY" != claims ] || KILLS=0 PARTS=0
[ "$ONLY" != fuzz ] || KILLS=0 PARTS=0 CLAIMS=0 SERVICE_KILLS=0
CYCLES=${SOAK_CYCLES:-1000}
CYCLE_BATCH=${SOAK_CYCLE_BATCH:-200}
CYCLE_LANES=${SOAK_CYCLE_LANES:-4}
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
GIVEN=${BERTH_PROGRAM:-}
STATE=$TARGET/soak${GIVEN:+-trial}
BATCHES=$STATE/batches.tsv      # date commit run first-seed seeds kills violations seconds cases
CROSSINGS=$STATE/crossings.tsv  # date commit first-seed crossing kills violations
LIVES=$STATE/cycles.tsv         # date commit seed seconds cycles ran kills lives violations memory: first median last most
CONTESTS=$STATE/contests.tsv    # date commit first database processes isolation writers trials done full conflicts unknown away searched violations
SPOILT=$STATE/spoilt.tsv        # date commit seed what tried memory: before after violations
BOOTED=$STATE/boots.tsv         # date commit first-seed servers kills: booting deleting seconds violations processes
STRUCK=$STATE/struck.tsv        # date commit first database processes kills acknowledged reshapes unknown violations

say() { printf 'soak: %s\n' "$*"; }

commit() { git describe --always --dirty --abbrev=12; }

# Whether this commit has passed this run from this seed over so many. Two changed trees are not one commit.
is_done() {
    [[ $COMMIT != *-dirty ]] && awk -F'\t' -v c="$COMMIT" -v p="$1" -v s="$2" -v n="$3" \
        '$2==c && $3==p && $4==s && $5==n && $7==0 {found=1} END {exit !found}' "$BATCHES"
}

# The page's date: what goes on after midnight, or another day, stays on the page that this commit has.
page_date() {
    local begun
    begun=$(awk -F'\t' -v c="$COMMIT" '$2==c {date=$1} END {print date}' "$BATCHES")
    if [[ -n $begun && $COMMIT != *-dirty ]]; then echo "$begun"; else date -u +%F; fi
}

# The machine's paragraph, as the benchmark has it.
machine() {
    local cpu
    cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1)
    printf 'On %s (%s cores), %s GiB, %s.\n' "$cpu" "$(nproc)" "$(awk '/MemTotal/ {print int($2/1048576)}' /proc/meminfo)" "$(uname -sr)"
}

page() {
    local file=$PAGE
    mkdir -p docs/soak
    {
        printf '# Soak, %s\n\nWritten by `make soak`; do not edit. ' "$DATE"
        machine
        if [ -n "$GIVEN" ]; then
            printf '\nA trial: the program struck was not built by this run.\n'
        else
            printf '\nThe program struck is the release build.\n'
        fi
        runs_of_page
        cycles_of_page
        contests_of_page
        struck_of_page
        boots_of_page
        spoilt_of_page
    } >"$file"
}

contests_of_page() {
    awk -F'\t' -v d="$DATE" '$1==d {found=1} END {exit !found}' "$CONTESTS" || return 0
    printf '\n## Claims of the last units\n\nWriters claim, change and give back all at once, over HTTP, from one or several `berth placement serve`, each a process;\n'
    printf 'one answer in twenty is not waited for. A violation is a unit too many, an acknowledged write that is not there, a half of\n'
    printf 'one, one that was refused and done, an order other than that of requests and answers, or a failure. Each history is judged\n'
    printf 'by the generations that the database wrote down, and by a search that is not ours; one in four gives back by DELETE, which\n'
    printf 'raises no generation, and is judged by the search alone: "ordered" counts those that had an order in the end. The real\n'
    printf 'Placement, alone, is looked at by the same judges: its violations are its own.\n'
    printf '\n| database | processes | isolation | writers | trials | 204 | full | conflict | unknown | 503 | ordered | violations |\n'
    printf '| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n'
    awk -F'\t' -v d="$DATE" '$1==d {
        kind = $4 " | " $5 " | " $6 " | " $7
        if (!(kind in trials)) order[++kinds] = kind
        trials[kind] += $8; done[kind] += $9; full[kind] += $10; conflicts[kind] += $11; unknown[kind] += $12
        away[kind] += $13; ordered[kind] += $14; bad[kind] += $15; commits[$2] = 1
    } END {
        for (n = 1; n <= kinds; n++) {
            kind = order[n]
            printf "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", kind, trials[kind], done[kind], full[kind], conflicts[kind], \
                unknown[kind], away[kind], ordered[kind], bad[kind]
        }
        printf "\nAt"
        for (commit in commits) printf " %s", commit
        printf ".\n"
    }' "$CONTESTS"
}

struck_of_page() {
    awk -F'\t' -v d="$DATE" '$1==d {found=1} END {exit !found}' "$STRUCK" || return 0
    printf '\n## A Placement killed under load\n\nSIGKILL at any moment while sixteen writers claim and three hosts are reshaped to and fro, 20 consumers each. After each\n'
    printf 'start all that was acknowledged is there, nothing is there by half, and rows, sums and generations fit each other.\n'
    printf '\n| commit | database | processes | seeds | kills | acknowledged claims | reshapes | unknown | violations |\n'
    printf '| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n'
    awk -F'\t' -v d="$DATE" '$1==d {
        printf "| %s | %s | %d | %d-%d | %d | %d | %d | %d | %d |\n", $2, $4, $5, $3, $3 + $6 - 1, $6, $7, $8, $9, $10
        kills += $6; acknowledged += $7; reshapes += $8; unknown += $9; bad += $10
    } END { printf "| **all** | | | | **%d** | %d | %d | %d | **%d** |\n", kills, acknowledged, reshapes, unknown, bad }' "$STRUCK"
}

boots_of_page() {
    awk -F'\t' -v d="$DATE" '$1==d {found=1} END {exit !found}' "$BOOTED" || return 0
    printf '\n## Servers on machines that are killed\n\nSIGKILL of a `berth up` of the fake driver, or of one, drawn at random, of a `berth controller` and two `berth agent`s, at any\n'
    printf 'moment while three servers at a time, each with a device, are asked of the compute API until they run, and again while they\n'
    printf 'go. A violation is a server that does not run, a guest, an allocation, an accelerator request or a device that is missing,\n'
    printf 'doubled or left over, or a finding of the reconciler.\n'
    printf '\n| commit | processes | seeds from | servers | kills while booting | while deleting | violations | time |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n'
    awk -F'\t' -v d="$DATE" '$1==d {
        printf "| %s | %s | %d | %d | %d | %d | %d | %d s |\n", $2, $9, $3, $4, $5, $6, $8, $7
        servers += $4; boots += $5; deletes += $6; seconds += $7; bad += $8
    } END { printf "| **all** | | | **%d** | %d | %d | **%d** | %d s |\n", servers, boots, deletes, bad, seconds }' "$BOOTED"
}

spoilt_of_page() {
    awk -F'\t' -v d="$DATE" '$1==d {found=1} END {exit !found}' "$SPOILT" || return 0
    printf '\n## Bad input\n\nschemathesis asks `berth placement serve`, and compute and identity of `berth up`, what the OpenAPI documents allow and what they forbid: a violation is a 5xx, a\n'
    printf 'status or a body that the document has not, a request that is not answered, or 32 MiB more memory after the last run than\n'
    printf 'after the first. libFuzzer, guided by coverage, makes up query strings, bodies and policy files: a violation is a panic, an\n'
    printf 'answer after a minute, or one of the properties of tests/fuzz.\n'
    printf '\n| what | tried | most KiB resident | violations |\n| --- | ---: | ---: | ---: |\n'
    awk -F'\t' -v d="$DATE" '$1==d {
        if (!($4 in tried)) order[++kinds] = $4
        tried[$4] += $5; bad[$4] += $8; commits[$2] = 1
        if ($7 > most[$4]) most[$4] = $7
    } END {
        for (n = 1; n <= kinds; n++) printf "| %s | %d | %d | %d |\n", order[n], tried[order[n]], most[order[n]], bad[order[n]]
        printf "\nAt"
        for (commit in commits) printf " %s", commit
        printf ".\n"
    }' "$SPOILT"
}

# Whether the log of a test program says that it ran tests. A name that no test has is an error: nothing would be tested.
ran_tests() {
    grep -qE '^running [1-9]' "$1" || { echo "no test has this name" >>"$1" && return 1; }
}

# One batch of a test program that writes lines to a file: its name, the book, the first seed, the variable that names the
# file, then the command.
lines() {
    local name=$1 book=$2 seed=$3 variable=$4 log=$STATE/$1-$3.log report=$STATE/$1-$3.tsv began=$SECONDS
    shift 4
    if [[ $COMMIT != *-dirty && -s $report.done && $(<"$report.done") == "$COMMIT $*" ]]; then
        say "$name from $seed: done before"
        return
    fi
    rm -f "$report" "$report.done"
    say "$name from $seed"
    if env "$variable=$report" "$@" >"$log" 2>&1 && ran_tests "$log"; then
        echo "$COMMIT $*" >"$report.done"
    else
        FAILED=1
        say "FAILED, see $log:"
        tail -n 20 "$log"
    fi
    touch "$report"
    exec 9>"$STATE/lock"
    flock 9
    awk -F'\t' -v OFS='\t' -v d="$DATE" -v c="$COMMIT" -v s="$seed" '{print d, c, s, $0}' "$report" >>"$book"
    page
    exec 9>&-
    say "$name from $seed: $((SECONDS - began)) s"
}

all_claims() {
    local seed left
    for ((seed = 1; seed <= SERVICE_KILLS; seed += SERVICE_KILL_BATCH)); do
        left=$((SERVICE_KILLS + 1 - seed))
        lines struck "$STRUCK" "$seed" BERTH_SERVICE_KILLS_REPORT env BERTH_SERVICE_KILLS_FROM="$seed" \
            BERTH_SERVICE_KILLS=$((left < SERVICE_KILL_BATCH ? left : SERVICE_KILL_BATCH)) "$STATE/processes" -q kill::service::
    done
    if ((CLAIMS > 0)); then
        lines hunt "$CONTESTS" 1 BERTH_CLAIMS_REPORT "$STATE/processes" -q --ignored --nocapture openstacks_own_placement_gives
        lines beside "$CONTESTS" 1 BERTH_CLAIMS_REPORT env BERTH_CLAIMS_BESIDE=$((CLAIMS < 60 ? CLAIMS : 60)) \
            "$STATE/processes" -q berth_next_to_openstacks_own_placement
    fi
    for ((seed = 1; seed <= CLAIMS; seed += CLAIM_BATCH)); do
        left=$((CLAIMS + 1 - seed))
        lines contests "$CONTESTS" "$seed" BERTH_CLAIMS_REPORT env BERTH_CLAIMS_FROM="$seed" \
            BERTH_CLAIMS_TRIALS=$((left < CLAIM_BATCH ? left : CLAIM_BATCH)) "$STATE/processes" -q --test-threads=2 claims::trials::
    done
}

# Once all that `make test` runs a sample of or leaves out: these programs are built with the feature `soak`.
whole_suite() {
    local name
    for name in in_process servers fault processes; do
        # The fuzzer, the kills and the guests on QEMU have batches of their own.
        batch "all tests of $name" 0 1 "$STATE/$name" -q --skip generated_ --skip cycles:: --skip kill::
    done
}

# Half of the servers on one process, half on several.
all_boots() {
    boots boots $((BOOTS - BOOTS / 2)) servers_survive_kills_of_a_single_process
    boots boots-apart $((BOOTS / 2)) servers_survive_kills_of_a_controller
}

# So many servers of one test, which is named last.
boots() {
    local name=$1 servers=$2 test=$3 made left
    for ((made = 0; made < servers; made += BOOT_BATCH)); do
        left=$((servers - made))
        # Three servers have one seed.
        lines "$name" "$BOOTED" $((made / 3 + 1)) BERTH_BOOTS_REPORT env BERTH_BOOTS_FROM=$((made / 3 + 1)) \
            BERTH_BOOTS=$((left < BOOT_BATCH ? left : BOOT_BATCH)) "$STATE/processes" -q "$test"
    done
}

# Every so manieth batch of what the fuzzer makes up.
fuzz() {
    local lane=$1 lanes=$2 seed
    for ((seed = FUZZ_FROM + lane; (seed - FUZZ_FROM) * FUZZ_BATCH < FUZZ; seed += lanes)); do
        lines fuzz "$SPOILT" "$seed" BERTH_BAD_INPUT_REPORT env BERTH_FUZZER="$STATE/berth-fuzz" BERTH_FUZZ_SEED="$seed" \
            BERTH_FUZZ_RUNS=$((FUZZ_BATCH / 5)) BERTH_FUZZ_KEEP="$STATE/fuzz-found" \
            "$STATE/processes" -q no_generated_input_breaks no_generated_request_breaks
    done
}

all_bad_input() {
    local lane lanes program build
    ((EXAMPLES == 0)) || lines schemathesis "$SPOILT" 1 BERTH_BAD_INPUT_REPORT env BERTH_SCHEMATHESIS_RUNS=3 BERTH_SCHEMATHESIS_EXAMPLES="$EXAMPLES" \
        "$STATE/processes" -q --include-ignored --test-threads=1 conformance::bad_input::generated_requests_are_answered on_a_server_it_is_the_same
    ((CLOUD_EXAMPLES == 0)) || lines cloud "$SPOILT" "$CLOUD_SEED" BERTH_BAD_INPUT_REPORT env BERTH_CLOUD_EXAMPLES="$CLOUD_EXAMPLES" \
        BERTH_CLOUD_SEED="$CLOUD_SEED" \
        "$STATE/processes" -q --test-threads=1 generated_requests_to_compute generated_requests_to_identity
    ((FUZZ > 0)) || return 0
    say "the fuzzer, built for speed"
    # cargo does not see that its compiler is told otherwise: each way has a folder of its own.
    [ "$COMPARES" = 1 ] && build=soak-build || build=soak-build-led-by-reach
    program=$(BERTH_FUZZ_COMPARES=$COMPARES CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_TARGET_DIR=$TARGET/$build tests/fuzz/build.sh)
    cp --remove-destination "$program" "$STATE/berth-fuzz"
    lanes=$(processors | wc -l)
    for ((lane = 0; lane < lanes; lane++)); do
        fuzz "$lane" "$lanes" &
    done
    wait
    awk -F'\t' -v d="$DATE" -v c="$COMMIT" '$1==d && $2==c && $8>0 {bad=1} END {exit bad}' "$SPOILT" || FAILED=1
}

runs_of_page() {
    awk -F'\t' -v d="$DATE" '$1==d {found=1} END {exit !found}' "$BATCHES" || return 0
    printf '\nA violation is a unit lost, doubled or left without owner, a half-made child, or any other invariant of the audit.\n'
    printf '\nThe sweep fails every journey at every crossing in every way, and again during the recovery (%s).\n' 'docs/faults.md'
    printf '\nThe swarm of guests runs two to eight journeys at once, struck at random; its kills are among its faults.\n'
    printf '\n| run | commit | seeds | cases | kills | violations | time |\n| --- | --- | --- | ---: | ---: | ---: | ---: |\n'
    awk -F'\t' -v d="$DATE" '$1==d {
        printf "| %s | %s | %s | %d | %d | %d | %d s |\n", $3, $2, ($5 > 0 ? $4 "-" ($4 + $5 - 1) : "-"), $9, $6, $7, $8
        cases += $9; kills += $6; violations += $7; seconds += $8
    } END { printf "| **all** | | | **%d** | **%d** | **%d** | %d s |\n", cases, kills, violations, seconds }' "$BATCHES"
    awk -F'\t' -v d="$DATE" '$1==d {found=1} END {exit !found}' "$CROSSINGS" || return 0
    printf '\n## Kills by crossing\n\n| crossing | kills | violations |\n| --- | ---: | ---: |\n'
    awk -F'\t' -v d="$DATE" '$1==d { kills[$4] += $5; bad[$4] += $6 }
        END { for (at in kills) printf "| %s | %d | %d |\n", at, kills[at], bad[at] }' "$CROSSINGS" | sort
}

cycles_of_page() {
    awk -F'\t' -v d="$DATE" '$1==d {found=1} END {exit !found}' "$LIVES" || return 0
    printf '\n## Guests made and unmade\n\nOn libvirtd and QEMU, over cards that are files: up to eight guests at once, each with cards, mediated devices or\n'
    printf 'both, deleted as soon as it runs, or before; berth is killed at random. After each round the guests, requests, attach\n'
    printf 'handles, mediated devices, drivers of the cards, providers with all they have, allocations, domains, processes and files\n'
    printf 'are those of the first day, or it is a violation. A batch without a kill is one process: its memory may not grow by more\n'
    printf 'than 2 MiB from the first fifth of its rounds, once it is warm, to the last. Batches run beside each other.\n'
    printf '\n| commit | seed | cycles | ran | kills | lives | violations | resident KiB: first | median | last | most | time |\n'
    printf '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n'
    awk -F'\t' -v d="$DATE" '$1==d {
        printf "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d s |\n", $2, $3, $5, $6, $7, $8, $9, $10, $11, $12, $13, $4
        cycles += $5; ran += $6; kills += $7; lives += $8; bad += $9; seconds += $4
    } END { printf "| **all** | | **%d** | %d | **%d** | %d | **%d** | | | | | %d s |\n", cycles, ran, kills, lives, bad, seconds }' "$LIVES"
}

# One batch of cycles: its seed, how many, and 0 where nobody is killed. Others run beside it.
cycles() {
    local seed=$1 count=$2 killing=$3 began=$SECONDS log=$STATE/cycles-$1.log report=$STATE/cycles-$1.tsv
    if [[ $COMMIT != *-dirty ]] && awk -F'\t' -v c="$COMMIT" -v s="$seed" -v n="$count" \
        '$2==c && $3==s && $5==n && $9==0 {found=1} END {exit !found}' "$LIVES"; then
        say "cycles, seed $seed: done before"
        return
    fi
    say "cycles, seed $seed: $count guests"
    rm -f "$report"
    if ! BERTH_CYCLES=$count BERTH_CYCLES_SEED=$seed BERTH_CYCLES_KILLS=$killing BERTH_CYCLES_REPORT=$report \
        "$STATE/processes" -q --nocapture cycles:: >"$log" 2>&1; then
        say "FAILED, see $log:"
        tail -n 20 "$log"
    fi
    [ -s "$report" ] || printf '0\t0\t0\t0\t1\t0\t0\t0\t0\n' >"$report"
    exec 9>"$STATE/lock"
    flock 9
    printf '%s\t%s\t%s\t%s\t%s\n' "$DATE" "$COMMIT" "$seed" $((SECONDS - began)) "$(<"$report")" >>"$LIVES"
    page
}

# All batches, some at once.
all_cycles() {
    local done=0 seed=1 running=0 left
    for (( ; done < CYCLES; done += CYCLE_BATCH, seed++)); do
        left=$((CYCLES - done))
        cycles "$seed" $((left < CYCLE_BATCH ? left : CYCLE_BATCH)) $((seed > 1)) &
        if ((++running >= CYCLE_LANES)); then
            wait -n || true
            running=$((running - 1))
        fi
    done
    wait
    awk -F'\t' -v d="$DATE" -v c="$COMMIT" '$1==d && $2==c && $9>0 {bad=1} END {exit bad}' "$LIVES" || FAILED=1
}

# How far the seeds are and how long the rest takes at the pace so far.
progress() {
    local rest=$((ALL - DONE))
    if [ "$RAN" -gt 0 ]; then
        say "$DONE of $ALL seeds done, about $(((rest * SPENT / RAN + 59) / 60)) min left"
    fi
}

# One batch: its name, how many seeds, the first, then the command.
batch() {
    local name=$1 seeds=$2 seed=$3 began=$SECONDS kills=0 violations=0 cases took log report
    shift 3
    if is_done "$name" "$seed" "$seeds"; then
        say "$name from seed $seed: done before"
        DONE=$((DONE + seeds))
        return
    fi
    log=$STATE/${name%%,*}-$seed.log
    report=$STATE/${name%%,*}-$seed.tsv
    rm -f "$report"
    say "$name$([ "$seeds" = 0 ] || echo ", seeds $seed to $((seed + seeds - 1))")"
    if ! BERTH_KILLS=$seeds BERTH_KILL_SEED_FROM=$seed BERTH_KILL_REPORT=$report "$@" >"$log" 2>&1 || ! ran_tests "$log"; then
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
    if [ ! -s "$report" ]; then
        kills=$(sed -n 's/^\([0-9][0-9]*\) kills$/\1/p' "$log" | tail -n1)
    fi
    cases=$(awk '/^[0-9]+ cases$/ {sum += $1} END {if (NR && sum) print sum}' "$log")
    took=$((SECONDS - began))
    exec 9>"$STATE/lock"
    flock 9
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$DATE" "$COMMIT" "$name" "$seed" "$seeds" "${kills:-0}" "$violations" \
        "$took" "${cases:-$seeds}" >>"$BATCHES"
    page
    exec 9>&-
    if [ "$seeds" -gt 0 ]; then
        DONE=$((DONE + seeds)) RAN=$((RAN + seeds)) SPENT=$((SPENT + took))
        progress
    else
        say "$name: ${cases:-0} cases in $took s"
    fi
}

# The processors that may be used, one a line.
processors() {
    local part
    for part in $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status | tr , ' '); do
        seq "${part%-*}" "${part#*-}"
    done
}

# Every so manieth batch of the swarm's seeds, on one processor: a seed asks other threads all the time and waits for them, and
# is woken faster where all of them run.
swarm() {
    local lane=$1 lanes=${#PROCESSORS[@]} seed left seeds
    DONE=0 RAN=0 SPENT=0 ALL=$((GUEST_SEEDS / lanes))
    for ((seed = GUEST_FROM + lane * GUEST_BATCH; seed < GUEST_FROM + GUEST_SEEDS; seed += lanes * GUEST_BATCH)); do
        left=$((GUEST_FROM + GUEST_SEEDS - seed))
        seeds=$((left < GUEST_BATCH ? left : GUEST_BATCH))
        BERTH_GUEST_SEEDS=$seed..$((seed + seeds)) batch guests "$seeds" "$seed" \
            taskset -c "${PROCESSORS[$lane]}" "$STATE/fault-guests" -q --nocapture concurrent_scenarios
    done
}

mkdir -p "$STATE"
touch "$BATCHES" "$CROSSINGS" "$LIVES" "$CONTESTS" "$STRUCK" "$BOOTED" "$SPOILT"
COMMIT=$(commit)
DATE=$(page_date)
PAGE=docs/soak/$DATE${GIVEN:+-trial}.md
FAILED=0 DONE=0 RAN=0 SPENT=0 ALL=$KILLS

# Builds test programs with a cargo command and keeps copies: what is edited and built meanwhile is not what this page is about.
# keep SUFFIX NAMES CARGO-OPTIONS...
keep() {
    local suffix=$1 names=$2 built name
    shift 2
    built=$(cargo test --color never -p berth-tests --features soak --no-run "$@" 2>&1) || {
        printf '%s\n' "$built" >&2
        exit 1
    }
    for name in $names; do
        cp --remove-destination "$(sed -n "s/^ *Executable $name\(\/main\)\?\.rs (\(.*\))$/\2/p" <<<"$built")" "$STATE/$name$suffix"
    done
}

if [ "$ONLY" != guests ]; then
    # What is made up for the fuzzer meets no program.
    if [ -z "$GIVEN" ] && { [ "$ONLY" != fuzz ] || ((EXAMPLES + CLOUD_EXAMPLES > 0)); }; then
        cargo build --release -p berth-cli
        export BERTH_PROGRAM=$TARGET/release/berth
    fi
    case $ONLY in
    '') keep '' 'fault processes servers in_process' --test fault --test processes --test servers --test in_process ;;
    *) keep '' 'fault processes' --test fault --test processes ;;
    esac
    [ "$ONLY" != '' ] || [ "$SUITE" = 0 ] || whole_suite
    for ((part = 1; part <= PARTS; part++)); do
        BERTH_FAULT_PAIRS=$PAIRS BERTH_FAULT_PART=$part/$PARTS batch "sweep, pairs $PAIRS, part $part of $PARTS" 0 "$part" \
            "$STATE/fault" -q --nocapture fails_well_at_every_effect
    done
    for ((seed = FROM; seed < FROM + KILLS; seed += BATCH)); do
        left=$((FROM + KILLS - seed))
        batch kill $((left < BATCH ? left : BATCH)) "$seed" "$STATE/processes" -q a_start_killed_anywhere lost_duplicated_and_left_over_units
    done
    all_boots
    if [ "$ONLY" != boots ]; then
        [ "$ONLY" = fuzz ] || all_claims
        [ "$ONLY" = claims ] || [ "$ONLY" = cycles ] || all_bad_input
        [ "$ONLY" = claims ] || [ "$ONLY" = fuzz ] || all_cycles
    fi
fi
if [ "$ONLY" = boots ] || [ "$ONLY" = cycles ] || [ "$ONLY" = claims ] || [ "$ONLY" = fuzz ]; then
    page
    say "written to $PAGE"
    exit $FAILED
fi

# A hundred thousand seeds are worth a build of their own.
if [ "$GUEST_OPT_LEVEL" = 0 ]; then
    keep -guests fault --test fault
else
    CARGO_PROFILE_DEV_OPT_LEVEL=$GUEST_OPT_LEVEL keep -guests fault --target-dir "$TARGET/soak-build" --test fault
fi
if ((GUEST_FAULTS > 0)); then
    what="guests' sweep$( ((GUEST_FAULTS == 1)) || echo ", one of $GUEST_FAULTS")"
    BERTH_GUEST_FAULTS=$GUEST_FAULTS batch "$what" 0 1 "$STATE/fault-guests" -q --nocapture every_scenario_of_a_guest
fi
for ((part = 1; part <= PARTS; part++)); do
    BERTH_GUEST_FAULTS=1 BERTH_GUEST_PAIRS=$GUEST_PAIRS BERTH_GUEST_PAIR_FAULTS=$GUEST_PAIR_FAULTS BERTH_FAULT_PART=$part/$PARTS \
        batch "guests' pairs, second $GUEST_PAIR_FAULTS, one of $GUEST_PAIRS, part $part of $PARTS" 0 "$part" \
        "$STATE/fault-guests" -q --nocapture every_scenario_of_a_guest
done
mapfile -t PROCESSORS < <(processors)
for lane in "${!PROCESSORS[@]}"; do
    swarm "$lane" &
done
wait
awk -F'\t' -v d="$DATE" -v c="$COMMIT" '$1==d && $2==c && $3=="guests" && $7>0 {bad=1} END {exit bad}' "$BATCHES" || FAILED=1
page
say "written to $PAGE"
exit $FAILED
