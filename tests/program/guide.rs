//! Executes the commands that the documentation shows: every `console` block of the guide and of the README with its
//! output, the README's `openstack` commands, and the commands that `berth up` prints.
//!
//! A page with `console` blocks declares in a comment the environment that its commands run in:
//!
//! - `<!-- test: none -->`: a working directory with the checkout's `docs` and `drivers`.
//! - `<!-- test: node MACHINE -->`: in addition `berth up` on a copy of `drivers/fake/machines/MACHINE.toml`, to which
//!   `berth` without options refers.
//! - `<!-- test: file NAME -->`: writes the next block of any kind to this file.
//!
//! ```text
//! page -> parts: environment, file, step -> Environment::run(step) -> matches(shown, printed)
//! ```
//!
//! In the shown output, a line `...` stands for any number of lines, and `…` within a line for any text. UUIDs, times,
//! ports and the width of tables are not compared. A command that fails must be followed by `$ echo $?`. With `BLESS=1`
//! the pages get the printed output instead of an error. Commands that cannot run here are in `sh` blocks, without `$`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use berth_tests::berth::{BerthHome, RunningBerth, program};
use berth_tests::peer::{checkout, installed};
use berth_tests::port::free_port;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::program::cloud::{Cloud, operator, password, served};
use crate::program::hypervisor::PATIENCE;

/// A command of a page, with the lines that the page shows beneath it.
struct Step {
    command: String,
    shown: Vec<String>,
    /// The lines of the page that `shown` was read from.
    lines: std::ops::Range<usize>,
    /// Spaces before each line of the block.
    indent: usize,
}

enum Part {
    Environment(Vec<String>),
    File { name: String, text: String },
    Step(Step),
}

/// The parts of a page, in order.
fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut file = None;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(words) = text
            .strip_prefix("<!-- test: ")
            .and_then(|rest| rest.strip_suffix(" -->"))
        {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            match words.as_slice() {
                [first, name] if first == "file" => file = Some(name.clone()),
                _ => parts.push(Part::Environment(words)),
            }
        } else if let Some(kind) = text.strip_prefix("```") {
            let block: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line.get(indent..).unwrap_or_default())
                .take_while(|line| !line.starts_with("```"))
                .collect();
            if let Some(name) = file.take() {
                let text = block.join("\n") + "\n";
                parts.push(Part::File { name, text });
            } else if kind == "console" {
                steps(&block, number + 1, indent, &mut parts);
            }
        }
    }
    parts
}

fn steps(block: &[&str], first: usize, indent: usize, parts: &mut Vec<Part>) {
    let mut continues = false;
    for (line, number) in block.iter().zip(first..) {
        let last = match parts.last_mut() {
            Some(Part::Step(step)) => Some(step),
            _ => None,
        };
        match (line.strip_prefix("$ "), last) {
            (None, Some(step)) if continues => {
                step.command = format!("{}\n{line}", step.command);
                step.lines = number + 1..number + 1;
            }
            (None, Some(step)) => {
                step.shown.push((*line).to_owned());
                step.lines.end = number + 1;
            }
            (Some(command), _) => parts.push(Part::Step(Step {
                command: command.to_owned(),
                shown: Vec::new(),
                lines: number + 1..number + 1,
                indent,
            })),
            (None, None) => panic!("a console block must begin with a command: {line}"),
        }
        continues = line.ends_with('\\');
    }
}

