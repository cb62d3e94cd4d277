//! The schema is OpenStack Placement's, and nothing else is taken for it.

use berth_placement::{HEAD, PlacementSchemaError, prepare};
use berth_store::{Location, SqlError, SqlOptions, SqlStore, Statement, Transaction, Work};

struct Script(&'static str);

impl Work for Script {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.script(self.0).await
    }
}

async fn column(store: &SqlStore, sql: &'static str) -> Vec<String> {
    let mut tx = store.read().await.unwrap();
    let rows = tx.rows(Statement::new(sql)).await.unwrap();
    rows.iter().map(|row| row.text(0).unwrap()).collect()
}

#[tokio::test]
async fn an_empty_database_gets_all_tables_and_standards() {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
    let expected = [
        "alembic_version",
        "allocations",
        "consumer_types",
        "consumers",
        "inventories",
        "placement_aggregates",
        "projects",
        "resource_classes",
        "resource_provider_aggregates",
        "resource_provider_traits",
        "resource_providers",
        "traits",
        "users",
    ];
    assert_eq!(column(&store, tables).await, expected);
    assert_eq!(
        column(&store, "SELECT version_num FROM alembic_version").await,
        [HEAD]
    );
    let ids = "SELECT id || ' ' || name FROM resource_classes WHERE id IN (0, 10, 20) ORDER BY id";
    let expected = [
        "0 VCPU",
        "10 VGPU",
        "20 NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    ];
    assert_eq!(column(&store, ids).await, expected);
    assert_eq!(
        column(&store, "SELECT '' || COUNT(*) FROM traits").await,
        ["377"]
    );
    let indexes = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL";
    assert_eq!(column(&store, indexes).await.len(), 11);
}

#[tokio::test]
async fn preparing_twice_adds_nothing_and_fills_gaps() {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    let gap = Script(
        "DELETE FROM traits WHERE name = 'HW_CPU_X86_VMX'; DELETE FROM resource_classes WHERE id = 0",
    );
    store.write(&gap).await.unwrap();
    prepare(&store).await.unwrap();
    prepare(&store).await.unwrap();
    assert_eq!(
        column(&store, "SELECT '' || COUNT(*) FROM traits").await,
        ["377"]
    );
    assert_eq!(
        column(&store, "SELECT name FROM resource_classes WHERE id = 0").await,
        ["VCPU"]
    );
}

#[tokio::test]
async fn another_revision_is_refused_with_both_named() {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    let older = Script("UPDATE alembic_version SET version_num = '422ece571366'");
    store.write(&older).await.unwrap();
    let error = prepare(&store).await.unwrap_err();
    assert!(
        matches!(&error, PlacementSchemaError::OtherRevision { found } if found == "422ece571366")
    );
    assert!(error.to_string().contains(HEAD), "{error}");
}

#[tokio::test]
async fn a_dropped_table_is_reported_and_not_recreated() {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    let drop = Script("DROP TABLE allocations; DROP TABLE inventories");
    store.write(&drop).await.unwrap();
    let error = prepare(&store).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("lacks allocations, inventories"), "{text}");
    assert!(text.contains("restore it from a backup"), "{text}");
    let left = "SELECT '' || COUNT(*) FROM sqlite_master WHERE type = 'table'";
    assert_eq!(column(&store, left).await, ["11"]);
}

#[tokio::test]
async fn a_database_of_something_else_is_refused() {
    let store = SqlStore::in_memory().await.unwrap();
    store
        .write(&Script("CREATE TABLE music (id INTEGER)"))
        .await
        .unwrap();
    let error = prepare(&store).await.unwrap_err();
    assert!(
        matches!(error, PlacementSchemaError::NotPlacement),
        "{error}"
    );
    assert_eq!(
        column(&store, "SELECT name FROM sqlite_master").await,
        ["music"]
    );
}

#[tokio::test]
async fn a_file_is_found_again_with_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::SqliteFile(folder.path().join("placement.db"));
    for expected in ["21", "22"] {
        let store = SqlStore::open(&location, &SqlOptions::default())
            .await
            .unwrap();
        prepare(&store).await.unwrap();
        let count = "SELECT '' || COUNT(*) FROM resource_classes";
        assert_eq!(column(&store, count).await, [expected]);
        let add =
            Script("INSERT OR IGNORE INTO resource_classes (id, name) VALUES (10000, 'CUSTOM_A')");
        store.write(&add).await.unwrap();
        store.close().await;
    }
}
