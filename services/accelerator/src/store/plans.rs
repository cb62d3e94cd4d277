//! How the database goes about what a bind, a guest's list and a delete ask: by an index, whatever else is in the tables.

use berth_store::{SqlStore, Statement, Value};

use super::arqs::{self, Filters, Scope};
use super::{bind, handles, schema};

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
        (format!("{} (?)", handles::VANISHED_OF), one()),
        (
            format!("{} (?)", handles::RELEASE),
            vec![Value::Null, Value::from(1_i64)],
        ),
        (format!("{} WHERE a.uuid IN (?)", arqs::SELECT), one()),
    ];
    for sql in [
        "DELETE FROM events WHERE arq_uuid IN (?)",
        "DELETE FROM accelerator_requests WHERE id IN (?)",
        "SELECT id FROM events WHERE due_at <= ? ORDER BY id LIMIT 1",
        "SELECT COUNT(*) FROM accelerator_requests WHERE device_profile_id = ?",
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
