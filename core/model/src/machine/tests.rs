//! What a flavor and an image make of a guest.

mod effects;
mod nova_keys;

use super::*;

fn map(pairs: &str) -> BTreeMap<String, String> {
    let pairs = pairs.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        (key.to_owned(), value.replace('~', " "))
    });
    pairs.collect()
}

fn machine(vcpus: u32, specs: &str, properties: &str) -> Result<GuestMachine, GuestMachineError> {
    GuestMachine::of(vcpus, 1024, &map(specs), &map(properties))
}

#[test]
fn what_hosts_honour_of_a_flavor_and_an_image_is_in_the_machine() {
    let plain = machine(4, "", "").unwrap();
    assert!(plain.options.is_default());
    assert_eq!(plain.firmware, GuestFirmware::Bios);
    let options = machine(
        4,
        "hw:watchdog_action=reset hw:hide_hypervisor_id=true hw:boot_menu=1 hw:vif_multiqueue_enabled=yes hw:pmu=off \
         hw_rng:allowed=True hw_rng:rate_bytes=64 hw_rng:rate_period=500 hw:cpu_max_sockets=1 hw_video:ram_max_mb=16",
        "hw_machine_type=pc-q35-7.2",
    )
    .unwrap()
    .options;
    assert_eq!(options.watchdog, Some(WatchdogAction::Reset));
    assert!(options.hides_hypervisor && options.boot_menu && options.multiqueue);
    assert_eq!(options.pmu, Some(false));
    let rng = RngDevice::Limited {
        bytes: 64,
        period_ms: Some(500),
    };
    assert_eq!(options.rng, rng);
    assert_eq!(options.machine_type.unwrap().as_str(), "pc-q35-7.2");
    // The image has the last word, as in Nova.
    let image = machine(
        4,
        "hw:watchdog_action=reset hw:boot_menu=true",
        "hw_watchdog_action=disabled hw_boot_menu=no img_hide_hypervisor_id=1 hw_machine_type=q35",
    );
    let image = image.unwrap().options;
    assert_eq!((image.watchdog, image.boot_menu), (None, false));
    assert!(image.hides_hypervisor && image.machine_type.is_none());
}

#[test]
fn a_cpu_topology_is_chosen_as_in_nova() {
    for (vcpus, specs, properties, expected) in [
        (4, "hw:cpu_max_sockets=1", "", [1, 4, 1]),
        (8, "hw:cpu_sockets=2", "", [2, 4, 1]),
        (8, "hw:cpu_threads=2", "", [4, 1, 2]),
        (8, "hw:cpu_sockets=2 hw:cpu_threads=2", "", [2, 2, 2]),
        // A wish that cannot be met is none.
        (4, "hw:cpu_sockets=3", "", [4, 1, 1]),
        (4, "hw:cpu_sockets=4", "hw_cpu_sockets=2", [2, 2, 1]),
        (4, "hw:cpu_sockets=4", "hw_cpu_max_sockets=2", [2, 2, 1]),
    ] {
        let options = machine(vcpus, specs, properties).unwrap().options;
        let found = options.cpu_topology.unwrap();
        let found = [found.sockets, found.cores, found.threads];
        assert_eq!(found, expected, "{specs} {properties}");
    }
}

