//! The step `build`: sends the guest to the host's agent, and waits until the agent has built it.

use berth_client::{GuestApiError, GuestClient};
use berth_keyed_tasks::FairPermit;
use berth_model::Disposition;
use berth_wire::guest::{GuestAction, GuestBuild, ImageLocation, NetworkBody, NetworkSource};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{BootError, NetworkedBoot};
use crate::BootRequest;
use crate::boot_context::BootContext;
use crate::journal::{BootStep, BootStepDetail, StepState};

/// Error code of an agent that has another guest with the same UUID.
const CODE_OTHER_GUEST: &str = "other";
/// Error codes after which no other host is tried: the request is invalid, or the agent already has a guest with this
/// UUID, and a second guest must not be created.
const REFUSED_BY_ANY_HOST: [&str; 3] = ["bad_request", "too_large", CODE_OTHER_GUEST];

/// How often an agent may accept the binding of a guest's ports and still report them as unbound.
const MAX_BINDINGS: u32 = 3;

/// What an agent's refusal means for other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BuildRefusal {
    /// Other hosts would refuse, too, or must not be tried.
    AnyHost,
    /// Another host may accept the guest.
    ThisHost,
    /// The same host may accept the guest later.
    Transient,
}

impl BuildRefusal {
    fn of(error: &GuestApiError) -> Self {
        match (error.disposition(), code(error)) {
            (Disposition::Retry, _) => Self::Transient,
            (Disposition::Fatal, code) if REFUSED_BY_ANY_HOST.contains(&code) => Self::AnyHost,
            (Disposition::Fatal | Disposition::Refresh, _) => Self::ThisHost,
        }
    }

    /// Whether the agent itself refused. An error without a code comes from a proxy or from the transport.
    fn is_from_agent(self, error: &GuestApiError) -> bool {
        self != Self::Transient && !code(error).is_empty()
    }
}

fn code(error: &GuestApiError) -> &str {
    error.refusal().map_or("", |it| it.code.as_str())
}

fn is_other(error: &GuestApiError) -> bool {
    code(error) == CODE_OTHER_GUEST
}

impl NetworkedBoot {
    /// Sends the guest to its agent, and waits until it is built. The permit is for the time until the agent has it.
    pub(super) async fn build(
        self,
        context: &BootContext,
        cancel: &CancellationToken,
        permit: FairPermit<String>,
    ) -> Result<(), BootError> {
        let placed = &self.bound.provided.placed;
        let (place, step) = (placed.place(), BootStep::Build);
        let node = placed.chosen.host_node();
        let agent = context.agents.agent(&node);
        let agent = agent.ok_or(BootError::NoAgent(node.host))?;
        // If an earlier run recorded the step as undone, the request never reached the agent.
        let before = placed.record.step(step).map(|it| it.state);
        let was_sent_before = before.is_some_and(|state| state != StepState::Undone);
        context
            .record_step(place, step, StepState::Begun, BootStepDetail::Nothing)
            .await?;
        if let Err(error) = agent.build(&self.body()).await {
            let refusal = BuildRefusal::of(&error);
            // Without acceptance, a guest with this UUID on the agent belongs to another client, so undo
            // must not delete it. And if the request never arrived, undo need not ask the agent.
            let is_new =
                !was_sent_before && (refusal.is_from_agent(&error) || error.never_arrived());
            if is_new || is_other(&error) {
                context
                    .record_step(place, step, StepState::Undone, BootStepDetail::Nothing)
                    .await?;
            }
            return Err(match refusal {
                BuildRefusal::AnyHost => BootError::NotAccepted(error),
                BuildRefusal::ThisHost => BootError::NotBuilt(error.to_string()),
                BuildRefusal::Transient => BootError::Agent(error),
            });
        }
        drop(permit);
        self.wait_until_built(&agent, context, cancel).await?;
        context
            .record_step(place, step, StepState::Done, BootStepDetail::Nothing)
            .await?;
        let _kept_by_guest = self.bound.provided.placed.claimed.built();
        Ok(())
    }

    fn body(&self) -> GuestBuild {
        let provided = &self.bound.provided;
        let placed = &provided.placed;
        let arqs = provided.arqs.keys();
        let chosen = &placed.chosen;
        let mut build = placed.record.request.build_on(&chosen.node, &chosen.limits);
        if let Some(drive) = &mut build.config_drive {
            drive.availability_zone.clone_from(&chosen.zone);
        }
        let ports = self.vifs.iter().map(|vif| NetworkBody {
            source: NetworkSource::Port(Box::new(vif.clone())),
            mac: None,
        });
        build.networks.extend(ports);
        GuestBuild {
            accelerator_requests: arqs.map(|arq| *arq.as_uuid()).collect(),
            allocations: placed.claimed.candidate().by_provider(),
            ..build
        }
    }

