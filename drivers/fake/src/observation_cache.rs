//! A cache of the last observation, so that an unchanged text is not parsed again: a machine of a thousand guests takes
//! as long to parse as the rest of the start.

use std::sync::Arc;

use berth_virt::HostView;

use crate::machine::{Faults, Machine};
use crate::watch::Stamp;

/// A parsed machine, in the form that the driver needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MachineView {
    pub(crate) view: HostView,
    pub(crate) faults: Faults,
}

impl From<&Machine> for MachineView {
    fn from(machine: &Machine) -> Self {
        Self {
            view: machine.view(),
            faults: machine.faults(),
        }
    }
}

/// Additional content of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheContent {
    /// The text, because the stamp is so recent that the next state may have the same stamp.
    Text,
    /// Nothing: the stamp identifies the state.
    Nothing,
}

/// An observation with the stamp at which it was read.
#[derive(Debug)]
pub(crate) struct ObservationCache {
    stamp: Stamp,
    /// The text, if the stamp does not identify the state.
    text: Option<String>,
    machine: Arc<MachineView>,
}

impl ObservationCache {
    /// The cached observation, if it certainly belongs to this stamp.
    pub(crate) fn at(&self, stamp: &Stamp) -> Option<&Arc<MachineView>> {
        (self.text.is_none() && self.stamp == *stamp).then_some(&self.machine)
    }

    /// Uses `before` if its text is the same; parses the text if not.
    pub(crate) fn of<E>(
        before: Option<Self>,
        stamp: Stamp,
        text: String,
        keep: CacheContent,
        parse: impl FnOnce(&str) -> Result<MachineView, E>,
    ) -> Result<Self, E> {
        let machine = match before {
            Some(before) if before.text.as_ref() == Some(&text) => before.machine,
            _ => Arc::new(parse(&text)?),
        };
        Ok(Self {
            stamp,
            text: (keep == CacheContent::Text).then_some(text),
            machine,
        })
    }

    pub(crate) fn machine_view(&self) -> &Arc<MachineView> {
        &self.machine
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;
    use crate::machines;

    #[test]
    fn a_text_is_read_once_however_new_it_is() {
        let (name, text) = machines()[0];
        let read = Cell::new(0);
        let observe = |before, text: &str, keep| {
            ObservationCache::of(before, Stamp::File(None), text.to_owned(), keep, |text| {
                read.set(read.get() + 1);
                Ok::<_, Infallible>(MachineView::from(&Machine::from_text(name, text).unwrap()))
            })
            .unwrap()
        };
        let first = observe(None, text, CacheContent::Text);
        assert_eq!(first.at(&Stamp::File(None)), None);
        let second = observe(Some(first), text, CacheContent::Nothing);
        assert_eq!(read.get(), 1);
        assert!(second.at(&Stamp::File(None)).is_some());
        assert_eq!(second.at(&Stamp::Text(1)), None);
        let edited = text.replace("disk = 7000", "disk = 60");
        let third = observe(Some(second), &edited, CacheContent::Text);
        assert_eq!(read.get(), 2);
        let seen = Arc::clone(third.machine_view());
        assert_ne!(
            *observe(Some(third), text, CacheContent::Text).machine_view(),
            seen
        );
        assert_eq!(read.get(), 3);
    }
}
