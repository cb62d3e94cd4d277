use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_scheduler::host_state::{Aggregate, Aggregates, Instances, ServiceState};
use berth_scheduler::plugin::{OnFailure, SCHEMA};
use berth_scheduler::select::Scheduler;
use berth_scheduler::{ConsideredHost, HostState};
use serde_json::json;
use tempfile::TempDir;

use super::*;

fn host(name: &str, vcpus_used: i64, metadata: &[(&str, &str)]) -> ConsideredHost {
    let metadata = metadata
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let aggregate = Aggregate {
        name: "racks".to_owned(),
        metadata: metadata.collect(),
        ..Aggregate::default()
    };
    let state = HostState {
        host: name.to_owned(),
        nodename: name.to_owned(),
        uuid: format!("uuid-of-{name}"),
        cell: "cell1".to_owned(),
        host_ip: None,
        total_usable_ram_mb: 65536,
        free_ram_mb: 65536,
        total_usable_disk_gb: 1000,
        free_disk_mb: 1_024_000,
        vcpus_total: 64,
        vcpus_used,
        num_instances: 0,
        num_io_ops: 0,
        failed_builds: 0,
        ram_allocation_ratio: 1.0,
        cpu_allocation_ratio: 1.0,
        disk_allocation_ratio: 1.0,
        hypervisor_type: "QEMU".to_owned(),
        hypervisor_version: None,
        cpu_info: None,
        supported_instances: Vec::new(),
        stats: BTreeMap::new(),
        service: ServiceState::default(),
        aggregates: Aggregates::new(vec![Arc::new(aggregate)]),
        instances: Instances::default(),
        metrics: None,
        pci: None,
        numa: None,
    };
    ConsideredHost::new(Arc::new(state), Arc::new([]))
}

fn hosts() -> Vec<ConsideredHost> {
    vec![
        host("a", 0, &[("power_w", "500"), ("row", "north")]),
        host("b", 0, &[("power_w", "900"), ("row", "north")]),
        host("c", 80, &[("power_w", "900"), ("row", "south")]),
        host("d", 0, &[("power_w", "lots"), ("row", "south")]),
    ]
}

/// The sample plugin of the guide, owned by the user that runs the tests.
fn sample(folder: &TempDir) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [text, program] = ["text", "rack_power.py"].map(|name| folder.path().join(name));
    fs::copy(
        here.join("../../docs/examples/scheduler-plugin/rack_power.py"),
        &text,
    )
    .unwrap();
    fs::set_permissions(&text, Permissions::from_mode(0o755)).unwrap();
    fs::rename(&text, &program).unwrap();
    program
}

/// A program that says by this manifest what it is, and answers by this script.
fn program(folder: &TempDir, manifest: &str, script: &str) -> PathBuf {
    let [text, program] = ["text", "plugin"].map(|name| folder.path().join(name));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --manifest ]; then\ncat <<'END'\n{manifest}\nEND\nexit\nfi\n{script}\n"
    );
    fs::write(&text, script).unwrap();
    fs::set_permissions(&text, Permissions::from_mode(0o755)).unwrap();
    fs::rename(&text, &program).unwrap();
    program
}

fn configured(program: PathBuf, on_failure: Option<OnFailure>) -> PluginOptions {
    PluginOptions {
        name: "rack_power".to_owned(),
        program,
        time_budget: Duration::from_secs(60),
        on_failure,
        weight_multiplier: 1.0,
    }
}

fn options(filters: &[&str], weighers: &[&str]) -> SchedulerOptions {
    let own = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = own(filters);
    options.filter_scheduler.weight_classes = own(weighers);
    options
}

const NAME: &[&str] = &["rack_power"];

fn request(extra_specs: &[(&str, &str)]) -> RequestSpec {
    let mut request = RequestSpec::default();
    for (key, value) in extra_specs {
        let specs = &mut request.flavor.extra_specs;
        specs.insert((*key).to_owned(), (*value).to_owned());
    }
    request
}

/// The hosts, best first, and why the others are out.
async fn scheduled(plugin: PluginOptions, mut request: RequestSpec) -> (Vec<String>, Vec<String>) {
    let options = options(NAME, NAME);
    let plugins = Plugins::open([plugin], &options).await.unwrap();
    request.plugin_answers = plugins.ask(&request, &hosts()).await;
    let scheduler = Scheduler::with_custom_plugins(options, &plugins.custom_plugins()).unwrap();
    let (sorted, turnout) = scheduler.sort(&request, hosts(), 0);
    let best = sorted.best_first().map(|it| it.state.host.clone());
    let out = turnout.rejected.named();
    let out = out.map(|(_, one)| format!("{}: {}", one.host.host, one.reason));
    (best.collect(), out.collect())
}

