//! The SQL store: one owner, whole transactions, bounded retries.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use berth_store::{
    Disposition, Location, OpenError, Retryable, SqlError, SqlOptions, SqlStore, Statement,
    TlsMode, Transaction, Value, Work,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor};

#[derive(Debug, thiserror::Error)]
enum CountError {
    #[error("try again")]
    Again,
    #[error("never")]
    Never,
    #[error("the database failed")]
    Sql(#[from] SqlError),
}

impl Retryable for CountError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Again => Disposition::Retry,
            Self::Never => Disposition::Fatal,
            Self::Sql(error) => error.disposition(),
        }
    }
}

struct Script(&'static str);

impl Work for Script {
    type Output = ();
    type Error = CountError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), CountError> {
        Ok(tx.script(self.0).await?)
    }
}

/// Inserts a row, then fails the given number of times.
struct Insert {
    failures: AtomicU32,
    error: fn() -> CountError,
}

impl Insert {
    fn failing(failures: u32, error: fn() -> CountError) -> Self {
        Self {
            failures: AtomicU32::new(failures),
            error,
        }
    }
}

impl Work for Insert {
    type Output = i64;
    type Error = CountError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, CountError> {
        let statement = Statement::new("INSERT INTO things (name, weight) VALUES (?, ?)");
        let done = tx.execute(statement.bind("a").bind(4.0)).await?;
        let left = self.failures.load(Ordering::Relaxed);
        if left > 0 {
            self.failures.store(left - 1, Ordering::Relaxed);
            return Err((self.error)());
        }
        Ok(done.last_id)
    }
}

const THINGS: Script =
    Script("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT UNIQUE, weight NUMERIC(16,4))");

async fn memory() -> SqlStore {
    let store = SqlStore::in_memory().await.unwrap();
    store.write(&THINGS).await.unwrap();
    store
}

async fn count(store: &SqlStore) -> i64 {
    let mut tx = store.read().await.unwrap();
    let row = tx.row(Statement::new("SELECT COUNT(*) FROM things")).await;
    row.unwrap().unwrap().int(0).unwrap()
}

async fn file(path: &Path) -> Result<SqlStore, OpenError> {
    SqlStore::open(
        &Location::SqliteFile(path.to_owned()),
        &SqlOptions::default(),
    )
    .await
}

#[tokio::test]
async fn a_failed_run_leaves_no_row_and_the_next_run_begins_again() {
    let store = memory().await;
    let id = store.write(&Insert::failing(3, || CountError::Again)).await;
    assert_eq!(id.unwrap(), 1);
    assert_eq!(count(&store).await, 1);
}

#[tokio::test]
async fn a_fatal_error_is_not_tried_again() {
    let store = memory().await;
    let work = Insert::failing(5, || CountError::Never);
    assert!(matches!(store.write(&work).await, Err(CountError::Never)));
    assert_eq!(work.failures.load(Ordering::Relaxed), 4);
    assert_eq!(count(&store).await, 0);
}

#[tokio::test]
async fn a_new_database_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("things.db");
    let store = SqlStore::open(&Location::SqliteFile(file), &SqlOptions::default())
        .await
        .unwrap();
    store.write(&THINGS).await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let file = folder.path().join(format!("things.db{suffix}"));
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "things.db{suffix}");
    }
}

