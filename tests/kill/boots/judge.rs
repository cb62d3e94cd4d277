//! Checks the servers in all services: one to one while they run, nothing left after they are deleted.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::Value;

use super::{DEVICES, Machine, NODES, ask, text, until};

impl Machine {
    pub(super) fn arqs(&self) -> Vec<Value> {
        let url = format!("{}/accelerator_requests", self.stand.accelerators);
        let answer = until("the accelerator service answers", || {
            ask(Method::GET, &url, None)
        });
        answer.json()["arqs"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// The allocations that are not empty.
    fn holding(&self) -> Vec<Value> {
        let mut arqs = self.arqs();
        arqs.retain(|arq| arq["state"] != "Initial" || arq["instance_uuid"] != Value::Null);
        arqs
    }

    /// Who holds allocations, each with the number of devices.
    fn holders(&self) -> BTreeMap<String, u64> {
        let url = format!("{}/resource_providers", self.stand.placement);
        let answer = until("Placement answers", || ask(Method::GET, &url, None));
        let mut holders = BTreeMap::new();
        for provider in answer.json()["resource_providers"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let url = format!("{url}/{}/allocations", text(&provider["uuid"]));
            let answer = until("Placement answers", || ask(Method::GET, &url, None));
            let held = answer.json();
            for (consumer, of) in held["allocations"].as_object().into_iter().flatten() {
                let devices = of["resources"]["PGPU"].as_u64().unwrap_or_default();
                *holders.entry(consumer.clone()).or_default() += devices;
            }
        }
        holders
    }

    /// Waits until a server fits each device. A node reports its devices before its own inventory and traits.
    pub(super) fn until_devices_are_free(&self) {
        until("every device is free", || {
            let url = format!(
                "{}/allocation_candidates?resources1=PGPU:1&resources2=VCPU:1,MEMORY_MB:64&required2=COMPUTE_ACCELERATORS\
                 &group_policy=none",
                self.stand.placement
            );
            let free = ask(Method::GET, &url, None)?.json();
            let free = free["allocation_requests"].as_array()?.len();
            (free == NODES * DEVICES).then_some(())
        });
    }

    /// Violations of the one-to-one match among running servers.
    pub(super) fn wrong_of_running(&self, names: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        let servers = until("the compute API answers", || self.servers());
        let named: BTreeSet<String> = servers.values().map(|it| text(&it["name"])).collect();
        if servers.len() != names.len() || named.len() != names.len() {
            wrong.push(format!(
                "{names:?} were asked for, there are {named:?} in {} servers",
                servers.len()
            ));
        }
        for (id, server) in &servers {
            if server["status"] != "ACTIVE" {
                wrong.push(format!("{id} is {}: {}", server["status"], server["fault"]));
            }
        }
        let ids: BTreeSet<String> = servers.into_keys().collect();
        let guests = self.stand.guests();
        if guests.len() != ids.len() || guests.iter().cloned().collect::<BTreeSet<_>>() != ids {
            wrong.push(format!("{ids:?} run, the host has {guests:?}"));
        }
        let one_each: BTreeMap<String, u64> = ids.iter().map(|id| (id.clone(), 1)).collect();
        let holders = self.holders();
        if holders != one_each {
            wrong.push(format!("{ids:?} run, devices are allocated to {holders:?}"));
        }
        let arqs = self.holding();
        let bound = arqs.iter().filter(|arq| arq["state"] == "Bound");
        let instances: BTreeSet<String> = bound.map(|arq| text(&arq["instance_uuid"])).collect();
        let handles: BTreeSet<String> = arqs
            .iter()
            .map(|arq| arq["attach_handle_info"].to_string())
            .collect();
        if arqs.len() != ids.len() || instances != ids || handles.len() != ids.len() {
            wrong.push(format!("{ids:?} run, the requests are {arqs:?}"));
        }
        wrong
    }

    /// What there is of guests, where there is to be none.
    pub(super) fn left(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        let mut is_none = |what: &str, found: String, is_empty: bool| {
            if !is_empty {
                left.push(format!("{what}: {found}"));
            }
        };
        let (guests, holders, arqs) = (self.stand.guests(), self.holders(), self.holding());
        is_none(
            "guests of the host",
            format!("{guests:?}"),
            guests.is_empty(),
        );
        is_none("allocations", format!("{holders:?}"), holders.is_empty());
        is_none("accelerator requests", format!("{arqs:?}"), arqs.is_empty());
        for process in self.stand.with_an_agent() {
            let journal = process.listed(&["guest", "list"]).to_string();
            is_none(
                "the journals' guests",
                journal.clone(),
                !journal.contains("uuid"),
            );
            let differs = process.listed(&["reconcile", "--dry-run"]).to_string();
            is_none(
                "the reconciler's findings",
                differs.clone(),
                !differs.contains("code"),
            );
        }
        left
    }
}
