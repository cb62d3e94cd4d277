//! From rows to records.

use std::collections::BTreeMap;

use berth_model::ConsumerUuid;
use berth_store::{Row, SqlError};
use berth_virt::guest_spec::DesiredPower;
use serde::de::DeserializeOwned;

use crate::record::{GuestRecord, SpawnStep, StepRecord, StepState};
use crate::request::GuestRequest;

/// Rows that make no record.
pub(super) struct Unreadable {
    pub(super) guest: String,
    pub(super) reason: String,
}

/// `uuid, request, course, power, devices, life` and, by guest, `guest, step, state, detail`.
pub(super) fn records(
    guests: &[Row],
    steps: &[Row],
) -> Result<Result<Vec<GuestRecord>, Unreadable>, SqlError> {
    let mut by_guest: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in steps {
        by_guest.entry(row.text(0)?).or_default().push(row);
    }
    let mut records = Vec::with_capacity(guests.len());
    for row in guests {
        let guest = row.text(0)?;
        let steps = by_guest.remove(&guest).unwrap_or_default();
        match record(&guest, row, &steps)? {
            Ok(record) => records.push(record),
            Err(reason) => return Ok(Err(Unreadable { guest, reason })),
        }
    }
    Ok(Ok(records))
}

fn record(guest: &str, row: &Row, steps: &[&Row]) -> Result<Result<GuestRecord, String>, SqlError> {
    let (request, course, power) = (row.text(1)?, row.text(2)?, row.text(3)?);
    let (devices, life) = (row.opt_text(4)?, row.opt_text(5)?);
    let mut by_step = BTreeMap::new();
    for step in steps {
        let (word, state, detail) = (step.text(1)?, step.text(2)?, step.text(3)?);
        let (Some(step), Some(state)) = (SpawnStep::of_word(&word), StepState::of_word(&state))
        else {
            return Ok(Err(format!("no step is {word} {state}")));
        };
        by_step.insert(step, StepRecord { state, detail });
    }
    let read = || {
        let request: GuestRequest = parsed("request", &request)?;
        let asked: ConsumerUuid = request.uuid();
        if asked.to_string() != guest {
            return Err(format!("its request is that of {asked}"));
        }
        Ok(GuestRecord {
            request,
            course: parsed("course", &course)?,
            power: power_of_word(&power).ok_or_else(|| format!("no power state is {power:?}"))?,
            steps: by_step,
            devices: devices.map(|text| parsed("devices", &text)).transpose()?,
            life: life
                .map(|text| parsed("life", &text))
                .transpose()?
                .unwrap_or_default(),
        })
    };
    Ok(read())
}

fn parsed<T: DeserializeOwned>(column: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{column}: {error}"))
}

/// The word in the journal.
pub(super) const fn power_word(power: DesiredPower) -> &'static str {
    match power {
        DesiredPower::Running => "running",
        DesiredPower::Paused => "paused",
        DesiredPower::ShutOff => "shut_off",
    }
}

fn power_of_word(word: &str) -> Option<DesiredPower> {
    [
        DesiredPower::Running,
        DesiredPower::Paused,
        DesiredPower::ShutOff,
    ]
    .into_iter()
    .find(|power| power_word(*power) == word)
}
