//! A claim: a candidate that becomes a guest's own, by PUT /allocations/{consumer} of a consumer that must not exist yet.
//!
//! A [`Claimed`] is used up by [`Claimed::built`], when the guest has it, or by [`Claimed::release`]: one that is dropped is a
//! claim that nobody gives back. A caller who may be killed in between writes the candidate down before, and has the claim again
//! by claiming once more: the same claim of the same consumer is the same claim.

use std::time::Duration;

use berth_model::{ConsumerAllocations, ConsumerUuid};
use http::StatusCode;
use tokio::time::sleep;

use super::{Candidate, Deleted, PlacementClient, PlacementError};
use crate::{Dice, Disposition};

/// How often a claim is tried that lost a race for a provider's generation.
const ATTEMPTS: u32 = 8;

/// The longest pause before the second try; it doubles, up to sixteen times that.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    pub consumer: ConsumerUuid,
    /// The project that pays.
    pub project_id: String,
    /// The user who asked.
    pub user_id: String,
}

/// A candidate that was not claimed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// It does not fit any more: somebody else was quicker, or a provider went away. Another candidate may.
    #[error("{0}")]
    Taken(Box<PlacementError>),
    /// The consumer holds something else already.
    #[error(
        "guest {consumer} holds other allocations already (openstack resource provider allocation show {consumer}); delete \
         that guest, or its allocations, first"
    )]
    HoldsOther {
        consumer: ConsumerUuid,
    },
    /// Placement did not do it. Whether it is done has to be asked, by claiming again.
    #[error(transparent)]
    Placement(Box<PlacementError>),
}

impl From<PlacementError> for ClaimError {
    fn from(error: PlacementError) -> Self {
        Self::Placement(Box::new(error))
    }
}

impl ClaimError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Taken(_) => Disposition::Refresh,
            Self::HoldsOther { .. } => Disposition::Fatal,
            Self::Placement(error) => error.disposition(),
        }
    }
}

/// A candidate that is a guest's.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither built upon nor released is held for nobody"]
pub struct Claimed {
    consumer: ConsumerUuid,
    candidate: Candidate,
}

/// A claim that could not be given back: it still is there.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct NotReleased {
    /// The claim, to be released later.
    pub claimed: Claimed,
    pub reason: PlacementError,
}

impl Candidate {
    /// Makes it the claimant's, all of it or nothing. Where the claimant has it already, that is it.
    pub async fn claim(
        self,
        placement: &PlacementClient,
        claimant: &Claimant,
    ) -> Result<Claimed, ClaimError> {
        let wanted = ConsumerAllocations {
            project_id: claimant.project_id.clone(),
            user_id: claimant.user_id.clone(),
            generation: None,
            resources: self.resources().clone(),
        };
        let consumer = claimant.consumer;
        let dice = Dice::thrown();
        let mut attempt = 1;
        loop {
            let refused = match placement.put_allocations(consumer, &wanted).await {
                Ok(()) => break,
                Err(error) => error,
            };
            match refused {
                // It exists already, or another claim met this one.
                PlacementError::Conflict(_) => match placement.allocations(consumer).await? {
                    Some(held) if held.resources == wanted.resources => break,
                    Some(_) => return Err(ClaimError::HoldsOther { consumer }),
                    None if attempt < ATTEMPTS => {
                        let longest = PAUSE.saturating_mul(1 << attempt.min(4));
                        sleep(longest.mul_f64(dice.fraction())).await;
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
        Ok(Claimed {
            consumer,
            candidate: self,
        })
    }
}

impl Claimed {
    /// A claim that was written down before it was made, whether it was made or not: to be released.
    pub fn noted_before(consumer: ConsumerUuid, candidate: Candidate) -> Self {
        Self {
            consumer,
            candidate,
        }
    }

    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The guest that it was made for is there and has it: it goes with that guest.
    pub fn built(self) -> Candidate {
        self.candidate
    }

    pub async fn release(self, placement: &PlacementClient) -> Result<Deleted, Box<NotReleased>> {
        placement
            .delete_allocations(self.consumer)
            .await
            .map_err(|reason| {
                let claimed = self;
                Box::new(NotReleased { claimed, reason })
            })
    }
}
