//! Accelerator requests (ARQs): one unit of one group of a device profile, to be bound to an instance (Cyborg, API 2.0 to 2.3).
//!
//! ```text
//! Initial -> BindStarted -> Bound -> Unbound -> Deleting
//!                 |           |
//!             BindFailed  UnbindFailed
//! ```
//!
//! An unbound ARQ can be bound again. The test of this module has the complete table of transitions.
//!
//! [`ArqState`] carries the data of each state: only `Bound` has an
//! [`AttachHandle`]. [`ArqPhase`] is the state without data. A [`ArqTransition`] is the proof that one phase may follow another; a writer
//! needs one to change the state.

use std::fmt;

use crate::{
    ArqUuid, AttachHandleInfo, AttachHandleUuid, ConsumerUuid, DeviceProfileName, ProviderUuid,
};

/// The state of an ARQ without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArqPhase {
    /// Created, and not yet for an instance.
    Initial,
    /// Instance and provider are known; the device is being prepared.
    BindStarted,
    /// It has an attach handle.
    Bound,
    /// The attach handle was released.
    Unbound,
    /// No attach handle was free, or the device could not be prepared.
    BindFailed,
    /// The device could not be released.
    UnbindFailed,
    /// The ARQ is being deleted; no other phase follows.
    Deleting,
}

impl ArqPhase {
    /// All seven phases, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Initial,
        Self::BindStarted,
        Self::Bound,
        Self::Unbound,
        Self::BindFailed,
        Self::UnbindFailed,
        Self::Deleting,
    ];

    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "Initial",
            Self::BindStarted => "BindStarted",
            Self::Bound => "Bound",
            Self::Unbound => "Unbound",
            Self::BindFailed => "BindFailed",
            Self::UnbindFailed => "UnbindFailed",
            Self::Deleting => "Deleting",
        }
    }

    /// The phase with this name in the API.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }

    /// Whether nothing more will happen for a waiting instance, as in `bind_state=resolved`: bound, failed, or being deleted.
    #[must_use]
    pub const fn is_resolved(self) -> bool {
        matches!(self, Self::Bound | Self::BindFailed | Self::Deleting)
    }

    /// The transition to `next`. Fails if `next` may not follow this phase.
    pub fn to(self, next: Self) -> Result<ArqTransition, TransitionRefused> {
        use ArqPhase::{BindFailed, BindStarted, Bound, Deleting, Initial, UnbindFailed, Unbound};
        let may = match next {
            Initial => false,
            BindStarted => matches!(self, Initial | Unbound),
            Bound => matches!(self, BindStarted),
            Unbound => matches!(
                self,
                Initial | BindStarted | Bound | BindFailed | UnbindFailed
            ),
            BindFailed => matches!(self, BindStarted | Bound),
            UnbindFailed => matches!(self, Bound),
            Deleting => !matches!(self, UnbindFailed | Deleting),
        };
        if may {
            Ok(ArqTransition {
                from: self,
                to: next,
            })
        } else {
            Err(TransitionRefused {
                from: self,
                to: next,
            })
        }
    }
}

impl fmt::Display for ArqPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An allowed change of the phase. Only [`ArqPhase::to`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArqTransition {
    from: ArqPhase,
    to: ArqPhase,
}

impl ArqTransition {
    /// The phase that the ARQ leaves.
    #[must_use]
    pub const fn from(self) -> ArqPhase {
        self.from
    }

    /// The phase that the ARQ enters.
    #[must_use]
    pub const fn to(self) -> ArqPhase {
        self.to
    }
}

/// The phase may not change like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an accelerator request that is {from} cannot become {to}")]
pub struct TransitionRefused {
    from: ArqPhase,
    to: ArqPhase,
}

/// The instance, host and provider that an ARQ is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The host, by the name of its node.
    pub hostname: String,
    /// The resource provider of the device, from the instance's allocation.
    pub device_rp: ProviderUuid,
    /// The instance that the ARQ is bound to.
    pub instance: ConsumerUuid,
}

