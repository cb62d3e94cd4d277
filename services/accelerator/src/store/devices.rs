//! Devices.

use berth_store::{Disposition, Retryable, Row, SqlError, Statement, Transaction, Value, Work};
use berth_wire::accelerator::DeviceBody;
use uuid::Uuid;

use super::{ReadError, host_changes, moment, now, typed};

const TABLE: &str = "devices";

pub(crate) const ENABLED: &str = "enabled";
/// Out of service, because an operator said so.
pub(crate) const MAINTAINING: &str = "maintaining";

/// Which devices a list names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filters {
    pub(crate) device_type: Option<String>,
    pub(crate) vendor: Option<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) status: Option<String>,
}

impl Filters {
    /// The filter of this name; none for one that no device has.
    pub(crate) fn of_name(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "type" => Some(&mut self.device_type),
            "vendor" => Some(&mut self.vendor),
            "hostname" => Some(&mut self.hostname),
            "model" => Some(&mut self.model),
            "status" => Some(&mut self.status),
            _ => None,
        }
    }
}

const SELECT: &str = "SELECT uuid, device_type, vendor, model, std_board_info, vendor_board_info, \
                      hostname, status, created_at, updated_at FROM devices";

fn device(row: &Row) -> Result<DeviceBody, ReadError> {
    Ok(DeviceBody {
        uuid: typed(&row.text(0)?, TABLE, "uuid")?,
        device_type: row.text(1)?,
        vendor: row.text(2)?,
        model: row.opt_text(3)?,
        std_board_info: row.opt_text(4)?,
        vendor_board_info: row.opt_text(5)?,
        hostname: row.text(6)?,
        status: Some(row.text(7)?),
        links: Vec::new(),
        created_at: moment(row, 8)?,
        updated_at: moment(row, 9)?,
    })
}

/// The devices that the filters name.
pub(crate) async fn list(
    tx: &mut Transaction,
    filters: &Filters,
) -> Result<Vec<DeviceBody>, ReadError> {
    let mut sql = format!("{SELECT} WHERE 1 = 1");
    let mut values: Vec<Value> = Vec::new();
    for (column, wanted) in [
        ("device_type", &filters.device_type),
        ("vendor", &filters.vendor),
        ("hostname", &filters.hostname),
        ("model", &filters.model),
        ("status", &filters.status),
    ] {
        if let Some(wanted) = wanted {
            sql.push_str(&format!(" AND {column} = ?"));
            values.push(wanted.into());
        }
    }
    sql.push_str(" ORDER BY id");
    let rows = tx.rows(Statement::new(sql).bind_all(values)).await?;
    rows.iter().map(device).collect()
}

pub(crate) async fn get(tx: &mut Transaction, uuid: Uuid) -> Result<DeviceBody, DeviceError> {
    let statement = Statement::new(format!("{SELECT} WHERE uuid = ?")).bind(uuid.to_string());
    match tx.row(statement).await? {
        Some(row) => Ok(device(&row)?),
        None => Err(DeviceError::NotFound(uuid)),
    }
}

/// Why a device could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeviceError {
    #[error("Device not found with uuid={0}")]
    NotFound(Uuid),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<SqlError> for DeviceError {
    fn from(error: SqlError) -> Self {
        Self::Read(error.into())
    }
}

impl Retryable for DeviceError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read(error) => error.disposition(),
            Self::NotFound(_) => Disposition::Fatal,
        }
    }
}

/// Says whether a device is in service; its host, where it was not so before. The host's agent reads it with the answer to its
/// next report.
pub(crate) struct SetStatus {
    pub(crate) uuid: Uuid,
    pub(crate) status: &'static str,
}

impl Work for SetStatus {
    type Output = Option<String>;
    type Error = DeviceError;

    async fn run(&self, tx: &mut Transaction) -> Result<Option<String>, DeviceError> {
        let found = get(tx, self.uuid).await?;
        if found.status.as_deref() == Some(self.status) {
            return Ok(None);
        }
        let sql = "UPDATE devices SET status = ?, updated_at = ? WHERE uuid = ?";
        let update = Statement::new(sql)
            .bind(self.status)
            .bind(now())
            .bind(self.uuid.to_string());
        tx.execute(update).await?;
        host_changes::changed(tx, &found.hostname).await?;
        Ok(Some(found.hostname))
    }
}