#[test]
fn the_devices_and_limits_of_a_flavor_and_an_image_are_in_the_machine() {
    let options = |specs: &str, properties: &str| machine(4, specs, properties).unwrap().options;
    let devices = options(
        "hw:virtio_packed_ring=true",
        "hw_disk_bus=scsi hw_cdrom_bus=usb hw_scsi_model=Paravirtual hw_vif_model=VirtualE1000e \
         hw_qemu_guest_agent=yes hw_time_hpet=true os_type=Windows hw_rng_model=virtio",
    );
    let expected = MachineOptions {
        disk_bus: Some(DiskBus::Scsi),
        cdrom_bus: Some(DiskBus::Usb),
        scsi_controller: Some(ScsiController::Vmpvscsi),
        interface_model: InterfaceModel::E1000e,
        packed_ring: true,
        guest_agent: true,
        hpet: true,
        windows: true,
        ..MachineOptions::default()
    };
    assert_eq!(devices, expected);
    for (specs, properties, width) in [
        (
            "hw:maxphysaddr_mode=passthrough",
            "",
            AddressWidth::Passthrough,
        ),
        (
            "hw:maxphysaddr_mode=emulate hw:maxphysaddr_bits=46",
            "hw_maxphysaddr_mode=emulate hw_maxphysaddr_bits=40",
            AddressWidth::Emulated(46),
        ),
        (
            "",
            "hw_maxphysaddr_mode=emulate hw_maxphysaddr_bits=52",
            AddressWidth::Emulated(52),
        ),
    ] {
        let found = options(specs, properties).address_width;
        assert_eq!(found, Some(width), "{specs} {properties}");
    }
    let limits = options(
        "quota:cpu_shares=200 quota:cpu_period=20000 quota:cpu_quota=10000 quota:disk_read_bytes_sec=1000 \
         quota:disk_read_bytes_sec_max=2000 quota:disk_total_iops_sec=50 quota:vif_inbound_average=128 \
         quota:vif_inbound_burst=64 quota:vif_outbound_average=256 quota:disk_write_bytes_sec=0",
        "",
    )
    .limits;
    let rate = |per_second, burst| Some(DiskRate { per_second, burst });
    let traffic = |average, burst| {
        Some(TrafficLimit {
            average,
            peak: None,
            burst,
        })
    };
    let expected = GuestLimits {
        cpu: CpuLimits {
            shares: Some(200),
            period_us: Some(20_000),
            quota_us: Some(10_000),
        },
        disk: DiskLimits {
            bytes: DiskRates {
                read: rate(1000, Some(2000)),
                ..DiskRates::default()
            },
            requests: DiskRates {
                total: rate(50, None),
                ..DiskRates::default()
            },
        },
        inbound: traffic(128, Some(64)),
        outbound: traffic(256, None),
    };
    assert_eq!(limits, expected);
    // A negative quota and a rate of 0 are no limits, as in Nova.
    let none = options(
        "quota:cpu_quota=-1 quota:cpu_period=0 quota:vif_inbound_average=0",
        "",
    );
    assert!(none.is_default());
}

#[test]
fn a_pc_has_ide_and_no_pci_express() {
    let options = |properties: &str| machine(1, "", properties).unwrap().options;
    for (properties, is_pc, of_disks, of_cdroms) in [
        ("", false, DiskBus::Virtio, DiskBus::Sata),
        ("hw_machine_type=pc", true, DiskBus::Virtio, DiskBus::Ide),
        (
            "hw_machine_type=pc-i440fx-7.2 hw_disk_bus=ide hw_cdrom_bus=sata",
            true,
            DiskBus::Ide,
            DiskBus::Sata,
        ),
        (
            "hw_machine_type=pc-q35-7.2",
            false,
            DiskBus::Virtio,
            DiskBus::Sata,
        ),
    ] {
        let options = options(properties);
        let found = (
            options.is_pc(),
            options.bus_of_disks(),
            options.bus_of_cdroms(),
        );
        assert_eq!(found, (is_pc, of_disks, of_cdroms), "{properties}");
    }
}

