//! The type of a function by its class code and ids, and its names in Nova and Cyborg.

use std::collections::BTreeSet;

use berth_model::Trait;
use berth_virt::{DeviceType, vendor_name};

use super::SeenMdevs;
use crate::{PciFunction, Sriov};

pub(super) const LIVE_MIGRATABLE: Trait = Trait::known("HW_PCI_LIVE_MIGRATABLE");

const INTEL: u16 = 0x8086;
const AMD: u16 = 0x1002;
const NVIDIA: u16 = 0x10de;
const HUAWEI: u16 = 0x19e5;
const XILINX: u16 = 0x10ee;

/// Intel's gate arrays that Cyborg's driver knows: the ids of the physical and of the virtual functions, and its name for them.
const INTEL_FPGAS: [(u16, u16, &str); 1] = [(0x09c4, 0x09c5, "PAC_ARRIA10")];

/// Intel's QuickAssist functions, physical and virtual: DH895XCC, C3XXX, C62X, D15XX, 4XXX, 401XX, 402XX, 420XX.
const QAT: [u16; 16] = [
    0x0435, 0x0443, 0x19e2, 0x19e3, 0x37c8, 0x37c9, 0x6f54, 0x6f55, 0x4940, 0x4941, 0x4942, 0x4943,
    0x4944, 0x4945, 0x4946, 0x4947,
];

/// The device type. The class code's upper two bytes are base class and subclass.
pub(super) fn device_type(function: &PciFunction) -> DeviceType {
    if function.vendor == INTEL && QAT.contains(&function.device) {
        return DeviceType::Qat;
    }
    match (function.class >> 16, function.class >> 8) {
        (0x03, _) => DeviceType::Gpu,
        // AMD's accelerators without a screen are programmed as its graphics cards are.
        (0x12, _) if function.vendor == AMD => DeviceType::Gpu,
        (0x12, _) if function.vendor == HUAWEI => DeviceType::AiChip,
        (0x12, _) => DeviceType::Fpga,
        (0x02, _) => DeviceType::Nic,
        (_, 0x0108) => DeviceType::Ssd,
        _ => DeviceType::Pci,
    }
}

/// Whether it is a physical function of a Xilinx card. Cyborg gives these out together, because one manages the card
/// and the other uses it; one alone is useless to a guest. Virtual functions are given out individually.
pub(super) fn is_of_a_xilinx_card(function: &PciFunction) -> bool {
    function.vendor == XILINX
        && device_type(function) == DeviceType::Fpga
        && !matches!(function.sriov, Sriov::Virtual { .. })
}

/// Whether it is a virtual function of an FPGA that has its virtual functions as units of one provider in Cyborg.
pub(super) fn is_part_of_an_intel_fpga(function: &PciFunction) -> bool {
    function.vendor == INTEL
        && matches!(function.sriov, Sriov::Virtual { .. })
        && INTEL_FPGAS
            .iter()
            .any(|(_, part, _)| *part == function.device)
}

/// The traits that Cyborg's driver for this type reports, which device profiles request.
pub(super) fn cyborgs_traits(
    function: &PciFunction,
    device_type: DeviceType,
    mdevs: Option<&SeenMdevs>,
    physical_network: Option<&str>,
) -> BTreeSet<Trait> {
    let vendor = vendor_name(function.vendor);
    let product = format!("{:04X}", function.device);
    let of_kind = |kind: &str| {
        let vendor = vendor.map(|vendor| format!("CUSTOM_{kind}_{vendor}"));
        let product = format!("CUSTOM_{kind}_PRODUCT_ID_{product}");
        vendor.into_iter().chain([product]).collect::<Vec<_>>()
    };
    let names = match device_type {
        DeviceType::Gpu if function.vendor == NVIDIA => {
            let of_type = mdevs.and_then(|mdevs| type_suffix(mdevs.type_name.as_deref()?));
            vec![match of_type {
                Some(word) => format!("CUSTOM_NVIDIA_{product}_{word}"),
                None => format!("CUSTOM_NVIDIA_{product}"),
            }]
        }
        DeviceType::Gpu => of_kind("GPU"),
        DeviceType::Fpga => {
            let is_it = |id: &u16| function.vendor == INTEL && *id == function.device;
            let known = INTEL_FPGAS
                .iter()
                .filter(|(whole, part, _)| is_it(whole) || is_it(part))
                .map(|(_, _, name)| format!("CUSTOM_FPGA_INTEL_{name}"));
            of_kind("FPGA").into_iter().chain(known).collect()
        }
        DeviceType::Ssd => of_kind("SSD"),
        DeviceType::AiChip | DeviceType::Pci => of_kind("PCI"),
        DeviceType::Qat => Vec::new(),
        DeviceType::Nic => {
            let part = match function.sriov {
                Sriov::Virtual { .. } => "CUSTOM_VF",
                Sriov::None | Sriov::Physical { .. } => "CUSTOM_PF",
            };
            let network = physical_network.map(|name| format!("CUSTOM_{}", name_part(name)));
            network.into_iter().chain([part.to_owned()]).collect()
        }
    };
    names
        .iter()
        .filter_map(|name| Trait::new(name).ok())
        .collect()
}

/// `T4_2B` for `GRID T4-2B`: the second part, like in Cyborg, or the only one.
fn type_suffix(name: &str) -> Option<String> {
    let mut words = name.split_whitespace();
    let first = words.next()?;
    Some(name_part(words.next().unwrap_or(first)))
}

fn name_part(text: &str) -> String {
    text.chars()
        .map(|c| match c.to_ascii_uppercase() {
            c if c.is_ascii_alphanumeric() => c,
            _ => '_',
        })
        .collect()
}
