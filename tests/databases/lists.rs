//! Statements with lists of keys, with many rows, and with several rows in one statement.

use berth_store::{Row, SqlError, SqlStore, Statement, Transaction, Value, Work};

use crate::databases::test_database::TestDatabase;
use crate::databases::work::{count, named};

on_all! {
    a_hundred_thousand_keys_are_found
    lists_of_few_keys_find_each_row_once
    rows_are_changed_and_deleted_by_their_keys
    keys_are_found_by_the_index
    packed_rows_come_over
    many_rows_with_nulls_are_inserted
}

struct Many(i64);

impl Work for Many {
    type Output = u64;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<u64, SqlError> {
        let rows: Vec<[Value; 2]> = (0..self.0)
            .map(|n| {
                [
                    Value::from(format!("n{n}")),
                    Value::from((n % 2 == 0).then_some(n)),
                ]
            })
            .collect();
        tx.insert_rows("INSERT INTO things (name, weight) VALUES", rows, "")
            .await
    }
}

async fn filled(place: &TestDatabase, rows: i64) -> SqlStore {
    let store = place.store().await;
    assert_eq!(
        store.write(&Many(rows)).await.unwrap(),
        u64::try_from(rows).unwrap()
    );
    store
}

async fn a_hundred_thousand_keys_are_found(place: TestDatabase) {
    let store = filled(&place, 30_000).await;
    let names: Vec<String> = (0..100_000).map(|n| format!("n{n}")).collect();
    let ids: Vec<i64> = (-50_000..50_000).collect();
    let by_name = Statement::new("SELECT id FROM things WHERE id > ? AND name IN").bind(5);
    let by_id = Statement::new("SELECT id FROM things WHERE id IN");
    let mut tx = store.read().await.unwrap();
    assert_eq!(
        tx.rows_in(&by_name, &names, "").await.unwrap().len(),
        29_995
    );
    assert_eq!(tx.rows_in(&by_id, &ids, "").await.unwrap().len(), 30_000);
    drop(tx);
    assert_eq!(
        store.rows_in(&by_name, &names, "").await.unwrap().len(),
        29_995
    );
    assert_eq!(
        store
            .rows_in(&by_id, &[] as &[i64], "")
            .await
            .unwrap()
            .len(),
        0
    );
}

async fn lists_of_few_keys_find_each_row_once(place: TestDatabase) {
    let store = filled(&place, 20).await;
    let by_name = Statement::new("SELECT name FROM things WHERE name IN");
    for keys in 1..12 {
        let mut names: Vec<String> = (0..keys).map(|n| format!("n{n}")).collect();
        names.push("n0".to_owned());
        names.push("it's ?".to_owned());
        let rows = store
            .rows_in(&by_name, &names, "ORDER BY id")
            .await
            .unwrap();
        let found: Vec<_> = rows.iter().map(|row| row.text(0).unwrap()).collect();
        assert_eq!(found, names[..keys]);
    }
    let keys = [Value::Null, Value::from("n3")];
    assert_eq!(store.rows_in(&by_name, &keys, "").await.unwrap().len(), 1);
    let by_id = Statement::new("SELECT name FROM things WHERE id IN");
    let none = store.rows_in(&by_id, &[Value::Null], "").await.unwrap();
    assert!(none.is_empty());
    let by_weight = Statement::new("SELECT name FROM things WHERE weight IN");
    let mixed = [Value::from(2), Value::from(4.5)];
    assert_eq!(
        store.rows_in(&by_weight, &mixed, "").await.unwrap().len(),
        1
    );
    assert_eq!(
        store
            .rows_in(&by_weight, &[2.0, 4.0], "")
            .await
            .unwrap()
            .len(),
        2
    );
}

async fn rows_are_changed_and_deleted_by_their_keys(place: TestDatabase) {
    struct Change;
    impl Work for Change {
        type Output = (u64, u64);
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(u64, u64), SqlError> {
            let names: Vec<String> = (0..40_000).map(|n| format!("n{n}")).collect();
            let change = Statement::new("UPDATE things SET generation = ? WHERE name IN").bind(7);
            let changed = tx.execute_in(&change, &names).await?;
            let delete = Statement::new("DELETE FROM things WHERE name IN");
            Ok((changed, tx.execute_in(&delete, &names[..1_500]).await?))
        }
    }
    let store = filled(&place, 2_000).await;
    assert_eq!(store.write(&Change).await.unwrap(), (2_000, 1_500));
    assert_eq!(count(&store).await, 500);
}

