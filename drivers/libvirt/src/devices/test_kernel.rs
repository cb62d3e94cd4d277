//! A simulated kernel over a device tree of files: reacts to each write. For the tests of this crate, with and without
//! libvirtd.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_sysfs::{AttributeError, AttributeWrites, WriteFuture};

/// The effect of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CardAfterReset {
    Healthy,
    AllOnes,
}

pub(crate) struct TestKernel {
    root: PathBuf,
    state: Mutex<TestKernelState>,
}

struct TestKernelState {
    log: Vec<String>,
    /// The driver that takes each function by itself.
    natural: BTreeMap<String, String>,
    comeback: CardAfterReset,
    /// The IOMMU group that mediated devices get.
    mdev_group: Option<u32>,
    /// The caller is killed at this write (from 1), before or after it.
    kill: Option<(usize, bool)>,
    made: usize,
}

impl TestKernel {
    /// The kernel of the tree under `root`.
    pub(crate) fn of(root: &Path) -> Arc<Self> {
        Arc::new(Self {
            root: root.to_owned(),
            state: Mutex::new(TestKernelState {
                log: Vec::new(),
                natural: BTreeMap::new(),
                comeback: CardAfterReset::Healthy,
                mdev_group: None,
                kill: None,
                made: 0,
            }),
        })
    }

    /// The driver that takes this function by itself.
    pub(crate) fn drives(&self, address: &str, driver: &str) {
        let at = self.root.join("bus/pci/drivers").join(driver);
        fs::create_dir_all(&at).unwrap();
        for file in ["bind", "unbind"] {
            fs::write(at.join(file), "").unwrap();
        }
        let mut state = self.state.lock().unwrap();
        state.natural.insert(address.to_owned(), driver.to_owned());
    }

    /// The IOMMU group that mediated devices get.
    pub(crate) fn groups_mdevs(&self, group: u32) {
        self.state.lock().unwrap().mdev_group = Some(group);
    }

    pub(crate) fn set_state_after_reset(&self, comeback: CardAfterReset) {
        self.state.lock().unwrap().comeback = comeback;
    }

    /// Kills the caller at its `number`th write, before or after it.
    pub(crate) fn kills_at(&self, number: usize, before: bool) {
        let mut state = self.state.lock().unwrap();
        state.made = 0;
        state.kill = Some((number, before));
    }

    /// The caller was started again.
    pub(crate) fn lets_live(&self) {
        self.state.lock().unwrap().kill = None;
    }

