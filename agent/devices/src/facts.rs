//! The devices' state for the reconciler ([`berth_agent_instances::reconcile`]).

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::names;
use berth_model::{NodeName, ProviderUuid};
use berth_virt::{DeviceOwner, VirtDriver};

use crate::devices::DeviceManager;
use crate::overlay;
use crate::report::{self, Holder};

impl<D: VirtDriver> DeviceManager<D> {
    pub fn nodes(&self) -> Vec<NodeName> {
        self.table().observed.keys().cloned().collect()
    }

    /// Whether the accelerator service does not report the holders of this host's devices: it accepts no device
    /// reports, or all devices belong to `[pci]` and Cyborg discovers them itself. `false` for a host without devices.
    pub fn holders_unknown(&self) -> bool {
        let table = self.table();
        let mut nodes = table.observed.values();
        let has_some = nodes
            .clone()
            .any(|observation| !observation.devices.is_empty());
        let none_reported = nodes.all(|observation| {
            report::reportable_devices(&observation.devices)
                .next()
                .is_none()
        });
        let is_unreported = table.unsupported_since.is_some() || none_reported;
        self.inner.service.is_some() && has_some && table.reports.is_empty() && is_unreported
    }

    /// Whether the accelerator service accepts reports. If it has not answered for a node yet, the node's devices may
    /// be unclean.
    pub(super) fn awaits_service_report(&self) -> bool {
        self.inner.service.is_some() && self.table().unsupported_since.is_none()
    }

    /// Collects the state of all devices.
    pub fn facts(&self) -> DeviceSnapshot {
        let unclean = self.unclean_names();
        let table = self.table();
        let mut facts = DeviceSnapshot {
            unclean,
            ..DeviceSnapshot::default()
        };
        let register = &table.register;
        let withheld = register.quarantines.keys().chain(&register.running_resets);
        facts.withheld = withheld.chain(register.held.keys()).cloned().collect();
        for (node, observation) in &table.observed {
            for device in &observation.devices {
                let mut with_conditions = device.clone();
                overlay::overlay(node, &mut with_conditions, &table.register);
                let reason = overlay::reason(&with_conditions, &table.register);
                for name in names(device) {
                    if device.owner == DeviceOwner::Accelerator {
                        let provider = device.provider_name(node).to_string();
                        facts.providers.insert(name.clone(), provider);
                    }
                    facts.offered.insert(name, reason.clone());
                }
            }
        }
        for report in table.reports.values() {
            let advice = &report.advice;
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

/// The state of all devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// The offered devices, each with the reason if it is unfit.
    pub offered: BTreeMap<String, Option<String>>,
    /// The provider names of the accelerator service's devices.
    pub providers: BTreeMap<String, String>,
    /// The holders of devices, according to the accelerator service.
    pub holders: BTreeMap<String, Holder>,
    /// Devices that are in use and were missing in the last report.
    pub vanished: BTreeSet<String>,
    /// Released devices that are not clean.
    pub unclean: BTreeSet<String>,
    /// Devices that a guest in the journal uses, that are being reset or that are quarantined.
    pub withheld: BTreeSet<String>,
    pub missing: BTreeSet<ProviderUuid>,
}
