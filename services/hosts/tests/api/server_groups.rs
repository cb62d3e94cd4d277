//! Server groups: of many at once each chooses by a group that has all who came before it.

use std::collections::{BTreeMap, BTreeSet};

use berth_hosts::{
    GroupMember, Hosts, NewServerGroup, PlacedMember, ServerGroupError, ServerGroupPolicy,
    StoredServerGroup,
};
use berth_scheduler::request::ServerGroup;
use berth_store::Disposition;
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::service::{Service, guest, node, node_with};

pub(crate) async fn make(
    hosts: &Hosts,
    policy: ServerGroupPolicy,
    most: Option<u32>,
) -> StoredServerGroup {
    let group = NewServerGroup {
        project_id: "p".to_owned(),
        user_id: "u".to_owned(),
        name: "g".to_owned(),
        policy,
        max_server_per_host: most,
    };
    hosts.create_group(group, None).await.unwrap()
}

/// A guest of one conductor's.
pub(crate) fn member(group: Uuid, instance: Uuid) -> GroupMember {
    of_owner(1, group, instance)
}

/// A guest of the n-th conductor's.
fn of_owner(n: u128, group: Uuid, instance: Uuid) -> GroupMember {
    GroupMember {
        group,
        instance,
        owner: Uuid::from_u128(n),
    }
}

/// The first host that the group leaves free, as a filter would say it; none where there is none.
fn choose(group: &StoredServerGroup, instance: Uuid, hosts: usize) -> Option<String> {
    let names = (0..hosts).map(|n| format!("host{n}"));
    let others = || {
        group
            .members
            .iter()
            .filter(|(member, _)| **member != instance)
    };
    let read = group.for_instance(instance);
    let on = |name: &str| others().filter(|(_, host)| *host == name).count();
    let most = read.max_server_per_host.unwrap_or(1).try_into().unwrap();
    let mut fits = names.filter(|name| match group.policy {
        ServerGroupPolicy::AntiAffinity => on(name) < most,
        ServerGroupPolicy::Affinity => read.hosts.is_empty() || read.hosts.contains(name),
        _ => true,
    });
    fits.next()
}

/// Reads, chooses and puts, until it comes through; none where there is no host.
pub(crate) async fn create(
    hosts: Hosts,
    group: Uuid,
    instance: Uuid,
    count: usize,
) -> Option<String> {
    loop {
        let read = hosts.group(group).await.unwrap();
        let host = choose(&read, instance, count)?;
        match hosts
            .place_member(member(group, instance), read.generation, &host)
            .await
        {
            Ok(_) => return Some(host),
            Err(error) => assert_eq!(error.disposition(), Disposition::Refresh, "{error}"),
        }
    }
}

