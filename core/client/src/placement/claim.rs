//! Claims: PUT /allocations/{consumer} for a consumer that must not exist yet.
//!
//! A [`Claimed`] must be consumed by [`Claimed::built`], when the guest owns it, or by [`Claimed::release`]; if
//! dropped, the claim stays allocated. A caller that may be killed journals the candidate first and claims again after
//! a restart: claiming the same candidate for the same consumer twice is one claim.

use std::time::Duration;

use berth_model::{ConsumerAllocations, ConsumerUuid, ProviderUuid, ResourceClass};
use http::StatusCode;
use tokio::time::sleep;

use super::{Candidate, DeleteOutcome, PlacementClient, PlacementError};
use crate::{Disposition, JitterRng};

/// How often a claim is tried that lost a race for a provider's generation.
const ATTEMPTS: u32 = 8;

/// The maximum delay before the second attempt; it doubles, up to sixteen times.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    pub consumer: ConsumerUuid,
    /// The project that pays.
    pub project_id: String,
    pub user_id: String,
}

/// A candidate that was not claimed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// No longer possible: another consumer was faster, or a provider is gone. Try another candidate.
    #[error("{0}")]
    Taken(Box<PlacementError>),
    /// The consumer holds something else already.
    #[error(
        "guest {consumer} holds other allocations already (openstack resource provider allocation show {consumer}); delete \
         that guest, or its allocations, first"
    )]
    HoldsOther { consumer: ConsumerUuid },
    /// The consumer should hold allocations, and has none.
    #[error(
        "guest {consumer} has no allocations in Placement; look at it with berth reconcile --dry-run"
    )]
    NoAllocations { consumer: ConsumerUuid },
    /// Placement failed. Claim again to find out whether the claim exists.
    #[error(transparent)]
    Placement(Box<PlacementError>),
}

impl From<PlacementError> for ClaimError {
    fn from(error: PlacementError) -> Self {
        Self::Placement(Box::new(error))
    }
}

impl ClaimError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Taken(_) => Disposition::Refresh,
            Self::HoldsOther { .. } | Self::NoAllocations { .. } => Disposition::Fatal,
            Self::Placement(error) => error.disposition(),
        }
    }
}

/// A candidate that is a guest's.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither built upon nor released stays allocated"]
pub struct GrantedClaim {
    consumer: ConsumerUuid,
    candidate: Candidate,
}

/// The claim could not be released and still exists.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct NotReleased {
    /// The claim, to be released later.
    pub claimed: GrantedClaim,
    pub reason: PlacementError,
}

impl Candidate {
    /// Claims the candidate for the consumer, all of it or nothing. If the consumer already holds it,
    /// that is a success.
    pub async fn claim(
        self,
        placement: &PlacementClient,
        claimant: &Claimant,
    ) -> Result<GrantedClaim, ClaimError> {
        let wanted = ConsumerAllocations {
            project_id: claimant.project_id.clone(),
            user_id: claimant.user_id.clone(),
            generation: None,
            resources: self.resources().clone(),
        };
        let consumer = claimant.consumer;
        let rng = JitterRng::from_os();
        let mut attempt = 1;
        loop {
            let refused = match placement.put_allocations(consumer, &wanted).await {
                Ok(()) => break,
                Err(error) => error,
            };
            match refused {
                // The consumer already exists, or there was a concurrent claim.
                PlacementError::Conflict(_) => match placement.allocations(consumer).await? {
                    Some(held) if held.resources == wanted.resources => break,
                    Some(_) => return Err(ClaimError::HoldsOther { consumer }),
                    None if attempt < ATTEMPTS => {
                        let longest = PAUSE.saturating_mul(1 << attempt.min(4));
                        sleep(longest.mul_f64(rng.fraction())).await;
                        attempt += 1;
                    }
                    None => return Err(ClaimError::Taken(Box::new(refused))),
                },
                PlacementError::Refused(ref refusal) if refusal.status == StatusCode::CONFLICT => {
                    return Err(ClaimError::Taken(Box::new(refused)));
                }
                PlacementError::NotFound(_) => return Err(ClaimError::Taken(Box::new(refused))),
                other => return Err(other.into()),
            }
        }
        Ok(GrantedClaim {
            consumer,
            candidate: self,
        })
    }
}

impl PlacementClient {
    /// Sets what a consumer that has allocations has of one class of one provider. Zero takes all of it. Its other allocations
    /// stay.
    ///
    /// Errors: [`ClaimError::Taken`] if the provider is gone or has no room, [`ClaimError::NoAllocations`], or no answer.
    pub async fn set_units(
        &self,
        consumer: ConsumerUuid,
        of: (ProviderUuid, ResourceClass),
        amount: u64,
    ) -> Result<(), ClaimError> {
        let rng = JitterRng::from_os();
        let mut attempt = 1;
        loop {
            let Some(mut held) = self.allocations(consumer).await? else {
                return match amount {
                    0 => Ok(()),
                    _ => Err(ClaimError::NoAllocations { consumer }),
                };
            };
            if held.resources.get(&of).copied().unwrap_or(0) == amount {
                return Ok(());
            }
            match amount {
                0 => drop(held.resources.remove(&of)),
                _ => drop(held.resources.insert(of.clone(), amount)),
            }
            let refused = match self.put_allocations(consumer, &held).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match refused {
                // The consumer or a provider was changed concurrently.
                PlacementError::Conflict(_) if attempt < ATTEMPTS => {
                    let longest = PAUSE.saturating_mul(1 << attempt.min(4));
                    sleep(longest.mul_f64(rng.fraction())).await;
                    attempt += 1;
                }
                PlacementError::Refused(ref refusal) if refusal.status == StatusCode::CONFLICT => {
                    return Err(ClaimError::Taken(Box::new(refused)));
                }
                PlacementError::NotFound(_) => return Err(ClaimError::Taken(Box::new(refused))),
                other => return Err(other.into()),
            }
        }
    }
}

impl GrantedClaim {
    /// A claim that was journaled before it was sent, so it may or may not exist: to be released.
    pub fn from_journal(consumer: ConsumerUuid, candidate: Candidate) -> Self {
        Self {
            consumer,
            candidate,
        }
    }

    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The guest now owns the claim; it is released with the guest.
    pub fn built(self) -> Candidate {
        self.candidate
    }

    pub async fn release(
        self,
        placement: &PlacementClient,
    ) -> Result<DeleteOutcome, Box<NotReleased>> {
        placement
            .delete_allocations(self.consumer)
            .await
            .map_err(|reason| {
                let claimed = self;
                Box::new(NotReleased { claimed, reason })
            })
    }
}
