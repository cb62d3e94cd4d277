//! Reads the schema of a database from its catalogue.

use berth_store::{Dialect, Row, SqlError, Statement, Transaction};

use super::shape::{Object, ShapePart, TableShape, column, index, reference, unique_name};

/// Table, column, type, 1 if nullable, default, 1 if auto-incremented; in column order.
const COLUMNS: [&str; 3] = [
    "SELECT m.name, c.name, c.type, CASE WHEN c.\"notnull\" = 0 THEN 1 ELSE 0 END, c.dflt_value, 0 \
     FROM sqlite_master m, pragma_table_info(m.name) c \
     WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.cid",
    "SELECT CAST(c.table_name AS TEXT), CAST(c.column_name AS TEXT), \
     CASE WHEN c.character_maximum_length IS NULL THEN CAST(c.data_type AS TEXT) \
     ELSE c.data_type || '(' || c.character_maximum_length || ')' END, \
     CASE WHEN c.is_nullable = 'YES' THEN 1 ELSE 0 END, \
     CASE WHEN c.column_default LIKE 'nextval(%' THEN NULL ELSE CAST(c.column_default AS TEXT) END, \
     CASE WHEN c.column_default LIKE 'nextval(%' OR c.is_identity = 'YES' THEN 1 ELSE 0 END \
     FROM information_schema.columns c JOIN information_schema.tables t \
     ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
     WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' \
     ORDER BY c.table_name, c.ordinal_position",
    "SELECT CAST(c.table_name AS CHAR), CAST(c.column_name AS CHAR), CAST(c.column_type AS CHAR), \
     CASE WHEN c.is_nullable = 'YES' THEN 1 ELSE 0 END, NULLIF(CAST(c.column_default AS CHAR), 'NULL'), \
     CASE WHEN c.extra LIKE '%auto_increment%' THEN 1 ELSE 0 END \
     FROM information_schema.columns c JOIN information_schema.tables t \
     ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
     WHERE c.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' \
     ORDER BY c.table_name, c.ordinal_position",
];

/// Table, name, kind (`pk`, `u` unique key, `x` unique index, `c` other), column; in column order.
const INDEXES: [&str; 3] = [
    "SELECT m.name, l.name, CASE WHEN l.origin = 'c' AND l.\"unique\" = 1 THEN 'x' ELSE l.origin END, COALESCE(i.name, '?'), i.seqno \
     FROM sqlite_master m, pragma_index_list(m.name) l, pragma_index_info(l.name) i \
     WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND l.origin <> 'pk' \
     UNION ALL SELECT m.name, '', 'pk', c.name, c.pk FROM sqlite_master m, pragma_table_info(m.name) c \
     WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND c.pk > 0 ORDER BY 1, 2, 5",
    "SELECT CAST(t.relname AS TEXT), CAST(i.relname AS TEXT), \
     CASE WHEN x.indisprimary THEN 'pk' WHEN c.conname IS NOT NULL THEN 'u' WHEN x.indisunique THEN 'x' ELSE 'c' END, \
     COALESCE(CAST(a.attname AS TEXT), '?') \
     FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid \
     JOIN pg_namespace s ON s.oid = t.relnamespace \
     LEFT JOIN pg_constraint c ON c.conindid = x.indexrelid AND c.contype = 'u' \
     CROSS JOIN LATERAL unnest(CAST(x.indkey AS INT2[])) WITH ORDINALITY AS k(number, place) \
     LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number \
     WHERE s.nspname = current_schema() AND t.relkind = 'r' ORDER BY t.relname, i.relname, k.place",
    "SELECT CAST(table_name AS CHAR), CAST(index_name AS CHAR), \
     CASE WHEN index_name = 'PRIMARY' THEN 'pk' WHEN non_unique = 0 THEN 'u' ELSE 'c' END, \
     COALESCE(CAST(column_name AS CHAR), '?') \
     FROM information_schema.statistics WHERE table_schema = DATABASE() \
     ORDER BY table_name, index_name, seq_in_index",
];

