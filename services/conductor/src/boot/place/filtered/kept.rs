//! Why a guest goes where it goes, or nowhere, is kept. That it could not be kept stops no guest.

use berth_hosts::ServerGroupError;
use berth_model::Demand;
use berth_scheduler::explain::{Explanation, PlacementStage};
use berth_scheduler::select::{Alternates, Ask, Claims, NoValidHost};

use super::question::Asked;
use super::{Ended, Search};
use crate::boot::{BootError, Requested};
use crate::destinations::{FilterScheduler, plain_spec, throw};
use crate::metrics::SearchOutcome;

/// The words that an explanation begins with itself.
const NO_VALID_HOST: [&str; 2] = ["No valid host was found: ", "No valid host was found yet: "];

impl Requested {
    /// Keeps why no filter was even asked.
    pub(super) async fn keep_none(
        &self,
        scheduler: &FilterScheduler,
        asked: &Asked,
        ask: &Ask,
        causes: &[Demand],
        sentence: &str,
    ) {
        let causes = causes.iter().map(ToString::to_string);
        let placement = PlacementStage::empty(&asked.text, causes, sentence);
        let of_request = scheduler.scheduler.asked(ask);
        let explanation = Explanation::of_no_candidates(of_request, placement);
        self.keep(scheduler, explanation).await;
    }

    /// Keeps why a search ended before there was anything to choose from.
    pub(in crate::boot::place) async fn keep_error(
        &self,
        scheduler: &FilterScheduler,
        error: &BootError,
    ) {
        if !is_kept(error) {
            return;
        }
        let guest = *self.record.request.uuid().as_uuid();
        let request = plain_spec(&self.record);
        let ask = Ask {
            instance_uuids: vec![request.instance_uuid.clone()],
            request,
            alternates: Alternates::None,
            claims: Claims::Needed,
            seed: throw(guest) as u64,
        };
        let explanation = Explanation::of_failure(scheduler.scheduler.asked(&ask), &told(error));
        self.keep(scheduler, explanation).await;
    }

    /// A search that an error ended while a host was claimed: how far it came is kept with it.
    pub(super) async fn given_up(
        &self,
        search: Search<'_>,
        why: NoValidHost,
        error: BootError,
    ) -> Result<Ended, BootError> {
        if !is_kept(&error) {
            return Err(error);
        }
        let explanation = Explanation::of_no_valid_host(&why, None)
            .with_placement(search.placement)
            .failed(&told(&error));
        self.keep(search.scheduler, explanation).await;
        Ok(Ended::Without(SearchOutcome::Undecided, error))
    }

    pub(super) async fn keep(&self, scheduler: &FilterScheduler, explanation: Explanation) {
        let guest = self.record.request.uuid().to_string();
        let record = berth_wire::encode(&explanation);
        let record = String::from_utf8_lossy(&record);
        if let Err(error) = scheduler.hosts.put_record(&guest, &record).await {
            tracing::warn!(guest, %error, "why a guest goes where it goes cannot be kept");
        }
    }
}

/// Whether an error is the end of a search that somebody may ask about. Not where the guest is called off, or the journal fails, which
/// decides nothing; nor where the database fails that the record would go to.
fn is_kept(error: &BootError) -> bool {
    !matches!(
        error,
        BootError::Cancelled
            | BootError::Journal(_)
            | BootError::Hosts(_)
            | BootError::Group(ServerGroupError::Table(_))
    )
}

fn told(error: &BootError) -> String {
    let text = error.to_string();
    let rest = NO_VALID_HOST.iter().find_map(|it| text.strip_prefix(it));
    rest.map_or(text.clone(), ToOwned::to_owned)
}