/// Replaces what differs from run to run: UUIDs and other long hexadecimal numbers, times, ports, the width of tables.
fn masked(line: &str) -> String {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "-:.+".contains(char);
    let mut masked = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest
            .find(|char| is_part(char) != rest.starts_with(is_part))
            .unwrap_or(rest.len());
        let word = rest[..end].trim_end_matches([':', '.']);
        let end = if word.is_empty() { end } else { word.len() };
        let (word, after) = rest.split_at(end);
        let hexadecimal = word
            .chars()
            .all(|char| char.is_ascii_hexdigit() || char == '-');
        let shape: String = word
            .chars()
            .map(|char| if char.is_ascii_digit() { '0' } else { char })
            .collect();
        masked += if hexadecimal
            && [32, 36].contains(&word.len())
            && word.contains(|char: char| char.is_ascii_digit())
        {
            "UUID"
        } else if shape.starts_with("0000-00-00") || shape.starts_with("00:00:00") {
            "TIME"
        } else if word.starts_with("127.0.0.1:") {
            "ADDRESS"
        } else {
            word
        };
        rest = after;
    }
    let masked = masked.replace("TIME TIME", "TIME");
    // Which of a host's equal devices a guest gets: a claim that collides with a report takes the next one.
    let masked = match masked.split_once("| PCI function ") {
        Some((before, _)) => format!("{before}| PCI function DEVICE |"),
        None => masked,
    };
    let mut words: Vec<String> = Vec::new();
    for word in masked.split_whitespace() {
        let word = word.replace(['=', '─', '━'], "-");
        let is_rule = word.contains("--") && word.chars().all(|char| "-+|".contains(char));
        words.push(if is_rule { "--".to_owned() } else { word });
    }
    words.join(" ")
}

fn is_gap(line: &str) -> bool {
    ["...", "…"].contains(&line.trim())
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (masked(shown), masked(printed));
    let mut pieces = shown.split('…');
    let Some(mut rest) = pieces.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in middle {
        let Some((_, after)) = rest.split_once(piece) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if is_gap(line) => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, more)| line_matches(line, first) && matches(rest, more)),
    }
}

/// The output for the page: with as many lines before and after a gap as the page has.
fn blessed(shown: &[String], printed: &[&str]) -> Vec<String> {
    let gaps = shown.iter().filter(|line| is_gap(line)).count();
    let before = shown.iter().take_while(|line| !is_gap(line)).count();
    let after = shown.iter().rev().take_while(|line| !is_gap(line)).count();
    if gaps == 0 || before + after >= printed.len() {
        return printed.iter().map(|&line| line.to_owned()).collect();
    }
    let first = printed.iter().take(before).copied();
    let last = printed.iter().skip(printed.len() - after).copied();
    let lines = first.chain(["..."]).chain(last);
    lines.map(str::to_owned).collect()
}

/// A working directory in which the commands of a page run, and the node that they refer to.
struct Environment {
    home: BerthHome,
    berth: PathBuf,
    /// `export` and `cd` commands, which hold for the commands after them.
    preamble: String,
    /// Exit code of the last command.
    code: i32,
    is_node: bool,
    up: Option<RunningBerth>,
}

