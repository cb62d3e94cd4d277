//! The contents of a Placement as lines without UUIDs of providers and without generations, and its rows as SQL, to
//! restore the same state repeatedly.

use std::collections::BTreeSet;

use berth_tests::peer::RealPlacement;

const LINES: &str = "\
    SELECT p.name || ' is below ' || coalesce(up.name, '-') || ' of ' || r.name FROM resource_providers p \
    LEFT JOIN resource_providers up ON up.id = p.parent_provider_id \
    JOIN resource_providers r ON r.id = p.root_provider_id \
    UNION ALL SELECT p.name || ' has ' || c.name || ' ' || i.total || ' ' || i.reserved || ' ' || i.min_unit || ' ' || \
    i.max_unit || ' ' || i.step_size || ' ' || i.allocation_ratio FROM inventories i \
    JOIN resource_providers p ON p.id = i.resource_provider_id JOIN resource_classes c ON c.id = i.resource_class_id \
    UNION ALL SELECT p.name || ' is ' || t.name FROM resource_provider_traits pt \
    JOIN resource_providers p ON p.id = pt.resource_provider_id JOIN traits t ON t.id = pt.trait_id \
    UNION ALL SELECT p.name || ' is in ' || a.uuid FROM resource_provider_aggregates pa \
    JOIN resource_providers p ON p.id = pa.resource_provider_id JOIN placement_aggregates a ON a.id = pa.aggregate_id \
    UNION ALL SELECT c.uuid || ' is ' || coalesce(t.name, '-') || ' of ' || j.external_id || ' by ' || u.external_id \
    FROM consumers c JOIN projects j ON j.id = c.project_id JOIN users u ON u.id = c.user_id \
    LEFT JOIN consumer_types t ON t.id = c.consumer_type_id \
    UNION ALL SELECT a.consumer_id || ' holds ' || sum(a.used) || ' ' || coalesce(c.name, '?') || ' on ' || \
    coalesce(p.name, '?') FROM allocations a LEFT JOIN resource_providers p ON p.id = a.resource_provider_id \
    LEFT JOIN resource_classes c ON c.id = a.resource_class_id GROUP BY a.consumer_id, c.name, p.name \
    UNION ALL SELECT 'trait ' || name FROM traits WHERE name LIKE 'CUSTOM%' \
    UNION ALL SELECT 'class ' || name FROM resource_classes WHERE name LIKE 'CUSTOM%'";

pub(crate) fn lines(placement: &RealPlacement) -> BTreeSet<String> {
    let rows = placement.query(LINES).expect("the database can be read");
    rows.into_iter().flatten().collect()
}

/// The lines that say who holds what.
pub(crate) fn held(lines: &BTreeSet<String>) -> BTreeSet<String> {
    let held = lines.iter().filter(|line| line.contains(" holds "));
    held.cloned().collect()
}

/// A line each of what is missing and what is too much.
pub(crate) fn difference(is: &BTreeSet<String>, expected: &BTreeSet<String>) -> Vec<String> {
    let missing = expected
        .difference(is)
        .map(|line| format!("missing: {line}"));
    let extra = is
        .difference(expected)
        .map(|line| format!("too much: {line}"));
    missing.chain(extra).collect()
}

const TABLES: [(&str, &str); 12] = [
    ("users", "1"),
    ("projects", "1"),
    ("consumer_types", "1"),
    ("traits", "name LIKE 'CUSTOM%'"),
    ("resource_classes", "name LIKE 'CUSTOM%'"),
    ("resource_providers", "1"),
    ("placement_aggregates", "1"),
    ("resource_provider_aggregates", "1"),
    ("resource_provider_traits", "1"),
    ("inventories", "1"),
    ("consumers", "1"),
    ("allocations", "1"),
];

/// Statements that put its rows into an empty Placement.
pub(crate) fn statements(placement: &RealPlacement) -> String {
    let query = |sql: &str| placement.query(sql).expect("the database can be read");
    let dumps = TABLES.map(|(table, which)| {
        let columns = query(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let quoted: Vec<String> = columns
            .iter()
            .map(|row| format!("quote({})", row[0]))
            .collect();
        let values = quoted.join(" || ',' || ");
        format!(
            "SELECT 'INSERT INTO {table} VALUES (' || {values} || ')' FROM {table} WHERE {which}"
        )
    });
    let rows = query(&dumps.join(" UNION ALL "));
    rows.into_iter().flatten().collect::<Vec<_>>().join(";")
}
