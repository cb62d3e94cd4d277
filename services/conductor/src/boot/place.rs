//! From a request to a claim: profile, groups, candidates, order, claim.

mod filtered;

use std::collections::BTreeSet;

use berth_client::placement::{ClaimError, Claimed};
use berth_model::{DeviceProfileGroups, NodeName, ProviderUuid};
use tokio_util::sync::CancellationToken;

use filtered::{Ended, MOST_ROUNDS};

use super::{BootError, Placed, Requested};
use crate::journal::{BootStep, Chosen, StepDetail, StepState};
use crate::way::Way;

/// Why there is nothing left to try.
const NO_OTHER: &str = "there is no other host or device with what is asked for";

impl Placed {
    /// Whether the guest is still where its server group has it. Who stood still for long between place and claim may have been
    /// taken for one that is nowhere, and others chose by a group without it.
    async fn keeps_its_place(&self, way: &Way) -> Result<(), BootError> {
        let request = &self.record.request;
        let Some(group) = request.server_group() else {
            return Ok(());
        };
        let member = way.member(group, request.uuid());
        match way.scheduler.hosts.claimed(member).await? {
            true => Ok(()),
            false => Err(BootError::PlaceLost),
        }
    }
}

impl Requested {
    /// Claims a host for the guest. Why it has this one, or none, is kept, however the search ends.
    pub(super) async fn place(
        self,
        way: &Way,
        cancel: &CancellationToken,
    ) -> Result<Placed, BootError> {
        let error = match self.ended(way, cancel).await {
            Ok(Ended::Placed(placed)) => {
                let placed = self.placed(*placed);
                placed.keeps_its_place(way).await?;
                return Ok(placed);
            }
            Ok(Ended::Without(_, error)) => return Err(error),
            Ok(Ended::Overtaken) => BootError::GroupBusy(MOST_ROUNDS),
            Err(error) => error,
        };
        self.keep_error(&way.scheduler, &error).await;
        Err(error)
    }

    async fn ended(&self, way: &Way, cancel: &CancellationToken) -> Result<Ended, BootError> {
        let consumer = self.record.request.uuid();
        // An equal claim of this guest is one's own from here on.
        if !way.scheduler.hosts.own(way.own(consumer)).await? {
            return Err(BootError::OtherConductors(consumer));
        }
        // What was written down before may have been claimed.
        if let Some(chosen) = self.noted(way).await? {
            match self.claim(way, &chosen).await {
                Ok(claimed) => return Ok(Ended::Placed(Box::new((chosen, claimed)))),
                Err(BootError::Claim(ClaimError::Taken(_))) => {}
                Err(error) => return Err(error),
            }
        }
        // Whoever else has the UUID keeps what it holds.
        if way.placement.allocations(consumer).await?.is_some() {
            return Err(ClaimError::HoldsOther { consumer }.into());
        }
        // Boxed: what waits within what waits would be a deep type for whoever waits for a boot.
        Box::pin(self.place_filtered(way, cancel)).await
    }

    /// What was written down before, where it counts. Of a claim that was only begun that is what Placement has already: since then the
    /// host may have been disabled, or filled, and a guest of a server group may have been put on another one. One that was granted
    /// and is not there any more is claimed again, since accelerator requests may be bound to what it took.
    async fn noted(&self, way: &Way) -> Result<Option<Chosen>, BootError> {
        let Some(chosen) = self.record.chosen(self.record.attempt).cloned() else {
            return Ok(None);
        };
        let was_granted =
            self.record.step(BootStep::Claim).map(|it| it.state) == Some(StepState::Done);
        if was_granted && self.record.request.server_group().is_none() {
            return Ok(Some(chosen));
        }
        let held = way
            .placement
            .allocations(self.record.request.uuid())
            .await?;
        let is_claimed = held.is_some_and(|held| held.resources == *chosen.candidate.resources());
        match (is_claimed, was_granted) {
            (true, _) => Ok(Some(chosen)),
            (false, false) => Ok(None),
            (false, true) => Err(BootError::PlaceLost),
        }
    }

    fn placed(self, (chosen, claimed): (Chosen, Claimed)) -> Placed {
        Placed {
            record: self.record,
            chosen,
            claimed,
        }
    }

    /// The device profile's groups; none where the guest has no profile.
    async fn profile(&self, way: &Way) -> Result<Option<DeviceProfileGroups>, BootError> {
        let Some(name) = self.record.request.profile() else {
            return Ok(None);
        };
        let profile = way.accelerators.device_profile_groups(name).await?;
        let profile = profile.ok_or_else(|| BootError::NoProfile(name.to_string()))?;
        Ok(Some(profile))
    }

    /// The node that the guest must be on, and its provider; none where it may be on any.
    async fn node_provider(
        &self,
        way: &Way,
    ) -> Result<Option<(&NodeName, ProviderUuid)>, BootError> {
        let Some(node) = self.record.request.node() else {
            return Ok(None);
        };
        match way.placement.provider_by_name(node.root_name()).await? {
            Some(root) => Ok(Some((node, root.uuid()))),
            None => {
                let why = format!("Placement knows no host {node}");
                Err(BootError::NoValidHost(why.into()))
            }
        }
    }

    /// The providers that earlier attempts failed on; `lasting`: for reasons that do not pass by themselves.
    fn avoided(&self, lasting: bool) -> BTreeSet<ProviderUuid> {
        let failures = self.record.failures.iter();
        failures
            .filter(|failed| !(lasting && failed.passes))
            .flat_map(|failed| failed.avoid.iter().copied().map(ProviderUuid::from))
            .collect()
    }

    async fn claim(&self, way: &Way, chosen: &Chosen) -> Result<Claimed, BootError> {
        self.begin_claim(way, chosen).await?;
        self.claim_begun(way, chosen).await
    }

    /// Writes down what is about to be claimed.
    async fn begin_claim(&self, way: &Way, chosen: &Chosen) -> Result<(), BootError> {
        let place = (self.record.request.uuid(), self.record.attempt);
        let detail = StepDetail::Claim(Box::new(chosen.clone()));
        way.note(place, BootStep::Claim, StepState::Begun, detail)
            .await?;
        Ok(())
    }

    /// Claims what is written down.
    async fn claim_begun(&self, way: &Way, chosen: &Chosen) -> Result<Claimed, BootError> {
        let place = (self.record.request.uuid(), self.record.attempt);
        let detail = || StepDetail::Claim(Box::new(chosen.clone()));
        let claimant = self.record.request.claimant();
        let candidate = chosen.candidate.clone();
        match candidate.claim(&way.placement, &claimant).await {
            Ok(claimed) => {
                way.note(place, BootStep::Claim, StepState::Done, detail())
                    .await?;
                Ok(claimed)
            }
            Err(error) => {
                // What the guest's UUID holds is not this attempt's to release, unless it was claimed before and moved since.
                let was = self.record.step(BootStep::Claim).map(|it| it.state);
                let holds_other = matches!(error, ClaimError::HoldsOther { .. });
                if holds_other && was != Some(StepState::Done) {
                    self.nothing_claimed(way).await?;
                }
                Err(error.into())
            }
        }
    }

    async fn nothing_claimed(&self, way: &Way) -> Result<(), BootError> {
        let place = (self.record.request.uuid(), self.record.attempt);
        let (step, state) = (BootStep::Claim, StepState::Undone);
        Ok(way.note(place, step, state, StepDetail::Nothing).await?)
    }
}