impl Environment {
    fn new(words: &[String]) -> Self {
        let mut home = BerthHome::new().expect("a home");
        let berth = program().expect("berth is built");
        for folder in ["docs", "drivers"] {
            symlink(checkout().join(folder), home.path(folder)).expect("a link");
        }
        for folder in ["bin", "target/debug", "images", "provider_config", "trial"] {
            fs::create_dir_all(home.path(folder)).expect("a folder");
        }
        symlink(&berth, home.path("target/debug/berth")).expect("a link");
        symlink(&berth, home.path("bin/berth")).expect("a link");
        let port = free_port().expect("a port");
        home.set_env("BERTH__API__LISTEN", format!("127.0.0.1:{port}"));
        home.set_env("HOME", home.path(""));
        let peers = installed().expect("the peers, for the openstack client");
        let path = std::env::var("PATH").expect("a path");
        let bin = home.path("bin");
        home.set_env(
            "PATH",
            format!(
                "{}:{path}:{}",
                bin.display(),
                peers.join("venv/bin").display()
            ),
        );
        let mut environment = Self {
            home,
            berth,
            preamble: String::new(),
            code: 0,
            is_node: false,
            up: None,
        };
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["none"] => {}
            ["node", machine] => environment.configure_node(machine),
            _ => panic!("unknown environment: {words:?}"),
        }
        environment
    }

    fn configure_node(&mut self, machine: &str) {
        let machine = checkout().join(format!("drivers/fake/machines/{machine}.toml"));
        let machine = fs::read_to_string(machine).expect("a shipped machine");
        let traits = "traits = [\"HW_CPU_X86_AVX2\"";
        let machine = machine.replace(
            &format!("{traits}]"),
            &format!("{traits}, \"COMPUTE_ACCELERATORS\"]"),
        );
        let image = self.home.path("images/debian.qcow2");
        let made = Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2"])
            .arg(&image)
            .arg("8M")
            .status();
        assert!(made.expect("qemu-img runs").success());
        fs::copy(&image, self.home.path("images/debian-12.qcow2")).expect("a file");
        let images = "[[image]]\nname = \"debian-12\"\nfile = \"@HOME@/images/debian-12.qcow2\"\ndisk_format = \"qcow2\"\n";
        let configuration = "compute_driver = \"fake\"\nstate_path = \"@HOME@/state\"\n\
             update_resources_interval = 1\nperiodic_fuzzy_delay = 0\nreconcile_interval = 1\n\
             [compute]\nprovider_config_location = \"@HOME@/provider_config\"\n\
             resource_provider_association_refresh = 1\n\
             [agent]\nadmin_socket = \"@HOME@/state/agent.sock\"\n\
             [fake]\nmachine = \"@HOME@/machine.toml\"\n\
             [image_cache]\nimage_directories = [\"@HOME@/images\"]\n\
             [compute_service]\nimages_file = \"@HOME@/images.toml\"\n";
        let berth = format!(
            "#!/bin/sh\nexec '{}' --config '@HOME@/berth.toml' \"$@\"\n",
            self.berth.display()
        );
        fs::remove_file(self.home.path("bin/berth")).expect("the link");
        for (name, text) in [
            ("machine.toml", machine.as_str()),
            ("images.toml", images),
            ("berth.toml", configuration),
            ("bin/berth", &berth),
            // Provider UUIDs, and with them the order of output lines, follow from it.
            ("state/compute_id", "5a5ae9e5-3f2d-4d0a-9c0e-3d1b4b6f7a10\n"),
        ] {
            self.home.write(name, text).expect("a file");
        }
        let made = Command::new("chmod")
            .arg("755")
            .arg(self.home.path("bin/berth"))
            .status();
        assert!(made.expect("chmod runs").success());
        self.is_node = true;
    }

    /// The paths of a page, and what they are here. The longer one first where one begins with another.
    fn paths(&self) -> Vec<(&'static str, String)> {
        let here = |name: &str| self.home.path(name).display().to_string();
        vec![
            ("~/berth-trial", here("trial")),
            ("/var/lib/berth", here("state")),
            ("/srv/images", here("images")),
        ]
    }

    /// A text of the page with the paths of this environment.
    fn here(&self, text: &str) -> String {
        let replace = |text: String, (shown, here): (&str, String)| text.replace(shown, &here);
        self.paths().into_iter().fold(text.to_owned(), replace)
    }

    /// What was printed here, with the paths of a page.
    fn as_shown(&self, text: &str) -> String {
        let replace = |text: String, (shown, here): (&str, String)| text.replace(&here, shown);
        let text = self.paths().into_iter().fold(text.to_owned(), replace);
        let home = format!("{}/", self.home.path("").display());
        text.replace(&home.replace("//", "/"), "")
    }

    /// Starts `berth up` in the background, and waits until it is healthy. A running one must end for a reshape.
    fn start(&mut self, command: &str, socket: &Path) -> String {
        if let Some(up) = self.up.take() {
            let ended = up.wait(PATIENCE).expect("the one before ends");
            assert_eq!(ended.code, 75, "{}", ended.stderr);
        }
        let line = format!("{}exec {command}", self.preamble);
        self.home.run_within(["bash", "-c", &line]);
        let mut up = self.home.start(None::<&str>).expect("berth starts");
        wait_until_healthy(&mut up, socket);
        let printed = up.stdout();
        self.up = Some(up);
        printed
    }

    /// Runs a command, and gives what it printed, with the errors of a command that fails.
    fn run(&mut self, command: &str) -> String {
        if self.is_node && self.up.is_none() {
            let socket = self.home.path("state/agent.sock");
            self.start("berth up", &socket);
        }
        let command = self.here(command);
        let words: Vec<&str> = command.split_whitespace().collect();
        if command.starts_with("cargo build") {
            return String::new();
        }
        if command.starts_with("export ") || command.starts_with("cd ") {
            let _ = writeln!(self.preamble, "{command}");
            return String::new();
        }
        if command == "echo $?" {
            return format!("{}\n", std::mem::take(&mut self.code));
        }
        if words[0].ends_with("berth") && words.contains(&"up") {
            let state = words
                .iter()
                .skip_while(|&&word| word != "--state-dir")
                .nth(1);
            let state = state.expect("a page names the state directory of its node");
            let socket = self.home.path("trial").join(state).join("agent.sock");
            let printed = self.start(&command, &socket);
            return self.as_shown(&printed);
        }
        let line = format!("{}{command}", self.preamble);
        self.home.run_within(["bash", "-c", &line]);
        let ended = self.home.run(None::<&str>).expect("the command ends");
        self.code = ended.code;
        let errors = if ended.code == 0 { "" } else { &ended.stderr };
        self.as_shown(&format!("{}{errors}", ended.stdout))
    }

    /// Ends the node as Ctrl-C does.
    fn finish(mut self) {
        if let Some(mut up) = self.up.take() {
            up.signal(Signal::SIGINT);
            let ended = up.wait(PATIENCE).expect("Ctrl-C ends it");
            // 75: the page ends with a change for which the node must be started again.
            assert!([0, 75].contains(&ended.code), "{}", ended.stderr);
        }
    }

    /// Runs a step. A command that only reads is repeated until it prints what is shown, or time is over: the page's
    /// reader is slower than this test. Gives what was printed if it does not match.
    fn perform(&mut self, step: &Step) -> Option<String> {
        assert!(
            self.code == 0 || step.command == "echo $?",
            "the command before `{}` failed with {}, but the page does not show it",
            step.command,
            self.code
        );
        let reads = ["list", "show", "status", "tree", "plan", "--dry-run"];
        let reads = step.command.split(' ').any(|word| reads.contains(&word));
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let printed = self.run(&step.command);
            let shown = lines(step.shown.iter().map(String::as_str));
            if matches(&shown, &lines(printed.lines())) {
                return None;
            }
            if !reads || Instant::now() > end {
                return Some(printed);
            }
            thread::sleep(Duration::from_millis(300));
        }
    }
}

