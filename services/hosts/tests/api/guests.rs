//! Tests of guest ownership: a guest belongs to the first conductor that claims it.

use berth_hosts::OwnedGuest;
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::service::{Service, guest, node_with};

/// The n-th guest as the m-th conductor's.
fn of_owner(n: u128, m: u128) -> OwnedGuest {
    OwnedGuest {
        instance: guest(n),
        owner: Uuid::from_u128(m),
    }
}

#[tokio::test]
async fn a_guest_belongs_to_its_first_conductor_until_that_releases_it() {
    let service = Service::start().await;
    let hosts = &service.hosts;
    let (first, second) = (of_owner(1, 1), of_owner(1, 2));
    assert!(hosts.claim_guest(first).await.unwrap());
    assert!(hosts.claim_guest(first).await.unwrap(), "asked again");
    assert!(!hosts.claim_guest(second).await.unwrap());
    assert!(!hosts.release_guest(second).await.unwrap());
    assert!(
        hosts.claim_guest(of_owner(2, 2)).await.unwrap(),
        "another guest"
    );
    assert!(hosts.release_guest(first).await.unwrap());
    assert!(
        !hosts.release_guest(first).await.unwrap(),
        "it has no owner already"
    );
    assert!(hosts.claim_guest(second).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_conductors_at_once_one_has_the_guest() {
    let service = Service::start().await;
    let mut asked = JoinSet::new();
    for owner in 1..=16 {
        let hosts = service.hosts.clone();
        asked.spawn(async move { hosts.claim_guest(of_owner(1, owner)).await.unwrap() });
    }
    let granted = asked.join_all().await.into_iter().filter(|it| *it).count();
    assert_eq!(granted, 1);
}

#[tokio::test]
async fn owned_guests_that_no_host_reports_are_found() {
    let service = Service::with_hosts(1).await;
    let hosts = &service.hosts;
    for n in [1, 2] {
        assert!(hosts.claim_guest(of_owner(n, 1)).await.unwrap());
    }
    let reported = json!({"instances": {(guest(2).to_string()): {}}});
    service.report("host1", &[node_with(1, reported)]).await;
    assert_eq!(hosts.unreported_guests().await.unwrap(), [of_owner(1, 1)]);
}
