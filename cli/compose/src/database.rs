//! Opens the databases of the built-in services, creates or upgrades their schemas, and converts errors into failures.
//!
//! `file:PATH` in place of a URL names a file that holds the URL: every user of the host can read a password on a
//! command line, and a systemd credential is a file.

use std::error::Error as _;
use std::path::{Path, absolute};
use std::time::Duration;

use berth_config::{Config, Secret, regular_file};
use berth_output::{ErrorCode, Failure};
use berth_placement::{PlacementSchemaError, prepare};
use berth_store::sql::{Isolation, Location, OpenError, SqlError, SqlOptions, SqlStore};

use crate::state_files;
use crate::state_lock::{WITHOUT_GUESTS, state_folder};

pub fn open_failure(error: OpenError) -> Failure {
    not_opened("cannot open the database".to_owned(), &error)
}

fn not_opened(what: String, error: &OpenError) -> Failure {
    if let OpenError::Held {
        owner: Some(owner), ..
    } = error
        && *owner == std::process::id()
    {
        let what =
            format!("{what}: this process has it open already, so two sections name one database");
        return Failure::new(ErrorCode::Held, what).hint(
            "give each of [placement_service], [accelerator_service], [conductor_service], [compute_service] and \
             [identity_service] a connection of its own; in a container, look whether another one has the file",
        );
    }
    let code = match error {
        OpenError::Held { .. } => ErrorCode::Held,
        OpenError::UnsupportedUrl { .. }
        | OpenError::OptionsInUrl
        | OpenError::NoFileInUrl
        | OpenError::Url(_) => ErrorCode::BadValue,
        _ => ErrorCode::State,
    };
    match error {
        OpenError::Server { server, source } => {
            let what = format!("the database {server} cannot be opened: {source}");
            let failure = Failure::new(code, what).hint(source.hint());
            match root_cause(source) {
                Some(root) => failure.cause(root),
                None => failure,
            }
        }
        _ => Failure::caused(code, what, error),
    }
}

/// The innermost cause: what the server or the system says, without the words of the database library.
fn root_cause(error: &SqlError) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Some(cause.to_string())
}

pub fn schema_failure(error: PlacementSchemaError) -> Failure {
    not_placement("the database", &error)
}

/// Converts a schema error of Placement's database into a failure; `named` is the database in the error text.
pub fn not_placement(named: &str, error: &PlacementSchemaError) -> Failure {
    let code = match error {
        PlacementSchemaError::OtherRevision { .. }
        | PlacementSchemaError::UnknownRevision { .. } => ErrorCode::OtherRelease,
        PlacementSchemaError::NoRoot { .. } => ErrorCode::Refused,
        _ => ErrorCode::State,
    };
    let what = format!("{named} does not have Placement's schema");
    Failure::caused(code, what, error)
}

/// Opens the database of a URL (`sqlite:PATH`) for this process alone, at the schema of this release. A missing file is
/// created; a missing folder only if it is `state_path`.
///
/// Errors: The URL is not supported, the folder does not exist, another process uses the database, the disk fails, or
/// the schema is unknown.
pub async fn open(url: &Secret, config: &Config) -> Result<SqlStore, Failure> {
    let (location, named) = located(url)?;
    prepare_file(&location, &config.state_path)?;
    let options = SqlOptions {
        isolation: config.placement_service.isolation_level,
        ..options(&location)
    };
    let store = SqlStore::open(&location, &options).await;
    placement(store, &named).await
}

/// Opens an existing database for offline work. A wrong path is an error, and nothing is created.
pub async fn open_existing(url: &Secret) -> Result<SqlStore, Failure> {
    let (location, named) = located(url)?;
    let options = SqlOptions {
        is_offline_work: true,
        ..options(&location)
    };
    let store = SqlStore::open_existing(&location, &options).await;
    placement(store, &named).await
}

/// Opens an existing database read-only. Other processes may use it concurrently.
pub async fn open_read_only(url: &Secret) -> Result<SqlStore, Failure> {
    let (location, named) = located(url)?;
    let options = SqlOptions {
        is_offline_work: true,
        ..SqlOptions::default()
    };
    let store = SqlStore::open_read_only_at(&location, &options).await;
    let store = store.map_err(|error| not_opened(format!("cannot open {named}"), &error))?;
    let store = store.ok_or_else(|| {
        Failure::new(
            ErrorCode::State,
            format!("{named} does not exist, or has no tables"),
        )
        .hint("name the database that the service uses")
    })?;
    let checked = berth_placement::check(&store).await;
    checked.map_err(|error| not_placement(&named, &error))?;
    Ok(store)
}