#[tokio::test]
async fn the_sample_of_the_guide_does_what_the_guide_says() {
    let folder = tempfile::tempdir().unwrap();
    for (extra_specs, best, out) in [
        (
            &[][..],
            &["b", "a", "c"][..],
            &["d: rack_power rejects it: its power_w is 'lots'"][..],
        ),
        (
            &[("rack:power_w", "200")],
            &["b", "a"],
            &[
                "c: rack_power rejects it: it has 100 W left, and 200 W are asked for",
                "d: rack_power rejects it: its power_w is 'lots'",
            ],
        ),
        (
            &[("rack:row", "south")],
            &["c"],
            &[
                "a: rack_power rejects it: it is not in the row south",
                "b: rack_power rejects it: it is not in the row south",
                "d: rack_power rejects it: its power_w is 'lots'",
            ],
        ),
    ] {
        let got = scheduled(configured(sample(&folder), None), request(extra_specs)).await;
        assert_eq!(got.0, best, "{extra_specs:?}");
        assert_eq!(got.1, out, "{extra_specs:?}");
    }
}

#[tokio::test]
async fn a_flavor_is_checked_by_what_plugins_say_of_their_extra_specs() {
    let options = options(NAME, &[]);
    let folder = tempfile::tempdir().unwrap();
    let plugins = Plugins::open([configured(sample(&folder), None)], &options)
        .await
        .unwrap();
    for (extra_specs, wrong) in [
        (&[("rack:power_w", "200"), ("rack:row", "north")][..], ""),
        (&[("hw:cpu_policy", "dedicated")], ""),
        (
            &[("rack:power_w", "much"), ("rack:row", "west")],
            "flavor.extra_specs.rack:power_w: `much` is not a whole number, which the scheduler's plugin rack_power asks for; \
             rack:row: `west` is not one of north, south, which the scheduler's plugin rack_power asks for",
        ),
    ] {
        let checked = plugins.check(&request(extra_specs).flavor.extra_specs);
        let sentence = checked.err().map_or_else(String::new, |it| it.to_string());
        assert_eq!(sentence, wrong);
    }
}

fn manifest(name: &str, kind: &str) -> String {
    json!({"schema": SCHEMA, "name": name, "kind": kind}).to_string()
}

#[tokio::test]
async fn a_plugin_without_an_answer_passes_all_hosts_or_none() {
    for (script, why) in [
        ("exit 3", "says no (exit status: 3)"),
        ("echo 'rack 7 is gone' >&2; exit 1", "rack 7 is gone"),
        ("kill -9 $$", "signal: 9"),
        ("true", "its answer cannot be read: EOF"),
        ("echo hello", "its answer cannot be read: expected value"),
        (
            "echo '{\"schema\": \"x\", \"hosts\": {}}'",
            "should have the schema",
        ),
        (
            "echo '{\"schema\": \"berth-scheduler-plugin/1\", \"hosts\": {}}'",
            "says nothing of the host uuid-of-a, nor of 3 others",
        ),
        ("yes", "wrote more than 81920 bytes and was killed"),
        (
            "head -c 300000 /dev/zero | tr '\\0' '['",
            "bytes and was killed",
        ),
        (
            "head -c 70000 /dev/zero | tr '\\0' '['",
            "its answer cannot be read: invalid type",
        ),
        ("exec <&-; echo x", "its answer cannot be read"),
        (
            "echo \"File \\\"$0\\\", line 3\" >&2; exit 1",
            "File \"the program\", line 3",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let program = program(&folder, &manifest("rack_power", "both"), script);
        let open = configured(program.clone(), Some(OnFailure::Pass));
        let (best, out) = scheduled(open, request(&[])).await;
        assert_eq!((best.len(), out.len()), (4, 0), "{script}");
        // Without a policy, a filter fails closed.
        for policy in [Some(OnFailure::Reject), None] {
            let (best, out) = scheduled(configured(program.clone(), policy), request(&[])).await;
            assert_eq!((best.len(), out.len()), (0, 4), "{script}");
            for sentence in out {
                assert!(sentence.contains("rack_power was not heard"), "{sentence}");
                assert!(sentence.contains(why), "{script}: {sentence}");
                let path = folder.path().display().to_string();
                assert!(!sentence.contains(&path), "{script}: {sentence}");
            }
        }
    }
}

/// The number of a process that a script wrote, once it is written.
fn number(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Waits until that process is no more.
async fn is_gone(pid: u32) {
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat"));
    let gone = async {
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(60), gone).await;
    gone.expect("it is ended, and soon gone");
}

#[tokio::test]
async fn a_hanging_plugin_is_killed_at_its_budget_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("sleep 1000 & echo $! > {}; wait", started.display());
    let program = program(&folder, &manifest("rack_power", "both"), &script);
    // On a busy machine it may be late to begin.
    for seconds in [2, 8, 32] {
        let mut plugin = configured(program.clone(), Some(OnFailure::Reject));
        plugin.time_budget = Duration::from_secs(seconds);
        let (_, out) = scheduled(plugin, request(&[])).await;
        let late = format!("timed out after {seconds}s");
        assert!(out[0].contains(&late), "{out:?}");
        if let Some(pid) = number(&started) {
            return is_gone(pid).await;
        }
    }
    panic!("it never began");
}

#[tokio::test]
async fn the_wait_for_a_turn_is_of_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(&folder, &manifest("rack_power", "both"), "exec sleep 1000");
    let mut plugin = configured(program, Some(OnFailure::Reject));
    plugin.time_budget = Duration::from_secs(2);
    let options = options(NAME, NAME);
    let plugins = Plugins::open([plugin], &options).await.unwrap();
    let request = request(&[]);
    let hosts = hosts();
    let slots = plugins.programs[0].slots.acquire_many(8).await.unwrap();
    let answers = plugins.ask(&request, &hosts).await;
    let reported = format!("{answers:?}");
    assert!(reported.contains("timed out after 2s"), "{reported}");
    // What is left after the wait is not the whole.
    let free = async {
        tokio::task::yield_now().await;
        drop(slots);
    };
    let (answers, ()) = tokio::join!(plugins.ask(&request, &hosts), free);
    let reported = format!("{answers:?}");
    assert!(reported.contains("it timed out after"), "{reported}");
    assert!(!reported.contains("within 2s"), "{reported}");
}

