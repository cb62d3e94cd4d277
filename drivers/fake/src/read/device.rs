//! Parses a `[[node.device]]`: a device offered as a whole, as virtual functions or as mediated devices.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{NodeName, PciAddress, ProviderUuid, ResourceClass, Trait};
use berth_options::document::{DocumentField, DocumentParser, DocumentTable};
use berth_virt::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, HostNumaCell,
    NetworkFunctionFacts, OfferedDevice, OfferedHandle, UnfitReason,
};

use super::node::{address, numa, within};

/// The most parts that one card is offered in.
const MOST_PARTS: u64 = 256;

const KEYS: [&str; 16] = [
    "address",
    "vendor",
    "product",
    "owner",
    "type",
    "model",
    "numa",
    "link_group",
    "physical_network",
    "class",
    "traits",
    "functions",
    "mdevs",
    "together",
    "one_time_use",
    "health",
];

pub(super) fn device(
    table: &DocumentTable<'_>,
    node: Option<&NodeName>,
    cells: &[HostNumaCell],
    reading: &mut DocumentParser<'_>,
) -> Option<OfferedDevice> {
    table.only(&KEYS, reading);
    let address = address(table, reading);
    let numa_node = numa(table, cells, reading);
    let vendor = id(table, "vendor", "the vendor's id, as \"10de\"", reading);
    let product = id(table, "product", "the product's id, as \"1eb8\"", reading);
    let owners = [
        ("accelerator", DeviceOwner::Accelerator),
        ("compute", DeviceOwner::Compute),
    ];
    let owner = table.field("owner");
    let owner = owner.map_or(Some(DeviceOwner::Accelerator), |field| {
        field.one_of(&owners, reading)
    });
    let types = DeviceType::ALL.map(|one| (one.as_str(), one));
    let device_type = table.field("type");
    let device_type =
        device_type.map_or(Some(DeviceType::Gpu), |field| field.one_of(&types, reading));
    let model = table.field("model").and_then(|field| field.text(reading));
    let link_group = table.field("link_group");
    let link_group = link_group.map(|field| field.parsed(reading));
    let network = table.field("physical_network");
    let network = network.and_then(|field| field.text(reading));
    let traits = table.field("traits").map(|field| field.list(reading));
    let traits = traits.into_iter().flatten();
    let mut traits: BTreeSet<Trait> = traits.filter_map(|field| field.parsed(reading)).collect();
    let once = table.field("one_time_use");
    let one_time_use = once.map_or(Some(false), |field| field.flag(reading));
    let together = table.field("together");
    let together = together.map_or(Some(false), |field| field.flag(reading));
    let condition = condition(table, reading);
    let handles = handles(table, node?, address, reading);
    let (owner, device_type) = (owner?, device_type?);
    let is_parted = table.field("mdevs").is_some();
    let network_functions = match (owner, network) {
        (DeviceOwner::Compute, Some(_)) if table.field("functions").is_some() => {
            network_functions(handles.as_deref().unwrap_or_default())
        }
        _ => BTreeMap::new(),
    };
    let class = match table.field("class") {
        Some(field) => field.parsed(reading),
        None if !network_functions.is_empty() => Some(ResourceClass::SRIOV_NET_VF),
        None if is_parted => Some(ResourceClass::VGPU),
        None if owner == DeviceOwner::Compute => Some(ResourceClass::pci_device(vendor?, product?)),
        None => Some(device_type.resource_class()),
    };
    if !network_functions.is_empty() {
        traits.extend(network.map(Trait::physical_network));
    }
    Some(OfferedDevice {
        address: address?,
        vendor_id: vendor?,
        product_id: product?,
        owner,
        device_type,
        model: model.map(str::to_owned),
        numa_node,
        link_group: match link_group {
            Some(read) => Some(read?),
            None => None,
        },
        physical_network: network.map(str::to_owned),
        network_functions,
        class: class?,
        class_origin: ClassOrigin::Configured,
        traits,
        handles: handles?,
        unit: match together? {
            true => DeviceUnit::Device,
            false => DeviceUnit::Handle,
        },
        unfit_handles: BTreeSet::new(),
        one_time_use: one_time_use?,
        condition: condition?,
    })
}

