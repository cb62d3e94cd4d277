//! Files of state that decide rights, have secrets or name the node: users, passwords, databases, UUIDs and locks. No other user
//! may own or change them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use berth_agent_tracker::node_identity::is_uuid_file;
use berth_config::Secret;
use berth_files::{TrustError, own_file};
use berth_output::{ErrorCode, Failure};
use berth_store::sql::Location;

use crate::database::location;

/// The users that the start made, below `state_path`.
pub const USERS: &str = "identity.toml";
/// The address and the login for OpenStack's clients, below `state_path`.
pub const CLOUDS: &str = "clouds.yaml";

/// The end of the names of lock files: who can write one can keep the service from starting.
const LOCK_SUFFIX: &str = ".lock";

/// What SQLite appends to the name of a database, for its log and its locks.
const SQLITE_SUFFIXES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A file of state that another user owns or can change.
#[derive(Debug)]
pub struct UntrustedStateFile {
    file: PathBuf,
    pub reason: TrustError,
    hint: String,
}

impl UntrustedStateFile {
    /// What is wrong, without the reason.
    #[must_use]
    pub fn what(&self) -> String {
        format!("the file of state {} is refused", self.file.display())
    }

    /// The command with which the operator corrects it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The check of a file that belongs to the state in this folder.
    fn find(file: PathBuf, folder: &Path, service_user: Option<u32>) -> Option<Self> {
        let reason = own_file(&file, service_user).err()?;
        let hint = match &reason {
            // The user of the service has to write it.
            TrustError::Owner { path, .. } if *path == file => format!(
                "chown -h --reference={} {}",
                folder.display(),
                file.display()
            ),
            other => other.hint(),
        };
        Some(Self { file, reason, hint })
    }
}

/// Refuses to start with a state folder in which another user owns or can change a file.
pub(crate) fn check_folder(folder: &Path) -> Result<(), Failure> {
    refuse_first(guarded(folder), folder)
}

/// Refuses to open a database that another user owns or can change. `state`: the state folder of this process.
pub(crate) fn check_database(database: &Path, state: &Path) -> Result<(), Failure> {
    refuse_first(with_logs(database), state)
}

fn refuse_first(files: impl IntoIterator<Item = PathBuf>, folder: &Path) -> Result<(), Failure> {
    let mut files = files.into_iter();
    match files.find_map(|file| UntrustedStateFile::find(file, folder, None)) {
        None => Ok(()),
        Some(refused) => {
            let failure = Failure::caused(ErrorCode::Untrusted, refused.what(), &refused.reason);
            Err(failure.hint(refused.hint))
        }
    }
}

/// All files that a start with this state folder and these databases refuses. The start may run as another user than this process:
/// as the one that owns the folder.
#[must_use]
pub fn untrusted(folder: &Path, databases: &[Secret]) -> Vec<UntrustedStateFile> {
    let service_user = fs::metadata(folder).ok().map(|seen| seen.uid());
    let mut files: BTreeSet<PathBuf> = guarded(folder).into_iter().collect();
    for url in databases {
        // Another check reports a URL that cannot be used.
        if let Ok(Location::SqliteFile(database)) = location(url) {
            files.extend(with_logs(&database));
        }
    }
    let files = files.into_iter();
    files
        .filter_map(|file| UntrustedStateFile::find(file, folder, service_user))
        .collect()
}

/// The files in this folder that must have a trusted owner and mode.
fn guarded(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| is_guarded(&entry.file_name()))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

fn is_guarded(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    if is_uuid_file(&name) || name.ends_with(LOCK_SUFFIX) {
        return true;
    }
    let mut suffixes = SQLITE_SUFFIXES.into_iter();
    let base = suffixes.find_map(|suffix| name.strip_suffix(suffix));
    let base = base.unwrap_or(&name);
    [USERS, CLOUDS].contains(&base) || base.ends_with(".sqlite") || base.ends_with(".db")
}

