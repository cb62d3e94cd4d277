//! The host's agent builds the guest.

use berth_client::{GuestApiError, GuestClient};
use berth_model::Disposition;
use berth_wire::guest::{GuestBuild, ImageLocation};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{BootError, Bound};
use crate::BootRequest;
use crate::journal::{BootStep, StepDetail, StepState};
use crate::way::Way;

/// The code of an agent that has another guest with that UUID.
const OTHER: &str = "other";
/// The codes of an agent after which no other host is asked: the request is not understood, or a guest of that UUID is there already,
/// and a second one was worse than none.
const EVERYWHERE: [&str; 3] = ["bad_request", "too_large", OTHER];

/// What it says of other hosts that an agent does not take a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// They would say the same, or must not be asked.
    Everywhere,
    /// Nothing: another may take it.
    Here,
    /// Nothing, and this one may take it later.
    Now,
}

impl Refusal {
    fn of(error: &GuestApiError) -> Self {
        match (error.disposition(), code(error)) {
            (Disposition::Retry, _) => Self::Now,
            (Disposition::Fatal, code) if EVERYWHERE.contains(&code) => Self::Everywhere,
            (Disposition::Fatal | Disposition::Refresh, _) => Self::Here,
        }
    }

    /// Whether the agent itself decided it; what has no code was said by somebody before it, or by nobody.
    fn is_the_agents(self, error: &GuestApiError) -> bool {
        self != Self::Now && !code(error).is_empty()
    }
}

fn code(error: &GuestApiError) -> &str {
    error.refusal().map_or("", |it| it.code.as_str())
}

fn is_other(error: &GuestApiError) -> bool {
    code(error) == OTHER
}

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
        // What an earlier try noted as undone never reached the agent.
        let before = placed.record.step(step).map(|it| it.state);
        let began_before = before.is_some_and(|state| state != StepState::Undone);
        way.note(place, step, StepState::Begun, StepDetail::Nothing)
            .await?;
        if let Err(error) = agent.build(&self.body()).await {
            let refusal = Refusal::of(&error);
            // A guest that the agent did not accept is not its conductor's: were one of that UUID there, it is somebody else's. And
            // of one that it never heard of it need not say that it is gone.
            let is_new = !began_before && (refusal.is_the_agents(&error) || error.never_arrived());
            if is_new || is_other(&error) {
                way.note(place, step, StepState::Undone, StepDetail::Nothing)
                    .await?;
            }
            return Err(match refusal {
                Refusal::Everywhere => BootError::NotAccepted(error),
                Refusal::Here => BootError::NotBuilt(error.to_string()),
                Refusal::Now => BootError::Agent(error),
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
        let arqs = self.provided.arqs.keys();
        GuestBuild {
            accelerator_requests: arqs.map(|arq| *arq.as_uuid()).collect(),
            allocations: placed.claimed.candidate().by_provider(),
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
        let told = agent
            .guest(guest)
            .await
            .map_err(|error| match error.disposition() {
                Disposition::Retry => BootError::Agent(error),
                Disposition::Refresh | Disposition::Fatal => BootError::NotBuilt(error.to_string()),
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
