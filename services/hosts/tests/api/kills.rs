//! A kill of the process in the middle of what agents tell: a state is there whole, under its name, or the one before is.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_hosts::HostsOptions;
use berth_store::{Location, SqlOptions, SqlStore};
use serde_json::json;

use super::service::{Service, node_with, state};

const FILE: &str = "BERTH_TEST_HOSTS_FILE";
const REPORTED: &str = "reported once";
const NODES: u128 = 6;

async fn over(path: &Path) -> Service {
    let location = Location::SqliteFile(path.to_owned());
    let store = SqlStore::open(&location, &SqlOptions::default())
        .await
        .unwrap();
    Service::over(store, HostsOptions::default()).await
}

fn body(round: i64) -> serde_json::Value {
    let nodes: Vec<_> = (1..=NODES)
        .map(|n| node_with(n, json!({"num_io_ops": round})))
        .collect();
    state(&nodes)
}

/// Not a test by itself: the child that the next test kills. Without the variable it ends at once.
#[tokio::test]
async fn teller_that_is_to_be_killed() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let service = over(Path::new(&path)).await;
    let mut out = std::io::stdout();
    for round in 0.. {
        assert_eq!(service.reports("host1", body(round)).await.status, 200);
        writeln!(out, "{REPORTED}").unwrap();
    }
}

fn spawn(path: &Path) -> Child {
    let module = module_path!()
        .split("::")
        .skip(1)
        .collect::<Vec<_>>()
        .join("::");
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg(format!("{module}::teller_that_is_to_be_killed"))
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_kill_leaves_one_whole_state_under_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.sqlite");
    for round in 0..8 {
        let mut child = spawn(&path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains(REPORTED) {}
        std::thread::sleep(Duration::from_micros(1_300 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let service = over(&path).await;
        let shown = service.get("/host1/state").await.body;
        let round_shown = shown["nodes"][0]["num_io_ops"].as_i64().unwrap();
        assert_eq!(shown, body_as_shown(round_shown), "round {round}");
        let listed = service.get("").await.body["hosts"][0]["state"].clone();
        let name = service.reports("host1", shown).await.state();
        assert_eq!(listed, json!(name), "round {round}");
        service.store.close().await;
    }
}

/// With what the wire adds to a body that leaves it out.
fn body_as_shown(round: i64) -> serde_json::Value {
    let body_of_round: berth_wire::host_state::HostStateBody =
        serde_json::from_value(body(round)).unwrap();
    serde_json::to_value(body_of_round).unwrap()
}