/// The database, and the files that SQLite makes for it. SQLite makes them next to the target of a link.
fn with_logs(database: &Path) -> Vec<PathBuf> {
    let target = fs::canonicalize(database);
    let target = target.ok().filter(|target| target != database);
    let named = [database.to_owned()].into_iter().chain(target);
    let suffixed = |database: PathBuf| {
        let suffixes = [""].into_iter().chain(SQLITE_SUFFIXES);
        suffixes.map(move |suffix| {
            let mut name = database.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        })
    };
    named.flat_map(suffixed).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;
    use crate::state_lock::{StateLock, WITHOUT_GUESTS};

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Whether this process may give a file away.
    fn is_root(folder: &Path) -> bool {
        fs::metadata(folder).unwrap().uid() == 0
    }

    #[test]
    fn the_start_refuses_users_passwords_and_databases_that_another_user_owns_or_can_change() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        let start = || StateLock::take(&folder, WITHOUT_GUESTS).map(drop);
        start().unwrap();
        for name in [
            USERS,
            CLOUDS,
            "compute_id",
            "compute_id.gpu-01",
            "disks.lock",
            "identity.sqlite",
            "identity.sqlite-wal",
            "conductor.db",
        ] {
            let file = folder.join(name);
            fs::write(&file, "").unwrap();
            set(&file, 0o644);
            start().unwrap();
            set(&file, 0o666);
            let refused = start().unwrap_err();
            assert_eq!(refused.code(), ErrorCode::Untrusted);
            let text = refused.explain();
            let begin = format!("error: the file of state {} is refused ", file.display());
            assert!(text.starts_with(&begin), "{text}");
            let hint = format!("hint: chmod go-w {}\n", file.display());
            assert!(text.ends_with(&hint), "{text}");
            set(&file, 0o600);
            if is_root(&folder) {
                chown(&file, Some(65534), None).unwrap();
                let text = start().unwrap_err().explain();
                let at = (folder.display(), file.display());
                let hint = format!("hint: chown -h --reference={} {}\n", at.0, at.1);
                assert!(text.ends_with(&hint), "{text}");
            }
            fs::remove_file(&file).unwrap();
        }
        // Nothing is read from other files.
        let other = folder.join("up.log");
        fs::write(&other, "").unwrap();
        set(&other, 0o666);
        start().unwrap();
    }

    #[test]
    fn the_log_next_to_the_target_of_a_link_is_checked() {
        let (folder, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = folder.path().join("compute.sqlite");
        let target = disk.path().join("real.sqlite");
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(check_database(&link, folder.path()).is_ok());
        let log = disk.path().join("real.sqlite-wal");
        fs::write(&log, "").unwrap();
        set(&log, 0o666);
        let text = check_database(&link, folder.path()).unwrap_err().explain();
        assert!(text.contains(&log.display().to_string()), "{text}");
    }

    #[test]
    fn the_check_finds_all_files_of_state_that_the_start_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let database = elsewhere.path().join("compute.sqlite");
        let files = [
            folder.path().join(CLOUDS),
            folder.path().join("identity.sqlite"),
            database.clone(),
        ];
        let databases = [
            Secret::from(format!("sqlite:{}", database.display())),
            Secret::from("postgresql://berth@db/berth"),
            Secret::from("nonsense"),
        ];
        assert_eq!(untrusted(folder.path(), &databases).len(), 0);
        for file in &files {
            fs::write(file, "").unwrap();
            set(file, 0o660);
        }
        let found = untrusted(folder.path(), &databases);
        let found: BTreeSet<PathBuf> = found.into_iter().map(|it| it.file).collect();
        assert_eq!(found, BTreeSet::from(files.clone()));
        assert!(check_database(&database, folder.path()).is_err());
        for file in &files {
            set(file, 0o600);
        }
        assert_eq!(untrusted(folder.path(), &databases).len(), 0);
        // The service may run as the user that owns its folder.
        if is_root(folder.path()) {
            chown(folder.path(), Some(65534), None).unwrap();
            chown(&files[1], Some(65534), None).unwrap();
            assert_eq!(untrusted(folder.path(), &databases).len(), 0);
            chown(&files[1], Some(65533), None).unwrap();
            assert_eq!(untrusted(folder.path(), &databases).len(), 1);
        }
    }
}
