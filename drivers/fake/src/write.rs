//! Writes a machine as the text of a machine file. Parsing the text gives the same machine.

use berth_model::ResourceClass;
use berth_virt::{
    CustomResource, DeviceOwner, DeviceUnit, GuestCell, GuestCpuPolicy, GuestMdev, HostNumaCell,
    NodeCpus, NodeDisk, NumaModel, OfferedDevice, OfferedHandle, PciInPlacement, PcpuModel,
    ResourceModel, VgpuModel, VirtualFunctions,
};
use toml::{Table, Value};

use crate::machine::{Faults, Gpu, Machine, MachineGuest, MachineNode, Migration, MigrationSight};

impl Machine {
    /// The machine file's text.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut table = Table::new();
        let hypervisor = [
            ("kind", &self.hypervisor.kind),
            ("version", &self.hypervisor.version),
            ("hostname", &self.hypervisor.hostname),
        ];
        let hypervisor = hypervisor.map(|(key, text)| (key.to_owned(), Value::from(text.as_str())));
        put(&mut table, "hypervisor", Table::from_iter(hypervisor));
        put(&mut table, "node", tables(&self.nodes, node));
        table.to_string()
    }
}

fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

fn number(amount: u64) -> Value {
    // Every amount of a machine is checked to be far below.
    Value::from(i64::try_from(amount).unwrap_or(i64::MAX))
}

fn text(shown: impl ToString) -> Value {
    Value::from(shown.to_string())
}

fn texts<T: ToString>(shown: impl IntoIterator<Item = T>) -> Value {
    Value::Array(shown.into_iter().map(text).collect())
}

fn tables<T>(items: &[T], table: impl Fn(&T) -> Table) -> Value {
    Value::Array(items.iter().map(|item| Value::Table(table(item))).collect())
}

fn node(node: &MachineNode) -> Table {
    let mut table = Table::new();
    put(&mut table, "name", text(&node.name));
    if let Some(uuid) = node.uuid {
        put(&mut table, "uuid", text(uuid));
    }
    put(&mut table, "memory_mib", number(node.memory_mib));
    let disk = match node.disk {
        NodeDisk::Local { gib } => number(gib),
        NodeDisk::Shared => text("shared"),
        NodeDisk::None => text("none"),
    };
    put(&mut table, "disk", disk);
    put(&mut table, "traits", texts(&node.traits));
    put(&mut table, "model", model(node.model));
    let reported = node.pci == PciInPlacement::Reported;
    put(&mut table, "report_pci_in_placement", reported);
    put(&mut table, "cpus", cpus(&node.cpus));
    for (key, list) in [
        ("cell", tables(&node.cells, cell)),
        ("gpu", tables(&node.gpus, gpu)),
        ("nic", tables(&node.nics, nic)),
        ("device", tables(&node.devices, device)),
        ("custom", tables(&node.customs, custom)),
        ("fault", faults(&node.faults)),
        ("guest", tables(&node.guests, guest)),
    ] {
        put(&mut table, key, list);
    }
    table
}

fn model(model: ResourceModel) -> Table {
    let mut table = Table::new();
    let vgpu = match model.vgpu {
        VgpuModel::Root => "root",
        VgpuModel::PerGpu => "per-gpu",
    };
    let numa = match model.numa {
        NumaModel::Flat => "flat",
        NumaModel::Cells => "cells",
    };
    let pcpu = match model.pcpu {
        PcpuModel::Vcpu => "vcpu",
        PcpuModel::Pcpu => "pcpu",
    };
    for (key, word) in [("vgpu", vgpu), ("numa", numa), ("pcpu", pcpu)] {
        put(&mut table, key, word);
    }
    table
}

fn cpus(cpus: &NodeCpus) -> Table {
    let mut table = Table::new();
    put(&mut table, "online", text(&cpus.online));
    if let Some(shared) = &cpus.shared {
        put(&mut table, "shared", text(shared));
    }
    if let Some(dedicated) = &cpus.dedicated {
        put(&mut table, "dedicated", text(dedicated));
    }
    table
}

fn cell(cell: &HostNumaCell) -> Table {
    let mut table = Table::new();
    put(&mut table, "id", i64::from(cell.id));
    put(&mut table, "cpus", text(&cell.cpus));
    put(&mut table, "memory_mib", number(cell.memory_mib));
    if !cell.siblings.is_empty() {
        put(&mut table, "siblings", texts(&cell.siblings));
    }
    if !cell.huge_pages.is_empty() {
        let pages = cell.huge_pages.iter();
        let pages = pages.map(|(size, count)| (size.to_string(), number(*count)));
        put(&mut table, "huge_pages", Table::from_iter(pages));
    }
    if cell.small_page_kib != 4 {
        put(&mut table, "small_page_kib", number(cell.small_page_kib));
    }
    if let Some(socket) = cell.socket {
        put(&mut table, "socket", i64::from(socket));
    }
    table
}

fn gpu(gpu: &Gpu) -> Table {
    let mut table = Table::new();
    put(&mut table, "address", text(gpu.address));
    if let Some(cell) = gpu.numa_node {
        put(&mut table, "numa", i64::from(cell));
    }
    let types = gpu.types.iter();
    let types = types.map(|(name, count)| (name.clone(), number(*count)));
    put(&mut table, "types", Table::from_iter(types));
    if let Some(enabled) = &gpu.enabled {
        put(&mut table, "enabled", text(enabled));
    }
    put(&mut table, "class", text(&gpu.class));
    table
}

