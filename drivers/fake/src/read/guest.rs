//! Parses a `[[node.guest]]`.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{PciAddress, ResourceClass};
use berth_options::document::{DocumentField, DocumentParser, DocumentTable};
use berth_virt::{
    GuestCell, GuestCpuPolicy, GuestMdev, GuestView, OfferedDevice, OfferedHandle, PowerState,
};
use uuid::Uuid;

use super::MOST;
use super::node::{cell_id, no_such_cell};
use crate::machine::{MachineGuest, MachineNode, Migration, MigrationSight};

const KEYS: [&str; 13] = [
    "uuid",
    "name",
    "power",
    "cpu_policy",
    "dedicated_vcpus",
    "vcpus",
    "memory_mib",
    "disk_gib",
    "cells",
    "mdevs",
    "functions",
    "customs",
    "migration",
];

pub(super) fn guest(
    table: &DocumentTable<'_>,
    node: &MachineNode,
    reading: &mut DocumentParser<'_>,
) -> Option<MachineGuest> {
    table.only(&KEYS, reading);
    let uuid = table.need("uuid", "the instance's UUID", reading);
    let uuid = uuid.and_then(|field| consumer(&field, reading));
    let name = table.field("name").and_then(|field| field.text(reading));
    let words = [
        ("running", PowerState::Running),
        ("shut off", PowerState::ShutOff),
    ];
    let power = table.field("power");
    let power = power.map_or(Some(PowerState::Running), |field| {
        field.one_of(&words, reading)
    });
    let vcpus = table.need("vcpus", "the guest's virtual CPUs", reading);
    let vcpus = vcpus.and_then(|field| field.number(0..=MOST, "CPUs", reading));
    let memory = table.need("memory_mib", "the guest's memory in MiB", reading);
    let memory_mib = memory.and_then(|field| field.number(0..=MOST, "MiB", reading));
    let disk = table.field("disk_gib");
    let disk_gib = disk.map_or(Some(0), |field| field.number(0..=MOST, "GiB", reading));
    let cpu_policy = policy(table, vcpus.unwrap_or(MOST), reading);
    let cells = items(table, "cells", reading);
    let cells = cells
        .iter()
        .filter_map(|field| cell(field, node, reading))
        .collect();
    let mdevs = items(table, "mdevs", reading);
    let mdevs = mdevs
        .iter()
        .filter_map(|field| mdev(field, node, reading))
        .collect();
    let functions = items(table, "functions", reading);
    let functions = functions
        .iter()
        .filter_map(|field| function(field, node, reading))
        .collect();
    let customs = customs(table, node, reading);
    let migration = table.field("migration");
    let migration = migration.and_then(|field| migration_of(&field, reading));
    let seen = GuestView {
        name: name.map_or_else(
            || {
                uuid.map_or_else(String::new, |uuid: berth_model::ConsumerUuid| {
                    uuid.to_string()
                })
            },
            str::to_owned,
        ),
        power: power?,
        also: BTreeSet::new(),
        cpu_policy: cpu_policy?,
        vcpus: vcpus?,
        memory_mib: memory_mib?,
        cells,
        mdevs,
        functions,
    };
    Some(MachineGuest {
        uuid: uuid?,
        seen,
        disk_gib: disk_gib?,
        customs,
        migration,
    })
}

fn items<'a>(
    table: &DocumentTable<'a>,
    key: &str,
    reading: &mut DocumentParser<'_>,
) -> Vec<DocumentField<'a>> {
    match table.field(key) {
        Some(field) => field.list(reading),
        None => Vec::new(),
    }
}

fn consumer(
    field: &DocumentField<'_>,
    reading: &mut DocumentParser<'_>,
) -> Option<berth_model::ConsumerUuid> {
    let uuid = field.parsed(reading)?;
    reading.once("UUID", uuid, field);
    Some(uuid)
}

fn policy(
    table: &DocumentTable<'_>,
    vcpus: u64,
    reading: &mut DocumentParser<'_>,
) -> Option<GuestCpuPolicy> {
    let dedicated = table.field("dedicated_vcpus");
    let words = [
        ("shared", GuestCpuPolicy::Shared),
        ("dedicated", GuestCpuPolicy::Dedicated),
        ("mixed", GuestCpuPolicy::Mixed { dedicated: 0 }),
    ];
    let policy = match table.field("cpu_policy") {
        Some(field) => field.one_of(&words, reading)?,
        None => GuestCpuPolicy::Shared,
    };
    match (policy, dedicated) {
        (GuestCpuPolicy::Mixed { .. }, None) => {
            let right = "how many of a mixed guest's CPUs are dedicated";
            table.need("dedicated_vcpus", right, reading)?;
            None
        }
        (GuestCpuPolicy::Mixed { .. }, Some(field)) => {
            let dedicated = field.number(0..=vcpus, "the guest's CPUs", reading)?;
            Some(GuestCpuPolicy::Mixed { dedicated })
        }
        (_, Some(field)) => {
            let right = "cpu_policy = \"mixed\" is required";
            field.wrong(
                format!("only a mixed guest has dedicated_vcpus; {right}"),
                reading,
            );
            None
        }
        (policy, None) => Some(policy),
    }
}

