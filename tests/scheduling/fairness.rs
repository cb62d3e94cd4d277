//! Two projects share one conductor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_client::HttpService;
use berth_conductor::journal::{BootGoal, SqlBootJournal};
use berth_conductor::{ConductorOptions, FilterScheduler};
use berth_scheduler::SchedulerOptions;
use berth_scheduler::select::Scheduler;
use berth_tests::boot::{asked, guest, impatient};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tower::service_fn;

/// The guests of the project that asks for many.
const MANY: u32 = 200;

/// Waits until it is so, at most a minute.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let so = async {
        while !is_so().await {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = timeout(Duration::from_secs(60), so).await;
    assert!(waited.is_ok(), "waited a minute until {what}");
}

#[tokio::test]
async fn a_guest_of_another_project_is_next_however_many_one_project_has_waiting() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 256)).await;
    // Claims wait for the gate, and are noted in their order.
    let gate = Arc::new(Semaphore::new(0));
    let claims = Arc::new(Mutex::new(Vec::new()));
    let (held, noted) = (Arc::clone(&gate), Arc::clone(&claims));
    let decorated = fleet.cloud().decorated(move |http| {
        let (held, noted) = (Arc::clone(&held), Arc::clone(&noted));
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let (http, held, noted) = (http.clone(), Arc::clone(&held), Arc::clone(&noted));
            async move {
                let path = request.uri().path();
                if request.method() == Method::PUT
                    && let Some((_, guest)) = path.split_once("/allocations/")
                {
                    noted.lock().expect("claims").push(guest.to_owned());
                    held.acquire().await.expect("a gate").forget();
                }
                http.send(request).await
            }
        }))
    });
    let scheduler = Scheduler::new(SchedulerOptions::default()).expect("filters and weighers");
    let scheduler = FilterScheduler::new(scheduler, fleet.hosts.clone());
    let journal = SqlBootJournal::in_memory().await.expect("memory");
    let options = ConductorOptions {
        workers: 1,
        scheduler_workers: 1,
        ..impatient()
    };
    let conductor =
        fleet.conductor_by(Arc::new(journal), scheduler, decorated.placement(), options);
    let create = async |number: u32, project: &str| {
        let request = asked(&json!({
            "uuid": guest(number).to_string(),
            "name": format!("vm{number}"),
            "project_id": project,
            "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
        }));
        conductor.create(&request).await.expect("a journal");
        request.uuid()
    };
    for number in 0..MANY {
        create(number, "greedy").await;
    }
    let greedy = usize::try_from(MANY).expect("a few");
    until("all but one wait", async || {
        conductor.waiting_boots() == greedy - 1
    })
    .await;
    let polite = create(MANY, "polite").await;
    until("the other waits, too", async || {
        conductor.waiting_boots() == greedy
    })
    .await;
    let metrics = conductor.metrics().await;
    assert!(
        metrics.contains(&format!("berth_conductor_waiting_boots {greedy}\n")),
        "{metrics}"
    );
    gate.add_permits(1000);
    until("it is active", async || {
        let record = conductor.show(polite).await.expect("it is known");
        record.goal == BootGoal::Active
    })
    .await;
    let claims = claims.lock().expect("claims").clone();
    let place = claims.iter().position(|it| *it == polite.to_string());
    // One was under way, and one was first in the queue.
    assert_eq!(place, Some(2), "{claims:?}");
    conductor.stop().await;
}