/// Opens a database read-only, with any schema. Returns it with its name for error texts; `None` if it does not exist,
/// or has no tables on a server.
pub async fn open_any_read_only(url: &Secret) -> Result<(Option<SqlStore>, String), Failure> {
    let (location, named) = located(url)?;
    let store = SqlStore::open_read_only_at(&location, &SqlOptions::default()).await;
    let store = store.map_err(|error| not_opened(format!("cannot open {named}"), &error))?;
    Ok((store, named))
}

/// Refuses the URL of a file that does not exist: the path is probably mistyped.
pub fn require_file(url: &Secret) -> Result<(), Failure> {
    match location(url)? {
        Location::SqliteFile(path) if !path.exists() => {
            let what = format!("{} does not exist", path.display());
            Err(Failure::new(ErrorCode::State, what)
                .hint("name the database that the service uses: --database sqlite:PATH"))
        }
        _ => Ok(()),
    }
}

/// Opens a database with any schema, to create or change the schema. Returns it with its name for error texts. A
/// missing file is created. A statement may take a day, because some databases must copy a table to change it.
pub async fn open_any(url: &Secret, state_path: &Path) -> Result<(SqlStore, String), Failure> {
    let (location, named) = located(url)?;
    make_folder(&location, state_path)?;
    let options = SqlOptions {
        statement_timeout: Duration::from_secs(86_400),
        ..options(&location)
    };
    let store = SqlStore::open(&location, &options).await;
    let store = store.map_err(|error| not_opened(format!("cannot open {named}"), &error))?;
    Ok((store, named))
}

async fn placement(store: Result<SqlStore, OpenError>, named: &str) -> Result<SqlStore, Failure> {
    let store = store.map_err(|error| not_opened(format!("cannot open {named}"), &error))?;
    prepare(&store)
        .await
        .map_err(|error| not_placement(named, &error))?;
    Ok(store)
}

/// Opens the database of the accelerator service, and creates or upgrades its schema.
pub async fn open_accelerator(url: &Secret, state_path: &Path) -> Result<SqlStore, Failure> {
    let (store, named) = opened(url, state_path, |_| in_turn_options()).await?;
    berth_accelerator::prepare(&store).await.map_err(|error| {
        let code = match &error {
            berth_accelerator::AcceleratorSchemaError::OtherVersion { .. } => {
                ErrorCode::OtherRelease
            }
            _ => ErrorCode::State,
        };
        let what = format!("{named} does not have the accelerator service's schema");
        let failure = Failure::caused(code, what, &error);
        match error {
            berth_accelerator::AcceleratorSchemaError::Damaged { .. }
            | berth_accelerator::AcceleratorSchemaError::Sql(SqlError::Corrupt(_)) => failure
                .hint("restore it from a backup: profiles and bindings are stored only there"),
            _ => failure,
        }
    })?;
    Ok(store)
}

/// Opens the database of the Identity service, and creates or upgrades its schema.
pub async fn open_identity(url: &Secret, state_path: &Path) -> Result<SqlStore, Failure> {
    let (store, named) = opened(url, state_path, |_| in_turn_options()).await?;
    let ready = berth_identity::prepare(&store).await;
    let lost = "all users must log in again";
    ready.map_err(|error| not_as_it_should_be(&named, "the identity service's", &error, lost))?;
    Ok(store)
}

/// Opens the database of the hosts service, and creates or upgrades its schema.
pub async fn open_hosts(url: &Secret, state_path: &Path) -> Result<SqlStore, Failure> {
    let (store, named) = opened(url, state_path, |_| in_turn_options()).await?;
    let ready = berth_hosts::prepare(&store).await;
    let lost = "agents report their host states again; host aggregates, server groups and disabled services are lost";
    ready.map_err(|error| not_as_it_should_be(&named, "the scheduler's", &error, lost))?;
    Ok(store)
}

