//! POST /v2.1/servers: servers are asked for. What is asked for is looked up and checked; then it is written down, then the
//! conductor is asked; 202 is told once it is written down.

mod body;
mod guest;

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use http::StatusCode;
use serde_json::{Value, json};

pub(super) use body::{access_ip, disk_config, metadata_of, tags_of};

use self::body::{Asked, asked};
use super::servers::fault;
use crate::paging::links;
use crate::policies;
use crate::quota::{QUOTA_SCHEMA, QuotaQuestion, QuotaRefused};
use crate::router::Api;
use crate::servers::NewServers;

pub(crate) async fn create(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::SERVER_CREATE)?;
    let body: Value = call.typed()?;
    let asked = asked(&call, &body)?;
    api.check_count(&asked)?;
    let new = api.new_servers(&call, asked).await?;
    let reservation = new.1;
    api.ask_quota(&call, &new.0).await?;
    let servers = api.compute.create_servers(new.0).await.map_err(fault)?;
    for server in &servers {
        // What cannot be done now the keeper does.
        api.compute.go_on(server.uuid).await.ok();
    }
    let Some(first) = servers.first() else {
        return Err(Fault::internal("no server was written down"));
    };
    if reservation {
        let body = json!({"reservation_id": first.reservation_id});
        return Answer::with_body(StatusCode::ACCEPTED, &body);
    }
    let id = first.uuid.to_string();
    let body = json!({"server": {
        "id": id,
        "links": links(&call, "servers", &id),
        "OS-DCF:diskConfig": first.disk_config,
        // The group that every cloud has, as Nova tells it of whoever names none.
        "security_groups": [{"name": "default"}],
    }});
    let answer = Answer::with_body(StatusCode::ACCEPTED, &body)?;
    Ok(answer.located(&call, &format!("/v2.1/servers/{id}")))
}

impl Api {
    /// Refuses what the operator's program says no to.
    async fn ask_quota(&self, call: &Call, new: &NewServers) -> Result<(), Fault> {
        let Some(hook) = &self.compute.inner.quota else {
            return Ok(());
        };
        let flavor = &new.flavor.body;
        let question = QuotaQuestion {
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
            extra_specs: flavor.extra_specs.clone(),
            availability_zone: new.zone.clone(),
            used: self.used(&new.project_id).await.map_err(fault)?,
        };
        hook.ask(&question).await.map_err(|refused| match refused {
            QuotaRefused::No { .. } => Fault::forbidden(refused.to_string()),
            QuotaRefused::Unheard => Fault::unavailable(refused.to_string()),
        })
    }

    fn check_count(&self, asked: &Asked) -> Result<(), Fault> {
        let most = self.compute.inner.options.most_at_once;
        if asked.count <= most {
            return Ok(());
        }
        Err(Fault::forbidden(format!(
            "Quota exceeded for instances: Requested {}, but at most {most} at once",
            asked.count
        )))
    }
}
