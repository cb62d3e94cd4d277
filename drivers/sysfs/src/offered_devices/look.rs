//! One look at the functions that the lists mean, and what of the looks before has to be remembered to judge it.
//!
//! A device is compared with the first look at it that found it well: a link that is narrower than it was then, errors since
//! then, another driver of the host's. What of that says something of the card itself is kept through restarts of the agent
//! ([`Baseline`]). A reset ([`LastLook::forget`]) and a new card in the slot begin anew: that is the way back. A card that was
//! never seen well is compared with what it and its port can; after a reset it counts as it came back.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::PciAddress;
use berth_virt::{DeviceCondition, UnfitReason};

use super::{DeviceLists, DeviceRefusal, SeenFunction};
use crate::{
    AerCounts, Ailment, AllowList, DeviceHealth, GroupError, Link, PciFunction, Sysfs, SysfsError,
};

/// The base class of graphics cards, which lower their link's speed when they idle.
const DISPLAY: u32 = 0x03;

/// How a card was when it was well, as far as that holds for as long as the card is there. Drivers and IOMMU groups may be others
/// after a start of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Baseline {
    /// Its vendor and product id.
    pub ids: (u16, u16),
    pub link: Option<Link>,
    /// What it had reported.
    pub aer: Option<AerCounts>,
}

/// What is remembered between looks.
#[derive(Debug, Default)]
pub struct LastLook {
    looked: bool,
    is_keeper: bool,
    well: BTreeMap<PciAddress, DeviceHealth>,
    baselines: BTreeMap<PciAddress, Baseline>,
    /// The baselines as they are kept; none before they were recalled.
    kept: Option<BTreeMap<PciAddress, Baseline>>,
    /// What was reset since, and counts as it came back.
    reset: BTreeSet<PciAddress>,
    conditions: BTreeMap<PciAddress, DeviceCondition>,
    parted: BTreeSet<PciAddress>,
    refused: Vec<DeviceRefusal>,
}

/// A device whose condition changed since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionNews {
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
        self.baselines.remove(&address);
        self.reset.insert(address);
    }

    /// Goes on from the baselines that an earlier process kept, once.
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

    /// From now on baselines are kept: this process has the host to itself, and does not look once beside another one.
    pub fn keeps_baselines(&mut self) {
        self.is_keeper = true;
    }

    /// Has the baselines kept where they changed and this is the process that does that.
    pub fn keep_baselines<E>(
        &mut self,
        write: impl FnOnce(&BTreeMap<PciAddress, Baseline>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_keeper && self.kept.as_ref() != Some(&self.baselines) {
            write(&self.baselines)?;
            self.kept = Some(self.baselines.clone());
        }
        Ok(())
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
            // The driver it has while no guest has it is what it is compared with.
            if is_the_hosts(&health.driver) {
                well.driver = health.driver;
            }
            // Counters that began anew, with the host, count on from there.
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

    /// Forgets functions that are gone: what comes back is a new card for all that is known.
    fn keep(&mut self, there: &BTreeSet<PciAddress>) {
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
    /// Looks at all functions that either list means; `mdevs` are left for the caller to fill in, who knows which functions are
    /// parted: those stay on their driver, so their IOMMU group is nobody's concern. A function that cannot be read is unfit,
    /// not an error: one sick device must not hide the host.
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
