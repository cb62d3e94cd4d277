//! POST /v2.1/servers: creates servers. The request is parsed (`body`) and resolved and checked (`guest`), the servers
//! are stored, 202 is answered, and the conductor is asked to build them.

mod body;
mod guest;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_quota::{QUOTA_SCHEMA, QuotaAmounts, QuotaQuestion, QuotaRefused};
use http::StatusCode;
use serde_json::{Value, json};

pub(super) use body::{access_ip, disk_config, metadata_of, tags_of, user_data};
pub(super) use guest::network_fault;

use self::body::{ServerCreateRequest, parse};
use self::guest::{FORCED_HOST, REQUESTED_HOST, ZERO_DISK};
use super::servers::{fault, server_fields};
use crate::openapi::schemas::{object, text, text_or_null, texts, uuid};
use crate::paging::links;
use crate::policies::member;
use crate::servers::{NewServers, ServerError, ServerRecord};
use crate::state::{ComputeApi, ComputeOperation};

/// The maximum number of times that the quota hook is asked for one request. It is asked again if another process has
/// stored servers of the project in the meantime.
const QUESTIONS: u32 = 5;

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::post("/v2.1/servers", create)
            .rule(member("os_compute_api:servers:create"))
            .other_rules(&[FORCED_HOST, REQUESTED_HOST, ZERO_DISK])
            .extension("OS-DCF", "DiskConfig")
            .extension("OS-SCH-HNT", "SchedulerHints")
            .extension("os-config-drive", "ConfigDrive")
            .extension("os-multiple-create", "MultipleCreate")
            .extension("os-user-data", "UserData")
            .id("createServers")
            .summary("Creates servers")
            .body(servers_schema)
            .statuses(&[202]),
    ]
}

fn servers_schema() -> Value {
    let mut server = object(
        &["name", "flavorRef", "imageRef", "networks"],
        [
            ("flavorRef", text(1, 2_048)),
            ("imageRef", uuid()),
            ("networks", networks_schema()),
            (
                "security_groups",
                json!({"type": "array", "maxItems": 3, "items": object(&["name"], [("name", text(1, 255))])}),
            ),
            (
                "min_count",
                json!({"type": "integer", "minimum": 1, "maximum": 3}),
            ),
            (
                "max_count",
                json!({"type": "integer", "minimum": 1, "maximum": 3}),
            ),
            ("return_reservation_id", json!({"type": "boolean"})),
            ("metadata", texts()),
            ("key_name", text_or_null(1, 255)),
            ("availability_zone", text_or_null(1, 255)),
            (
                "user_data",
                json!({"type": ["string", "null"], "contentEncoding": "base64", "maxLength": 65_535}),
            ),
            ("tags", tags_schema()),
            ("host", text(1, 255)),
            ("hypervisor_hostname", text(1, 255)),
            ("config_drive", json!({"type": "boolean"})),
        ],
    );
    for (key, shape) in server_fields() {
        server["properties"][key] = shape;
    }
    let names = json!({"type": "array", "items": uuid(), "maxItems": 3});
    let hints = object(
        &[],
        [
            ("group", uuid()),
            ("same_host", names.clone()),
            ("different_host", names),
            ("query", text(1, 255)),
        ],
    );
    object(
        &["server"],
        [("server", server), ("os:scheduler_hints", hints)],
    )
}

fn networks_schema() -> Value {
    let network = object(
        &[],
        [
            ("uuid", uuid()),
            ("port", uuid()),
            ("fixed_ip", text(1, 64)),
            ("tag", text(1, 60)),
        ],
    );
    let named = json!({"type": "array", "items": network, "maxItems": 3});
    json!({"oneOf": [{"enum": ["auto", "none"]}, named]})
}

