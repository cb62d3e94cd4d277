//! One file, from its text to its entries: schema 1.x. The YAML is made a plain value first, and that is walked key by key,
//! so that each refusal says which key of which entry is meant. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{AllocationRatio, Inventory, ProviderName, ProviderUuid, ResourceClass, Trait};
use serde_json::{Map, Value};

use crate::provider_config::entry::{ConfiguredProvider, ProviderIdentification};
use crate::provider_config::files::ProviderFileError;

/// What names the root of a node.
const COMPUTE_NODE: &str = "$COMPUTE_NODE";
/// Names that are Berth's own.
const OWN_TRAITS: [&str; 2] = ["CUSTOM_OWNER_BERTH", "CUSTOM_BERTH_"];
/// The largest number of an inventory.
const MAX_INT: u32 = i32::MAX as u32;

/// The entries of one file. A file without content has none.
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
    let at = |key: &str| Place {
        file,
        key: key.to_owned(),
    };
    let document = at("the document").table(&value)?;
    let unknown = unknown_keys(file, document)?;
    unknown.check(&at(""), document, &["meta", "providers"])?;
    let Some(providers) = document.get("providers").filter(|list| !list.is_null()) else {
        return Ok(Vec::new());
    };
    let list = at("providers").list(providers)?;
    let entry = |(n, one): (usize, &Value)| {
        let place = Place {
            file,
            key: format!("providers[{n}]"),
        };
        provider(&place, one, unknown)
    };
    list.iter().enumerate().map(entry).collect()
}

/// What is done with keys that are not in schema 1.0.
#[derive(Clone, Copy)]
enum UnknownKeys {
    /// The file is of 1.0: they are mistakes.
    Refused,
    /// The file is of a later 1.x: they may be ones that came since.
    PassedOver,
}

fn unknown_keys(
    file: &str,
    document: &Map<String, Value>,
) -> Result<UnknownKeys, ProviderFileError> {
    let right = "write meta: {schema_version: '1.0'}, the number in quotes";
    let place = Place {
        file,
        key: "meta.schema_version".to_owned(),
    };
    let version = document
        .get("meta")
        .and_then(|meta| meta.get("schema_version"));
    let Some(version) = version else {
        return Err(place.refused("it is missing", right));
    };
    let Some(version) = version.as_str() else {
        return Err(place.refused(format!("{version} is not a text"), right));
    };
    let minor = version.strip_prefix("1.");
    let minor: Option<u32> = minor
        .filter(|minor| minor.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|minor| minor.parse().ok());
    match minor {
        Some(0) => Ok(UnknownKeys::Refused),
        Some(_) => Ok(UnknownKeys::PassedOver),
        None => Err(place.refused(
            format!("schema {version:?} is not known"),
            "schemas 1.x are read: '1.0'",
        )),
    }
}

impl UnknownKeys {
    fn check(
        self,
        place: &Place<'_>,
        table: &Map<String, Value>,
        known: &[&str],
    ) -> Result<(), ProviderFileError> {
        match table.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) if matches!(self, Self::Refused) => {
                let right = format!("{} may stand there", known.join(", "));
                Err(place
                    .below(key)
                    .refused("schema 1.0 has no such key", right))
            }
            _ => Ok(()),
        }
    }
}

fn provider(
    place: &Place<'_>,
    value: &Value,
    unknown: UnknownKeys,
) -> Result<ConfiguredProvider, ProviderFileError> {
    let table = place.table(value)?;
    unknown.check(place, table, &["identification", "inventories", "traits"])?;
    let provider = identification(&place.below("identification"), table.get("identification"))?;
    let inventories = match additional(place, table, "inventories", unknown)? {
        Some((at, list)) => inventories(&at, list, unknown)?,
        None => BTreeMap::new(),
    };
    let traits = match additional(place, table, "traits", unknown)? {
        Some((at, list)) => traits(&at, list)?,
        None => BTreeSet::new(),
    };
    Ok(ConfiguredProvider {
        file: place.file.to_owned(),
        provider,
        inventories,
        traits,
    })
}

fn identification(
    place: &Place<'_>,
    value: Option<&Value>,
) -> Result<ProviderIdentification, ProviderFileError> {
    let right = "write uuid: UUID, uuid: $COMPUTE_NODE, or name: NAME";
    let Some(value) = value else {
        return Err(place.refused("it is missing", right));
    };
    let table = place.table(value)?;
    let keys: Vec<(&str, &Value)> = table.iter().map(|(key, it)| (key.as_str(), it)).collect();
    let &[(key, value)] = &keys[..] else {
        let wrong = format!(
            "it has {} keys, and one says which provider is meant",
            keys.len()
        );
        return Err(place.refused(wrong, right));
    };
    let at = place.below(key);
    let Some(text) = value.as_str() else {
        return Err(at.refused(format!("{value} is not a text"), right));
    };
    match key {
        "uuid" if text == COMPUTE_NODE => Ok(ProviderIdentification::ComputeNode),
        "uuid" => text
            .parse::<ProviderUuid>()
            .map(ProviderIdentification::Uuid)
            .map_err(|_| at.refused(format!("{text:?} is no UUID"), right)),
        "name" if text == COMPUTE_NODE => {
            Err(at.refused("$COMPUTE_NODE is no name", "write uuid: $COMPUTE_NODE"))
        }
        "name" if text.contains(char::is_control) => {
            Err(at.refused(format!("{text:?} has a control character"), right))
        }
        "name" => ProviderName::new(text)
            .map(ProviderIdentification::Name)
            .map_err(|error| at.refused(error.to_string(), right)),
        _ => Err(at.refused("a provider is not identified by that", right)),
    }
}