#[test]
fn a_node_that_reports_capabilities_must_have_those_of_the_machine() {
    let traits = |names: &str| {
        names
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect()
    };
    let node =
        traits("COMPUTE_NET_VIF_MODEL_VIRTIO COMPUTE_STORAGE_BUS_VIRTIO COMPUTE_STORAGE_BUS_SATA");
    let missing = |specs: &str, properties: &str| {
        let missing = machine(1, specs, properties)
            .unwrap()
            .options
            .missing_on(&node);
        missing.map(|(key, name)| format!("{key} {name}"))
    };
    assert_eq!(
        missing("", "hw_disk_bus=sata hw_cdrom_bus=sata hw_vif_model=virtio"),
        None
    );
    for (specs, properties, expected) in [
        (
            "",
            "hw_disk_bus=scsi",
            "hw_disk_bus COMPUTE_STORAGE_BUS_SCSI",
        ),
        (
            "",
            "hw_cdrom_bus=usb",
            "hw_cdrom_bus COMPUTE_STORAGE_BUS_USB",
        ),
        (
            "",
            "hw_vif_model=igb",
            "hw_vif_model COMPUTE_NET_VIF_MODEL_IGB",
        ),
        (
            "",
            "hw_video_model=qxl",
            "hw_video_model COMPUTE_GRAPHICS_MODEL_QXL",
        ),
        (
            "hw:maxphysaddr_mode=passthrough",
            "",
            "hw:maxphysaddr_mode COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
        ),
        (
            "hw:virtio_packed_ring=true",
            "",
            "hw:virtio_packed_ring COMPUTE_NET_VIRTIO_PACKED",
        ),
    ] {
        assert_eq!(missing(specs, properties).as_deref(), Some(expected));
    }
    // A driver that reports no capabilities is not asked for them.
    let silent = traits("HW_CPU_X86_AVX2");
    let options = machine(1, "", "hw_vif_model=igb").unwrap().options;
    assert_eq!(options.missing_on(&silent), None);
}

#[test]
fn a_record_without_the_newer_options_has_their_defaults() {
    let old = r#"{"hides_hypervisor":true,"boot_menu":false,"multiqueue":false,"rng":"unlimited"}"#;
    let read: MachineOptions = serde_json::from_str(old).unwrap();
    let expected = MachineOptions {
        hides_hypervisor: true,
        ..MachineOptions::default()
    };
    assert_eq!(read, expected);
    // An earlier release can read the record of a guest that uses none of them.
    assert_eq!(serde_json::to_string(&expected).unwrap(), old);
}

