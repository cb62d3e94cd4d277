//! From a request to a claim: profile, groups, candidates, order, claim.

mod filtered;

use std::collections::BTreeSet;

use berth_client::placement::{ClaimError, Claimed};
use berth_model::{DeviceProfileGroups, NodeName, ProviderUuid};
use tokio_util::sync::CancellationToken;

use filtered::{Ended, MOST_ROUNDS};

use super::{BootError, Placed, Requested};
use crate::journal::{BootStep, Chosen, JournalError, StepDetail, StepState};
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
        let (error, is_kept) = match self.ended(way, cancel).await {
            Ok(Ended::Placed(placed)) => {
                let placed = self.placed(*placed);
                placed.keeps_its_place(way).await?;
                return Ok(placed);
            }
            Ok(Ended::Without(_, error)) => (error, true),
            Ok(Ended::Overtaken) => (BootError::GroupBusy(MOST_ROUNDS), false),
            Err(error) => (error, false),
        };
        // What has no room anywhere may have it already, by a claim that came meanwhile.
        if matches!(error, BootError::NoValidHost(_)) && self.late_claim_is_released(way).await? {
            return Err(BootError::ClaimLost);
        }
        if !is_kept {
            self.keep_error(&way.scheduler, &error).await;
        }
        Err(error)
    }

    async fn ended(&self, way: &Way, cancel: &CancellationToken) -> Result<Ended, BootError> {
        let consumer = self.record.request.uuid();
        // An equal claim of this guest is one's own from here on.
        if !way.scheduler.hosts.own(way.own(consumer)).await? {
            return Err(BootError::OtherConductors(consumer));
        }
        if let Some(placed) = self.placed_before(way).await? {
            return Ok(Ended::Placed(Box::new(placed)));
        }
        // Boxed: what waits within what waits would be a deep type for whoever waits for a boot.
        Box::pin(self.place_filtered(way, cancel)).await
    }

    /// What an earlier look claimed. None where it claimed nothing: since then the host may have been disabled, or filled, and a guest of
    /// a server group may have been put on another one.
    async fn placed_before(&self, way: &Way) -> Result<Option<(Chosen, Claimed)>, BootError> {
        let consumer = self.record.request.uuid();
        let held = way.placement.allocations(consumer).await?;
        let chosen = self.record.chosen(self.record.attempt).cloned();
        match (held, chosen, self.was_claimed()) {
            // As it was granted; or where a reshape has moved it since, which must be before anything is bound to what was chosen, or
            // after everything is.
            (Some(held), Some(chosen), Some(StepState::Done)) => {
                let is_moved = held.resources != *chosen.candidate.resources();
                if is_moved && !self.came_as_far_as_bind() {
                    return Err(BootError::ClaimLost);
                }
                let claimed = Claimed::noted_before(consumer, chosen.candidate.clone());
                Ok(Some((chosen, claimed)))
            }
            (Some(held), Some(chosen), _) if held.resources == *chosen.candidate.resources() => {
                let claimed = self.claim_begun(way, &chosen).await?;
                Ok(Some((chosen, claimed)))
            }
            // What was asked for before came after it was given up.
            (Some(_), None, None) if way.may_come_late(consumer).await? => {
                way.placement.delete_allocations(consumer).await?;
                Ok(None)
            }
            (Some(_), ..) => Err(self.holds_other(way).await?),
            // Accelerator requests may be bound to what it took, and its agent may have the guest: there, or undone.
            (None, Some(chosen), Some(StepState::Done)) => {
                if self.record.request.server_group().is_some() {
                    return Err(BootError::PlaceLost);
                }
                // The step is done as far as anybody reads it.
                way.late_claim(consumer).await?;
                match self.claim_begun(way, &chosen).await {
                    Ok(claimed) => Ok(Some((chosen, claimed))),
                    Err(BootError::Claim(ClaimError::Taken(_))) => Err(BootError::ClaimLost),
                    Err(error) => Err(error),
                }
            }
            // Another place is looked for, and this claim may come all the same.
            (None, _, Some(StepState::Begun)) => {
                way.late_claim(consumer).await?;
                Ok(None)
            }
            (None, ..) => Ok(None),
        }
    }

    /// Gives back what came of a claim that was asked for before; whether there was one.
    async fn late_claim_is_released(&self, way: &Way) -> Result<bool, BootError> {
        let consumer = self.record.request.uuid();
        let came = way.may_come_late(consumer).await?
            && way.placement.allocations(consumer).await?.is_some();
        if came {
            way.placement.delete_allocations(consumer).await?;
        }
        Ok(came)
    }

    /// Whether accelerator requests may be bound to what was chosen, or an agent have it, in this attempt.
    fn came_as_far_as_bind(&self) -> bool {
        [BootStep::Bind, BootStep::Build].into_iter().any(|step| {
            let step = self.record.step(step);
            step.is_some_and(|it| it.state != StepState::Undone)
        })
    }

    /// How far the claim of this attempt was when this look began.
    fn was_claimed(&self) -> Option<StepState> {
        let claim = self.record.step(BootStep::Claim)?;
        (claim.state != StepState::Undone).then_some(claim.state)
    }

    /// The guest's UUID holds something else than what it was to have. Where an earlier look or attempt asked for it, that came late:
    /// it is undone with the attempt. Else it is another's, who keeps it.
    async fn holds_other(&self, way: &Way) -> Result<BootError, JournalError> {
        let consumer = self.record.request.uuid();
        let is_own = self.was_claimed().is_some() || way.may_come_late(consumer).await?;
        Ok(match is_own {
            true => BootError::ClaimLost,
            false => ClaimError::HoldsOther { consumer }.into(),
        })
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
            Err(ClaimError::HoldsOther { .. }) => {
                let error = self.holds_other(way).await?;
                if !matches!(error, BootError::ClaimLost) {
                    self.nothing_claimed(way).await?;
                }
                Err(error)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// No claim of this look was granted. One that an earlier look asked for may still be.
    async fn nothing_claimed(&self, way: &Way) -> Result<(), BootError> {
        if self.was_claimed().is_some() {
            return Ok(());
        }
        let place = (self.record.request.uuid(), self.record.attempt);
        let (step, state) = (BootStep::Claim, StepState::Undone);
        Ok(way.note(place, step, state, StepDetail::Nothing).await?)
    }
}
