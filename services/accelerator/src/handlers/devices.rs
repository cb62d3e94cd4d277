//! /v2/devices

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::accelerator::{DeviceBody, DeviceList};

use super::{database, link, read, uuid};
use crate::router::Accelerator;
use crate::store::devices::{self, DeviceError, ENABLED, Filters, MAINTAINING, SetStatus};
use crate::{microversions, policies};

fn fault(error: DeviceError) -> Fault {
    match error {
        DeviceError::NotFound(_) => Fault::not_found(error.to_string()),
        DeviceError::Read(error) => database(error),
    }
}

fn body(call: &Call, device: DeviceBody) -> DeviceBody {
    let status = device
        .status
        .filter(|_| call.version.has(microversions::DEVICE_STATUS));
    DeviceBody {
        links: vec![link(call, "devices", device.uuid)],
        status,
        ..device
    }
}

/// `type`, `vendor` and `hostname` by themselves; these and `model`, `status` in `filters` too: objects of `field` and
/// `value`, one in each `filters`, or a list of them in one. Cyborg documents that form, and answers 500 to it.
fn filters(call: &Call) -> Result<Filters, Fault> {
    let filter = |name| call.query.last(name).map(str::to_owned);
    let mut filters = Filters {
        device_type: filter("type"),
        vendor: filter("vendor"),
        hostname: filter("hostname"),
        ..Filters::default()
    };
    for text in call.query.all("filters") {
        let expected = "filters: a JSON object {\"field\": ..., \"value\": ...}, or a list of such, is expected";
        let read: OneOrMany =
            serde_json::from_str(text).map_err(|_| Fault::bad_request(expected))?;
        let all = match read {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        };
        for each in all {
            let Some(place) = filters.of_name(&each.field) else {
                let field: String = each.field.chars().take(80).collect();
                return Err(Fault::bad_request(format!(
                    "filters: {field:?} is none of type, vendor, hostname, model, status"
                )));
            };
            *place = Some(each.value);
        }
    }
    Ok(filters)
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(FieldFilter),
    Many(Vec<FieldFilter>),
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldFilter {
    field: String,
    value: String,
}

pub(crate) async fn list(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::DEVICE_GET_ALL)?;
    let filters = filters(&call)?;
    let mut tx = read(&accelerator.tables).await?;
    let found = devices::list(&mut tx, &filters).await.map_err(database)?;
    let devices = found
        .into_iter()
        .map(|device| body(&call, device))
        .collect();
    Answer::ok(&DeviceList { devices })
}

pub(crate) async fn show(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::DEVICE_GET_ONE)?;
    let uuid = uuid(&call, "Device")?;
    let mut tx = read(&accelerator.tables).await?;
    let found = devices::get(&mut tx, uuid).await.map_err(fault)?;
    Answer::ok(&body(&call, found))
}

pub(crate) async fn disable(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::DEVICE_DISABLE)?;
    set_status(&accelerator, &call, MAINTAINING).await
}

pub(crate) async fn enable(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::DEVICE_ENABLE)?;
    set_status(&accelerator, &call, ENABLED).await
}

async fn set_status(
    accelerator: &Accelerator,
    call: &Call,
    status: &'static str,
) -> Result<Answer, Fault> {
    let uuid = uuid(call, "Device")?;
    let set = SetStatus { uuid, status };
    if let Some(host) = accelerator.tables.write(&set).await.map_err(fault)? {
        accelerator.options.hosts.ring(&host);
    }
    Ok(Answer::no_content())
}