/// The lines that are not empty.
fn lines<'text>(all: impl Iterator<Item = &'text str>) -> Vec<&'text str> {
    all.filter(|line| !line.trim().is_empty()).collect()
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

/// The pages of the guide and the README, with their texts.
fn guide() -> BTreeMap<PathBuf, String> {
    let mut found = vec![checkout().join("README.md")];
    pages(&checkout().join("docs/guide"), &mut found);
    let text = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a page");
        (path, text)
    };
    found.into_iter().map(text).collect()
}

/// Runs the commands of a page, and reports those with other output.
fn differences(page: &Path, text: &str) -> Vec<String> {
    let mut differences = Vec::new();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut environment: Option<Environment> = None;
    // Lines move where the number of lines of an output before them changes.
    let mut moved = 0_isize;
    for part in parts(text) {
        let current = environment.as_mut();
        let declared = "the page declares an environment: <!-- test: none -->";
        match part {
            Part::Environment(words) => {
                if let Some(before) = environment.replace(Environment::new(&words)) {
                    before.finish();
                }
            }
            Part::File { name, text } => {
                let current = current.expect(declared);
                let path = current.home.path(&name);
                let folder = path.parent().expect("a folder");
                fs::create_dir_all(folder).expect("a folder");
                fs::write(path, current.here(&text)).expect("a file");
            }
            Part::Step(step) => {
                let current = current.unwrap_or_else(|| panic!("{}: {declared}", page.display()));
                let Some(printed) = current.perform(&step) else {
                    continue;
                };
                let shown = step.shown.join("\n");
                differences.push(format!(
                    "{}:{}: $ {}\n--- shown\n{shown}\n--- printed\n{printed}",
                    page.display(),
                    step.lines.start,
                    step.command,
                ));
                let printed: Vec<&str> = printed.trim_end().lines().collect();
                let new = blessed(&step.shown, &printed);
                let new = new.iter().map(|line| {
                    let line = format!("{:1$}{line}", "", step.indent);
                    line.trim_end().to_owned()
                });
                let new: Vec<String> = new.collect();
                let at = |line: usize| line.checked_add_signed(moved).expect("a line");
                let old = at(step.lines.start)..at(step.lines.end);
                moved += new.len().cast_signed() - old.len().cast_signed();
                lines.splice(old, new);
            }
        }
    }
    if let Some(last) = environment {
        last.finish();
    }
    if std::env::var_os("BLESS").is_some() && !differences.is_empty() {
        fs::write(page, lines.join("\n") + "\n").expect("the page is written");
        differences.clear();
    }
    differences
}