/// Opens the database of the compute API, and creates or upgrades its schema.
pub async fn open_compute(url: &Secret, state_path: &Path) -> Result<SqlStore, Failure> {
    // A server's request contains its config drive until the conductor has it.
    let options = |location: &Location| SqlOptions {
        overwrite_deleted: true,
        ..options(location)
    };
    let (store, named) = opened(url, state_path, options).await?;
    let ready = berth_compute::prepare(&store).await;
    let lost = "flavors, key pairs and the servers' names and owners are lost; their guests keep running, see berth guest list";
    ready.map_err(|error| not_as_it_should_be(&named, "the compute API's", &error, lost))?;
    Ok(store)
}

/// Opens a database without checking its schema. Returns it with its name for error texts.
async fn opened(
    url: &Secret,
    state_path: &Path,
    options: impl FnOnce(&Location) -> SqlOptions,
) -> Result<(SqlStore, String), Failure> {
    let (location, named) = located(url)?;
    prepare_file(&location, state_path)?;
    let store = SqlStore::open(&location, &options(&location)).await;
    let store = store.map_err(|error| not_opened(format!("cannot open {named}"), &error))?;
    Ok((store, named))
}

/// Converts a schema error into a failure; `lost` is what is lost if a damaged database is moved away.
fn not_as_it_should_be(
    named: &str,
    whose: &str,
    error: &berth_store::SchemaError,
    lost: &str,
) -> Failure {
    let code = match error {
        berth_store::SchemaError::OtherVersion { .. } => ErrorCode::OtherRelease,
        _ => ErrorCode::State,
    };
    let what = format!("{named} does not have {whose} schema");
    let failure = Failure::caused(code, what, error);
    match error {
        berth_store::SchemaError::Damaged { .. }
        | berth_store::SchemaError::Sql(SqlError::Corrupt(_)) => failure.hint(format!(
            "restore it from a backup; or move it away (a file together with its -wal and -shm): {lost}"
        )),
        _ => failure,
    }
}

/// Options for services whose writers lock each other out on a server, or change a row only if it is as they read it.
/// At READ COMMITTED no writer has to retry because of another, and a lock of a process that is gone with its machine
/// must be released soon.
fn in_turn_options() -> SqlOptions {
    SqlOptions {
        isolation: Isolation::ReadCommitted,
        statement_timeout: Duration::from_secs(20),
        ..SqlOptions::default()
    }
}

/// More attempts if others write, too: of 64 writers that need the same row, a few would still fail after ten attempts.
fn options(location: &Location) -> SqlOptions {
    const SHARED_ATTEMPTS: u32 = 40;
    let defaults = SqlOptions::default();
    SqlOptions {
        attempts: match location {
            Location::Server(_) => SHARED_ATTEMPTS,
            Location::SqliteFile(_) | Location::SqliteMemory => defaults.attempts,
        },
        ..defaults
    }
}

/// The location of the database of a URL. For `file:PATH`, the URL in the file is used.
pub fn location(url: &Secret) -> Result<Location, Failure> {
    let Some(file) = url.reveal().strip_prefix("file:") else {
        return url.reveal().parse().map_err(open_failure);
    };
    // The URL form is file:///PATH.
    let file = Path::new(file.strip_prefix("//").unwrap_or(file));
    let named = format!("the database URL in {}", file.display());
    let text = regular_file::read(file, LARGEST_URL).map_err(|error| {
        let what = format!("cannot read {named}");
        Failure::caused(ErrorCode::Unreadable, what, &error)
    })?;
    let wrong = |what: &str| {
        let what = format!("{named} {what}");
        Failure::new(ErrorCode::BadValue, what)
            .hint("write the URL into it, on one line, and nothing else")
    };
    let text = String::from_utf8(text.0).map_err(|_| wrong("is not UTF-8"))?;
    match text.trim() {
        "" => Err(wrong("is missing: the file is empty")),
        text if text.lines().count() > 1 => Err(wrong("has more than one line")),
        text if text.starts_with("file:") => Err(wrong("names another file")),
        text => text
            .parse()
            .map_err(|error| not_opened(format!("cannot use {named}"), &error)),
    }
}

/// Larger than any URL: a larger file is a mistake.
const LARGEST_URL: u64 = 16 << 10;

/// The location of the database, and its name for error texts.
fn located(url: &Secret) -> Result<(Location, String), Failure> {
    let location = location(url)?;
    let named = match &location {
        Location::SqliteFile(path) => format!("the database {}", path.display()),
        Location::SqliteMemory => "the database".to_owned(),
        Location::Server(server) => format!("the database {server}"),
    };
    Ok((location, named))
}

