//! [`SchedulerCase`]: one case of a file, with its options, hosts and request.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use berth_scheduler::custom_plugins::CustomPlugins;
use berth_scheduler::options::SchedulerOptions;
use berth_scheduler::select::Scheduler;
use berth_scheduler_objects::from_json::{
    CaseField, CaseRequestError, FieldError, allocation_candidates, host_state, request_spec,
};
use berth_scheduler_objects::host_state::ConsideredHost;
use berth_scheduler_objects::request::RequestSpec;

/// A case. The options are read; each kind of case reads the other fields that it needs.
pub(super) struct SchedulerCase<'a> {
    #[cfg_attr(
        not(feature = "replay"),
        expect(dead_code, reason = "only replay uses it")
    )]
    pub(super) id: &'a str,
    pub(super) options: SchedulerOptions,
    /// The complete case, for the parts that only some kinds have.
    pub(super) field: CaseField<'a>,
}

impl<'a> SchedulerCase<'a> {
    pub(super) fn read(field: &CaseField<'a>) -> Result<Self, FieldError> {
        Ok(Self {
            id: field.required("id")?.text()?,
            options: field.optional_or("config", options(&Map::new(), field)?, |config| {
                match config.value() {
                    Value::Object(flat) => options(flat, config),
                    _ => Err(config.expected("an object")),
                }
            })?,
            field: field.clone(),
        })
    }

    /// The hosts, in the order of the file. No filter has run on them.
    pub(super) fn hosts(&self) -> Result<Vec<ConsideredHost>, FieldError> {
        let hosts = self.field.required("hosts")?.items()?;
        let considered = hosts.iter().enumerate().map(|(index, field)| {
            let state = Arc::new(host_state(field, index)?);
            Ok(ConsideredHost::new(
                state,
                allocation_candidates(field)?.into(),
            ))
        });
        considered.collect()
    }

    /// A scheduler with the case's options, without custom filters and weighers.
    #[cfg(feature = "replay")]
    pub(super) fn scheduler(&self) -> Result<Scheduler, FieldError> {
        scheduler(self.options.clone(), &CustomPlugins::new())
    }

    pub(super) fn request(&self) -> Result<RequestSpec, CaseRequestError> {
        request_spec(&self.field.required("request")?)
    }
}

/// A scheduler with the case's options and custom filters and weighers.
pub(super) fn scheduler(
    options: SchedulerOptions,
    own: &CustomPlugins,
) -> Result<Scheduler, FieldError> {
    let scheduler = Scheduler::with_custom_plugins(options, own);
    scheduler.map_err(|error| FieldError {
        path: "config".to_owned(),
        problem: error.to_string(),
    })
}

/// Options from `{"group.option": value}`. Options of Nova that the scheduler does not read are ignored, as in
/// nova.conf. Two options that Nova does not have default to Nova's behavior, for `replay`; `dry_run::one_case` gives
/// them Berth's defaults before.
fn options(
    flat: &Map<String, Value>,
    field: &CaseField<'_>,
) -> Result<SchedulerOptions, FieldError> {
    let mut groups = Map::new();
    for (name, value) in flat {
        let (group, option) = name
            .split_once('.')
            .ok_or_else(|| field.error(format!("{name} should be group.option")))?;
        let group = groups
            .entry(group)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(group) = group {
            group.insert(option.to_owned(), value.clone());
        }
    }
    let mut options = SchedulerOptions::deserialize(Value::Object(groups))
        .map_err(|error| field.error(format!("{}{error}", unreadable(flat))))?;
    if !flat.contains_key("filter_scheduler.candidates_per_host") {
        options.filter_scheduler.candidates_per_host = 1;
    }
    if !flat.contains_key("filter_scheduler.compare_image_maxphysaddr_bits") {
        options.filter_scheduler.compare_image_maxphysaddr_bits = false;
    }
    Ok(options)
}

/// The start of an error text, `NAME: `, with the first option that cannot be read. Empty if each can be read alone.
fn unreadable(flat: &Map<String, Value>) -> String {
    let is_bad = |(name, value): &(&String, &Value)| {
        let (group, option) = name.split_once('.').unwrap_or_default();
        SchedulerOptions::deserialize(json!({group: {option: value}})).is_err()
    };
    let found = flat.iter().find(is_bad);
    found.map_or_else(String::new, |(name, _)| format!("{name}: "))
}
