//! The journal and the services that a boot goes through.

use std::sync::Arc;

use berth_client::{AcceleratorClient, PlacementClient};
use berth_model::ConsumerUuid;

use crate::conductor::ConductorOptions;
use crate::journal::{BootJournal, BootStep, JournalError, StepDetail, StepRecord, StepState};
use crate::{Agents, Scheduler};

pub(crate) struct Way {
    pub(crate) journal: Arc<dyn BootJournal>,
    pub(crate) placement: PlacementClient,
    pub(crate) accelerators: AcceleratorClient,
    pub(crate) agents: Arc<dyn Agents>,
    pub(crate) scheduler: Arc<dyn Scheduler>,
    pub(crate) options: ConductorOptions,
}

impl Way {
    pub(crate) async fn note(
        &self,
        (guest, attempt): (ConsumerUuid, u32),
        step: BootStep,
        state: StepState,
        detail: StepDetail,
    ) -> Result<(), JournalError> {
        let record = StepRecord { state, detail };
        self.journal.note(guest, attempt, step, &record).await
    }
}
