//! Converts database rows into guest records.

use std::collections::BTreeMap;

use berth_store::Row;
use serde::de::DeserializeOwned;

use super::{
    BootRecord, BootRecords, BootStep, BootStepDetail, BootStepRecord, BootStepState,
    UnreadableBootRecord,
};
use crate::BootRequest;

/// Converts rows of `guest` (`uuid, request, config_drive, course, attempt, failures`) and `step` (`guest, attempt,
/// step, state, detail`). `path` is the file's, for errors.
pub(super) fn read_records(path: &str, guests: &[Row], steps: &[Row]) -> BootRecords {
    let mut by_guest: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in steps {
        // A step without a readable guest belongs to no record.
        if let Ok(guest) = row.text(0) {
            by_guest.entry(guest).or_default().push(row);
        }
    }
    let mut records = BootRecords::default();
    for row in guests {
        let guest = text(row, 0);
        let read = guest.clone().and_then(|guest| {
            let steps = by_guest.remove(&guest).unwrap_or_default();
            read_record(&guest, row, &steps)
        });
        records.push(read.map_err(|reason| UnreadableBootRecord {
            path: path.to_owned(),
            guest: guest.unwrap_or_default(),
            reason,
        }));
    }
    records
}

fn read_record(guest: &str, row: &Row, steps: &[&Row]) -> Result<BootRecord, String> {
    let drive = row.opt_text(2).map_err(|error| error.to_string())?;
    let request = BootRequest::from_journal(&text(row, 1)?, drive.as_deref())?;
    if request.uuid().to_string() != guest {
        return Err(format!("its request has the UUID {}", request.uuid()));
    }
    let steps = steps.iter().map(|row| {
        let (step, state) = (text(row, 2)?, text(row, 3)?);
        let known = BootStep::parse(&step).zip(BootStepState::parse(&state));
        let (step, state) =
            known.ok_or_else(|| format!("unknown step or state: {step} {state}"))?;
        let detail = BootStepDetail::from_text(&text(row, 4)?)?;
        Ok(((number(row, 1)?, step), BootStepRecord { state, detail }))
    });
    Ok(BootRecord {
        request,
        goal: parse_json("course", &text(row, 3)?)?,
        attempt: number(row, 4)?,
        failures: parse_json("failures", &text(row, 5)?)?,
        steps: steps.collect::<Result<_, String>>()?,
    })
}

fn text(row: &Row, at: usize) -> Result<String, String> {
    row.text(at).map_err(|error| error.to_string())
}

fn number(row: &Row, at: usize) -> Result<u32, String> {
    let attempt = row.int(at).map_err(|error| error.to_string())?;
    u32::try_from(attempt).map_err(|_| format!("invalid attempt {attempt}"))
}

fn parse_json<T: DeserializeOwned>(column: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{column}: {error}"))
}