    /// Waits until the agent has built the guest or reports a failure, and binds the direct ports when the agent has selected
    /// their functions. There is no timeout: an image download may take long, and the guest can be deleted at any time.
    async fn wait_until_built(
        &self,
        agent: &GuestClient,
        context: &BootContext,
        cancel: &CancellationToken,
    ) -> Result<(), BootError> {
        let request = &self.bound.provided.placed.record.request;
        let mut bindings = 0;
        loop {
            let guest = request.uuid();
            let guest_view =
                agent
                    .guest(guest)
                    .await
                    .map_err(|error| match error.disposition() {
                        Disposition::Retry => BootError::Agent(error),
                        Disposition::Refresh | Disposition::Fatal => {
                            BootError::NotBuilt(error.to_string())
                        }
                    })?;
            let Some(guest_view) = guest_view else {
                let reason = "the agent no longer has the guest";
                return Err(BootError::NotBuilt(reason.to_owned()));
            };
            context.set_image_download(guest, guest_view.image);
            match GuestBuildStatus::from_agent_status(&guest_view.status) {
                GuestBuildStatus::Done => return Ok(()),
                GuestBuildStatus::Failed => {
                    let reason = guest_view
                        .reason
                        .unwrap_or_else(|| "the agent gave no reason".to_owned());
                    return Err(
                        match (guest_view.blame.as_deref(), is_host_image(request)) {
                            (Some("image"), false) => BootError::BadImage(reason),
                            (Some("image" | "host"), _) => BootError::HostCannot(reason),
                            _ => BootError::NotBuilt(reason),
                        },
                    );
                }
                GuestBuildStatus::Deleted => {
                    let reason = "the guest was deleted at its agent during the boot";
                    return Err(BootError::NotBuilt(reason.to_owned()));
                }
                GuestBuildStatus::InProgress if !guest_view.unbound_functions.is_empty() => {
                    if bindings == MAX_BINDINGS {
                        let reason = "the agent accepts the binding of the guest's ports and does not record it";
                        return Err(BootError::NotBuilt(reason.to_owned()));
                    }
                    bindings += 1;
                    let functions = &guest_view.unbound_functions;
                    let ports = self.bind_functions(context, functions).await?;
                    let bind = GuestAction::BindPorts { ports };
                    let bound = agent.action(guest, &bind, None);
                    bound.await.map_err(|error| match error.is_temporary() {
                        true => BootError::Agent(error),
                        false => BootError::NotBuilt(error.to_string()),
                    })?;
                }
                GuestBuildStatus::InProgress => {}
            }
            tokio::select! {
                () = cancel.cancelled() => return Err(BootError::Cancelled),
                () = sleep(context.options.poll_interval) => {}
            }
        }
    }
}

/// Whether the image is a path on the host, so that each host may have another image.
fn is_host_image(request: &BootRequest) -> bool {
    let image = request.body().image.as_ref();
    image.is_some_and(|image| matches!(image.location, ImageLocation::Path(_)))
}

/// Progress of a build, from the status that an agent reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuestBuildStatus {
    /// Built. Later changes of its state are not part of the boot.
    Done,
    /// Failed, and nothing of it is left.
    Failed,
    /// Being deleted at the agent.
    Deleted,
    InProgress,
}

impl GuestBuildStatus {
    fn from_agent_status(status: &str) -> Self {
        match status {
            "active" | "stopped" | "paused" | "rescued" | "rescuing" | "unrescuing"
            | "rebuilding" => Self::Done,
            "failed" => Self::Failed,
            "deleting" => Self::Deleted,
            // building, failing, or a status of a later release
            _ => Self::InProgress,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GuestBuildStatus;

    /// If the conductor restarted before it recorded the build, the guest may be in any later state.
    #[test]
    fn a_guest_that_lives_was_built_whatever_has_become_of_it() {
        for (word, build) in [
            ("building", GuestBuildStatus::InProgress),
            ("failing", GuestBuildStatus::InProgress),
            ("a value of a later agent", GuestBuildStatus::InProgress),
            ("failed", GuestBuildStatus::Failed),
            ("deleting", GuestBuildStatus::Deleted),
            ("active", GuestBuildStatus::Done),
            ("stopped", GuestBuildStatus::Done),
            ("paused", GuestBuildStatus::Done),
            ("rescued", GuestBuildStatus::Done),
            ("rescuing", GuestBuildStatus::Done),
            ("unrescuing", GuestBuildStatus::Done),
            ("rebuilding", GuestBuildStatus::Done),
        ] {
            assert_eq!(GuestBuildStatus::from_agent_status(word), build, "{word}");
        }
    }
}
