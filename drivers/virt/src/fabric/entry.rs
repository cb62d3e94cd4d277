//! Parses one entry of `[fabric] partitions`: a table, or a JSON text of tables. An error is the key and the reason.

use std::collections::BTreeSet;

use berth_model::{PciAddress, ResourceClass};
use berth_options::Json;

use super::FabricPartition;

const KEYS: [&str; 3] = ["id", "devices", "resource_class"];

type EntryError = (String, String);

fn wrong(key: &str, reason: impl Into<String>) -> EntryError {
    (key.to_owned(), reason.into())
}

/// The partitions of one entry. The environment has the whole list in one text.
pub(super) fn read(entry: &Json) -> Result<Vec<FabricPartition>, EntryError> {
    let parsed: Json;
    let entry = match entry {
        Json::String(text) => {
            parsed = text
                .parse()
                .map_err(|error| wrong("", format!("it is not JSON: {error}")))?;
            &parsed
        }
        other => other,
    };
    match entry {
        Json::Array(tables) => tables.iter().map(partition).collect(),
        table => Ok(vec![partition(table)?]),
    }
}

fn partition(table: &Json) -> Result<FabricPartition, EntryError> {
    let table = table
        .as_object()
        .ok_or_else(|| wrong("", "a table with id and devices is expected"))?;
    if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let shown: String = unknown.chars().take(80).collect();
        let reason = format!("unknown key; known are {}", KEYS.join(", "));
        return Err(wrong(&shown, reason));
    }
    let id = table.get("id").and_then(Json::as_u64);
    let id = id.and_then(|id| u32::try_from(id).ok());
    let id = id.ok_or_else(|| {
        let expected =
            "a number from 0 to 4294967295 is expected: the partition's ID of Fabric Manager";
        wrong("id", expected)
    })?;
    let functions = functions(table.get("devices"))?;
    let class = match table.get("resource_class") {
        None => format!("CUSTOM_FABRIC_PARTITION_{}", functions.len()),
        Some(Json::String(name)) => name.clone(),
        Some(_) => return Err(wrong("resource_class", "a text in quotes is expected")),
    };
    let class =
        ResourceClass::new(&class).map_err(|error| wrong("resource_class", error.to_string()))?;
    Ok(FabricPartition {
        id,
        functions,
        class,
    })
}

fn functions(value: Option<&Json>) -> Result<BTreeSet<PciAddress>, EntryError> {
    let expected = || {
        let expected = "a list of the GPUs' addresses is expected, such as [\"0000:0f:00.0\"]";
        wrong("devices", expected)
    };
    let written = value.and_then(Json::as_array).ok_or_else(expected)?;
    let mut functions = BTreeSet::new();
    for one in written {
        let text = one.as_str().ok_or_else(expected)?;
        let address: PciAddress = text.parse().map_err(|_| {
            let reason = format!("{text:?} is no PCI address such as 0000:0f:00.0");
            wrong("devices", reason)
        })?;
        if !functions.insert(address) {
            return Err(wrong("devices", format!("{address} is there twice")));
        }
    }
    match functions.is_empty() {
        true => Err(expected()),
        false => Ok(functions),
    }
}
