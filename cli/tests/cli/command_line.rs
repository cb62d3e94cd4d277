//! The program as scripts meet it: output, exit codes, words on standard error.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs the program with an environment of its own.
fn berth(arguments: &[&str]) -> Output {
    berth_with(arguments, &[])
}

fn berth_with(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// A configuration file of this text.
fn file(text: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("berth.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

#[test]
fn help_and_version_end_with_0_and_show_examples() {
    let help = berth(&["--help"]);
    assert_eq!(code(&help), 0);
    assert!(out(&help).contains("berth config check") && out(&help).contains("Exit codes"));
    assert_eq!(
        out(&berth(&["--version"])),
        concat!("berth ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn usage_errors_exit_with_64_and_suggest_the_nearest_value() {
    for (arguments, expected) in [
        (&["confgi", "check"][..], "config"),
        (&["config", "chekc"][..], "check"),
        (&["config", "show", "--orign"][..], "--origin"),
        (&["doctor", "-f", "jsno"][..], "json"),
        (&["completion", "bsh"][..], "bash"),
        (&["config", "show", "-c", "colour"][..], "option, value"),
        (&["--log-level", "loud", "config", "check"][..], "debug"),
        (&[][..], "Usage"),
        (&["man"][..], "--dir"),
    ] {
        let output = berth(arguments);
        assert_eq!(code(&output), 64, "{arguments:?}: {}", err(&output));
        assert!(
            err(&output).contains(expected),
            "{arguments:?}: {}",
            err(&output)
        );
        assert_eq!(out(&output), "");
    }
}

#[test]
fn a_refused_configuration_ends_with_78_and_every_error_on_standard_error() {
    let (_directory, path) = file("hots = 1\n[compute]\ncpu_shared_set = \"x\"\n");
    for subcommand in ["check", "show", "diff"] {
        let output = berth(&["config", subcommand, "--config", &path]);
        assert_eq!(code(&output), 78);
        let printed = err(&output);
        assert!(
            printed.starts_with(
                "error: the configuration is refused, 2 errors [BERTH-E0102]\ncause: "
            ),
            "{printed}"
        );
        assert!(
            printed.contains("berth.toml:1:1: hots:")
                && printed.contains("berth.toml:3:18: compute.cpu_shared_set:")
        );
        assert!(printed.contains("hint: "));
        assert_eq!(out(&output), "");
    }
}

#[test]
fn a_valid_configuration_is_reported_as_good() {
    let (_directory, path) = file("host = \"a\"\n[libvirt]\nvirt_type = \"qemu\"\n");
    let output = berth(&["config", "check", "--config", &path]);
    assert_eq!(
        (code(&output), out(&output).as_str()),
        (
            0,
            "the configuration is good: 2 options set, 0 warnings\n\
             berth agent would not start: placement.auth_type is not set; berth up needs none\n"
        )
    );
}

#[test]
fn a_check_without_any_file_reports_that_the_defaults_are_used() {
    let empty = tempfile::tempdir().unwrap();
    let folder = empty.path().to_str().unwrap();
    let output = berth_with(
        &["config", "check", "--config-dir", folder],
        &[("BERTH__LIBVIRT__VIRT_TYPE", "qemu")],
    );
    let printed = out(&output);
    let there = std::path::Path::new(berth_config::FILE).exists();
    let expected = format!(
        "there is no configuration file: neither {} nor a *.toml in {folder} is there",
        berth_config::FILE
    );
    assert_eq!(
        printed.contains(&expected),
        !there,
        "{printed}{}",
        err(&output)
    );
    assert!(
        printed.contains("the configuration is good: 1 options set"),
        "{printed}"
    );
}

#[test]
fn warnings_are_refused_only_when_asked() {
    let (_directory, path) = file("[libvirt]\nvirt_type = \"qemu\"\n[mdev_a]\nmax_instances = 1\n");
    let output = berth(&["config", "check", "--config", &path]);
    assert_eq!(code(&output), 0);
    assert!(out(&output).contains("warning: ") && out(&output).contains("1 warnings"));
    assert_eq!(
        code(&berth(&[
            "config",
            "check",
            "--deny-warnings",
            "--config",
            &path
        ])),
        78
    );
}

#[test]
fn files_named_must_be_on_this_host_unless_offline() {
    let (directory, path) =
        file("compute_driver = \"fake\"\n[fake]\nmachine = \"/nowhere/machine.toml\"\n");
    let output = berth(&["config", "check", "--config", &path]);
    assert_eq!(code(&output), 78);
    assert!(
        err(&output)
            .contains("berth.toml:3:11: fake.machine: \"/nowhere/machine.toml\" cannot be read"),
        "{}",
        err(&output)
    );
    assert_eq!(
        code(&berth(&["config", "check", "--offline", "--config", &path])),
        0
    );
    drop(directory);
}

#[test]
fn show_masks_secrets_in_every_format() {
    let text = "[placement]\nauth_type = \"admin_token\"\ntoken = \"hunter2\"\nendpoint_override = \"http://127.0.0.1\"\n";
    let (_directory, path) = file(text);
    for format in ["table", "json", "yaml", "csv", "value"] {
        let output = berth(&[
            "config", "show", "--origin", "-f", format, "--config", &path,
        ]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        assert!(
            out(&output).contains("***") && !out(&output).contains("hunter2"),
            "{format}"
        );
        assert!(out(&output).contains("berth.toml:3:9"), "{format}");
    }
}

#[test]
fn show_prints_what_scripts_ask_for() {
    let (_directory, path) = file("host = \"a\"\n");
    let environment = [("BERTH__RESERVED_HOST_CPUS", "2")];
    let arguments = [
        "config", "show", "--set", "--origin", "-f", "csv", "--config", &path,
    ];
    let output = berth_with(&arguments, &environment);
    let expected = format!(
        "option,value,origin\nhost,a,{path}:1:8\nreserved_host_cpus,2,variable BERTH__RESERVED_HOST_CPUS\n"
    );
    assert_eq!(out(&output), expected);
    let output = berth_with(
        &[
            "config", "show", "--set", "-f", "value", "-c", "value", "--config", &path,
        ],
        &environment,
    );
    assert_eq!(out(&output), "a\n2\n");
}

#[test]
fn diff_without_an_agent_ends_with_69() {
    let (directory, path) = file("");
    let socket = directory.path().join("agent.sock");
    let output = berth(&[
        "config",
        "diff",
        "--config",
        &path,
        "--socket",
        socket.to_str().unwrap(),
    ]);
    assert_eq!(code(&output), 69);
    assert!(
        err(&output).contains("agent.sock") && err(&output).contains("BERTH-E0201"),
        "{}",
        err(&output)
    );
}

/// An agent that answers its configuration once.
fn agent(socket: &std::path::Path, status: &str, body: &str) -> std::thread::JoinHandle<String> {
    let listener = UnixListener::bind(socket).unwrap();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 4096];
        let read = stream.read(&mut request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    })
}

#[test]
fn diff_shows_what_a_reload_changes_and_what_needs_a_restart() {
    let (directory, path) = file("reserved_host_cpus = 2\nstate_path = \"/b\"\n");
    let socket = directory.path().join("agent.sock");
    let shown = berth(&["config", "show", "-f", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&out(&shown)).unwrap();
    let running: serde_json::Map<String, serde_json::Value> = shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| {
            (
                each["option"].as_str().unwrap().to_owned(),
                each["value"].clone(),
            )
        })
        .collect();
    let serving = agent(
        &socket,
        "200 OK",
        &serde_json::json!({"api": "berth/1", "config": running}).to_string(),
    );
    let output = berth(&[
        "config",
        "diff",
        "-f",
        "csv",
        "--config",
        &path,
        "--socket",
        socket.to_str().unwrap(),
    ]);
    let expected = "option,running,file,takes_effect\nreserved_host_cpus,0,2,live\nstate_path,/var/lib/berth,/b,needs restart\n";
    assert_eq!(
        (code(&output), out(&output).as_str()),
        (0, expected),
        "{}",
        err(&output)
    );
    assert!(
        serving
            .join()
            .unwrap()
            .starts_with("GET /v1/config HTTP/1.1\r\n")
    );
}

#[test]
fn an_invalid_answer_of_the_agent_ends_with_69() {
    for (status, body) in [
        ("403 Forbidden", "{}"),
        ("200 OK", "{\"api\": \"berth/9\"}"),
        ("200 OK", "<html>"),
    ] {
        let (directory, path) = file("");
        let socket = directory.path().join("agent.sock");
        let serving = agent(&socket, status, body);
        let output = berth(&[
            "config",
            "diff",
            "--config",
            &path,
            "--socket",
            socket.to_str().unwrap(),
        ]);
        assert_eq!(code(&output), 69);
        assert!(err(&output).contains("BERTH-E0202"), "{}", err(&output));
        serving.join().unwrap();
    }
}

#[test]
fn doctor_reports_an_invalid_configuration_as_a_finding() {
    let (_directory, path) = file("hots = 1\n");
    let output = berth(&["doctor", "--offline", "-f", "json", "--config", &path]);
    assert_eq!(code(&output), 78);
    let document: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(document["api"], "berth/1");
    let first = &document["items"][0];
    assert_eq!(
        (first["check"].as_str(), first["status"].as_str()),
        (Some("config-valid"), Some("failure"))
    );
    assert!(document["items"].as_array().unwrap().len() >= 30);
}

#[test]
fn completions_and_manual_pages_are_written() {
    for (shell, expected) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef berth"),
        ("fish", "complete -c berth"),
    ] {
        let output = berth(&["completion", shell]);
        assert_eq!(code(&output), 0);
        assert!(out(&output).contains(expected), "{shell}");
    }
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    assert_eq!(code(&berth(&["man", "--dir", pages.to_str().unwrap()])), 0);
    for page in [
        "berth.1",
        "berth-config.1",
        "berth-config-check.1",
        "berth-doctor.1",
    ] {
        assert!(
            fs::read_to_string(pages.join(page))
                .unwrap()
                .contains("berth"),
            "{page}"
        );
    }
}

#[test]
fn output_that_cannot_be_written_ends_with_74() {
    let status = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["completion", "bash"])
        .stdout(fs::File::options().write(true).open("/dev/full").unwrap())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(74));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["completion", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
}

#[test]
fn no_subcommand_is_forced_by_a_blanket_option() {
    fn walk(command: &clap::Command) {
        for argument in command.get_arguments() {
            assert_ne!(argument.get_long(), Some("force"), "{}", command.get_name());
        }
        command.get_subcommands().for_each(walk);
    }
    walk(&<berth_cli::arguments::Cli as clap::CommandFactory>::command());
}

#[test]
fn a_dry_run_runs_plugins_only_on_request() {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/examples/scheduler-plugin/rack_power.py"
    );
    // Root refuses a program that another user owns, as in a checkout.
    let (kept, sample) = file(&fs::read_to_string(sample).unwrap());
    fs::set_permissions(&sample, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(kept.path().exists());
    let (_kept, config) = file(&format!(
        "[filter_scheduler]\nweight_classes = [\"rack_power\"]\n[scheduler_plugin_rack_power]\nprogram = \"{sample}\"\ntime_budget = 60\n"
    ));
    let (_kept_too, request) = file(
        r#"{"config": {"filter_scheduler.enabled_filters": ["ComputeFilter", "rack_power"],
                       "filter_scheduler.weight_classes": ["rack_power"]},
            "hosts": [{"host": "a", "aggregates": [{"metadata": {"power_w": "500"}}]},
                      {"host": "b", "aggregates": [{"metadata": {"power_w": "900"}}]},
                      {"host": "c", "aggregates": [{"metadata": {"power_w": "lots"}}]}],
            "request": {"flavor": {"vcpus": 1}}}"#,
    );
    let explain = ["--config", &config, "scheduler", "explain", &request];
    let with = |more: &[&str]| berth(&[&explain[..], more].concat());
    let asked = with(&["--plugins"]);
    assert_eq!(code(&asked), 0, "{}", err(&asked));
    let output = out(&asked);
    assert!(output.starts_with("b was selected"), "{output}");
    assert!(
        output.contains("c: rack_power rejects it: its power_w is 'lots'"),
        "{output}"
    );
    // As for built-in ones, what if it were not there?
    let without = with(&["--plugins", "--without-filter", "rack_power"]);
    assert_eq!(code(&without), 0, "{}", err(&without));
    let refused = with(&[]);
    assert_ne!(code(&refused), 0);
    assert!(err(&refused).contains("rack_power"), "{}", err(&refused));
}

