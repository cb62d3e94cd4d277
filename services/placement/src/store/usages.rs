//! Usage of a provider or a project.

use berth_store::{Row, SqlError, Statement, Transaction, Value};

/// The usage of a provider by resource class.
pub(crate) async fn of_provider(
    tx: &mut Transaction,
    provider: i64,
) -> Result<Vec<(String, i64)>, SqlError> {
    let sql = "SELECT c.name, COALESCE(SUM(a.used), 0) FROM inventories i \
               JOIN resource_classes c ON c.id = i.resource_class_id \
               LEFT JOIN allocations a ON a.resource_provider_id = i.resource_provider_id \
               AND a.resource_class_id = i.resource_class_id \
               WHERE i.resource_provider_id = ? GROUP BY c.id, c.name ORDER BY c.id";
    let rows = tx.rows(Statement::new(sql).bind(provider)).await?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

/// The project and user of the requested usage.
#[derive(Debug, Clone)]
pub(crate) struct UsageOwner {
    pub(crate) project: String,
    pub(crate) user: Option<String>,
}

/// Which consumers count, and how they are grouped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConsumerFilter {
    /// All, under one heading.
    All,
    /// Consumers without a type.
    Untyped,
    /// Consumers of one type.
    OfType(String),
    /// All, grouped by type.
    ByType,
}

/// The heading of consumers without a type.
pub(crate) const UNTYPED: &str = "unknown";
/// The heading of all consumers.
pub(crate) const ALL: &str = "all";

/// One group of consumers.
#[derive(Debug, Clone)]
pub(crate) struct UsageGroup {
    pub(crate) heading: String,
    pub(crate) consumers: i64,
    pub(crate) used: Vec<(String, i64)>,
}

const FROM: &str = " FROM allocations a \
     JOIN consumers k ON k.uuid = a.consumer_id \
     JOIN projects p ON p.id = k.project_id \
     JOIN users u ON u.id = k.user_id \
     JOIN resource_classes c ON c.id = a.resource_class_id \
     LEFT JOIN consumer_types t ON t.id = k.consumer_type_id \
     WHERE p.external_id = ?";

/// The usage of a project's or user's consumers, group by group.
pub(crate) async fn by_holder(
    tx: &mut Transaction,
    holder: &UsageOwner,
    consumers: &ConsumerFilter,
) -> Result<Vec<UsageGroup>, SqlError> {
    let heading = match consumers {
        ConsumerFilter::All => "'all'",
        _ => "COALESCE(t.name, 'unknown')",
    };
    let (filter, mut values) = condition(holder, consumers);
    let sums = format!(
        "SELECT {heading}, c.name, SUM(a.used){FROM}{filter} GROUP BY 1, c.id, c.name ORDER BY 1, c.id"
    );
    let rows = tx
        .rows(Statement::new(sums).bind_all(values.clone()))
        .await?;
    let mut groups: Vec<UsageGroup> = Vec::new();
    for row in &rows {
        add(&mut groups, row)?;
    }
    let counts =
        format!("SELECT {heading}, COUNT(DISTINCT a.consumer_id){FROM}{filter} GROUP BY 1");
    for row in tx
        .rows(Statement::new(counts).bind_all(values.drain(..)))
        .await?
    {
        let heading = row.text(0)?;
        if let Some(group) = groups.iter_mut().find(|group| group.heading == heading) {
            group.consumers = row.int(1)?;
        }
    }
    Ok(groups)
}

fn condition(holder: &UsageOwner, consumers: &ConsumerFilter) -> (String, Vec<Value>) {
    let mut sql = String::new();
    let mut values = vec![Value::from(&holder.project)];
    if let Some(user) = &holder.user {
        sql.push_str(" AND u.external_id = ?");
        values.push(Value::from(user));
    }
    match consumers {
        ConsumerFilter::All | ConsumerFilter::ByType => {}
        ConsumerFilter::Untyped => sql.push_str(" AND k.consumer_type_id IS NULL"),
        ConsumerFilter::OfType(name) => {
            sql.push_str(" AND t.name = ?");
            values.push(Value::from(name));
        }
    }
    (sql, values)
}

fn add(groups: &mut Vec<UsageGroup>, row: &Row) -> Result<(), SqlError> {
    let heading = row.text(0)?;
    let used = (row.text(1)?, row.int(2)?);
    match groups.last_mut() {
        Some(group) if group.heading == heading => group.used.push(used),
        _ => groups.push(UsageGroup {
            heading,
            consumers: 0,
            used: vec![used],
        }),
    }
    Ok(())
}
