//! Each request leaves a record that explains its host or the lack of one, even if it never reached the filters.

use std::collections::BTreeMap;

use berth_conductor::{BootRequest, Conductor, GuestRunOutcome};
use berth_hosts::ServerGroupPolicy;
use berth_model::{ConsumerAllocations, ConsumerUuid, ResourceClass};
use berth_scheduler::SchedulerOptions;
use berth_tests::boot::{asked, guest};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use berth_tests::host_states;
use serde_json::{Value, json};

/// A request for a guest with these fields.
fn request(number: u32, fields: &Value) -> BootRequest {
    let mut body = json!({
        "uuid": guest(number).to_string(),
        "name": "vm",
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        match value.as_object().filter(|_| field == "flavor") {
            Some(specs) => body["flavor"]["extra_specs"] = json!(specs),
            None => body[field] = value.clone(),
        }
    }
    asked(&body)
}

/// A guest with these fields, and how its task ended.
async fn boot(conductor: &Conductor, number: u32, fields: &Value) -> GuestRunOutcome {
    let request = request(number, fields);
    conductor.create(&request).await.expect("a journal");
    conductor.reconcile_guest(request.uuid()).await
}

/// The only record of a guest: its result, and its whole text.
async fn the_record(conductor: &Conductor, guest: ConsumerUuid) -> (String, String) {
    let kept = conductor.scheduling(guest).await.expect("records");
    let [one] = kept.as_slice() else {
        panic!("one record of {guest}, and there are {kept:?}");
    };
    let result = one.explanation["outcome"]["result"].as_str();
    (
        result.expect("a result").to_owned(),
        one.explanation.to_string(),
    )
}

#[tokio::test]
async fn a_request_that_cannot_be_queried_records_the_reason() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let conductor = fleet.conductor(SchedulerOptions::default()).await;
    let gone = "10000000-0000-4000-8000-00000000dead";
    for (number, fields, expected) in [
        (
            1,
            json!({"flavor": {"trait:CUSTOM_NOBODYS": "required"}}),
            "no host ever reported the trait CUSTOM_NOBODYS",
        ),
        (
            2,
            json!({"flavor": {"resources:CUSTOM_NOBODYS": "1"}}),
            "no host ever reported the resource class CUSTOM_NOBODYS",
        ),
        (3, json!({"scheduler_hints": {"group": [gone]}}), gone),
        (
            4,
            json!({"node": "elsewhere"}),
            "Placement has no host elsewhere",
        ),
        (
            5,
            json!({"device_profile": "unheard-of"}),
            "device profile unheard-of does not exist",
        ),
    ] {
        let end = boot(&conductor, number, &fields).await;
        let GuestRunOutcome::Failed { reason } = end else {
            panic!("{fields}: {end:?}");
        };
        assert!(reason.contains(expected), "{fields}: {reason}");
        let (result, text) = the_record(&conductor, guest(number)).await;
        assert_eq!(result, "failed", "{fields}: {text}");
        assert!(text.contains(expected), "{fields}: {text}");
    }
}

#[tokio::test]
async fn a_flavor_or_an_image_that_no_host_can_build_is_refused_without_a_record() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let conductor = fleet.conductor(SchedulerOptions::default()).await;
    let image = json!({"location": {"path": "/i"}, "format": "raw", "properties": {"hw_architecture": "abacus"}});
    for (fields, expected) in [
        (json!({"flavor": {"hw:numa_nodes": "0"}}), "hw:numa_nodes"),
        (
            json!({"flavor": {"hw:cpu_policy": "shared", "hw:cpu_thread_policy": "isolate"}}),
            "hw:cpu_thread_policy",
        ),
        (json!({"image": image}), "abacus"),
    ] {
        let refused = conductor
            .create(&request(1, &fields))
            .await
            .expect_err("it is refused");
        assert!(
            refused.to_string().contains(expected),
            "{fields}: {refused}"
        );
    }
}

