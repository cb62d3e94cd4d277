//! Every value that is written is read back unchanged.

use berth_store::{SqlError, SqlTimestamp, Statement, Transaction, Value, Work};

use crate::databases::test_database::TestDatabase;
use crate::databases::work::{Execute, Insert, ask, count, named, one};

on_all! {
    text_of_every_script_is_read_unchanged
    a_null_fits_into_a_column_of_any_type
    the_same_text_takes_a_null_and_then_a_number
    timestamps_keep_the_precision_of_the_column
    an_insert_returns_the_id_of_its_row
    sums_and_counts_are_whole_numbers
    ratios_are_read_as_written
    question_marks_in_literals_are_no_placeholders
    a_column_of_another_type_is_reported
    an_update_counts_the_rows_it_finds
    names_that_differ_in_case_are_distinct
    existing_objects_can_be_kept_or_changed
    the_databases_own_time_is_a_moment
}

async fn text_of_every_script_is_read_unchanged(place: TestDatabase) {
    let store = place.store().await;
    let names = [
        "it's",
        "\"two\"",
        "back\\slash",
        "ä\n\t",
        "Größe 日本語",
        "🦀🚢",
        "",
    ];
    // The tests' MariaDB databases have the tables' old character set, which has no emoji: as Placement's has.
    let names = match &place {
        TestDatabase::MariaDb(_) => {
            let wide = "ALTER TABLE things MODIFY name VARCHAR(255) CHARACTER SET utf8mb4";
            store.write(&Execute(Statement::new(wide))).await.unwrap();
            names
        }
        _ => names,
    };
    for name in names {
        let id = store.write(&named(name)).await.unwrap();
        let read = Statement::new("SELECT name FROM things WHERE id = ? AND name = ?");
        let row = one(&store, read.bind(id).bind(name)).await;
        assert_eq!(row.text(0).unwrap(), name);
    }
}

