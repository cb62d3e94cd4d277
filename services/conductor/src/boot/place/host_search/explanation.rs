//! Records explanations of scheduling decisions. A failure to record one is logged and does not stop the boot.

use berth_hosts::ServerGroupError;
use berth_model::QueryDemand;
use berth_scheduler::select::PlacementStage;
use berth_scheduler::select::{Alternates, ClaimPolicy, NoValidHost, SelectionRequest};
use berth_scheduler_explain::Explanation;

use super::scheduling_query::SchedulingQuery;
use super::{HostSearch, SearchResult};
use crate::boot::{BootError, RequestedBoot};
use crate::filter_scheduler::{FilterScheduler, instance_seed, plain_spec};
use crate::metrics::SearchOutcome;

/// Prefixes that an explanation adds itself.
const NO_VALID_HOST: [&str; 2] = ["No valid host was found: ", "No valid host was found yet: "];

impl RequestedBoot {
    /// Records a search without candidates.
    pub(super) async fn record_no_candidates(
        &self,
        scheduler: &FilterScheduler,
        query: &SchedulingQuery,
        ask: &SelectionRequest,
        causes: &[QueryDemand],
        sentence: &str,
    ) {
        let causes = causes.iter().map(ToString::to_string);
        let placement = PlacementStage::empty(&query.text, causes, sentence);
        let of_request = scheduler.scheduler.asked(ask);
        let explanation = Explanation::of_no_candidates(of_request, placement);
        self.record_explanation(scheduler, explanation).await;
    }

    /// Records an error that ended a search before any host was considered.
    pub(in crate::boot::place) async fn record_failure(
        &self,
        scheduler: &FilterScheduler,
        error: &BootError,
    ) {
        if !is_recorded(error) {
            return;
        }
        let guest = *self.record.request.uuid().as_uuid();
        let request = plain_spec(&self.record.request);
        let ask = SelectionRequest {
            instance_uuids: vec![request.instance_uuid.clone()],
            request,
            alternates: Alternates::None,
            claims: ClaimPolicy::Needed,
            seed: instance_seed(guest) as u64,
        };
        let explanation =
            Explanation::of_failure(scheduler.scheduler.asked(&ask), &failure_text(error));
        self.record_explanation(scheduler, explanation).await;
    }

    /// Records a search that failed during a claim.
    pub(super) async fn record_aborted_search(
        &self,
        search: HostSearch<'_>,
        why: NoValidHost,
        error: BootError,
    ) -> Result<SearchResult, BootError> {
        if !is_recorded(&error) {
            return Err(error);
        }
        let explanation = Explanation::of_no_valid_host(&why, None)
            .with_placement(search.placement)
            .failed(&failure_text(&error));
        self.record_explanation(search.scheduler, explanation).await;
        Ok(SearchResult::NoHost(SearchOutcome::Undecided, error))
    }

    pub(super) async fn record_explanation(
        &self,
        scheduler: &FilterScheduler,
        explanation: Explanation,
    ) {
        let guest = self.record.request.uuid().to_string();
        let record = berth_wire::encode(&explanation);
        let record = String::from_utf8_lossy(&record);
        if let Err(error) = scheduler.hosts.insert_record(&guest, &record).await {
            tracing::warn!(guest, %error, "failed to record the explanation of a scheduling decision");
        }
    }
}

/// Whether an error is a result worth recording. Cancellation and journal errors decide nothing, and a failed
/// database cannot store the record.
fn is_recorded(error: &BootError) -> bool {
    !matches!(
        error,
        BootError::Cancelled
            | BootError::Journal(_)
            | BootError::Hosts(_)
            | BootError::Group(ServerGroupError::Table(_))
    )
}

/// The error without the prefixes that an explanation adds itself.
fn failure_text(error: &BootError) -> String {
    let text = error.to_string();
    let rest = NO_VALID_HOST.iter().find_map(|it| text.strip_prefix(it));
    rest.map_or(text.clone(), ToOwned::to_owned)
}
