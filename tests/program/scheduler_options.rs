//! The scheduler's options in the configuration: `berth config check` finds invalid ones, not only `berth up`.

use std::os::unix::fs::PermissionsExt;

use crate::program::accelerator_service::home;
use crate::program::hypervisor::{Hypervisor, PATIENCE};

/// A machine with these additional sections in its configuration.
fn machine(node: &str, sections: &str) -> Hypervisor {
    Hypervisor::new("pcpu", node, sections)
}

#[test]
fn up_once_refuses_invalid_scheduler_options_as_up_does() {
    let sections = "[filter_scheduler]\nenabled_filters = [\"ComputFilter\"]\n";
    let mut machine = machine("once-1", sections);
    for arguments in [&["up", "--once"][..], &["up"]] {
        let ended = machine.run(arguments);
        assert_eq!(ended.code, 78, "{arguments:?}: {}", ended.stderr);
        let words = "[filter_scheduler] enabled_filters: there is no filter ComputFilter";
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn up_can_be_stopped_while_it_reads_a_plugins_manifest() {
    let sections = "[filter_scheduler]\nweight_classes = [\"slow\"]\n[scheduler_plugin_slow]\nprogram = \"@HOME@/slow.sh\"\n";
    let mut machine = machine("slow-1", sections);
    let asked = machine.home.path("asked");
    let script = format!(
        "#!/bin/sh\necho $$ > {}\nexec sleep 1000\n",
        asked.display()
    );
    let slow = machine.home.write("slow.sh", &script).expect("a file");
    std::fs::set_permissions(&slow, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let mut up = machine.start(&["up"]);
    let is_asked = || std::fs::read_to_string(&asked).is_ok_and(|pid| !pid.is_empty());
    up.wait_until(PATIENCE, is_asked).expect("it is asked");
    let ended = up.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn a_plugin_that_others_can_change_is_refused_with_its_remedy() {
    let mut home = home();
    let open = home.write("open.sh", "#!/bin/sh\nexit 1\n");
    let open = open.expect("a file");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).expect("it is ours");
    home.configure(&format!(
        "state_path = \"@HOME@/state\"\n[scheduler_plugin_open]\nprogram = \"{}\"\n[filter_scheduler]\nweight_classes = [\"open\"]\n",
        open.display()
    ))
    .expect("a configuration");
    let config = home.config_file().display().to_string();
    let checked = home.run(["--config", &config, "config", "check"]);
    let checked = checked.expect("it runs");
    // Other users than root run it, and it refuses.
    assert_eq!(checked.code, 78, "{}", checked.stderr);
    let output: Vec<&str> = checked.stderr.split_whitespace().collect();
    let output = output.join(" ");
    assert!(
        output.contains("scheduler_plugin_open.program: this file is executed, and /"),
        "{output}"
    );
    assert!(
        output.contains("mode 0777) can be written by others than its owner"),
        "{output}"
    );
    assert!(output.contains("chmod go-w /"), "{output}");
}

#[test]
fn config_check_finds_invalid_scheduler_options() {
    let mut home = home();
    let lost = home.write("lost.sh", "#!/bin/sh\necho '{}'\n");
    let lost = lost.expect("a file").display().to_string();
    std::fs::set_permissions(&lost, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let plugin = format!(
        "[scheduler_plugin_lost]\nprogram = \"{lost}\"\n[filter_scheduler]\nenabled_filters = [\"lost\"]\n"
    );
    for (options, words) in [
        (
            "[filter_scheduler]\nenabled_filters = [\"ComputFilter\"]\n",
            "filter_scheduler.enabled_filters: there is no filter ComputFilter",
        ),
        (
            "[filter_scheduler]\navailable_filters = [\"RamFilter\"]\nenabled_filters = [\"DiskFilter\"]\n",
            "filter_scheduler.enabled_filters: DiskFilter is not among available_filters, which are RamFilter",
        ),
        (
            "[filter_scheduler]\nweight_classes = [\"nope\"]\n",
            "filter_scheduler.weight_classes: there is no weigher nope",
        ),
        (&plugin, "scheduler_plugin_lost.program: "),
    ] {
        home.configure(&format!("state_path = \"@HOME@/state\"\n{options}"))
            .expect("a configuration");
        let config = home.config_file().display().to_string();
        let checked = home.run(["--config", &config, "config", "check"]);
        let checked = checked.expect("it runs");
        assert_eq!(checked.code, 78, "{options}: {}", checked.stderr);
        let output: Vec<&str> = checked.stderr.split_whitespace().collect();
        let output = output.join(" ");
        assert!(output.contains(words), "{options}: {output}");
        assert!(output.contains("berth.toml:"), "{options}: {output}");
        // An offline check does not run plugins.
        let offline = home.run(["--config", &config, "config", "check", "--offline"]);
        assert_eq!(offline.expect("it runs").code, 0, "{options}");
    }
}
