//! What the comparison of guests is to know of devices.
//!
//! Caller: [`berth_agent_instances::reconcile`].

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::names;
use berth_model::{NodeName, ProviderUuid};
use berth_virt::{DeviceOwner, VirtDriver};

use crate::devices::Devices;
use crate::overlay;
use crate::report::{self, Holder};

impl<D: VirtDriver> Devices<D> {
    /// The nodes that were seen last.
    pub fn nodes(&self) -> Vec<NodeName> {
        self.known().seen.keys().cloned().collect()
    }

    /// Whether the accelerator service does not say who holds this host's devices: it takes no report of them, or the host has
    /// only devices that are not reported to it, those of `[pci]` beside a Cyborg that finds them by itself. A host without
    /// devices has none that are held.
    pub fn holders_are_unsaid(&self) -> bool {
        let known = self.known();
        let mut nodes = known.seen.values();
        let has_some = nodes.clone().any(|seen| !seen.devices.is_empty());
        let none_is_told = nodes.all(|seen| report::told(&seen.devices).next().is_none());
        let is_unsaid = known.no_route.is_some() || none_is_told;
        self.inner.service.is_some() && has_some && known.told.is_empty() && is_unsaid
    }

    /// Whether there is an accelerator service that takes reports: what it has not answered of a node yet, it may have to say that
    /// devices are not clean.
    pub(super) fn awaits_word(&self) -> bool {
        self.inner.service.is_some() && self.known().no_route.is_none()
    }

    /// What the comparison of guests is to know.
    pub fn facts(&self) -> DeviceFacts {
        let unclean = self.unclean().into_iter().map(|unclean| unclean.name);
        let unclean = unclean.collect();
        let known = self.known();
        let mut facts = DeviceFacts {
            unclean,
            ..DeviceFacts::default()
        };
        let register = &known.register;
        let withheld = register.quarantines.keys().chain(&register.cleaning);
        facts.withheld = withheld.chain(register.held.keys()).cloned().collect();
        for (node, seen) in &known.seen {
            for device in &seen.devices {
                let mut laid_over = device.clone();
                overlay::overlay(node, &mut laid_over, &known.register);
                let reason = overlay::reason(&laid_over, &known.register);
                for name in names(device) {
                    if device.owner == DeviceOwner::Accelerator {
                        let provider = device.provider_name(node).to_string();
                        facts.providers.insert(name.clone(), provider);
                    }
                    facts.offered.insert(name, reason.clone());
                }
            }
        }
        for told in known.told.values() {
            let advice = &told.advice;
            let holders = advice.holders.iter();
            facts
                .holders
                .extend(holders.map(|(name, holder)| (name.clone(), *holder)));
            let vanished = advice.vanished.iter().map(|gone| gone.name.clone());
            facts.vanished.extend(vanished);
            facts.missing.extend(&advice.missing);
        }
        facts
    }
}

/// What is known of devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// What is offered, and why not where it is not fit.
    pub offered: BTreeMap<String, Option<String>>,
    /// The name that the provider has of each that the accelerator service gives out.
    pub providers: BTreeMap<String, String>,
    /// Who holds what, as the accelerator service has it.
    pub holders: BTreeMap<String, Holder>,
    /// What is held and was not there at the last report.
    pub vanished: BTreeSet<String>,
    /// What was given back and is not clean.
    pub unclean: BTreeSet<String>,
    /// What a guest of the journal holds, is being reset, or is in quarantine.
    pub withheld: BTreeSet<String>,
    /// Providers that Placement lost.
    pub missing: BTreeSet<ProviderUuid>,
}
