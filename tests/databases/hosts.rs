//! Several processes with hosts on one database, with separate connections: the second writer reads again, and no
//! reader gets outdated data.

use std::collections::BTreeSet;

use berth_hosts::{HostsOptions, ServerGroupPolicy};
use berth_store::{Isolation, SqlOptions};
use futures_util::future::join_all;
use serde_json::json;

use crate::databases::hosts_on_postgres::server_groups::{create, make};
use crate::databases::hosts_on_postgres::service::{
    Service, guest, node, node_body, node_with, state,
};
use crate::databases::test_database::TestDatabase;

on_servers! {
    sixteen_at_once_at_four_processes_land_apart_at_repeatable_read
    sixteen_at_once_at_four_processes_land_apart_at_read_committed
    a_report_to_one_process_is_read_by_another_at_once
    of_two_hosts_that_tell_one_node_at_once_one_has_it
}

/// So many, started at once on an empty database.
async fn processes(place: &TestDatabase, count: usize, isolation: Isolation) -> Vec<Service> {
    let starts = (0..count).map(|_| async {
        let options = SqlOptions {
            isolation,
            ..SqlOptions::default()
        };
        Service::over(place.open(&options).await, HostsOptions::default()).await
    });
    join_all(starts).await
}

async fn sixteen_at_once_at_four_processes_land_apart_at_repeatable_read(place: TestDatabase) {
    contests(place, Isolation::RepeatableRead).await;
}

async fn sixteen_at_once_at_four_processes_land_apart_at_read_committed(place: TestDatabase) {
    contests(place, Isolation::ReadCommitted).await;
}

async fn contests(place: TestDatabase, isolation: Isolation) {
    let processes = processes(&place, 4, isolation).await;
    for (count, reported_none) in [(16, 0), (15, 1)] {
        let group = make(&processes[0].hosts, ServerGroupPolicy::AntiAffinity, None).await;
        let creates = (0..16).zip(processes.iter().cycle()).map(|(n, process)| {
            let hosts = process.hosts.clone();
            tokio::spawn(create(hosts, group.uuid, guest(n), count))
        });
        let landed = join_all(creates).await;
        let landed: Vec<Option<String>> = landed.into_iter().map(Result::unwrap).collect();
        let none = landed.iter().filter(|host| host.is_none()).count();
        let apart: BTreeSet<&String> = landed.iter().flatten().collect();
        assert_eq!(
            (none, apart.len()),
            (reported_none, 16 - reported_none),
            "{landed:?}"
        );
        processes[1].hosts.delete_group(group.uuid).await.unwrap();
    }
}

async fn a_report_to_one_process_is_read_by_another_at_once(place: TestDatabase) {
    let processes = processes(&place, 2, Isolation::ReadCommitted).await;
    let (one, other) = (&processes[0], &processes[1]);
    let aggregate = one.hosts.create_aggregate("a", [].into()).await.unwrap().id;
    one.report("host1", &[node_body(1)]).await;
    one.hosts
        .add_aggregate_host(aggregate, "host1")
        .await
        .unwrap();
    for round in 1..=5_i64 {
        let fields = json!({"num_io_ops": round});
        let name = one.report("host1", &[node_with(1, fields)]).await;
        let update = berth_hosts::AggregateUpdate {
            metadata: [("round".to_owned(), Some(round.to_string()))].into(),
            ..Default::default()
        };
        one.hosts.update_aggregate(aggregate, update).await.unwrap();
        let read = other.hosts.states(&[node(1)]).await.unwrap().remove(0);
        assert_eq!(read.num_io_ops, round);
        let expected = round.to_string();
        assert_eq!(
            read.aggregates.raw("round").collect::<Vec<_>>(),
            [expected.as_str()]
        );
        assert_eq!(other.seen("host1", &name).await.status, 200);
    }
}

async fn of_two_hosts_that_tell_one_node_at_once_one_has_it(place: TestDatabase) {
    let processes = processes(&place, 2, Isolation::ReadCommitted).await;
    for n in 1..=5 {
        let reports = (0..2).map(|at| {
            let service = processes[at].clone();
            async move {
                let host = format!("host{n}-{at}");
                service
                    .reports(&host, state(&[node_body(n)]))
                    .await
                    .status
                    .as_u16()
            }
        });
        let mut answers = join_all(reports).await;
        answers.sort_unstable();
        assert_eq!(answers, [200, 409], "node {n}");
    }
}
