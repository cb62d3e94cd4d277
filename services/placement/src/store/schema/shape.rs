//! A schema as a flat map from objects to descriptions, and comparison of two schemas. Pure.
//!
//! Names of foreign keys and primary keys are ignored, because nothing depends on them. Names of unique keys matter on
//! servers, where OpenStack's service derives from them which column is a duplicate; SQLite names the columns.

use std::collections::BTreeMap;
use std::fmt;

use berth_store::Dialect;

use super::SCHEMA;
use super::revision::Revision;

/// The objects of a schema with canonical descriptions.
pub(super) type TableShape = BTreeMap<Object, String>;

/// A thing of a schema. Several columns are written with `, ` between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Object {
    pub(super) table: String,
    pub(super) part: ShapePart,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ShapePart {
    Table,
    Column(String),
    PrimaryKey,
    Unique(String),
    Index(String),
    ForeignKey(String),
}

impl Object {
    pub(super) fn new(table: &str, part: ShapePart) -> Self {
        Self {
            table: table.to_owned(),
            part,
        }
    }

    pub(super) fn table(name: &str) -> Self {
        Self::new(name, ShapePart::Table)
    }

    pub(super) fn column(table: &str, name: &str) -> Self {
        Self::new(table, ShapePart::Column(name.to_owned()))
    }

    pub(super) fn index(table: &str, name: &str) -> Self {
        Self::new(table, ShapePart::Index(name.to_owned()))
    }

    pub(super) fn foreign_key(table: &str, columns: &str) -> Self {
        Self::new(table, ShapePart::ForeignKey(columns.to_owned()))
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.table;
        match &self.part {
            ShapePart::Table => write!(f, "table {table}"),
            ShapePart::Column(name) => write!(f, "column {name} of {table}"),
            ShapePart::PrimaryKey => write!(f, "primary key of {table}"),
            ShapePart::Unique(columns) => write!(f, "unique key ({columns}) of {table}"),
            ShapePart::Index(name) => write!(f, "index {name} of {table}"),
            ShapePart::ForeignKey(columns) => write!(f, "foreign key ({columns}) of {table}"),
        }
    }
}

/// A difference between a database and the expected schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The object, for example `index allocations_consumer_id_idx of allocations`.
    pub object: String,
    pub problem: ShapeDifference,
}

/// The kind of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeDifference {
    Missing,
    /// The object is not part of the schema.
    Unknown,
    /// The object has another definition.
    Other {
        found: String,
        expected: String,
    },
    /// The number of rows that violate the revision's guarantees.
    Rows(u64),
}

impl fmt::Display for ShapeDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Unknown => f.write_str("is not Placement's"),
            Self::Other { found, expected } => {
                write!(f, "is `{found}` and should be `{expected}`")
            }
            Self::Rows(count) => write!(f, "are {count}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.object, self.problem)
    }
}

/// The differences. For a table that only one schema has, only the table is listed.
pub(super) fn differences(found: &TableShape, expected: &TableShape) -> Vec<Difference> {
    let known = |shape: &TableShape, object: &Object| {
        object.part == ShapePart::Table || shape.contains_key(&Object::table(&object.table))
    };
    let missing = expected
        .iter()
        .filter(|(object, _)| known(found, object))
        .filter_map(|(object, expected)| {
            let problem = match found.get(object) {
                None => ShapeDifference::Missing,
                Some(found) if found == expected => return None,
                Some(found) => ShapeDifference::Other {
                    found: found.clone(),
                    expected: expected.clone(),
                },
            };
            Some((object, problem))
        });
    let unknown = found
        .keys()
        .filter(|object| known(expected, object) && !expected.contains_key(object))
        .map(|object| (object, ShapeDifference::Unknown));
    let mut all: Vec<_> = missing.chain(unknown).collect();
    all.sort_by_key(|(object, _)| *object);
    all.into_iter()
        .map(|(object, problem)| Difference {
            object: object.to_string(),
            problem,
        })
        .collect()
}

/// The description of a column. `default` is the expression after DEFAULT.
pub(super) fn column(kind: &str, is_nullable: bool, default: Option<&str>, counts: bool) -> String {
    let mut text = kind.to_owned();
    if !is_nullable {
        text.push_str(" NOT NULL");
    }
    if let Some(default) = default {
        text.push_str(" DEFAULT ");
        text.push_str(default);
    }
    if counts {
        text.push_str(" AUTO_INCREMENT");
    }
    text
}

/// The description of a foreign key.
pub(super) fn reference(table: &str, columns: &str, acts: bool) -> String {
    let acts = if acts { " with actions" } else { "" };
    format!("REFERENCES {table} ({columns}){acts}")
}

/// The description of an index.
pub(super) fn index(columns: &str, is_unique: bool) -> String {
    let unique = if is_unique { "UNIQUE " } else { "" };
    format!("{unique}({columns})")
}

/// The schema at a revision.
pub(super) fn at(revision: Revision, dialect: Dialect) -> TableShape {
    let mut shape = head(dialect);
    if revision < Revision::FewerIndexes {
        for (name, table, columns) in DOUBLED {
            shape.insert(Object::index(table, name), index(columns, false));
        }
    }
    if revision < Revision::ConsumerTypes {
        shape.retain(|object, _| {
            let of_consumers = match &object.part {
                ShapePart::Column(name) | ShapePart::ForeignKey(name) => name == "consumer_type_id",
                ShapePart::Index(name) => name == "consumers_consumer_type_id_idx",
                _ => false,
            };
            object.table != "consumer_types" && !of_consumers
        });
    }
    shape
}

