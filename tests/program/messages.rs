//! Typical mistakes and the exact text of each message. `docs/guide/reference/messages.md` lists them.

use std::fs;

use berth_tests::berth::{BerthHome, Outcome, RunningBerth};
use berth_tests::peer::checkout;
use berth_tests::port::free_port;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::way;

/// The message of a failed command, without the log before it; ids of requests and guests are `ID`.
#[track_caller]
fn message(outcome: &Outcome, code: i32) -> String {
    let stderr = &outcome.stderr;
    assert_eq!(outcome.code, code, "{}\n{stderr}", outcome.stdout);
    let start = stderr.find("error: ").expect("a message");
    let words = stderr[start..].split_inclusive([' ', '(', ')', ':', '\n']);
    let masked = words.map(|word| {
        let id = word.trim_end_matches([' ', '(', ')', ':', '\n']);
        let bare = id.strip_prefix("req-").unwrap_or(id);
        match bare.len() == 36 && bare.bytes().filter(|byte| *byte == b'-').count() == 4 {
            true => word.replacen(id, "ID", 1),
            false => word.to_owned(),
        }
    });
    masked.collect()
}

/// `berth up` on a fake machine, running and answering, with the URL of its Placement.
fn up() -> (Hypervisor, RunningBerth, String) {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let any = "127.0.0.1:0";
    node.home
        .open_to_everybody(&[("PLACEMENT_SERVICE", any), ("ACCELERATOR_SERVICE", any)]);
    let mut up = node.start(&["up"]);
    node.wait_until_healthy(&mut up);
    let url = fs::read_to_string(node.home.state_dir().join("placement.endpoint"));
    let url = url.expect("the endpoint").trim().to_owned();
    (node, up, url)
}

/// The message of a start of the agent with this way to Placement.
fn agent(placement: &str, code: i32) -> String {
    let mut node = Hypervisor::new("pcpu", "elsewhere-1", placement);
    message(&node.run(&["agent", "--once", "--deadline", "2s"]), code)
}