async fn a_null_fits_into_a_column_of_any_type(place: TestDatabase) {
    let store = place.store().await;
    let insert = "INSERT INTO things (name, weight, created_at) VALUES (?, ?, ?)";
    let nulls = || [Value::Null, Value::Null, Value::Null];
    store
        .write(&Insert(Statement::new(insert).bind_all(nulls())))
        .await
        .unwrap();
    let row = ask(
        &store,
        "SELECT name, weight, created_at, generation FROM things",
    )
    .await;
    assert_eq!(row.opt_text(0).unwrap(), None);
    assert_eq!(row.opt_int(1).unwrap(), None);
    assert_eq!(row.opt_moment(2).unwrap(), None);
    for refused in [row.text(0).err(), row.int(1).err(), row.moment(2).err()] {
        assert!(
            matches!(refused, Some(SqlError::Column { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(row.int(3).unwrap(), 0);
}

async fn the_same_text_takes_a_null_and_then_a_number(place: TestDatabase) {
    let store = place.store().await;
    let insert = "INSERT INTO things (weight) VALUES (?)";
    for value in [Value::Null, Value::Int(3), Value::Double(2.5), Value::Null] {
        store
            .write(&Insert(Statement::new(insert).bind_all([value])))
            .await
            .unwrap();
    }
    let weights = format!(
        "SELECT {} FROM things WHERE weight IS NOT NULL ORDER BY id",
        store.dialect().double("weight")
    );
    let rows = store.rows(Statement::new(weights)).await.unwrap();
    let weights: Vec<_> = rows.iter().map(|row| row.double(0).unwrap()).collect();
    assert_eq!(weights, [3.0, 2.5]);
}

async fn timestamps_keep_the_precision_of_the_column(place: TestDatabase) {
    let store = place.store().await;
    let now: SqlTimestamp = "2026-11-22 17:11:40.123456".parse().unwrap();
    let insert = Statement::new("INSERT INTO things (created_at) VALUES (?)").bind(now);
    store.write(&Insert(insert)).await.unwrap();
    let row = ask(&store, "SELECT created_at FROM things").await;
    // A plain datetime of MariaDB's has whole seconds.
    let expected = match place {
        TestDatabase::MariaDb(_) => "2026-11-22 17:11:40.000000",
        _ => "2026-11-22 17:11:40.123456",
    };
    assert_eq!(row.moment(0).unwrap().to_string(), expected);
    assert_eq!(row.text(0).unwrap(), expected);
    let before =
        Statement::new("SELECT COUNT(*) FROM things WHERE created_at <= ? AND created_at > ?");
    let day_before: SqlTimestamp = "2026-11-21 17:11:40".parse().unwrap();
    let row = one(&store, before.bind(now).bind(day_before)).await;
    assert_eq!(row.int(0).unwrap(), 1);
    for text in [
        "1000-01-01 00:00:00.000000",
        "9999-12-31 23:59:59.000000",
        "2024-02-29 00:00:00.000000",
    ] {
        let moment: SqlTimestamp = text.parse().unwrap();
        let set = Statement::new("UPDATE things SET created_at = ?").bind(moment);
        store.write(&Execute(set)).await.unwrap();
        let row = ask(&store, "SELECT created_at FROM things").await;
        assert_eq!(row.moment(0).unwrap(), moment);
    }
}

async fn an_insert_returns_the_id_of_its_row(place: TestDatabase) {
    let store = place.store().await;
    assert_eq!(store.write(&named("a")).await.unwrap(), 1);
    assert_eq!(store.write(&named("b")).await.unwrap(), 2);
    // As the resource class VCPU has it.
    let zero = Statement::new("INSERT INTO things (id, name) VALUES (?, ?)")
        .bind(0)
        .bind("zero");
    store.write(&Execute(zero)).await.unwrap();
    let row = ask(&store, "SELECT name FROM things WHERE id = 0").await;
    assert_eq!(row.text(0).unwrap(), "zero");
}

async fn sums_and_counts_are_whole_numbers(place: TestDatabase) {
    let store = place.store().await;
    let id = store.write(&named("a")).await.unwrap();
    for used in [3_000_000_000_i64, 4_000_000_000] {
        let insert = Statement::new("INSERT INTO parts (thing_id, used) VALUES (?, ?)");
        store
            .write(&Insert(insert.bind(id).bind(used)))
            .await
            .unwrap();
    }
    let row = ask(
        &store,
        "SELECT SUM(used), COUNT(*), MAX(thing_id), COALESCE(SUM(used), 0) FROM parts",
    )
    .await;
    assert_eq!(row.int(0).unwrap(), 7_000_000_000);
    assert_eq!(row.int(1).unwrap(), 2);
    assert_eq!(row.opt_int(2).unwrap(), Some(id));
    assert_eq!(row.int(3).unwrap(), 7_000_000_000);
    let row = ask(&store, "SELECT SUM(used) FROM parts WHERE id < 0").await;
    assert_eq!(row.opt_int(0).unwrap(), None);
}

async fn ratios_are_read_as_written(place: TestDatabase) {
    let store = place.store().await;
    for ratio in [1.0, 1.1, 0.9, 1.3, 16.0, 0.0001, 999.25] {
        let insert = Statement::new("INSERT INTO things (weight) VALUES (?)").bind(ratio);
        let id = store.write(&Insert(insert)).await.unwrap();
        let weight = store.dialect().double("weight");
        let sql = format!("SELECT {weight}, {weight} * 10 FROM things WHERE id = ?");
        let row = one(&store, Statement::new(sql).bind(id)).await;
        assert_eq!(row.double(0).unwrap(), ratio);
        assert_eq!(row.double(1).unwrap(), ratio * 10.0);
    }
}

async fn question_marks_in_literals_are_no_placeholders(place: TestDatabase) {
    let store = place.store().await;
    store.write(&named("why?")).await.unwrap();
    let sql = "SELECT id, 'it''s ?' FROM things WHERE name = 'why?' AND id = ? -- really?";
    let row = one(&store, Statement::new(sql).bind(1)).await;
    assert_eq!(row.int(0).unwrap(), 1);
    assert_eq!(row.text(1).unwrap(), "it's ?");
    let row = one(
        &store,
        Statement::new("SELECT \"name\" || ? FROM things").bind("\\"),
    )
    .await;
    assert_eq!(row.text(0).unwrap(), "why?\\");
}

async fn a_column_of_another_type_is_reported(place: TestDatabase) {
    let store = place.store().await;
    store.write(&named("a")).await.unwrap();
    let row = ask(&store, "SELECT id, name FROM things").await;
    for refused in [
        row.text(0).err(),
        row.int(1).err(),
        row.int(7).err(),
        row.moment(1).err(),
    ] {
        assert!(
            matches!(refused, Some(SqlError::Column { .. })),
            "{refused:?}"
        );
    }
}

async fn an_update_counts_the_rows_it_finds(place: TestDatabase) {
    let store = place.store().await;
    store.write(&named("a")).await.unwrap();
    for (sql, expected) in [
        ("UPDATE things SET generation = 0", 1),
        ("UPDATE things SET generation = 1 WHERE generation = 0", 1),
        ("UPDATE things SET generation = 1 WHERE generation = 0", 0),
    ] {
        assert_eq!(
            store.write(&Execute(Statement::new(sql))).await.unwrap(),
            expected,
            "{sql}"
        );
    }
}

async fn names_that_differ_in_case_are_distinct(place: TestDatabase) {
    let store = place.store().await;
    store.write(&named("CUSTOM_A")).await.unwrap();
    let exactly = store.dialect().exactly("name");
    let begins = store.dialect().begins_with("name");
    for (condition, value, expected) in [
        (&exactly, "CUSTOM_A", 1),
        (&exactly, "custom_a", 0),
        (&begins, "CUSTOM_", 1),
        (&begins, "custom_", 0),
        (&begins, "CUSTOM?", 0),
        (&begins, "USTOM", 0),
        (&begins, "", 1),
    ] {
        let condition = match condition == &exactly {
            true => format!("{exactly} = ?"),
            false => begins.clone(),
        };
        let sql = format!("SELECT COUNT(*) FROM things WHERE {condition}");
        let row = one(&store, Statement::new(sql).bind(value)).await;
        assert_eq!(row.int(0).unwrap(), expected, "{condition} with {value}");
    }
}

async fn existing_objects_can_be_kept_or_changed(place: TestDatabase) {
    struct RepeatedRead;
    impl Work for RepeatedRead {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            let head = "INSERT INTO things (name, generation) VALUES";
            let rows = |generation: i64| {
                let row = |name: &str| [Value::from(name), Value::from(generation)];
                vec![row("a"), row("b")]
            };
            let nothing = tx.dialect().or_nothing("name");
            let update = tx.dialect().or_update(&["name"], &["generation"]);
            tx.insert_rows(head, rows(1), &nothing).await?;
            tx.insert_rows(head, rows(2), &nothing).await?;
            let generations = "SELECT SUM(generation) FROM things";
            let sum = tx.row(Statement::new(generations)).await?.unwrap().int(0)?;
            assert_eq!(sum, 2);
            tx.insert_rows(head, rows(3), &update).await?;
            let sum = tx.row(Statement::new(generations)).await?.unwrap().int(0)?;
            assert_eq!(sum, 6);
            Ok(())
        }
    }
    let store = place.store().await;
    store.write(&RepeatedRead).await.unwrap();
    assert_eq!(count(&store).await, 2);
}

async fn the_databases_own_time_is_a_moment(place: TestDatabase) {
    let store = place.store().await;
    let sql = format!("SELECT {}", store.dialect().now());
    let there = one(&store, Statement::new(sql)).await.moment(0).unwrap();
    let apart = there.as_micros() - SqlTimestamp::now().as_micros();
    // Of time zones, not of clocks.
    assert!(apart.abs() < 600_000_000, "{there}");
}
