//! A simulated kernel for tests, which changes the tree after each write.
//!
//! It works on the same temporary tree that is read, so a later observation sees what a real kernel would show. It can
//! refuse writes, execute them without returning (a kill), and break cards at a reset.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_model::PciAddress;

use crate::attribute::{AttributeError, AttributeWrites, WriteFuture};
use crate::tree::{CardFixture, TestTree};
use crate::{AllowList, AllowedFunction, DeviceTree};

/// When the caller is killed: before the write, or after the write but before its result arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillTime {
    Before,
    After,
}

/// The state of a card after a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetEffect {
    Healthy,
    AllOnes,
    SlowLink,
    AsAnotherCard,
    Never,
}

pub(crate) struct KernelSimulator {
    pub(crate) tree: TestTree,
    state: Mutex<KernelSimulatorState>,
}

struct KernelSimulatorState {
    log: Vec<String>,
    /// The driver that takes each function by itself.
    natural: BTreeMap<String, String>,
    comeback: ResetEffect,
    /// Attributes (by the end of their path) that refuse writes, or accept and ignore them.
    refused: Option<&'static str>,
    ignored: Option<&'static str>,
    /// The caller is killed at this write, counted from 1, and makes no further ones.
    kill: Option<(usize, KillTime)>,
}

pub(crate) const CARD: &str = "0000:81:00.0";

impl KernelSimulator {
    /// A host with one network card of 4 virtual functions and one GPU, each with all the files that are written.
    pub(crate) fn new() -> Arc<Self> {
        let tree = TestTree::new();
        tree.card(CardFixture {
            driver: Some("igb"),
            virtual_functions: Some((4, 0)),
            ..CardFixture::gpu(CARD, 12)
        });
        tree.write("bus/pci/drivers/vfio-pci/bind", "");
        tree.write("bus/pci/drivers/vfio-pci/unbind", "");
        tree.write("bus/pci/drivers/igb/unbind", "");
        tree.write("bus/pci/drivers_probe", "");
        let write = |file: &str, content: &str| {
            tree.write(&format!("bus/pci/devices/{CARD}/{file}"), content)
        };
        write("driver_override", "(null)\n");
        write("reset", "");
        write("reset_method", "flr bus\n");
        write("current_link_speed", "8.0 GT/s PCIe\n");
        write("current_link_width", "16\n");
        tree.write(
            &format!("bus/pci/devices/{CARD}/config"),
            header(0x10de, 0x1eb8),
        );
        tree.mdev_type(CARD, "nvidia-222", "GRID T4-1B", 2);
        tree.mdev_type(CARD, "nvidia-223", "GRID T4-2B", 1);
        for id in ["nvidia-222", "nvidia-223"] {
            tree.write(
                &format!("class/mdev_bus/{CARD}/mdev_supported_types/{id}/create"),
                "",
            );
        }
        Arc::new(Self {
            tree,
            state: Mutex::new(KernelSimulatorState {
                log: Vec::new(),
                natural: BTreeMap::from([(CARD.to_owned(), "igb".to_owned())]),
                comeback: ResetEffect::Healthy,
                refused: None,
                ignored: None,
                kill: None,
            }),
        })
    }

    pub(crate) fn devices(self: &Arc<Self>) -> DeviceTree {
        let attributes: Arc<dyn AttributeWrites> = Arc::<Self>::clone(self);
        DeviceTree::new(self.tree.sysfs(), attributes, Duration::from_secs(5))
    }

    pub(crate) fn list() -> AllowList {
        AllowList::read(&[serde_json::json!({"vendor_id": "10de"})]).unwrap()
    }

    pub(crate) fn allowed(&self) -> AllowedFunction {
        self.tree.sysfs().allowed(&Self::list(), address()).unwrap()
    }

    pub(crate) fn set_reset_effect(&self, comeback: ResetEffect) {
        self.state.lock().unwrap().comeback = comeback;
    }

    pub(crate) fn refuses(&self, attribute: &'static str) {
        self.state.lock().unwrap().refused = Some(attribute);
    }

    pub(crate) fn ignores(&self, attribute: &'static str) {
        self.state.lock().unwrap().ignored = Some(attribute);
    }

