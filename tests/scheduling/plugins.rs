//! A scheduler with a plugin that did not exist when a guest was requested.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_conductor::journal::{AcceptOutcome, SqlBootJournal};
use berth_conductor::{
    BootRequest, ConductorError, FilterScheduler, GuestRunOutcome, PluginOptions, Plugins,
};
use berth_scheduler::SchedulerOptions;
use berth_scheduler::select::Scheduler;
use berth_tests::boot::{asked, guest, impatient};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use serde_json::json;

/// The sample of the guide, which knows no row of this name.
async fn with_the_sample(fleet: &Fleet) -> FilterScheduler {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("rack_power.py");
    let sample = here.join("../docs/examples/scheduler-plugin/rack_power.py");
    std::fs::copy(sample, &program).expect("the sample");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
    let plugin = PluginOptions {
        name: "rack_power".to_owned(),
        program,
        time_budget: Duration::from_secs(60),
        on_failure: None,
        weight_multiplier: 1.0,
    };
    let mut options = SchedulerOptions::default();
    let filters = &mut options.filter_scheduler.enabled_filters;
    filters.push("rack_power".to_owned());
    let plugins = Plugins::open([plugin], &options).await.expect("a plugin");
    let scheduler =
        Scheduler::with_custom_plugins(options, &plugins.custom_plugins()).expect("options");
    FilterScheduler::new(scheduler, fleet.hosts.clone()).with_plugins(plugins)
}

fn in_the_west(number: u32) -> BootRequest {
    asked(&json!({
        "uuid": guest(number).to_string(),
        "name": "vm",
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1, "extra_specs": {"rack:row": "west"}},
    }))
}

#[tokio::test]
async fn a_guest_accepted_before_a_plugin_existed_is_the_same_when_requested_again() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let journal = Arc::new(SqlBootJournal::in_memory().await.unwrap());
    let without = Scheduler::new(SchedulerOptions::default()).unwrap();
    let without = FilterScheduler::new(without, fleet.hosts.clone());
    let before = fleet.conductor_by(
        Arc::clone(&journal),
        without,
        fleet.cloud().placement(),
        impatient(),
    );
    before.create(&in_the_west(1)).await.unwrap();
    let end = before.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    before.stop().await;
    let with = with_the_sample(&fleet).await;
    let after = fleet.conductor_by(journal, with, fleet.cloud().placement(), impatient());
    let again = after.create(&in_the_west(1)).await;
    assert!(matches!(again, Ok(AcceptOutcome::Same)), "{again:?}");
    let new = after.create(&in_the_west(2)).await;
    assert!(matches!(new, Err(ConductorError::ExtraSpecs(_))), "{new:?}");
}
