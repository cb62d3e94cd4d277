//! Parser of one provider file (schema 1.x): from text to entries. The YAML is converted to a plain value, which is
//! then checked key by key, so that each error names the key of the entry. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocationRatio, Inventory, ProviderName, ProviderUuid, ResourceClass, Trait, nearest_name,
};
use serde_json::{Map, Value};

use crate::provider_config::entry::{ConfiguredProvider, ProviderIdentification};
use crate::provider_config::files::ProviderFileError;

/// Identifies the root of each node.
const COMPUTE_NODE: &str = "$COMPUTE_NODE";
/// Prefixes of trait names that are reserved for Berth.
const OWN_TRAITS: [&str; 2] = ["CUSTOM_OWNER_BERTH", "CUSTOM_BERTH_"];
/// Largest number in an inventory.
const MAX_INT: u32 = i32::MAX as u32;

/// Parses the entries of one file. An empty file has none.
pub(super) fn entries(
    file: &str,
    text: &str,
) -> Result<Vec<ConfiguredProvider>, ProviderFileError> {
    let value: Value =
        serde_saphyr::from_str(text).map_err(|error| ProviderFileError::Malformed {
            path: file.to_owned(),
            reason: first_line(&error.to_string()),
        })?;
    if value.is_null() {
        return Ok(Vec::new());
    }
    let at = |key: &str| KeyPath {
        file,
        key: key.to_owned(),
    };
    let document = at("the document").table(&value)?;
    let unknown = unknown_keys(file, document)?;
    refuse_misspelt(&at(""), document, &["meta", "providers"])?;
    let Some(providers) = document.get("providers").filter(|list| !list.is_null()) else {
        return Ok(Vec::new());
    };
    let list = at("providers").list(providers)?;
    let entry = |(n, one): (usize, &Value)| {
        let path = KeyPath {
            file,
            key: format!("providers[{n}]"),
        };
        provider(&path, one, unknown)
    };
    list.iter().enumerate().map(entry).collect()
}

/// How keys of an inventory outside of schema 1.0 are handled. Everywhere else the schema allows additional keys.
#[derive(Clone, Copy)]
enum UnknownKeys {
    /// Schema 1.0: they are errors.
    Refused,
    /// Later schema 1.x: they may have been added since.
    Ignored,
}

fn unknown_keys(
    file: &str,
    document: &Map<String, Value>,
) -> Result<UnknownKeys, ProviderFileError> {
    let right = "write meta: {schema_version: '1.0'}, with quotes around the number";
    let path = KeyPath {
        file,
        key: "meta.schema_version".to_owned(),
    };
    let version = document
        .get("meta")
        .and_then(|meta| meta.get("schema_version"));
    let Some(version) = version else {
        return Err(path.refused("it is missing", right));
    };
    let Some(version) = version.as_str() else {
        return Err(path.refused(format!("{version} is not a string"), right));
    };
    let minor = version.strip_prefix("1.");
    let minor: Option<u32> = minor
        .filter(|minor| minor.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|minor| minor.parse().ok());
    match minor {
        Some(0) => Ok(UnknownKeys::Refused),
        Some(_) => Ok(UnknownKeys::Ignored),
        None => Err(path.refused(
            format!("schema {version:?} is not supported"),
            "schemas 1.x are supported, for example '1.0'",
        )),
    }
}