/// Waits until the agent of a running `berth up` is well.
fn wait_until_healthy(up: &mut RunningBerth, socket: &Path) {
    let probe = || {
        let ask = Command::new("curl")
            .args(["-sf", "http://localhost/healthz", "--unix-socket"])
            .arg(socket)
            .output();
        ask.is_ok_and(|output| output.status.success())
    };
    up.wait_until(PATIENCE, probe).expect("it is well");
}

#[test]
fn every_console_block_prints_what_the_guide_shows() {
    let pages = guide();
    let with_steps = pages.iter().filter(|(_, text)| {
        let text = text.lines().map(str::trim_start);
        text.filter(|line| line.starts_with("```console")).count() > 0
    });
    let with_steps: Vec<_> = with_steps.collect();
    assert!(with_steps.len() > 8, "{} pages", with_steps.len());
    let differences: Vec<String> = with_steps
        .into_iter()
        .flat_map(|(page, text)| differences(page, text))
        .collect();
    assert!(
        differences.is_empty(),
        "{}\nBLESS=1 writes the printed output into the pages",
        differences.join("\n")
    );
}

/// Writes a password into each file of this folder that a configuration names.
fn write_secrets(text: &str, folder: &Path) {
    let begin = format!("\"{}/", folder.display());
    let names = text.split(&begin).skip(1);
    for name in names.filter_map(|rest| rest.split('"').next()) {
        fs::create_dir_all(folder).expect("a folder");
        let file = folder.join(name);
        fs::write(&file, "secret\n").expect("a file");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("a mode");
    }
}

/// A `toml` block is a part of a configuration, unless its first line names another file, or a comment before it does.
#[test]
fn every_toml_block_of_the_guide_is_a_valid_configuration() {
    let mut home = BerthHome::new().expect("a home");
    let mut checked = 0;
    for (page, text) in guide() {
        let mut before = "";
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.trim_start() != "```toml" {
                before = line;
                continue;
            }
            let indent = line.len() - line.trim_start().len();
            let block: Vec<&str> = lines
                .by_ref()
                .map(|line| line.get(indent..).unwrap_or_default())
                .take_while(|line| !line.starts_with("```"))
                .collect();
            let first = block.first().copied().unwrap_or_default();
            let is_another = first.starts_with("# /etc/berth/")
                && !first.contains("/berth.toml")
                && !first.contains("/berth.d/");
            if is_another || before.contains("<!-- test: file") {
                continue;
            }
            // The check reads the files with passwords.
            let secrets = home.path("secrets").display().to_string();
            let block_text = block.join("\n").replace("/etc/berth/secrets", &secrets);
            write_secrets(&block_text, &home.path("secrets"));
            home.configure(&block_text).expect("a file");
            let file = home.config_file().display().to_string();
            let ended = home.run(["config", "check", "--offline", "--config", &file]);
            let ended = ended.expect("the check ends");
            assert_eq!(
                ended.code,
                0,
                "{}: {block:#?}\n{}",
                page.display(),
                ended.stderr
            );
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked} blocks");
}

