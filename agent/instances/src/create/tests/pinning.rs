//! Tests of CPU reservations: no two guests get one CPU, and a removed guest's CPUs are free.

use std::collections::BTreeSet;

use serde_json::json;

use crate::build_bench::{Bench, build, uuid};
use crate::create::*;
use crate::outcome::ReconcileOutcome;

pub(super) fn pinned(number: u32, vcpus: u32) -> GuestBuild {
    build(
        number,
        json!({"flavor": {"name": "f", "vcpus": vcpus, "ram_mb": 16, "extra_specs": {"hw:cpu_policy": "dedicated"}}}),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_builds_at_once_no_two_are_pinned_to_one_cpu_and_the_host_is_filled() {
    let bench = Bench::new(4, 24, "");
    let guests = bench.guests().await;
    let builds = (0..64).map(|number| {
        let guests = guests.clone();
        tokio::spawn(async move { guests.build(&pinned(number, 2)).await })
    });
    let (mut made, mut refused) = (0, 0);
    for build in futures_util::future::join_all(builds).await {
        match build.unwrap() {
            Ok(_) => made += 1,
            Err(error) => {
                assert!(
                    error
                        .to_string()
                        .contains("host cell 3: 2 dedicated CPUs are needed, 0 "),
                    "{error}"
                );
                assert_eq!(error.fault(), BuildFault::NoRoom);
                refused += 1;
            }
        }
    }
    assert_eq!((made, refused), (48, 16));
    let mut cpus = BTreeSet::new();
    for record in guests.list().await.unwrap() {
        for cpu in record.request.reserved_cpus().iter() {
            assert!(cpus.insert(cpu), "CPU {cpu} belongs to two guests");
        }
    }
    assert_eq!(cpus.len(), 96);
}

#[tokio::test]
async fn what_a_guest_held_is_free_again_when_it_is_gone_or_has_failed() {
    let bench = Bench::new(1, 4, "");
    let guests = bench.guests().await;
    guests.build(&pinned(1, 4)).await.unwrap();
    guests.reconcile_instance(uuid(1)).await;
    let refused = guests.build(&pinned(2, 1)).await.unwrap_err();
    assert_eq!(refused.disposition(), berth_model::Disposition::Refresh);
    guests.delete(uuid(1)).await.unwrap();
    guests.reconcile_instance(uuid(1)).await;
    bench.refuse_guests();
    guests.build(&pinned(2, 4)).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(uuid(2)).await,
        ReconcileOutcome::Undone { .. }
    ));
    bench.take_guests();
    guests.build(&pinned(3, 4)).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(uuid(3)).await,
        ReconcileOutcome::Settled
    ));
}

#[tokio::test]
async fn builds_that_fail_in_a_row_are_counted_until_one_does_not() {
    let bench = Bench::new(1, 8, "");
    let guests = bench.guests().await;
    let failed = || guests.changes().borrow().failed_builds;
    let before = guests.changes().borrow().count;
    bench.refuse_guests();
    for number in 1..3 {
        guests.build(&pinned(number, 1)).await.unwrap();
        // A repeated reconciliation counts no further failure.
        guests.reconcile_instance(uuid(number)).await;
        guests.reconcile_instance(uuid(number)).await;
        assert_eq!(failed(), number);
    }
    bench.take_guests();
    guests.build(&pinned(3, 1)).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(uuid(3)).await,
        ReconcileOutcome::Settled
    ));
    assert_eq!(failed(), 0);
    assert!(guests.changes().borrow().count >= before + 6);
}

#[tokio::test]
async fn a_whole_spec_is_not_pinned_to_anothers_cpus() {
    let bench = Bench::new(1, 4, "");
    let guests = bench.guests().await;
    guests.build(&pinned(1, 2)).await.unwrap();
    let made = guests.show(uuid(1)).await.unwrap().request.clone();
    let mut spec = made.spec().clone();
    spec.uuid = uuid(2);
    let other = GuestRequest::new(made.node().clone(), vec![], spec).unwrap();
    let refused = guests.create(&other).await.unwrap_err();
    assert!(
        matches!(refused, GuestsError::CpusTaken { holder, .. } if holder == uuid(1)),
        "{refused}"
    );
    assert_eq!(guests.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn each_node_of_a_driver_has_cpus_of_its_own() {
    let bench = Bench::new(1, 4, "").with_nodes(&["compute1", "compute2"]);
    let guests = bench.guests().await;
    let on = |number, node: &str| GuestBuild {
        node: node.to_owned(),
        ..pinned(number, 4)
    };
    guests.build(&on(1, "compute1")).await.unwrap();
    guests.build(&on(2, "compute2")).await.unwrap();
    for (number, node) in [(3, "compute1"), (4, "compute2")] {
        let refused = guests.build(&on(number, node)).await.unwrap_err();
        assert_eq!(refused.fault(), BuildFault::NoRoom, "{refused}");
    }
    let made = guests.show(uuid(1)).await.unwrap().request.clone();
    let mut spec = made.spec().clone();
    spec.uuid = uuid(5);
    let elsewhere = NodeName::new("compute2").unwrap();
    let other = GuestRequest::new(elsewhere, vec![], spec).unwrap();
    let refused = guests.create(&other).await.unwrap_err();
    assert!(
        matches!(refused, GuestsError::CpusTaken { holder, .. } if holder == uuid(2)),
        "{refused}"
    );
}
