//! The type of a function by its class code and ids, and its names in Nova and Cyborg.

use std::collections::BTreeSet;

use berth_model::{ResourceClass, Trait};
use berth_virt::{DeviceType, vendor_name};

use super::SeenMdevs;
use crate::{DeviceTags, PciFunction, Sriov};

pub(super) const LIVE_MIGRATABLE: Trait = Trait::known("HW_PCI_LIVE_MIGRATABLE");

const INTEL: u16 = 0x8086;
const AMD: u16 = 0x1002;
const NVIDIA: u16 = 0x10de;
const HUAWEI: u16 = 0x19e5;
const XILINX: u16 = 0x10ee;
const ALTERA: u16 = 0x1172;
const HABANA: u16 = 0x1da3;
const QUALCOMM: u16 = 0x17cb;
const TENSTORRENT: u16 = 0x1e52;

/// Intel's gate arrays that Cyborg's driver knows: the ids of the physical and of the virtual functions, and its name for them.
const INTEL_FPGAS: [(u16, u16, &str); 1] = [(0x09c4, 0x09c5, "PAC_ARRIA10")];

/// What a row of [`KINDS`] is about: functions of a vendor or of any, with one of these products or with any.
struct KnownKind {
    vendor: Option<u16>,
    /// Empty: any.
    products: &'static [u16],
    /// The class code's base class, or base class and subclass; `None`: any.
    class: Option<ClassPrefix>,
    device_type: DeviceType,
}

#[derive(Clone, Copy)]
enum ClassPrefix {
    Base(u8),
    Subclass(u16),
}

impl ClassPrefix {
    fn is_of(self, class: u32) -> bool {
        match self {
            Self::Base(base) => class >> 16 == u32::from(base),
            Self::Subclass(both) => class >> 8 == u32::from(both),
        }
    }
}

const DISPLAY: Option<ClassPrefix> = Some(ClassPrefix::Base(0x03));
const NETWORK: Option<ClassPrefix> = Some(ClassPrefix::Base(0x02));
const NVME: Option<ClassPrefix> = Some(ClassPrefix::Subclass(0x0108));
/// Processing accelerators: gate arrays, processors of neural networks and others.
const PROCESSING: Option<ClassPrefix> = Some(ClassPrefix::Base(0x12));

/// The device types. The first row that a function matches counts. A function without a row is [`DeviceType::Pci`], and the
/// tag `device_type` of its `device_spec` entry comes first. The type gives the default resource class
/// ([`DeviceType::resource_class`]) and the default traits ([`cyborgs_traits`]); the tags `resource_class` and `traits` replace
/// these.
const KINDS: &[KnownKind] = &[
    // Intel's QuickAssist, physical and virtual functions: DH895XCC, C3XXX, C62X, D15XX, 4XXX, 401XX, 402XX, 420XX.
    row(
        INTEL,
        &[
            0x0435, 0x0443, 0x19e2, 0x19e3, 0x37c8, 0x37c9, 0x6f54, 0x6f55, 0x4940, 0x4941, 0x4942,
            0x4943, 0x4944, 0x4945, 0x4946, 0x4947,
        ],
        None,
        DeviceType::Qat,
    ),
    any(DISPLAY, DeviceType::Gpu),
    // AMD's accelerators without a screen are programmed as its graphics cards are.
    row(AMD, &[], PROCESSING, DeviceType::Gpu),
    // Intel's programmable acceleration cards: Arria 10, D5005, N3000.
    row(
        INTEL,
        &[0x09c4, 0x09c5, 0x0b2b, 0x0b2c, 0x0b30, 0x0b31],
        PROCESSING,
        DeviceType::Fpga,
    ),
    row(XILINX, &[], PROCESSING, DeviceType::Fpga),
    row(ALTERA, &[], PROCESSING, DeviceType::Fpga),
    row(HUAWEI, &[], PROCESSING, DeviceType::AiChip),
    // Gaudi, Gaudi 2 and Gaudi 3, also by their virtual functions.
    row(
        HABANA,
        &[
            0x1000, 0x1001, 0x1010, 0x1011, 0x1020, 0x1060, 0x1061, 0x1063,
        ],
        PROCESSING,
        DeviceType::AiChip,
    ),
    // Cloud AI 100 and 80.
    row(QUALCOMM, &[0xa100, 0xa080], PROCESSING, DeviceType::AiChip),
    // Grayskull, Wormhole, Blackhole.
    row(
        TENSTORRENT,
        &[0xfaca, 0x401e, 0xb140],
        PROCESSING,
        DeviceType::AiChip,
    ),
    any(NETWORK, DeviceType::Nic),
    any(NVME, DeviceType::Ssd),
];

const fn row(
    vendor: u16,
    products: &'static [u16],
    class: Option<ClassPrefix>,
    device_type: DeviceType,
) -> KnownKind {
    KnownKind {
        vendor: Some(vendor),
        products,
        class,
        device_type,
    }
}

/// A row for all vendors.
const fn any(class: Option<ClassPrefix>, device_type: DeviceType) -> KnownKind {
    KnownKind {
        vendor: None,
        products: &[],
        class,
        device_type,
    }
}

impl KnownKind {
    fn is_of(&self, function: &PciFunction) -> bool {
        self.vendor.is_none_or(|vendor| vendor == function.vendor)
            && (self.products.is_empty() || self.products.contains(&function.device))
            && self.class.is_none_or(|class| class.is_of(function.class))
    }
}

/// The device type: that of the tag, or of the first row.
pub(super) fn device_type(function: &PciFunction, tags: &DeviceTags) -> DeviceType {
    let known = KINDS.iter().find(|kind| kind.is_of(function));
    let known = known.map_or(DeviceType::Pci, |kind| kind.device_type);
    tags.device_type.unwrap_or(known)
}

/// Whether it is a physical function of a Xilinx card. Cyborg gives these out together, because one manages the card
/// and the other uses it; one alone is useless to a guest. Virtual functions are given out individually.
pub(super) fn is_of_a_xilinx_card(function: &PciFunction, tags: &DeviceTags) -> bool {
    function.vendor == XILINX
        && device_type(function, tags) == DeviceType::Fpga
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

/// The default class of virtual functions with this vGPU type: `CUSTOM_VGPU_TYPE_558`. It has the type's ID, not the vendor's
/// name, because the driver lists the names of only those types that still fit on the GPU.
pub(super) fn vgpu_class(vgpu_type: u32) -> ResourceClass {
    ResourceClass::new(&vgpu_name(vgpu_type)).expect("a number has only a class's characters")
}

/// The trait of virtual functions with this vGPU type: `CUSTOM_VGPU_TYPE_558`.
pub(super) fn vgpu_trait(vgpu_type: u32) -> Trait {
    Trait::new(&vgpu_name(vgpu_type)).expect("a number has only a trait's characters")
}

fn vgpu_name(vgpu_type: u32) -> String {
    format!("CUSTOM_VGPU_TYPE_{vgpu_type}")
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
