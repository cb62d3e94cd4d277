//! The step `claim`: finds a host for the guest, and claims an allocation candidate on it.
//!
//! An earlier run of the step may have claimed already, or its claim may still be unanswered;
//! [`RequestedBoot::earlier_claim`] resolves that before a new search begins.

mod host_search;

use std::collections::BTreeSet;

use berth_client::placement::{ClaimError, GrantedClaim};
use berth_model::{DeviceProfileGroups, NodeName, ProviderUuid};
use tokio_util::sync::CancellationToken;

pub(crate) use host_search::claimed_amounts;
use host_search::{MAX_ROUNDS, SearchResult};

use super::{BootError, PlacedBoot, RequestedBoot};
use crate::boot_context::BootContext;
use crate::journal::{BootStep, BootStepDetail, ChosenHost, JournalError, StepState};

impl PlacedBoot {
    /// Confirms the guest's membership in its server group after the claim. A boot that was blocked for long
    /// between placement and claim may have been removed as stale, and other members were placed without it.
    async fn confirm_group_member(&self, context: &BootContext) -> Result<(), BootError> {
        let request = &self.record.request;
        let Some(group) = request.server_group() else {
            return Ok(());
        };
        let member = context.member(group, request.uuid());
        match context.scheduler.hosts.confirm_member(member).await? {
            true => Ok(()),
            false => Err(BootError::GroupPlaceLost),
        }
    }
}

impl RequestedBoot {
    /// Claims a host for the guest, and records an explanation of the result.
    pub(super) async fn place(
        self,
        context: &BootContext,
        cancel: &CancellationToken,
    ) -> Result<PlacedBoot, BootError> {
        let (error, is_recorded) = match self.search(context, cancel).await {
            Ok(SearchResult::Claimed(placed)) => {
                let placed = self.into_placed(*placed);
                placed.confirm_group_member(context).await?;
                return Ok(placed);
            }
            Ok(SearchResult::NoHost(_, error)) => (error, true),
            Ok(SearchResult::GroupChanged) => (BootError::GroupBusy(MAX_ROUNDS), false),
            Err(error) => (error, false),
        };
        // If there is no room, an unanswered claim may have taken it.
        if matches!(error, BootError::NoValidHost(_)) && self.release_late_claim(context).await? {
            return Err(BootError::ClaimLost);
        }
        if !is_recorded {
            self.record_failure(&context.scheduler, &error).await;
        }
        Err(error)
    }

    async fn search(
        &self,
        context: &BootContext,
        cancel: &CancellationToken,
    ) -> Result<SearchResult, BootError> {
        let consumer = self.record.request.uuid();
        // From here on, an equal claim of this guest is this conductor's.
        if !context
            .scheduler
            .hosts
            .claim_guest(context.owned(consumer))
            .await?
        {
            return Err(BootError::OwnedByOther(consumer));
        }
        if let Some(placed) = self.earlier_claim(context).await? {
            return Ok(SearchResult::Claimed(Box::new(placed)));
        }
        // Boxed to keep the future's type small.
        Box::pin(self.search_hosts(context, cancel)).await
    }

    /// The claim of an earlier run of this step; `None` if it claimed nothing, because the host may have been
    /// disabled or filled since, and other members may have been placed.
    async fn earlier_claim(
        &self,
        context: &BootContext,
    ) -> Result<Option<(ChosenHost, GrantedClaim)>, BootError> {
        let consumer = self.record.request.uuid();
        let held = context.placement.allocations(consumer).await?;
        let chosen = self.record.chosen(self.record.attempt).cloned();
        match (held, chosen, self.claim_state()) {
            // As granted, or moved by a reshape. A move is accepted only after ARQs may be bound to the
            // new providers; before that, the attempt is repeated.
            (Some(held), Some(chosen), Some(StepState::Done)) => {
                let is_moved = held.resources != *chosen.candidate.resources();
                if is_moved && !self.reached_bind() {
                    return Err(BootError::ClaimLost);
                }
                let claimed = GrantedClaim::from_journal(consumer, chosen.candidate.clone());
                Ok(Some((chosen, claimed)))
            }
            (Some(held), Some(chosen), _) if held.resources == *chosen.candidate.resources() => {
                let claimed = self.claim_chosen(context, &chosen).await?;
                Ok(Some((chosen, claimed)))
            }
            // An unanswered claim of an earlier attempt took effect after its undo.
            (Some(_), None, None) if context.has_late_claim(consumer).await? => {
                context.placement.delete_allocations(consumer).await?;
                Ok(None)
            }
            (Some(_), ..) => Err(self.foreign_allocation_error(context).await?),
            // The allocations disappeared, but ARQs may be bound to them and the agent may have the
            // guest: claim the same again, or undo the attempt.
            (None, Some(chosen), Some(StepState::Done)) => {
                if self.record.request.server_group().is_some() {
                    return Err(BootError::GroupPlaceLost);
                }
                // The journal records the step as done.
                context.record_late_claim(consumer).await?;
                match self.claim_chosen(context, &chosen).await {
                    Ok(claimed) => Ok(Some((chosen, claimed))),
                    Err(BootError::Claim(ClaimError::Taken(_))) => Err(BootError::ClaimLost),
                    Err(error) => Err(error),
                }
            }
            // The begun claim may still take effect while another host is searched.
            (None, _, Some(StepState::Begun)) => {
                context.record_late_claim(consumer).await?;
                Ok(None)
            }
            (None, ..) => Ok(None),
        }
    }