fn cell(
    field: &DocumentField<'_>,
    node: &MachineNode,
    reading: &mut DocumentParser<'_>,
) -> Option<GuestCell> {
    let table = field.table(reading)?;
    table.only(&["id", "vcpus", "memory_mib"], reading);
    let id = table.need("id", "the host's NUMA cell", reading);
    let vcpus = table.need("vcpus", "the guest's CPUs on it", reading);
    let memory = table.need("memory_mib", "the guest's memory on it in MiB", reading);
    let id = id.and_then(|field| {
        let id = cell_id(&field, reading)?;
        if !node.cells.iter().any(|cell| cell.id == id) {
            field.wrong(no_such_cell(id, &node.cells), reading);
        }
        Some(id)
    });
    let vcpus = vcpus.and_then(|field| field.number(0..=MOST, "CPUs", reading));
    let memory_mib = memory.and_then(|field| field.number(0..=MOST, "MiB", reading));
    Some(GuestCell {
        host_cell: id?,
        vcpus: vcpus?,
        memory_mib: memory_mib?,
    })
}

fn mdev(
    field: &DocumentField<'_>,
    node: &MachineNode,
    reading: &mut DocumentParser<'_>,
) -> Option<GuestMdev> {
    let table = field.table(reading)?;
    table.only(&["uuid", "gpu"], reading);
    let uuid = table.need("uuid", "the mediated device's UUID", reading);
    let uuid: Option<Uuid> = uuid.and_then(|field| {
        let uuid: berth_model::ConsumerUuid = field.parsed(reading)?;
        reading.once("mediated device", uuid, &field);
        Some(*uuid.as_uuid())
    });
    let parent = table.field("gpu").and_then(|field| {
        let address: PciAddress = field.parsed(reading)?;
        let is_device = node.devices.iter().any(|device| device.address == address);
        if !is_device && !node.gpus.iter().any(|gpu| gpu.address == address) {
            let right = "a GPU that was removed must be left out here, too";
            field.wrong(format!("the node has no GPU {address}; {right}"), reading);
        }
        Some(address)
    });
    Some(GuestMdev {
        uuid: uuid?,
        parent,
    })
}

fn function(
    field: &DocumentField<'_>,
    node: &MachineNode,
    reading: &mut DocumentParser<'_>,
) -> Option<PciAddress> {
    let address: PciAddress = field.parsed(reading)?;
    let offered = OfferedHandle::Function(address);
    let is_device = |device: &OfferedDevice| device.handles.contains(&offered);
    if !node.devices.iter().any(is_device)
        && !node.nics.iter().any(|nic| nic.addresses.contains(&address))
    {
        let text = format!("no nic and no device of the node has the function {address}");
        field.wrong(text, reading);
    }
    reading.once(
        "virtual function",
        format!("{address} of {}", node.name),
        field,
    );
    Some(address)
}

fn customs(
    table: &DocumentTable<'_>,
    node: &MachineNode,
    reading: &mut DocumentParser<'_>,
) -> BTreeMap<ResourceClass, u64> {
    let Some(customs) = table
        .field("customs")
        .and_then(|field| field.table(reading))
    else {
        return BTreeMap::new();
    };
    let mut amounts = BTreeMap::new();
    for (name, field) in customs.fields() {
        let custom = node.customs.iter().find(|custom| {
            custom.class.as_str() == name || custom.formerly.iter().any(|old| old.as_str() == name)
        });
        let amount = field.number(1..=MOST, "units", reading);
        match (custom, amount) {
            // The class may have any of its names: the file stays the same before and after the upgrade.
            (Some(custom), Some(amount)) => {
                *amounts.entry(custom.class.clone()).or_insert(0) += amount;
            }
            (None, _) => field.wrong("the node has no such custom resource", reading),
            (Some(_), None) => {}
        }
    }
    amounts
}

fn migration_of(field: &DocumentField<'_>, reading: &mut DocumentParser<'_>) -> Option<Migration> {
    let table = field.table(reading)?;
    table.only(&["consumer", "known"], reading);
    let consumer_field = table.need("consumer", "the migration's UUID", reading)?;
    let known = table.field("known");
    let known = known.map_or(Some(false), |field| field.flag(reading))?;
    Some(Migration {
        consumer: consumer(&consumer_field, reading)?,
        sight: if known {
            MigrationSight::Known
        } else {
            MigrationSight::Unknown
        },
    })
}
