//! Consoles of servers: /v2.1/servers/{server}/remote-consoles, the actions that clients used before 2.6, and what a token of
//! a console is for.

use axum::extract::State;
use berth_client::GuestApiError;
use berth_http::fields::{BodyFields, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_model::{ConsoleKind, PowerState};

use serde_json::{Value, json};

use crate::consoles::ConsoleUrlError;
use crate::microversions::{CONSOLE_TOKENS, MKS_CONSOLES, REMOTE_CONSOLES};
use crate::openapi::schemas::{in_key, object};
use crate::policies::{admin, member};
use crate::server_status::ServerWithStatus;
use crate::state::{ComputeApi, ComputeOperation};

pub(super) const REMOTE_CONSOLE: RuleDefault = member("os_compute_api:os-remote-consoles");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::post("/v2.1/servers/{server}/remote-consoles", create)
            .rule(REMOTE_CONSOLE)
            .since(REMOTE_CONSOLES)
            .extension("os-consoles", "Consoles")
            .extension("os-remote-consoles", "Consoles")
            .id("createRemoteConsole")
            .summary("Creates a URL that opens a console of a server")
            .body(|| in_key("remote_console", console_schema()))
            .errors(&[409])
            .responds("remote_console"),
        ComputeOperation::get("/v2.1/os-console-auth-tokens/{token}", show_token)
            .rule(admin("os_compute_api:os-console-auth-tokens"))
            .extension("os-console-auth-tokens", "ConsoleAuthTokens")
            .id("showConsoleAuthToken")
            .summary("Shows which console a token is for")
            .older("before 2.31 the answer is 400")
            .responds("console"),
    ]
}

/// Nova's protocols, each with its types.
const PROTOCOLS: [(&str, &[&str]); 5] = [
    ("vnc", &["novnc", "xvpvnc"]),
    ("spice", &["spice-html5"]),
    ("serial", &["serial"]),
    ("rdp", &["rdp-html5"]),
    ("mks", &["webmks"]),
];

fn console_schema() -> Value {
    object(
        &["protocol", "type"],
        [
            ("protocol", json!({"enum": ["vnc", "serial"]})),
            ("type", json!({"enum": ["novnc", "serial"]})),
        ],
    )
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let known = api.server_with_status_for(&call, REMOTE_CONSOLE).await?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "remote_console")?;
    let protocol = fields.value("protocol");
    let protocol = fields.required("protocol", protocol)?;
    let kind = fields.value("type");
    let kind = fields.required("type", kind)?;
    fields.end()?;
    let known_to = |word: &str| word != "mks" || call.version.has(MKS_CONSOLES);
    let protocols = PROTOCOLS.iter().filter(|(word, _)| known_to(word));
    let words: Vec<&str> = protocols.clone().map(|(word, _)| *word).collect();
    let types: Vec<&str> = protocols.flat_map(|(_, types)| *types).copied().collect();
    let protocol = one_of("protocol", protocol, &words)?;
    let kind = one_of("type", kind, &types)?;
    let console = match (protocol, kind) {
        ("vnc", "novnc") => ConsoleKind::Vnc,
        ("serial", "serial") => ConsoleKind::Serial,
        ("vnc" | "serial", other) => {
            return Err(Fault::bad_request(format!("Invalid console type {other}")));
        }
        (other, _) => return Err(unavailable(other)),
    };
    let url = api.console_url(&known, console, kind).await?;
    let shown = json!({"protocol": protocol, "type": kind, "url": url});
    ApiResponse::ok(&json!({ "remote_console": shown }))
}

fn one_of<'a>(key: &str, value: &'a Value, words: &[&str]) -> Result<&'a str, Fault> {
    let word = value.as_str().filter(|word| words.contains(word));
    word.ok_or_else(|| {
        let reason = format!("it is not one of {}", words.join(", "));
        invalid_field(key, value, reason)
    })
}

fn unavailable(kind: &str) -> Fault {
    Fault::bad_request(format!("Unavailable console type {kind}."))
}

/// `os-getVNCConsole` and `os-getSerialConsole`, which 2.6 replaced.
pub(super) async fn act(
    api: &ComputeApi,
    call: &ApiRequest,
    (action, value): (&str, &Value),
    (console, kind): (ConsoleKind, &str),
) -> Result<ApiResponse, Fault> {
    if call.version.has(REMOTE_CONSOLES) {
        return Err(Fault::not_found("The resource could not be found."));
    }
    let known = api.server_with_status_for(call, REMOTE_CONSOLE).await?;
    let mut fields = BodyFields::of(action, value)?;
    let given = fields.value("type");
    let given = fields.required("type", given)?;
    fields.end()?;
    if given == "xvpvnc" && console == ConsoleKind::Vnc {
        return Err(unavailable("xvpvnc"));
    }
    one_of("type", given, &[kind])?;
    let url = api.console_url(&known, console, kind).await?;
    ApiResponse::ok(&json!({"console": {"type": kind, "url": url}}))
}

impl ComputeApi {
    async fn console_url(
        &self,
        known: &ServerWithStatus,
        console: ConsoleKind,
        kind: &str,
    ) -> Result<String, Fault> {
        let uuid = known.server.uuid;
        let not_ready = || Fault::conflict(format!("Instance {uuid} is not ready"));
        let error = match self.compute.console_url(known, console).await {
            Ok(url) => return Ok(url),
            Err(error) => error,
        };
        Err(match error {
            ConsoleUrlError::NoProxy(_) => unavailable(kind),
            ConsoleUrlError::NotReady(_) | ConsoleUrlError::Agent(GuestApiError::NotFound(_)) => {
                not_ready()
            }
            // A guest that does not run gets its consoles when it starts.
            ConsoleUrlError::Agent(GuestApiError::Conflict(_))
                if known.state.power_state != Some(PowerState::Running)
                    && known.state.power_state != Some(PowerState::Paused) =>
            {
                not_ready()
            }
            ConsoleUrlError::Agent(GuestApiError::Conflict(refusal)) => Fault::bad_request(
                format!("Unavailable console type {kind}: {}.", refusal.message),
            ),
            ConsoleUrlError::Table(error) => crate::store::fault(&error),
            ConsoleUrlError::Random(error) => Fault::internal(error.to_string()),
            ConsoleUrlError::Agent(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, server = %uuid, "looking for a console failed");
                Fault::unavailable("The console cannot be opened now; try again.")
            }
        })
    }
}

async fn show_token(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    if !call.version.has(CONSOLE_TOKENS) {
        return Err(Fault::bad_request(
            "Console tokens are shown from microversion 2.31 on.",
        ));
    }
    let found = api.compute.console_token(call.path("token")?).await;
    let found = found.map_err(|error| crate::store::fault(&error))?;
    let found = found.ok_or_else(|| Fault::not_found("Token not found"))?;
    ApiResponse::ok(&json!({"console": {
        "instance_uuid": found.server,
        "host": found.host,
        "port": found.port,
        "internal_access_path": null,
    }}))
}
