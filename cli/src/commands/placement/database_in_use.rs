//! Refuses a database that a service has open. A server lists the sessions on it. The users of a SQLite file that do
//! not take Berth's own lock are found by their open files. OpenStack's Placement opens the file for each request
//! (oslo.db gives SQLite no pool), so it is invisible while it is idle.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_compose::database;
use berth_config::Secret;
use berth_output::{ErrorCode, Failure};
use berth_store::SqlStore;
use berth_store::sql::{Location, OtherSession};

/// How often sessions are listed before they are refused.
const CHECKS: u32 = 10;
const CHECK_INTERVAL: Duration = Duration::from_millis(300);

/// Refuses a database file that another process has open. Only root sees the processes of other users.
pub(super) fn refuse_if_open_elsewhere(url: &Secret) -> Result<(), Failure> {
    let Location::SqliteFile(path) = database::location(url)? else {
        return Ok(());
    };
    let holders = holders(Path::new("/proc"), &path);
    if holders.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the database {} is open in {}; this command needs a database that no service uses",
        path.display(),
        holders.join(", ")
    );
    Err(Failure::new(ErrorCode::Held, what).hint("stop the service, then repeat"))
}

/// Refuses a database on a server if a service has a session on it; offline work of other hosts is allowed
/// concurrently. Sessions of other users are visible only with the server's permission (PROCESS on MariaDB and MySQL).
pub(super) async fn refuse_service_sessions(store: &SqlStore) -> Result<(), Failure> {
    refuse_sessions(store, |other| !other.is_offline_work).await
}

/// Refuses a database on a server if any other session uses it.
pub(super) async fn refuse_other_sessions(store: &SqlStore) -> Result<(), Failure> {
    refuse_sessions(store, |_| true).await
}

async fn refuse_sessions(
    store: &SqlStore,
    is_refused: impl Fn(&OtherSession) -> bool,
) -> Result<(), Failure> {
    // A session that starts or ends is listed incompletely, so only sessions that appear in every list count.
    let mut sessions: Option<BTreeSet<String>> = None;
    for _ in 0..CHECKS {
        let others = store.other_sessions().await.map_err(|error| {
            let what = format!("the database's sessions cannot be listed; {}", error.hint());
            Failure::caused(ErrorCode::State, what, &error)
        })?;
        let refused = others.seen.iter().filter(|other| is_refused(other));
        let now: BTreeSet<String> = refused.map(ToString::to_string).collect();
        let lasting = match &sessions {
            Some(before) => before.intersection(&now).cloned().collect(),
            None => now,
        };
        if lasting.is_empty() {
            return Ok(());
        }
        sessions = Some(lasting);
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    let sessions: Vec<_> = sessions.into_iter().flatten().collect();
    let what = format!(
        "the database is in use by {}; this command needs a database that no service uses",
        sessions.join(", ")
    );
    Err(Failure::new(ErrorCode::Held, what).hint("stop the service, then repeat"))
}

/// Processes that have the file open, as `NAME (pid N)`, without this process.
fn holders(proc: &Path, database: &Path) -> Vec<String> {
    let own = std::process::id();
    let database = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
    let files = ["", "-wal", "-shm", "-journal"].map(|end| {
        let mut name = database.clone().into_os_string();
        name.push(end);
        PathBuf::from(name)
    });
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let numbered = processes.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, entry.path()))
    });
    let mut holders: Vec<_> = numbered
        .filter(|(pid, process)| *pid != own && has_open(process, &files))
        .collect();
    holders.sort();
    let named = holders.iter().map(|(pid, process)| {
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        format!("{} (pid {pid})", name.trim())
    });
    named.collect()
}

fn has_open(process: &Path, files: &[PathBuf]) -> bool {
    let descriptors = fs::read_dir(process.join("fd"));
    let mut descriptors = descriptors.into_iter().flatten().flatten();
    descriptors.any(|entry| fs::read_link(entry.path()).is_ok_and(|link| files.contains(&link)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_process_with_the_database_or_its_log_open_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("placement.db");
        fs::write(&database, "").unwrap();
        let proc = folder.path().join("proc");
        for (pid, name, file) in [
            ("17", "uwsgi", "placement.db-wal"),
            ("9", "sqlite3", "placement.db"),
            ("23", "other", "placement.db.backup"),
            ("self", "self", "placement.db"),
        ] {
            let fd = proc.join(pid).join("fd");
            fs::create_dir_all(&fd).unwrap();
            fs::write(proc.join(pid).join("comm"), format!("{name}\n")).unwrap();
            symlink(folder.path().join(file), fd.join("3")).unwrap();
        }
        assert_eq!(
            holders(&proc, &database),
            ["sqlite3 (pid 9)", "uwsgi (pid 17)"]
        );
    }
}
