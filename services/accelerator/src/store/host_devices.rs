//! Stores an agent's report of all devices of a host in one transaction.
//!
//! Devices that are not in the report have vanished. They are deleted at once if no request holds a handle of them.
//! Otherwise they are marked, no more handles are assigned, and they are deleted with the last release. A device with
//! operator settings (out of service, attributes) stays marked until those are removed, so that a card that returns has
//! its old settings. A problem with one device does not prevent storing the others: the answer names the rejected
//! parts.

mod rows;

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{SqlError, SqlTimestamp, Statement, Transaction, Value, Work};
use berth_wire::accelerator::{KnownDevices, NotTaken};
use uuid::Uuid;

use super::attributes::{self, AttributeSource};
use super::{AcceleratorTableError, devices, handles, known_devices, now};
use crate::report::{
    DeviceReport, HandleCleaning, ReportedDeployable, ReportedDevice, ReportedHandle,
};
use rows::{DeployableRow, DeviceRow, HandleRow, HostRows, StoredRow};

/// Why a part of a device was rejected.
#[derive(Debug, thiserror::Error)]
enum RejectionReason {
    #[error("resource provider {provider} is a device's of host {host}; a provider is on one host")]
    Provider { provider: Uuid, host: String },
    #[error("attach handle {0} is another provider's; a handle is of one device")]
    Handle(Uuid),
}

/// Stores a report. Returns everything known about the host afterwards.
pub(crate) struct WriteReport {
    pub(crate) report: DeviceReport,
}

impl Work for WriteReport {
    type Output = KnownDevices;
    type Error = AcceleratorTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<KnownDevices, AcceleratorTableError> {
        let report = &self.report;
        let mut host = HostRows::read(tx, &report.host).await?;
        let mut not_taken: Vec<NotTaken> = Vec::new();
        for device in &report.devices {
            let mut elsewhere: Vec<RejectionReason> = Vec::new();
            let id = host.device(tx, device).await?;
            for deployable in &device.deployables {
                match host.deployable(tx, id, deployable).await? {
                    Ok(id) => {
                        for handle in &deployable.handles {
                            elsewhere.extend(host.handle(tx, id, handle).await?.err());
                        }
                    }
                    Err(error) => elsewhere.push(error),
                }
            }
            not_taken.extend(elsewhere.iter().map(|error| NotTaken {
                name: device.name.clone(),
                reason: error.to_string(),
            }));
        }
        host.drop_the_rest(tx).await?;
        let known = known_devices::of_host(tx, &report.host).await?;
        Ok(KnownDevices { not_taken, ..known })
    }
}

impl HostRows {
    /// Writes one device; its id.
    async fn device(
        &mut self,
        tx: &mut Transaction,
        device: &ReportedDevice,
    ) -> Result<i64, AcceleratorTableError> {
        let reported: DeviceRow = (
            device.device_type.clone(),
            device.vendor.clone(),
            device.model.clone(),
            device.std_board_info.clone(),
            device.vendor_board_info.clone(),
        );
        let values = |(kind, vendor, model, std, board): DeviceRow| -> [Value; 5] {
            [
                kind.into(),
                vendor.into(),
                model.into(),
                std.into(),
                board.into(),
            ]
        };
        if let Some(kept) = self.devices.get_mut(&device.name) {
            if kept.see(reported.clone()) {
                let sql = "UPDATE devices SET device_type = ?, vendor = ?, model = ?, std_board_info = ?, \
                           vendor_board_info = ?, vanished = 0, updated_at = ? WHERE id = ?";
                let update = Statement::new(sql).bind_all(values(reported));
                tx.execute(update.bind(now()).bind(kept.id)).await?;
            }
            return Ok(kept.id);
        }
        // The same device always gets the same UUID, even after the database was lost.
        let name = format!("{}/{}", self.name, device.name);
        let uuid = Uuid::new_v5(&Uuid::NAMESPACE_DNS, name.as_bytes());
        let sql = "INSERT INTO devices (uuid, hostname, name, device_type, vendor, model, std_board_info, \
                   vendor_board_info, status, vanished, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)";
        let insert = Statement::new(sql)
            .bind(uuid.to_string())
            .bind(&self.name)
            .bind(&device.name)
            .bind_all(values(reported))
            .bind(devices::ENABLED)
            .bind(now());
        Ok(tx.insert(insert, "id").await?)
    }

