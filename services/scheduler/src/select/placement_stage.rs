//! Placement's answer before any filter ran. The caller that queried Placement provides it.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::text::shortened;

/// The maximum number of recorded demands.
const DEMANDS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacementStage {
    /// The query string of `GET /allocation_candidates`, without the question mark.
    pub query: String,
    /// Candidates that were found.
    pub candidates: usize,
    /// The limit of the query; none or 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Without candidates: demands of the query, each of which alone rules out every candidate; at most forty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Without candidates: why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl PlacementStage {
    #[must_use]
    pub fn found(query: &str, candidates: usize) -> Self {
        Self {
            query: shortened(query).into_owned(),
            candidates,
            ..Self::default()
        }
    }

    /// Placement returned no candidates. Without any single one of the constraints in `causes` it would return some.
    #[must_use]
    pub fn empty(query: &str, causes: impl IntoIterator<Item = String>, why: &str) -> Self {
        let causes = causes.into_iter().take(DEMANDS);
        Self {
            query: shortened(query).into_owned(),
            candidates: 0,
            causes: causes.map(|it| shortened(&it).into_owned()).collect(),
            why: Some(shortened(why).into_owned()),
            ..Self::default()
        }
    }

    /// Sets the limit of the query; 0: no limit.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self {
            limit: (limit > 0).then_some(limit),
            ..self
        }
    }

    /// A sentence for the case that the answer was truncated, so that there may be candidates that were not considered.
    #[must_use]
    pub fn cut(&self) -> Option<String> {
        let limit = self.limit.filter(|it| (1..=self.candidates).contains(it))?;
        Some(format!(
            "Placement was asked for {limit} candidates at most and gave as many: others may fit"
        ))
    }
}

impl Display for PlacementStage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plural = if self.candidates == 1 { "" } else { "s" };
        write!(f, "Placement: {} candidate{plural}", self.candidates)?;
        if self.cut().is_some() {
            write!(f, ", as many as were asked for at most,")?;
        }
        if !self.query.is_empty() {
            write!(f, " for {}", self.query)?;
        }
        if let Some(why) = &self.why {
            write!(f, "\n  {why}")?;
        }
        for cause in &self.causes {
            write!(f, "\n  there would be some without {cause}")?;
        }
        Ok(())
    }
}
