//! What Placement said before any filter was asked. A caller that asks Placement fills it in: the scheduler does not.

use serde::{Deserialize, Serialize};

use crate::text::shortened;

/// So many demands are kept.
const DEMANDS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacementStage {
    /// The query string of `GET /allocation_candidates`, without the question mark.
    pub query: String,
    /// Candidates that were found.
    pub candidates: usize,
    /// How many were asked for at most; none, or 0: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Where there are none: demands of the query, each of which alone stands in the way; forty at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Where there are none: why, in a sentence.
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

    /// There are none. `causes` are the demands without any one of which there would be some.
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

    /// Where so many candidates were asked for at most; 0: all.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self {
            limit: (limit > 0).then_some(limit),
            ..self
        }
    }

    /// Where there were as many as were asked for, so that there may be others that nobody looked at: that, in a sentence.
    #[must_use]
    pub fn cut(&self) -> Option<String> {
        let limit = self.limit.filter(|it| (1..=self.candidates).contains(it))?;
        Some(format!(
            "Placement was asked for {limit} candidates at most and gave as many: others may fit"
        ))
    }
}