impl UnknownKeys {
    fn check(
        self,
        path: &KeyPath<'_>,
        table: &Map<String, Value>,
        known: &[&str],
    ) -> Result<(), ProviderFileError> {
        match table.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) if matches!(self, Self::Refused) => {
                let right = format!("valid keys: {}", known.join(", "));
                Err(path.below(key).refused("schema 1.0 has no such key", right))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses an additional key that is near to a known one: it is a spelling mistake, and its section would not be applied.
fn refuse_misspelt(
    path: &KeyPath<'_>,
    table: &Map<String, Value>,
    known: &[&str],
) -> Result<(), ProviderFileError> {
    let additional = table.keys().filter(|key| !known.contains(&key.as_str()));
    for key in additional {
        let missing = known.iter().filter(|known| !table.contains_key(**known));
        if let Some(name) = nearest_name(key, missing.copied()) {
            let right = format!("did you mean {name:?}?");
            return Err(path.below(key).refused("unknown key", right));
        }
    }
    Ok(())
}

fn provider(
    path: &KeyPath<'_>,
    value: &Value,
    unknown: UnknownKeys,
) -> Result<ConfiguredProvider, ProviderFileError> {
    let table = path.table(value)?;
    refuse_misspelt(path, table, &["identification", "inventories", "traits"])?;
    let provider = identification(&path.below("identification"), table.get("identification"))?;
    let inventories = match additional(path, table, "inventories")? {
        Some((at, list)) => inventories(&at, list, unknown)?,
        None => BTreeMap::new(),
    };
    let traits = match additional(path, table, "traits")? {
        Some((at, list)) => traits(&at, list)?,
        None => BTreeSet::new(),
    };
    Ok(ConfiguredProvider {
        file: path.file.to_owned(),
        provider,
        inventories,
        traits,
    })
}

fn identification(
    path: &KeyPath<'_>,
    value: Option<&Value>,
) -> Result<ProviderIdentification, ProviderFileError> {
    let right = "write uuid: UUID, uuid: $COMPUTE_NODE, or name: NAME";
    let Some(value) = value else {
        return Err(path.refused("it is missing", right));
    };
    let table = path.table(value)?;
    let keys: Vec<(&str, &Value)> = table.iter().map(|(key, it)| (key.as_str(), it)).collect();
    let &[(key, value)] = &keys[..] else {
        let wrong = format!(
            "it has {} keys, and exactly one must identify the provider",
            keys.len()
        );
        return Err(path.refused(wrong, right));
    };
    let at = path.below(key);
    let Some(text) = value.as_str() else {
        return Err(at.refused(format!("{value} is not a string"), right));
    };
    match key {
        "uuid" if text == COMPUTE_NODE => Ok(ProviderIdentification::ComputeNode),
        "uuid" => text
            .parse::<ProviderUuid>()
            .map(ProviderIdentification::Uuid)
            .map_err(|_| at.refused(format!("{text:?} is not a UUID"), right)),
        "name" if text == COMPUTE_NODE => {
            Err(at.refused("$COMPUTE_NODE is not a name", "write uuid: $COMPUTE_NODE"))
        }
        "name" if text.contains(char::is_control) => {
            Err(at.refused(format!("{text:?} has a control character"), right))
        }
        "name" => ProviderName::new(text)
            .map(ProviderIdentification::Name)
            .map_err(|error| at.refused(error.to_string(), right)),
        _ => Err(at.refused("unknown kind of identification", right)),
    }
}

/// The list `additional` of a section, if present.
fn additional<'p, 'v>(
    path: &KeyPath<'p>,
    table: &'v Map<String, Value>,
    part: &str,
) -> Result<Option<(KeyPath<'p>, &'v [Value])>, ProviderFileError> {
    let Some(value) = table.get(part).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let path = path.below(part);
    let table = path.table(value)?;
    refuse_misspelt(&path, table, &["additional"])?;
    let Some(value) = table.get("additional").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let path = path.below("additional");
    let list = path.list(value)?;
    Ok(Some((path, list)))
}

fn inventories(
    path: &KeyPath<'_>,
    list: &[Value],
    unknown: UnknownKeys,
) -> Result<BTreeMap<ResourceClass, Inventory>, ProviderFileError> {
    let mut inventories = BTreeMap::new();
    for (n, one) in list.iter().enumerate() {
        let path = path.item(n);
        for (name, value) in path.table(one)? {
            let at = path.below(name);
            let class = ResourceClass::new(name)
                .ok()
                .filter(ResourceClass::is_custom);
            let Some(class) = class else {
                let right = "use CUSTOM_ and A-Z, 0-9, _: only the driver reports standard classes";
                return Err(at.refused("it is not a custom resource class", right));
            };
            let inventory = inventory(&at, value, unknown)?;
            if inventories.insert(class, inventory).is_some() {
                return Err(at.refused(
                    "the class is listed twice",
                    "write one inventory for each class",
                ));
            }
        }
    }
    Ok(inventories)
}

/// Parses an inventory. Missing keys get Placement's defaults.
fn inventory(
    path: &KeyPath<'_>,
    value: &Value,
    unknown: UnknownKeys,
) -> Result<Inventory, ProviderFileError> {
    const KEYS: [&str; 6] = [
        "total",
        "reserved",
        "min_unit",
        "max_unit",
        "step_size",
        "allocation_ratio",
    ];
    let table = path.table(value)?;
    unknown.check(path, table, &KEYS)?;
    let number = |key: &str, least: u32, missing: Option<u32>| {
        let at = path.below(key);
        let right = format!("write a whole number from {least} to {MAX_INT}");
        match (table.get(key), missing) {
            (None, Some(missing)) => Ok(missing),
            (None, None) => Err(at.refused("it is missing", right)),
            (Some(value), _) => value
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| (least..=MAX_INT).contains(number))
                .ok_or_else(|| {
                    at.refused(
                        format!("{value} is out of range or not a whole number"),
                        right,
                    )
                }),
        }
    };
    let total = number("total", 1, None)?;
    let reserved = number("reserved", 0, Some(0))?;
    let mut max_unit = number("max_unit", 1, Some(MAX_INT))?;
    let min_unit = number("min_unit", 1, Some(1))?;
    if reserved > total {
        let right = format!("at most the total, {total}");
        return Err(path
            .below("reserved")
            .refused(format!("{reserved} is more than the total"), right));
    }
    if min_unit > max_unit {
        let right = format!("at most max_unit, {max_unit}");
        return Err(path
            .below("min_unit")
            .refused(format!("{min_unit} is more than max_unit"), right));
    }
    if reserved == total {
        // Nothing can be claimed of such an inventory. A larger maximum would be the mark of held units.
        max_unit = max_unit.min(total);
    }
    let at = path.below("allocation_ratio");
    let ratio = match table.get("allocation_ratio") {
        None => AllocationRatio::ONE,
        Some(value) => value
            .as_f64()
            .and_then(|ratio| AllocationRatio::new(ratio).ok())
            .ok_or_else(|| {
                at.refused(
                    format!("{value} is out of range or not a number"),
                    "write a number above 0, at most 3.4e38",
                )
            })?,
    };
    Ok(Inventory {
        total,
        reserved,
        min_unit,
        max_unit,
        step_size: number("step_size", 1, Some(1))?,
        allocation_ratio: ratio,
    })
}

fn traits(path: &KeyPath<'_>, list: &[Value]) -> Result<BTreeSet<Trait>, ProviderFileError> {
    let mut traits = BTreeSet::new();
    for (n, value) in list.iter().enumerate() {
        let path = path.item(n);
        let right = "use CUSTOM_ and A-Z, 0-9, _: only the driver reports standard traits";
        let name = value.as_str().and_then(|text| Trait::new(text).ok());
        let Some(name) = name.filter(Trait::is_custom) else {
            return Err(path.refused(format!("{value} is not a custom trait"), right));
        };
        if OWN_TRAITS.iter().any(|own| name.as_str().starts_with(own)) {
            return Err(path.refused(format!("{name} is reserved for Berth"), "use another name"));
        }
        traits.insert(name);
    }
    Ok(traits)
}

/// A key in a file, for error messages.
struct KeyPath<'a> {
    file: &'a str,
    key: String,
}