    /// Kills the caller at its `number`th write from now.
    pub(crate) fn kills_at(&self, number: usize, moment: KillTime) {
        let mut state = self.state.lock().unwrap();
        state.log.clear();
        state.kill = Some((number, moment));
    }

    /// The caller was started again.
    pub(crate) fn lets_live(&self) {
        self.state.lock().unwrap().kill = None;
    }

    /// The writes so far, as `attribute=content`.
    pub(crate) fn log(&self) -> Vec<String> {
        self.state.lock().unwrap().log.clone()
    }

    pub(crate) fn driver(&self) -> Option<String> {
        self.tree
            .sysfs()
            .pci_function(address())
            .unwrap()
            .unwrap()
            .driver
    }

    fn perform(&self, name: &str, content: &str) -> Result<(), AttributeError> {
        let path = self.tree.path(name);
        let mut state = self.state.lock().unwrap();
        let killed = || AttributeError::TimedOut {
            path: path.clone(),
            content: "killed".to_owned(),
            limit: Duration::ZERO,
        };
        let number = state.log.len() + 1;
        match state.kill {
            Some((at, _)) if number > at => return Err(killed()),
            Some((at, KillTime::Before)) if number == at => {
                state.log.push("killed".to_owned());
                return Err(killed());
            }
            _ => {}
        }
        if !path.exists() {
            return Err(AttributeError::Missing { path });
        }
        state.log.push(format!("{name}={content}"));
        if state.refused.is_some_and(|end| name.ends_with(end)) {
            return Err(AttributeError::Refused {
                path,
                content: content.to_owned(),
                source: io::Error::from_raw_os_error(nix::libc::EBUSY),
            });
        }
        if !state.ignored.is_some_and(|end| name.ends_with(end)) {
            self.react(&state, name, content.trim());
        }
        match state.kill {
            Some((at, KillTime::After)) if number == at => Err(killed()),
            _ => Ok(()),
        }
    }

    fn react(&self, state: &KernelSimulatorState, name: &str, content: &str) {
        let parts: Vec<&str> = name.split('/').collect();
        match parts.as_slice() {
            ["bus", "pci", "devices", address, "driver", "unbind"] => {
                assert_eq!(*address, content);
                self.tree
                    .remove(&format!("bus/pci/devices/{address}/driver"));
            }
            ["bus", "pci", "drivers", driver, "bind"] => self.bind(content, driver),
            ["bus", "pci", "drivers_probe"] => {
                let wanted = fs::read_to_string(self.device(content).join("driver_override"));
                let wanted = wanted.unwrap().trim().to_owned();
                match wanted.as_str() {
                    "(null)" | "" => {
                        if let Some(natural) = state.natural.get(content) {
                            self.bind(content, natural);
                        }
                    }
                    driver => self.bind(content, driver),
                }
            }
            ["bus", "pci", "devices", _, "nvidia", "current_vgpu_type"] => {
                fs::write(self.tree.path(name), content).unwrap();
            }
            ["bus", "pci", "devices", address, file] => {
                self.of_device(state, address, file, content)
            }
            [
                "class",
                "mdev_bus",
                parent,
                "mdev_supported_types",
                id,
                "create",
            ] => {
                self.make_mdev(parent, id, content);
            }
            ["bus", "mdev", "devices", uuid, "remove"] => {
                let at =
                    fs::canonicalize(self.tree.path(&format!("bus/mdev/devices/{uuid}"))).unwrap();
                fs::remove_dir_all(at).unwrap();
                self.tree.remove(&format!("bus/mdev/devices/{uuid}"));
            }
            _ => panic!("a write to {name}, which this kernel does not know"),
        }
    }

    fn device(&self, address: &str) -> std::path::PathBuf {
        self.tree.path(&format!("bus/pci/devices/{address}"))
    }

    fn bind(&self, address: &str, driver: &str) {
        let link = self.device(address).join("driver");
        assert!(!link.exists(), "{address} has a driver already");
        let target = self.tree.path(&format!("bus/pci/drivers/{driver}"));
        std::os::unix::fs::symlink(target, link).unwrap();
    }