/// The indexes that unique keys double, until the last revision: name, table, columns.
pub(super) const DOUBLED: [(&str, &str, &str); 5] = [
    (
        "inventories_resource_provider_id_idx",
        "inventories",
        "resource_provider_id",
    ),
    (
        "inventories_resource_provider_resource_class_idx",
        "inventories",
        "resource_provider_id, resource_class_id",
    ),
    (
        "ix_placement_aggregates_uuid",
        "placement_aggregates",
        "uuid",
    ),
    ("resource_providers_name_idx", "resource_providers", "name"),
    ("resource_providers_uuid_idx", "resource_providers", "uuid"),
];

/// The schema of `schema.sql`.
fn head(dialect: Dialect) -> TableShape {
    let mut shape = TableShape::new();
    let mut table = "";
    for line in SCHEMA.lines() {
        if let Some(created) = line.strip_prefix("CREATE TABLE ") {
            table = created.trim_end_matches(" (");
            shape.insert(Object::table(table), String::new());
        } else if let Some(created) = line.strip_prefix("CREATE INDEX ") {
            let mut words = created.split(' ');
            let (name, on) = (words.next().unwrap_or(""), words.nth(1).unwrap_or(""));
            shape.insert(Object::index(on, name), index(bracketed(created), false));
        } else if let Some(line) = line.strip_prefix('\t') {
            let (object, description) = part(table, line.trim_end_matches(','), dialect);
            shape.insert(object, description);
        }
    }
    shape
}

/// The object that a line within CREATE TABLE defines.
fn part(table: &str, line: &str, dialect: Dialect) -> (Object, String) {
    let constraint = line
        .strip_prefix("CONSTRAINT ")
        .and_then(|it| it.split_once(' '));
    let (name, rule) = constraint.unwrap_or(("", line));
    let columns = bracketed(rule);
    if rule.starts_with("PRIMARY KEY") {
        (
            Object::new(table, ShapePart::PrimaryKey),
            columns.to_owned(),
        )
    } else if rule.starts_with("UNIQUE") {
        let unique = Object::new(table, ShapePart::Unique(columns.to_owned()));
        (unique, unique_name(name, dialect))
    } else if let Some((_, target)) = rule.split_once(" REFERENCES ") {
        let to = target.split(' ').next().unwrap_or("");
        let description = reference(to, bracketed(target), false);
        (Object::foreign_key(table, columns), description)
    } else {
        let mut words = rule.split(' ');
        let (name, kind) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let default = rule
            .split_once(" DEFAULT ")
            .and_then(|(_, it)| it.split(' ').next());
        let counts = name == "id" && dialect != Dialect::Sqlite;
        let description = column(kind, !rule.contains("NOT NULL"), default, counts);
        (Object::column(table, name), description)
    }
}

/// The part of a unique key's description that depends on its name.
pub(super) fn unique_name(name: &str, dialect: Dialect) -> String {
    match dialect {
        Dialect::Sqlite => String::new(),
        Dialect::Postgres | Dialect::MySql => name.to_owned(),
    }
}

fn bracketed(text: &str) -> &str {
    let inside = text
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    inside.map_or("", |(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_read_from_its_statements() {
        let shape = at(Revision::HEAD, Dialect::Postgres);
        for (object, description) in [
            (Object::table("users"), ""),
            (
                Object::column("consumers", "generation"),
                "INTEGER NOT NULL DEFAULT 0",
            ),
            (
                Object::column("users", "id"),
                "INTEGER NOT NULL AUTO_INCREMENT",
            ),
            (Object::column("users", "updated_at"), "DATETIME"),
            (
                Object::new("resource_provider_traits", ShapePart::PrimaryKey),
                "trait_id, resource_provider_id",
            ),
            (
                Object::new("users", ShapePart::Unique("external_id".into())),
                "uniq_users0external_id",
            ),
            (
                Object::index("consumers", "consumers_project_id_uuid_idx"),
                "(project_id, uuid)",
            ),
            (
                Object::foreign_key("consumers", "consumer_type_id"),
                "REFERENCES consumer_types (id)",
            ),
        ] {
            assert_eq!(
                shape.get(&object).map(String::as_str),
                Some(description),
                "{object}"
            );
        }
    }

    #[test]
    fn differences_are_reported_by_name() {
        let expected = at(Revision::HEAD, Dialect::Sqlite);
        assert_eq!(differences(&expected, &expected), []);
        let mut found = at(Revision::Consumers, Dialect::Sqlite);
        found.insert(Object::table("notes"), String::new());
        found.insert(Object::column("notes", "id"), "INTEGER".into());
        found.insert(Object::column("users", "id"), "BIGINT".into());
        let texts: Vec<_> = differences(&found, &expected)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "table consumer_types is missing",
                "column consumer_type_id of consumers is missing",
                "index consumers_consumer_type_id_idx of consumers is missing",
                "foreign key (consumer_type_id) of consumers is missing",
                "index inventories_resource_provider_id_idx of inventories is not Placement's",
                "index inventories_resource_provider_resource_class_idx of inventories is not Placement's",
                "table notes is not Placement's",
                "index ix_placement_aggregates_uuid of placement_aggregates is not Placement's",
                "index resource_providers_name_idx of resource_providers is not Placement's",
                "index resource_providers_uuid_idx of resource_providers is not Placement's",
                "column id of users is `BIGINT` and should be `INTEGER NOT NULL`",
            ]
        );
    }
}
