//! The marks of ports that this service creates: descriptions that name the attempt of a boot, or the action. Pure.

use berth_wire::guest::ActionId;
use berth_wire::neutron::PortRecord;

/// The description of a port that a boot creates. With the device, which is the guest, it names the port before its UUID
/// is known.
pub(crate) fn mark(attempt: u32, index: usize) -> String {
    format!("{}{index}", mark_of_attempt(attempt))
}

/// The description of a port that an action creates for a guest of this attempt.
#[must_use]
pub(crate) fn mark_of_action(attempt: u32, id: &ActionId) -> String {
    format!("{}{id}", mark_of_attempt(attempt))
}

/// The beginning of the marks of an attempt.
pub(crate) fn mark_of_attempt(attempt: u32) -> String {
    format!("{MARK}{attempt}, interface ")
}

/// The beginning of all marks.
const MARK: &str = "Created by Berth, attempt ";

/// Whether this service created the port for a guest.
pub(crate) fn is_marked(port: &PortRecord) -> bool {
    port.description.starts_with(MARK)
}
