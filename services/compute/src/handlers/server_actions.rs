//! POST /v2.1/servers/{server}/action: server actions. The action is recorded, then 202 is answered and the action is
//! carried out in the background (`server_actions` in the crate root).

use axum::extract::State;
use berth_client::GuestApiError;
use berth_http::fields::{BodyFields, bounded, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_model::{ConsoleKind, ConsumerUuid};
use berth_networks::SecurityGroupChange;
use berth_wire::guest::GuestAction;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::remote_consoles::{self, REMOTE_CONSOLE};
use super::server_rebuild::{self, REBUILD, RESCUE};
use super::server_security_groups;
use super::servers::fault;
use crate::microversions::LOCKED_REASON;
use crate::openapi::schemas::{object, one_of, text, text_or_null, texts, uuid};
use crate::policies::{admin, member};
use crate::server_actions::action_of;
use crate::server_state::Action;
use crate::server_status::ServerWithStatus;
use crate::servers::{ActionChanges, Lock, Locker};
use crate::state::{ComputeApi, ComputeOperation};

const START: RuleDefault = member("os_compute_api:servers:start");
const STOP: RuleDefault = member("os_compute_api:servers:stop");
const REBOOT: RuleDefault = member("os_compute_api:servers:reboot");
const PAUSE: RuleDefault = member("os_compute_api:os-pause-server:pause");
const UNPAUSE: RuleDefault = member("os_compute_api:os-pause-server:unpause");
const UNRESCUE: RuleDefault = member("os_compute_api:os-unrescue");
const LOCK: RuleDefault = member("os_compute_api:os-lock-server:lock");
const UNLOCK: RuleDefault = member("os_compute_api:os-lock-server:unlock");
/// Unlock a server that an operator locked.
const UNLOCK_OVERRIDE: RuleDefault = admin("os_compute_api:os-lock-server:unlock:unlock_override");
const CONSOLE_OUTPUT: RuleDefault = member("os_compute_api:os-console-output");
const RESET_STATE: RuleDefault = admin("os_compute_api:os-admin-actions:reset_state");
const FORCE_DELETE: RuleDefault = member("os_compute_api:os-deferred-delete:force");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::post("/v2.1/servers/{server}/action", act)
            .other_rules(&[
                START,
                STOP,
                REBOOT,
                REBUILD,
                PAUSE,
                UNPAUSE,
                RESCUE,
                UNRESCUE,
                LOCK,
                UNLOCK,
                UNLOCK_OVERRIDE,
                CONSOLE_OUTPUT,
                REMOTE_CONSOLE,
                RESET_STATE,
                FORCE_DELETE,
                server_security_groups::ADD,
                server_security_groups::REMOVE,
            ])
            .extension("os-admin-actions", "AdminActions")
            .extension("os-console-output", "ConsoleOutput")
            .extension("os-deferred-delete", "DeferredDelete")
            .extension("os-rescue", "Rescue")
            .id("actOnServer")
            .summary("Starts an action on a server")
            .body(action_schema)
            .statuses(&[200, 202])
            .errors(&[501]),
    ]
}

fn action_schema() -> Value {
    let nothing = || json!({"type": "null"});
    let group = || object(&["name"], [("name", text(1, 255))]);
    one_of([
        ("os-start", nothing()),
        ("os-stop", nothing()),
        ("pause", nothing()),
        ("unpause", nothing()),
        ("unrescue", nothing()),
        ("unlock", nothing()),
        ("forceDelete", nothing()),
        (
            "reboot",
            object(&["type"], [("type", json!({"enum": ["SOFT", "HARD"]}))]),
        ),
        ("rescue", object(&[], [("rescue_image_ref", uuid())])),
        (
            "rebuild",
            object(
                &["imageRef"],
                [
                    ("imageRef", uuid()),
                    ("name", text(1, 255)),
                    ("description", text_or_null(0, 255)),
                    ("metadata", texts()),
                    ("preserve_ephemeral", json!({"type": "boolean"})),
                ],
            ),
        ),
        ("lock", object(&[], [("locked_reason", text(1, 255))])),
        (
            "os-getConsoleOutput",
            object(
                &[],
                [(
                    "length",
                    json!({"type": ["integer", "null"], "minimum": -1, "maximum": 10_000}),
                )],
            ),
        ),
        (
            "os-resetState",
            object(&["state"], [("state", json!({"enum": ["active"]}))]),
        ),
        ("addSecurityGroup", group()),
        ("removeSecurityGroup", group()),
    ])
}

