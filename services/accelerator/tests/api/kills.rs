//! Kills the process in the middle of binds: each guest has all of its handles or none, with the matching events.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_store::{Location, SqlOptions, SqlStore};
use serde_json::json;

use super::service::{HOST, RP, Service, card, guest, options, unbind};

const FILE: &str = "BERTH_TEST_ACCELERATOR_FILE";
const BOUND: &str = "bound once";
const EACH: usize = 8;

async fn over(path: &Path) -> Service {
    let location = Location::SqliteFile(path.to_owned());
    let store = SqlStore::open(&location, &SqlOptions::default())
        .await
        .unwrap();
    Service::over(store, options()).await
}

/// Not a test by itself: the child that the next test kills. Without the variable it ends at once.
#[tokio::test]
async fn binder_that_is_to_be_killed() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let service = over(Path::new(&path)).await;
    let uuids = service.get("/v2/accelerator_requests").await.uuids();
    let mut out = std::io::stdout();
    loop {
        assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
        writeln!(out, "{BOUND}").unwrap();
        assert_eq!(service.patch(unbind(&uuids)).await.status, 202);
    }
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "kills::binder_that_is_to_be_killed",
        ])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_kill_leaves_a_guest_with_all_its_handles_or_with_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("accelerator.sqlite");
    let service = over(&path).await;
    service.report(HOST, json!([card(0, RP, EACH)])).await;
    service.profile("dp", EACH).await;
    let uuids = service.requests("dp").await;
    service.store.close().await;
    drop(service);
    for round in 0..8 {
        let mut child = spawn(&path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains(BOUND) {}
        std::thread::sleep(Duration::from_micros(900 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let service = over(&path).await;
        let states = service.get("/v2/accelerator_requests").await.states();
        let reported = service.outbox().await.len();
        let held = usize::try_from(service.held().await).unwrap();
        let whole = states == vec!["Bound"; EACH] && (reported, held) == (EACH, EACH);
        let none = states.iter().all(|state| state == "Unbound") && (reported, held) == (0, 0);
        assert!(
            whole || none,
            "round {round}: {states:?}, {reported} events, {held} handles held"
        );
        if whole {
            assert_eq!(service.patch(unbind(&uuids)).await.status, 202);
        }
        service.store.close().await;
    }
}
