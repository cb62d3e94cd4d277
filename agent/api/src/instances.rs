//! Routes of guests in the admin API: create, list, show, delete, actions, console. Responses come from the journal.
//! The agent does the requested work afterwards, and `GET` shows its progress.

mod body;
mod console;
mod live_console;
mod places;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use berth_agent_instances::create::BuildFault;
use berth_agent_instances::{
    BuildError, GuestResources, Guests, GuestsError, PowerError, TransitionError,
};
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::{GuestError, GuestPowerOutcome, InterfaceOutcome, VirtDriver};
use berth_wire::guest::{ActionId, GuestAction, NoActionId};
use serde::Deserialize;

use crate::compute_api::{EventAuth, compute_api};
use crate::instances::body::{ActionRequest, CreationRequest};
use crate::refusal::refusal;

const BODY_LIMIT: usize = 256 << 10;

/// Method, path and description of each route, for the generated documentation.
pub const ROUTES: &[(&str, &str, &str)] = &[
    (
        "GET",
        "/v1/guests",
        "All guests of this host, with their running operations.",
    ),
    (
        "POST",
        "/v1/guests",
        "Creates a guest.\n\nThe body has `uuid`, `name`, `project_id`, `node` and `flavor` (`name`, `vcpus`, `ram_mb`, `disk_gb`, `ephemeral_gb`, `swap_mb`, `extra_specs`).\nOptional keys are `user_id`, `image` or `kernel`, `networks`, `accelerator_requests`, `allocations`, `limits`, `config_drive` and `power`.\nAlternatively the body is the complete guest as `{\"node\", \"accelerator_requests\", \"spec\"}`.\n\n- 202: CPUs, memory and the flavor's devices are reserved and recorded. The agent builds the guest, or reports why it cannot, also after a restart. A repeated request refers to the same guest.\n- 409 `no_room`: the host has no room. The message lists what each host cell lacks.\n- 409 `file`: a file of the guest cannot be used on this host.\n- 409: another guest has this UUID, or the guest is being deleted.\n- 503 `not_now`: the host cannot be observed, or was not reported to Placement yet.",
    ),
    (
        "POST",
        "/v1/guests/places",
        "Computes where a guest would be placed. Nothing is stored.\n\nThe body has `build` (a guest as in POST `/v1/guests`) and `allocations` (1 to 64 alternatives).\nFor each alternative, the response has either `refused` with a reason, or these keys:\n\n- `host_cells`: the NUMA cells of the guest;\n- `far`: the number of its devices that are far from these cells although `hw:pci_numa_affinity_policy` asks for near ones.",
    ),
    (
        "GET",
        "/v1/guests/{uuid}",
        "One guest, each of its steps, and the reason if it is blocked or failed.",
    ),
    (
        "DELETE",
        "/v1/guests/{uuid}",
        "Deletes a guest and its accelerator requests.\n\n- 202: the guest will be deleted.\n- 404: neither the journal nor the hypervisor has it.\n- 409 `guest_orphan`: the hypervisor has it, Berth created it, and the journal does not have it.",
    ),
    (
        "POST",
        "/v1/guests/{uuid}/action",
        "Performs an action on a guest, and waits until it is finished.\n\nThe body is `{\"action\": ...}`, with the keys of the action:\n\n- `start`, `pause`, `unpause`, `soft_reboot`, `hard_reboot`, `unrescue`, `suspend`: no further keys;\n- `stop`: `grace_seconds` (0 to 600);\n- `rescue`: `image` or `kernel`, `grace_seconds`;\n- `rebuild`: `image`, `preserve_ephemeral`, `extra_specs` (of the flavor: with them the guest gets the devices that they and the image's properties describe);\n- `update_config_drive`: `change` (`name`, `metadata`, `user_data`, `ssh_keys`); the guest reads it at its next start;\n- `bind_ports`: `ports`, the VIFs of all ports of a guest that waits until its ports are bound to the network functions that the host selected (`unbound_functions` of the guest);\n- `select_function`: `port`, the VIF of a direct port that is not bound, and `provider`, the UUID of the network card's provider; the response has the function in `unbound_functions`;\n- `attach_interface`: `port`, the VIF of a Neutron port that is bound to this host;\n- `detach_interface`: `port`, the UUID of the port; a running guest must release it within a minute;\n- `live_migrate`: `destination`.\n\nWith `?id=ID` (1 to 64 characters: ASCII letters, digits, `.`, `_`, `-`) a request can be repeated if the response was lost.\nThe agent stores the ID of each guest's last action, also when it is killed, and does not perform that action twice.\n\nRescue and rebuild keep the guest's devices and accelerator requests. Their images are fetched before the guest is powered off.\n\n- 409: an operation on the guest is running, or the guest's state does not allow the action. `suspend` and `live_migrate` are rejected for guests with devices.\n- 503 `held`: the action was started, is blocked, and is retried.",
    ),
    (
        "GET",
        "/v1/guests/{uuid}/console",
        "The serial console of the guest as plain text: the last 100 KiB, or the last N lines of them with `?lines=N`.",
    ),
    (
        "GET",
        "/v1/guests/{uuid}/console/{kind}",
        "A console of a running guest: `vnc` (its screen) or `serial` (its first serial port).\n\n- 200: where it is on this host.\n- 101, for a request with `Connection: upgrade` and `Upgrade: berth-console`: the connection then carries the bytes of the console, and ends with the guest.\n- 404: the kind is unknown, or there is no such guest.\n- 409 `no_console`: the guest does not run, or was started without this console.\n- 409 `busy`: the console has its maximum number of connections: one for `serial`, eight for `vnc`.",
    ),
    (
        "GET",
        "/v1/guests/{uuid}/diagnostics",
        "Statistics of a guest: memory, CPU time, disks and interfaces. What the hypervisor does not count is null.\n\n- 404: the hypervisor does not have the guest.\n- 501 `not_supported`: the driver has no statistics.",
    ),
    (
        "GET",
        "/v2.1",
        "The version document that clients of Nova request first.",
    ),
    (
        "POST",
        "/v2.1/os-server-external-events",
        "Nova's external events: an accelerator request was bound, or could not be bound (microversion 2.82).",
    ),
];

