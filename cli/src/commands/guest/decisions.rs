//! Reads the scheduling decisions that the conductor recorded for a guest. Used by `berth scheduler explain --request`.

use berth_compose::AgentAt;
use berth_config::Config;
use berth_output::{ErrorCode, Failure};
use berth_wire::conductor::DecisionShown;

use super::clients::{GuestClients, failed};

/// The recorded decisions for a guest, by its UUID or name, oldest first; at least one.
///
/// Errors: the conductor does not answer, the guest is unknown, or no decision is recorded.
pub(crate) async fn decisions_of(
    guest: &str,
    config: &Config,
) -> Result<Vec<DecisionShown>, Failure> {
    let clients = GuestClients::new(config, &AgentAt::default())?;
    let uuid = clients.guest(guest).await?;
    let decisions = clients.conductor.scheduling(uuid).await;
    let decisions = decisions.map_err(|error| failed(&error))?;
    if decisions.is_empty() {
        let what = format!("no scheduling decision is recorded for guest {guest}");
        return Err(Failure::new(ErrorCode::Refused, what).hint(
            "it may have been created elsewhere or too long ago; berth guest list shows all guests",
        ));
    }
    Ok(decisions)
}
