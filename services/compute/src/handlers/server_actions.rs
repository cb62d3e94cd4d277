//! POST /v2.1/servers/{server}/action: something is to be done with a server. 202 is told once that is written down.

use axum::extract::State;
use berth_client::GuestApiError;
use berth_http::{Answer, Call, Fault};
use berth_model::ConsumerUuid;
use berth_wire::guest::GuestAction;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::server_rebuild;
use super::servers::fault;
use crate::courses::KnownServer;
use crate::fields::{Fields, bounded, wrong};
use crate::microversions::LOCKED_REASON;
use crate::policies;
use crate::router::Api;
use crate::servers::{Besides, Lock, Locker};
use crate::tasks::action_of;

/// How long a guest may take to end by itself, in seconds (Nova's `shutdown_timeout`).
pub(super) const GRACE: u16 = 60;

/// What Nova does with servers, and nobody here.
const NOT_HERE: [&str; 29] = [
    "addFixedIp",
    "addFloatingIp",
    "addSecurityGroup",
    "changePassword",
    "confirmResize",
    "createBackup",
    "createImage",
    "evacuate",
    "injectNetworkInfo",
    "migrate",
    "os-getRDPConsole",
    "os-getSPICEConsole",
    "os-getSerialConsole",
    "os-getVNCConsole",
    "os-migrateLive",
    "os-resetNetwork",
    "removeFixedIp",
    "removeFloatingIp",
    "removeSecurityGroup",
    "resetNetwork",
    "resize",
    "restore",
    "resume",
    "revertResize",
    "shelve",
    "shelveOffload",
    "suspend",
    "trigger_crash_dump",
    "unshelve",
];

pub(crate) async fn act(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let body: Map<String, Value> = call.typed()?;
    let mut keys = body.iter();
    let (Some((word, value)), None) = (keys.next(), keys.next()) else {
        return Err(Fault::bad_request(
            "The body is an object with one key, which says what is to be done",
        ));
    };
    match word.as_str() {
        "os-start" => simple(&api, &call, policies::SERVER_START, GuestAction::Start {}).await,
        "os-stop" => {
            let stop = GuestAction::Stop {
                grace_seconds: GRACE,
            };
            simple(&api, &call, policies::SERVER_STOP, stop).await
        }
        "pause" => simple(&api, &call, policies::PAUSE, GuestAction::Pause {}).await,
        "unpause" => simple(&api, &call, policies::UNPAUSE, GuestAction::Unpause {}).await,
        "unrescue" => simple(&api, &call, policies::UNRESCUE, GuestAction::Unrescue {}).await,
        "reboot" => {
            let reboot = reboot(value)?;
            simple(&api, &call, policies::SERVER_REBOOT, reboot).await
        }
        "rescue" => server_rebuild::rescue(&api, &call, value).await,
        "rebuild" => server_rebuild::rebuild(&api, &call, value).await,
        "lock" => lock(&api, &call, value).await,
        "unlock" => unlock(&api, &call).await,
        "os-getConsoleOutput" => console(&api, &call, value).await,
        "os-resetState" => reset(&api, &call, value).await,
        "forceDelete" => {
            let server = api.server(&call, policies::FORCE_DELETE).await?;
            api.end(&call, &server).await?;
            Ok(Answer::empty(StatusCode::ACCEPTED))
        }
        word if NOT_HERE.contains(&word) => Err(Fault::new(
            StatusCode::NOT_IMPLEMENTED,
            format!("'{word}' is not offered here."),
        )),
        word => Err(Fault::bad_request(format!(
            "There is no such action: {}",
            bounded(word)
        ))),
    }
}

async fn simple(
    api: &Api,
    call: &Call,
    rule: &'static str,
    ask: GuestAction,
) -> Result<Answer, Fault> {
    let known = api.known_server(call, rule).await?;
    api.begin(call, &known, &ask, Besides::default()).await?;
    Ok(Answer::empty(StatusCode::ACCEPTED))
}

fn reboot(value: &Value) -> Result<GuestAction, Fault> {
    let mut fields = Fields::of("reboot", value)?;
    let given = fields.value("type");
    let given = fields.required("type", given)?;
    fields.end()?;
    let word = given.as_str().unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "SOFT" => Ok(GuestAction::SoftReboot {}),
        "HARD" => Ok(GuestAction::HardReboot {}),
        _ => Err(wrong("type", given, "it is SOFT or HARD")),
    }
}