async fn sixteen(hosts: &Hosts, group: Uuid, count: usize) -> Vec<Option<String>> {
    let mut creates = JoinSet::new();
    for n in 0..16 {
        creates.spawn(create(hosts.clone(), group, guest(n), count));
    }
    creates.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_concurrent_guests_get_sixteen_hosts_and_of_fifteen_hosts_one_guest_gets_none() {
    let service = Service::start().await;
    for (count, reported_none) in [(16, 0), (15, 1), (1, 15)] {
        let group = make(&service.hosts, ServerGroupPolicy::AntiAffinity, None)
            .await
            .uuid;
        let landed = sixteen(&service.hosts, group, count).await;
        let none = landed.iter().filter(|host| host.is_none()).count();
        assert_eq!(none, reported_none, "on {count} hosts");
        let apart: BTreeSet<&String> = landed.iter().flatten().collect();
        assert_eq!(apart.len(), 16 - reported_none, "{landed:?}");
        let kept = service.hosts.group(group).await.unwrap();
        let on: BTreeSet<&String> = kept.members.values().collect();
        assert_eq!(on, apart);
        service.hosts.delete_group(group).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_at_once_are_together_or_as_many_on_a_host_as_the_rule_says() {
    let service = Service::start().await;
    let group = make(&service.hosts, ServerGroupPolicy::Affinity, None)
        .await
        .uuid;
    let landed = sixteen(&service.hosts, group, 4).await;
    let together: BTreeSet<_> = landed.into_iter().map(Option::unwrap).collect();
    assert_eq!(together.len(), 1);
    service.hosts.delete_group(group).await.unwrap();
    let group = make(&service.hosts, ServerGroupPolicy::AntiAffinity, Some(3))
        .await
        .uuid;
    let landed = sixteen(&service.hosts, group, 5).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for host in landed.iter().flatten() {
        *counts.entry(host.clone()).or_default() += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [3; 5]);
    assert_eq!(landed.iter().filter(|host| host.is_none()).count(), 1);
}

#[tokio::test]
async fn a_write_based_on_an_older_group_is_refused() {
    let service = Service::start().await;
    let hosts = &service.hosts;
    let group = make(hosts, ServerGroupPolicy::AntiAffinity, None).await;
    let next = hosts
        .place_member(member(group.uuid, guest(1)), group.generation, "a")
        .await
        .unwrap();
    let second = hosts
        .place_member(member(group.uuid, guest(2)), group.generation, "a")
        .await
        .unwrap_err();
    assert!(
        matches!(second, ServerGroupError::Changed { .. }),
        "{second}"
    );
    let kept = hosts.group(group.uuid).await.unwrap();
    assert_eq!((kept.generation, kept.members.len()), (next, 1));
    hosts
        .remove_member(member(group.uuid, guest(1)))
        .await
        .unwrap();
    hosts
        .remove_member(member(group.uuid, guest(1)))
        .await
        .unwrap();
    let left = hosts
        .place_member(member(group.uuid, guest(2)), next, "a")
        .await;
    assert!(left.is_err(), "a member less is a change, too");
    let kept = hosts.group(group.uuid).await.unwrap();
    assert!(kept.members.is_empty());
    hosts
        .place_member(member(group.uuid, guest(2)), kept.generation, "a")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_callers_own_old_place_is_no_obstacle_and_it_has_one_place() {
    let service = Service::start().await;
    let hosts = &service.hosts;
    for policy in [ServerGroupPolicy::AntiAffinity, ServerGroupPolicy::Affinity] {
        let group = make(hosts, policy, None).await;
        hosts
            .place_member(member(group.uuid, guest(1)), group.generation, "host0")
            .await
            .unwrap();
        // Killed before the claim; asked again, with only another host left.
        let read = hosts.group(group.uuid).await.unwrap();
        let as_read = read.for_instance(guest(1));
        assert!(as_read.hosts.is_empty(), "{as_read:?}");
        assert_eq!(as_read.members, BTreeSet::from([guest(1).to_string()]));
        hosts
            .place_member(member(group.uuid, guest(1)), read.generation, "host1")
            .await
            .unwrap();
        let read = hosts.group(group.uuid).await.unwrap();
        assert_eq!(
            read.members,
            BTreeMap::from([(guest(1), "host1".to_owned())])
        );
        let of_another = read.for_instance(guest(2));
        let expected = ServerGroup {
            policy: policy.as_str().to_owned(),
            members: BTreeSet::from([guest(1).to_string()]),
            hosts: BTreeSet::from(["host1".to_owned()]),
            max_server_per_host: None,
        };
        assert_eq!(of_another, expected);
        hosts.delete_group(group.uuid).await.unwrap();
    }
}

#[tokio::test]
async fn members_that_their_hosts_do_not_report_yet_are_counted_there() {
    let service = Service::with_hosts(3).await;
    let hosts = &service.hosts;
    let reported = json!({"instances": {(guest(1).to_string()): {"flavorid": "7"}}});
    service.report("host1", &[node_with(1, reported)]).await;
    let group = make(hosts, ServerGroupPolicy::AntiAffinity, None).await;
    let mut generation = group.generation;
    for (n, host) in [(1, "host1"), (2, "host2"), (3, "host3")] {
        generation = hosts
            .place_member(member(group.uuid, guest(n)), generation, host)
            .await
            .unwrap();
    }
    let nodes: Vec<_> = (1..=3).map(node).collect();
    let mut states = hosts.states(&nodes).await.unwrap();
    let group = hosts.group(group.uuid).await.unwrap();
    group.occupy(guest(3), &mut states);
    let has = |at: usize, n| states[at].instances.contains(&guest(n).to_string());
    assert_eq!(
        (has(0, 1), has(1, 2), has(2, 3)),
        (true, true, false),
        "its own place is free for it"
    );
    let (_, first) = states[0].instances.iter().next().unwrap();
    assert_eq!(
        first.flavorid.as_deref(),
        Some("7"),
        "the stored value is kept"
    );
    let fresh = hosts.states(&nodes).await.unwrap();
    assert!(
        fresh[1].instances.is_empty(),
        "other requests do not see it"
    );
}

#[tokio::test]
async fn groups_are_their_projects_and_a_guest_is_in_one_of_them() {
    let service = Service::start().await;
    let hosts = &service.hosts;
    let one = make(hosts, ServerGroupPolicy::SoftAffinity, None).await;
    let two = make(hosts, ServerGroupPolicy::AntiAffinity, Some(2)).await;
    assert_eq!(
        (two.policy, two.max_server_per_host, two.generation),
        (ServerGroupPolicy::AntiAffinity, Some(2), 0)
    );
    hosts
        .place_member(member(one.uuid, guest(1)), 0, "a")
        .await
        .unwrap();
    let refused = hosts
        .place_member(member(two.uuid, guest(1)), 0, "a")
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains(&one.uuid.to_string()),
        "{refused}"
    );
    assert_eq!(
        hosts.group(two.uuid).await.unwrap().generation,
        0,
        "nothing was written"
    );
    let of = async |project| {
        let groups = hosts.groups(project).await.unwrap();
        groups
            .iter()
            .map(|group| (group.uuid, group.members.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(None).await, [(one.uuid, 1), (two.uuid, 0)]);
    assert_eq!(of(Some("p")).await.len(), 2);
    assert!(of(Some("q")).await.is_empty());
    hosts.delete_group(one.uuid).await.unwrap();
    let gone = hosts.delete_group(one.uuid).await.unwrap_err();
    assert!(matches!(gone, ServerGroupError::NotFound { .. }));
    let gone = hosts
        .place_member(member(one.uuid, guest(2)), 1, "a")
        .await
        .unwrap_err();
    assert!(matches!(gone, ServerGroupError::NotFound { .. }));
    hosts
        .remove_member(member(one.uuid, guest(1)))
        .await
        .unwrap();
    hosts
        .place_member(member(two.uuid, guest(1)), 0, "a")
        .await
        .unwrap();
}

#[tokio::test]
async fn only_its_conductor_moves_or_removes_a_guest() {
    let service = Service::start().await;
    let hosts = &service.hosts;
    let group = make(hosts, ServerGroupPolicy::AntiAffinity, None)
        .await
        .uuid;
    let (own, others) = (of_owner(1, group, guest(1)), of_owner(2, group, guest(1)));
    hosts.place_member(own, 0, "a").await.unwrap();
    let refused = hosts.place_member(others, 1, "b").await.unwrap_err();
    assert!(
        matches!(refused, ServerGroupError::OtherOwner { .. }),
        "{refused}"
    );
    assert_eq!(refused.disposition(), Disposition::Fatal);
    assert!(!hosts.confirm_member(others).await.unwrap());
    hosts.remove_member(others).await.unwrap();
    let kept = hosts.group(group).await.unwrap().members;
    assert_eq!(kept, BTreeMap::from([(guest(1), "a".to_owned())]));
    assert!(hosts.confirm_member(own).await.unwrap());
    hosts.remove_member(own).await.unwrap();
    hosts.place_member(others, 3, "b").await.unwrap();
}

#[tokio::test]
async fn of_a_claim_and_a_stale_member_search_the_first_one_wins() {
    let service = Service::with_hosts(1).await;
    let hosts = &service.hosts;
    let group = make(hosts, ServerGroupPolicy::AntiAffinity, None)
        .await
        .uuid;
    let guests = [1, 2, 3].map(|n| member(group, guest(n)));
    for (generation, guest) in (0..).zip(&guests) {
        hosts
            .place_member(*guest, generation, "host1")
            .await
            .unwrap();
    }
    let reported = json!({"instances": {(guest(3).to_string()): {}}});
    service.report("host1", &[node_with(1, reported)]).await;
    let seen = async || {
        let mut seen = hosts.unreported_members().await.unwrap();
        seen.sort();
        seen
    };
    let expected = [0, 1].map(|at: usize| PlacedMember {
        member: guests[at],
        host: "host1".to_owned(),
        is_claimed: false,
    });
    let [claimed_first, taken_first] = seen().await.try_into().unwrap();
    assert_eq!([claimed_first.clone(), taken_first.clone()], expected);
    assert!(hosts.confirm_member(guests[0]).await.unwrap());
    assert!(!hosts.remove_stale_member(&claimed_first).await.unwrap());
    assert!(hosts.remove_stale_member(&taken_first).await.unwrap());
    assert!(!hosts.confirm_member(guests[1]).await.unwrap());
    // It may be placed again by a group of the current generation.
    let generation = hosts.group(group).await.unwrap().generation;
    hosts
        .place_member(guests[1], generation, "host2")
        .await
        .unwrap();
    // A claimed member on no host is also stale, unless it is placed again meanwhile.
    let again = seen().await.remove(0);
    assert!(again.is_claimed);
    let generation = hosts.group(group).await.unwrap().generation;
    hosts
        .place_member(guests[0], generation, "host1")
        .await
        .unwrap();
    assert!(!hosts.remove_stale_member(&again).await.unwrap());
    hosts.delete_group(group).await.unwrap();
    assert!(
        hosts.confirm_member(guests[0]).await.unwrap(),
        "no group, no place"
    );
}