#[test]
fn outputs_are_compared_without_parts_that_vary_between_runs() {
    for (shown, printed) in [
        (
            "node 9a17439a-85d0-4c53-a3d3-0f68a2eac896 is ok",
            "node 5a5ae9e5-3f2d-4d0a-9c0e-3d1b4b6f7a10 is ok",
        ),
        (
            "at 2026-11-27T04:13:10Z updated",
            "at 2027-01-01T00:00:00Z updated",
        ),
        ("2026-11-27 04:14:31.374000", "2026-12-01 00:00:00.000001"),
        ("http://127.0.0.1:8778/v2", "http://127.0.0.1:40123/v2"),
        ("+----+------+", "+--------+--+"),
        ("| a  | b |", "| a | b       |"),
        ("options: … set", "options: 14 set"),
        (
            "| devices | PCI function 0000:17:00.0 |",
            "| devices | PCI function 0000:65:00.0  |",
        ),
    ] {
        assert!(line_matches(shown, printed), "{shown}: {}", masked(printed));
    }
    for (shown, printed) in [
        ("VGPU 1/8", "VGPU 2/8"),
        ("at 2026-11-27T04:13:10Z", "at once"),
        ("one … two", "one thing"),
        ("| 0000:17:00.0 | GPU |", "| 0000:65:00.0 | GPU |"),
        ("in sync", "in sync: node gpu-01"),
    ] {
        assert!(!line_matches(shown, printed), "{shown}: {printed}");
    }
    assert!(matches(&["a", "...", "d"], &["a", "b", "c", "d"]));
    assert!(!matches(&["a", "...", "d"], &["a", "b"]));
}

/// Runs a line in a shell and gives what it printed.
#[track_caller]
fn shell(line: &str, home: &BerthHome) -> String {
    let output = Command::new("bash")
        .args(["-e", "-c", line])
        .current_dir(checkout())
        .env("HOME", home.path(""))
        .output()
        .expect("bash runs");
    let (stdout, stderr) = (output.stdout, output.stderr);
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(output.status.success(), "{line}\n{stdout}\n{stderr}");
    stdout
}

#[test]
fn each_command_that_up_prints_works_when_it_is_pasted() {
    let mut home = BerthHome::new().expect("a home");
    home.set_env("BERTH__API__LISTEN", "127.0.0.1:0");
    // A folder that a shell would take for two words.
    let state = home.path("a state");
    let machine = checkout().join("drivers/fake/machines/pcpu.toml");
    let mut up = home
        .start([
            "up",
            "--state-dir",
            "a state",
            "--machine",
            &machine.display().to_string(),
        ])
        .expect("berth starts");
    wait_until_healthy(&mut up, &state.join("agent.sock"));
    // The agent may be healthy before `up` has printed it.
    let mut output = up.stdout();
    for _ in 0..300 {
        if output.contains("next:\n") {
            break;
        }
        thread::sleep(Duration::from_millis(100));
        output = up.stdout();
    }
    let (_, next) = output.split_once("next:\n").expect("it says what is next");
    let mut worked = 0;
    for line in next.lines().map(str::trim) {
        let needs_openstack = line.contains(" openstack ");
        if needs_openstack && !there_is("openstack") {
            let clouds = fs::read_to_string(state.join("clouds.yaml")).expect("a file");
            assert!(
                line.contains("clouds.yaml") && clouds.contains("  berth:\n"),
                "{line}"
            );
            continue;
        }
        let printed = shell(line, &home);
        assert!(printed.contains("cpu-01"), "{line}: {printed}");
        worked += 1;
    }
    assert!(worked >= 3, "{output}");
    assert_eq!(up.stop(PATIENCE).expect("it ends").code, 0);
    assert!(!state.join("placement.sock").exists(), "it is no more");
}

