//! A requested host, a forced one, and hosts to exclude.

use std::collections::BTreeMap;

use berth_conductor::{Conductor, GuestRunOutcome};
use berth_hosts::{AVAILABILITY_ZONE, ServiceStatus, ServiceUpdate};
use berth_scheduler::SchedulerOptions;
use berth_tests::boot::{asked, guest};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use serde_json::{Value, json};

/// Where a guest with these fields goes, or why nowhere.
async fn goes(conductor: &Conductor, number: u32, fields: &Value) -> Result<String, String> {
    let mut body = json!({
        "uuid": guest(number).to_string(),
        "name": "vm",
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        body[field] = value.clone();
    }
    let request = asked(&body);
    conductor.create(&request).await.expect("a journal");
    match conductor.reconcile_guest(request.uuid()).await {
        GuestRunOutcome::Active => {}
        GuestRunOutcome::Failed { reason } => return Err(reason),
        end => panic!("{end:?}"),
    }
    let record = conductor.show(request.uuid()).await.expect("a journal");
    let chosen = record.chosen(record.attempt).expect("a host");
    Ok(chosen.node.to_string())
}

#[tokio::test]
async fn filters_apply_to_a_requested_host_but_not_to_a_forced_one() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(3, "cell1", 4)).await;
    let disabled = ServiceUpdate {
        status: Some(ServiceStatus::Disabled { reason: None }),
        ..ServiceUpdate::default()
    };
    let updated = fleet.hosts.update_service("cell1-001", disabled).await;
    updated.expect("a host");
    let conductor = fleet.conductor(SchedulerOptions::default()).await;
    let all = ["cell1-000", "cell1-001", "cell1-002"];
    for (number, fields, expected) in [
        (1, json!({"host": "cell1-002"}), Ok("cell1-002")),
        (2, json!({"node": "cell1-000"}), Ok("cell1-000")),
        (
            3,
            json!({"host": "cell1-000", "node": "cell1-000"}),
            Ok("cell1-000"),
        ),
        (
            4,
            json!({"host": "cell1-001"}),
            Err("ComputeFilter rejected 1"),
        ),
        (
            5,
            json!({"host": "cell1-000", "node": "cell1-002"}),
            Err("there is no compute node with host cell1-000"),
        ),
        (6, json!({"host": "nowhere"}), Err("nowhere")),
        (
            7,
            json!({"availability_zone": "nova:cell1-001"}),
            Ok("cell1-001"),
        ),
        (
            8,
            json!({"availability_zone": "nova:cell1-001:cell1-001"}),
            Ok("cell1-001"),
        ),
        (
            9,
            json!({"availability_zone": "nova::cell1-001"}),
            Ok("cell1-001"),
        ),
        (
            10,
            json!({"availability_zone": ":cell1-001"}),
            Ok("cell1-001"),
        ),
        (
            11,
            json!({"availability_zone": "moon:cell1-001"}),
            Err("there is no availability zone moon"),
        ),
        (
            12,
            json!({"availability_zone": "nova:nowhere"}),
            Err("nowhere"),
        ),
        (13, json!({"ignore_hosts": all[..2]}), Ok("cell1-002")),
        (
            14,
            json!({"ignore_hosts": all}),
            Err("left out by the request"),
        ),
        (
            15,
            json!({"ignore_hosts": ["CELL1-000"], "host": "cell1-000"}),
            Err("left out by the request"),
        ),
    ] {
        let got = goes(&conductor, number, &fields).await;
        match (&got, expected) {
            (Ok(node), Ok(expected)) => assert_eq!(node, expected, "{fields}"),
            (Err(reason), Err(expected)) => {
                assert!(reason.contains(expected), "{fields}: {reason}")
            }
            (got, expected) => panic!("{fields}: {got:?}, and not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_guest_without_zone_and_host_is_in_the_default_schedule_zone() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(2, "cell1", 1)).await;
    let zone = BTreeMap::from([(AVAILABILITY_ZONE.to_owned(), "rack".to_owned())]);
    let rack = fleet.hosts.create_aggregate("rack", zone).await;
    let rack = rack.expect("an aggregate").id;
    let added = fleet.hosts.add_aggregate_host(rack, "cell1-000").await;
    added.expect("a host");
    let conductor = async |zone: &str| {
        let mut options = SchedulerOptions::default();
        options.default.default_schedule_zone = Some(zone.to_owned());
        fleet.conductor(options).await
    };
    let nova = conductor("nova").await;
    let anywhere = json!({});
    let placed = goes(&nova, 1, &anywhere).await;
    assert_eq!(placed, Ok("cell1-001".to_owned()));
    let full = goes(&nova, 2, &anywhere).await.expect_err("it is full");
    assert!(full.contains("AvailabilityZoneFilter rejected 1"), "{full}");
    let placed = goes(&nova, 3, &json!({"host": "cell1-000"})).await;
    assert_eq!(placed, Ok("cell1-000".to_owned()));
    let moon = conductor("moon").await;
    let unknown = goes(&moon, 4, &anywhere).await.expect_err("no such zone");
    assert!(unknown.contains("no availability zone moon"), "{unknown}");
}

/// No filter is asked, and Placement is.
#[tokio::test]
async fn a_forced_host_that_is_full_accepts_no_guest() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(2, "cell1", 1)).await;
    let conductor = fleet.conductor(SchedulerOptions::default()).await;
    let forced = json!({"availability_zone": "nova:cell1-001"});
    assert_eq!(
        goes(&conductor, 1, &forced).await,
        Ok("cell1-001".to_owned())
    );
    let reason = goes(&conductor, 2, &forced).await.expect_err("it is full");
    assert!(reason.contains("No valid host was found"), "{reason}");
}
