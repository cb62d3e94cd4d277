//! How the database goes about what a bind, a guest's list and a delete ask: by an index, whatever else is in the tables.

use berth_http::Timestamp;
use berth_store::{SqlStore, Statement, Value};

use super::arqs::{self, Filters, Scope};
use super::unbound::DeleteUnbound;
use super::{bind, handles, programmings, schema};

async fn plan(store: &SqlStore, sql: &str, values: Vec<Value>) -> Vec<String> {
    let explain = Statement::new(format!("EXPLAIN QUERY PLAN {sql}")).bind_all(values);
    let rows = store.rows(explain).await.expect("a plan");
    let text = |row: &berth_store::Row| row.text(3).expect("a line of the plan");
    rows.iter().map(text).collect()
}

fn one() -> Vec<Value> {
    vec![Value::from("x")]
}

#[tokio::test]
async fn nothing_that_a_bind_a_list_or_a_delete_asks_reads_a_whole_table() {
    let store = SqlStore::in_memory().await.expect("a database");
    schema::prepare(&store).await.expect("a schema");
    let instance = Filters {
        instance: Some(
            "5c965fc9-a7cd-4d38-8ccb-d8821db50d03"
                .parse()
                .expect("a uuid"),
        ),
    };
    let project = Scope::Project("p".to_owned());
    let old = DeleteUnbound {
        before: Timestamp::now(),
    };
    let mut asked: Vec<(String, Vec<Value>)> = vec![
        arqs::list_sql(&Scope::All, instance),
        arqs::list_sql(&project, instance),
        arqs::list_sql(&project, Filters::default()),
        (bind::OF_INSTANCE.to_owned(), one()),
        (bind::OFFER.to_owned(), one()),
        (
            handles::FREE.to_owned(),
            vec![Value::from(1_i64), Value::from(1_i64)],
        ),
        (
            handles::UNCLEAN.to_owned(),
            vec![Value::from(1_i64), Value::from(1_i64)],
        ),
        (format!("{} (?)", handles::VANISHED_OF), one()),
        (
            format!("{} (?)", handles::RELEASE),
            vec![Value::Null, Value::from(1_i64)],
        ),
        (format!("{} WHERE a.uuid IN (?)", arqs::SELECT), one()),
        (programmings::DUE.to_owned(), one()),
        (programmings::LATE.to_owned(), one()),
        (format!("{} (?)", programmings::BINDS_OF), one()),
        old.sql("SELECT id, uuid FROM", "ORDER BY id LIMIT 1"),
        old.sql("DELETE FROM", "AND id IN (1)"),
    ];
    for sql in [
        "DELETE FROM events WHERE arq_uuid IN (?)",
        "DELETE FROM accelerator_requests WHERE id IN (?)",
        "SELECT id FROM events WHERE due_at <= ? ORDER BY id LIMIT 1",
        "SELECT COUNT(*) FROM accelerator_requests WHERE device_profile_id = ?",
        "DELETE FROM programmings WHERE arq_id IN (?)",
        "DELETE FROM programmings WHERE bind_uuid = ?",
        "UPDATE accelerator_requests SET state = ? WHERE id = 1 AND state = 'x'",
        "UPDATE attach_handles SET arq_id = ? WHERE id = 1 AND arq_id IS NULL",
    ] {
        asked.push((sql.to_owned(), one()));
    }
    for (sql, values) in asked {
        let plan = plan(&store, &sql, values).await;
        let scans: Vec<&String> = plan.iter().filter(|line| line.contains("SCAN")).collect();
        assert!(!plan.is_empty() && scans.is_empty(), "{sql}\n{plan:?}");
    }
}

#[tokio::test]
async fn a_plan_that_reads_a_whole_table_would_be_seen() {
    let store = SqlStore::in_memory().await.expect("a database");
    schema::prepare(&store).await.expect("a schema");
    let sql = "SELECT id FROM accelerator_requests WHERE hostname = ?";
    let plan = plan(&store, sql, one()).await;
    assert!(plan.iter().any(|line| line.contains("SCAN")), "{plan:?}");
}

