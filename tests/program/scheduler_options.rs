//! The scheduler's options in the configuration: what nobody can schedule by is found by `berth config check`, and not only by
//! `berth up`.

use std::os::unix::fs::PermissionsExt;

use crate::accelerator_service::home;

#[test]
fn config_check_finds_what_nobody_can_schedule_by() {
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
        let said: Vec<&str> = checked.stderr.split_whitespace().collect();
        let said = said.join(" ");
        assert!(said.contains(words), "{options}: {said}");
        assert!(said.contains("berth.toml:"), "{options}: {said}");
        // Whoever looks at the text alone asks no plugin.
        let offline = home.run(["--config", &config, "config", "check", "--offline"]);
        assert_eq!(offline.expect("it runs").code, 0, "{options}");
    }
}