/// How long a guest may take to shut down, in seconds (Nova's `shutdown_timeout`).
pub(super) const GRACE: u16 = 60;

/// Actions of Nova that Berth does not support.
const UNSUPPORTED: [&str; 25] = [
    "addFixedIp",
    "addFloatingIp",
    "changePassword",
    "confirmResize",
    "createBackup",
    "createImage",
    "evacuate",
    "injectNetworkInfo",
    "migrate",
    "os-getRDPConsole",
    "os-getSPICEConsole",
    "os-migrateLive",
    "os-resetNetwork",
    "removeFixedIp",
    "removeFloatingIp",
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

async fn act(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let body: Map<String, Value> = call.typed()?;
    let mut keys = body.iter();
    let (Some((word, value)), None) = (keys.next(), keys.next()) else {
        return Err(Fault::bad_request(
            "The body must be an object with one key, the name of the action",
        ));
    };
    match word.as_str() {
        "os-start" => simple_action(&api, &call, START, GuestAction::Start {}).await,
        "os-stop" => {
            let stop = GuestAction::Stop {
                grace_seconds: GRACE,
            };
            simple_action(&api, &call, STOP, stop).await
        }
        "pause" => simple_action(&api, &call, PAUSE, GuestAction::Pause {}).await,
        "unpause" => simple_action(&api, &call, UNPAUSE, GuestAction::Unpause {}).await,
        "unrescue" => simple_action(&api, &call, UNRESCUE, GuestAction::Unrescue {}).await,
        "reboot" => {
            let reboot = reboot(value)?;
            simple_action(&api, &call, REBOOT, reboot).await
        }
        "rescue" => server_rebuild::rescue(&api, &call, value).await,
        "rebuild" => server_rebuild::rebuild(&api, &call, value).await,
        "lock" => lock(&api, &call, value).await,
        "unlock" => unlock(&api, &call).await,
        "os-getConsoleOutput" => console(&api, &call, value).await,
        "os-getVNCConsole" => {
            let vnc = (ConsoleKind::Vnc, "novnc");
            remote_consoles::act(&api, &call, (word, value), vnc).await
        }
        "os-getSerialConsole" => {
            let serial = (ConsoleKind::Serial, "serial");
            remote_consoles::act(&api, &call, (word, value), serial).await
        }
        "os-resetState" => reset_state(&api, &call, value).await,
        "addSecurityGroup" => {
            server_security_groups::act(&api, &call, (word, value), SecurityGroupChange::Add).await
        }
        "removeSecurityGroup" => {
            let change = SecurityGroupChange::Remove;
            server_security_groups::act(&api, &call, (word, value), change).await
        }
        "forceDelete" => {
            let server = api.server_for(&call, FORCE_DELETE).await?;
            api.delete_server(&call, &server).await?;
            Ok(ApiResponse::empty(StatusCode::ACCEPTED))
        }
        word if UNSUPPORTED.contains(&word) => Err(Fault::new(
            StatusCode::NOT_IMPLEMENTED,
            format!("'{word}' is not supported."),
        )),
        word => Err(Fault::bad_request(format!(
            "There is no such action: {}",
            bounded(word)
        ))),
    }
}

async fn simple_action(
    api: &ComputeApi,
    call: &ApiRequest,
    rule: RuleDefault,
    action: GuestAction,
) -> Result<ApiResponse, Fault> {
    let known = api.server_with_status_for(call, rule).await?;
    api.start_action(call, &known, &action, ActionChanges::default())
        .await?;
    Ok(ApiResponse::empty(StatusCode::ACCEPTED))
}

fn reboot(value: &Value) -> Result<GuestAction, Fault> {
    let mut fields = BodyFields::of("reboot", value)?;
    let given = fields.value("type");
    let given = fields.required("type", given)?;
    fields.end()?;
    let word = given.as_str().unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "SOFT" => Ok(GuestAction::SoftReboot {}),
        "HARD" => Ok(GuestAction::HardReboot {}),
        _ => Err(invalid_field("type", given, "it is SOFT or HARD")),
    }
}

impl ComputeApi {
    /// Whether the server's state and lock allow an action.
    pub(super) fn check_action(
        &self,
        call: &ApiRequest,
        known: &ServerWithStatus,
        action: Action,
    ) -> Result<(), Fault> {
        let server = &known.server;
        self.check_unlocked(call, server)?;
        action
            .check(&server.uuid.to_string(), &known.state)
            .map_err(|refused| Fault::conflict(refused.to_string()))?;
        if known.is_unreadable {
            return Err(Fault::unavailable(
                "The conductor's record of this server is unreadable; the log of the compute service has the reason.",
            ));
        }
        if known.has_no_guest() {
            let uuid = server.uuid;
            return Err(Fault::conflict(format!("Instance {uuid} is not ready")));
        }
        Ok(())
    }

