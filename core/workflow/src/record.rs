//! [`JournalRecord`]: what a journal records of a guest, and how its rows are read.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use berth_model::ConsumerUuid;
use berth_store::{Row, SqlError, Value};
use serde::de::DeserializeOwned;

use crate::JournalSchema;

/// State of a step. A step without a row was never begun.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum StepState {
    /// It may have acted, completely or in part.
    Begun,
    Done,
    /// It is being undone.
    Undoing,
    /// No effect of it is left.
    Undone,
}

/// State of a step, and the data that is needed to resume or undo it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord<D = String> {
    pub state: StepState,
    pub detail: D,
}

impl<D: Default> From<StepState> for StepRecord<D> {
    fn from(state: StepState) -> Self {
        let detail = D::default();
        Self { state, detail }
    }
}

/// The data of a step as text.
pub trait StepDetail: Sized + Send + Sync {
    fn to_text(&self) -> String;

    /// Errors: why the text is invalid.
    fn from_text(text: String) -> Result<Self, String>;
}

impl StepDetail for String {
    fn to_text(&self) -> String {
        self.clone()
    }

    fn from_text(text: String) -> Result<Self, String> {
        Ok(text)
    }
}

/// All that a journal records of a guest: a row of `guest`, and its rows of `step`.
///
/// `guest` has at least the columns `uuid` and `request`. `step` has `guest`, the columns that identify a step of the guest,
/// `state` and `detail`.
pub trait JournalRecord: Sized + Send + Sync + 'static {
    const SCHEMA: JournalSchema;

    /// Columns of `guest` that [`Self::from_row`] reads.
    const COLUMNS: &'static [&'static str];

    /// SQL condition of guests whose deletion was requested.
    const DELETING: &'static str;

    /// Identifies a step of a guest.
    type Step: Ord + Send + Sync;

    /// Columns of `step` that identify a step.
    const STEP_COLUMNS: &'static [&'static str];

    type Detail: StepDetail;

    /// Values of [`Self::STEP_COLUMNS`].
    fn step_values(step: &Self::Step) -> Vec<Value>;

    /// Reads [`Self::STEP_COLUMNS`].
    fn read_step(row: &RecordRow<'_>) -> Result<Self::Step, String>;

    /// Reads [`Self::COLUMNS`]. Errors: why they do not form a valid record.
    fn from_row(
        row: &RecordRow<'_>,
        steps: BTreeMap<Self::Step, StepRecord<Self::Detail>>,
    ) -> Result<Self, String>;

    fn uuid(&self) -> ConsumerUuid;
}

/// A row with named columns. Errors are texts that name the column.
pub struct RecordRow<'a> {
    pub(crate) row: &'a Row,
    pub(crate) columns: &'a [&'static str],
}

impl RecordRow<'_> {
    pub fn text(&self, column: &str) -> Result<String, String> {
        self.read(column, Row::text)
    }

    pub fn opt_text(&self, column: &str) -> Result<Option<String>, String> {
        self.read(column, Row::opt_text)
    }

    pub fn number(&self, column: &str) -> Result<u32, String> {
        let number = self.read(column, Row::int)?;
        u32::try_from(number).map_err(|_| format!("{column}: {number} is not a valid number"))
    }

    /// A word of an enumeration.
    pub fn word<T: FromStr>(&self, column: &str) -> Result<T, String> {
        let word = self.text(column)?;
        let value = word.parse();
        value.map_err(|_| format!("{column}: {word:?} is not a known word"))
    }

    pub fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, String> {
        from_json(column, &self.text(column)?)
    }

    pub fn opt_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, String> {
        let text = self.opt_text(column)?;
        text.map(|text| from_json(column, &text)).transpose()
    }

    fn read<T>(
        &self,
        column: &str,
        value: fn(&Row, usize) -> Result<T, SqlError>,
    ) -> Result<T, String> {
        let reason = |error: &dyn fmt::Display| format!("{column}: {error}");
        let place = self.columns.iter().position(|name| *name == column);
        let place = place.ok_or_else(|| reason(&"the query does not read this column"))?;
        value(self.row, place).map_err(|error| reason(&error))
    }
}

fn from_json<T: DeserializeOwned>(column: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{column}: {error}"))
}