    fn of_device(&self, state: &KernelSimulatorState, address: &str, file: &str, content: &str) {
        let write = |file: &str, content: &[u8]| {
            fs::write(self.device(address).join(file), content).unwrap()
        };
        match (file, content) {
            ("driver_override", "") => write(file, b"(null)\n"),
            ("reset_method", "default") => write(file, b"flr bus\n"),
            ("driver_override" | "reset_method", other) => write(file, other.as_bytes()),
            ("reset", "1") => match state.comeback {
                ResetEffect::Healthy => {}
                ResetEffect::AllOnes => write("config", &[0xff; 256]),
                ResetEffect::SlowLink => write("current_link_width", b"1\n"),
                ResetEffect::AsAnotherCard => write("config", &header(0x10de, 0x0001)),
                ResetEffect::Never => self
                    .tree
                    .remove(&format!("bus/pci/devices/{address}/config")),
            },
            ("sriov_numvfs", count) => {
                write(file, count.as_bytes());
                for number in 0..count.parse().unwrap() {
                    self.make_virtual_function(address, number);
                }
            }
            other => panic!("a write of {other:?}, which this kernel does not know"),
        }
    }

    fn make_virtual_function(&self, physical: &str, number: u32) {
        let one: &'static str = Box::leak(format!("0000:81:10.{number}").into_boxed_str());
        self.tree.card(CardFixture::gpu(one, 20 + number));
        let directory = |address: &str| self.tree.path(&format!("devices/pci0000:80/{address}"));
        let link = |from: &Path, to: &Path| std::os::unix::fs::symlink(to, from).unwrap();
        link(&directory(one).join("physfn"), &directory(physical));
        link(
            &directory(physical).join(format!("virtfn{number}")),
            &directory(one),
        );
    }

    fn make_mdev(&self, parent: &str, id: &str, uuid: &str) {
        self.tree.mdev(parent, id, uuid);
        self.tree
            .write(&format!("bus/mdev/devices/{uuid}/remove"), "");
        let types = self
            .tree
            .path(&format!("class/mdev_bus/{parent}/mdev_supported_types"));
        // One pool for all types.
        for kind in fs::read_dir(types).unwrap() {
            let file = kind.unwrap().path().join("available_instances");
            let left: u32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
            fs::write(file, left.saturating_sub(1).to_string()).unwrap();
        }
    }
}

pub(crate) fn address() -> PciAddress {
    CARD.parse().unwrap()
}

/// The beginning of a configuration space with these ids.
pub(crate) fn header(vendor: u16, device: u16) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    bytes[..2].copy_from_slice(&vendor.to_le_bytes());
    bytes[2..4].copy_from_slice(&device.to_le_bytes());
    bytes
}

impl AttributeWrites for KernelSimulator {
    fn write<'a>(&'a self, name: &'a str, content: &'a str) -> WriteFuture<'a> {
        Box::pin(async move { self.perform(name, content) })
    }
}

/// Runs `act` once to count its writes. Then for each write and kill time, on a fresh host, kills `act` there and runs
/// it again; `check` must see the same result.
pub(crate) async fn survives_a_kill_anywhere<A, F>(
    prepare: impl Fn(&KernelSimulator),
    act: A,
    check: impl Fn(&KernelSimulator),
) where
    A: Fn(Arc<KernelSimulator>) -> F,
    F: Future<Output = Result<(), String>>,
{
    let clean = KernelSimulator::new();
    prepare(&clean);
    act(Arc::clone(&clean)).await.unwrap();
    check(&clean);
    let writes = clean.log().len();
    assert!(writes > 0, "nothing was written");
    for number in 1..=writes {
        for moment in [KillTime::Before, KillTime::After] {
            let kernel = KernelSimulator::new();
            prepare(&kernel);
            kernel.kills_at(number, moment);
            assert!(
                act(Arc::clone(&kernel)).await.is_err(),
                "write {number} {moment:?}"
            );
            kernel.lets_live();
            act(Arc::clone(&kernel))
                .await
                .unwrap_or_else(|error| panic!("write {number} {moment:?}: {error}"));
            check(&kernel);
        }
    }
}
