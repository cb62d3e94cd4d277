//! [`TestTree`]: a fake `/sys` for tests, in a temporary directory. Like the kernel's, it has real directories below
//! `devices`, and links to them elsewhere. The module `any_content` tests the readers of `/sys` with random files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Sysfs;

pub(crate) struct TestTree {
    root: TempDir,
}

/// The PCI bridge that all cards are below, whatever their bus.
const BRIDGE: &str = "devices/pci0000:80";

/// A PCI device to write.
pub(crate) struct CardFixture {
    pub(crate) address: &'static str,
    pub(crate) vendor: u16,
    pub(crate) device: u16,
    pub(crate) class: u32,
    pub(crate) driver: Option<&'static str>,
    pub(crate) numa_node: i32,
    pub(crate) iommu_group: Option<u32>,
    /// `sriov_totalvfs` and `sriov_numvfs`: how many virtual functions are possible, and how many exist.
    pub(crate) virtual_functions: Option<(u32, u32)>,
}

impl CardFixture {
    pub(crate) fn gpu(address: &'static str, iommu_group: u32) -> Self {
        Self {
            address,
            vendor: 0x10de,
            device: 0x1eb8,
            class: 0x03_0200,
            driver: None,
            numa_node: -1,
            iommu_group: Some(iommu_group),
            virtual_functions: None,
        }
    }
}

impl TestTree {
    pub(crate) fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.root.path())
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, relative: &str, target: &Path) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    pub(crate) fn remove(&self, relative: &str) {
        fs::remove_file(self.path(relative)).unwrap();
    }

    pub(crate) fn remove_directory(&self, relative: &str) {
        fs::remove_dir_all(self.path(relative)).unwrap();
    }

    /// Writes a card and its virtual functions. Their addresses end with function number 4 and higher, so a card with
    /// virtual functions has function 0, and at most four of them exist.
    pub(crate) fn card(&self, card: CardFixture) {
        self.function(card.address, &card);
        let Some((total, enabled)) = card.virtual_functions else {
            return;
        };
        let physical = format!("{BRIDGE}/{}", card.address);
        self.write(&format!("{physical}/sriov_totalvfs"), format!("{total}\n"));
        self.write(&format!("{physical}/sriov_numvfs"), format!("{enabled}\n"));
        for number in 0..enabled {
            let address = format!("{}{}", card.address.strip_suffix('0').unwrap(), 4 + number);
            self.function(&address, &card);
            let directory = format!("{BRIDGE}/{address}");
            self.link(&format!("{directory}/physfn"), &self.path(&physical));
            self.link(
                &format!("{physical}/virtfn{number}"),
                &self.path(&directory),
            );
        }
    }

    fn function(&self, address: &str, card: &CardFixture) {
        let directory = format!("{BRIDGE}/{address}");
        let path = self.path(&directory);
        let write =
            |file: &str, content: String| self.write(&format!("{directory}/{file}"), content);
        write("vendor", format!("0x{:04x}\n", card.vendor));
        write("device", format!("0x{:04x}\n", card.device));
        write("class", format!("0x{:06x}\n", card.class));
        write("numa_node", format!("{}\n", card.numa_node));
        self.link(&format!("bus/pci/devices/{address}"), &path);
        if let Some(driver) = card.driver {
            let driver_directory = format!("bus/pci/drivers/{driver}");
            self.write(&format!("{driver_directory}/bind"), "");
            self.link(
                &format!("{directory}/driver"),
                &self.path(&driver_directory),
            );
        }
        if let Some(group) = card.iommu_group {
            let group_directory = format!("kernel/iommu_groups/{group}");
            self.link(&format!("{group_directory}/devices/{address}"), &path);
            self.link(
                &format!("{directory}/iommu_group"),
                &self.path(&group_directory),
            );
        }
    }

    pub(crate) fn mdev_type(&self, parent: &str, id: &str, name: &str, available: u32) {
        let directory = format!("{BRIDGE}/{parent}");
        let at = format!("{directory}/mdev_supported_types/{id}");
        self.write(&format!("{at}/name"), format!("{name}\n"));
        self.write(&format!("{at}/device_api"), "vfio-pci\n");
        self.write(
            &format!("{at}/available_instances"),
            format!("{available}\n"),
        );
        self.write(&format!("{at}/description"), "\n");
        let link = format!("class/mdev_bus/{parent}");
        if !self.path(&link).exists() {
            self.link(&link, &self.path(&directory));
        }
    }

    pub(crate) fn mdev(&self, parent: &str, type_id: &str, uuid: &str) {
        let parent_directory = format!("{BRIDGE}/{parent}");
        let directory = format!("{parent_directory}/{uuid}");
        self.link(
            &format!("{directory}/mdev_type"),
            &self.path(&format!(
                "{parent_directory}/mdev_supported_types/{type_id}"
            )),
        );
        self.link(&format!("bus/mdev/devices/{uuid}"), &self.path(&directory));
    }

    pub(crate) fn numa_cell(&self, id: u32, cpus: &str, memory_kib: u64) {
        let at = format!("devices/system/node/node{id}");
        self.write(&format!("{at}/cpulist"), format!("{cpus}\n"));
        self.write(
            &format!("{at}/meminfo"),
            format!("Node {id} MemTotal:       {memory_kib} kB\nNode {id} MemFree:        1 kB\n"),
        );
    }

    pub(crate) fn huge_pages(&self, cell: u32, size_kib: u64, total: u64) {
        let at = format!("devices/system/node/node{cell}/hugepages/hugepages-{size_kib}kB");
        self.write(&format!("{at}/nr_hugepages"), format!("{total}\n"));
    }
}