#[tokio::test]
async fn a_project_without_the_aggregate_that_each_needs_leaves_that() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let mut options = SchedulerOptions::default();
    options.scheduler.limit_tenants_to_placement_aggregate = true;
    options.scheduler.placement_aggregate_required_for_tenants = true;
    let conductor = fleet.conductor(options).await;
    let end = boot(&conductor, 1, &json!({"project_id": "nobodys"})).await;
    assert!(matches!(end, GuestRunOutcome::Failed { .. }), "{end:?}");
    let (result, text) = the_record(&conductor, guest(1)).await;
    assert_eq!(result, "failed", "{text}");
    assert!(
        text.contains("filter_tenant_id for project nobodys"),
        "{text}"
    );
}

#[tokio::test]
async fn a_policy_without_an_enabled_filter_is_reported() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = vec!["ComputeFilter".to_owned()];
    let conductor = fleet.conductor(options).await;
    let group = host_states::group(&fleet.hosts, "apart", ServerGroupPolicy::AntiAffinity).await;
    let hints = json!({"scheduler_hints": {"group": [group.to_string()]}});
    let end = boot(&conductor, 1, &hints).await;
    assert!(matches!(end, GuestRunOutcome::Failed { .. }), "{end:?}");
    let (result, text) = the_record(&conductor, guest(1)).await;
    assert_eq!(result, "failed", "{text}");
    assert!(text.contains("ServerGroupAntiAffinityFilter"), "{text}");
}

#[tokio::test]
async fn an_unknown_zone_is_refused_without_the_zone_filter_too() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.enabled_filters = vec!["ComputeFilter".to_owned()];
    let conductor = fleet.conductor(options).await;
    let end = boot(&conductor, 1, &json!({"availability_zone": "moon"})).await;
    let expected = "there is no availability zone moon; there is nova";
    let is_refused =
        matches!(&end, GuestRunOutcome::Failed { reason } if reason.contains(expected));
    assert!(is_refused, "{end:?}");
    let (result, text) = the_record(&conductor, guest(1)).await;
    assert_eq!(result, "failed", "{text}");
    assert!(text.contains(expected), "{text}");
    let end = boot(&conductor, 2, &json!({"availability_zone": "nova"})).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
}

/// Another client has claimed for the UUID before the conductor's claim; the verdicts on hosts until then are kept.
#[tokio::test]
async fn a_search_that_ends_at_its_claim_is_recorded_up_to_there() {
    let all = hosts(2, "cell1", 4);
    let fleet = Fleet::over(Cloud::in_process().await, &all).await;
    let (concurrent, other) = (fleet.cloud().placement(), all[1].root());
    let placement = fleet.placement_with(async move || {
        let held = ConsumerAllocations {
            project_id: "p".to_owned(),
            user_id: "u".to_owned(),
            generation: None,
            resources: BTreeMap::from([((other, ResourceClass::VCPU), 2)]),
        };
        let put = concurrent.put_allocations(guest(1), &held).await;
        put.expect("an allocation");
    });
    let conductor = fleet
        .conductor_over(SchedulerOptions::default(), placement)
        .await;
    let end = boot(&conductor, 1, &json!({})).await;
    assert!(matches!(end, GuestRunOutcome::Failed { .. }), "{end:?}");
    let (result, text) = the_record(&conductor, guest(1)).await;
    assert_eq!(result, "failed", "{text}");
    assert!(text.contains("holds other allocations"), "{text}");
    let kept = conductor.scheduling(guest(1)).await.expect("records");
    let search = &kept[0].explanation["searches"][0];
    assert_eq!(search["left"], 2, "{text}");
    assert_eq!(search["claims"]["tried"][0]["granted"], false, "{text}");
}

#[tokio::test]
async fn a_guest_of_another_conductor_leaves_that() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let [first, second] = [
        fleet.conductor(SchedulerOptions::default()).await,
        fleet.conductor(SchedulerOptions::default()).await,
    ];
    let end = boot(&first, 1, &json!({})).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let end = boot(&second, 1, &json!({"name": "other"})).await;
    assert!(matches!(end, GuestRunOutcome::Failed { .. }), "{end:?}");
    let kept = second.scheduling(guest(1)).await.expect("records");
    let outcomes = kept.iter().map(|it| it.explanation["outcome"].to_string());
    let outcomes: Vec<_> = outcomes.collect();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert!(
        outcomes[1].contains("is owned by another conductor"),
        "{outcomes:?}"
    );
}
