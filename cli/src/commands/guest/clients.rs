//! The clients of a guest command: agent and conductor, and the mapping of their errors to failures.

use std::collections::BTreeSet;

use berth_client::{
    AdapterOptions, Auth, ConductorClient, Disposition, GuestApiError, GuestClient, HttpService,
    ServiceCallError, TransportError, TransportOptions,
};
use berth_compose::{AgentAt, CONDUCTOR_ENDPOINT_FILE, conductor_socket, socket_denied};
use berth_config::Config;
use berth_model::ConsumerUuid;
use berth_output::{ErrorCode, Failure};

/// The error code of an agent or a conductor with an unusable journal.
const JOURNAL: &str = "journal";

/// The error code of a conductor that cannot read its record of the guest.
const UNREADABLE: &str = "unreadable";

/// The limit of an answer's size, enough for a thousand guests.
const BODY_LIMIT: usize = 64 << 20;

pub(super) struct GuestClients {
    pub(super) agent: GuestClient,
    pub(super) conductor: ConductorClient,
    /// Whether this is another host's agent.
    pub(super) elsewhere: bool,
}

impl GuestClients {
    /// Connects to the chosen agent and to the conductor: over the conductor's socket next to the agent's, else at the
    /// address that `berth up` published, else at `[conductor_service] listen`.
    pub(super) fn new(config: &Config, at: &AgentAt) -> Result<Self, Failure> {
        let wrong = |error: &(dyn std::error::Error + 'static)| {
            let what = "this configuration gives no access to a conductor";
            Failure::caused(ErrorCode::BadValue, what, error)
        };
        let transport = TransportOptions {
            body_limit: BODY_LIMIT,
            ..TransportOptions::default()
        };
        let socket = conductor_socket(config);
        let recorded = std::fs::read_to_string(config.state_path.join(CONDUCTOR_ENDPOINT_FILE));
        let recorded = recorded.ok().map(|endpoint| endpoint.trim().to_owned());
        let listen = config.conductor_service.listen.address();
        let endpoint = recorded.or(listen.map(|address| format!("http://{address}")));
        let (http, endpoint) = match endpoint.filter(|_| !socket.exists()) {
            Some(endpoint) => (HttpService::network(&transport), endpoint),
            None => {
                let http = HttpService::unix(&socket, &transport);
                (http, "http://conductor".to_owned())
            }
        };
        let http = http.map_err(|error| wrong(&error))?;
        let no_auth = Auth::none(&endpoint).map_err(|error| wrong(&error))?;
        Ok(Self {
            agent: at.guests(config)?,
            conductor: ConductorClient::new(http, no_auth, &AdapterOptions::default()),
            elsewhere: at.url.is_some(),
        })
    }

    /// Finds a guest by UUID or name.
    pub(super) async fn guest(&self, meant: &str) -> Result<ConsumerUuid, Failure> {
        if let Ok(uuid) = meant.parse() {
            return Ok(uuid);
        }
        let agent = self.agent.guests().await;
        let conductor = self.conductor.guests().await;
        let at_agent = agent.as_ref().ok().into_iter().flatten();
        let at_agent = at_agent
            .filter(|guest| guest.name == meant)
            .map(|it| it.uuid);
        let asked_for = conductor.iter().flat_map(|known| &known.guests);
        let asked_for = asked_for
            .filter(|guest| guest.name == meant)
            .map(|it| it.uuid);
        let found: BTreeSet<_> = at_agent.chain(asked_for).collect();
        let mut uuids = found.iter().copied().map(ConsumerUuid::from);
        match (uuids.next(), uuids.next()) {
            (Some(uuid), None) => Ok(uuid),
            (Some(_), Some(_)) => {
                let uuids: Vec<_> = found.iter().map(ToString::to_string).collect();
                let what = format!("{} guests are called {meant:?}", found.len());
                Err(Failure::new(ErrorCode::Refused, what)
                    .hint(format!("name one by its UUID: {}", uuids.join(", "))))
            }
            (None, _) => {
                // If neither could be asked, the name cannot be resolved.
                agent.map_err(|error| failed(&error))?;
                Err(unknown(meant))
            }
        }
    }
}

/// The failure for an unknown guest.
pub(super) fn unknown(meant: &str) -> Failure {
    Failure::new(ErrorCode::Refused, format!("unknown guest {meant}"))
        .hint("berth guest list shows all guests")
}

/// Maps the error of a call to a failure.
pub(super) fn failed(error: &GuestApiError) -> Failure {
    match error {
        GuestApiError::Call(
            ServiceCallError::Transport { reason, .. }
            | ServiceCallError::AnswerLost { reason, .. },
        ) if matches!(reason, TransportError::Denied { .. }) => socket_denied(reason),
        GuestApiError::Call(call) if call.is_of("agent") => {
            Failure::new(ErrorCode::AgentAway, call.what()).hint("systemctl status berth-agent")
        }
        GuestApiError::Call(call) => Failure::new(ErrorCode::Unavailable, call.what())
            .hint("the conductor runs in berth up: start that with the same --state-dir"),
        GuestApiError::Malformed { .. } => Failure::from_error(ErrorCode::AgentAnswer, error),
        _ if error.refusal().is_some_and(|it| it.code == UNREADABLE) => Failure::from_error(
            ErrorCode::State,
            error,
        )
        .hint(
            "a running guest is not affected; a pending delete is done once the file is repaired",
        ),
        // The message already names the file and the fix.
        _ if error.refusal().is_some_and(|it| it.code == JOURNAL) => {
            Failure::from_error(ErrorCode::State, error)
                .hint("nothing was changed; free space in the state folder (df -h), then repeat")
        }
        _ if error.disposition() == Disposition::Retry => {
            Failure::from_error(ErrorCode::Unavailable, error)
                .hint("the log of berth says more; repeat it later")
        }
        GuestApiError::NotFound(refusal)
        | GuestApiError::Conflict(refusal)
        | GuestApiError::Unavailable(refusal)
        | GuestApiError::Refused(refusal) => match refusal.message.is_empty() {
            true => Failure::from_error(ErrorCode::Refused, error),
            false => Failure::new(ErrorCode::Refused, refusal.message.as_str()),
        },
    }
}