    /// The writes so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.state.lock().unwrap().log.clone()
    }

    /// The driver that has a function.
    pub(crate) fn driver(&self, address: &str) -> Option<String> {
        let target = fs::read_link(self.device(address).join("driver")).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Puts a function on a driver, or on none.
    pub(crate) fn put_on(&self, address: &str, driver: Option<&str>) {
        let link = self.device(address).join("driver");
        let _ = fs::remove_file(&link);
        if let Some(driver) = driver {
            let at = self.root.join("bus/pci/drivers").join(driver);
            fs::create_dir_all(&at).unwrap();
            for file in ["bind", "unbind"] {
                fs::write(at.join(file), "").unwrap();
            }
            symlink(at, link).unwrap();
        }
    }

    fn device(&self, address: &str) -> PathBuf {
        self.root.join("bus/pci/devices").join(address)
    }

    fn perform(&self, name: &str, content: &str) -> Result<(), AttributeError> {
        let path = self.root.join(name);
        let killed = || AttributeError::TimedOut {
            path: path.clone(),
            content: "killed".to_owned(),
            limit: Duration::ZERO,
        };
        if !path.exists() {
            return Err(AttributeError::Missing { path });
        }
        let (kill, number) = {
            let mut state = self.state.lock().unwrap();
            state.made += 1;
            (state.kill, state.made)
        };
        match kill {
            Some((at, _)) if number > at => return Err(killed()),
            Some((at, true)) if number == at => return Err(killed()),
            _ => {}
        }
        let log = format!("{name}={}", content.trim());
        self.state.lock().unwrap().log.push(log);
        self.react(name, content.trim());
        match kill {
            Some((at, false)) if number == at => Err(killed()),
            _ => Ok(()),
        }
    }

    fn react(&self, name: &str, content: &str) {
        let parts: Vec<&str> = name.split('/').collect();
        match parts.as_slice() {
            ["bus", "pci", "devices", address, "driver", "unbind"] => self.put_on(address, None),
            ["bus", "pci", "drivers", driver, "bind"] => self.put_on(content, Some(driver)),
            ["bus", "pci", "drivers_probe"] => {
                let wanted = fs::read_to_string(self.device(content).join("driver_override"));
                let wanted = wanted.unwrap_or_default().trim().to_owned();
                let natural = self.state.lock().unwrap().natural.get(content).cloned();
                let driver = match wanted.as_str() {
                    "" | "(null)" => natural,
                    driver => Some(driver.to_owned()),
                };
                if self.driver(content).is_none() {
                    self.put_on(content, driver.as_deref());
                }
            }
            ["bus", "pci", "devices", address, "reset"] => {
                if self.state.lock().unwrap().comeback == CardAfterReset::AllOnes {
                    fs::write(self.device(address).join("config"), [0xff; 256]).unwrap();
                }
            }
            ["bus", "pci", "devices", address, "sriov_numvfs"] => {
                fs::write(self.root.join(name), content).unwrap();
                for number in 0..content.parse::<usize>().unwrap() {
                    let stem = address.strip_suffix('0').unwrap();
                    let function = format!("{stem}{}", number + 1);
                    let at = fs::canonicalize(self.device(address)).unwrap();
                    let new = at.with_file_name(&function);
                    fs::create_dir_all(&new).unwrap();
                    for file in ["vendor", "device", "class"] {
                        fs::copy(at.join(file), new.join(file)).unwrap();
                    }
                    symlink(&at, new.join("physfn")).unwrap();
                    symlink(&new, self.device(&function)).unwrap();
                    symlink(&new, at.join(format!("virtfn{number}"))).unwrap();
                }
            }
            ["bus", "pci", "devices", _, _] | ["bus", "pci", "devices", _, "nvidia", _] => {
                fs::write(self.root.join(name), content).unwrap()
            }
            [
                "class",
                "mdev_bus",
                parent,
                "mdev_supported_types",
                id,
                "create",
            ] => {
                let parent = fs::canonicalize(self.device(parent)).unwrap();
                let mdev = parent.join(content);
                fs::create_dir_all(&mdev).unwrap();
                fs::write(mdev.join("remove"), "").unwrap();
                let kind = parent.join("mdev_supported_types").join(id);
                symlink(&kind, mdev.join("mdev_type")).unwrap();
                if let Some(group) = self.state.lock().unwrap().mdev_group {
                    let group = self.root.join(format!("kernel/iommu_groups/{group}"));
                    symlink(group, mdev.join("iommu_group")).unwrap();
                }
                let all = self.root.join("bus/mdev/devices");
                fs::create_dir_all(&all).unwrap();
                symlink(&mdev, all.join(content)).unwrap();
                self.count(&kind, -1);
            }
            ["bus", "mdev", "devices", uuid, "remove"] => {
                let link = self.root.join("bus/mdev/devices").join(uuid);
                let mdev = fs::canonicalize(&link).unwrap();
                self.count(&fs::canonicalize(mdev.join("mdev_type")).unwrap(), 1);
                fs::remove_dir_all(mdev).unwrap();
                fs::remove_file(link).unwrap();
            }
            _ => panic!("a write to {name}, which this kernel does not know"),
        }
    }

    fn count(&self, kind: &Path, by: i64) {
        let file = kind.join("available_instances");
        let left: i64 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        fs::write(file, (left + by).to_string()).unwrap();
    }
}

impl AttributeWrites for TestKernel {
    fn write<'a>(&'a self, name: &'a str, content: &'a str) -> WriteFuture<'a> {
        Box::pin(async move { self.perform(name, content) })
    }
}