#[test]
fn an_agent_without_access_to_placement_says_what_to_set() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let refused = message(&node.run(&["agent", "--once"]), 78);
    assert!(
        refused.starts_with(
            "error: Placement is not configured [BERTH-E0107]\ncause: auth_type: is not set; it must be one of"
        ),
        "{refused}"
    );
    assert!(
        refused.ends_with(
            "\nhint: set auth_type and auth_url in [placement], see \
             /usr/share/doc/berth/guide/howto/install.md; or run berth up\n"
        ),
        "{refused}"
    );
    let refused = message(&node.run(&["config", "check", "--for", "agent"]), 78);
    let (text, hint) = refused.split_once("\nhint: ").expect("a hint");
    assert_eq!(
        text,
        "error: the configuration is refused, 1 error [BERTH-E0107]\n\
         cause: default: placement.auth_type: is not set; set auth_type and auth_url in [placement], or run berth up \
         [BERTH-E0107]"
    );
    // The command names the same file.
    assert!(
        hint.starts_with("correct these lines, then run: ")
            && hint.ends_with(" config check --for agent\n"),
        "{hint}"
    );
    let file = format!(" --config {} ", node.home.config_file().display());
    assert!(hint.contains(&file), "{hint}");
    let checked = node.run(&["config", "check"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        checked.stdout.ends_with(
            "berth agent would not start: placement.auth_type is not set; berth up needs none\n"
        ),
        "{}",
        checked.stdout
    );
    let checked = node.run(&["config", "check", "--for", "up"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    // The tests' environment turns the front listener off.
    let refused = message(&node.run(&["config", "check", "--for", "controller"]), 78);
    assert!(
        refused.contains("api.listen: names no address, and the controller needs one;"),
        "{refused}"
    );
}

#[test]
fn a_placement_that_cannot_be_reached_is_named_with_the_reason_and_the_option() {
    let port = free_port().expect("a port");
    assert_eq!(
        agent(&way(&format!("http://127.0.0.1:{port}")), 69),
        format!(
            "error: cannot reach Placement: 127.0.0.1:{port} refuses connections [BERTH-E0301]\n\
             cause: not done within 2s\n\
             hint: check that the service is running, and that its URL is right: [placement] endpoint_override\n"
        )
    );
    assert_eq!(
        agent(&way("http://placement.invalid"), 69),
        "error: cannot reach Placement: cannot resolve placement.invalid [BERTH-E0301]\n\
         cause: not done within 2s\n\
         hint: correct the host name in [placement] endpoint_override\n"
    );
}

#[test]
fn a_wrong_url_of_placement_is_known_as_such() {
    let (node, up, url) = up();
    let peer = url.trim_start_matches("http://");
    assert_eq!(
        agent(&way(&format!("https://{peer}")), 69),
        format!(
            "error: cannot reach Placement: {peer} does not speak TLS [BERTH-E0301]\n\
             cause: not done within 2s\n\
             hint: write http:// in [placement] endpoint_override\n"
        )
    );
    let accelerator = fs::read_to_string(node.home.state_dir().join("accelerator.endpoint"));
    let accelerator = accelerator.expect("the endpoint").trim().to_owned();
    let accelerator = accelerator.trim_end_matches("/v2");
    for (url, found) in [
        (format!("{url}/placement"), "GET / answers 404"),
        (accelerator.to_owned(), "no version document"),
    ] {
        assert_eq!(
            agent(&way(&url), 78),
            format!(
                "error: {url} is not a Placement API ({found}) [BERTH-E0309]\n\
                 hint: its URL is [placement] endpoint_override, or by default the catalog's (openstack endpoint list \
                 --service placement)\n"
            )
        );
    }
    // Without --once, too: the unit does not start it again.
    let mut wrong = Hypervisor::new("pcpu", "node-2", &way(&format!("{url}/placement")));
    let ended = wrong.start(&["agent"]).wait(PATIENCE).expect("it ends");
    assert!(message(&ended, 78).contains("[BERTH-E0309]"));
    up.stop(PATIENCE).expect("it ends");
}

#[test]
fn a_token_that_placement_does_not_accept_has_a_hint_that_fits_the_auth_type() {
    let (_node, up, url) = up();
    assert_eq!(
        agent(
            &format!("auth_type = \"none\"\nendpoint_override = \"{url}\""),
            78
        ),
        "error: Placement requires a token [BERTH-E0302]\n\
         hint: set auth_type = \"admin_token\" and token = \"admin\" for a Placement with auth_strategy = \"noauth2\", \
         else the account of a user\n"
    );
    let wrong =
        format!("auth_type = \"admin_token\"\nendpoint_override = \"{url}\"\ntoken = \"secret\"");
    let refused = agent(&wrong, 78);
    assert!(
        refused.ends_with(
            " [BERTH-E0307]\nhint: a Placement with auth_strategy = \"noauth2\" accepts the token admin only; another one \
             needs the account of a user\n"
        ),
        "{refused}"
    );
    up.stop(PATIENCE).expect("it ends");
}

#[test]
fn commands_ask_the_running_agent_and_need_no_machine() {
    let mut home = BerthHome::new().expect("a home");
    let state = home.state_dir().display().to_string();
    let machine = checkout().join("drivers/fake/machines/pcpu.toml");
    let machine = machine.display().to_string();
    let arguments = ["--machine", &machine, "--state-dir", &state, "up"];
    let mut up = home.start(arguments).expect("it starts");
    let ready = up.wait_for_line(PATIENCE, "next:");
    ready.expect("it is ready");
    let of_state = ["--state-dir", &state];
    let mut run = |arguments: &[&str]| home.run([&of_state, arguments].concat()).expect("it runs");
    let tree = run(&["provider", "tree"]);
    assert_eq!(tree.code, 0, "{}", tree.stderr);
    assert!(tree.stdout.contains("  VCPU "), "{}", tree.stdout);
    let named = run(&["provider", "tree", "--uuid"]);
    let first = named.stdout.lines().next().unwrap_or_default();
    let root = fs::read_to_string(format!("{state}/compute_id")).expect("a node");
    assert!(first.contains(&format!(" ({})", root.trim())), "{first}");
    let listed = run(&["provider", "tree", "-f", "json"]);
    assert!(listed.stdout.contains(root.trim()), "{}", listed.stdout);
    up.stop(PATIENCE).expect("it ends");
}

#[test]
fn what_does_not_exist_is_refused_before_a_guest_is_recorded() {
    let (mut node, up, _) = up();
    let mut refused = |more: &[&str]| {
        let create = [
            "guest",
            "create",
            "web",
            "--vcpus",
            "1",
            "--ram",
            "64",
            "--no-wait",
        ];
        let outcome = node.run(&[&create, more].concat());
        message(&outcome, 1)
    };
    for (more, text) in [
        (
            &["--device-profile", "nosuch"][..],
            "error: there is no device profile nosuch; berth accelerator profile list shows all \
             [BERTH-E0005]\n",
        ),
        (
            &["--availability-zone", "nowhere"],
            "error: there is no availability zone nowhere; there is nova [BERTH-E0005]\n",
        ),
        (
            &["--property", "hw:cpu_polcy=dedicated"],
            "error: flavor.extra_specs: unknown extra spec hw:cpu_polcy; did you mean \
             hw:cpu_policy? [BERTH-E0005]\n",
        ),
    ] {
        assert_eq!(refused(more), text, "{more:?}");
    }
    let listed = node.run(&["guest", "list", "-f", "value"]);
    assert!(!listed.stdout.contains("web"), "{}", listed.stdout);
    up.stop(PATIENCE).expect("it ends");
}

#[test]
fn a_second_guest_of_the_same_name_is_refused_and_the_first_keeps_its_name() {
    let (mut node, up, _) = up();
    let create = [
        "guest",
        "create",
        "web",
        "--vcpus",
        "1",
        "--ram",
        "64",
        "--no-wait",
    ];
    assert_eq!(node.run(&create).code, 0);
    assert_eq!(
        message(&node.run(&create), 1),
        "error: a guest named web exists already: ID [BERTH-E0005]\n"
    );
    let shown = node.run(&["guest", "show", "web"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    up.stop(PATIENCE).expect("it ends");
}

#[test]
fn a_device_profile_is_refused_in_one_sentence() {
    let (mut node, up, _) = up();
    let create = [
        "accelerator",
        "profile",
        "create",
        "gpu",
        "--group",
        "resources:PGPU=1",
    ];
    assert_eq!(node.run(&create).code, 0);
    assert_eq!(
        message(&node.run(&create), 1),
        "error: A device_profile with name gpu already exists [BERTH-E0005]\n"
    );
    assert_eq!(
        message(&node.run(&["accelerator", "profile", "show", "nosuch"]), 1),
        "error: there is no device profile nosuch [BERTH-E0005]\nhint: berth accelerator profile list\n"
    );
    let warned = node.run(&[
        "accelerator",
        "profile",
        "create",
        "typo",
        "--group",
        "resources:GPU=1",
    ]);
    assert_eq!(warned.code, 0, "{}", warned.stderr);
    assert!(
        warned
            .stderr
            .contains("no provider has a free unit of this class"),
        "{}",
        warned.stderr
    );
    assert_eq!(
        message(
            &node.run(&["accelerator", "adopt", "--from", "http://127.0.0.1:1/v2"]),
            78
        ),
        "error: no credentials for Cyborg [BERTH-E0107]\n\
         hint: set auth_type, auth_url, username and password in [cyborg]\n"
    );
    up.stop(PATIENCE).expect("it ends");
}

#[test]
fn a_mistyped_path_is_an_error_and_nothing_is_created() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let above = node.home.path("nope/deep").display().to_string();
    let state = format!("{above}/state");
    assert_eq!(
        message(&node.run(&["--state-dir", &state, "up"]), 74),
        format!(
            "error: cannot use the state folder {state} [BERTH-E0304]\ncause: {above} does not exist\n\
             hint: name one that this user may write to: --state-dir DIR, or state_path\n"
        )
    );
    let database = format!("sqlite:{above}/x.sqlite");
    assert_eq!(
        message(
            &node.run(&["placement", "db", "version", "--database", &database]),
            74
        ),
        format!(
            "error: {above}/x.sqlite does not exist [BERTH-E0304]\n\
             hint: name the database that the service uses: --database sqlite:PATH\n"
        )
    );
    assert!(!node.home.path("nope").exists());
    let users = node.home.path("nope.toml").display().to_string();
    let refused = message(&node.run(&["identity", "check", "--users", &users]), 78);
    assert!(
        refused.ends_with(
            "\nhint: write the file as /usr/share/doc/berth/guide/howto/identity.md shows, or name another one: --users \
             FILE\n"
        ),
        "{refused}"
    );
}

#[test]
fn a_check_finds_errors_of_text_and_host_in_one_run() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let images = "[[image]]\nname = \"x\"\ndisk_format = \"iso\"\n";
    let images = node.home.write("images.toml", images).expect("a file");
    node.configure("auth_typo = \"none\"", "bogus = 1\n");
    let file = node.home.config_file();
    let text = fs::read_to_string(&file).expect("the configuration");
    let text = format!(
        "{text}[compute_service]\nimages_file = \"{}\"\n[accelerators]\nreset_hook = \"/nope/hook\"\n",
        images.display()
    );
    fs::write(&file, text).expect("a file");
    let refused = message(&node.run(&["config", "check"]), 78);
    let images = images.display();
    for words in [
        "the configuration is refused, 5 errors".to_owned(),
        ": bogus: unknown option".to_owned(),
        ": placement.auth_typo: unknown option; did you mean auth_type? [BERTH-E0102]".to_owned(),
        ": accelerators.reset_hook: \"/nope/hook\" cannot be read: No such file or directory"
            .to_owned(),
        format!(
            "cause: {images}:3:15: image \"x\": disk_format is \"raw\" or \"qcow2\" [BERTH-E0105]"
        ),
        format!("cause: {images}:1:1: image \"x\": set exactly one of file"),
    ] {
        assert!(refused.contains(&words), "{words}\n{refused}");
    }
}

#[test]
fn a_configuration_file_that_does_not_exist_has_no_lines_to_correct() {
    let mut home = BerthHome::new().expect("a home");
    let missing = home.path("nope.toml").display().to_string();
    let refused = home.run(["--config", &missing, "config", "check"]);
    assert_eq!(
        message(&refused.expect("it runs"), 78),
        format!(
            "error: the configuration is refused, 1 error [BERTH-E0106]\n\
             cause: {missing}: cannot be read: No such file or directory; name a file that exists, or leave \
             the option out for the usual files [BERTH-E0106]\n\
             hint: correct this file or its path, then repeat the command\n"
        )
    );
    let refused = home.run(["config", "check", "berth.toml"]);
    let refused = message(&refused.expect("it runs"), 64);
    assert!(
        refused.starts_with(
            "error: unexpected argument 'berth.toml' found\nhint: to read this file: --config berth.toml\n"
        ),
        "{refused}"
    );
}

#[test]
fn a_start_whose_address_is_used_creates_no_state() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    node.home.set_env("BERTH__API__LISTEN", &address);
    let state = node.home.path("new").display().to_string();
    for command in ["up", "controller"] {
        let refused = message(&node.run(&["--state-dir", &state, command]), 73);
        assert!(
            refused.starts_with(&format!(
                "error: cannot listen on {address} [BERTH-E0303]\n"
            )),
            "{refused}"
        );
        assert!(!node.home.path("new").exists(), "{command}");
    }
}
