//! What-if changes of a case.

use berth_model::printable;
use serde_json::{Map, Value, json};

use berth_model::nearest_name;
use berth_scheduler::options::SchedulerOptions;
use berth_scheduler_lint::misspelt;
use berth_scheduler_objects::host_state::ConsideredHost;
use berth_scheduler_objects::request::Hints;

/// Changes of a case before it is scheduled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhatIf {
    /// Enabled filters to skip, by name.
    pub without_filters: Vec<String>,
    /// Options, `group.name`, and their values as in a configuration file: a list is `a, b` or JSON.
    pub options: Vec<(String, String)>,
    /// Extra specs of the flavor.
    pub extra_specs: Vec<(String, String)>,
    /// Hints. A name that occurs several times has several values.
    pub hints: Vec<(String, String)>,
    /// Hosts that are left out.
    pub ignore_hosts: Vec<String>,
}

/// A what-if change is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// The filter is not enabled.
    #[error("{name} is not among the enabled filters, which are {}{}", listed(enabled), meant(*.near))]
    NotEnabled {
        name: String,
        enabled: Vec<String>,
        near: Option<&'static str>,
    },
    /// The option does not exist.
    #[error("there is no option {name}{}", meant(.near.as_deref()))]
    NoOption { name: String, near: Option<String> },
    /// The host to leave out does not exist.
    #[error("there is no host {name} to leave out; there are {}{}", listed(there), meant(.near.as_deref()))]
    NoHost {
        name: String,
        /// The first twenty hosts.
        there: Vec<String>,
        near: Option<String>,
    },
    /// No filter reads such a hint.
    #[error("no filter reads a hint {name}; there are {}{}", Hints::known().collect::<Vec<_>>().join(", "), meant(*.near))]
    NoHint {
        name: String,
        near: Option<&'static str>,
    },
    /// No filter or plugin reads such an extra spec.
    #[error("{name}: {wrong}{}", meant(.near.as_deref()))]
    NoExtraSpec {
        name: String,
        wrong: String,
        near: Option<String>,
    },
    /// The option cannot have the value.
    #[error("{name}: should be {should_be}, and is {value:?}")]
    Value {
        name: String,
        should_be: &'static str,
        value: String,
    },
}

pub(super) fn meant(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; is {near} meant?"))
}

/// The names, or `none`.
pub(super) fn listed(names: &[String]) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => printable(&names.join(", ")).into_owned(),
    }
}

impl WhatIf {
    /// Checks that everything that is named exists.
    pub(super) fn check(
        &self,
        options: &SchedulerOptions,
        hosts: &[ConsideredHost],
    ) -> Result<(), WhatIfError> {
        for name in &self.ignore_hosts {
            let names = || hosts.iter().map(|it| it.state.host.as_str());
            if !names().any(|it| it.eq_ignore_ascii_case(name)) {
                return Err(WhatIfError::NoHost {
                    name: name.clone(),
                    near: nearest_name(name, names()).map(str::to_owned),
                    there: names().take(20).map(str::to_owned).collect(),
                });
            }
        }
        // The extra specs that a plugin reads are not known here.
        let enabled = &options.filter_scheduler.enabled_filters;
        let has_plugins = enabled
            .iter()
            .any(|it| berth_scheduler::filters::named(it).is_none());
        for (name, _) in &self.hints {
            let near = Hints::meant(name);
            let is_known = Hints::known().any(|it| it == name) || name.starts_with("_nova_");
            if near.is_some() || !is_known && !has_plugins {
                return Err(WhatIfError::NoHint {
                    name: name.clone(),
                    near,
                });
            }
        }
        match misspelt(&self.extra_specs, options) {
            None => Ok(()),
            Some(found) => Err(WhatIfError::NoExtraSpec {
                name: found.place.key.unwrap_or_default(),
                wrong: found.text,
                near: found.hint,
            }),
        }
    }

    /// Applies the changes to a case.
    pub(super) fn change(&self, case: &mut Value) -> Result<(), WhatIfError> {
        for (name, text) in &self.options {
            let value = value(name, text)?;
            put(case, &["config"], name, value);
        }
        for (key, text) in &self.extra_specs {
            put(
                case,
                &["request", "flavor", "extra_specs"],
                key,
                json!(text),
            );
        }
        let mut given: Map<String, Value> = Map::new();
        for (name, text) in &self.hints {
            let all = given.entry(name.as_str()).or_insert_with(|| json!([]));
            if let Value::Array(all) = all {
                all.push(json!(text));
            }
        }
        for (name, all) in given {
            put(case, &["request", "hints"], &name, all);
        }
        if !self.ignore_hosts.is_empty() {
            let mut all = match case.pointer("/request/ignore_hosts") {
                Some(Value::Array(all)) => all.clone(),
                _ => Vec::new(),
            };
            all.extend(self.ignore_hosts.iter().map(|it| json!(it)));
            put(case, &["request"], "ignore_hosts", json!(all));
        }
        Ok(())
    }

    /// Removes filters from the enabled ones.
    pub(super) fn leave_out_filters(
        &self,
        options: &mut SchedulerOptions,
    ) -> Result<(), WhatIfError> {
        let enabled = &mut options.filter_scheduler.enabled_filters;
        for name in &self.without_filters {
            let known = |it: &str| berth_scheduler::filters::named(it).map(|it| it.name());
            // A plugin has only this name.
            let class = |it: &str| known(it).map_or_else(|| it.to_owned(), str::to_owned);
            let meant = class(name);
            if !enabled.iter().any(|it| class(it) == meant) {
                let names = enabled.iter().filter_map(|it| known(it));
                return Err(WhatIfError::NotEnabled {
                    name: name.clone(),
                    near: nearest_name(name, names),
                    enabled: enabled.clone(),
                });
            }
            enabled.retain(|it| class(it) != meant);
        }
        Ok(())
    }
}

/// Sets a key of an object, and creates the object if it is missing. A value that is no object is kept: reading the
/// case reports it.
fn put(case: &mut Value, path: &[&str], key: &str, value: Value) {
    let mut at = case;
    for name in path {
        let Value::Object(object) = at else { return };
        at = object.entry(*name).or_insert(Value::Null);
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
    }
    if let Value::Object(object) = at {
        object.insert(key.to_owned(), value);
    }
}

/// Parses the value of an option by the type of its default.
fn value(name: &str, text: &str) -> Result<Value, WhatIfError> {
    let all = SchedulerOptions::by_name();
    let Some((_, default)) = all.iter().find(|(it, _)| it == name) else {
        let near = nearest_name(name, all.iter().map(|(name, _)| name.as_str()));
        return Err(WhatIfError::NoOption {
            name: name.to_owned(),
            near: near.map(str::to_owned),
        });
    };
    let wrong = |should_be| WhatIfError::Value {
        name: name.to_owned(),
        should_be,
        value: text.to_owned(),
    };
    let json = || serde_json::from_str::<Value>(text).ok();
    match default {
        Value::Null | Value::String(_) => Ok(json!(text)),
        Value::Array(_) if text.trim_start().starts_with('[') => json()
            .filter(Value::is_array)
            .ok_or_else(|| wrong("a list")),
        Value::Array(_) => Ok(text
            .split(',')
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect()),
        Value::Bool(_) => json()
            .filter(Value::is_boolean)
            .ok_or_else(|| wrong("true or false")),
        Value::Number(number) if number.is_f64() => json()
            .filter(Value::is_number)
            .ok_or_else(|| wrong("a number")),
        _ => json()
            .filter(|it| it.is_i64() || it.is_u64())
            .ok_or_else(|| wrong("a whole number")),
    }
}