impl<'a> KeyPath<'a> {
    fn below(&self, key: &str) -> Self {
        let key = match self.key.as_str() {
            "" => key.to_owned(),
            above => format!("{above}.{key}"),
        };
        KeyPath {
            file: self.file,
            key,
        }
    }

    fn item(&self, n: usize) -> Self {
        let key = format!("{}[{n}]", self.key);
        KeyPath {
            file: self.file,
            key,
        }
    }

    fn table<'v>(&self, value: &'v Value) -> Result<&'v Map<String, Value>, ProviderFileError> {
        let right = "write keys with values (KEY: VALUE)";
        value
            .as_object()
            .ok_or_else(|| self.refused("it is not a table", right))
    }

    fn list<'v>(&self, value: &'v Value) -> Result<&'v [Value], ProviderFileError> {
        let list = value.as_array().map(Vec::as_slice);
        list.ok_or_else(|| {
            self.refused("it is not a list", "write each item after a dash (- ITEM)")
        })
    }

    fn refused(&self, wrong: impl Into<String>, right: impl Into<String>) -> ProviderFileError {
        ProviderFileError::Refused {
            path: self.file.to_owned(),
            key: self.key.clone(),
            wrong: wrong.into(),
            right: right.into(),
        }
    }
}

/// The useful part of an error of the YAML library: its first line, without advice about the library's options.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let (text, _) = line.split_once(", set ").unwrap_or((line, ""));
    let (text, _) = text.split_once("; use ").unwrap_or((text, ""));
    text.to_owned()
}