/// The virtual functions of a network card, numbered in their order.
fn network_functions(handles: &[OfferedHandle]) -> BTreeMap<PciAddress, NetworkFunctionFacts> {
    let functions = handles.iter().filter_map(|handle| match handle {
        OfferedHandle::Function(address) => Some(*address),
        OfferedHandle::Mdev { .. } => None,
    });
    let facts = |number| NetworkFunctionFacts {
        number: Some(number),
        physical_mac: None,
    };
    (0..)
        .zip(functions)
        .map(|(number, address)| (address, facts(number)))
        .collect()
}

fn id(
    table: &DocumentTable<'_>,
    key: &str,
    right: &str,
    reading: &mut DocumentParser<'_>,
) -> Option<u16> {
    let field = table.need(key, right, reading)?;
    let text = field.text(reading)?;
    let id = Some(text)
        .filter(|text| text.len() == 4)
        .and_then(|text| u16::from_str_radix(text, 16).ok());
    if id.is_none() {
        let shown: String = text.chars().take(40).collect();
        let text = format!("{shown:?} is not four hexadecimal digits; {right}");
        field.wrong(text, reading);
    }
    id
}

fn condition(
    table: &DocumentTable<'_>,
    reading: &mut DocumentParser<'_>,
) -> Option<DeviceCondition> {
    let Some(field) = table.field("health") else {
        return Some(DeviceCondition::Fit);
    };
    let unfit = UnfitReason::ALL
        .iter()
        .map(|reason| (reason.as_str(), DeviceCondition::Unfit { reason: *reason }));
    let words: Vec<_> = [("ok", DeviceCondition::Fit)]
        .into_iter()
        .chain(unfit)
        .collect();
    field.one_of(&words, reading)
}

/// The handles of guests: virtual functions, mediated devices, or the device itself.
fn handles(
    table: &DocumentTable<'_>,
    node: &NodeName,
    device: Option<PciAddress>,
    reading: &mut DocumentParser<'_>,
) -> Option<Vec<OfferedHandle>> {
    match (table.field("functions"), table.field("mdevs")) {
        (Some(_), Some(mdevs)) => {
            let text = "a card is offered by functions or by mdevs, not by both";
            mdevs.wrong(text, reading);
            None
        }
        (Some(functions), None) => {
            let mut addresses = BTreeSet::new();
            for field in functions.list(reading) {
                if let Some(function) = field.parsed::<PciAddress>(reading) {
                    // The first function of a device that is offered as a whole is the device itself.
                    if device != Some(function) {
                        reading.once("PCI device", within(table, function), &field);
                    }
                    addresses.insert(function);
                }
            }
            Some(addresses.into_iter().map(OfferedHandle::Function).collect())
        }
        (None, Some(mdevs)) => self::mdevs(&mdevs, node, device, reading),
        (None, None) => Some(vec![OfferedHandle::Function(device?)]),
    }
}

fn mdevs(
    field: &DocumentField<'_>,
    node: &NodeName,
    device: Option<PciAddress>,
    reading: &mut DocumentParser<'_>,
) -> Option<Vec<OfferedHandle>> {
    let table = field.table(reading)?;
    table.only(&["type", "count"], reading);
    let mdev_type = table.need("type", "the mediated devices' type", reading);
    let mdev_type = mdev_type.and_then(|field| field.text(reading));
    let count = table.need("count", "how many there can be", reading);
    let count = count.and_then(|field| field.number(1..=MOST_PARTS, "devices", reading));
    let (parent, mdev_type, count) = (device?, mdev_type?, count?);
    let provider = ProviderUuid::of_deployable(&node.deployable_name(parent));
    let handle = |number| OfferedHandle::Mdev {
        uuid: OfferedHandle::mdev_uuid(provider, number),
        parent,
        mdev_type: mdev_type.to_owned(),
    };
    Some((0..count).map(handle).collect())
}
