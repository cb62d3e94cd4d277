//! Observes the listed functions and judges their condition by comparing them with earlier observations.
//!
//! A device is compared with the first observation that found it healthy: its link width, its error counters, its host
//! driver. The part that belongs to the card itself survives restarts of the agent ([`Baseline`]). After a reset
//! ([`LastLook::forget`]) or with a new card in the slot, the comparison starts again, so a repaired device becomes
//! fit. A card without a healthy observation is compared with what the card and its port support; after a reset its new
//! state is the baseline.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{MacAddress, PciAddress};

use berth_virt::{DeviceCondition, NetworkFunctionFacts, UnfitReason};

use super::{DeviceLists, DeviceRefusal, SeenFunction};
use crate::{
    AerCounts, Ailment, AllowList, AllowedFunction, DeviceHealth, GroupError, Link, PciFunction,
    Sriov, Sysfs, SysfsError,
};

/// The base class of graphics cards, which lower their link's speed when idle.
const DISPLAY: u32 = 0x03;

/// The healthy state of a card, as far as it stays valid while the card is installed. Drivers and IOMMU groups may
/// change at a reboot and are not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Baseline {
    /// Its vendor and product id.
    pub ids: (u16, u16),
    pub link: Option<Link>,
    /// Its error counters.
    pub aer: Option<AerCounts>,
}

/// State kept between observations.
#[derive(Debug, Default)]
pub struct LastObservation {
    has_observed: bool,
    is_keeper: bool,
    well: BTreeMap<PciAddress, DeviceHealth>,
    baselines: BTreeMap<PciAddress, Baseline>,
    /// The stored baselines; `None` before they were loaded.
    kept: Option<BTreeMap<PciAddress, Baseline>>,
    /// Functions that were reset since; their next state becomes the baseline.
    reset: BTreeSet<PciAddress>,
    conditions: BTreeMap<PciAddress, DeviceCondition>,
    parted: BTreeSet<PciAddress>,
    refused: Vec<DeviceRefusal>,
}

/// A device with a condition that changed since the last observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionChange {
    pub address: PciAddress,
    pub condition: DeviceCondition,
    /// What was observed, as text; empty for a device that is fit again.
    pub detail: String,
}

impl LastObservation {
    /// Records whether a function has mediated devices now, and returns whether it ever had. A function that no longer
    /// has them has lost its driver and must not be offered as a whole.
    pub fn parts(&mut self, address: PciAddress, now: bool) -> bool {
        if now {
            self.parted.insert(address);
        }
        self.parted.contains(&address)
    }

    /// Records the refusals and returns the new ones. Refusals at the first observation are configuration errors: they
    /// are not recorded, and the next observation counts as the first again.
    pub fn record_condition(
        &mut self,
        refused: Vec<DeviceRefusal>,
    ) -> Result<Vec<DeviceRefusal>, DeviceRefusal> {
        if let (false, Some(first)) = (self.has_observed, refused.first()) {
            return Err(first.clone());
        }
        self.has_observed = true;
        let is_new = |one: &&DeviceRefusal| !self.refused.contains(one);
        let new = refused.iter().filter(is_new).cloned().collect();
        self.refused = refused;
        Ok(new)
    }

    /// Forgets a function's baseline after a reset: the next observation counts as healthy.
    pub fn forget(&mut self, address: PciAddress) {
        self.well.remove(&address);
        self.baselines.remove(&address);
        self.reset.insert(address);
    }

    /// Loads the baselines stored by an earlier process, once.
    pub fn recall<E>(
        &mut self,
        read: impl FnOnce() -> Result<BTreeMap<PciAddress, Baseline>, E>,
    ) -> Result<(), E> {
        if self.kept.is_none() {
            let kept = read()?;
            self.baselines.clone_from(&kept);
            self.kept = Some(kept);
        }
        Ok(())
    }

    /// Enables storing baselines: only the process that owns the host stores them, not a process that observes once.
    pub fn enable_baselines(&mut self) {
        self.is_keeper = true;
    }