#[tokio::test]
async fn what_was_deleted_is_overwritten_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("things.db");
    for (overwrite_deleted, is_left) in [(false, true), (true, false)] {
        let options = SqlOptions {
            overwrite_deleted,
            ..SqlOptions::default()
        };
        let store = SqlStore::open(&Location::SqliteFile(file.clone()), &options)
            .await
            .unwrap();
        store
            .write(&Script(
                "CREATE TABLE secrets (name TEXT); INSERT INTO secrets VALUES ('a-unique-secret-name')",
            ))
            .await
            .unwrap();
        store.write(&Script("DELETE FROM secrets")).await.unwrap();
        store.close().await;
        let bytes = std::fs::read(&file).unwrap();
        let secret = b"a-unique-secret-name";
        let found = bytes.windows(secret.len()).any(|window| window == secret);
        assert_eq!(found, is_left, "overwrite_deleted = {overwrite_deleted}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[tokio::test]
async fn each_of_many_concurrent_deletions_is_gone_from_the_log_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("things.db");
    let options = SqlOptions {
        overwrite_deleted: true,
        ..SqlOptions::default()
    };
    let store = SqlStore::open(&Location::SqliteFile(file.clone()), &options)
        .await
        .unwrap();
    let create = Script("CREATE TABLE secrets (name TEXT)");
    store.write(&create).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let (store, file) = (store.clone(), file.clone());
        tasks.spawn(async move {
            let secret = format!("secret-of-task-{number:04}");
            let insert = "INSERT INTO secrets (name) VALUES (?)";
            let insert = Statement::new(insert).bind(&secret);
            assert_eq!(store.execute(insert).await.unwrap().rows_affected, 1);
            let delete = "DELETE FROM secrets WHERE name = ?";
            let delete = Statement::new(delete).bind(&secret);
            assert_eq!(
                store.execute(delete.clone()).await.unwrap().rows_affected,
                1
            );
            assert_eq!(store.execute(delete).await.unwrap().rows_affected, 0);
            assert!(store.empty_log().await.unwrap());
            for suffix in ["", "-wal"] {
                let file = format!("{}{suffix}", file.display());
                let bytes = std::fs::read(&file).unwrap();
                let mut windows = bytes.windows(secret.len());
                assert!(!windows.any(|part| part == secret.as_bytes()), "{file}");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn retries_are_bounded() {
    let options = SqlOptions {
        attempts: 3,
        ..SqlOptions::default()
    };
    let store = SqlStore::open(&Location::SqliteMemory, &options)
        .await
        .unwrap();
    store.write(&THINGS).await.unwrap();
    let work = Insert::failing(100, || CountError::Again);
    assert!(matches!(store.write(&work).await, Err(CountError::Again)));
    assert_eq!(work.failures.load(Ordering::Relaxed), 97);
}

#[tokio::test]
async fn a_taken_unique_key_is_reported_as_duplicate() {
    let store = memory().await;
    store
        .write(&Insert::failing(0, || CountError::Never))
        .await
        .unwrap();
    let again = store.write(&Insert::failing(0, || CountError::Never)).await;
    assert!(matches!(
        again,
        Err(CountError::Sql(SqlError::Duplicate(_)))
    ));
}

#[tokio::test]
async fn a_whole_number_in_a_numeric_column_is_read_as_a_double_when_cast() {
    let store = memory().await;
    store
        .write(&Insert::failing(0, || CountError::Never))
        .await
        .unwrap();
    let sql = format!(
        "SELECT {}, weight FROM things",
        store.dialect().double("weight")
    );
    let mut tx = store.read().await.unwrap();
    let row = tx.row(Statement::new(sql)).await.unwrap().unwrap();
    assert_eq!(row.double(0).unwrap(), 4.0);
    assert!(matches!(
        row.double(1),
        Err(SqlError::Column { column: 1, .. })
    ));
}

#[tokio::test]
async fn lists_may_be_longer_than_a_statement_has_variables() {
    let store = memory().await;
    struct Many;
    impl Work for Many {
        type Output = u64;
        type Error = CountError;

        async fn run(&self, tx: &mut Transaction) -> Result<u64, CountError> {
            let rows: Vec<[Value; 2]> = (0..70_000_i64)
                .map(|n| [Value::from(format!("n{n}")), Value::from(n)])
                .collect();
            let head = "INSERT INTO things (name, weight) VALUES";
            Ok(tx.insert_rows(head, rows, "").await?)
        }
    }
    assert_eq!(store.write(&Many).await.unwrap(), 70_000);
    let names: Vec<String> = (0..70_000).map(|n| format!("n{n}")).collect();
    let mut tx = store.read().await.unwrap();
    let head = Statement::new("SELECT id FROM things WHERE weight >= ? AND name IN").bind(5);
    let rows = tx.rows_in(&head, &names, "").await.unwrap();
    assert_eq!(rows.len(), 69_995);
    assert!(
        tx.rows_in(&head, &[] as &[String], "")
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn packed_rows_come_over_as_one_value() {
    let store = memory().await;
    let names = ["it's", "\"two\"", "ä\n"];
    for name in names {
        store.write(&Name(Value::from(name))).await.unwrap();
    }
    store.write(&Name(Value::Null)).await.unwrap();
    let head = |filter: &str| {
        let packed = store.dialect().packed("id, name");
        Statement::new(format!("SELECT {packed} FROM things {filter}"))
    };
    let rows = store.rows(head("")).await.unwrap();
    let mut all: Vec<(i64, Option<String>)> = rows[0].unpack(0).unwrap();
    all.sort();
    let expected = names.map(|name| Some(name.to_owned()));
    let found: Vec<_> = all.iter().map(|(_, name)| name.clone()).collect();
    assert_eq!(found[..3], expected);
    assert_eq!(all[3], (4, None));
    let rows = store.rows_in(&head("WHERE name IN"), &names, "").await;
    let named: Vec<(i64, String)> = rows.unwrap()[0].unpack(0).unwrap();
    assert_eq!(named.len(), 3);
    let rows = store.rows(head("WHERE id > 9")).await.unwrap();
    assert_eq!(rows[0].unpack::<(i64, String)>(0).unwrap(), []);
    let rows = store.rows(head("")).await.unwrap();
    let error = rows[0].unpack::<(i64, String)>(0).unwrap_err();
    assert!(matches!(error, SqlError::Column { column: 0, .. }));
}

struct Name(Value);

impl Work for Name {
    type Output = ();
    type Error = CountError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), CountError> {
        let statement = Statement::new("INSERT INTO things (name) VALUES (?)");
        tx.execute(statement.bind_all([self.0.clone()])).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_second_owner_of_a_file_is_refused_with_its_pid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.db");
    let first = file(&path).await.unwrap();
    let error = file(&path).await.unwrap_err();
    assert!(matches!(error, OpenError::Held { owner: Some(pid), .. } if pid == std::process::id()));
    assert!(
        error.to_string().contains("held by another process"),
        "{error}"
    );
    // A clone that lives longer keeps nothing.
    first.close().await;
    file(&path).await.unwrap();
    drop(first);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_reported_as_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.db");
    std::fs::write(&path, [0x55; 8192]).unwrap();
    let error = file(&path).await.unwrap_err();
    assert!(
        matches!(error, OpenError::Sql(SqlError::Corrupt(_))),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("restore the database"),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let error = file(&folder.path().join("none/placement.db"))
        .await
        .unwrap_err();
    assert!(matches!(error, OpenError::NoFolder { .. }), "{error:?}");
    assert!(
        error.to_string().contains("none of the database"),
        "{error}"
    );
    assert!(!folder.path().join("none").exists());
}

#[tokio::test]
async fn readers_see_the_state_before_a_write_that_is_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let store = file(&folder.path().join("placement.db")).await.unwrap();
    store.write(&THINGS).await.unwrap();
    let mut reading = store.read().await.unwrap();
    let all = || Statement::new("SELECT id FROM things");
    assert!(reading.rows(all()).await.unwrap().is_empty());
    store
        .write(&Insert::failing(0, || CountError::Never))
        .await
        .unwrap();
    assert!(
        reading.rows(all()).await.unwrap().is_empty(),
        "one state per transaction"
    );
    drop(reading);
    assert_eq!(count(&store).await, 1);
}

#[tokio::test]
async fn a_foreign_writer_makes_a_busy_error_after_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.db");
    let options = SqlOptions {
        busy_timeout: Duration::from_millis(20),
        attempts: 2,
        ..SqlOptions::default()
    };
    let ours = SqlStore::open(&Location::SqliteFile(path.clone()), &options)
        .await
        .unwrap();
    ours.write(&THINGS).await.unwrap();
    // A program that does not ask for the ownership: the write lock is SQLite's own.
    let mut foreign = SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    foreign.execute("BEGIN IMMEDIATE").await.unwrap();
    let refused = ours.write(&Insert::failing(0, || CountError::Never)).await;
    let Err(CountError::Sql(error @ SqlError::Busy(_))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.disposition(), Disposition::Retry);
}

#[tokio::test]
async fn a_second_name_of_an_owned_file_is_no_way_around_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.db");
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let error = file(&link).await.unwrap_err();
    assert!(matches!(error, OpenError::NotAFile { .. }), "{error:?}");
    let first = file(&path).await.unwrap();
    let error = file(&link).await.unwrap_err();
    assert!(matches!(error, OpenError::Held { .. }), "{error:?}");
    assert!(!folder.path().join("link.db.lock").exists());
    let hard = folder.path().join("hard.db");
    std::fs::hard_link(&path, &hard).unwrap();
    let error = file(&hard).await.unwrap_err();
    assert!(
        matches!(error, OpenError::OtherNames { names: 2, .. }),
        "{error:?}"
    );
    std::fs::remove_file(hard).unwrap();
    std::fs::remove_file(folder.path().join("placement.db.lock")).unwrap();
    let error = file(&link).await.unwrap_err();
    assert!(matches!(error, OpenError::Held { .. }), "{error:?}");
    first.close().await;
    drop(first);
    let by_link = file(&link).await.unwrap();
    assert_eq!(by_link.path(), Some(&*path.canonicalize().unwrap()));
}

#[tokio::test]
async fn a_database_that_is_to_be_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.db");
    for content in [None, Some("")] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let before = std::fs::read_dir(folder.path()).unwrap().count();
        let location = Location::SqliteFile(path.clone());
        let opened = SqlStore::open_existing(&location, &SqlOptions::default()).await;
        let error = opened.unwrap_err();
        assert!(matches!(error, OpenError::Absent { .. }), "{error:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), before);
    }
    file(&path).await.unwrap().close().await;
    let location = Location::SqliteFile(path);
    SqlStore::open_existing(&location, &SqlOptions::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused_before_a_lock_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [
        Path::new("/dev/null"),
        Path::new("/dev/full"),
        folder.path(),
        &socket,
    ] {
        let error = file(path).await.unwrap_err();
        assert!(matches!(error, OpenError::NotAFile { .. }), "{error:?}");
        let lock = format!("{}.lock", path.display());
        assert!(!Path::new(&lock).exists(), "{lock}");
    }
}

#[test]
fn database_urls_name_their_file() {
    for (url, expected) in [
        ("sqlite:/var/lib/berth/p.db", Some("/var/lib/berth/p.db")),
        ("sqlite:///var/lib/berth/p.db", Some("/var/lib/berth/p.db")),
        ("sqlite:", None),
        ("sqlite://", None),
        ("p.db", None),
    ] {
        let found: Result<Location, OpenError> = url.parse();
        match expected {
            Some(path) => assert_eq!(found.unwrap(), Location::SqliteFile(path.into()), "{url}"),
            None => assert!(!found.unwrap_err().to_string().contains("secret"), "{url}"),
        }
    }
    let relative = std::env::current_dir().unwrap().join("p.db");
    assert_eq!(
        "sqlite:p.db".parse::<Location>().unwrap(),
        Location::SqliteFile(relative)
    );
    assert_eq!(
        "sqlite::memory:".parse::<Location>().unwrap(),
        Location::SqliteMemory
    );
}

#[test]
fn a_servers_url_is_read_in_every_spelling() {
    for (url, shown) in [
        (
            "postgresql://placement:pw@db.example/placement",
            "postgresql://placement@db.example:5432/placement",
        ),
        (
            "postgresql+psycopg2://placement:pw@[fd00::1]:6432/p%20q?sslmode=verify-full",
            "postgresql://placement@[fd00::1]:6432/p q",
        ),
        (
            "postgresql+psycopg2://placement:pw@/placement?host=/run/pg&port=5433",
            "postgresql://placement@/run/pg/placement",
        ),
        (
            "postgres://placement@/placement",
            "postgresql://placement@/var/run/postgresql/placement",
        ),
        (
            "mysql+pymysql://placement:pw@10.0.0.1/placement?charset=utf8",
            "mysql://placement@10.0.0.1:3306/placement",
        ),
        (
            "mariadb://placement:p/w?#:%40%25@10.0.0.1:3307/placement",
            "mysql://placement@10.0.0.1:3307/placement",
        ),
        (
            "mysql+pymysql://placement:pw@localhost/placement?unix_socket=/run/mysqld/mysqld.sock",
            "mysql://placement@/run/mysqld/mysqld.sock/placement",
        ),
    ] {
        let Location::Server(server) = url.parse().unwrap() else {
            panic!("{url}");
        };
        assert_eq!(server.to_string(), shown, "{url}");
    }
}

#[test]
fn tls_is_as_strict_as_the_url_asks() {
    for (options, mode) in [
        ("postgresql://u@h/d", TlsMode::Preferred),
        ("postgresql://u@h/d?sslmode=disable", TlsMode::Off),
        ("postgresql://u@h/d?sslmode=require", TlsMode::Required),
        (
            "postgresql://u@h/d?sslmode=require&sslrootcert=/ca",
            TlsMode::VerifyCa,
        ),
        ("postgresql://u@h/d?sslrootcert=/ca", TlsMode::VerifyFull),
        ("mysql://u@h/d", TlsMode::Preferred),
        ("mysql://u@h/d?ssl_disabled=true", TlsMode::Off),
        ("mysql://u@h/d?ssl_ca=/ca", TlsMode::VerifyCa),
        (
            "mysql://u@h/d?ssl_ca=/ca&ssl_verify_identity=true",
            TlsMode::VerifyFull,
        ),
        (
            "mysql://u@h/d?ssl_check_hostname=false&ssl_ca=/ca",
            TlsMode::VerifyCa,
        ),
        ("mysql://u@h/d?ssl-mode=REQUIRED", TlsMode::Required),
    ] {
        let Location::Server(server) = options.parse().unwrap() else {
            panic!("{options}");
        };
        assert_eq!(server.tls.mode, mode, "{options}");
    }
}

#[test]
fn a_servers_url_that_is_wrong_is_refused_without_its_password() {
    for (url, why) in [
        ("postgresql:u:s3cret@h/d", "postgresql://"),
        ("mysql://u:s3cret@h", "names no database"),
        ("mysql://u:s3cret@h/", "names no database"),
        ("mysql://:s3cret@h/d", "names no user"),
        ("mysql://h/d", "names no user"),
        ("mysql://u:s3c@ret@h/d", "%40"),
        ("mysql://u:s3cret%zz@h/d", "%25"),
        ("mysql://u:s3cret%2@h/d", "password"),
        ("mysql://u:s3cret%ff@h/d", "UTF-8"),
        ("mysql://u:s3cret@h:0/d", "65535"),
        ("mysql://u:s3cret@h:99999/d", "65535"),
        ("mysql://u:s3cret/d", "65535"),
        ("mysql://u:s3cret@h h/d", "host"),
        ("mysql://u:s3cret@[::1/d", "host"),
        ("mysql://u:s3cret@h/d?ssl_caa=/x", "ssl_caa"),
        ("mysql://u:s3cret@h/d?S3cret!", "does not know"),
        ("mysql://u:s3cret@h/d?charset=latin1", "utf8mb4"),
        ("mysql://u:s3cret@h/d?ssl_ca=ca.pem", "absolute path"),
        ("mysql://u:s3cret@h/d?ssl_cert=/c.pem", "key"),
        (
            "mysql://u:s3cret@h/d?read_default_file=/etc/my.cnf",
            "option file",
        ),
        (
            "mysql://u:s3cret@h/d?ssl_verify_cert=maybe",
            "true or false",
        ),
        ("postgresql://u:s3cret@h/d?sslmode=s3cret", "verify-full"),
        ("postgresql://u@h/d?password=s3cret%&user=u", "%25"),
        ("postgresql://u:s3cret@h/d?service=x", "service"),
        ("s3cret", "sqlite:"),
        ("oracle://u:s3cret@h/d", "oracle"),
        ("s3cret:u@h/d", "sqlite:"),
        ("mysql://u:a@x?s3cret&b@h/d", "%40"),
        ("postgresql:///d?user=u&password=s3c@ret", "%40"),
        ("u:s3cret@h/d", "sqlite:"),
    ] {
        let error = url.parse::<Location>().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(why), "{url}: {shown}");
        assert!(!shown.contains("s3c"), "{url}: {shown}");
    }
}

/// A password of any characters is parsed in every escaping; if the URL is invalid, no error shows a part of it.
#[test]
fn a_password_of_any_signs_is_read_or_kept_secret() {
    let signs = "@:/?#%[]&=+! \"'\\;ä\0\n";
    for (first, second) in signs
        .chars()
        .flat_map(|a| signs.chars().map(move |b| (a, b)))
    {
        let password = format!("s3c{first}s3c{second}s3c");
        let escaped: String = password
            .bytes()
            .map(|byte| format!("%{byte:02x}"))
            .collect();
        let url = |password: &str| format!("mysql://u:{password}@h/d?charset=utf8");
        let right: Location = url(&escaped).parse().unwrap();
        assert!(!format!("{right:?}").contains("s3c"));
        match url(&password).parse::<Location>() {
            Ok(read) => assert_eq!(read, right, "{password:?}"),
            Err(error) => {
                assert!(password.contains(['@', '%']), "{password:?}: {error}");
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains("s3c"), "{shown}");
            }
        }
    }
}

#[test]
fn a_database_url_with_options_is_refused() {
    for url in [
        "sqlite:/p.db?mode=ro",
        "sqlite:///p.db?timeout=5",
        "sqlite:p.db#top",
    ] {
        let error = url.parse::<Location>().unwrap_err();
        assert!(matches!(error, OpenError::OptionsInUrl), "{url}: {error}");
    }
}
