//! Refused logins: the error names the reason, and no text contains the password.

use std::error::Error;
use std::time::Duration;

use berth_store::Disposition::{self, Fatal, Retry};
use berth_store::{
    Location, OpenError, Retryable as _, SqlError, SqlOptions, SqlStore, Statement, Value,
};

use crate::databases::test_database::TestDatabase;
use crate::databases::work::{Execute, Script, count, named};

on_servers! {
    wrong_passwords_users_and_databases_are_reported
    missing_permissions_are_reported
    statements_with_too_few_values_are_refused_and_the_connection_stays_usable
    the_spelling_of_sqlalchemy_opens_the_same_database
    a_server_proves_itself_by_its_certificate
    a_value_too_long_is_refused_and_not_cut
    errors_of_a_server_are_classified_by_their_remedy
}

/// A code, the error it is, and whether another run may help.
type ClassifiedError = (&'static str, fn(&SqlError) -> bool, Disposition);

/// The server is made to fail in each way by its own codes.
async fn errors_of_a_server_are_classified_by_their_remedy(place: TestDatabase) {
    let store = place.store().await;
    let postgres: &[ClassifiedError] = &[
        ("40001", |it| matches!(it, SqlError::Conflict(_)), Retry),
        ("40P01", |it| matches!(it, SqlError::Conflict(_)), Retry),
        ("55P03", |it| matches!(it, SqlError::Conflict(_)), Retry),
        ("53100", |it| matches!(it, SqlError::DiskFull(_)), Fatal),
        (
            "53300",
            |it| matches!(it, SqlError::TooManyConnections(_)),
            Retry,
        ),
        ("57P01", |it| matches!(it, SqlError::Lost(_)), Retry),
        ("57014", |it| matches!(it, SqlError::TookTooLong(_)), Fatal),
        ("25006", |it| matches!(it, SqlError::ReadOnly(_)), Fatal),
        ("42501", |it| matches!(it, SqlError::Denied(_)), Fatal),
        ("23505", |it| matches!(it, SqlError::Duplicate(_)), Fatal),
        ("23503", |it| matches!(it, SqlError::Constraint(_)), Fatal),
        ("58030", |it| matches!(it, SqlError::Io(_)), Fatal),
        ("XX001", |it| matches!(it, SqlError::Corrupt(_)), Fatal),
        ("42P01", |it| matches!(it, SqlError::Refused(_)), Fatal),
    ];
    let mariadb: &[ClassifiedError] = &[
        ("1213", |it| matches!(it, SqlError::Conflict(_)), Retry),
        ("1205", |it| matches!(it, SqlError::Conflict(_)), Retry),
        ("1020", |it| matches!(it, SqlError::Conflict(_)), Retry),
        ("1021", |it| matches!(it, SqlError::DiskFull(_)), Fatal),
        ("1114", |it| matches!(it, SqlError::DiskFull(_)), Fatal),
        ("3", |it| matches!(it, SqlError::DiskFull(_)), Fatal),
        (
            "1040",
            |it| matches!(it, SqlError::TooManyConnections(_)),
            Retry,
        ),
        ("1927", |it| matches!(it, SqlError::Lost(_)), Retry),
        ("1969", |it| matches!(it, SqlError::TookTooLong(_)), Fatal),
        ("1290", |it| matches!(it, SqlError::ReadOnly(_)), Fatal),
        ("1142", |it| matches!(it, SqlError::Denied(_)), Fatal),
        ("1062", |it| matches!(it, SqlError::Duplicate(_)), Fatal),
        ("1452", |it| matches!(it, SqlError::Constraint(_)), Fatal),
        ("1030", |it| matches!(it, SqlError::Io(_)), Fatal),
        ("1712", |it| matches!(it, SqlError::Corrupt(_)), Fatal),
        ("1146", |it| matches!(it, SqlError::Refused(_)), Fatal),
    ];
    let codes = match place {
        TestDatabase::Postgres(_) => postgres,
        _ => mariadb,
    };
    for (code, is_right, disposition) in codes {
        let sql = match place {
            TestDatabase::Postgres(_) => {
                format!("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$")
            }
            _ => format!("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {code}"),
        };
        let error = store.write(&Script(sql.leak())).await.unwrap_err();
        assert!(is_right(&error), "{code}: {error:?}");
        assert_eq!(error.disposition(), *disposition, "{code}");
        assert!(!error.hint().is_empty());
    }
    assert_eq!(count(&store).await, 0);
}

/// All that an error says of itself, in every form.
fn words(error: &(dyn Error + 'static)) -> String {
    let mut words = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(error) = source {
        words.push_str(&format!(" {error} {error:?}"));
        source = error.source();
    }
    words
}

fn quick() -> SqlOptions {
    SqlOptions {
        acquire_timeout: Duration::from_secs(3),
        ..SqlOptions::default()
    }
}

async fn refused(url: &str) -> OpenError {
    let location: Location = url.parse().unwrap();
    let shown = format!("{location:?}");
    assert!(
        !shown.contains("test-only") && !shown.contains("s3cret"),
        "{shown}"
    );
    if let Location::Server(server) = &location {
        assert!(
            !server.to_string().contains("test-only") && !server.to_string().contains("s3cret")
        );
    }
    let error = SqlStore::open(&location, &quick()).await.unwrap_err();
    let words = words(&error);
    assert!(
        !words.contains("test-only") && !words.contains("s3cret"),
        "{words}"
    );
    error
}

async fn wrong_passwords_users_and_databases_are_reported(place: TestDatabase) {
    let url = place.url();
    let wrong = url.replace("test-only", "s3cret");
    let error = refused(&wrong).await;
    assert!(
        matches!(
            error,
            OpenError::Server {
                source: SqlError::Denied(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("check user and password"),
        "{error}"
    );
    let error = refused(&url.replace("placement:", "nobody:")).await;
    assert!(
        matches!(
            error,
            OpenError::Server {
                source: SqlError::Denied(_),
                ..
            }
        ),
        "{error:?}"
    );
    let nowhere = format!("{}_that_is_not_there", url);
    let error = refused(&nowhere).await;
    assert!(
        matches!(
            error,
            OpenError::Server {
                source: SqlError::UnknownDatabase(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("_that_is_not_there"), "{error}");
    assert!(error.to_string().contains("create the database"), "{error}");
    let store = place.store().await;
    let shown = format!("{store:?}");
    assert!(!shown.contains("test-only"), "{shown}");
    for statement in [
        Statement::new("SELECT nothing FROM nowhere"),
        Statement::new("INSERT INTO parts (thing_id, used) VALUES (9, 9)"),
    ] {
        let error = store.write(&Execute(statement)).await.unwrap_err();
        assert!(!words(&error).contains("test-only"), "{error:?}");
    }
}

async fn missing_permissions_are_reported(place: TestDatabase) {
    let store = place.store().await;
    let (user, change) = match &place {
        TestDatabase::Postgres(_) => (
            "create role reader login password 's3cret'",
            "grant select on things to reader",
        ),
        _ => (
            "create user if not exists reader@'127.0.0.1' identified by 's3cret'",
            "grant select on things to reader@'127.0.0.1'",
        ),
    };
    place.query_server(user);
    place.query(change);
    let url = place.url().replace("placement:test-only", "reader:s3cret");
    let reader = SqlStore::open(&url.parse().unwrap(), &quick())
        .await
        .unwrap();
    reader
        .rows(Statement::new("SELECT id FROM things"))
        .await
        .unwrap();
    let error = reader.write(&named("a")).await.unwrap_err();
    assert!(matches!(error, SqlError::Denied(_)), "{error:?}");
    assert!(!words(&error).contains("s3cret"));
    // Without PROCESS, MariaDB does not show other sessions.
    let sessions = reader.other_sessions().await.unwrap();
    let shows_all = matches!(place, TestDatabase::Postgres(_));
    assert_eq!(sessions.complete, shows_all, "{sessions:?}");
    assert_eq!(!sessions.seen.is_empty(), shows_all, "{sessions:?}");
    reader.close().await;
    store.close().await;
}

async fn statements_with_too_few_values_are_refused_and_the_connection_stays_usable(
    place: TestDatabase,
) {
    let store = place.store().await;
    for values in [vec![], vec![Value::Int(1), Value::Int(2)]] {
        let select = Statement::new("SELECT id FROM things WHERE id = ?").bind_all(values);
        let error = store.rows(select).await.err().unwrap();
        assert!(matches!(error, SqlError::Refused(_)), "{error:?}");
        assert!(words(&error).contains("1 placeholders"), "{error:?}");
    }
    let error = store.rows(Statement::new("SELEC")).await.err().unwrap();
    assert!(matches!(error, SqlError::Refused(_)), "{error:?}");
    store.write(&named("a")).await.unwrap();
}

async fn the_spelling_of_sqlalchemy_opens_the_same_database(place: TestDatabase) {
    let store = place.store().await;
    store.write(&named("a")).await.unwrap();
    let url = match &place {
        TestDatabase::Sqlite(_) => return,
        TestDatabase::Postgres(database) => database.sqlalchemy_url(),
        TestDatabase::MariaDb(database) => database.sqlalchemy_url(),
    };
    let location: Location = url.parse().unwrap();
    let by_socket = SqlStore::open(&location, &quick()).await.unwrap();
    let rows = by_socket
        .rows(Statement::new("SELECT id FROM things"))
        .await
        .unwrap();
    assert_eq!(rows.len(), 1);
}

/// URL with what makes the driver verify by this CA.
fn verified(place: &TestDatabase, ca: &str) -> String {
    match place {
        TestDatabase::Postgres(_) => {
            format!("{}?sslmode=verify-full&sslrootcert={ca}", place.url())
        }
        _ => format!("{}?ssl_ca={ca}&ssl_verify_identity=true", place.url()),
    }
}

async fn a_server_proves_itself_by_its_certificate(place: TestDatabase) {
    let authority = match &place {
        TestDatabase::Sqlite(_) => return,
        TestDatabase::Postgres(database) => database.authority(),
        TestDatabase::MariaDb(database) => database.authority(),
    };
    let encrypted = match &place {
        TestDatabase::Postgres(_) => {
            "SELECT 'cipher', cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl"
        }
        _ => "SHOW STATUS LIKE 'Ssl_cipher'",
    };
    let url = verified(&place, &authority.display().to_string());
    let location: Location = url.parse().unwrap();
    let store = SqlStore::open(&location, &quick()).await.unwrap();
    let rows = store.rows(Statement::new(encrypted)).await.unwrap();
    assert!(
        rows[0].text(1).unwrap().contains("TLS_"),
        "{}",
        rows[0].text(1).unwrap()
    );
    // Signed by an authority that is none of the system's.
    let by_system = url.replace(&format!("sslrootcert={}", authority.display()), "");
    let by_system = by_system.replace(
        &format!("ssl_ca={}&", authority.display()),
        "ssl_mode=verify_ca&",
    );
    let error = refused(&by_system).await;
    assert!(
        matches!(
            error,
            OpenError::Server {
                source: SqlError::Tls(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("check the TLS options"),
        "{error}"
    );
    let error = refused(&verified(&place, "/nowhere/ca.pem")).await;
    assert!(matches!(error, OpenError::TlsFile { .. }), "{error:?}");
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
}

async fn a_value_too_long_is_refused_and_not_cut(place: TestDatabase) {
    let store = place.store().await;
    let error = store.write(&named("x".repeat(256))).await.unwrap_err();
    assert!(
        matches!(error, SqlError::Refused(_) | SqlError::Constraint(_)),
        "{error:?}"
    );
}
