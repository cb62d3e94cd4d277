//! A kill of the process while it makes tokens: each that was answered holds in the next process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_identity::IdentityApiOptions;
use berth_store::{Location, SqlOptions, SqlStore};

use super::service::{Service, cloud, write};

const FOLDER: &str = "BERTH_TEST_IDENTITY_FOLDER";
const MADE: &str = "token ";

async fn over(folder: &Path) -> Service {
    let location = Location::SqliteFile(folder.join("identity.sqlite"));
    let store = SqlStore::open(&location, &SqlOptions::default())
        .await
        .unwrap();
    Service::over(
        store,
        &folder.join("identity.toml"),
        IdentityApiOptions::default(),
    )
    .await
}

/// Not a test by itself: the child that the next test kills. Without the variable it ends at once.
#[tokio::test]
async fn maker_that_is_to_be_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let service = over(Path::new(&folder)).await;
    let mut out = std::io::stdout();
    loop {
        let token = service.token("alice", None).await;
        writeln!(out, "{MADE}{token}").unwrap();
    }
}

fn spawn(folder: &Path) -> Child {
    let module = module_path!()
        .split("::")
        .skip(1)
        .collect::<Vec<_>>()
        .join("::");
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg(format!("{module}::maker_that_is_to_be_killed"))
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_token_that_was_answered_holds_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("identity.toml"), &cloud());
    for round in 0..6 {
        let mut child = spawn(folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut answered = Vec::new();
        let token = |line: String| line.split_once(MADE).map(|(_, token)| token.to_owned());
        while answered.is_empty() {
            answered.extend(token(lines.next().unwrap().unwrap()));
        }
        std::thread::sleep(Duration::from_micros(1_700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        // A line that was cut off by the kill is none.
        answered.extend(
            lines
                .map_while(Result::ok)
                .filter_map(token)
                .filter(|token| token.len() == 43),
        );
        let service = over(folder.path()).await;
        for token in answered {
            assert_eq!(
                service.get(&token, "/v3/auth/projects").await.status,
                200,
                "round {round}"
            );
        }
        service.store.close().await;
    }
}