/// The commands of the README's walk: the lines of the block beneath its heading.
fn walk() -> Vec<String> {
    let page = fs::read_to_string(checkout().join("README.md")).expect("the page");
    let (_, section) = page
        .split_once("\n## Use the `openstack` client\n")
        .expect("its heading");
    let (_, block) = section.split_once("```\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    block.lines().map(str::to_owned).collect()
}

/// An images file with the image that `make run` builds.
fn images(home: &BerthHome) -> String {
    let image = home.path("berth-guest.raw");
    fs::write(&image, served()).expect("a file");
    let text = format!(
        "[[image]]\nname = \"berth-guest\"\nid = \"9a17439a-85d0-4c53-a3d3-0f68a2eac898\"\nfile = \"{}\"\ndisk_format = \"raw\"\n",
        image.display()
    );
    let file = home.write("images.toml", &text).expect("a file");
    file.display().to_string()
}

/// The node of `make run` is one with a fake machine here, on which guests' consoles are silent.
#[test]
fn the_readmes_openstack_commands_work_as_written() {
    let home = BerthHome::new().expect("a home");
    let images = images(&home);
    let images = [("BERTH__COMPUTE_SERVICE__IMAGES_FILE", images.as_str())];
    let mut cloud = Cloud::start("readme-up", &images);
    let mut operator = operator(&cloud.state());
    let commands = walk();
    let [install, login, commands @ ..] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    // The peers are this client, and the operator here has logged in.
    let pinned = fs::read_to_string(checkout().join("tests/peers/requirements.txt"));
    let pinned = pinned.expect("what the peers are");
    let (_, packages) = install.split_once("/bin/pip install ").expect("a pip");
    for package in packages.split(' ') {
        assert!(pinned.contains(&format!("\n{package}==")), "{package}");
    }
    assert_eq!(login, ". target/run/guest/openrc");
    assert!(commands.len() > 12, "{commands:?}");
    // make run makes it.
    let key = cloud.state().join("key.pub");
    let line =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJyZrbhUdnS6IsVh9pM0ARvdqzZ8t5xTn1AfQqzhHnSi berth\n";
    fs::write(&key, line).expect("a key");
    let key = key.display().to_string();
    for command in commands {
        // Nothing answers at the address of a guest of a fake machine. `make run` logs in by the same script.
        if let Some(login) = command.strip_prefix("ssh-guest ") {
            assert_eq!(login, "web uname -sr");
            let story = fs::read_to_string(checkout().join("packaging/scripts/guest-story.sh"));
            let story = story.expect("the script");
            assert!(story.contains(&format!("  {command} ")), "{command}");
            continue;
        }
        let words = command.strip_prefix("openstack ").expect("the client");
        if words.starts_with("console log show") {
            let shown = operator.json("server show web");
            let id = shown["id"].as_str().expect("an id");
            let log = cloud.state().join(format!("instances/{id}/console.log"));
            fs::write(log, "berth-guest: ready\n").expect("the guest's folder is there");
        }
        let words = words.replace("target/run/guest/key.pub", &key);
        let output = operator.done(&words);
        let verb: Vec<&str> = words.split(' ').take(3).collect();
        let (shows, becomes) = match verb.join(" ").as_str() {
            "keypair create --public-key" => ("fingerprint", None),
            "hypervisor list" | "resource provider list" => ("readme-up", None),
            "compute service list" => ("nova-compute", None),
            "accelerator device profile" => ("PGPU", None),
            "flavor create tiny" => ("accel:device_profile='gpu'", None),
            "server create web" => ("ACTIVE", None),
            "server show web" => ("readme-up", None),
            "accelerator arq list" => ("Bound", None),
            "console log show" => ("berth-guest: ready", None),
            "server stop web" => ("", Some("SHUTOFF")),
            "server start web" | "server reboot web" => ("", Some("ACTIVE")),
            "server delete web" => ("", None),
            _ => panic!("what is {command} to show?"),
        };
        assert!(output.contains(shows), "{command}: {output}");
        // Who types is not that quick.
        if let Some(status) = becomes {
            operator.until("web", status);
        }
    }
    assert_eq!(operator.json("server list"), json!([]));
    let end = Instant::now() + PATIENCE;
    while operator.json("accelerator arq list") != json!([]) {
        assert!(Instant::now() < end, "its requests do not go");
        thread::sleep(Duration::from_millis(100));
    }
    let password = password(&cloud.state());
    let reported = cloud.host.up.stdout() + &cloud.host.up.stderr();
    assert!(!reported.contains(&password), "the password is not printed");
    cloud.host.kill_and_start_again();
}

fn there_is(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.is_ok_and(|output| output.status.success())
}
