//! /v2.1/flavors: which flavors there are.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use http::StatusCode;
use serde_json::{Value, json};

use crate::fields::{boolean, bounded};
use crate::flavors::{Flavor, FlavorError, Order, Publicity, Select, SortKey};
use crate::paging::{Page, next};
use crate::policies;
use crate::router::Api;
use crate::store;
use crate::views::flavor::{ExtraSpecs, brief, whole};

/// What Nova lets a query of flavors have.
const QUERY: [&str; 7] = [
    "limit",
    "marker",
    "is_public",
    "minRam",
    "minDisk",
    "sort_key",
    "sort_dir",
];

pub(super) fn fault(error: FlavorError) -> Fault {
    match error {
        FlavorError::NotFound { .. }
        | FlavorError::NoExtraSpec { .. }
        | FlavorError::AccessNotFound { .. } => Fault::not_found(error.to_string()),
        FlavorError::NameExists { .. }
        | FlavorError::IdExists { .. }
        | FlavorError::AccessExists { .. }
        | FlavorError::Public => Fault::conflict(error.to_string()),
        FlavorError::ManyExtraSpecs { .. } => Fault::new(StatusCode::FORBIDDEN, error.to_string()),
        FlavorError::Table(error) => store::fault(&error),
    }
}

/// Whether the caller may see extra specs inside flavors.
pub(super) fn specs(api: &Api, call: &Call) -> ExtraSpecs {
    match api.allow(call, policies::EXTRA_SPECS_INDEX) {
        Ok(()) => ExtraSpecs::Shown,
        Err(_) => ExtraSpecs::Hidden,
    }
}

/// A flavor that the caller may know of.
pub(super) async fn known(api: &Api, call: &Call) -> Result<Flavor, Fault> {
    let flavorid = call.path("flavor")?;
    let flavor = api.compute.flavor(flavorid).await.map_err(fault)?;
    if api.is_admin(call) || flavor.is_for(call.caller.project_id()) {
        return Ok(flavor);
    }
    let flavorid = flavorid.to_owned();
    Err(fault(FlavorError::NotFound { flavorid }))
}

fn publicity(api: &Api, call: &Call) -> Result<Publicity, Fault> {
    let own = Publicity::For(call.caller.project_id().map(str::to_owned));
    if !api.is_admin(call) {
        return Ok(own);
    }
    match call.query.last("is_public") {
        None => Ok(own),
        Some(text) if text.eq_ignore_ascii_case("none") => Ok(Publicity::All),
        Some(text) => match boolean(text) {
            Some(true) => Ok(own),
            Some(false) => Ok(Publicity::Private),
            None => {
                let sentence = format!("Invalid is_public filter [{}]", bounded(text));
                Err(Fault::bad_request(sentence))
            }
        },
    }
}

fn least(call: &Call, key: &str) -> Result<i64, Fault> {
    let Some(text) = call.query.last(key) else {
        return Ok(i64::MIN);
    };
    let wrong = |_| Fault::bad_request(format!("Invalid {key} filter [{}]", bounded(text)));
    text.parse().map_err(wrong)
}

fn select(api: &Api, call: &Call) -> Result<Select, Fault> {
    if call.version.has(crate::microversions::STRICT) {
        crate::paging::check_keys(call, &QUERY)?;
    }
    let key = call.query.last("sort_key").unwrap_or("flavorid");
    let key = SortKey::of_word(key).ok_or_else(|| {
        let sentence = format!("Invalid sort_key [{}]", bounded(key));
        Fault::bad_request(sentence)
    })?;
    let order = match call.query.last("sort_dir") {
        None | Some("asc") => Order::Ascending,
        Some("desc") => Order::Descending,
        Some(other) => {
            let sentence = format!("Invalid sort_dir [{}]: it is asc or desc", bounded(other));
            return Err(Fault::bad_request(sentence));
        }
    };
    Ok(Select {
        publicity: publicity(api, call)?,
        min_ram: least(call, "minRam")?,
        min_disk: least(call, "minDisk")?,
        key,
        order,
    })
}

async fn answer(
    api: &Api,
    call: &Call,
    path: &str,
    view: impl Fn(&Flavor) -> Value,
) -> Result<Answer, Fault> {
    let (select, page) = (select(api, call)?, Page::of(call)?);
    let all = api.compute.flavors().await.map_err(fault)?;
    let (flavors, full) = page.cut(select.of(all), |one| &one.made.flavorid)?;
    let shown: Vec<Value> = flavors.iter().map(view).collect();
    let mut body = json!({"flavors": shown});
    if let Some(last) = flavors.last().filter(|_| full) {
        body["flavors_links"] = next(call, path, &last.made.flavorid);
    }
    Answer::ok(&body)
}

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    answer(&api, &call, "flavors", |one| brief(&call, one)).await
}

pub(crate) async fn detail(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let specs = specs(&api, &call);
    let view = |one: &Flavor| whole(&call, one, specs);
    answer(&api, &call, "flavors/detail", view).await
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let flavor = known(&api, &call).await?;
    Answer::ok(&json!({"flavor": whole(&call, &flavor, specs(&api, &call))}))
}
