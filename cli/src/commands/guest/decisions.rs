//! Why a guest went where it went, as its conductor kept it. Caller: `berth scheduler explain --request`.

use berth_compose::AgentAt;
use berth_config::Config;
use berth_output::{ErrorCode, Failure};
use berth_wire::conductor::DecisionShown;

use super::clients::{GuestClients, failed};

/// The decisions that are still kept for a guest, by its UUID or name, the oldest first; one at least.
///
/// Errors: The conductor does not answer, there is no guest of this name, or no decision is kept for it.
pub(crate) async fn decisions_of(
    guest: &str,
    config: &Config,
) -> Result<Vec<DecisionShown>, Failure> {
    let clients = GuestClients::new(config, &AgentAt::default())?;
    let uuid = clients.guest(guest).await?;
    let decisions = clients.conductor.scheduling(uuid).await;
    let decisions = decisions.map_err(|error| failed(&error))?;
    if decisions.is_empty() {
        let what = format!("no decision of the scheduler is kept for guest {guest}");
        return Err(Failure::new(ErrorCode::Refused, what)
            .mend("it may not have been asked for here, or too long ago; berth guest list names the guests there are"));
    }
    Ok(decisions)
}