/// Table, name, column, referenced table and column, 1 if it has ON DELETE or ON UPDATE actions; in column order.
const FOREIGN_KEYS: [&str; 3] = [
    "SELECT m.name, CAST(f.id AS TEXT), f.\"from\", f.\"table\", COALESCE(f.\"to\", 'id'), \
     CASE WHEN f.on_delete IN ('NO ACTION', 'RESTRICT') AND f.on_update IN ('NO ACTION', 'RESTRICT') THEN 0 ELSE 1 END \
     FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table' ORDER BY m.name, f.id, f.seq",
    "SELECT CAST(t.relname AS TEXT), CAST(c.conname AS TEXT), CAST(a.attname AS TEXT), CAST(r.relname AS TEXT), \
     CAST(b.attname AS TEXT), CASE WHEN c.confdeltype IN ('a', 'r') AND c.confupdtype IN ('a', 'r') THEN 0 ELSE 1 END \
     FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace s ON s.oid = t.relnamespace \
     JOIN pg_class r ON r.oid = c.confrelid \
     CROSS JOIN LATERAL unnest(c.conkey, c.confkey) WITH ORDINALITY AS k(own, other, place) \
     JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.own \
     JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = k.other \
     WHERE s.nspname = current_schema() AND c.contype = 'f' ORDER BY t.relname, c.conname, k.place",
    "SELECT CAST(k.table_name AS CHAR), CAST(k.constraint_name AS CHAR), CAST(k.column_name AS CHAR), \
     CAST(k.referenced_table_name AS CHAR), CAST(k.referenced_column_name AS CHAR), \
     CASE WHEN r.delete_rule IN ('NO ACTION', 'RESTRICT') AND r.update_rule IN ('NO ACTION', 'RESTRICT') THEN 0 ELSE 1 END \
     FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r \
     ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name \
     WHERE k.table_schema = DATABASE() AND k.referenced_table_name IS NOT NULL \
     ORDER BY k.table_name, k.constraint_name, k.ordinal_position",
];

/// Reads all tables; views and stored programs are ignored.
pub(super) async fn read(tx: &mut Transaction) -> Result<TableShape, SqlError> {
    let dialect = tx.dialect();
    let mut shape = TableShape::new();
    for row in tx.rows(of(COLUMNS, dialect)).await? {
        let (table, default) = (row.text(0)?, row.opt_text(4)?);
        let kind = kind(&row.text(2)?);
        let description = column(
            &kind,
            row.int(3)? == 1,
            default.as_deref(),
            row.int(5)? == 1,
        );
        shape.insert(Object::table(&table), String::new());
        shape.insert(Object::column(&table, &row.text(1)?), description);
    }
    let rows = tx.rows(of(INDEXES, dialect)).await?;
    for (first, columns) in together(&rows, 3)? {
        let (table, name, purpose) = (first.text(0)?, first.text(1)?, first.text(2)?);
        let (part, description) = match purpose.as_str() {
            "pk" => (ShapePart::PrimaryKey, columns),
            "u" => (ShapePart::Unique(columns), unique_name(&name, dialect)),
            purpose => (ShapePart::Index(name), index(&columns, purpose == "x")),
        };
        shape.insert(Object::new(&table, part), description);
    }
    let rows = tx.rows(of(FOREIGN_KEYS, dialect)).await?;
    let targets = together(&rows, 4)?;
    for ((first, columns), (_, to)) in together(&rows, 2)?.into_iter().zip(targets) {
        let key = Object::foreign_key(&first.text(0)?, &columns);
        shape.insert(key, reference(&first.text(3)?, &to, first.int(5)? == 1));
    }
    Ok(shape)
}

fn of(statements: [&'static str; 3], dialect: Dialect) -> Statement {
    let [sqlite, postgres, mysql] = statements;
    Statement::new(match dialect {
        Dialect::Sqlite => sqlite,
        Dialect::Postgres => postgres,
        Dialect::MySql => mysql,
    })
}

/// Merges the rows of one table and name: the first row, and the values of a column.
fn together(rows: &[Row], column: usize) -> Result<Vec<(&Row, String)>, SqlError> {
    let mut all: Vec<(&Row, String, String)> = Vec::new();
    for row in rows {
        let (key, text) = (
            format!("{}\n{}", row.text(0)?, row.text(1)?),
            row.text(column)?,
        );
        match all.last_mut() {
            Some((_, last, texts)) if *last == key => {
                texts.push_str(", ");
                texts.push_str(&text);
            }
            _ => all.push((row, key, text)),
        }
    }
    let all = all.into_iter().map(|(row, _, texts)| (row, texts));
    Ok(all.collect())
}

/// The type as `schema.sql` writes it; other types in the database's own notation.
fn kind(own: &str) -> String {
    let own = own.to_uppercase();
    match own.as_str() {
        "DOUBLE PRECISION" => "FLOAT".to_owned(),
        "TIMESTAMP WITHOUT TIME ZONE" => "DATETIME".to_owned(),
        // MariaDB and older MySQL include the display width.
        "INT" | "INT(11)" => "INTEGER".to_owned(),
        _ => own.replace("CHARACTER VARYING", "VARCHAR"),
    }
}
