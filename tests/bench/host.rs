//! The measured host: eight GPUs, and guests with one unit each. At first all units are on the root, as an old version
//! reported them. Then each GPU gets its own provider, so the next start must reshape.

use std::collections::BTreeMap;
use std::fs;

use berth_fake::{GpuHost, Machine, initial_allocations, initial_tree};
use berth_model::{Allocations, NodeName, ProviderUuid, ResourceClass};
use berth_tests::berth::BerthHome;
use berth_virt::{ResourceModel, VgpuModel};
use serde_json::{Value, json};

use crate::Outcome;
use crate::placement::Api;

/// The measured host's name.
pub(crate) const NAME: &str = "bench";
/// How many GPUs it has.
pub(crate) const GPUS: u8 = 8;

/// The host with this many guests, modelled one way or the other.
pub(crate) fn machine(guests: u32, vgpu: VgpuModel) -> Outcome<Machine> {
    let mut machine = Machine::gpu_host(&GpuHost {
        name: NodeName::new(NAME)?,
        gpus: GPUS,
        guests,
        second_unit_every: 0,
        migration_every: 0,
        model: ResourceModel {
            vgpu,
            ..ResourceModel::default()
        },
    });
    for node in &mut machine.nodes {
        // Room for a host without guests to report, too.
        node.memory_mib += 4096;
        node.disk = berth_virt::NodeDisk::Local {
            gib: u64::from(guests) + 100,
        };
    }
    Ok(machine)
}

/// Makes `berth` in this home be the host, modelled so.
pub(crate) fn write_machine(home: &BerthHome, guests: u32, vgpu: VgpuModel) -> Outcome<()> {
    home.write("machine.toml", &machine(guests, vgpu)?.to_toml())?;
    Ok(())
}

/// The UUID of the host's root provider, once an agent ran in this home.
pub(crate) fn root(home: &BerthHome) -> Outcome<ProviderUuid> {
    let text = fs::read_to_string(home.state_dir().join("compute_id"))?;
    Ok(text.trim().parse()?)
}

/// What the guests hold on a root with everything on it.
pub(crate) fn held(guests: u32, root: ProviderUuid) -> Outcome<Allocations> {
    let machine = machine(guests, VgpuModel::Root)?;
    let node = NodeName::new(NAME)?;
    let tree = initial_tree(&machine, &node, root)?;
    Ok(initial_allocations(&machine, &node, &tree))
}

/// Claims what the guests hold, a hundred guests a request.
pub(crate) fn claim(api: &Api, guests: u32, root: ProviderUuid) -> Outcome<()> {
    let held = held(guests, root)?;
    let mut claims = serde_json::Map::new();
    for (consumer, of) in held.consumers() {
        let resources: BTreeMap<_, _> = of
            .resources
            .iter()
            .map(|((_, class), amount)| (class.to_string(), amount))
            .collect();
        let claim = json!({"project_id": of.project_id, "user_id": of.user_id, "consumer_generation": null,
            "allocations": {root.to_string(): {"resources": resources}}});
        claims.insert(consumer.to_string(), claim);
        if claims.len() == 100 {
            api.post("/allocations", &Value::Object(std::mem::take(&mut claims)))?;
        }
    }
    if !claims.is_empty() {
        api.post("/allocations", &Value::Object(claims))?;
    }
    Ok(())
}

/// Per guest the name of its GPU, as libvirt names the device.
pub(crate) fn gpus_of_guests(guests: u32) -> Outcome<BTreeMap<String, String>> {
    let machine = machine(guests, VgpuModel::Root)?;
    let all = machine.nodes.iter().flat_map(|node| &node.guests);
    Ok(all
        .filter_map(|guest| {
            let gpu = guest.seen.mdevs.first()?.parent?;
            Some((guest.uuid.to_string(), gpu.nodedev_name().to_string()))
        })
        .collect())
}

/// The GPUs' names, as libvirt names the devices, and the units of each.
pub(crate) fn gpus(guests: u32) -> Outcome<BTreeMap<String, u64>> {
    let machine = machine(guests, VgpuModel::Root)?;
    let all = machine.nodes.iter().flat_map(|node| &node.gpus);
    Ok(all
        .map(|gpu| {
            (
                gpu.address.nodedev_name().to_string(),
                gpu.types.values().sum(),
            )
        })
        .collect())
}

/// Whether every unit is on a GPU's provider now, and none on the root.
pub(crate) fn is_reshaped(api: &Api, guests: u32, root: ProviderUuid) -> Outcome<bool> {
    let class = ResourceClass::VGPU.to_string();
    let tree = api.get(&format!("/resource_providers?in_tree={root}"))?;
    let mut moved = 0;
    for provider in tree["resource_providers"].as_array().into_iter().flatten() {
        let uuid = provider["uuid"].as_str().unwrap_or_default();
        let usages = api.get(&format!("/resource_providers/{uuid}/usages"))?;
        match usages["usages"][&class].as_u64() {
            Some(used) if uuid != root.to_string() => moved += used,
            Some(_) => return Ok(false),
            None => {}
        }
    }
    Ok(moved == u64::from(guests))
}
