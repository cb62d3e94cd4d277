#!/usr/bin/env python3
"""Runs test programs of cargo, several at once, and gives each test a time limit of its own.

Called by packaging/scripts/test.sh, which says what may be set. Reads on standard input what
`cargo test --no-run --message-format=json` prints. The arguments are passed to every test program: part of a test's name, say.

A test that exceeds its limit fails, and only that test. Its program is killed, and is started again for the tests that had not
finished. A crash (a signal) is treated the same way: the tests that had not finished run one at a time, so that the one that
crashes is known.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

LIMIT = float(os.environ.get("TEST_LIMIT", "300"))
THREADS = int(os.environ.get("RUST_TEST_THREADS", os.cpu_count()))
# A program with as many tests as this has mostly tests that wait for other processes: it runs two tests more at once.
MANY = 200
# Most tests of the longest programs wait for other processes.
LANES = int(os.environ.get("TEST_LANES", os.cpu_count() + 1))
# Seconds without a line after which one says what is running.
QUIET = float(os.environ.get("TEST_QUIET", "30"))
# If no more tests than this have failed at the end, each runs once more, alone.
AGAIN = int(os.environ.get("TEST_AGAIN", "3"))
# A file to which each test's seconds of processor time are written. Then one test runs at a time.
TIMES = os.environ.get("TEST_TIMES")
# A program that lists its tests or exits needs no longer than this.
PATIENCE = 60
# Programs that take longest, the longest first: otherwise the last one runs alone on one processor.
LONGEST_FIRST = ["servers", "processes", "fault", "in_process", "berth_agent"]

# 0 runs every program, 1 skips those whose inputs have not changed since all their tests passed.
CACHE = os.environ.get("TEST_CACHE", "1") != "0" and not TIMES and "BLESS" not in os.environ
# Programs that read Rust sources when they run.
READS_SOURCES = ["repository"]
# What a test may depend on, next to its program and the files of the checkout: the installed packages and peers. The first
# run of the tests makes more in target/peers, so the time of that folder says nothing.
INSTALLED = ["/var/lib/dpkg/status", "target/peers/stamp", "target/peers/venv"]

DONE = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
# A test that writes to the output itself ends with such a line, if it runs alone.
DONE_ALONE = re.compile(r"^(ok|FAILED)$")
BEGUN = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. $")
# The same, followed by the first line that the test writes: both may be read at once.
BEGUN_AND_WRITES = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. ")
# Where several tests run at once, this is the only line from which a test's start is known.
SLOW = re.compile(r"^test (\S+) has been running for over (\d+) seconds")

Program = collections.namedtuple("Program", "name file folder")


def programs(lines):
    """The test programs that cargo names, the longest first."""
    found = []
    for line in lines:
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message["profile"]["test"]:
            folder = pathlib.Path(message["manifest_path"]).parent
            name = f"{os.path.relpath(folder)}/{message['target']['name']}"
            found.append(Program(name, message["executable"], folder))

    def place(program):
        name = program.name.rsplit("/", 1)[1]
        return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)

    return sorted(found, key=place)


def ticks(pid):
    """Processor time of a process and of its descendants, in clock ticks."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return 0
    return sum(map(int, stat[11:15])) + sum(map(ticks, children))


def threads_of(pid, test):
    """The state of the threads of a test, as the kernel shows it."""
    said = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            if (task / "comm").read_text().rstrip("\n") != test[:15]:
                continue
            stat = (task / "stat").read_text().rsplit(")", 1)[1].split()
            state = {"R": "running", "S": "sleeping", "D": "waiting for a device"}.get(stat[0], stat[0])
            used = sum(map(int, stat[11:13])) / os.sysconf("SC_CLK_TCK")
            waits = (task / "wchan").read_text().strip("0")
        except OSError:
            continue
        said.append(f"its thread is {state}{' in ' + waits if waits else ''} and has used {used:.0f} s of processor time")
    return "; ".join(said) or "it has no thread of its own any more"


