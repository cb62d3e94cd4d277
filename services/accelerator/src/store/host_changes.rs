//! Change markers of hosts, for long polling. They are in the database, so that all processes give agents the same
//! marker.

use berth_http::request_id::random_uuid;
use berth_store::{SqlError, Statement, Transaction};

/// The marker of a host without changes.
const UNCHANGED: &str = "0";

pub(crate) async fn mark(tx: &mut Transaction, host: &str) -> Result<String, SqlError> {
    let sql = "SELECT mark FROM host_changes WHERE hostname = ?";
    let row = tx.row(Statement::new(sql).bind(host)).await?;
    row.map_or(Ok(UNCHANGED.to_owned()), |row| row.text(0))
}

/// Something else is wanted of the host's devices.
pub(crate) async fn changed(tx: &mut Transaction, host: &str) -> Result<(), SqlError> {
    let insert = "INSERT INTO host_changes (hostname, mark) VALUES (?, ?)";
    let update = tx.dialect().or_update(&["hostname"], &["mark"]);
    let statement = Statement::recurring(format!("{insert}{update}"));
    let mark = random_uuid().to_string();
    tx.execute(statement.bind(host).bind(mark)).await?;
    Ok(())
}
