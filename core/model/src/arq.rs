//! Accelerator requests (ARQs): one unit of one group of a device profile, on its way to a guest (Cyborg, API 2.0 to 2.3).
//!
//! [`ArqState`] is what a reader may rely on: an [`AttachHandle`] is there in `Bound` and nowhere else. [`ArqPhase`] is the
//! bare word, and [`Transition`] the proof that one word may follow another: who writes a state needs one.

use std::fmt;

use crate::{
    ArqUuid, AttachHandleInfo, AttachHandleUuid, ConsumerUuid, DeviceProfileName, ProviderUuid,
};

/// The seven states by their words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArqPhase {
    /// Made, and for no guest yet.
    Initial,
    /// A guest and a provider are named; a device is being made ready.
    BindStarted,
    /// A handle is taken.
    Bound,
    /// The handle was given back.
    Unbound,
    /// There was no handle to take, or the device could not be made ready.
    BindFailed,
    /// The device could not be given back.
    UnbindFailed,
    /// On its way out.
    Deleting,
}

impl ArqPhase {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Initial,
        Self::BindStarted,
        Self::Bound,
        Self::Unbound,
        Self::BindFailed,
        Self::UnbindFailed,
        Self::Deleting,
    ];

    /// The word of the API.
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

    /// The state of this word; none for a word that no version has.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }

    /// Whether a waiting guest need wait no longer: `bind_state=resolved`.
    #[must_use]
    pub const fn is_resolved(self) -> bool {
        matches!(self, Self::Bound | Self::BindFailed | Self::Deleting)
    }

    /// The step to `next`, if it may follow.
    ///
    /// # Errors
    /// It may not.
    pub fn to(self, next: Self) -> Result<Transition, TransitionRefused> {
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
            Ok(Transition {
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

/// A step that may be taken. Only [`ArqPhase::to`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    from: ArqPhase,
    to: ArqPhase,
}

impl Transition {
    /// The state before.
    #[must_use]
    pub const fn from(self) -> ArqPhase {
        self.from
    }

    /// The state after.
    #[must_use]
    pub const fn to(self) -> ArqPhase {
        self.to
    }
}

/// A step that may not be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an accelerator request that is {from} cannot become {to}")]
pub struct TransitionRefused {
    from: ArqPhase,
    to: ArqPhase,
}

/// Which guest on which host gets a unit of which provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The host, by its node's name.
    pub hostname: String,
    /// The device's provider.
    pub device_rp: ProviderUuid,
    /// The guest.
    pub instance: ConsumerUuid,
}

/// A handle that is this request's alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachHandle {
    /// Its UUID; a mediated device's own.
    pub uuid: AttachHandleUuid,
    /// What and where it is.
    pub info: AttachHandleInfo,
}

/// A request's state with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArqState {
    /// See [`ArqPhase::Initial`].
    Initial,
    /// See [`ArqPhase::BindStarted`].
    BindStarted(Binding),
    /// See [`ArqPhase::Bound`].
    Bound(Binding, AttachHandle),
    /// See [`ArqPhase::Unbound`].
    Unbound,
    /// See [`ArqPhase::BindFailed`].
    BindFailed(Binding),
    /// See [`ArqPhase::UnbindFailed`].
    UnbindFailed(Binding),
    /// See [`ArqPhase::Deleting`].
    Deleting,
}

impl ArqState {
    /// The bare word.
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

    /// The binding, where there is one.
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

    /// The handle, in `Bound` alone.
    #[must_use]
    pub const fn attach_handle(&self) -> Option<&AttachHandle> {
        match self {
            Self::Bound(_, handle) => Some(handle),
            _ => None,
        }
    }
}

/// An accelerator request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arq {
    /// Its UUID.
    pub uuid: ArqUuid,
    /// Its state.
    pub state: ArqState,
    /// The profile it was made from.
    pub device_profile: DeviceProfileName,
    /// The group of that profile, by its place in the list.
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
            assert_eq!(ArqPhase::of_word(phase.as_str()), Some(phase));
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