class Run:
    """One process of a test program, over some of its tests."""

    def __init__(self, program, arguments, threads, log, left):
        environment = {**os.environ, "CARGO_MANIFEST_DIR": str(program.folder), "RUST_TEST_THREADS": str(threads)}
        self.done, self.failed, self.begun = set(), [], {}
        self.program, self.log, self.left = program, log, frozenset(left)
        self.process = subprocess.Popen(
            [program.file, *arguments], cwd=program.folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.ticks = 0
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        """Follows the output. A line that a test began and has not finished has no end yet."""
        pending = b""
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            self.log.write(chunk)
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                self.line(line.decode(errors="replace"))
            if begun := BEGUN.match(pending.decode(errors="replace")):
                self.begun.setdefault(begun[1], time.monotonic())
                if TIMES:
                    self.ticks = ticks(self.process.pid)

    def line(self, line):
        if slow := SLOW.match(line):
            self.begun.setdefault(slow[1], time.monotonic() - int(slow[2]))
        elif done := DONE.match(line):
            self.finish(done[1], done[2])
        elif TIMES and len(self.begun) == 1 and (done := DONE_ALONE.match(line)):
            self.finish(next(iter(self.begun)), done[1])
        elif TIMES and (begun := BEGUN_AND_WRITES.match(line)):
            self.begun.setdefault(begun[1], time.monotonic())

    def finish(self, test, result):
        if TIMES and result != "ignored":
            used = (ticks(self.process.pid) - self.ticks) / os.sysconf("SC_CLK_TCK")
            with open(TIMES, "a") as times:
                times.write(f"{used:.2f}\t{self.program.name}\t{test}\n")
        self.begun.pop(test, None)
        self.done.add(test)
        if result == "FAILED":
            self.failed.append(test)

    def over_limit(self):
        """A test that has exceeded its limit, or none."""
        now = time.monotonic()
        return next((test for test, at in list(self.begun.items()) if now - at > LIMIT), None)

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def wait(self, tests):
        """Until the program has ended. What was wrong with one test: its name and a sentence."""
        finished = None
        while self.process.poll() is None:
            time.sleep(0.05)
            if test := self.over_limit():
                sentence = f"it ran for more than {LIMIT:.0f} s and was ended; {threads_of(self.process.pid, test)}"
                self.kill()
                self.process.wait()
                self.reader.join(PATIENCE)
                return test, sentence
            if tests <= self.done:
                finished = finished or time.monotonic()
                if time.monotonic() - finished > PATIENCE:
                    self.kill()
                    self.process.wait()
                    return "the end of the program", f"all tests had finished, and it had not exited {PATIENCE} s later"
        # A server that outlives the program may still hold its output.
        self.reader.join(1)
        if self.process.returncode in (0, 101):
            # libtest ran them all. What else wrote to its output may have spoilt a line.
            self.done |= tests
            if self.process.returncode and not self.failed:
                self.failed.append("one of its tests")
            return None
        left = sorted(tests - self.done)
        suspects = [test for test in left if test in self.begun] or left
        if len(suspects) == 1:
            return suspects[0], f"the program ended with status {self.process.returncode} during this test"
        return None


class Progress:
    """What is shown while programs run: a line for each that has ended, and one for those that run if nothing else was said for
    a while."""

    def __init__(self, programs):
        self.lock = threading.Lock()
        self.all, self.ended, self.running = programs, 0, {}
        self.said = time.monotonic()
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def say(self, *lines):
        with self.lock:
            self.said = time.monotonic()
            print(*lines, sep="\n", flush=True)

    def shows(self, program, run, tests):
        self.running[program.name] = run, len(tests), len(tests - run.left)

    def end(self, program):
        with self.lock:
            self.running.pop(program.name, None)
            self.ended += 1
            return self.ended

    def watch(self):
        while not self.over.wait(min(1, QUIET)):
            if time.monotonic() - self.said >= QUIET and (running := self.text()):
                self.say(running)

    def text(self):
        each = [f"{name} ({before + len(run.done & run.left)} of {tests} tests)"
                for name, (run, tests, before) in list(self.running.items())]
        return each and f"     {self.ended} of {self.all} programs have ended; running: {', '.join(each)}"

    def stop(self):
        self.over.set()
        self.watcher.join()


def run_program(program, arguments, logs, progress):
    """Runs all tests of a program that the arguments choose; how many there were, what is wrong with those that
    failed."""
    listed = subprocess.run([program.file, "--list", "--format", "terse", *arguments], cwd=program.folder,
                            capture_output=True, text=True, timeout=PATIENCE, check=True)
    tests = {line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")}
    if not tests:
        return 0, {}
    failures = {}
    threads = THREADS if "RUST_TEST_THREADS" in os.environ or len(tests) < MANY else THREADS + 2
    left, threads, chosen = set(tests), 1 if TIMES else threads, list(arguments)
    flags = [argument for argument in arguments if argument.startswith("--") and argument != "--exact"]
    with open(log_of(program, logs), "wb", buffering=0) as log:
        while left:
            run = Run(program, chosen, threads, log, left)
            progress.shows(program, run, tests)
            wrong = run.wait(left)
            left -= run.done
            if left and not wrong and threads == 1:
                wrong = min(left), f"the program ended with status {run.process.returncode} before this test"
            # A test that failed says why at the end of its program, which this one did not reach: it runs again.
            left |= {test for test in run.failed if left and test not in failures}
            failures |= {test: None for test in run.failed if test not in failures}
            if wrong:
                failures[wrong[0]] = wrong[1]
                log.write(f"\n{wrong[0]}: {wrong[1]}\n".encode())
                left.discard(wrong[0])
            elif left:
                threads = 1
            chosen = ["--exact", *flags, *sorted(left)]
    return len(tests), failures


class Cache:
    """Remembers with which inputs all tests of a program passed last, as `go test` does.

    The inputs are the program itself, `berth`, the tracked and new files of the checkout, the installed packages and the
    variables that choose what runs.
    """

    def __init__(self, folder, target):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, check=True, timeout=PATIENCE)
        names = sorted(listed.stdout.decode().rstrip("\0").split("\0"))
        common = hashlib.sha256()
        for name in INSTALLED:
            common.update(f"{name} {os.stat(name).st_mtime_ns if os.path.exists(name) else None}\n".encode())
        for name in sorted(os.environ):
            if name.startswith(("TEST_", "BERTH", "RUST")):
                common.update(f"{name}={os.environ[name]}\n".encode())
        self.add(common, target / "debug" / "berth")
        self.sources = hashlib.sha256()
        for name in names:
            self.add(self.sources if name.endswith(".rs") else common, pathlib.Path(name))
        self.common = common

    @staticmethod
    def add(digest, path):
        digest.update(f"{path}\n".encode())
        if path.is_file():
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())

    def key(self, program):
        digest = self.common.copy()
        self.add(digest, pathlib.Path(program.file))
        if program.name.rsplit("/", 1)[1] in READS_SOURCES:
            digest.update(self.sources.digest())
        return digest.hexdigest()

    def path(self, program):
        return self.folder / program.name.replace("/", "-")

    def passed(self, program, key):
        """How many tests passed with these inputs; none if they have not."""
        try:
            stored, tests = self.path(program).read_text().split()
        except (OSError, ValueError):
            return None
        return int(tests) if stored == key else None

    def record(self, program, key, tests):
        self.path(program).write_text(f"{key} {tests}\n")


