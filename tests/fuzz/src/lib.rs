//! Properties of the built-in Placement for any input: nothing panics, a refusal has a reason, an accepted claim fits,
//! and a value that is read and written again is the same. Also of the scheduler: a request is refused, or a host is
//! rejected, with a reason.
//!
//! The fuzzer (`main.rs`) calls these with generated inputs; its corpus is in `corpus/`, a folder for each target. An
//! input begins with a byte for the microversion (and one for the list or the method, if there are several); the rest
//! is text.

mod policies;
mod queries;
mod requests;
mod writes;

use berth_http::{Fault, Microversion};
use berth_placement::fuzzing;

/// What is looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Query strings of GET /allocation_candidates.
    Candidates,
    /// Query strings of the lists.
    Lists,
    /// Bodies of PUT and POST of allocations.
    Allocations,
    /// Bodies of POST /reshaper.
    Reshapes,
    Policies,
    /// Requests to the scheduler.
    Requests,
}

impl Target {
    pub const ALL: [Self; 6] = [
        Self::Candidates,
        Self::Lists,
        Self::Allocations,
        Self::Reshapes,
        Self::Policies,
        Self::Requests,
    ];

    /// Its name, and that of its corpus.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Candidates => "candidates",
            Self::Lists => "lists",
            Self::Allocations => "allocations",
            Self::Reshapes => "reshapes",
            Self::Policies => "policies",
            Self::Requests => "requests",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Tries one input.
    ///
    /// # Panics
    /// Something does not hold.
    pub fn try_on(self, data: &[u8]) {
        match self {
            Self::Candidates => queries::candidates(data),
            Self::Lists => queries::list(data),
            Self::Allocations => writes::allocations(data),
            Self::Reshapes => writes::reshape(data),
            Self::Policies => policies::file(data),
            Self::Requests => requests::request(data),
        }
    }
}

/// The microversion that the first byte stands for, and the rest.
fn versioned(data: &[u8]) -> Option<(Microversion, &[u8])> {
    let (minor, rest) = data.split_first()?;
    // `0` is 1.0, `W` is 1.39: so an input can be read.
    Some((
        fuzzing::version(u16::from(minor.wrapping_sub(b'0')) % 40),
        rest,
    ))
}

/// A refusal is the caller's fault, and says what it is.
fn refused(fault: &Fault) {
    assert_eq!(fault.status().as_u16(), 400, "{fault:?}");
    assert!(!fault.message().is_empty(), "{fault:?}");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_input_of_the_corpus_satisfies_its_target() {
        for target in Target::ALL {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
            let inputs = fs::read_dir(folder.join(target.name())).expect("a corpus");
            let mut tried = 0;
            for input in inputs {
                let path = input.expect("an input").path();
                target.try_on(&fs::read(&path).expect("its bytes"));
                tried += 1;
            }
            assert!(tried > 0, "{} has no input", target.name());
        }
    }
}
