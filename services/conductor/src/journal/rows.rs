//! From rows to records.

use std::collections::BTreeMap;

use berth_store::Row;
use serde::de::DeserializeOwned;

use super::{
    BootRecord, BootStep, GuestRecords, StepDetail, StepRecord, StepState, UnreadableGuest,
};
use crate::BootRequest;

/// `uuid, request, config_drive, course, attempt, failures` and, by guest, `guest, attempt, step, state, detail`, of the file that is
/// at this path.
pub(super) fn records(path: &str, guests: &[Row], steps: &[Row]) -> GuestRecords {
    let mut by_guest: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in steps {
        // A step of nobody's is of no guest that is shown.
        if let Ok(guest) = row.text(0) {
            by_guest.entry(guest).or_default().push(row);
        }
    }
    let mut records = GuestRecords::default();
    for row in guests {
        let guest = text(row, 0);
        let read = guest.clone().and_then(|guest| {
            let steps = by_guest.remove(&guest).unwrap_or_default();
            record(&guest, row, &steps)
        });
        records.push(read.map_err(|reason| UnreadableGuest {
            path: path.to_owned(),
            guest: guest.unwrap_or_default(),
            reason,
        }));
    }
    records
}

fn record(guest: &str, row: &Row, steps: &[&Row]) -> Result<BootRecord, String> {
    let drive = row.opt_text(2).map_err(|error| error.to_string())?;
    let request = BootRequest::of_journal(&text(row, 1)?, drive.as_deref())?;
    if request.uuid().to_string() != guest {
        return Err(format!("its request is that of {}", request.uuid()));
    }
    let steps = steps.iter().map(|row| {
        let (step, state) = (text(row, 2)?, text(row, 3)?);
        let known = BootStep::of_word(&step).zip(StepState::of_word(&state));
        let (step, state) = known.ok_or_else(|| format!("no step is {step} {state}"))?;
        let detail = StepDetail::of_text(&text(row, 4)?)?;
        Ok(((number(row, 1)?, step), StepRecord { state, detail }))
    });
    Ok(BootRecord {
        request,
        course: parsed("course", &text(row, 3)?)?,
        attempt: number(row, 4)?,
        failures: parsed("failures", &text(row, 5)?)?,
        steps: steps.collect::<Result<_, String>>()?,
    })
}

fn text(row: &Row, at: usize) -> Result<String, String> {
    row.text(at).map_err(|error| error.to_string())
}

fn number(row: &Row, at: usize) -> Result<u32, String> {
    let attempt = row.int(at).map_err(|error| error.to_string())?;
    u32::try_from(attempt).map_err(|_| format!("no attempt is {attempt}"))
}

fn parsed<T: DeserializeOwned>(column: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{column}: {error}"))
}
