//! /v2/devices: list and show devices, and set them in and out of service.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::accelerator::{DeviceBody, DeviceList};

use super::{database, link, read, uuid};
use crate::microversions;
use crate::policies::{admin, manager};
use crate::router::{AcceleratorApi, AcceleratorOperation};
use crate::store::devices::{
    self, DeviceFilters, DeviceStatusError, ENABLED, MAINTAINING, SetDeviceStatus,
};

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::get("/v2/devices", list).rule(manager("cyborg:device:get_all")),
        AcceleratorOperation::get("/v2/devices/{uuid}", show)
            .rule(manager("cyborg:device:get_one")),
        AcceleratorOperation::post("/v2/devices/{uuid}/disable", disable)
            .rule(admin("cyborg:device:disable")),
        AcceleratorOperation::post("/v2/devices/{uuid}/enable", enable)
            .rule(admin("cyborg:device:enable")),
    ]
}

fn fault(error: DeviceStatusError) -> Fault {
    match error {
        DeviceStatusError::NotFound(_) => Fault::not_found(error.to_string()),
        DeviceStatusError::Read(error) => database(error),
    }
}

fn body(call: &ApiRequest, device: DeviceBody) -> DeviceBody {
    let status = device
        .status
        .filter(|_| call.version.has(microversions::DEVICE_STATUS));
    DeviceBody {
        links: vec![link(call, "devices", device.uuid)],
        status,
        ..device
    }
}

/// `type`, `vendor` and `hostname` as query keys; these, `model` and `status` also in `filters`, as `field` and `value`
/// objects, singly or as a list. Cyborg documents that form but answers 500 to it.
fn filters(call: &ApiRequest) -> Result<DeviceFilters, Fault> {
    let filter = |name| call.query.last(name).map(str::to_owned);
    let mut filters = DeviceFilters {
        device_type: filter("type"),
        vendor: filter("vendor"),
        hostname: filter("hostname"),
        ..DeviceFilters::default()
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

async fn list(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let filters = filters(&call)?;
    let mut tx = read(&accelerator.tables).await?;
    let found = devices::list(&mut tx, &filters).await.map_err(database)?;
    let devices = found
        .into_iter()
        .map(|device| body(&call, device))
        .collect();
    ApiResponse::ok(&DeviceList { devices })
}

async fn show(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let uuid = uuid(&call, "Device")?;
    let mut tx = read(&accelerator.tables).await?;
    let found = devices::get(&mut tx, uuid).await.map_err(fault)?;
    ApiResponse::ok(&body(&call, found))
}

async fn disable(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    set_status(&accelerator, &call, MAINTAINING).await
}

async fn enable(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    set_status(&accelerator, &call, ENABLED).await
}

async fn set_status(
    accelerator: &AcceleratorApi,
    call: &ApiRequest,
    status: &'static str,
) -> Result<ApiResponse, Fault> {
    let uuid = uuid(call, "Device")?;
    let set = SetDeviceStatus { uuid, status };
    if let Some(host) = accelerator.tables.write(&set).await.map_err(fault)? {
        accelerator.options.hosts.notify(&host);
    }
    Ok(ApiResponse::no_content())
}