/// All routes of guests, including external events.
pub fn routes<D: VirtDriver, R: GuestResources>(guests: &Guests<D, R>) -> Router {
    let own = Router::new()
        .route("/v1/guests", get(list::<D, R>).post(create::<D, R>))
        .route(
            "/v1/guests/{uuid}",
            get(show::<D, R>).delete(delete::<D, R>),
        )
        .route("/v1/guests/places", post(places::places::<D, R>))
        .route("/v1/guests/{uuid}/action", post(action::<D, R>))
        .route("/v1/guests/{uuid}/diagnostics", get(diagnostics::<D, R>))
        .route("/v1/guests/{uuid}/console", get(console::console::<D, R>))
        .route(
            "/v1/guests/{uuid}/console/{kind}",
            get(live_console::live_console::<D, R>),
        )
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(guests.clone());
    own.merge(compute_api(
        Arc::clone(guests.journal()),
        guests.events().clone(),
        // The socket has already checked the client.
        EventAuth::NoToken,
    ))
}

async fn list<D: VirtDriver, R: GuestResources>(State(guests): State<Guests<D, R>>) -> Response {
    match guests.list().await {
        Ok(records) => {
            let states = guests.states().await;
            let addresses = guests.addresses(&records).await;
            let list = body::guest_list(&records, &guests.blocked(), &states, &addresses);
            Json(list).into_response()
        }
        Err(error) => guests_refusal(&error),
    }
}

async fn show<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    GuestPath(uuid): GuestPath,
) -> Response {
    match guests.show(uuid).await {
        Ok(record) => {
            let mut shown = body::guest_body(&record, guests.blocked().get(&uuid));
            let state = guests.state(uuid).await;
            shown.state = state.map(|state| state.to_string());
            let addresses = guests.addresses(std::slice::from_ref(&record)).await;
            shown.interfaces = body::interfaces(&record, &addresses);
            (shown.cells, shown.page_size_kib) = body::cells(&record);
            shown.image = guests.download_progress(&record).map(body::image_progress);
            Json(shown).into_response()
        }
        Err(error) => guests_refusal(&error),
    }
}

async fn diagnostics<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    GuestPath(uuid): GuestPath,
) -> Response {
    match guests.diagnostics(uuid).await {
        Ok(Some(found)) => Json(body::diagnostics(guests.driver_name(), found)).into_response(),
        Ok(None) => {
            let message = format!("the hypervisor has no guest {uuid}");
            refusal(StatusCode::NOT_FOUND, "not_found", message)
        }
        Err(error @ (GuestError::Unsupported { .. } | GuestError::NotSupported { .. })) => refusal(
            StatusCode::NOT_IMPLEMENTED,
            "not_supported",
            error.to_string(),
        ),
        Err(error) => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "hypervisor",
            error.to_string(),
        ),
    }
}

async fn create<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let creation = match read_body(body).and_then(|bytes| {
        CreationRequest::read(&bytes).map_err(|error| Box::new(invalid_body(&error)))
    }) {
        Ok(creation) => creation,
        Err(refusal) => return *refusal,
    };
    let (uuid, created) = match &creation {
        CreationRequest::Complete(request) => {
            (request.uuid(), guests.create_complete(request).await)
        }
        CreationRequest::Build(build) => (build.uuid.into(), guests.build(build).await),
    };
    match created {
        Ok(_) => accepted_guest(&guests, uuid).await,
        Err(BuildError::Guests(error)) => guests_refusal(&error),
        Err(error) => build_refusal(&error),
    }
}

