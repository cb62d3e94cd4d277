//! All rows of one host, and whether the report has named each.

use std::collections::BTreeMap;

use berth_model::AttachHandleInfo;
use berth_store::{Statement, Transaction};

use crate::store::{AcceleratorTableError, handles};

/// A row to compare with the report. Rows that the report does not name have vanished.
pub(super) struct StoredRow<T> {
    pub(super) id: i64,
    pub(super) is: T,
    pub(super) vanished: bool,
    pub(super) seen: bool,
}

impl<T: PartialEq> StoredRow<T> {
    /// Whether the row has to be written to be as reported.
    pub(super) fn see(&mut self, reported: T) -> bool {
        self.seen = true;
        let changed = self.vanished || self.is != reported;
        self.is = reported;
        self.vanished = false;
        changed
    }
}

pub(super) type DeviceRow = (
    String,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
);
pub(super) type DeployableRow = (
    i64,
    String,
    String,
    Option<String>,
    Option<i64>,
    String,
    Option<String>,
    i64,
);

/// A handle's row. Its address does not change while a request holds it.
#[derive(PartialEq)]
pub(super) struct HandleRow {
    pub(super) deployable: i64,
    pub(super) info: AttachHandleInfo,
    pub(super) unavailable: Option<String>,
    pub(super) scrubbed: i64,
    pub(super) releases: i64,
    pub(super) cleaned: i64,
}

/// All rows of one host.
pub(super) struct HostRows {
    pub(super) name: String,
    pub(super) devices: BTreeMap<String, StoredRow<DeviceRow>>,
    pub(super) deployables: BTreeMap<String, StoredRow<DeployableRow>>,
    /// The reported attributes of each deployable, in their order.
    pub(super) attributes: BTreeMap<i64, Vec<(String, String)>>,
    pub(super) handles: BTreeMap<String, (StoredRow<HandleRow>, bool)>,
}

impl HostRows {
    pub(super) async fn read(
        tx: &mut Transaction,
        name: &str,
    ) -> Result<Self, AcceleratorTableError> {
        let mut host = Self {
            name: name.to_owned(),
            devices: BTreeMap::new(),
            deployables: BTreeMap::new(),
            attributes: BTreeMap::new(),
            handles: BTreeMap::new(),
        };
        host.read_devices(tx).await?;
        host.read_deployables(tx).await?;
        host.read_attributes(tx).await?;
        host.read_handles(tx).await?;
        Ok(host)
    }

    async fn read_devices(&mut self, tx: &mut Transaction) -> Result<(), AcceleratorTableError> {
        let sql = "SELECT id, name, device_type, vendor, model, std_board_info, vendor_board_info, vanished \
                   FROM devices WHERE hostname = ?";
        for row in tx.rows(Statement::new(sql).bind(&self.name)).await? {
            let kept = StoredRow {
                id: row.int(0)?,
                is: (
                    row.text(2)?,
                    row.text(3)?,
                    row.opt_text(4)?,
                    row.opt_text(5)?,
                    row.opt_text(6)?,
                ),
                vanished: row.int(7)? != 0,
                seen: false,
            };
            self.devices.insert(row.text(1)?, kept);
        }
        Ok(())
    }

    async fn read_deployables(
        &mut self,
        tx: &mut Transaction,
    ) -> Result<(), AcceleratorTableError> {
        let sql = "SELECT d.id, d.rp_uuid, d.device_id, d.name, d.resource_class, d.driver_name, d.numa_node, \
                   d.health, d.health_reason, d.vanished, d.programmable FROM deployables d \
                   JOIN devices v ON v.id = d.device_id WHERE v.hostname = ?";
        for row in tx.rows(Statement::new(sql).bind(&self.name)).await? {
            let kept = StoredRow {
                id: row.int(0)?,
                is: (
                    row.int(2)?,
                    row.text(3)?,
                    row.text(4)?,
                    row.opt_text(5)?,
                    row.opt_int(6)?,
                    row.text(7)?,
                    row.opt_text(8)?,
                    row.int(10)?,
                ),
                vanished: row.int(9)? != 0,
                seen: false,
            };
            self.deployables.insert(row.text(1)?, kept);
        }
        Ok(())
    }

    async fn read_attributes(&mut self, tx: &mut Transaction) -> Result<(), AcceleratorTableError> {
        let sql = "SELECT a.deployable_id, a.name, a.value FROM attributes a \
                   JOIN deployables d ON d.id = a.deployable_id JOIN devices v ON v.id = d.device_id \
                   WHERE v.hostname = ? AND a.reported = 1 ORDER BY a.id";
        for row in tx.rows(Statement::new(sql).bind(&self.name)).await? {
            let attribute = (row.text(1)?, row.text(2)?);
            self.attributes
                .entry(row.int(0)?)
                .or_default()
                .push(attribute);
        }
        Ok(())
    }

    async fn read_handles(&mut self, tx: &mut Transaction) -> Result<(), AcceleratorTableError> {
        let sql = "SELECT h.id, h.uuid, h.deployable_id, h.attach_type, h.attach_info, h.unavailable, h.vanished, \
                   h.arq_id, h.scrubbed, h.releases, h.cleaned FROM attach_handles h JOIN deployables d ON d.id = h.deployable_id \
                   JOIN devices v ON v.id = d.device_id WHERE v.hostname = ?";
        for row in tx.rows(Statement::new(sql).bind(&self.name)).await? {
            let info = handles::read_info(&row.text(3)?, &row.text(4)?)?;
            let kept = StoredRow {
                id: row.int(0)?,
                is: HandleRow {
                    deployable: row.int(2)?,
                    info,
                    unavailable: row.opt_text(5)?,
                    scrubbed: row.int(8)?,
                    releases: row.int(9)?,
                    cleaned: row.int(10)?,
                },
                vanished: row.int(6)? != 0,
                seen: false,
            };
            let held = row.opt_int(7)?.is_some();
            self.handles.insert(row.text(1)?, (kept, held));
        }
        Ok(())
    }
}
