//! The consistency check of an idle environment: guests, claims, accelerator requests, server groups and the journal
//! must agree.

use std::collections::{BTreeMap, BTreeSet};

use berth_conductor::journal::{BootGoal, BootJournal as _};
use berth_model::{ArqState, ConsumerUuid, ResourceClass};

use super::{BootStage, GPUS, NODE, gpu, root};

impl BootStage {
    /// Deletes the remains of lost answers, and checks everything.
    ///
    /// # Panics
    /// An object is left over, missing or duplicated.
    pub async fn judge(&self) {
        let conductor = self.conductor();
        while conductor.collect_orphaned_arqs().await.expect("answers") > 0 {}
        while conductor.collect_late_claims().await.expect("answers") > 0 {}
        while conductor.collect_late_ports().await.expect("answers") > 0 {}
        let wrong = self.wrong().await;
        assert!(
            wrong.is_empty(),
            "{wrong:#?}\nafter {:#?}",
            self.effects.history()
        );
    }

    pub async fn wrong(&self) -> Vec<String> {
        let mut wrong = self.agent.broken();
        let guests = self.agent.guests();
        let records = self.journal().guests().await.expect("a journal");
        let records = records.readable;
        let active: BTreeSet<ConsumerUuid> = records
            .iter()
            .filter(|record| record.goal == BootGoal::Active)
            .map(|record| record.request.uuid())
            .collect();
        for record in &records {
            if record.is_open() {
                wrong.push(format!(
                    "{} is open: {:?}",
                    record.request.uuid(),
                    record.goal
                ));
            }
            // Secrets stay no longer than they are needed.
            let (text, drive) = (format!("{record:?}"), "c2VjcmV0");
            if text.contains(drive) {
                wrong.push(format!("{} keeps its user data", record.request.uuid()));
            }
        }
        let running: BTreeSet<_> = guests.keys().copied().collect();
        if active != running {
            wrong.push(format!("active are {active:?}, running {running:?}"));
        }
        let members = self.hosts.group(self.apart).await.expect("a group").members;
        let apart = records.iter().filter(|record| {
            let group = record.request.server_group();
            group == Some(self.apart) && running.contains(&record.request.uuid())
        });
        let apart: BTreeMap<_, _> = apart
            .map(|record| (*record.request.uuid().as_uuid(), NODE.to_owned()))
            .collect();
        if members != apart {
            wrong.push(format!(
                "the server group has {members:?}, {apart:?} are of it"
            ));
        }
        let holders = self.holders().await;
        let holding: BTreeSet<_> = holders.keys().copied().collect();
        if holding != running {
            wrong.push(format!("{holding:?} hold allocations, {running:?} run"));
        }
        let mut bound: BTreeMap<ConsumerUuid, BTreeSet<_>> = BTreeMap::new();
        let mut handles = BTreeSet::new();
        for reported in self.accelerators().arqs().await.expect("requests") {
            let arq = reported.arq.expect("a request");
            match arq.state {
                ArqState::Bound(binding, handle) => {
                    if !handles.insert(handle.uuid) {
                        wrong.push(format!("{} is given twice", handle.info));
                    }
                    bound
                        .entry(binding.instance)
                        .or_default()
                        .insert(*arq.uuid.as_uuid());
                }
                state => wrong.push(format!("request {} is left {}", arq.uuid, state.phase())),
            }
        }
        for (uuid, build) in &guests {
            let asked: BTreeSet<_> = build.accelerator_requests.iter().copied().collect();
            if bound.remove(uuid).unwrap_or_default() != asked {
                wrong.push(format!("{uuid} has not the devices it was built with"));
            }
        }
        if !bound.is_empty() {
            wrong.push(format!("{bound:?} are bound without a guest"));
        }
        wrong
    }

    /// Who holds what on the host.
    pub async fn holders(&self) -> BTreeMap<ConsumerUuid, BTreeMap<ResourceClass, u64>> {
        let placement = self.placement();
        let mut holders: BTreeMap<ConsumerUuid, BTreeMap<ResourceClass, u64>> = BTreeMap::new();
        for provider in (0..GPUS).map(gpu).chain([root()]) {
            let held = placement.provider_allocations(provider).await;
            for (consumer, amounts) in held.expect("allocations").value {
                let of_consumer = holders.entry(consumer).or_default();
                for (class, amount) in amounts {
                    *of_consumer.entry(class).or_insert(0) += amount;
                }
            }
        }
        holders
    }
}
