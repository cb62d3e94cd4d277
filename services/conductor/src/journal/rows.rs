//! From rows to records.

use std::collections::BTreeMap;

use berth_store::{Row, SqlError};
use serde::de::DeserializeOwned;

use super::{
    BootRecord, BootStep, GuestRecords, StepDetail, StepRecord, StepState, UnreadableGuest,
};
use crate::BootRequest;

/// `uuid, request, config_drive, course, attempt, failures` and, by guest, `guest, attempt, step, state, detail`, of the file that is
/// at this path.
pub(super) fn records(path: &str, guests: &[Row], steps: &[Row]) -> Result<GuestRecords, SqlError> {
    let mut by_guest: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in steps {
        by_guest.entry(row.text(0)?).or_default().push(row);
    }
    let mut records = GuestRecords::default();
    for row in guests {
        let guest = row.text(0)?;
        let steps = by_guest.remove(&guest).unwrap_or_default();
        let read = record(&guest, row, &steps)?;
        records.push(read.map_err(|reason| UnreadableGuest {
            path: path.to_owned(),
            guest,
            reason,
        }));
    }
    Ok(records)
}

fn record(guest: &str, row: &Row, steps: &[&Row]) -> Result<Result<BootRecord, String>, SqlError> {
    let (request, drive, course) = (row.text(1)?, row.opt_text(2)?, row.text(3)?);
    let (attempt, failures) = (row.int(4)?, row.text(5)?);
    let mut plain = Vec::with_capacity(steps.len());
    for step in steps {
        plain.push((step.int(1)?, step.text(2)?, step.text(3)?, step.text(4)?));
    }
    let read = || {
        let request = BootRequest::of_journal(&request, drive.as_deref())?;
        if request.uuid().to_string() != guest {
            return Err(format!("its request is that of {}", request.uuid()));
        }
        let steps = plain.iter().map(|(attempt, step, state, detail)| {
            let known = BootStep::of_word(step).zip(StepState::of_word(state));
            let (step, state) = known.ok_or_else(|| format!("no step is {step} {state}"))?;
            let detail = StepDetail::of_text(detail)?;
            Ok(((number(*attempt)?, step), StepRecord { state, detail }))
        });
        Ok(BootRecord {
            request,
            course: parsed("course", &course)?,
            attempt: number(attempt)?,
            failures: parsed("failures", &failures)?,
            steps: steps.collect::<Result<_, String>>()?,
        })
    };
    Ok(read())
}

fn number(attempt: i64) -> Result<u32, String> {
    u32::try_from(attempt).map_err(|_| format!("no attempt is {attempt}"))
}

fn parsed<T: DeserializeOwned>(column: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{column}: {error}"))
}