    /// Stores a deployable with its attributes; returns its id, unless it belongs to another host.
    async fn deployable(
        &mut self,
        tx: &mut Transaction,
        device: i64,
        deployable: &ReportedDeployable,
    ) -> Result<Result<i64, RejectionReason>, AcceleratorTableError> {
        let reported: DeployableRow = (
            device,
            deployable.name.clone(),
            deployable.resource_class.clone(),
            deployable.driver_name.clone(),
            deployable.numa_node.map(i64::from),
            deployable.health.as_str().to_owned(),
            deployable.health_reason.clone(),
            i64::from(deployable.programmable),
        );
        let values =
            |(device, name, class, driver, numa, health, reason, programmable): DeployableRow| {
                let values: [Value; 8] = [
                    device.into(),
                    name.into(),
                    class.into(),
                    driver.into(),
                    numa.into(),
                    health.into(),
                    reason.into(),
                    programmable.into(),
                ];
                values
            };
        let provider = deployable.rp_uuid.to_string();
        let id = if let Some(kept) = self.deployables.get_mut(&provider) {
            if kept.see(reported.clone()) {
                let sql = "UPDATE deployables SET device_id = ?, name = ?, resource_class = ?, driver_name = ?, \
                           numa_node = ?, health = ?, health_reason = ?, programmable = ?, vanished = 0, updated_at = ? WHERE id = ?";
                let update = Statement::new(sql).bind_all(values(reported));
                tx.execute(update.bind(now()).bind(kept.id)).await?;
            }
            kept.id
        } else {
            if let Some(elsewhere) = elsewhere(tx, deployable.rp_uuid).await? {
                return Ok(Err(elsewhere));
            }
            let uuid = Uuid::new_v5(&deployable.rp_uuid, b"deployable");
            let sql = "INSERT INTO deployables (uuid, rp_uuid, device_id, name, resource_class, driver_name, \
                       numa_node, health, health_reason, programmable, vanished, created_at) \
                       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)";
            let insert = Statement::new(sql)
                .bind(uuid.to_string())
                .bind(provider)
                .bind_all(values(reported))
                .bind(now());
            tx.insert(insert, "id").await?
        };
        if self.attributes.remove(&id).unwrap_or_default() != deployable.attributes {
            replace_attributes(tx, id, &deployable.attributes).await?;
        }
        Ok(Ok(id))
    }

    /// Stores a handle, unless it belongs to another provider.
    async fn handle(
        &mut self,
        tx: &mut Transaction,
        deployable: i64,
        handle: &ReportedHandle,
    ) -> Result<Result<(), RejectionReason>, AcceleratorTableError> {
        let uuid = handle.uuid.to_string();
        let Some((kept, held)) = self.handles.get_mut(&uuid) else {
            let sql = "SELECT 1 FROM attach_handles WHERE uuid = ?";
            if tx.row(Statement::new(sql).bind(&uuid)).await?.is_some() {
                return Ok(Err(RejectionReason::Handle(handle.uuid)));
            }
            let sql = "INSERT INTO attach_handles (uuid, deployable_id, attach_type, attach_info, unavailable, \
                       scrubbed, releases, vanished, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)";
            // Its previous user is unknown, so it starts as released and waiting to be cleaned, with a release number
            // that was never used before.
            let (scrubbed, releases) = match handle.scrub {
                HandleCleaning::Never => (0, 0),
                HandleCleaning::Always { .. } => (1, SqlTimestamp::now().as_micros()),
            };
            let insert = Statement::new(sql)
                .bind(uuid)
                .bind(deployable)
                .bind(handle.info.kind().as_str())
                .bind(handles::write_info(&handle.info))
                .bind(handle.unavailable.as_deref())
                .bind(scrubbed)
                .bind(releases)
                .bind(now());
            tx.execute(insert).await?;
            return Ok(Ok(()));
        };
        // Only the cleaning after the last release counts; a host that does not clean leaves nothing to wait for.
        let (releases, before) = (kept.is.releases, kept.is.cleaned);
        let (scrubbed, cleaned) = match handle.scrub {
            HandleCleaning::Never => (0, releases),
            HandleCleaning::Always { cleaned } if cleaned == Some(releases) => (1, releases),
            HandleCleaning::Always { .. } => (1, before),
        };
        let reported = HandleRow {
            deployable,
            info: handle.info.clone(),
            unavailable: handle.unavailable.clone(),
            scrubbed,
            releases,
            cleaned,
        };
        // Compare the address only: the network may become known later.
        let moved = kept.is.info.to_string() != reported.info.to_string();
        if *held && (moved || kept.is.deployable != deployable) {
            // A guest uses it under its old address, which no longer exists.
            return Ok(Ok(()));
        }
        if kept.see(reported) {
            let sql = "UPDATE attach_handles SET deployable_id = ?, attach_type = ?, attach_info = ?, \
                       unavailable = ?, scrubbed = ?, cleaned = ?, vanished = 0, updated_at = ? WHERE id = ?";
            let update = Statement::new(sql)
                .bind(deployable)
                .bind(handle.info.kind().as_str())
                .bind(handles::write_info(&handle.info))
                .bind(handle.unavailable.as_deref())
                .bind(scrubbed)
                .bind(cleaned)
                .bind(now())
                .bind(kept.id);
            tx.execute(update).await?;
        }
        Ok(Ok(()))
    }