#[tokio::test]
async fn a_plugin_is_what_its_options_say_or_is_not_opened() {
    let named = |name, kind| manifest(name, kind);
    let both = || named("rack_power", "both");
    let (filter, weigher) = (
        named("rack_power", "filter"),
        named("rack_power", "weigher"),
    );
    let none: &[&str] = &[];
    let reject = Some(OnFailure::Reject);
    for (manifest, filters, weighers, on_failure, wrong) in [
        (both(), NAME, NAME, reject, ""),
        (filter.clone(), NAME, none, None, ""),
        (weigher.clone(), none, NAME, None, ""),
        (
            weigher.clone(),
            NAME,
            none,
            None,
            "[filter_scheduler] enabled_filters: by its manifest, the plugin rack_power is not a filter",
        ),
        (
            filter,
            none,
            NAME,
            None,
            "[filter_scheduler] weight_classes: by its manifest, the plugin rack_power is not a weigher",
        ),
        (
            weigher,
            none,
            NAME,
            reject,
            "[scheduler_plugin_rack_power] on_failure: reject is allowed only for filters, but enabled_filters does not include the plugin; use pass",
        ),
        (
            named("other", "both"),
            NAME,
            none,
            None,
            "[scheduler_plugin_rack_power] program: its manifest has the name other; the section must be [scheduler_plugin_other]",
        ),
        (
            "{".to_owned(),
            NAME,
            none,
            None,
            "[scheduler_plugin_rack_power] program: its manifest cannot be read: ",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let plugin = configured(program(&folder, &manifest, "exit 1"), on_failure);
        let opened = Plugins::open([plugin], &options(filters, weighers)).await;
        let error = opened.err();
        assert!(error.as_ref().is_none_or(|it| !it.hint().is_empty()));
        let sentence = error.map_or_else(String::new, |it| it.to_string());
        assert_eq!(sentence.is_empty(), wrong.is_empty(), "{sentence}");
        assert!(sentence.starts_with(wrong), "{sentence}");
    }
    let nowhere = || configured(PathBuf::from("/nowhere/plugin"), None);
    let error = Plugins::open([nowhere()], &options(NAME, &[])).await.err();
    let sentence = error.unwrap().to_string();
    let begin = "[scheduler_plugin_rack_power] program: failed with --manifest: the scheduler plugin /nowhere/plugin cannot be started";
    assert!(sentence.starts_with(begin), "{sentence}");
    // A plugin that no option enables is not run.
    let opened = Plugins::open([nowhere()], &options(&[], &[]))
        .await
        .unwrap();
    assert!(Scheduler::with_custom_plugins(options(NAME, &[]), &opened.custom_plugins()).is_err());
}

#[tokio::test]
async fn a_hint_that_is_nearly_another_is_a_slip_where_no_plugin_may_read_it() {
    let names = ["diferent_host".to_owned()];
    let none = Plugins::default();
    let error = none.check_hints(&names).unwrap_err().to_string();
    assert_eq!(
        error,
        "scheduler_hints: unknown hint diferent_host; did you mean different_host?"
    );
    let others = ["different_host", "rack"].map(str::to_owned);
    assert_eq!(none.check_hints(&others), Ok(()));
    let folder = tempfile::tempdir().unwrap();
    let plugin = configured(sample(&folder), None);
    let plugins = Plugins::open([plugin], &options(NAME, NAME)).await.unwrap();
    assert_eq!(plugins.check_hints(&names), Ok(()));
}

#[tokio::test]
async fn dropped_it_ends_what_it_asked() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("sleep 1000 & echo $! > {}; wait", started.display());
    let program = program(&folder, &manifest("rack_power", "both"), &script);
    let options = options(NAME, NAME);
    let plugins = Plugins::open([configured(program, None)], &options)
        .await
        .unwrap();
    let begun = async {
        loop {
            if let Some(pid) = number(&started) {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (request, hosts) = (RequestSpec::default(), hosts());
    let pid = tokio::select! {
        answers = plugins.ask(&request, &hosts) => panic!("{answers:?}"),
        pid = begun => pid,
    };
    is_gone(pid).await;
}
