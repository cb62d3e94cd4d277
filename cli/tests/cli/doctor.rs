//! `berth doctor` on a tree that looks like a good host, and with one fault planted at a time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use berth_cli::commands::doctor::checks;
use berth_cli::commands::doctor::facts::HostFacts;
use berth_cli::commands::doctor::finding::{CheckContext, CheckReport, Status, examine};
use berth_cli::commands::doctor::placement_observation::{Answers, PlacementObservation};
use berth_config::ConfigDocument;
use tempfile::TempDir;

/// A host to be examined: a tree, a configuration, a Placement.
struct Tree {
    directory: TempDir,
    config: String,
    placement: PlacementObservation,
    _listeners: Vec<UnixListener>,
}

const CONFIG: &str = r#"
host = "node-1"
[compute]
cpu_shared_set = "0-3"
[devices]
enabled_mdev_types = ["nvidia-35"]
[mdev_nvidia-35]
device_addresses = ["0000:84:00.0"]
[pci]
device_spec = [{ vendor_id = "8086", product_id = "1520" }]
[accelerators]
device_spec = [{ address = "0000:85:00.0" }]
[agent_client]
certfile = "/etc/berth/tls/conductor.pem"
"#;

/// A certificate that is valid for years.
const VALID: &str = include_str!("../../../core/client/tests/client/tls/authority.pem");
const EXPIRED: &str = include_str!("expired.pem");