    /// Marks what was not reported, and deletes what no request holds.
    async fn drop_the_rest(self, tx: &mut Transaction) -> Result<(), AcceleratorTableError> {
        let (handles, _): (Vec<_>, Vec<bool>) = self.handles.into_values().unzip();
        let lost: Vec<&StoredRow<HandleRow>> = handles.iter().filter(|kept| !kept.seen).collect();
        let mut touched: BTreeSet<i64> = lost.iter().map(|kept| kept.is.deployable).collect();
        let fresh = |kept: &&&StoredRow<HandleRow>| !kept.vanished;
        let ids: Vec<i64> = lost.iter().filter(fresh).map(|kept| kept.id).collect();
        mark(tx, "attach_handles", &ids).await?;
        let deployables = unreported(self.deployables);
        touched.extend(&deployables);
        mark(tx, "deployables", &deployables).await?;
        let devices = unreported(self.devices);
        mark(tx, "devices", &devices).await?;
        handles::sweep(tx, &touched.into_iter().collect::<Vec<_>>()).await?;
        handles::sweep_devices(tx, &devices).await?;
        Ok(())
    }
}

fn unreported<T>(rows: BTreeMap<String, StoredRow<T>>) -> Vec<i64> {
    let unreported = rows.into_values().filter(|kept| !kept.seen);
    unreported.map(|kept| kept.id).collect()
}

async fn mark(tx: &mut Transaction, table: &'static str, ids: &[i64]) -> Result<(), SqlError> {
    let sql =
        format!("UPDATE {table} SET updated_at = ?, vanished = 1 WHERE vanished = 0 AND id IN");
    tx.execute_in(&Statement::new(sql).bind(now()), ids).await?;
    Ok(())
}

/// The host that a provider is on.
async fn elsewhere(
    tx: &mut Transaction,
    provider: Uuid,
) -> Result<Option<RejectionReason>, AcceleratorTableError> {
    let sql = "SELECT v.hostname FROM deployables d JOIN devices v ON v.id = d.device_id WHERE d.rp_uuid = ?";
    let search = Statement::new(sql).bind(provider.to_string());
    let Some(row) = tx.row(search).await? else {
        return Ok(None);
    };
    let host = row.text(0)?;
    Ok(Some(RejectionReason::Provider { provider, host }))
}

async fn replace_attributes(
    tx: &mut Transaction,
    deployable: i64,
    reported: &[(String, String)],
) -> Result<(), AcceleratorTableError> {
    let sql = "DELETE FROM attributes WHERE deployable_id = ? AND reported = 1";
    tx.execute(Statement::new(sql).bind(deployable)).await?;
    for (key, value) in reported {
        attributes::insert(tx, deployable, (key, value), AttributeSource::Host).await?;
    }
    Ok(())
}