/// The list `additional` of a part, if it has one.
fn additional<'p, 'v>(
    place: &Place<'p>,
    table: &'v Map<String, Value>,
    part: &str,
    unknown: UnknownKeys,
) -> Result<Option<(Place<'p>, &'v [Value])>, ProviderFileError> {
    let Some(value) = table.get(part).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let place = place.below(part);
    let table = place.table(value)?;
    unknown.check(&place, table, &["additional"])?;
    let Some(value) = table.get("additional").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let place = place.below("additional");
    let list = place.list(value)?;
    Ok(Some((place, list)))
}

fn inventories(
    place: &Place<'_>,
    list: &[Value],
    unknown: UnknownKeys,
) -> Result<BTreeMap<ResourceClass, Inventory>, ProviderFileError> {
    let mut inventories = BTreeMap::new();
    for (n, one) in list.iter().enumerate() {
        let place = place.item(n);
        for (name, value) in place.table(one)? {
            let at = place.below(name);
            let class = ResourceClass::new(name)
                .ok()
                .filter(ResourceClass::is_custom);
            let Some(class) = class else {
                let right =
                    "name it CUSTOM_ and A-Z, 0-9, _: the standard classes are the driver's";
                return Err(at.refused("it is no resource class of one's own", right));
            };
            let inventory = inventory(&at, value, unknown)?;
            if inventories.insert(class, inventory).is_some() {
                return Err(at.refused("the class stands there twice", "one inventory each"));
            }
        }
    }
    Ok(inventories)
}

/// An inventory; what is left out is what Placement would make of it.
fn inventory(
    place: &Place<'_>,
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
    let table = place.table(value)?;
    unknown.check(place, table, &KEYS)?;
    let number = |key: &str, least: u32, missing: Option<u32>| {
        let at = place.below(key);
        let right = format!("write a whole number from {least} to {MAX_INT}");
        match (table.get(key), missing) {
            (None, Some(missing)) => Ok(missing),
            (None, None) => Err(at.refused("it is missing", right)),
            (Some(value), _) => value
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| (least..=MAX_INT).contains(number))
                .ok_or_else(|| at.refused(format!("{value} is not one"), right)),
        }
    };
    let total = number("total", 1, None)?;
    let reserved = number("reserved", 0, Some(0))?;
    let mut max_unit = number("max_unit", 1, Some(MAX_INT))?;
    let min_unit = number("min_unit", 1, Some(1))?;
    if reserved > total {
        let right = format!("at most the total, {total}");
        return Err(place
            .below("reserved")
            .refused(format!("{reserved} is more than there is"), right));
    }
    if min_unit > max_unit {
        let right = format!("at most max_unit, {max_unit}");
        return Err(place
            .below("min_unit")
            .refused(format!("{min_unit} can nobody claim"), right));
    }
    if reserved == total {
        // Nobody can claim anything of it, and more than the total is the mark of units that are only held.
        max_unit = max_unit.min(total);
    }
    let at = place.below("allocation_ratio");
    let ratio = match table.get("allocation_ratio") {
        None => AllocationRatio::ONE,
        Some(value) => value
            .as_f64()
            .and_then(|ratio| AllocationRatio::new(ratio).ok())
            .ok_or_else(|| {
                at.refused(
                    format!("{value} is not one"),
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

fn traits(place: &Place<'_>, list: &[Value]) -> Result<BTreeSet<Trait>, ProviderFileError> {
    let mut traits = BTreeSet::new();
    for (n, value) in list.iter().enumerate() {
        let place = place.item(n);
        let right = "write CUSTOM_ and A-Z, 0-9, _: the standard traits are the driver's";
        let name = value.as_str().and_then(|text| Trait::new(text).ok());
        let Some(name) = name.filter(Trait::is_custom) else {
            return Err(place.refused(format!("{value} is no trait of one's own"), right));
        };
        if OWN_TRAITS.iter().any(|own| name.as_str().starts_with(own)) {
            return Err(place.refused(format!("{name} is Berth's own"), "take another name"));
        }
        if !traits.insert(name) {
            return Err(place.refused(format!("{value} stands there twice"), "write it once"));
        }
    }
    Ok(traits)
}

/// Where in which file something stands.
struct Place<'a> {
    file: &'a str,
    key: String,
}

impl<'a> Place<'a> {
    fn below(&self, key: &str) -> Self {
        let key = match self.key.as_str() {
            "" => key.to_owned(),
            above => format!("{above}.{key}"),
        };
        Place {
            file: self.file,
            key,
        }
    }

    fn item(&self, n: usize) -> Self {
        let key = format!("{}[{n}]", self.key);
        Place {
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

/// What a reader of the file can use of what the YAML library says: a line, and no advice about its own options.
fn first_line(said: &str) -> String {
    let line = said.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let (told, _) = line.split_once(", set ").unwrap_or((line, ""));
    let (told, _) = told.split_once("; use ").unwrap_or((told, ""));
    told.to_owned()
}