impl Tree {
    fn good() -> Self {
        let mut tree = Tree {
            directory: tempfile::tempdir().unwrap(),
            config: CONFIG.to_owned(),
            placement: PlacementObservation::Answered(Answers {
                endpoint: "http://placement".to_owned(),
                date: Some(SystemTime::now()),
                highest_minor: Some(39),
                read_status: 200,
                reshaper_status: 400,
            }),
            _listeners: Vec::new(),
        };
        tree.write(
            "var/lib/berth/compute_id",
            "8e4c1b36-7d2c-4a73-9a0c-6a4a3a3c9f01\n",
        );
        tree.mode("var/lib/berth", 0o700);
        tree.write("var/lib/berth/instances/x", "");
        tree.write("sys/devices/system/cpu/online", "0-7\n");
        tree.write("proc/meminfo", "MemTotal:       16777216 kB\n");
        tree.write("proc/cpuinfo", "processor : 0\nflags\t\t: fpu vmx sse\n");
        tree.write("proc/cmdline", "quiet intel_iommu=on\n");
        tree.write("proc/mounts", "hugetlbfs /dev/hugepages hugetlbfs rw 0 0\n");
        tree.write("proc/self/status", "Name:\tberth\nUid:\t0\t0\t0\t0\n");
        tree.write(
            "proc/self/limits",
            "Max locked memory unlimited unlimited bytes\nMax open files 65536 65536 files\n",
        );
        tree.write("proc/sys/kernel/hostname", "node-1\n");
        tree.write(
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "512\n",
        );
        tree.write("etc/group", "root:x:0:\nberth:x:990:\n");
        tree.write("run/systemd/system/x", "");
        tree.write("etc/systemd/system/berth-agent.service", "");
        tree.write("usr/bin/qemu-system-x86_64", "");
        tree.write("usr/sbin/mdevctl", "");
        tree.write("sys/class/iommu/dmar0/x", "");
        tree.write("sys/kernel/iommu_groups/0/x", "");
        tree.write("sys/module/vfio/x", "");
        tree.write("sys/bus/pci/devices/0000:84:00.0/x", "");
        tree.write(
            "sys/class/mdev_bus/0000:84:00.0/mdev_supported_types/nvidia-35/x",
            "",
        );
        tree.card("0000:85:00.0", "0x10de", "0x1eb8", "0x030200");
        tree.card("0000:86:10.0", "0x8086", "0x1520", "0x020000");
        tree.write("etc/berth/tls/conductor.pem", VALID);
        tree.device("dev/kvm");
        tree.device("dev/vfio/vfio");
        tree.socket("run/libvirt/libvirt-sock", 0o777);
        tree.socket("run/berth/agent.sock", 0o660);
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn card(&self, address: &str, vendor: &str, device: &str, class: &str) {
        for (file, text) in [
            ("vendor", vendor),
            ("device", device),
            ("class", class),
            ("reset", ""),
            ("reset_method", "flr bus"),
        ] {
            let file = format!("sys/bus/pci/devices/{address}/{file}");
            self.write(&file, &format!("{text}\n"));
        }
    }

    fn remove(&self, path: &str) {
        let path = self.at(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A pipe without a writer: a read of it blocks forever.
    fn pipe(&self, path: &str) {
        nix::unistd::mkfifo(&self.at(path), nix::sys::stat::Mode::S_IRUSR).unwrap();
    }

    /// A link to a character device that every machine has.
    fn device(&self, path: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink("/dev/null", path).unwrap();
    }

    fn socket(&mut self, path: &str, mode: u32) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        self._listeners
            .push(UnixListener::bind(self.at(path)).unwrap());
        self.mode(path, mode);
    }

    fn answer(&mut self, change: impl FnOnce(&mut Answers)) {
        if let PlacementObservation::Answered(answers) = &mut self.placement {
            change(answers);
        }
    }

    fn examine(&self) -> Vec<CheckReport> {
        let document = ConfigDocument {
            name: "berth.toml".to_owned(),
            text: self.config.clone(),
        };
        let loaded = berth_config::resolve(&[document], &[]);
        let facts = HostFacts::below(self.directory.path());
        examine(
            &checks(),
            &CheckContext {
                facts: &facts,
                config: loaded.as_ref(),
                check_command: "berth config check",
                placement: &self.placement,
            },
        )
    }
}

fn bad(findings: &[CheckReport]) -> BTreeMap<&str, Status> {
    let is_bad = |each: &&CheckReport| matches!(each.status, Status::Failure | Status::Warning);
    findings
        .iter()
        .filter(is_bad)
        .map(|each| (each.code, each.status))
        .collect()
}

#[test]
fn a_good_host_has_no_findings() {
    let findings = Tree::good().examine();
    assert!(bad(&findings).is_empty(), "{findings:#?}");
    let skipped: Vec<_> = findings
        .iter()
        .filter(|each| each.status == Status::Skipped)
        .map(|each| each.code)
        .collect();
    assert_eq!(skipped, ["fake-machine"]);
    assert!(findings.len() >= 30, "{}", findings.len());
}

/// What breaks the host, and the one finding that comes of it.
type Fault = (&'static str, Status, fn(&mut Tree));

const FAULTS: &[Fault] = &[
    ("config-valid", Status::Failure, |tree| {
        tree.config = "hots = \"a\"".to_owned()
    }),
    ("config-clean", Status::Warning, |tree| {
        tree.config += "[mdev_other]\nmax_instances = 1\n"
    }),
    ("state-directory", Status::Failure, |tree| {
        tree.remove("var/lib/berth")
    }),
    ("state-directory", Status::Failure, |tree| {
        tree.remove("var/lib/berth");
        tree.write("var/lib/berth", "");
    }),
    ("state-not-writable", Status::Warning, |tree| {
        tree.mode("var/lib/berth", 0o777)
    }),
    ("compute-id", Status::Failure, |tree| {
        tree.write("var/lib/berth/compute_id", "not a uuid")
    }),
    ("compute-id", Status::Failure, |tree| {
        tree.write("var/lib/berth/compute_id", "")
    }),
    ("compute-id", Status::Failure, |tree| {
        tree.write("var/lib/berth/compute_id.node-2", "not a uuid")
    }),
    ("compute-id", Status::Failure, |tree| {
        tree.remove("var/lib/berth/compute_id");
        tree.pipe("var/lib/berth/compute_id");
    }),
    ("host-name", Status::Failure, |tree| {
        tree.config = tree.config.replace("host = \"node-1\"", "");
        tree.write("proc/sys/kernel/hostname", "localhost\n");
    }),
    ("instances-space", Status::Warning, |tree| {
        tree.config = "reserved_host_disk_mb = 999999999999\n".to_owned() + &tree.config;
    }),
    ("cpu-online", Status::Failure, |tree| {
        tree.write("sys/devices/system/cpu/online", "0-2\n")
    }),
    ("cpu-left", Status::Failure, |tree| {
        tree.config = "reserved_host_cpus = 4\n".to_owned() + &tree.config
    }),
    ("memory-left", Status::Failure, |tree| {
        tree.config = "reserved_host_memory_mb = 16384\n".to_owned() + &tree.config
    }),
    ("hugepages-mounted", Status::Warning, |tree| {
        tree.write("proc/mounts", "proc /proc proc rw 0 0\n")
    }),
    ("fake-machine", Status::Failure, |tree| {
        tree.config =
            "compute_driver = \"fake\"\n[fake]\nmachine = \"/etc/berth/machine.toml\"".to_owned();
    }),
    ("root", Status::Warning, |tree| {
        tree.write("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\n")
    }),
    ("unit-installed", Status::Warning, |tree| {
        tree.remove("etc/systemd/system/berth-agent.service")
    }),
    ("admin-group", Status::Warning, |tree| {
        tree.write("etc/group", "root:x:0:\nberthing:x:1:\n")
    }),
    ("admin-socket-directory", Status::Failure, |tree| {
        tree.mode("run/berth", 0o777)
    }),
    ("admin-socket-rights", Status::Failure, |tree| {
        tree.mode("run/berth/agent.sock", 0o666)
    }),
    ("agent-answers", Status::Warning, |tree| {
        drop(tree._listeners.pop())
    }),
    ("certificates", Status::Warning, |tree| {
        tree.write("etc/berth/tls/conductor.pem", EXPIRED)
    }),
    ("memlock", Status::Warning, |tree| {
        tree.write(
            "proc/self/limits",
            "Max locked memory 65536 65536 bytes\nMax open files 65536 65536 files\n",
        );
    }),
    ("file-descriptors", Status::Warning, |tree| {
        tree.write(
            "proc/self/limits",
            "Max locked memory unlimited unlimited bytes\nMax open files 256 256 files\n",
        );
    }),
    ("cpu-virtualization", Status::Failure, |tree| {
        tree.write("proc/cpuinfo", "flags\t\t: fpu sse\n")
    }),
    ("kvm-device", Status::Failure, |tree| tree.remove("dev/kvm")),
    ("qemu-binary", Status::Failure, |tree| {
        tree.remove("usr/bin/qemu-system-x86_64")
    }),
    ("libvirt-socket", Status::Failure, |tree| {
        tree.remove("run/libvirt/libvirt-sock")
    }),
    ("libvirt-answers", Status::Failure, |tree| {
        drop(tree._listeners.remove(0))
    }),
    ("listed-devices", Status::Warning, |tree| {
        tree.remove("sys/bus/pci/devices/0000:85:00.0")
    }),
    ("listed-devices", Status::Warning, |tree| {
        tree.card("0000:86:10.0", "0x8086", "0x1521", "0x020000")
    }),
    ("device-cleaning", Status::Warning, |tree| {
        tree.write("sys/bus/pci/devices/0000:85:00.0/reset_method", "bus\n")
    }),
    ("device-cleaning", Status::Warning, |tree| {
        tree.remove("sys/bus/pci/devices/0000:86:10.0/reset")
    }),
    ("mdev-addresses", Status::Failure, |tree| {
        tree.remove("sys/bus/pci/devices/0000:84:00.0")
    }),
    ("mdev-types", Status::Failure, |tree| {
        tree.remove("sys/class/mdev_bus")
    }),
    ("mdevctl", Status::Warning, |tree| {
        tree.remove("usr/sbin/mdevctl")
    }),
    ("iommu", Status::Warning, |tree| {
        tree.remove("sys/class/iommu")
    }),
    ("iommu-groups", Status::Warning, |tree| {
        tree.remove("sys/kernel/iommu_groups")
    }),
    ("vfio-module", Status::Failure, |tree| {
        tree.remove("sys/module/vfio")
    }),
    ("vfio-device", Status::Failure, |tree| {
        tree.remove("dev/vfio/vfio")
    }),
    ("placement-configured", Status::Warning, |tree| {
        tree.placement = PlacementObservation::NotConfigured {
            socket: "/run/berth/placement.sock".to_owned(),
        }
    }),
    ("placement-login", Status::Failure, |tree| {
        tree.placement = PlacementObservation::NoLogin {
            error: "401".to_owned(),
        }
    }),
    ("placement-reachable", Status::Failure, |tree| {
        tree.placement = PlacementObservation::Away {
            error: "refused".to_owned(),
        }
    }),
    ("placement-version", Status::Failure, |tree| {
        tree.answer(|answers| answers.highest_minor = Some(29))
    }),
    ("placement-version", Status::Failure, |tree| {
        tree.answer(|answers| answers.highest_minor = None)
    }),
    ("placement-read", Status::Failure, |tree| {
        tree.answer(|answers| answers.read_status = 401)
    }),
    ("placement-role", Status::Failure, |tree| {
        tree.answer(|answers| answers.reshaper_status = 403)
    }),
    ("clock", Status::Warning, |tree| {
        tree.answer(|answers| answers.date = Some(SystemTime::now() + Duration::from_hours(1)));
    }),
];

#[test]
fn each_planted_fault_is_one_finding_with_evidence_and_remedy() {
    for (index, (code, status, plant)) in FAULTS.iter().enumerate() {
        let mut tree = Tree::good();
        plant(&mut tree);
        let findings = tree.examine();
        // A cause hides its effects: one finding, not many.
        assert_eq!(
            bad(&findings),
            BTreeMap::from([(*code, *status)]),
            "fault {index}: {findings:#?}"
        );
        let finding = findings.iter().find(|each| each.code == *code).unwrap();
        assert!(
            !finding.evidence.is_empty() && !finding.hint.is_empty(),
            "{finding:?}"
        );
    }
}

#[test]
fn every_check_but_the_room_on_disk_has_a_planted_fault() {
    let planted: Vec<&str> = FAULTS.iter().map(|(code, ..)| *code).collect();
    let missing: Vec<&str> = checks()
        .iter()
        .map(|check| check.code)
        .filter(|code| !planted.contains(code))
        .collect();
    assert_eq!(missing, ["state-space"]);
}

#[test]
fn names_are_unique_and_dependencies_come_first() {
    let mut seen: Vec<&str> = Vec::new();
    for check in checks() {
        assert!(!seen.contains(&check.code), "{} stands twice", check.code);
        assert!(
            check.depends_on.iter().all(|code| seen.contains(code)),
            "{}",
            check.code
        );
        seen.push(check.code);
    }
}

#[test]
fn an_empty_root_makes_findings_and_no_panic() {
    let tree = Tree {
        directory: tempfile::tempdir().unwrap(),
        ..Tree::good()
    };
    assert!(bad(&tree.examine()).len() > 5);
}

#[test]
fn the_files_of_all_nodes_are_shown() {
    let tree = Tree::good();
    let uuid = "8e4c1b36-7d2c-4a73-9a0c-6a4a3a3c9f02";
    tree.write("var/lib/berth/compute_id.node-2", uuid);
    let findings = tree.examine();
    let finding = findings.iter().find(|each| each.code == "compute-id");
    let evidence = &finding.unwrap().evidence;
    assert!(evidence.contains("compute_id: 8e4c"), "{evidence}");
    let second = format!("compute_id.node-2: {uuid}");
    assert!(evidence.contains(&second), "{evidence}");
}

#[test]
fn a_fake_machine_needs_neither_kvm_nor_libvirt() {
    let mut tree = Tree::good();
    tree.config = "compute_driver = \"fake\"\n[fake]\nmachine = \"/etc/machine.toml\"".to_owned();
    tree.write("etc/machine.toml", "");
    for path in [
        "dev/kvm",
        "run/libvirt/libvirt-sock",
        "sys/class/iommu",
        "sys/module/vfio",
    ] {
        tree.remove(path);
    }
    assert!(bad(&tree.examine()).is_empty());
}

#[test]
fn a_host_with_only_a_device_list_offers_everything_but_mediated_devices() {
    for section in ["pci", "accelerators"] {
        let mut tree = Tree::good();
        tree.config = format!("[{section}]\ndevice_spec = [{{ address = \"0000:85:00.0\" }}]");
        let named = |findings: &[CheckReport], status| -> Vec<_> {
            let with = findings.iter().filter(|each| each.status == status);
            with.map(|each| each.code).collect()
        };
        let skipped = named(&tree.examine(), Status::Skipped);
        for mediated in ["mdev-addresses", "mdev-types", "mdevctl"] {
            assert!(skipped.contains(&mediated), "{section}: {skipped:?}");
        }
        for asked in [
            "listed-devices",
            "iommu",
            "iommu-groups",
            "vfio-module",
            "vfio-device",
        ] {
            assert!(!skipped.contains(&asked), "{section}: {skipped:?}");
        }
        tree.remove("sys/class/iommu");
        tree.remove("dev/vfio/vfio");
        tree.remove("sys/bus/pci/devices/0000:85:00.0");
        let findings = tree.examine();
        assert_eq!(
            named(&findings, Status::Failure),
            ["vfio-device"],
            "{section}"
        );
        let warnings = named(&findings, Status::Warning);
        assert_eq!(warnings, ["listed-devices", "iommu"], "{section}");
        let listed = findings.iter().find(|each| each.code == "listed-devices");
        let evidence = &listed.unwrap().evidence;
        assert!(
            evidence.contains(&format!("entry 1 of [{section}]")),
            "{evidence}"
        );
    }
}