def passes_alone(failure, logs, progress):
    """Runs a failed test once more, with nothing else at once: on a busy machine a server may be slower than the limit of a wait."""
    program, test, _ = failure
    logs.mkdir(exist_ok=True)
    flags = [argument for argument in sys.argv[1:] if argument.startswith("--") and argument != "--exact"]
    try:
        tests, failures = run_program(program, ["--exact", *flags, test], logs, progress)
    except subprocess.SubprocessError as error:
        tests, failures = 0, {test: str(error)}
    progress.end(program)
    passed = tests == 1 and not failures
    progress.say(f"     {'PASSED' if passed else 'FAILED'} when run again alone: {program.name}: {test}")
    if not passed and log_of(program, logs).exists():
        progress.say(log_of(program, logs).read_text(errors="replace"))
    return passed


def log_of(program, logs):
    return logs / (program.name.replace("/", "-") + ".log")


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    logs = target / "tmp" / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    all_programs = programs(sys.stdin)
    if not all_programs:
        sys.exit("test: cargo names no test program; cargo test --workspace --tests runs them one after another")
    failed, count, unchanged = [], 0, 0
    # Without git the files of the checkout are not known.
    cache = None
    if CACHE and not sys.argv[1:] and pathlib.Path(".git").exists():
        cache = Cache(target / "tmp" / "test-cache", target)

    print(f"test: {len(all_programs)} programs, {LANES} at once, those that take longest first; a line for each that has ended",
          flush=True)
    progress = Progress(len(all_programs))

    def one(program):
        began = time.monotonic()
        key = cache.key(program) if cache else None
        if cache and (tests := cache.passed(program, key)) is not None:
            progress.end(program)
            return tests, [], tests
        try:
            tests, failures = run_program(program, sys.argv[1:], logs, progress)
        except subprocess.SubprocessError as error:
            tests, failures = 0, {"its list of tests": str(error)}
        number = progress.end(program)
        if cache and not failures:
            cache.record(program, key, tests)
        if tests or failures:
            progress.say(f"     Ran {tests} tests of {program.name} in {time.monotonic() - began:.0f} s"
                         f" ({number} of {len(all_programs)} programs)")
        if failures:
            path = log_of(program, logs)
            progress.say(path.read_text(errors="replace") if path.exists() else "")
        return tests, [(program, test, why) for test, why in failures.items()], 0

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(LANES) as lanes:
        for tests, failures, skipped in lanes.map(one, all_programs):
            count += tests
            failed += failures
            unchanged += skipped
    if 0 < len(failed) <= AGAIN:
        failed = [failure for failure in failed if not passes_alone(failure, logs / "alone", progress)]
    progress.stop()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if unchanged:
        print(f"     {unchanged} tests passed before with the same inputs and were not run again; TEST_CACHE=0 runs them")
    print(f"\ntest: {count} tests, {len(failed)} failed, in {time.monotonic() - began:.0f} s,"
          f" with {used.ru_utime + used.ru_stime:.0f} s of processor time; what they said is in {logs}")
    if failed:
        names = [f"{program.name}: {test}{': ' + why if why else ''}" for program, test, why in failed]
        print("test: failed:\n  " + "\n  ".join(names), file=sys.stderr)
        sys.exit(101)


if __name__ == "__main__":
    main()