    /// Releases a claim that took effect late. Returns whether there was one.
    async fn release_late_claim(&self, context: &BootContext) -> Result<bool, BootError> {
        let consumer = self.record.request.uuid();
        let has_claim = context.has_late_claim(consumer).await?
            && context.placement.allocations(consumer).await?.is_some();
        if has_claim {
            context.placement.delete_allocations(consumer).await?;
        }
        Ok(has_claim)
    }

    /// Whether ARQs may be bound, or the agent may have the guest, in this attempt.
    fn reached_bind(&self) -> bool {
        [BootStep::Bind, BootStep::Build].into_iter().any(|step| {
            let step = self.record.step(step);
            step.is_some_and(|it| it.state != StepState::Undone)
        })
    }

    /// State of this attempt's claim at the start of the run.
    fn claim_state(&self) -> Option<StepState> {
        let claim = self.record.step(BootStep::Claim)?;
        (claim.state != StepState::Undone).then_some(claim.state)
    }

    /// The error for a consumer that holds other allocations than expected. If this conductor claimed them
    /// earlier, they are undone with the attempt; else they belong to another client, and stay.
    async fn foreign_allocation_error(
        &self,
        context: &BootContext,
    ) -> Result<BootError, JournalError> {
        let consumer = self.record.request.uuid();
        let is_own = self.claim_state().is_some() || context.has_late_claim(consumer).await?;
        Ok(match is_own {
            true => BootError::ClaimLost,
            false => ClaimError::HoldsOther { consumer }.into(),
        })
    }

    fn into_placed(self, (chosen, claimed): (ChosenHost, GrantedClaim)) -> PlacedBoot {
        PlacedBoot {
            record: self.record,
            chosen,
            claimed,
        }
    }

    /// The request groups of the device profile, if there is one.
    async fn profile(
        &self,
        context: &BootContext,
    ) -> Result<Option<DeviceProfileGroups>, BootError> {
        let Some(name) = self.record.request.profile() else {
            return Ok(None);
        };
        let profile = context.accelerators.device_profile_groups(name).await?;
        let profile = profile.ok_or_else(|| BootError::NoProfile(name.to_string()))?;
        Ok(Some(profile))
    }

    /// The requested or forced node with its provider; `None` if any node is allowed.
    async fn node_provider(
        &self,
        context: &BootContext,
    ) -> Result<Option<(&NodeName, ProviderUuid)>, BootError> {
        let Some(node) = self.record.request.node() else {
            return Ok(None);
        };
        match context.placement.provider_by_name(node.root_name()).await? {
            Some(root) => Ok(Some((node, root.uuid()))),
            None => {
                let why = format!("Placement has no host {node}");
                Err(BootError::NoValidHost(why.into()))
            }
        }
    }

    /// The providers that earlier attempts failed on; with `lasting`, only those with permanent failures.
    fn avoided(&self, lasting: bool) -> BTreeSet<ProviderUuid> {
        let failures = self.record.failures.iter();
        failures
            .filter(|failed| !(lasting && failed.passes))
            .flat_map(|failed| failed.avoid.iter().copied().map(ProviderUuid::from))
            .collect()
    }

    /// Records the candidate that is about to be claimed.
    async fn record_claim_begun(
        &self,
        context: &BootContext,
        chosen: &ChosenHost,
    ) -> Result<(), BootError> {
        let place = (self.record.request.uuid(), self.record.attempt);
        let detail = BootStepDetail::Claim(Box::new(chosen.clone()));
        context
            .record_step(place, BootStep::Claim, StepState::Begun, detail)
            .await?;
        Ok(())
    }

    /// Claims the recorded candidate.
    async fn claim_chosen(
        &self,
        context: &BootContext,
        chosen: &ChosenHost,
    ) -> Result<GrantedClaim, BootError> {
        let place = (self.record.request.uuid(), self.record.attempt);
        let detail = || BootStepDetail::Claim(Box::new(chosen.clone()));
        let claimant = self.record.request.claimant();
        let candidate = chosen.candidate.clone();
        match candidate.claim(&context.placement, &claimant).await {
            Ok(claimed) => {
                context
                    .record_step(place, BootStep::Claim, StepState::Done, detail())
                    .await?;
                Ok(claimed)
            }
            Err(ClaimError::HoldsOther { .. }) => {
                let error = self.foreign_allocation_error(context).await?;
                if !matches!(error, BootError::ClaimLost) {
                    self.record_no_claim(context).await?;
                }
                Err(error)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Records that this run claimed nothing, unless an earlier run's claim may still be granted.
    async fn record_no_claim(&self, context: &BootContext) -> Result<(), BootError> {
        if self.claim_state().is_some() {
            return Ok(());
        }
        let place = (self.record.request.uuid(), self.record.attempt);
        let (step, state) = (BootStep::Claim, StepState::Undone);
        Ok(context
            .record_step(place, step, state, BootStepDetail::Nothing)
            .await?)
    }
}