/// What a bind of one request among so many asks: how often it is answered with a row.
async fn rows_of_a_bind(requests: i64) -> Vec<(String, usize)> {
    let store = SqlStore::in_memory().await.expect("a database");
    schema::prepare(&store).await.expect("a schema");
    let at = "'2026-11-20 15:22:11.000000'";
    let counting = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)";
    let provider = |n: i64| format!("printf('%08d-0000-0000-0000-000000000000', {n})");
    for sql in [
        format!(
            "INSERT INTO device_profiles (id, uuid, name, profile_groups, created_at) SELECT 1, 'p', 'dp', '[]', {at} WHERE ? > 0"
        ),
        format!(
            "INSERT INTO devices (id, uuid, hostname, name, device_type, vendor, status, vanished, created_at) \
                 SELECT 1, 'v', 'host', 'card', 'FPGA', '8086', 'enabled', 0, {at} WHERE ? > 0"
        ),
        format!(
            "INSERT INTO deployables (id, uuid, device_id, name, rp_uuid, resource_class, health, vanished, created_at) \
                 {counting} SELECT i, 'd' || i, 1, 'd' || i, printf('%08d-0000-0000-0000-000000000000', i), 'FPGA', 'ok', 0, {at} FROM n WHERE i < 3"
        ),
        format!(
            "INSERT INTO accelerator_requests (id, uuid, state, device_profile_id, device_profile_group_id, project_id, \
                 hostname, device_rp_uuid, instance_uuid, created_at) {counting} \
                 SELECT i, 'a' || i, 'Bound', 1, 0, 'p', 'host', {}, 'g' || i, {at} FROM n",
            provider(2)
        ),
        format!(
            "INSERT INTO attach_handles (uuid, deployable_id, attach_type, attach_info, scrubbed, vanished, arq_id, created_at) \
                 {counting} SELECT 'h' || i, 2, 'PCI', '{{}}', 0, 0, i, {at} FROM n"
        ),
        format!(
            "INSERT INTO attach_handles (uuid, deployable_id, attach_type, attach_info, scrubbed, vanished, created_at) \
                 {counting} SELECT 'f' || i, 1, 'PCI', '{{}}', 0, 0, {at} FROM n WHERE i < 4"
        ),
    ] {
        store
            .rows(Statement::new(sql.clone()).bind(requests))
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let five = || vec![Value::from(5_i64)];
    let text = |text: &str| vec![Value::from(text)];
    let asked = [
        (format!("{} WHERE a.uuid IN (?)", arqs::SELECT), text("a5")),
        (bind::OF_INSTANCE.to_owned(), text("g5")),
        (
            bind::OFFER.to_owned(),
            text("00000001-0000-0000-0000-000000000000"),
        ),
        (
            bind::OFFER.to_owned(),
            text("00000002-0000-0000-0000-000000000000"),
        ),
        (
            handles::FREE.to_owned(),
            vec![Value::from(1_i64), Value::from(2_i64)],
        ),
        (
            handles::FREE.to_owned(),
            vec![Value::from(2_i64), Value::from(2_i64)],
        ),
        (format!("{} (?)", handles::VANISHED_OF), five()),
        (format!("{} (?)", programmings::BINDS_OF), five()),
    ];
    let mut rows = Vec::new();
    for (sql, values) in asked {
        let plan = plan(&store, &sql, values.clone()).await;
        assert!(
            !plan.iter().any(|line| line.contains("SCAN")),
            "{sql}: {plan:?}"
        );
        let found = store
            .rows(Statement::new(sql.clone()).bind_all(values))
            .await;
        rows.push((sql, found.expect("an answer").len()));
    }
    rows
}

#[tokio::test]
async fn a_bind_among_a_hundred_thousand_requests_asks_and_reads_as_among_ten() {
    let few = rows_of_a_bind(10).await;
    assert_eq!(
        few.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(),
        [1, 1, 1, 1, 2, 0, 0, 0]
    );
    assert_eq!(rows_of_a_bind(100_000).await, few);
}