/// What the database would do, a line for each row of its answer.
struct Plan(String, [Value; 3]);

impl Work for Plan {
    type Output = Vec<String>;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<String>, SqlError> {
        let rows = tx
            .rows_in(&Statement::new(self.0.clone()), &self.1, "")
            .await?;
        let cell = |row: &Row, column| {
            let text = row.opt_text(column).ok().flatten();
            text.or_else(|| row.opt_int(column).ok().flatten().map(|it| it.to_string()))
        };
        let line = |row: &Row| {
            (0..10)
                .filter_map(|column| cell(row, column))
                .collect::<Vec<_>>()
        };
        Ok(rows.iter().map(|row| line(row).join(" ")).collect())
    }
}

/// The plan of a list over a table that is large against it.
async fn keys_are_found_by_the_index(place: TestDatabase) {
    let store = filled(&place, 30_000).await;
    let explain = match &place {
        TestDatabase::Sqlite(_) => "EXPLAIN QUERY PLAN",
        TestDatabase::Postgres(_) => {
            place.query("analyze things");
            "EXPLAIN"
        }
        TestDatabase::MariaDb(_) => {
            place.query("analyze table things");
            "EXPLAIN"
        }
    };
    let names = ["n1", "n2", "n3"];
    for (head, keys) in [
        (
            "SELECT id FROM things WHERE name IN",
            names.map(Value::from),
        ),
        ("DELETE FROM things WHERE name IN", names.map(Value::from)),
        (
            "UPDATE things SET generation = 1 WHERE name IN",
            names.map(Value::from),
        ),
        (
            "SELECT name FROM things WHERE id IN",
            [1, 2, 3].map(Value::from),
        ),
    ] {
        let head = format!("{explain} {head}");
        let text = store.write(&Plan(head.clone(), keys)).await.unwrap();
        let scans = |line: &String| match &place {
            TestDatabase::Sqlite(_) => line.contains("SCAN things"),
            TestDatabase::Postgres(_) => line.contains("Seq Scan on things"),
            TestDatabase::MariaDb(_) => {
                line.contains("things ALL") || line.contains("things index")
            }
        };
        assert!(!text.iter().any(scans), "{head}: {text:#?}");
        assert!(
            text.iter().any(|line| line.contains("things")),
            "{head}: {text:#?}"
        );
    }
}

async fn packed_rows_come_over(place: TestDatabase) {
    let store = place.store().await;
    let names = ["it's", "\"two\"", "ä\n"];
    for name in names {
        store.write(&named(name)).await.unwrap();
    }
    store.write(&named(Value::Null)).await.unwrap();
    let head = |filter: &str| {
        let packed = store.dialect().packed("id, name");
        Statement::new(format!("SELECT {packed} FROM things {filter}"))
    };
    let mut all: Vec<(i64, Option<String>)> = Vec::new();
    for row in store.rows(head("")).await.unwrap() {
        all.extend(row.unpack(0).unwrap());
    }
    all.sort();
    let found: Vec<_> = all.iter().map(|(_, name)| name.clone()).collect();
    assert_eq!(found[..3], names.map(|name| Some(name.to_owned())));
    assert_eq!(all[3], (4, None));
    let rows = store
        .rows_in(&head("WHERE name IN"), &names, "")
        .await
        .unwrap();
    let named: usize = rows
        .iter()
        .map(|row| row.unpack::<(i64, String)>(0).unwrap().len())
        .sum();
    assert_eq!(named, 3);
    let rows = store.rows(head("WHERE id > 9")).await.unwrap();
    assert!(
        rows.iter()
            .all(|row| row.unpack::<(i64, String)>(0).unwrap().is_empty())
    );
    let rows = store.rows(head("WHERE name IS NULL")).await.unwrap();
    let error = rows[0].unpack::<(i64, String)>(0).unwrap_err();
    assert!(matches!(error, SqlError::Column { column: 0, .. }));
}

async fn many_rows_with_nulls_are_inserted(place: TestDatabase) {
    let store = filled(&place, 1_234).await;
    let sql = "SELECT COUNT(*), COUNT(weight), SUM(id) FROM things";
    let rows = store.rows(Statement::new(sql)).await.unwrap();
    assert_eq!(rows[0].int(0).unwrap(), 1_234);
    assert_eq!(rows[0].int(1).unwrap(), 617);
    assert_eq!(rows[0].int(2).unwrap(), 1_234 * 1_235 / 2);
}
