//! The host's agent builds the guest.

use std::collections::BTreeMap;

use berth_client::{GuestApiError, GuestClient};
use berth_model::Disposition;
use berth_wire::guest::{GuestBuild, ImageLocation};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{BootError, Bound};
use crate::BootRequest;
use crate::journal::{BootStep, StepDetail, StepState};
use crate::way::Way;

/// The code of an agent whose host has no place for the guest, or not the devices that it was given.
const NO_ROOM: &str = "no_room";
/// The code of an agent that has another guest with that UUID.
const OTHER: &str = "other";

impl Bound {
    /// Hands the guest to its agent, and waits until it is what it should be.
    pub(super) async fn build(
        self,
        way: &Way,
        cancel: &CancellationToken,
    ) -> Result<(), BootError> {
        let placed = &self.provided.placed;
        let (place, step) = (placed.place(), BootStep::Build);
        let node = &placed.chosen.node;
        let agent = way.agents.agent(node);
        let agent = agent.ok_or_else(|| BootError::NoAgent(node.clone()))?;
        let began_before = placed.record.step(step).is_some();
        way.note(place, step, StepState::Begun, StepDetail::Nothing)
            .await?;
        if let Err(error) = agent.build(&self.body()).await {
            let code = error.refusal().map(|it| it.code.as_str());
            let (no_room, other) = (code == Some(NO_ROOM), code == Some(OTHER));
            let is_refused = error.disposition() == Disposition::Fatal;
            // A guest that the agent did not accept is not its conductor's: were one of that UUID there, it is somebody else's.
            if other || (is_refused && code.is_some() && !began_before) {
                way.note(place, step, StepState::Undone, StepDetail::Nothing)
                    .await?;
            }
            return Err(match is_refused {
                // Another candidate may have room.
                _ if no_room => BootError::NotBuilt(error.to_string()),
                // Another request has its UUID there, or it is not understood: another host would say the same.
                true => BootError::NotAccepted(error),
                false => BootError::Agent(error),
            });
        }
        is_built(&agent, &placed.record.request, way, cancel).await?;
        way.note(place, step, StepState::Done, StepDetail::Nothing)
            .await?;
        let _the_guests_own = self.provided.placed.claimed.built();
        Ok(())
    }

    fn body(&self) -> GuestBuild {
        let placed = &self.provided.placed;
        let mut allocations: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for ((provider, class), amount) in placed.claimed.candidate().resources() {
            let of_provider = allocations.entry(*provider.as_uuid()).or_default();
            of_provider.insert(class.to_string(), *amount);
        }
        let arqs = self.provided.arqs.keys();
        GuestBuild {
            accelerator_requests: arqs.map(|arq| *arq.as_uuid()).collect(),
            allocations,
            ..placed
                .record
                .request
                .build_on(&placed.chosen.node, &placed.chosen.limits)
        }
    }
}

/// Waits until the agent has built it, or says why not. An image may take long, and a guest that is being built has an owner: there
/// is no limit but the caller's patience.
async fn is_built(
    agent: &GuestClient,
    request: &BootRequest,
    way: &Way,
    cancel: &CancellationToken,
) -> Result<(), BootError> {
    loop {
        let guest = request.uuid();
        let told = agent.guest(guest).await.map_err(|error| match error {
            GuestApiError::Refused(_) => BootError::NotBuilt(error.to_string()),
            error => BootError::Agent(error),
        })?;
        let Some(told) = told else {
            let reason = "the agent does not know the guest any more";
            return Err(BootError::NotBuilt(reason.to_owned()));
        };
        way.image_is(guest, told.image);
        match Build::of_word(&told.status) {
            Build::Done => return Ok(()),
            Build::Failed => {
                let reason = told
                    .reason
                    .unwrap_or_else(|| "it does not say why".to_owned());
                return Err(match (told.blame.as_deref(), is_of_host(request)) {
                    (Some("image"), false) => BootError::BadImage(reason),
                    (Some("image" | "host"), _) => BootError::HostCannot(reason),
                    _ => BootError::NotBuilt(reason),
                });
            }
            Build::Deleted => {
                let reason = "the guest is deleted at its agent meanwhile";
                return Err(BootError::NotBuilt(reason.to_owned()));
            }
            Build::UnderWay => {}
        }
        tokio::select! {
            () = cancel.cancelled() => return Err(BootError::Cancelled),
            () = sleep(way.options.poll) => {}
        }
    }
}

/// Whether each host has its own image by that name.
fn is_of_host(request: &BootRequest) -> bool {
    let image = request.body().image.as_ref();
    image.is_some_and(|image| matches!(image.location, ImageLocation::Path(_)))
}

/// What an agent's word for a guest says of its build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Build {
    /// It was built; what has become of it since is its owner's.
    Done,
    /// It was not, and nothing is left of it.
    Failed,
    /// Somebody deletes it there.
    Deleted,
    /// It is not decided yet.
    UnderWay,
}

impl Build {
    fn of_word(status: &str) -> Self {
        match status {
            "active" | "stopped" | "paused" | "rescued" | "rescuing" | "unrescuing"
            | "rebuilding" => Self::Done,
            "failed" => Self::Failed,
            "deleting" => Self::Deleted,
            // building, failing, or a word of a later agent's.
            _ => Self::UnderWay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Build;

    /// A conductor that was killed before it heard that a guest was built may find it in any state of its life.
    #[test]
    fn a_guest_that_lives_was_built_whatever_has_become_of_it() {
        for (word, build) in [
            ("building", Build::UnderWay),
            ("failing", Build::UnderWay),
            ("a word of a later agent", Build::UnderWay),
            ("failed", Build::Failed),
            ("deleting", Build::Deleted),
            ("active", Build::Done),
            ("stopped", Build::Done),
            ("paused", Build::Done),
            ("rescued", Build::Done),
            ("rescuing", Build::Done),
            ("unrescuing", Build::Done),
            ("rebuilding", Build::Done),
        ] {
            assert_eq!(Build::of_word(word), build, "{word}");
        }
    }
}