async fn delete<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    GuestPath(uuid): GuestPath,
) -> Response {
    match guests.delete(uuid).await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => guests_refusal(&error),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionQuery {
    id: Option<ActionId>,
}

async fn action<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    GuestPath(uuid): GuestPath,
    once: Result<Query<ActionQuery>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Ok(Query(ActionQuery { id })) = once else {
        let message = format!("the only query parameter is id: {NoActionId}");
        return refusal(StatusCode::BAD_REQUEST, "bad_query", message);
    };
    let asked = decode_body::<GuestAction>(body).and_then(|action| {
        let options = guests.build_options();
        body::parse_action(&action, options).map_err(|error| Box::new(build_refusal(&error)))
    });
    let asked = match asked {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    // Spawned, so that a client that disconnects does not interrupt the action.
    let acting = guests.clone();
    let acted = tokio::spawn(async move {
        match asked {
            ActionRequest::Power(action) => {
                Ok(acting.power_once(uuid, action, id.as_ref()).await?)
            }
            ActionRequest::Change(change) => {
                let changed = acting.transition_once(uuid, &change, id.as_ref()).await;
                changed.map(|()| GuestPowerOutcome::Done)
            }
            ActionRequest::UpdateConfigDrive(change) => {
                acting.update_config_drive(uuid, change).await?;
                Ok(GuestPowerOutcome::Done)
            }
            ActionRequest::SelectFunction(port, provider) => {
                let selected = acting.select_function(uuid, &port, provider);
                Ok(outcome_of(selected.await?))
            }
            ActionRequest::AttachInterface(interface) => {
                let attached = acting.attach_interface(uuid, *interface, id.as_ref());
                Ok(outcome_of(attached.await?))
            }
            ActionRequest::DetachInterface(port) => {
                let detached = acting.detach_interface(uuid, port, id.as_ref());
                Ok(outcome_of(detached.await?))
            }
            ActionRequest::BindPorts(interfaces) => {
                Ok(outcome_of(acting.bind_ports(uuid, &interfaces).await?))
            }
            ActionRequest::Suspend => Ok(acting.suspend(uuid, id.as_ref()).await?),
            ActionRequest::LiveMigrate(node) => {
                acting.live_migrate(uuid, &node).await?;
                Ok(GuestPowerOutcome::Done)
            }
        }
    });
    let Ok(acted) = acted.await else {
        let message = "the action panicked; see the agent's log".to_owned();
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "bug", message);
    };
    match acted {
        Ok(GuestPowerOutcome::Done | GuestPowerOutcome::Unchanged) => {
            accepted_guest(&guests, uuid).await
        }
        Ok(GuestPowerOutcome::NotThere) => refusal(
            StatusCode::CONFLICT,
            "not_there",
            format!(
                "guest {uuid} is missing on the hypervisor; the next reconcile run restores it"
            ),
        ),
        Err(error) => {
            if let TransitionError::Power(PowerError::Journal(error)) = &error {
                guests.record_journal_failure(error);
            }
            let (status, code) = transition_error_code(&error);
            refusal(status, code, error.to_string())
        }
    }
}

fn outcome_of(outcome: InterfaceOutcome) -> GuestPowerOutcome {
    match outcome {
        InterfaceOutcome::Changed => GuestPowerOutcome::Done,
        InterfaceOutcome::Unchanged => GuestPowerOutcome::Unchanged,
        InterfaceOutcome::NotThere => GuestPowerOutcome::NotThere,
    }
}

