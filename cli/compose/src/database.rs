//! Opens the databases of the built-in services, brings them to their schema, and turns errors into failures.
//!
//! `file:PATH` in place of a URL names a file that holds the URL: every user of the host can read a password on a command line, and
//! a systemd credential is a file.

use std::path::{Path, absolute};
use std::time::Duration;

use berth_config::{Config, Secret, regular_file};
use berth_output::{ErrorCode, Failure};
use berth_placement::{PlacementSchemaError, prepare};
use berth_store::sql::{Isolation, Location, OpenError, SqlError, SqlOptions, SqlStore};

pub fn open_failure(error: OpenError) -> Failure {
    not_opened("the database cannot be opened".to_owned(), &error)
}

fn not_opened(what: String, error: &OpenError) -> Failure {
    if let OpenError::Held {
        owner: Some(owner), ..
    } = error
        && *owner == std::process::id()
    {
        let what =
            format!("{what}: this process has it open already, so two sections name one database");
        return Failure::new(ErrorCode::Held, what).mend(
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
    Failure::caused(code, what, error)
}

pub fn schema_failure(error: PlacementSchemaError) -> Failure {
    not_placement("the database", &error)
}

/// What a database is not, with the sentence that names it.
pub fn not_placement(named: &str, error: &PlacementSchemaError) -> Failure {
    let code = match error {
        PlacementSchemaError::OtherRevision { .. }
        | PlacementSchemaError::UnknownRevision { .. } => ErrorCode::OtherRelease,
        PlacementSchemaError::NoRoot { .. } => ErrorCode::Refused,
        _ => ErrorCode::State,
    };
    let what = format!("{named} is not Placement's as it should be");
    Failure::caused(code, what, error)
}

/// Opens the database of a URL (`sqlite:PATH`), owned by this process alone, at the schema this release needs. The file is
/// made where it is not there, its folder only where that is `state_path`.
///
/// Errors: The URL is none Berth knows, its folder is not there, another process owns the database, the disk fails, or
/// the schema is another one.
pub async fn open(url: &Secret, config: &Config) -> Result<SqlStore, Failure> {
    let (location, named) = located(url)?;
    make_folder(&location, &config.state_path)?;
    let options = SqlOptions {
        isolation: config.placement_service.isolation_level,
        ..options(&location)
    };
    let store = SqlStore::open(&location, &options).await;
    placement(store, &named).await
}

/// The same, of a database that is there, for offline work: a path with a slip in it is refused, and nothing made.
pub async fn open_existing(url: &Secret) -> Result<SqlStore, Failure> {
    let (location, named) = located(url)?;
    let options = SqlOptions {
        is_offline_work: true,
        ..options(&location)
    };
    let store = SqlStore::open_existing(&location, &options).await;
    placement(store, &named).await
}

/// The same, to look at only: not a byte of it is changed, and nobody is kept from owning it.
pub async fn look(url: &Secret) -> Result<SqlStore, Failure> {
    let (location, named) = located(url)?;
    let options = SqlOptions {
        is_offline_work: true,
        ..SqlOptions::default()
    };
    let store = SqlStore::open_read_only_at(&location, &options).await;
    let store = store.map_err(|error| not_opened(format!("{named} cannot be opened"), &error))?;
    let store = store.ok_or_else(|| {
        Failure::new(
            ErrorCode::State,
            format!("{named} is not there, or has no tables"),
        )
        .mend("give the one that the service uses")
    })?;
    let checked = berth_placement::check(&store).await;
    checked.map_err(|error| not_placement(&named, &error))?;
    Ok(store)
}

/// A database to look at, whatever its schema is, and its name in sentences. None where it is not there, or has no tables on a
/// server.
pub async fn look_at_any(url: &Secret) -> Result<(Option<SqlStore>, String), Failure> {
    let (location, named) = located(url)?;
    let store = SqlStore::open_read_only_at(&location, &SqlOptions::default()).await;
    let store = store.map_err(|error| not_opened(format!("{named} cannot be opened"), &error))?;
    Ok((store, named))
}

/// A database to make or change the schema of, whatever it is now, and its name in sentences. A file is made where it is not
/// there. A statement may take a day: a table is written anew where the database can do no better.
pub async fn open_any(url: &Secret, state_path: &Path) -> Result<(SqlStore, String), Failure> {
    let (location, named) = located(url)?;
    make_folder(&location, state_path)?;
    let options = SqlOptions {
        statement_timeout: Duration::from_secs(86_400),
        ..options(&location)
    };
    let store = SqlStore::open(&location, &options).await;
    let store = store.map_err(|error| not_opened(format!("{named} cannot be opened"), &error))?;
    Ok((store, named))
}

async fn placement(store: Result<SqlStore, OpenError>, named: &str) -> Result<SqlStore, Failure> {
    let store = store.map_err(|error| not_opened(format!("{named} cannot be opened"), &error))?;
    prepare(&store)
        .await
        .map_err(|error| not_placement(named, &error))?;
    Ok(store)
}

/// The same for the accelerator service.
pub async fn open_accelerator(url: &Secret, state_path: &Path) -> Result<SqlStore, Failure> {
    let (store, named) = opened(url, state_path, |_| in_turn_options()).await?;
    berth_accelerator::prepare(&store).await.map_err(|error| {
        let code = match &error {
            berth_accelerator::AcceleratorSchemaError::OtherVersion { .. } => {
                ErrorCode::OtherRelease
            }
            _ => ErrorCode::State,
        };
        let what = format!("{named} is not the accelerator service's as it should be");
        let failure = Failure::caused(code, what, &error);
        match error {
            berth_accelerator::AcceleratorSchemaError::Damaged { .. }
            | berth_accelerator::AcceleratorSchemaError::Sql(SqlError::Corrupt(_)) => {
                failure.mend("restore it from a backup: nobody else has profiles and bindings")
            }
            _ => failure,
        }
    })?;
    Ok(store)
}

/// The same for the identity service.
pub async fn open_identity(url: &Secret, state_path: &Path) -> Result<SqlStore, Failure> {
    let (store, named) = opened(url, state_path, |_| in_turn_options()).await?;
    let ready = berth_identity::prepare(&store).await;
    let lost = "everybody logs in again";
    ready.map_err(|error| not_as_it_should_be(&named, "the identity service's", &error, lost))?;
    Ok(store)
}

/// Opens the database of what the scheduler knows of hosts; one that is empty is brought to its schema.
pub async fn open_hosts(url: &Secret, state_path: &Path) -> Result<SqlStore, Failure> {
    let (store, named) = opened(url, state_path, |_| in_turn_options()).await?;
    let ready = berth_hosts::prepare(&store).await;
    let lost = "agents tell their hosts again; host aggregates, server groups and what was disabled in the cloud are lost";
    ready.map_err(|error| not_as_it_should_be(&named, "the scheduler's", &error, lost))?;
    Ok(store)
}

/// The compute API's database, with its schema.
pub async fn open_compute(url: &Secret, state_path: &Path) -> Result<SqlStore, Failure> {
    // What a server is asked for has its config drive in it, until the conductor has it.
    let options = |location: &Location| SqlOptions {
        overwrite_deleted: true,
        ..options(location)
    };
    let (store, named) = opened(url, state_path, options).await?;
    let ready = berth_compute::prepare(&store).await;
    let lost = "flavors, key pairs and the servers' names and owners are lost; their guests run on, as berth guest list says";
    ready.map_err(|error| not_as_it_should_be(&named, "the compute API's", &error, lost))?;
    Ok(store)
}

/// A database that is not looked into yet, and its name in sentences.
async fn opened(
    url: &Secret,
    state_path: &Path,
    options: impl FnOnce(&Location) -> SqlOptions,
) -> Result<(SqlStore, String), Failure> {
    let (location, named) = located(url)?;
    make_folder(&location, state_path)?;
    let store = SqlStore::open(&location, &options(&location)).await;
    let store = store.map_err(|error| not_opened(format!("{named} cannot be opened"), &error))?;
    Ok((store, named))
}

/// `lost`: what comes of it where a damaged one is moved away.
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
    let what = format!("{named} is not {whose} as it should be");
    let failure = Failure::caused(code, what, error);
    match error {
        berth_store::SchemaError::Damaged { .. }
        | berth_store::SchemaError::Sql(SqlError::Corrupt(_)) => failure.mend(format!(
            "restore it from a backup; or move it away (a file with the -wal and -shm beside it): {lost}"
        )),
        _ => failure,
    }
}

/// Of services whose writers take turns on a server, or change a row only where it is as they read it. So nobody has to run again
/// for another at READ COMMITTED, and a process that is gone with its machine must not keep its turn for long.
fn in_turn_options() -> SqlOptions {
    SqlOptions {
        isolation: Isolation::ReadCommitted,
        statement_timeout: Duration::from_secs(20),
        ..SqlOptions::default()
    }
}

/// More attempts where others write too: of 64 that want one row, a few would still be behind the others after ten.
fn options(location: &Location) -> SqlOptions {
    const BESIDE_OTHERS: u32 = 40;
    let usual = SqlOptions::default();
    SqlOptions {
        attempts: match location {
            Location::Server(_) => BESIDE_OTHERS,
            Location::SqliteFile(_) | Location::SqliteMemory => usual.attempts,
        },
        ..usual
    }
}

/// Where the database of a URL is; of `file:PATH`, that of the URL in the file.
pub fn location(url: &Secret) -> Result<Location, Failure> {
    let Some(file) = url.reveal().strip_prefix("file:") else {
        return url.reveal().parse().map_err(open_failure);
    };
    // As a URL has it: file:///PATH.
    let file = Path::new(file.strip_prefix("//").unwrap_or(file));
    let named = format!("the database URL in {}", file.display());
    let text = regular_file::read(file, LARGEST_URL).map_err(|error| {
        let what = format!("{named} cannot be read");
        Failure::caused(ErrorCode::Unreadable, what, &error)
    })?;
    let wrong = |what: &str| {
        let what = format!("{named} {what}");
        Failure::new(ErrorCode::BadValue, what)
            .mend("write the URL into it, on one line, and nothing else")
    };
    let text = String::from_utf8(text.0).map_err(|_| wrong("is not UTF-8"))?;
    match text.trim() {
        "" => Err(wrong("is missing: the file is empty")),
        text if text.lines().count() > 1 => Err(wrong("has more than one line")),
        text if text.starts_with("file:") => Err(wrong("names another file")),
        text => text
            .parse()
            .map_err(|error| not_opened(format!("{named} cannot be used"), &error)),
    }
}

/// More than any URL has; a larger file is a mistake.
const LARGEST_URL: u64 = 16 << 10;

/// Where the database is, and how it is called in sentences.
fn located(url: &Secret) -> Result<(Location, String), Failure> {
    let location = location(url)?;
    let named = match &location {
        Location::SqliteFile(path) => format!("the database {}", path.display()),
        Location::SqliteMemory => "the database".to_owned(),
        Location::Server(server) => format!("the database {server}"),
    };
    Ok((location, named))
}

/// Makes the database's folder where that is `state_path`.
fn make_folder(location: &Location, state_path: &Path) -> Result<(), Failure> {
    if let Location::SqliteFile(path) = location
        && let Some(folder) = path.parent()
        && absolute(state_path).is_ok_and(|state_path| state_path == folder)
    {
        std::fs::create_dir_all(folder).map_err(|error| {
            let what = format!("the database's folder {} cannot be made", folder.display());
            Failure::caused(ErrorCode::State, what, &error)
        })?;
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
            "hosts.sqlite is not the scheduler's as it should be",
            "damaged",
            "move it away",
            "agents tell their hosts again",
        ] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("version 0"), "{text}");
    }

    #[tokio::test]
    async fn one_database_for_two_sections_is_told_as_that() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("one.sqlite");
        let url = Secret::from(format!("sqlite:{}", file.display()));
        let store = open_hosts(&url, folder.path()).await.unwrap();
        let refused = open_compute(&url, folder.path()).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Held);
        let text = refused.explain();
        let told = text.contains("one.sqlite") && text.contains("two sections name one database");
        assert!(told && !text.contains("stop that process"), "{text}");
        store.close().await;
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
            (b"hunter2", "cannot be used"),
            (b"mysql://placement:hunter2@/", "cannot be used"),
        ] {
            fs::write(&file, content).unwrap();
            let (code, text) = (refused().code(), refused().explain());
            assert_eq!(code, ErrorCode::BadValue, "{text}");
            assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
            assert!(text.contains(&file.display().to_string()), "{text}");
        }
    }
}