    /// Starts an action, if the server's state and lock allow it.
    pub(super) async fn start_action(
        &self,
        call: &ApiRequest,
        known: &ServerWithStatus,
        action: &GuestAction,
        changes: ActionChanges,
    ) -> Result<(), Fault> {
        let server = &known.server;
        if let Some(action) = action_of(action) {
            self.check_action(call, known, action)?;
        }
        let by = (call.caller.user_id.as_str(), call.request_id.as_str());
        let begun = self
            .compute
            .start_action(server.uuid, action, changes, by)
            .await;
        begun.map_err(fault)
    }
}

async fn lock(api: &ComputeApi, call: &ApiRequest, value: &Value) -> Result<ApiResponse, Fault> {
    let server = api.server_for(call, LOCK).await?;
    let mut reason = None;
    if call.version.has(LOCKED_REASON) && !value.is_null() {
        let mut fields = BodyFields::of("lock", value)?;
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
    Ok(ApiResponse::empty(StatusCode::ACCEPTED))
}

async fn unlock(api: &ComputeApi, call: &ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server_for(call, UNLOCK).await?;
    let by_admin = server
        .lock
        .as_ref()
        .is_some_and(|it| it.by == Locker::Admin);
    let opens = match by_admin {
        true => {
            api.allow_rule(call, UNLOCK_OVERRIDE, Some(&server.project_id))?;
            Locker::Admin
        }
        false => Locker::Owner,
    };
    let opened = api.compute.unlock(server.uuid, opens).await;
    opened.map_err(fault)?;
    Ok(ApiResponse::empty(StatusCode::ACCEPTED))
}

async fn console(api: &ComputeApi, call: &ApiRequest, value: &Value) -> Result<ApiResponse, Fault> {
    let known = api.server_with_status_for(call, CONSOLE_OUTPUT).await?;
    let mut fields = BodyFields::of("os-getConsoleOutput", value)?;
    let lines = match fields.value("length") {
        None | Some(Value::Null) => None,
        Some(value) => lines(value)?,
    };
    fields.end()?;
    let uuid = known.server.uuid;
    let not_ready = || Fault::conflict(format!("Instance {uuid} is not ready"));
    let placement = known.placement.as_ref().ok_or_else(not_ready)?;
    let conductor = &api.compute.inner.conductor;
    let agent = conductor.agent(placement).ok_or_else(not_ready)?;
    let output = agent.console(ConsumerUuid::from(uuid), lines).await;
    let output = output.map_err(|error| {
        // A server that is being deleted may no longer exist on its host.
        let is_gone = matches!(error, GuestApiError::NotFound(_));
        if !is_gone || !known.server.deleting {
            tracing::warn!(error = &error as &dyn std::error::Error, server = %uuid, "reading a console log failed");
        }
        match is_gone {
            true => not_ready(),
            false => Fault::unavailable("The console log cannot be read now; try again."),
        }
    })?;
    ApiResponse::ok(&json!({"output": String::from_utf8_lossy(&output)}))
}

/// The number of lines; `None` for all.
fn lines(value: &Value) -> Result<Option<u32>, Fault> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    match number {
        Some(-1) => Ok(None),
        Some(number) if let Ok(lines) = u32::try_from(number) => Ok(Some(lines)),
        _ => Err(invalid_field(
            "length",
            value,
            "it is not a number of lines, or -1 for all",
        )),
    }
}

async fn reset_state(
    api: &ComputeApi,
    call: &ApiRequest,
    value: &Value,
) -> Result<ApiResponse, Fault> {
    let server = api.server_for(call, RESET_STATE).await?;
    let mut fields = BodyFields::of("os-resetState", value)?;
    let state = fields.value("state");
    let state = fields.required("state", state)?;
    fields.end()?;
    if state != "active" {
        let reason = "only active is accepted, which cancels pending actions; the host reports the state itself";
        return Err(invalid_field("state", state, reason));
    }
    let cancelled = api.compute.cancel_actions(server.uuid).await;
    cancelled.map_err(fault)?;
    Ok(ApiResponse::empty(StatusCode::ACCEPTED))
}
