//! Attaches ports to servers, and detaches them: actions that the conductor carries out with Neutron and the agent.

use berth_client::{Disposition, GuestApiError};
use berth_conductor::InterfaceError;
use berth_model::ConsumerUuid;
use berth_wire::conductor::RequestedNetwork;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::compute::Compute;
use crate::instance_actions::{ActionOutcome, OpenAction};
use crate::server_actions::{AgentAnswer, failure, parse_action};
use crate::server_state::Action;
use crate::servers::{ActionChanges, ActionEnd, ServerActionStart, ServerError};

/// A change of a server's interfaces, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InterfaceChange {
    /// A new port in a network, or a given port.
    Attach(RequestedNetwork),
    /// The port with this UUID.
    Detach(Uuid),
}

impl InterfaceChange {
    pub(crate) fn action(&self) -> Action {
        match self {
            Self::Attach(_) => Action::AttachInterface,
            Self::Detach(_) => Action::DetachInterface,
        }
    }
}

impl Compute {
    /// Records a change of a server's interfaces. The caller has checked that it is allowed.
    pub(crate) async fn start_interface_change(
        &self,
        server: Uuid,
        change: &InterfaceChange,
        (user_id, request_id): (&str, &str),
    ) -> Result<(), ServerError> {
        let start = ServerActionStart {
            action: change.action(),
            body: String::from_utf8_lossy(&berth_wire::encode(change)).into_owned(),
            changes: ActionChanges::default(),
            user_id,
            request_id,
        };
        self.queue_action(server, start).await
    }

    pub(crate) async fn change_interface(&self, server: Uuid, action: &OpenAction) -> AgentAnswer {
        let Some((change, id)) = parse_action::<InterfaceChange>(action) else {
            let reason = "this release does not know the action".to_owned();
            return AgentAnswer::Ended(failure(reason, None));
        };
        let (conductor, guest) = (&self.inner.conductor, ConsumerUuid::from(server));
        let changed = match &change {
            InterfaceChange::Attach(wanted) => {
                let attached = conductor.attach_interface(guest, wanted, &id).await;
                attached.map(drop)
            }
            InterfaceChange::Detach(port) => conductor.detach_interface(guest, *port, &id).await,
        };
        match changed {
            Ok(()) => AgentAnswer::Ended(ActionEnd {
                outcome: ActionOutcome::Success,
                report: None,
            }),
            // The change may have been made: only the answer is missing.
            Err(InterfaceError::Agent(GuestApiError::Call(_))) => AgentAnswer::NoAnswer,
            Err(error) if error.disposition() == Disposition::Retry => {
                AgentAnswer::NotNow(error.to_string())
            }
            Err(error) => AgentAnswer::Ended(failure(error.to_string(), None)),
        }
    }

    /// Takes back what an attachment may have left that is no longer retried.
    pub(crate) async fn cancel_interface_change(&self, server: Uuid, action: &OpenAction) {
        let Some((InterfaceChange::Attach(wanted), id)) = parse_action(action) else {
            return;
        };
        let guest = ConsumerUuid::from(server);
        let cancelled = self
            .inner
            .conductor
            .cancel_attachment(guest, &wanted, &id)
            .await;
        if let Err(error) = cancelled {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                server = %server,
                "failed to take back a port that could not be attached; it is the server's until it is detached"
            );
        }
    }
}
