//! Claims network functions (SR-IOV) for ports of active guests, and releases them.
//!
//! The guest's recorded candidate is what it should have in Placement: it is recorded before a claim, and after a release.
//! Placement then gets the amount that is recorded, so each call can be repeated.

use berth_client::PlacementClient;
use berth_client::placement::{Candidate, ClaimError};
use berth_model::{CandidatesQuery, ConsumerUuid, GroupSuffix, ProviderUuid, ResourceClass};
use uuid::Uuid;

use crate::boot::BootError;
use crate::diagnosis;
use crate::function_demand::FunctionDemand;
use crate::interfaces::{ActiveGuest, InterfaceError};
use crate::journal::{BootStep, BootStepDetail, ChosenHost, JournalError};

/// The group of a port in the guest's candidate.
fn suffix_of(port: Uuid) -> Result<GroupSuffix, InterfaceError> {
    let suffix = GroupSuffix::new(&port.to_string());
    Ok(suffix.map_err(BootError::from)?)
}

/// The candidates for one function on a host.
fn query(
    suffix: &GroupSuffix,
    demand: &FunctionDemand,
    host: ProviderUuid,
) -> Result<CandidatesQuery, BootError> {
    let class = &demand.class;
    let traits: Vec<_> = demand.traits.iter().map(ToString::to_string).collect();
    let traits = traits.join(",");
    let text =
        format!("in_tree{suffix}={host}&required{suffix}={traits}&resources{suffix}={class}:1");
    let query = CandidatesQuery::read(&text);
    query.map_err(|error| BootError::NoValidHost(error.to_string().into()))
}

/// Gives the guest in Placement what its candidate has of one provider and class.
async fn put_units(
    placement: &PlacementClient,
    guest: ConsumerUuid,
    candidate: &Candidate,
    of: (ProviderUuid, ResourceClass),
) -> Result<(), ClaimError> {
    let amount = candidate.resources().get(&of).copied().unwrap_or(0);
    placement.set_units(guest, of, amount).await
}

impl ActiveGuest<'_> {
    /// Claims a function of a card of the guest's host for a port. Returns the card's provider.
    pub(crate) async fn claim_function(
        &mut self,
        port: Uuid,
        demand: &FunctionDemand,
    ) -> Result<ProviderUuid, InterfaceError> {
        let suffix = suffix_of(port)?;
        let chosen = self.chosen()?.clone();
        let guest = self.uuid();
        let of = |provider| (provider, demand.class.clone());
        let mut before = chosen.candidate.clone();
        if let Some(provider) = before.serving(&suffix) {
            match put_units(self.placement(), guest, &before, of(provider)).await {
                Ok(()) => return Ok(provider),
                Err(ClaimError::Taken(_)) => {
                    before = before
                        .without_unit(&suffix, &demand.class)
                        .unwrap_or(before);
                }
                Err(error) => return Err(BootError::from(error).into()),
            }
        }
        let query = query(&suffix, demand, chosen.host)?;
        let found = self.placement().candidates_of(&query).await;
        let found = found.map_err(diagnosis::from_placement)?;
        for candidate in &found.candidates {
            let Some(provider) = candidate.serving(&suffix) else {
                continue;
            };
            let with = before.with_unit(&suffix, provider, &demand.class);
            self.record_candidate(&chosen, with.clone()).await?;
            match put_units(self.placement(), guest, &with, of(provider)).await {
                Ok(()) => return Ok(provider),
                Err(ClaimError::Taken(_)) => {}
                Err(error) => return Err(BootError::from(error).into()),
            }
        }
        self.record_candidate(&chosen, before).await?;
        let network = demand.physical_network.clone();
        Err(InterfaceError::NoFunction { port, network })
    }

    /// Releases the function of a port that the guest no longer has; nothing for a port without one.
    pub(crate) async fn release_function(&mut self, port: Uuid) -> Result<(), InterfaceError> {
        let suffix = suffix_of(port)?;
        let chosen = self.chosen()?.clone();
        let Some(provider) = chosen.candidate.serving(&suffix) else {
            return Ok(());
        };
        let class = ResourceClass::SRIOV_NET_VF;
        // A guest that has nothing else keeps its claim until it is deleted: without one, its UUID would be free.
        let Some(without) = chosen.candidate.without_unit(&suffix, &class) else {
            return Ok(());
        };
        let of = (provider, class);
        match put_units(self.placement(), self.uuid(), &without, of).await {
            Ok(()) => {}
            // Something else of the guest no longer fits its host. The deletion of the guest releases all.
            Err(error @ ClaimError::Taken(_)) => {
                let (guest, error) = (self.uuid(), &error as &dyn std::error::Error);
                tracing::warn!(%guest, %port, error, "failed to release the network function of a detached port");
                return Ok(());
            }
            Err(error) => return Err(BootError::from(error).into()),
        }
        Ok(self.record_candidate(&chosen, without).await?)
    }

    async fn record_candidate(
        &mut self,
        chosen: &ChosenHost,
        candidate: Candidate,
    ) -> Result<(), JournalError> {
        let chosen = ChosenHost {
            candidate,
            ..chosen.clone()
        };
        let detail = BootStepDetail::Claim(Box::new(chosen));
        self.record_step(BootStep::Claim, detail).await
    }
}