#[test]
fn what_no_host_can_build_is_refused_with_its_key() {
    for (specs, properties, expected) in [
        (
            "quota:cpu_shares=10001",
            "",
            "flavor.extra_specs: quota:cpu_shares is \"10001\": expected 1 to 10000",
        ),
        (
            "quota:cpu_quota=5",
            "",
            "flavor.extra_specs: quota:cpu_quota is \"5\": expected 1000 to 17592186044415 microseconds, or -1 for no limit",
        ),
        (
            "quota:disk_io_limit=5",
            "",
            "flavor.extra_specs: quota:disk_io_limit is not supported: only hosts of VMware read it",
        ),
        (
            "quota:disk_read_bytes_sec=9 quota:disk_read_bytes_sec_max=8",
            "",
            "flavor.extra_specs: quota:disk_read_bytes_sec_max is \"8\": expected at least quota:disk_read_bytes_sec, 9",
        ),
        (
            "quota:disk_read_iops_sec_max=8",
            "",
            "flavor.extra_specs: quota:disk_read_iops_sec_max is \"8\": quota:disk_read_iops_sec is missing",
        ),
        (
            "quota:disk_total_iops_sec=8 quota:disk_write_iops_sec=4",
            "",
            "flavor.extra_specs: quota:disk_total_iops_sec is \"8\": a total excludes quota:disk_read_iops_sec",
        ),
        (
            "quota:vif_outbound_peak=8",
            "",
            "flavor.extra_specs: quota:vif_outbound_peak is \"8\": quota:vif_outbound_average is missing",
        ),
        (
            "quota:vif_outbound_average=fast",
            "",
            "flavor.extra_specs: quota:vif_outbound_average is \"fast\": expected a whole number from 0 on",
        ),
        (
            "hw:maxphysaddr_mode=emulate",
            "",
            "flavor.extra_specs: hw:maxphysaddr_mode is \"emulate\": maxphysaddr_bits is missing, such as 46",
        ),
        (
            "hw:maxphysaddr_mode=passthrough hw:maxphysaddr_bits=46",
            "",
            "flavor.extra_specs: hw:maxphysaddr_bits is \"46\": maxphysaddr_mode=passthrough takes no number",
        ),
        (
            "hw:maxphysaddr_bits=46",
            "",
            "flavor.extra_specs: hw:maxphysaddr_bits is \"46\": maxphysaddr_mode is missing",
        ),
        (
            "",
            "hw_maxphysaddr_mode=emulate hw_maxphysaddr_bits=53",
            "image.properties: hw_maxphysaddr_bits: expected 32 to 52",
        ),
        (
            "hw:maxphysaddr_mode=passthrough",
            "hw_maxphysaddr_mode=emulate hw_maxphysaddr_bits=46",
            "image.properties: hw_maxphysaddr_mode: it contradicts hw:maxphysaddr_mode of the flavor",
        ),
        (
            "quota:disk_read_bytes_sec=1000000000000001",
            "",
            "flavor.extra_specs: quota:disk_read_bytes_sec is \"1000000000000001\": expected at most 1000000000000000",
        ),
        (
            "",
            "hw_cdrom_bus=virtio",
            "image.properties: hw_cdrom_bus: guests cannot have \"virtio\"; expected sata, scsi, usb, ide",
        ),
        (
            "",
            "hw_disk_bus=ide",
            "image.properties: hw_disk_bus: a q35 has no IDE bus; expected virtio, scsi, sata or usb, or hw_machine_type=pc",
        ),
        (
            "",
            "hw_cdrom_bus=ide hw_machine_type=pc-q35-7.2",
            "image.properties: hw_cdrom_bus: a q35 has no IDE bus",
        ),
        (
            "",
            "hw_disk_bus=fdc",
            "image.properties: hw_disk_bus: guests cannot have \"fdc\"; expected virtio, scsi, sata, usb, ide",
        ),
        (
            "",
            "hw_machine_type=pc hw_firmware_type=uefi os_secure_boot=required",
            "image.properties: hw_machine_type: secure boot needs a q35",
        ),
        (
            "",
            "hw_machine_type=isapc",
            "image.properties: hw_machine_type: expected q35, pc, pc-q35-VERSION or pc-i440fx-VERSION",
        ),
        (
            "",
            "hw_vif_model=netfront",
            "image.properties: hw_vif_model: guests cannot have \"netfront\"; expected virtio, e1000",
        ),
        (
            "hw:virtio_packed_ring=true",
            "hw_virtio_packed_ring=false",
            "image.properties: hw_virtio_packed_ring: it contradicts hw:virtio_packed_ring of the flavor",
        ),
        (
            "",
            "hw_video_model=xen",
            "image.properties: hw_video_model: guests cannot have \"xen\"; expected virtio, vga, bochs, cirrus, qxl, vmvga, none",
        ),
        (
            "hw_video:ram_max_mb=16",
            "hw_video_ram=32",
            "image.properties: hw_video_ram: the flavor's hw_video:ram_max_mb allows at most 16 MiB",
        ),
        (
            "",
            "hw_video_ram=1",
            "image.properties: hw_video_ram: the flavor's hw_video:ram_max_mb allows at most 0 MiB",
        ),
        (
            "",
            "hw_pointer_model=mouse",
            "image.properties: hw_pointer_model is not supported: guests have a USB tablet",
        ),
        (
            "",
            "kernel_id=8f2b",
            "image.properties: kernel_id is not supported: guests start from their disk",
        ),
        (
            "",
            "img_block_device_mapping=[{}]",
            "image.properties: img_block_device_mapping is not supported: hosts have no volumes",
        ),
        (
            "",
            "hw_emulation_architecture=aarch64",
            "image.properties: hw_emulation_architecture is not supported: guests have the architecture of their host",
        ),
        (
            "hw:tpm_version=2.0",
            "",
            "flavor.extra_specs: hw:tpm_version is not supported: guests have no TPM",
        ),
        (
            "hw:cpu_realtime=true",
            "",
            "flavor.extra_specs: hw:cpu_realtime is not supported",
        ),
        (
            "hw:mem_encryption=true",
            "",
            "image.properties: hw_firmware_type: memory encryption needs uefi",
        ),
        (
            "hw:mem_encryption=true",
            "hw_firmware_type=uefi hw_machine_type=pc",
            "image.properties: hw_machine_type: memory encryption needs a q35",
        ),
        (
            "berth:pci_topology=host",
            "hw_machine_type=pc",
            "image.properties: hw_machine_type: the PCI topology of the host (berth:pci_topology) needs a q35",
        ),
        (
            "berth:pci_topology=flat",
            "",
            "flavor.extra_specs: berth:pci_topology is \"flat\": expected one of host",
        ),
        (
            "",
            "berth_pci_topology=flat",
            "image.properties: berth_pci_topology: expected host",
        ),
        (
            "",
            "berth_pci_topolgy=host",
            "image.properties: unknown image property berth_pci_topolgy; did you mean berth_pci_topology?",
        ),
        (
            "hw:mem_encryption=true",
            "hw_firmware_type=uefi hw_mem_encryption=false",
            "image.properties: hw_mem_encryption: it contradicts hw:mem_encryption of the flavor",
        ),
        (
            "hw:mem_encryption=true hw:mem_encryption_model=intel-tdx",
            "hw_firmware_type=uefi",
            "flavor.extra_specs: hw:mem_encryption_model is \"intel-tdx\": hosts encrypt memory by amd-sev or amd-sev-es",
        ),
        (
            "hw:mem_encryption_model=amd-sev",
            "hw_firmware_type=uefi hw_mem_encryption=true hw_mem_encryption_model=amd-sev-snp",
            "image.properties: hw_mem_encryption_model: it contradicts hw:mem_encryption_model of the flavor",
        ),
        (
            "",
            "hw_firmware_type=uefi hw_mem_encryption=true hw_mem_encryption_model=amd-sev-snp",
            "image.properties: hw_mem_encryption_model: hosts encrypt memory by amd-sev or amd-sev-es",
        ),
        (
            "",
            "hw_firmware_stateless=true",
            "image.properties: hw_firmware_type: hw_firmware_stateless needs uefi",
        ),
        (
            "hw:cpu_polcy=dedicated",
            "",
            "flavor.extra_specs: unknown extra spec hw:cpu_polcy; did you mean hw:cpu_policy?",
        ),
        (
            "hw_rng:alowed=true",
            "",
            "flavor.extra_specs: unknown extra spec hw_rng:alowed",
        ),
        (
            "hw:watchdog_action=dance",
            "",
            "flavor.extra_specs: hw:watchdog_action is \"dance\": expected one of",
        ),
        (
            "hw:boot_menu=maybe",
            "",
            "flavor.extra_specs: hw:boot_menu is \"maybe\": expected true or false",
        ),
        (
            "hw:cpu_sockets=0",
            "",
            "flavor.extra_specs: hw:cpu_sockets is \"0\": expected a whole number from 1",
        ),
        (
            "hw:cpu_max_sockets=1 hw:cpu_max_cores=2 hw:cpu_max_threads=1",
            "",
            "flavor.extra_specs: hw:cpu_max_sockets is \"1\": 4 virtual CPUs",
        ),
        (
            "hw:mem_page_size=2~MB",
            "",
            "flavor.extra_specs: hw:mem_page_size is \"2 MB\": expected small",
        ),
        (
            "hw:mem_page_size=1GB hw:numa_nodes=2",
            "",
            "flavor.extra_specs: hw:mem_page_size is \"1GB\": the 512 MiB of a cell",
        ),
        (
            "hw:numa_nodes=3",
            "",
            "flavor.extra_specs: hw:numa_nodes is \"3\": 4 virtual CPUs cannot be divided evenly",
        ),
        (
            "hw:cpu_thread_policy=isolate",
            "",
            "flavor.extra_specs: hw:cpu_thread_policy is \"isolate\": has an effect only",
        ),
        (
            "hw:cpu_max_sockets=1",
            "hw_cpu_max_sockets=2",
            "image.properties: hw_cpu_max_sockets: the flavor's",
        ),
        (
            "hw:vif_multiqueue_enabled=no",
            "hw_vif_multiqueue_enabled=yes",
            "image.properties: hw_vif_multiqueue_enabled: ",
        ),
        (
            "",
            "cinder_encryption_key_id=8f2b",
            "image.properties: Direct booting of an image uploaded from an encrypted volume is unsupported.",
        ),
        (
            "",
            "hw_tpm_version=2.0",
            "image.properties: hw_tpm_version is not supported: guests have no TPM",
        ),
        (
            "os:secure_boot=required",
            "",
            "image.properties: hw_firmware_type: secure boot is required and needs uefi",
        ),
        (
            "os:secure_boot=maybe",
            "",
            "flavor.extra_specs: os:secure_boot is \"maybe\": ",
        ),
    ] {
        let refused = machine(4, specs, properties).unwrap_err().to_string();
        assert!(
            refused.starts_with(expected),
            "{specs} {properties}: {refused}"
        );
    }
}