/// Creates the database's folder if it is `state_path`, and checks who owns the database and can change it.
fn prepare_file(location: &Location, state_path: &Path) -> Result<(), Failure> {
    make_folder(location, state_path)?;
    match location {
        Location::SqliteFile(path) => state_files::check_database(path, state_path),
        Location::SqliteMemory | Location::Server(_) => Ok(()),
    }
}

/// Creates the database's folder if it is `state_path`.
fn make_folder(location: &Location, state_path: &Path) -> Result<(), Failure> {
    if let Location::SqliteFile(path) = location
        && let Some(folder) = path.parent()
        && absolute(state_path).is_ok_and(|state_path| state_path == folder)
    {
        state_folder(folder, WITHOUT_GUESTS)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_store::sql::{Transaction, Work};

    use super::*;

    #[tokio::test]
    async fn a_database_without_its_version_is_damaged_and_says_what_its_loss_would_be() {
        struct Forget;
        impl Work for Forget {
            type Output = ();
            type Error = SqlError;
            async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
                tx.script("DELETE FROM compute_hosts_schema").await
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts.sqlite");
        let url = Secret::from(format!("sqlite:{}", file.display()));
        let store = open_hosts(&url, folder.path()).await.unwrap();
        store.write(&Forget).await.unwrap();
        store.close().await;
        drop(store);
        let refused = open_hosts(&url, folder.path()).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::State);
        let text = refused.explain();
        for words in [
            "hosts.sqlite does not have the scheduler's schema",
            "damaged",
            "move it away",
            "agents report their host states again",
        ] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("version 0"), "{text}");
    }

    #[tokio::test]
    async fn one_database_for_two_sections_is_reported_as_that() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("one.sqlite");
        let url = Secret::from(format!("sqlite:{}", file.display()));
        let store = open_hosts(&url, folder.path()).await.unwrap();
        let refused = open_compute(&url, folder.path()).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Held);
        let text = refused.explain();
        let is_named =
            text.contains("one.sqlite") && text.contains("two sections name one database");
        assert!(is_named && !text.contains("stop that process"), "{text}");
        store.close().await;
    }

    #[tokio::test]
    async fn a_database_server_that_is_away_is_one_line_with_its_cause() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let url = format!("postgresql://berth:hunter2@127.0.0.1:{port}/berth");
        let refused = open_hosts(&Secret::from(url), Path::new("/tmp")).await;
        let text = refused.unwrap_err().explain();
        assert!(
            text.contains("cannot be opened: the database server cannot be reached [BERTH-E0304]\ncause: Connection refused\nhint: "),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn a_mistyped_path_of_a_database_is_refused() {
        let url = Secret::from("sqlite:/nope/x.sqlite".to_owned());
        assert_eq!(
            require_file(&url).unwrap_err().explain(),
            "error: /nope/x.sqlite does not exist [BERTH-E0304]\n\
             hint: name the database that the service uses: --database sqlite:PATH\n"
        );
    }

    #[test]
    fn a_url_may_stand_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        fs::write(&file, "mysql://placement:hunter2@db/placement\n").unwrap();
        for form in ["file:", "file://"] {
            let url = Secret::from(format!("{form}{}", file.display()));
            let location = location(&url).unwrap();
            assert!(
                matches!(&location, Location::Server(server) if server.to_string().contains("db"))
            );
        }
    }

    #[test]
    fn a_file_without_a_url_is_refused_without_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        let url = Secret::from(format!("file:{}", file.display()));
        let refused = || location(&url).unwrap_err();
        assert_eq!(refused().code(), ErrorCode::Unreadable);
        for (content, words) in [
            (&b""[..], "the file is empty"),
            (b" \n\n", "the file is empty"),
            (b"\xffhunter2", "not UTF-8"),
            (b"sqlite:/a\npassword hunter2", "more than one line"),
            (b"file:/hunter2", "names another file"),
            (b"hunter2", "cannot use"),
            (b"mysql://placement:hunter2@/", "cannot use"),
        ] {
            fs::write(&file, content).unwrap();
            let (code, text) = (refused().code(), refused().explain());
            assert_eq!(code, ErrorCode::BadValue, "{text}");
            assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
            assert!(text.contains(&file.display().to_string()), "{text}");
        }
    }
}
