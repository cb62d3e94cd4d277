//! The power state of a guest: the observed one and the desired one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// The power state of a guest as its hypervisor reports it.
///
/// Its texts (`shut off`) are those of the agent's API. Its serde form (`shut_off`) is that of the driver protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum PowerState {
    /// Started, and its CPUs run.
    Running,
    /// Its CPUs are stopped, by Berth or by the hypervisor (for example because a disk is full).
    Paused,
    /// Defined and switched off.
    #[strum(serialize = "shut off")]
    ShutOff,
    /// It failed and still holds its resources.
    Crashed,
}

impl PowerState {
    /// Nova's number of the state (`OS-EXT-STS:power_state`).
    #[must_use]
    pub const fn nova_number(self) -> u8 {
        match self {
            Self::Running => 1,
            Self::Paused => 3,
            Self::ShutOff => 4,
            Self::Crashed => 6,
        }
    }
}

impl From<DesiredPower> for PowerState {
    fn from(desired: DesiredPower) -> Self {
        match desired {
            DesiredPower::Running => Self::Running,
            DesiredPower::Paused => Self::Paused,
            DesiredPower::ShutOff => Self::ShutOff,
        }
    }
}

/// The power state that a guest should have. It is a separate type because a caller cannot request a crash.
///
/// The agent's API and its journal store it in the same words.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Display,
    EnumString,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "GuestPower", description = "Whether a guest should run.")]
pub enum DesiredPower {
    #[default]
    #[expect(missing_docs, reason = "the API's schema has no text for it")]
    Running,
    /// Started, with its CPUs stopped.
    Paused,
    /// Defined but not running.
    ShutOff,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_states_are_those_of_the_agents_api() {
        for (state, text) in [
            (PowerState::Running, "running"),
            (PowerState::Paused, "paused"),
            (PowerState::ShutOff, "shut off"),
            (PowerState::Crashed, "crashed"),
        ] {
            assert_eq!(state.to_string(), text);
            assert_eq!(text.parse(), Ok(state));
        }
        assert_eq!(DesiredPower::ShutOff.to_string(), "shut_off");
    }
}