#[test]
fn mistakes_on_the_command_line_say_what_is_expected() {
    let (_bad, bad) = file("{");
    let create = ["guest", "create", "web", "--vcpus", "1", "--ram", "64"];
    for (arguments, expected) in [
        (
            &["guest", "create", "web", "--vcpus", "two", "--ram", "64"][..],
            "error: invalid value 'two' for '--vcpus <N>': expected a number of virtual CPUs from 1\n".to_owned(),
        ),
        (
            &["guest", "create", "web", "--vcpus", "1", "--ram", "much"],
            "error: invalid value 'much' for '--ram <SIZE>': expected a number of MiB such as 2048, or a size such as 2G\n"
                .to_owned(),
        ),
        (
            &["guest", "stop", "web", "--grace", "-1"],
            "error: invalid value '-1' for '--grace <SECONDS>': grace must be a whole number of seconds from 0 to 600\n"
                .to_owned(),
        ),
        (
            &[&create[..], &["--image", "debian"]].concat(),
            "error: there is no file debian [BERTH-E0004]\nhint: name an image by its path, its URL, or its UUID in the image \
             service: openstack image list\n"
                .to_owned(),
        ),
        (
            &["scheduler", "explain"],
            "error: name the JSON file of a request, or a guest [BERTH-E0001]\n\
             hint: berth scheduler explain --request GUEST\n"
                .to_owned(),
        ),
        (
            &["scheduler", "explain", &bad],
            format!(
                "error: {bad} cannot be scheduled [BERTH-E0001]\n\
                 cause: the cases are not valid JSON: EOF while parsing an object at line 1 column 1\n"
            ),
        ),
        (
            &["placement", "explain", "resources=VCPU"],
            "error: the query is invalid [BERTH-E0105]\n\
             cause: resources=\"VCPU\" is not a valid parameter: CLASS:AMOUNT, separated by commas, with amounts from 1\n\
             hint: berth placement explain --help shows an example\n"
                .to_owned(),
        ),
        (
            &["upp"],
            "error: unrecognized subcommand 'upp'\nhint: a similar subcommand exists: 'up'\n".to_owned(),
        ),
        (
            &["help", "upp"],
            "error: unrecognized subcommand 'upp'\nhint: a similar subcommand exists: 'up'\n".to_owned(),
        ),
    ] {
        let output = berth(arguments);
        let printed = err(&output);
        assert!(printed.starts_with(&expected), "{arguments:?}: {printed}");
    }
}

#[test]
fn an_error_number_is_explained_without_a_configuration() {
    let output = berth(&["explain", "E0004"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let explained = out(&output);
    assert!(
        explained.starts_with(
            "BERTH-E0004: A file could not be written or read.\nexit code: 74 (disk)\n"
        ),
        "{explained}"
    );
}