#[test]
fn what_requests_nothing_is_no_reason_to_refuse() {
    for specs in [
        "hw:cpu_realtime=no",
        "hw:mem_encryption=False",
        "hw:serial_port_count=1",
        "hw_rng:allowed=false",
        "vmware:hw_version=7",
        "trait:CUSTOM_A=required",
        "capabilities:cpu_info:arch=x86_64",
        "mine:key=1",
    ] {
        assert!(machine(4, specs, "").is_ok(), "{specs}");
    }
}

#[test]
fn image_properties_place_a_guest_like_extra_specs() {
    let of_image = machine(4, "", "hw_cpu_policy=dedicated hw_numa_nodes=2").unwrap();
    let of_flavor = machine(4, "hw:cpu_policy=dedicated hw:numa_nodes=2", "").unwrap();
    assert_eq!(of_image, of_flavor);
    assert_eq!(of_image.placement.cells().len(), 2);
}

#[test]
fn a_flavor_or_an_image_requests_the_pci_topology_of_the_host() {
    for (specs, properties, expected) in [
        ("", "", false),
        ("berth:pci_topology=host", "", true),
        ("", "berth_pci_topology=host", true),
        (
            "berth:pci_topology=host",
            "berth_pci_topology=host hw_machine_type=pc-q35-7.2",
            true,
        ),
    ] {
        let options = machine(1, specs, properties).unwrap().options;
        assert_eq!(options.host_pci_topology, expected, "{specs} {properties}");
    }
}

