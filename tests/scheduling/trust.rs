//! Attested hosts, and flavors that require trust.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_conductor::journal::SqlBootJournal;
use berth_conductor::{AttestationSource, Conductor, FilterScheduler, GuestRunOutcome};
use berth_scheduler::SchedulerOptions;
use berth_scheduler::select::Scheduler;
use berth_store::SqlTimestamp;
use berth_tests::boot::{asked, guest, impatient};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use serde_json::{Value, json};

async fn conductor(fleet: &Fleet, file: Option<&Path>) -> Conductor {
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = vec!["TrustedFilter".to_owned()];
    let source = file.map(|file| AttestationSource {
        file: file.to_owned(),
        validity: Duration::from_secs(3600),
    });
    let scheduler = Scheduler::new(options).expect("filters");
    let scheduler = FilterScheduler::new(scheduler, fleet.hosts.clone()).with_attestations(source);
    let journal = SqlBootJournal::in_memory().await.expect("memory");
    let placement = fleet.cloud().placement();
    fleet.conductor_by(Arc::new(journal), scheduler, placement, impatient())
}

/// The node of a guest that is to be on a trusted host, or why it is on none.
async fn goes(conductor: &Conductor, number: u32) -> Result<String, String> {
    let specs = json!({"trust:trusted_host": "trusted"});
    let request = asked(&json!({
        "uuid": guest(number).to_string(),
        "name": "vm",
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1, "extra_specs": specs},
    }));
    conductor.create(&request).await.expect("a journal");
    let end = conductor.reconcile_guest(request.uuid()).await;
    let record = conductor.show(request.uuid()).await.expect("a journal");
    match end {
        GuestRunOutcome::Active => Ok(record.chosen(1).expect("a host").node.to_string()),
        GuestRunOutcome::Failed { reason } => Err(reason),
        end => panic!("{end:?}"),
    }
}

fn attested(host: &str, trust_lvl: &str, vtime: &str) -> Value {
    json!({"host_name": host, "trust_lvl": trust_lvl, "vtime": vtime})
}

#[tokio::test]
async fn a_guest_that_requires_trust_lands_on_a_recently_attested_host() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(3, "cell1", 4)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hosts.json");
    let conductor = conductor(&fleet, Some(&file)).await;
    let write = |hosts: &[Value]| {
        let text = json!({"hosts": hosts}).to_string();
        std::fs::write(&file, text).expect("a file");
    };
    let now = format!("{}Z", SqlTimestamp::now()).replace(' ', "T");
    write(&[
        attested("cell1-000", "untrusted", &now),
        attested("cell1-001", "trusted", &now),
    ]);
    assert_eq!(goes(&conductor, 1).await, Ok("cell1-001".to_owned()));
    // It is read for each guest.
    write(&[attested("cell1-001", "trusted", "2020-01-01T00:00:00Z")]);
    let reason = goes(&conductor, 2).await.expect_err("too long ago");
    assert!(reason.contains("TrustedFilter rejected 3"), "{reason}");
    let kept = conductor.scheduling(guest(2)).await.expect("records");
    let kept = kept[0].explanation.to_string();
    for code in ["attestation_expired", "not_trusted"] {
        assert!(kept.contains(code), "{kept}");
    }
    std::fs::remove_file(&file).expect("a file");
    let reason = goes(&conductor, 3).await.expect_err("nothing is known");
    assert!(reason.contains("failed to read the file"), "{reason}");
}

#[tokio::test]
async fn without_a_source_no_host_is_trusted_and_the_reason_names_the_option() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let conductor = conductor(&fleet, None).await;
    let reason = goes(&conductor, 1).await.expect_err("no source");
    let expected = "[trusted_computing] attestation_file is not set";
    assert!(reason.contains(expected), "{reason}");
}