pub(super) fn tags_schema() -> Value {
    json!({"type": "array", "items": text(1, 60), "maxItems": 50})
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: Value = call.typed()?;
    let request = parse(&call, &body)?;
    api.check_count(&request)?;
    // Nova reports this group for servers without security groups.
    let groups: Vec<Value> = match request.security_groups.as_slice() {
        [] => vec![json!({"name": "default"})],
        names => names.iter().map(|name| json!({ "name": name })).collect(),
    };
    let (new, returns_reservation) = api.new_servers(&call, request).await?;
    let servers = api.store_servers(&call, new).await?;
    for server in &servers {
        // Hands the server to the conductor. If this fails, the reconciler does it later.
        api.compute.continue_work(server.uuid).await.ok();
    }
    let Some(first) = servers.first() else {
        return Err(Fault::internal("no server was stored"));
    };
    if returns_reservation {
        let body = json!({"reservation_id": first.reservation_id});
        return ApiResponse::with_body(StatusCode::ACCEPTED, &body);
    }
    let id = first.uuid.to_string();
    let body = json!({"server": {
        "id": id,
        "links": links(&call, "servers", &id),
        "OS-DCF:diskConfig": first.disk_config,
        "security_groups": groups,
    }});
    let answer = ApiResponse::with_body(StatusCode::ACCEPTED, &body)?;
    Ok(answer.located(&call, &format!("/v2.1/servers/{id}")))
}

impl ComputeApi {
    /// Stores the servers if the limits of the project and the quota hook allow them.
    async fn store_servers(
        &self,
        call: &ApiRequest,
        new: NewServers,
    ) -> Result<Vec<ServerRecord>, Fault> {
        let Some(hook) = &self.compute.inner.quota else {
            return self.compute.create_servers(new).await.map_err(fault);
        };
        let refused = |refused: QuotaRefused| match refused {
            QuotaRefused::No { .. } => Fault::forbidden(refused.to_string()),
            QuotaRefused::Unheard => Fault::unavailable(refused.to_string()),
        };
        let _turn = hook.turn(&new.project_id).await.map_err(refused)?;
        // Another process may store servers of the project while the hook's program runs; then the hook is asked again.
        for _ in 0..QUESTIONS {
            let project = self.compute.project_usage(&new.project_id).await;
            let project = project.map_err(fault)?;
            let count = new.count_within(&project.limits, &project.used);
            let servers = NewServers {
                count: count.map_err(fault)?,
                ..new.clone()
            };
            let question = question(call, &servers, project.used);
            hook.ask(&question).await.map_err(refused)?;
            let stored = self
                .compute
                .create_servers_after(servers, Some(project.generation));
            match stored.await {
                Err(ServerError::QuotaRaced) => {}
                stored => return stored.map_err(fault),
            }
        }
        Err(fault(ServerError::QuotaRaced))
    }

    fn check_count(&self, request: &ServerCreateRequest) -> Result<(), Fault> {
        let most = self.compute.inner.options.most_at_once;
        let (_, count) = request.counts;
        if count <= most {
            return Ok(());
        }
        Err(Fault::forbidden(format!(
            "Quota exceeded for instances: Requested {count}, but at most {most} at once"
        )))
    }
}

/// The question of the quota hook.
fn question(call: &ApiRequest, new: &NewServers, used: QuotaAmounts) -> QuotaQuestion {
    let flavor = &new.flavor.body;
    QuotaQuestion {
        schema: QUOTA_SCHEMA,
        request_id: call.request_id.as_str().to_owned(),
        project_id: new.project_id.clone(),
        user_id: new.user_id.clone(),
        count: new.count,
        flavor: new.flavor.flavorid.clone(),
        vcpus: flavor.vcpus,
        ram_mb: flavor.ram_mb,
        root_gb: flavor.disk_gb,
        ephemeral_gb: flavor.ephemeral_gb,
        swap_mb: flavor.swap_mb,
        extra_specs: flavor.extra_specs.clone(),
        availability_zone: new.zone.clone(),
        used,
    }
}
