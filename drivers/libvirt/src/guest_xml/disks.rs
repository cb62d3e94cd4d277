//! The disks in the document: root, ephemeral and swap disks, and the config drive.

use berth_model::{DiskBus, DiskRate, DiskRates, MachineOptions};
use berth_virt::guest_spec::{DiskFormat, GuestSpec, HostPath, QcowDisk};
use serde::Serialize;

use super::domain::TypeElement;
use super::{GuestXmlOptions, of_type};
use crate::architecture::GuestArchitecture;
use crate::options::DiskCache;

#[derive(Serialize)]
pub(super) struct DiskElement<'a> {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(rename = "@device")]
    device: &'static str,
    driver: DiskDriver,
    source: File<'a>,
    #[serde(rename = "backingStore", skip_serializing_if = "Option::is_none")]
    backing_store: Option<BackingStore<'a>>,
    target: DiskTarget,
    #[serde(skip_serializing_if = "Option::is_none")]
    readonly: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iotune: Option<DiskTune>,
}

#[derive(Serialize)]
struct DiskTune {
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_bytes_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_bytes_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_iops_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_iops_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_iops_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes_sec_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_bytes_sec_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_bytes_sec_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_iops_sec_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_iops_sec_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_iops_sec_max: Option<u64>,
}

fn disk_tune(machine: &MachineOptions) -> Option<DiskTune> {
    let limits = machine.limits.disk;
    let per_second = |rate: Option<DiskRate>| rate.map(|rate| rate.per_second);
    let burst = |rate: Option<DiskRate>| rate.and_then(|rate| rate.burst);
    let (bytes, requests) = (limits.bytes, limits.requests);
    let is_limited = bytes != DiskRates::default() || requests != DiskRates::default();
    is_limited.then(|| DiskTune {
        total_bytes_sec: per_second(bytes.total),
        read_bytes_sec: per_second(bytes.read),
        write_bytes_sec: per_second(bytes.write),
        total_iops_sec: per_second(requests.total),
        read_iops_sec: per_second(requests.read),
        write_iops_sec: per_second(requests.write),
        total_bytes_sec_max: burst(bytes.total),
        read_bytes_sec_max: burst(bytes.read),
        write_bytes_sec_max: burst(bytes.write),
        total_iops_sec_max: burst(requests.total),
        read_iops_sec_max: burst(requests.read),
        write_iops_sec_max: burst(requests.write),
    })
}

#[derive(Serialize)]
struct DiskDriver {
    #[serde(rename = "@name")]
    name: &'static str,
    #[serde(rename = "@type")]
    format: &'static str,
    #[serde(rename = "@cache", skip_serializing_if = "Option::is_none")]
    cache: Option<&'static str>,
    #[serde(rename = "@discard", skip_serializing_if = "Option::is_none")]
    discard: Option<&'static str>,
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "@file")]
    file: &'a str,
}

/// The backing image of a disk. An empty one ends the chain, so that libvirt does not probe the file's header.
#[derive(Serialize)]
struct BackingStore<'a> {
    #[serde(rename = "@type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<TypeElement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<File<'a>>,
    #[serde(rename = "backingStore", skip_serializing_if = "Option::is_none")]
    backing_store: Option<Box<BackingStore<'a>>>,
}

const END: BackingStore<'static> = BackingStore {
    kind: None,
    format: None,
    source: None,
    backing_store: None,
};

#[derive(Serialize)]
struct DiskTarget {
    #[serde(rename = "@dev")]
    dev: String,
    #[serde(rename = "@bus")]
    bus: &'static str,
}

pub(super) fn disks<'a>(spec: &'a GuestSpec, options: &GuestXmlOptions) -> Vec<DiskElement<'a>> {
    let (wanted, machine) = (&spec.disks, &spec.machine);
    // Ephemeral disks keep their names without a root disk.
    let root = wanted.root().map(|disk| ('a', disk));
    let letters = root.into_iter().chain(('b'..='z').zip(wanted.ephemeral()));
    let mut disks: Vec<DiskElement<'a>> = letters
        .map(|(letter, disk)| qcow(letter, disk, machine, options.disk_cache))
        .collect();
    // Names are unique in a guest. Disks may use the letters up to this one.
    let next = ('b'..='z').nth(wanted.ephemeral().len());
    let of_disks = machine.bus_of_disks();
    let of_drive = bus_of_drive(machine, options.architecture);
    let letters = match of_disks.device_prefix() == of_drive.device_prefix() {
        true => next.map_or_else(|| "aa".to_owned(), String::from),
        false => "a".to_owned(),
    };
    disks.extend(
        wanted
            .config_drive()
            .map(|path| config_drive(path, &letters, of_drive)),
    );
    disks
}

/// The bus of the config drive. As in Nova, it is not SATA on aarch64, whose machine has no controller for it.
pub(super) fn bus_of_drive(machine: &MachineOptions, architecture: GuestArchitecture) -> DiskBus {
    match (machine.cdrom_bus, architecture) {
        (None, GuestArchitecture::Aarch64) => DiskBus::Scsi,
        _ => machine.bus_of_cdroms(),
    }
}

fn qcow<'a>(
    letter: char,
    disk: &'a QcowDisk,
    machine: &MachineOptions,
    cache: DiskCache,
) -> DiskElement<'a> {
    let bus = machine.bus_of_disks();
    DiskElement {
        kind: "file",
        device: "disk",
        driver: DiskDriver {
            name: "qemu",
            format: "qcow2",
            cache: Some(match cache {
                DiskCache::Bypassed => "none",
                DiskCache::Writeback => "writeback",
            }),
            discard: Some("unmap"),
        },
        source: File {
            file: disk.path.as_str(),
        },
        backing_store: Some(disk.base.as_ref().map_or(END, |base| BackingStore {
            kind: Some("file"),
            format: Some(of_type(match base.format {
                DiskFormat::Raw => "raw",
                DiskFormat::Qcow2 => "qcow2",
            })),
            source: Some(File {
                file: base.path.as_str(),
            }),
            backing_store: Some(Box::new(END)),
        })),
        target: DiskTarget {
            dev: format!("{}{letter}", bus.device_prefix()),
            bus: bus.as_str(),
        },
        readonly: None,
        iotune: disk_tune(machine),
    }
}

fn config_drive<'a>(path: &'a HostPath, letters: &str, bus: DiskBus) -> DiskElement<'a> {
    DiskElement {
        kind: "file",
        device: "cdrom",
        driver: DiskDriver {
            name: "qemu",
            format: "raw",
            cache: None,
            discard: None,
        },
        source: File {
            file: path.as_str(),
        },
        backing_store: None,
        target: DiskTarget {
            dev: format!("{}{letters}", bus.device_prefix()),
            bus: bus.as_str(),
        },
        readonly: Some(()),
        iotune: None,
    }
}
