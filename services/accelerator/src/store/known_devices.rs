//! Everything known about a host: the answer to its report.

use berth_store::{Statement, Transaction};
use berth_wire::accelerator::{
    AttachHandleInfoBody, KnownAttachHandle, KnownDeployable, KnownDevice, KnownDevices,
};
use uuid::Uuid;

use super::{AcceleratorTableError, handles, host_changes, typed};

fn optional(
    text: Option<String>,
    table: &'static str,
    column: &'static str,
) -> Result<Option<Uuid>, AcceleratorTableError> {
    text.map(|text| typed(&text, table, column)).transpose()
}

/// The host's devices, in the order of first report, and its change marker.
pub(crate) async fn of_host(
    tx: &mut Transaction,
    host: &str,
) -> Result<KnownDevices, AcceleratorTableError> {
    let sql = "SELECT v.uuid, v.name, v.status, v.vanished, d.uuid, d.rp_uuid, d.vanished, h.uuid, \
               h.attach_type, h.attach_info, h.vanished, a.uuid, a.instance_uuid, d.provider_missing, h.releases, h.cleaned FROM devices v \
               LEFT JOIN deployables d ON d.device_id = v.id \
               LEFT JOIN attach_handles h ON h.deployable_id = d.id \
               LEFT JOIN accelerator_requests a ON a.id = h.arq_id \
               WHERE v.hostname = ? ORDER BY v.id, d.id, h.id";
    let mut devices: Vec<KnownDevice> = Vec::new();
    for row in tx.rows(Statement::new(sql).bind(host)).await? {
        let uuid: Uuid = typed(&row.text(0)?, "devices", "uuid")?;
        if devices.last().is_none_or(|device| device.uuid != uuid) {
            devices.push(KnownDevice {
                uuid,
                name: row.text(1)?,
                status: row.text(2)?,
                vanished: row.int(3)? != 0,
                deployables: Vec::new(),
            });
        }
        let deployable = optional(row.opt_text(4)?, "deployables", "uuid")?;
        let (Some(uuid), Some(device)) = (deployable, devices.last_mut()) else {
            continue;
        };
        let deployables = &mut device.deployables;
        if deployables.last().is_none_or(|known| known.uuid != uuid) {
            deployables.push(KnownDeployable {
                uuid,
                rp_uuid: typed(&row.text(5)?, "deployables", "rp_uuid")?,
                vanished: row.int(6)? != 0,
                provider_missing: row.int(13)? != 0,
                attach_handles: Vec::new(),
            });
        }
        let handle = optional(row.opt_text(7)?, "attach_handles", "uuid")?;
        let (Some(uuid), Some(deployable)) = (handle, deployables.last_mut()) else {
            continue;
        };
        let attach_type = row.text(8)?;
        let info = handles::read_info(&attach_type, &row.text(9)?)?;
        let (releases, cleaned) = (row.int(14)?, row.int(15)?);
        let holder = optional(row.opt_text(11)?, "accelerator_requests", "uuid")?;
        deployable.attach_handles.push(KnownAttachHandle {
            uuid,
            attach_info: AttachHandleInfoBody::from(&info),
            attach_type,
            vanished: row.int(10)? != 0,
            releases,
            unclean: holder.is_none() && cleaned != releases,
            arq_uuid: holder,
            instance_uuid: optional(row.opt_text(12)?, "accelerator_requests", "instance_uuid")?,
        });
    }
    Ok(KnownDevices {
        devices,
        not_taken: Vec::new(),
        changes: Some(host_changes::mark(tx, host).await?),
    })
}