mod any_content {
    //! Tests that reading files with random content returns a value, or an error with a path, and never panics.

    use proptest::prelude::*;

    use super::{CardFixture, TestTree};

    const FILES: &[&str] = &[
        "bus/pci/devices/0000:81:00.0/vendor",
        "bus/pci/devices/0000:81:00.0/class",
        "bus/pci/devices/0000:81:00.0/numa_node",
        "bus/pci/devices/0000:81:00.0/sriov_totalvfs",
        "bus/pci/devices/0000:81:00.0/sriov_numvfs",
        "bus/pci/devices/0000:81:00.0/virtfn9",
        "bus/pci/devices/0000:81:00.0/physfn",
        "bus/pci/devices/0000:81:00.1",
        "bus/pci/devices/odd",
        "class/mdev_bus/0000:81:00.0/mdev_supported_types/nvidia-222/available_instances",
        "class/mdev_bus/0000:81:00.0/mdev_supported_types/nvidia-222/name",
        "class/mdev_bus/other",
        "bus/mdev/devices/4b20d080-1b54-4048-85b3-a6a62d165c02",
        "kernel/iommu_groups/12/devices/x",
        "kernel/iommu_groups/y/devices/x",
        "devices/system/cpu/online",
        "devices/system/node/node0/cpulist",
        "devices/system/node/node0/meminfo",
        "devices/system/node/node7",
        "devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
    ];

    fn content() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            "[0-9a-fx,+-]{0,20}\n?".prop_map(String::into_bytes),
            "Node 0 MemTotal: [0-9]{0,25} ?kB?".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn any_bytes_in_any_file_give_a_value_or_an_error_that_names_a_path(
            changed_files in proptest::collection::vec((proptest::sample::select(FILES), content()), 1..6)
        ) {
            let tree = TestTree::new();
            tree.card(CardFixture { virtual_functions: Some((4, 1)), ..CardFixture::gpu("0000:81:00.0", 12) });
            tree.mdev_type("0000:81:00.0", "nvidia-222", "GRID T4-1B", 16);
            tree.mdev("0000:81:00.0", "nvidia-222", "4b20d080-1b54-4048-85b3-a6a62d165c01");
            tree.numa_cell(0, "0-3", 1024);
            tree.huge_pages(0, 2048, 8);
            for (file, bytes) in changed_files {
                tree.write(file, bytes);
            }
            let sysfs = tree.sysfs();
            let errors = [
                sysfs.pci_functions().err(),
                sysfs.iommu_groups().err(),
                sysfs.mdev_parents().err(),
                sysfs.mdev_devices().err(),
                sysfs.online_cpus().err(),
                sysfs.numa_cells().err(),
            ];
            let root = sysfs.root().display().to_string();
            for error in errors.into_iter().flatten() {
                prop_assert!(error.to_string().contains(&root), "{}", error);
            }
        }
    }
}