/// Status and code of the response to a failed action.
fn transition_error_code(error: &TransitionError) -> (StatusCode, &'static str) {
    match error {
        TransitionError::Power(PowerError::NotFound { .. }) => (StatusCode::NOT_FOUND, "not_found"),
        TransitionError::Power(PowerError::Busy { .. }) | TransitionError::Interrupted { .. } => {
            (StatusCode::CONFLICT, "busy")
        }
        TransitionError::Power(PowerError::Function(error)) => build_error_code(error),
        TransitionError::Power(PowerError::Bind(_) | PowerError::Resource(_)) => {
            (StatusCode::CONFLICT, "devices")
        }
        TransitionError::Power(PowerError::Driver(
            GuestError::Unreachable { .. } | GuestError::TimedOut { .. },
        )) => (StatusCode::SERVICE_UNAVAILABLE, "hypervisor"),
        TransitionError::Power(PowerError::Driver(_)) => (StatusCode::CONFLICT, "hypervisor"),
        TransitionError::Power(
            PowerError::Journal(_) | PowerError::Spec(_) | PowerError::BootSource(_),
        ) => (StatusCode::SERVICE_UNAVAILABLE, "journal"),
        TransitionError::Resource(error) if error.disposition() == Disposition::Retry => {
            (StatusCode::SERVICE_UNAVAILABLE, "resource")
        }
        TransitionError::Resource(_) | TransitionError::NoManagedRoot { .. } => {
            (StatusCode::CONFLICT, "resource")
        }
        TransitionError::Machine { .. }
        | TransitionError::Firmware { .. }
        | TransitionError::Power(
            PowerError::Interface(_)
            | PowerError::WrongFunction { .. }
            | PowerError::OtherFunctionKind { .. }
            | PowerError::OtherPort { .. }
            | PowerError::MissingPort { .. }
            | PowerError::PhysicalPort { .. },
        )
        | TransitionError::Capability { .. } => (StatusCode::BAD_REQUEST, "bad_request"),
        TransitionError::Observe(_) => (StatusCode::SERVICE_UNAVAILABLE, "hypervisor"),
        TransitionError::Rescued { .. } | TransitionError::NotRescued { .. } => {
            (StatusCode::CONFLICT, "state")
        }
        TransitionError::Blocked { .. } => (StatusCode::SERVICE_UNAVAILABLE, "held"),
    }
}

/// The response to a guest that cannot be created.
fn build_refusal(error: &BuildError) -> Response {
    let (status, code) = build_error_code(error);
    refusal(status, code, error.to_string())
}

fn build_error_code(error: &BuildError) -> (StatusCode, &'static str) {
    match error.fault() {
        BuildFault::Body => (StatusCode::BAD_REQUEST, "bad_request"),
        BuildFault::NoRoom | BuildFault::Guests => (StatusCode::CONFLICT, "no_room"),
        BuildFault::Later => (StatusCode::SERVICE_UNAVAILABLE, "not_now"),
    }
}

/// 202 with the current state of the guest.
async fn accepted_guest<D: VirtDriver, R: GuestResources>(
    guests: &Guests<D, R>,
    uuid: ConsumerUuid,
) -> Response {
    match guests.show(uuid).await {
        Ok(record) => (
            StatusCode::ACCEPTED,
            Json(body::guest_body(&record, guests.blocked().get(&uuid))),
        )
            .into_response(),
        Err(error) => guests_refusal(&error),
    }
}

/// The guest's UUID in the path, as an extractor.
struct GuestPath(ConsumerUuid);

impl<S: Send + Sync> FromRequestParts<S> for GuestPath {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(uuid) = path.map_err(IntoResponse::into_response)?;
        uuid.parse().map(Self).map_err(|_| {
            let message = "the path needs the UUID of a guest".to_owned();
            refusal(StatusCode::NOT_FOUND, "not_found", message)
        })
    }
}

fn decode_body<T: serde::de::DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
) -> Result<T, Box<Response>> {
    berth_wire::decode(&read_body(body)?).map_err(|error| Box::new(invalid_body(&error)))
}

fn read_body(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Box<Response>> {
    body.map_err(|rejection| {
        let (code, message) = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            (
                "too_large",
                format!("a body has at most {BODY_LIMIT} bytes"),
            )
        } else {
            ("bad_request", "the request body is incomplete".to_owned())
        };
        Box::new(refusal(rejection.status(), code, message))
    })
}

fn invalid_body(error: &berth_wire::BodyError) -> Response {
    refusal(StatusCode::BAD_REQUEST, "bad_request", error.to_string())
}

fn guests_refusal(error: &GuestsError) -> Response {
    let (status, code) = match error {
        GuestsError::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
        GuestsError::CpusTaken { .. } => (StatusCode::CONFLICT, "no_room"),
        GuestsError::DifferentRequest { .. } => (StatusCode::CONFLICT, "other"),
        GuestsError::BeingDeleted { .. } => (StatusCode::CONFLICT, "ending"),
        GuestsError::Orphan { .. } => (StatusCode::CONFLICT, "guest_orphan"),
        GuestsError::Hypervisor { .. } => (StatusCode::SERVICE_UNAVAILABLE, "hypervisor"),
        // Another host may have the folder or the file, so this is no fault of the request.
        GuestsError::File(_) => (StatusCode::CONFLICT, "file"),
        GuestsError::Resource(_) => (StatusCode::SERVICE_UNAVAILABLE, "resource"),
        GuestsError::Journal(_) => (StatusCode::SERVICE_UNAVAILABLE, "journal"),
    };
    refusal(status, code, error.to_string())
}

#[cfg(test)]
mod tests;