impl Api {
    /// Has something done with a server, where it is in a state for it and is not locked.
    pub(super) async fn begin(
        &self,
        call: &Call,
        known: &KnownServer,
        ask: &GuestAction,
        besides: Besides,
    ) -> Result<(), Fault> {
        let server = &known.server;
        self.open_to(call, server)?;
        if let Some(action) = action_of(ask) {
            action
                .check(&server.uuid.to_string(), &known.state)
                .map_err(|refused| Fault::conflict(refused.to_string()))?;
        }
        if known.is_unreadable {
            return Err(Fault::unavailable(
                "What the conductor knows of this server cannot be read; its operator finds the reason in the log.",
            ));
        }
        if known.is_nowhere() {
            let uuid = server.uuid;
            return Err(Fault::conflict(format!("Instance {uuid} is not ready")));
        }
        let by = (call.caller.user_id.as_str(), call.request_id.as_str());
        let begun = self.compute.begin(server.uuid, ask, besides, by).await;
        begun.map_err(fault)
    }
}

async fn lock(api: &Api, call: &Call, value: &Value) -> Result<Answer, Fault> {
    let server = api.server(call, policies::LOCK).await?;
    let mut reason = None;
    if call.version.has(LOCKED_REASON) && !value.is_null() {
        let mut fields = Fields::of("lock", value)?;
        reason = fields.text("locked_reason", 1..=255)?.map(str::to_owned);
        fields.end()?;
    }
    let own = call.caller.project_id() == Some(server.project_id.as_str());
    let by = match own {
        true => Locker::Owner,
        false => Locker::Admin,
    };
    let locked = api.compute.lock(server.uuid, Lock { by, reason }).await;
    locked.map_err(fault)?;
    Ok(Answer::empty(StatusCode::ACCEPTED))
}

async fn unlock(api: &Api, call: &Call) -> Result<Answer, Fault> {
    let server = api.server(call, policies::UNLOCK).await?;
    let by_admin = server
        .lock
        .as_ref()
        .is_some_and(|it| it.by == Locker::Admin);
    let opens = match by_admin {
        true => {
            api.allow_in(call, policies::UNLOCK_OVERRIDE, &server.project_id)?;
            Locker::Admin
        }
        false => Locker::Owner,
    };
    let opened = api.compute.unlock(server.uuid, opens).await;
    opened.map_err(fault)?;
    Ok(Answer::empty(StatusCode::ACCEPTED))
}

async fn console(api: &Api, call: &Call, value: &Value) -> Result<Answer, Fault> {
    let known = api.known_server(call, policies::CONSOLE_OUTPUT).await?;
    let mut fields = Fields::of("os-getConsoleOutput", value)?;
    let lines = match fields.value("length") {
        None | Some(Value::Null) => None,
        Some(value) => lines(value)?,
    };
    fields.end()?;
    let uuid = known.server.uuid;
    let not_ready = || Fault::conflict(format!("Instance {uuid} is not ready"));
    let place = known.place.as_ref().ok_or_else(not_ready)?;
    let conductor = &api.compute.inner.conductor;
    let agent = conductor.agent(&place.node).ok_or_else(not_ready)?;
    let output = agent.console(ConsumerUuid::from(uuid), lines).await;
    let output = output.map_err(|error| {
        // One that goes is gone there before it is forgotten.
        let is_gone = matches!(error, GuestApiError::NotFound(_));
        if !is_gone || !known.server.deleting {
            tracing::warn!(error = &error as &dyn std::error::Error, server = %uuid, "console");
        }
        match is_gone {
            true => not_ready(),
            false => Fault::unavailable("The console's log cannot be read now; try again."),
        }
    })?;
    Answer::ok(&json!({"output": String::from_utf8_lossy(&output)}))
}

/// How many lines; none for all.
fn lines(value: &Value) -> Result<Option<u32>, Fault> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    match number {
        Some(-1) => Ok(None),
        Some(number) if let Ok(lines) = u32::try_from(number) => Ok(Some(lines)),
        _ => Err(wrong(
            "length",
            value,
            "it is not a number of lines, or -1 for all",
        )),
    }
}

async fn reset(api: &Api, call: &Call, value: &Value) -> Result<Answer, Fault> {
    let server = api.server(call, policies::RESET_STATE).await?;
    let mut fields = Fields::of("os-resetState", value)?;
    let state = fields.value("state");
    let state = fields.required("state", state)?;
    fields.end()?;
    if state != "active" {
        let reason = "a server is what its host says: only active is taken, which gives up what is under way";
        return Err(wrong("state", state, reason));
    }
    let given_up = api.compute.give_up(server.uuid).await;
    given_up.map_err(fault)?;
    Ok(Answer::empty(StatusCode::ACCEPTED))
}