fn nic(nic: &VirtualFunctions) -> Table {
    let mut table = Table::new();
    put(&mut table, "address", text(nic.physical));
    if let Some(cell) = nic.numa_node {
        put(&mut table, "numa", i64::from(cell));
    }
    put(&mut table, "class", text(&nic.class));
    put(&mut table, "functions", texts(&nic.addresses));
    table
}

fn device(device: &OfferedDevice) -> Table {
    let mut table = Table::new();
    put(&mut table, "address", text(device.address));
    put(&mut table, "vendor", format!("{:04x}", device.vendor_id));
    put(&mut table, "product", format!("{:04x}", device.product_id));
    let owner = match device.owner {
        DeviceOwner::Accelerator => "accelerator",
        DeviceOwner::Compute => "compute",
    };
    put(&mut table, "owner", owner);
    put(&mut table, "type", device.device_type.as_str());
    if let Some(model) = &device.model {
        put(&mut table, "model", model.as_str());
    }
    if let Some(cell) = device.numa_node {
        put(&mut table, "numa", i64::from(cell));
    }
    if let Some(group) = &device.link_group {
        put(&mut table, "link_group", group.as_str());
    }
    if let Some(network) = &device.physical_network {
        put(&mut table, "physical_network", network.as_str());
    }
    put(&mut table, "class", text(&device.class));
    put(&mut table, "traits", texts(&device.traits));
    parts(&mut table, device);
    if device.unit == DeviceUnit::Device {
        put(&mut table, "together", true);
    }
    put(&mut table, "one_time_use", device.one_time_use);
    let health = device.condition.reason();
    put(
        &mut table,
        "health",
        health.map_or("ok", |why| why.as_str()),
    );
    table
}

fn parts(table: &mut Table, device: &OfferedDevice) {
    if device.handles == [OfferedHandle::Function(device.address)] {
        return;
    }
    if let Some(OfferedHandle::Mdev { mdev_type, .. }) = device.handles.first() {
        let mut mdevs = Table::new();
        put(&mut mdevs, "type", mdev_type.as_str());
        put(&mut mdevs, "count", number(device.handles.len() as u64));
        put(table, "mdevs", mdevs);
        return;
    }
    let functions = device.handles.iter().filter_map(|handle| match handle {
        OfferedHandle::Function(function) => Some(function),
        OfferedHandle::Mdev { .. } => None,
    });
    put(table, "functions", texts(functions));
}

fn custom(custom: &CustomResource) -> Table {
    let mut table = Table::new();
    put(&mut table, "class", text(&custom.class));
    put(&mut table, "formerly", texts(&custom.formerly));
    put(&mut table, "total", number(custom.total));
    table
}

fn faults(faults: &Faults) -> Value {
    let rows: Vec<_> = faults.iter().collect();
    tables(&rows, |(address, fault)| {
        let mut table = Table::new();
        put(&mut table, "device", text(address));
        put(&mut table, "is", fault.as_str());
        table
    })
}

fn guest(guest: &MachineGuest) -> Table {
    let mut table = Table::new();
    let seen = &guest.seen;
    put(&mut table, "uuid", text(guest.uuid));
    put(&mut table, "name", text(&seen.name));
    put(&mut table, "power", text(seen.power));
    policy(&mut table, seen.cpu_policy);
    put(&mut table, "vcpus", number(seen.vcpus));
    put(&mut table, "memory_mib", number(seen.memory_mib));
    put(&mut table, "disk_gib", number(guest.disk_gib));
    put(&mut table, "cells", tables(&seen.cells, guest_cell));
    put(&mut table, "mdevs", tables(&seen.mdevs, mdev));
    put(&mut table, "functions", texts(&seen.functions));
    put(&mut table, "customs", amounts(&guest.customs));
    if let Some(held) = guest.migration {
        put(&mut table, "migration", migration(held));
    }
    table
}

fn policy(table: &mut Table, policy: GuestCpuPolicy) {
    let word = match policy {
        GuestCpuPolicy::Shared => "shared",
        GuestCpuPolicy::Dedicated => "dedicated",
        GuestCpuPolicy::Mixed { dedicated } => {
            put(table, "dedicated_vcpus", number(dedicated));
            "mixed"
        }
    };
    put(table, "cpu_policy", word);
}

fn guest_cell(cell: &GuestCell) -> Table {
    let mut table = Table::new();
    put(&mut table, "id", i64::from(cell.host_cell));
    put(&mut table, "vcpus", number(cell.vcpus));
    put(&mut table, "memory_mib", number(cell.memory_mib));
    table
}

fn mdev(mdev: &GuestMdev) -> Table {
    let mut table = Table::new();
    put(&mut table, "uuid", text(mdev.uuid));
    if let Some(parent) = mdev.parent {
        put(&mut table, "gpu", text(parent));
    }
    table
}

fn amounts(amounts: &std::collections::BTreeMap<ResourceClass, u64>) -> Table {
    let amounts = amounts.iter();
    amounts
        .map(|(class, amount)| (class.to_string(), number(*amount)))
        .collect()
}

fn migration(migration: Migration) -> Table {
    let mut table = Table::new();
    put(&mut table, "consumer", text(migration.consumer));
    let known = migration.sight == MigrationSight::Known;
    put(&mut table, "known", known);
    table
}
