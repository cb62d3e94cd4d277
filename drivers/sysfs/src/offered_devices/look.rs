//! One look at the functions that the lists mean, and what of the looks before has to be remembered to judge it.
//!
//! A device is compared with the first look at it that found it well: a link that is narrower than it was then, errors since
//! then, another driver of the host's. So a restart of the agent, a reset ([`LastLook::forget`]) and a new card in the
//! slot begin anew: that is the way back.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::PciAddress;
use berth_virt::{DeviceCondition, UnfitReason};

use super::{DeviceLists, DeviceRefusal, SeenFunction};
use crate::{Ailment, AllowList, DeviceHealth, GroupError, PciFunction, Sysfs, SysfsError};

/// The base class of graphics cards, which lower their link's speed when they idle.
const DISPLAY: u32 = 0x03;

/// What is remembered between looks.
#[derive(Debug, Default)]
pub struct LastLook {
    looked: bool,
    well: BTreeMap<PciAddress, DeviceHealth>,
    conditions: BTreeMap<PciAddress, DeviceCondition>,
    parted: BTreeSet<PciAddress>,
    refused: Vec<DeviceRefusal>,
}

/// A device whose condition changed since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionNews {
    /// Its address.
    pub address: PciAddress,
    /// How it is now.
    pub condition: DeviceCondition,
    /// What was seen, in words; empty for a device that is well again.
    pub detail: String,
}

impl LastLook {
    /// Remembers that a function's driver parts it, and answers whether it ever did: one that does no more has lost its driver,
    /// and is not offered whole for that.
    pub fn parts(&mut self, address: PciAddress, now: bool) -> bool {
        if now {
            self.parted.insert(address);
        }
        self.parted.contains(&address)
    }

    /// Takes note of what is refused, and answers what of it is new. At the first look nothing is noted of any: it is an
    /// error in the configuration then, and the next look is the first again.
    ///
    /// # Errors
    /// The first of what is refused at the first look.
    pub fn note(
        &mut self,
        refused: Vec<DeviceRefusal>,
    ) -> Result<Vec<DeviceRefusal>, DeviceRefusal> {
        if let (false, Some(first)) = (self.looked, refused.first()) {
            return Err(first.clone());
        }
        self.looked = true;
        let is_new = |one: &&DeviceRefusal| !self.refused.contains(one);
        let new = refused.iter().filter(is_new).cloned().collect();
        self.refused = refused;
        Ok(new)
    }

    /// Forgets how a function was: it was reset, and counts as well as the next look finds it.
    pub fn forget(&mut self, address: PciAddress) {
        self.well.remove(&address);
    }

    /// Judges a function and remembers it. What it was compared with stays as it is while the function is not well.
    fn judge(
        &mut self,
        function: &PciFunction,
        health: Result<DeviceHealth, SysfsError>,
        group: Option<GroupError>,
    ) -> (DeviceCondition, Option<ConditionNews>) {
        let (reason, detail) = match health {
            Err(error) => (Some(UnfitReason::ConfigSpace), error.to_string()),
            Ok(health) => self.compare(function, health, group),
        };
        let condition = reason.map_or(DeviceCondition::Fit, |reason| DeviceCondition::Unfit {
            reason,
        });
        let before = self.conditions.insert(function.address, condition);
        let news = (before.unwrap_or_default() != condition).then_some(ConditionNews {
            address: function.address,
            condition,
            detail,
        });
        (condition, news)
    }

    fn compare(
        &mut self,
        function: &PciFunction,
        health: DeviceHealth,
        group: Option<GroupError>,
    ) -> (Option<UnfitReason>, String) {
        let mut earlier = self.well.get(&function.address).unwrap_or(&health).clone();
        // A driver that hands it to guests, or none on the way there, is ours or the hypervisor's doing.
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
        let ids = (function.vendor, function.device);
        let worst = health
            .ailments(ids, &earlier)
            .into_iter()
            .map(|ailment| (reason(&ailment), ailment.to_string()))
            .min_by_key(|(reason, _)| severity(*reason));
        let group = group.map(|error| (UnfitReason::IommuGroup, error.to_string()));
        let Some((reason, detail)) = worst.or(group) else {
            let baseline = self.well.entry(function.address).or_insert(health.clone());
            // The driver it has while no guest has it is what it is compared with.
            if is_the_hosts(&health.driver) {
                baseline.driver = health.driver;
            }
            return (None, String::new());
        };
        (Some(reason), detail)
    }

    /// Forgets functions that are gone: what comes back is a new card for all that is known.
    fn keep(&mut self, there: &BTreeSet<PciAddress>) {
        self.well.retain(|address, _| there.contains(address));
        self.conditions.retain(|address, _| there.contains(address));
        self.parted.retain(|address| there.contains(address));
    }
}

fn reason(ailment: &Ailment) -> UnfitReason {
    match ailment {
        Ailment::Vanished => UnfitReason::Vanished,
        Ailment::AllOnes | Ailment::AnotherCard => UnfitReason::ConfigSpace,
        Ailment::Link { .. } => UnfitReason::Link,
        Ailment::Fatal(_) | Ailment::Nonfatal(_) => UnfitReason::Aer,
        Ailment::Driver { .. } => UnfitReason::Driver,
        Ailment::Group { .. } => UnfitReason::IommuGroup,
    }
}

/// The worst first.
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
    /// Looks at all functions that either list means; `mdevs` are left for the caller to fill in, who knows which functions are
    /// parted: those stay on their driver, so their IOMMU group is nobody's concern. A function that cannot be read is unfit,
    /// not an error: one sick device must not hide the host.
    ///
    /// # Errors
    /// The list of functions itself cannot be read.
    pub fn look_at_devices(
        &self,
        lists: DeviceLists<'_>,
        last: &mut LastLook,
        is_parted: impl Fn(PciAddress) -> bool,
    ) -> Result<(Vec<SeenFunction>, Vec<ConditionNews>), SysfsError> {
        if lists.are_empty() {
            last.keep(&BTreeSet::new());
            return Ok((Vec::new(), Vec::new()));
        }
        let (mut seen, mut news) = (Vec::new(), Vec::new());
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
            let (condition, told) = last.judge(&function, health, group);
            news.extend(told);
            seen.push(SeenFunction {
                function,
                names,
                mdevs: None,
                condition,
            });
        }
        last.keep(&seen.iter().map(|seen| seen.function.address).collect());
        Ok((seen, news))
    }
}
