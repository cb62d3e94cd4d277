//! The kinds of devices that a guest sees: [`DiskBus`], [`ScsiController`], [`InterfaceModel`], [`VideoModel`], [`InputBus`].
//! The words are Nova's, which are also libvirt's.

use serde::{Deserialize, Serialize};

/// The bus of a guest's disks (`hw_disk_bus`), or of its config drive (`hw_cdrom_bus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskBus {
    /// Paravirtual disks; the guest needs drivers.
    Virtio,
    /// SCSI disks; the controller is a [`ScsiController`].
    Scsi,
    /// SATA disks, which every guest knows.
    Sata,
    /// USB disks.
    Usb,
    /// IDE disks, at most four. Only the machine `pc` has them.
    Ide,
}

/// The controller of SCSI disks (`hw_scsi_model`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScsiController {
    /// An LSI 53C895A.
    Lsilogic,
    /// An LSI SAS1068.
    Lsisas1068,
    /// An LSI MegaRAID SAS1078.
    Lsisas1078,
    /// Paravirtual; the guest needs drivers.
    VirtioScsi,
    /// VMware's paravirtual controller.
    Vmpvscsi,
}

/// The model of a guest's interfaces (`hw_vif_model`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterfaceModel {
    /// Paravirtual; the guest needs drivers. It alone has several queues.
    #[default]
    Virtio,
    /// Intel's gigabit card for PCI.
    E1000,
    /// Intel's gigabit card for PCI Express.
    E1000e,
    /// Intel's gigabit card with virtual functions. The hypervisor must be QEMU 8.0 or newer.
    Igb,
    /// An NE2000 card for PCI.
    Ne2kPci,
    /// AMD's PCnet.
    Pcnet,
    /// Realtek's 100 Mbit/s card.
    Rtl8139,
    /// VMware's paravirtual card.
    Vmxnet3,
}

/// The model of a guest's video card (`hw_video_model`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VideoModel {
    /// Paravirtual, with a VGA mode for guests without drivers.
    #[default]
    Virtio,
    /// A VGA card, which every guest knows.
    Vga,
    /// QEMU's simple display, for UEFI guests.
    Bochs,
    /// A Cirrus Logic GD5446.
    Cirrus,
    /// Red Hat's QXL.
    Qxl,
    /// VMware's SVGA II.
    Vmvga,
    /// No video card: the screen stays empty.
    None,
}

/// The bus of a guest's tablet and keyboard (`hw_input_bus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputBus {
    /// USB, which every guest knows.
    Usb,
    /// Paravirtual; the guest needs drivers.
    Virtio,
}

impl DiskBus {
    /// All buses, in the order of errors. The last one is not on a q35.
    pub const ALL: [Self; 5] = [Self::Virtio, Self::Scsi, Self::Sata, Self::Usb, Self::Ide];

    /// The number of devices that an IDE bus has.
    pub const MOST_ON_IDE: usize = 4;

    /// The buses that a CD-ROM can be on.
    pub const OF_CDROMS: [Self; 4] = [Self::Sata, Self::Scsi, Self::Usb, Self::Ide];

    /// Nova's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Scsi => "scsi",
            Self::Sata => "sata",
            Self::Usb => "usb",
            Self::Ide => "ide",
        }
    }

    /// The start of a disk's name in libvirt: `vd`, `sd` or `hd`.
    #[must_use]
    pub fn device_prefix(self) -> &'static str {
        match self {
            Self::Virtio => "vd",
            Self::Scsi | Self::Sata | Self::Usb => "sd",
            Self::Ide => "hd",
        }
    }
}

impl ScsiController {
    /// All that guests can have, in the order of errors.
    pub const ALL: [Self; 5] = [
        Self::VirtioScsi,
        Self::Lsilogic,
        Self::Lsisas1068,
        Self::Lsisas1078,
        Self::Vmpvscsi,
    ];

    /// Nova's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lsilogic => "lsilogic",
            Self::Lsisas1068 => "lsisas1068",
            Self::Lsisas1078 => "lsisas1078",
            Self::VirtioScsi => "virtio-scsi",
            Self::Vmpvscsi => "vmpvscsi",
        }
    }
}

impl InterfaceModel {
    /// All that guests can have, in the order of errors.
    pub const ALL: [Self; 8] = [
        Self::Virtio,
        Self::E1000,
        Self::E1000e,
        Self::Igb,
        Self::Ne2kPci,
        Self::Pcnet,
        Self::Rtl8139,
        Self::Vmxnet3,
    ];

    /// Nova's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
            Self::Igb => "igb",
            Self::Ne2kPci => "ne2k_pci",
            Self::Pcnet => "pcnet",
            Self::Rtl8139 => "rtl8139",
            Self::Vmxnet3 => "vmxnet3",
        }
    }
}

impl VideoModel {
    /// All that guests can have, in the order of errors.
    pub const ALL: [Self; 7] = [
        Self::Virtio,
        Self::Vga,
        Self::Bochs,
        Self::Cirrus,
        Self::Qxl,
        Self::Vmvga,
        Self::None,
    ];

    /// Nova's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Vga => "vga",
            Self::Bochs => "bochs",
            Self::Cirrus => "cirrus",
            Self::Qxl => "qxl",
            Self::Vmvga => "vmvga",
            Self::None => "none",
        }
    }
}

impl InputBus {
    /// All buses, in the order of errors.
    pub const ALL: [Self; 2] = [Self::Usb, Self::Virtio];

    /// Nova's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usb => "usb",
            Self::Virtio => "virtio",
        }
    }
}
