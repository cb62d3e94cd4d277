//! Devices: queries, and setting them in and out of service.

use berth_store::{Disposition, Retryable, Row, SqlError, Statement, Transaction, Value, Work};
use berth_wire::accelerator::DeviceBody;
use uuid::Uuid;

use super::{AcceleratorTableError, host_changes, moment, now, typed};

const TABLE: &str = "devices";

pub(crate) const ENABLED: &str = "enabled";
/// The status of a device that an operator took out of service.
pub(crate) const MAINTAINING: &str = "maintaining";

/// The filters of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceFilters {
    pub(crate) device_type: Option<String>,
    pub(crate) vendor: Option<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) status: Option<String>,
}

impl DeviceFilters {
    /// The filter of this name; `None` if there is no such filter.
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

fn device(row: &Row) -> Result<DeviceBody, AcceleratorTableError> {
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
    filters: &DeviceFilters,
) -> Result<Vec<DeviceBody>, AcceleratorTableError> {
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

pub(crate) async fn get(tx: &mut Transaction, uuid: Uuid) -> Result<DeviceBody, DeviceStatusError> {
    let statement = Statement::new(format!("{SELECT} WHERE uuid = ?")).bind(uuid.to_string());
    match tx.row(statement).await? {
        Some(row) => Ok(device(&row)?),
        None => Err(DeviceStatusError::NotFound(uuid)),
    }
}

/// Why a device could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeviceStatusError {
    #[error("Device not found with uuid={0}")]
    NotFound(Uuid),
    #[error(transparent)]
    Read(#[from] AcceleratorTableError),
}

impl From<SqlError> for DeviceStatusError {
    fn from(error: SqlError) -> Self {
        Self::Read(error.into())
    }
}

impl Retryable for DeviceStatusError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read(error) => error.disposition(),
            Self::NotFound(_) => Disposition::Fatal,
        }
    }
}

/// Sets a device in or out of service. Returns its host if the status changed; the agent sees it in the answer
/// to its next report.
pub(crate) struct SetDeviceStatus {
    pub(crate) uuid: Uuid,
    pub(crate) status: &'static str,
}

impl Work for SetDeviceStatus {
    type Output = Option<String>;
    type Error = DeviceStatusError;

    async fn run(&self, tx: &mut Transaction) -> Result<Option<String>, DeviceStatusError> {
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