    /// Stores the baselines if they changed and storing is enabled.
    pub fn store_baselines<E>(
        &mut self,
        write: impl FnOnce(&BTreeMap<PciAddress, Baseline>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_keeper && self.kept.as_ref() != Some(&self.baselines) {
            write(&self.baselines)?;
            self.kept = Some(self.baselines.clone());
        }
        Ok(())
    }

    /// Judges a function and records it. The baseline stays unchanged while the function is unhealthy.
    fn judge(
        &mut self,
        function: &PciFunction,
        health: Result<DeviceHealth, SysfsError>,
        group: Option<GroupError>,
        vgpu: Option<String>,
    ) -> (DeviceCondition, Option<ConditionChange>) {
        let (reason, detail) = match health {
            Err(error) => (Some(UnfitReason::ConfigSpace), error.to_string()),
            Ok(health) => match (self.compare(function, health, group), vgpu) {
                ((None, _), Some(vgpu)) => (Some(UnfitReason::Driver), vgpu),
                (compared, _) => compared,
            },
        };
        let condition = reason.map_or(DeviceCondition::Fit, |reason| DeviceCondition::Unfit {
            reason,
        });
        let before = self.conditions.insert(function.address, condition);
        let changes = (before.unwrap_or_default() != condition).then_some(ConditionChange {
            address: function.address,
            condition,
            detail,
        });
        (condition, changes)
    }

    fn compare(
        &mut self,
        function: &PciFunction,
        health: DeviceHealth,
        group: Option<GroupError>,
    ) -> (Option<UnfitReason>, String) {
        let ids = (function.vendor, function.device);
        let is_of_another = |kept: &Baseline| kept.ids != ids;
        if self
            .baselines
            .get(&function.address)
            .is_some_and(is_of_another)
        {
            self.baselines.remove(&function.address);
            self.well.remove(&function.address);
        }
        let kept = self.baselines.get(&function.address).copied();
        let was_well = match self.well.get(&function.address) {
            Some(well) => well.clone(),
            None => DeviceHealth {
                link: kept.map_or(health.link, |kept| kept.link),
                aer: kept.map_or(health.aer, |kept| kept.aer),
                ..health.clone()
            },
        };
        let mut earlier = was_well.clone();
        // A change to a driver for guests, or temporarily to none, is done by Berth or the hypervisor.
        let is_the_hosts = |driver: &Option<String>| {
            driver
                .as_deref()
                .is_some_and(|driver| !driver.contains("vfio"))
        };
        if !is_the_hosts(&health.driver) || !is_the_hosts(&earlier.driver) {
            earlier.driver.clone_from(&health.driver);
        }
        if function.class >> 16 == DISPLAY
            && let (Some(was), Some(is)) = (&mut earlier.link, health.link)
        {
            was.speed = was.speed.min(is.speed);
        }
        let is_new = kept.is_none() && !self.reset.contains(&function.address);
        let narrow = health.narrow().filter(|_| is_new);
        let worst = health
            .ailments(ids, &earlier)
            .into_iter()
            .chain(narrow)
            .map(|ailment| (reason(&ailment), ailment.to_string()))
            .min_by_key(|(reason, _)| severity(*reason));
        let group = group.map(|error| (UnfitReason::IommuGroup, error.to_string()));
        let Some((reason, detail)) = worst.or(group) else {
            let well = self.well.entry(function.address).or_insert(was_well);
            // Compare with the driver that it has while no guest has it.
            if is_the_hosts(&health.driver) {
                well.driver = health.driver;
            }
            // Counters that were reset by a reboot continue from 0.
            well.aer = match (well.aer, health.aer) {
                (Some(then), Some(now)) => Some(then.least(now)),
                (_, now) => now,
            };
            let (link, aer) = (well.link, well.aer);
            self.baselines
                .insert(function.address, Baseline { ids, link, aer });
            self.reset.remove(&function.address);
            return (None, String::new());
        };
        (Some(reason), detail)
    }

    /// Forgets missing functions: a function that returns may be a new card.
    fn retain_present(&mut self, there: &BTreeSet<PciAddress>) {
        self.well.retain(|address, _| there.contains(address));
        self.baselines.retain(|address, _| there.contains(address));
        self.reset.retain(|address| there.contains(address));
        self.conditions.retain(|address, _| there.contains(address));
        self.parted.retain(|address| there.contains(address));
    }
}

fn reason(ailment: &Ailment) -> UnfitReason {
    match ailment {
        Ailment::Vanished => UnfitReason::Vanished,
        Ailment::AllOnes | Ailment::AnotherCard => UnfitReason::ConfigSpace,
        Ailment::Link { .. } | Ailment::Narrow { .. } => UnfitReason::Link,
        Ailment::Fatal(_) | Ailment::Nonfatal(_) => UnfitReason::Aer,
        Ailment::Driver { .. } => UnfitReason::Driver,
        Ailment::Group { .. } => UnfitReason::IommuGroup,
    }
}

fn severity(reason: UnfitReason) -> usize {
    let order = [
        UnfitReason::Vanished,
        UnfitReason::ConfigSpace,
        UnfitReason::Aer,
        UnfitReason::Link,
        UnfitReason::IommuGroup,
    ];
    let place = order.iter().position(|one| *one == reason);
    place.unwrap_or(order.len())
}

impl Sysfs {
    /// Observes all functions that match a list. The caller fills in `mdevs`, because it knows which functions have
    /// mediated devices; those stay on their driver, so their IOMMU group does not matter. An unreadable function is
    /// unfit instead of an error: one broken device must not hide the host.
    pub fn observe_devices(
        &self,
        lists: DeviceLists<'_>,
        last: &mut LastObservation,
        is_parted: impl Fn(PciAddress) -> bool,
    ) -> Result<(Vec<SeenFunction>, Vec<ConditionChange>), SysfsError> {
        if lists.are_empty() {
            last.retain_present(&BTreeSet::new());
            return Ok((Vec::new(), Vec::new()));
        }
        let (mut seen, mut changes) = (Vec::new(), Vec::new());
        let all = lists.compute.and(lists.accelerator);
        for function in self.pci_functions()? {
            let names = self.network_names(function.address)?;
            let of = |list: &AllowList| list.admit(&function, &names).ok();
            let list = match (of(lists.compute), of(lists.accelerator)) {
                (None, None) => continue,
                (Some(_), None) => lists.compute,
                (None, Some(_)) => lists.accelerator,
                (Some(_), Some(_)) => &all,
            };
            let health = self.device_health(function.address);
            let whole = of(list).filter(|_| !is_parted(function.address));
            let group = whole.and_then(|allowed| self.viable_group(&allowed, list).err());
            let vgpu = match of(list).and_then(|allowed| allowed.tags().vgpu_type) {
                Some(wanted) => self.other_vgpu(function.address, wanted)?,
                None => None,
            };
            let (condition, conditions) = last.judge(&function, health, group, vgpu);
            changes.extend(conditions);
            let network = self.port_facts(of(lists.compute), &function)?;
            seen.push(SeenFunction {
                function,
                names,
                mdevs: None,
                network,
                condition,
            });
        }
        last.retain_present(&seen.iter().map(|seen| seen.function.address).collect());
        Ok((seen, changes))
    }