/// The attach handle of a bound ARQ. No other ARQ has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachHandle {
    /// UUID of the handle. For a mediated device, it is the UUID of the device.
    pub uuid: AttachHandleUuid,
    /// Type and address of the device, as the hypervisor needs them.
    pub info: AttachHandleInfo,
}

/// The state of an ARQ with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArqState {
    /// Created and not yet bound, as [`ArqPhase::Initial`].
    Initial,
    /// The device for this binding is being prepared, as [`ArqPhase::BindStarted`].
    BindStarted(Binding),
    /// Bound to an instance with this handle, as [`ArqPhase::Bound`].
    Bound(Binding, AttachHandle),
    /// Unbound after it was bound, as [`ArqPhase::Unbound`].
    Unbound,
    /// This binding failed and must be undone, as [`ArqPhase::BindFailed`].
    BindFailed(Binding),
    /// Unbinding failed and must be repeated, as [`ArqPhase::UnbindFailed`].
    UnbindFailed(Binding),
    /// The row is being deleted, as [`ArqPhase::Deleting`].
    Deleting,
}

impl ArqState {
    /// The state without its data.
    #[must_use]
    pub const fn phase(&self) -> ArqPhase {
        match self {
            Self::Initial => ArqPhase::Initial,
            Self::BindStarted(_) => ArqPhase::BindStarted,
            Self::Bound(..) => ArqPhase::Bound,
            Self::Unbound => ArqPhase::Unbound,
            Self::BindFailed(_) => ArqPhase::BindFailed,
            Self::UnbindFailed(_) => ArqPhase::UnbindFailed,
            Self::Deleting => ArqPhase::Deleting,
        }
    }

    /// The binding, if the state has one.
    #[must_use]
    pub const fn binding(&self) -> Option<&Binding> {
        match self {
            Self::BindStarted(binding)
            | Self::Bound(binding, _)
            | Self::BindFailed(binding)
            | Self::UnbindFailed(binding) => Some(binding),
            Self::Initial | Self::Unbound | Self::Deleting => None,
        }
    }

    /// The attach handle; only `Bound` has one.
    #[must_use]
    pub const fn attach_handle(&self) -> Option<&AttachHandle> {
        match self {
            Self::Bound(_, handle) => Some(handle),
            _ => None,
        }
    }
}

/// An accelerator request (ARQ): one unit of one group of a device profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arq {
    /// UUID of the ARQ.
    pub uuid: ArqUuid,
    /// Its state, with the binding and handle that belong to it.
    pub state: ArqState,
    /// The device profile that the request was made from.
    pub device_profile: DeviceProfileName,
    /// The group of the profile, by its index.
    pub group_id: u32,
    /// The project it belongs to.
    pub project_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: from; columns: to, in the order of `ALL`.
    const TABLE: [&str; 7] = [
        ".B.U..D", // Initial
        "..BUF.D", // BindStarted
        "...UFXD", // Bound
        ".B....D", // Unbound
        "...U..D", // BindFailed
        "...U...", // UnbindFailed
        ".......", // Deleting
    ];

    #[test]
    fn exactly_the_steps_of_the_table_may_be_taken() {
        for (from, row) in ArqPhase::ALL.into_iter().zip(TABLE) {
            for (to, cell) in ArqPhase::ALL.into_iter().zip(row.chars()) {
                let step = from.to(to);
                assert_eq!(step.is_ok(), cell != '.', "{from} to {to}");
                if let Ok(step) = step {
                    assert_eq!((step.from(), step.to()), (from, to));
                }
            }
        }
    }

    #[test]
    fn words_are_read_back_and_three_states_are_resolved() {
        for phase in ArqPhase::ALL {
            assert_eq!(ArqPhase::from_name(phase.as_str()), Some(phase));
        }
        let resolved: Vec<_> = ArqPhase::ALL
            .into_iter()
            .filter(|phase| phase.is_resolved())
            .map(ArqPhase::as_str)
            .collect();
        assert_eq!(resolved, ["Bound", "BindFailed", "Deleting"]);
        let refused = ArqPhase::Bound.to(ArqPhase::BindStarted).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "an accelerator request that is Bound cannot become BindStarted"
        );
    }
}
