//! A kill of the process in the middle of reshapes: before or after, never between.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_placement::PlacementApiOptions;
use berth_store::{Location, SqlOptions, SqlStore};
use serde_json::{Map, Value, json};

use crate::service::{GPU_0, HOST, Service, allocations, consumer};

const FILE: &str = "BERTH_TEST_PLACEMENT_FILE";
const CONSUMERS: usize = 40;
const RESHAPED: &str = "reshaped once";

async fn over(path: &Path) -> Service {
    let location = Location::SqliteFile(path.to_owned());
    let store = SqlStore::open(&location, &SqlOptions::default())
        .await
        .unwrap();
    Service::over(store, PlacementApiOptions::default()).await
}

/// Where the VGPU units stand: all on one of the two providers.
async fn place(service: &Service) -> (&'static str, &'static str) {
    if service.usages(HOST).await.get("VGPU").is_some() {
        (HOST, GPU_0)
    } else {
        (GPU_0, HOST)
    }
}

/// Moves inventory and all allocations to the other provider.
async fn reshape(service: &Service) {
    let (from, to) = place(service).await;
    let mut consumers = Map::new();
    for n in 0..CONSUMERS {
        let path = format!("/allocations/{}", consumer(n));
        let generation = service.get(&path).await.body["consumer_generation"].as_i64();
        let held = allocations(&[(to, json!({"VGPU": 2}))], generation);
        consumers.insert(consumer(n), held);
    }
    let at = |generation: i64, inventories: Value| json!({"resource_provider_generation": generation, "inventories": inventories});
    let body = json!({
        "inventories": {
            from: at(service.generation(from).await, json!({})),
            to: at(service.generation(to).await, json!({"VGPU": {"total": 2 * CONSUMERS}})),
        },
        "allocations": consumers,
    });
    let reply = service.post("/reshaper", body).await;
    assert_eq!(reply.status, 204, "{reply:?}");
}

/// Not a test by itself: the child that the next test kills. Without the variable it ends at once.
#[tokio::test]
async fn reshaper_that_is_to_be_killed() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let service = over(Path::new(&path)).await;
    let mut out = std::io::stdout();
    loop {
        reshape(&service).await;
        writeln!(out, "{RESHAPED}").unwrap();
    }
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "kills::reshaper_that_is_to_be_killed",
        ])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_kill_leaves_all_units_in_one_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.db");
    let service = over(&path).await;
    service.provider(HOST, None).await;
    service.provider(GPU_0, Some(HOST)).await;
    let total = json!({"VGPU": {"total": 2 * CONSUMERS}});
    service.inventories(HOST, total).await;
    for n in 0..CONSUMERS {
        service.claim(&consumer(n), HOST, json!({"VGPU": 2})).await;
    }
    service.store.close().await;
    drop(service);
    for round in 0..8 {
        let mut child = spawn(&path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains(RESHAPED) {}
        std::thread::sleep(Duration::from_micros(1_700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let service = over(&path).await;
        let (full, empty) = place(&service).await;
        assert_eq!(
            service.usages(full).await,
            json!({"VGPU": 2 * CONSUMERS}),
            "round {round}"
        );
        assert_eq!(service.usages(empty).await, json!({}), "round {round}");
        for n in 0..CONSUMERS {
            let held = service.allocations_of(&consumer(n)).await;
            assert_eq!(held[full]["resources"], json!({"VGPU": 2}), "round {round}");
            assert_eq!(held.as_object().unwrap().len(), 1, "round {round}");
        }
        service.store.close().await;
    }
}