#[test]
fn options_are_stored_and_read_back() {
    let options = machine(
        4,
        "hw:watchdog_action=pause hw:cpu_cores=4 hw_rng:allowed=no berth:pci_topology=host",
        "hw_machine_type=pc-q35-7.2",
    );
    let options = options.unwrap().options;
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(
        serde_json::from_str::<MachineOptions>(&text).unwrap(),
        options
    );
    let other = r#"{"machine_type": "pc-i440fx"}"#;
    assert!(serde_json::from_str::<MachineOptions>(other).is_err());
}

#[test]
fn an_image_alone_is_refused_if_no_flavor_could_go_with_it() {
    for properties in [
        "",
        "hw_cpu_sockets=4 hw_cpu_max_sockets=4",
        "hw_firmware_type=uefi os_secure_boot=required",
        "hw_maxphysaddr_bits=46",
        "hw_maxphysaddr_mode=emulate",
        "hw_disk_bus=ide hw_machine_type=pc",
        "hw_numa_nodes=8",
        "mine=x",
    ] {
        assert_eq!(
            GuestMachine::check_image(&map(properties)),
            Ok(()),
            "{properties}"
        );
    }
    for (properties, text) in [
        (
            "hw_machine_type=i440",
            "image.properties: hw_machine_type: expected q35, pc, pc-q35-VERSION or pc-i440fx-VERSION",
        ),
        (
            "hw_maxphysaddr_bits=99",
            "image.properties: hw_maxphysaddr_bits: expected 32 to 52",
        ),
        (
            "hw_machine_type=pc hw_firmware_type=uefi os_secure_boot=required",
            "image.properties: hw_machine_type: secure boot needs a q35",
        ),
        (
            "hw_tpm_version=2.0",
            "image.properties: hw_tpm_version is not supported: guests have no TPM",
        ),
    ] {
        let refused = GuestMachine::check_image(&map(properties)).unwrap_err();
        assert_eq!(refused.to_string(), text);
    }
}