    /// The facts that Neutron's port binding needs, for a function that the compute service's list has (`allowed`). `None` if it
    /// is not for ports.
    pub(super) fn port_facts(
        &self,
        allowed: Option<AllowedFunction>,
        function: &PciFunction,
    ) -> Result<Option<NetworkFunctionFacts>, SysfsError> {
        let allowed = allowed.as_ref().map(AllowedFunction::tags);
        match allowed.and_then(|tags| tags.physical_network.as_deref()) {
            Some(name) if !name.is_empty() => self.network_function(function),
            _ => Ok(None),
        }
    }

    /// The facts that Neutron's port binding needs; `None` if it is neither a virtual function nor a card without any.
    fn network_function(
        &self,
        function: &PciFunction,
    ) -> Result<Option<NetworkFunctionFacts>, SysfsError> {
        let physical = match function.sriov {
            Sriov::Virtual { physical } => physical,
            Sriov::Physical { enabled: 0, .. } => {
                return Ok(Some(NetworkFunctionFacts {
                    number: None,
                    physical_mac: self.mac_of_function(function.address)?,
                }));
            }
            Sriov::Physical { .. } | Sriov::None => return Ok(None),
        };
        let card = self.pci_function(physical)?;
        let number = card.and_then(|card| match card.sriov {
            Sriov::Physical { functions, .. } => {
                let mut all = (0..).zip(functions);
                all.find(|(_, address)| *address == function.address)
            }
            Sriov::None | Sriov::Virtual { .. } => None,
        });
        let Some((number, _)) = number else {
            return Ok(None);
        };
        Ok(Some(NetworkFunctionFacts {
            number: Some(number),
            physical_mac: self.mac_of_function(physical)?,
        }))
    }

    /// The MAC address of a physical function; `None` if it has no network interface on the host.
    fn mac_of_function(&self, physical: PciAddress) -> Result<Option<MacAddress>, SysfsError> {
        match self.network_names(physical)?.as_slice() {
            [name] => self.mac_of_interface(physical, name),
            // A card with several ports on one function: the port of the virtual function is unknown.
            _ => Ok(None),
        }
    }
}
