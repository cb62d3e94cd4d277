//! Decides by which reset a function is clean between two guests. Pure: facts in, a plan or a refusal out.
//!
//! A reset of the function itself (`flr`, `af_flr`) or by the kernel's code for the device (`device_specific`) ends
//! with a function that has no data of its user. A reset of the bus says only that the function responds again: the
//! memory of many graphics cards survives it. Therefore the class decides which methods suffice, unless the entry of
//! `device_spec` has the tag `reset_clears_memory`.

use crate::device_reset::{ResetMethod, ResetSelection};

/// Base classes of functions with memory that guests fill: display controllers and processing accelerators.
const WITH_MEMORY: [u32; 2] = [0x03, 0x12];

/// Whether a function may be returned if the kernel has no reset for it, or none that clears its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetNeed {
    Always,
    /// It may: something else cleans it.
    WhereOffered,
}

/// What decides how a function is cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleaningFacts<'a> {
    /// Its class code, 24 bits.
    pub class: u32,
    /// The reset methods in the kernel's order; empty if the kernel does not list them, `None` if it has none.
    pub methods: Option<&'a [ResetMethod]>,
    /// The tag `reset_clears_memory`.
    pub reset_clears_memory: Option<bool>,
    pub need: ResetNeed,
}

/// Why no reset makes a function clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCleanable {
    /// The kernel has no method.
    NoMethod,
    /// The kernel has power states alone, which clear no memory.
    PowerStateOnly,
    /// The function has memory, and no offered method is known to clear it.
    MemorySurvives,
}

/// The reset to use; `None`: no reset, because something else cleans the function.
pub fn plan_cleaning(facts: CleaningFacts<'_>) -> Result<Option<ResetSelection>, NotCleanable> {
    let Some(methods) = facts.methods else {
        return match facts.need {
            ResetNeed::Always => Err(NotCleanable::NoMethod),
            ResetNeed::WhereOffered => Ok(None),
        };
    };
    let is_with_memory = WITH_MEMORY.contains(&(facts.class >> 16));
    let any_suffices = facts.reset_clears_memory.unwrap_or(!is_with_memory);
    if methods.is_empty() && any_suffices {
        return Ok(Some(ResetSelection::Kernels));
    }
    let first = |suffices: fn(ResetMethod) -> bool| {
        let at = methods.iter().position(|method| suffices(*method))?;
        Some(match at {
            0 => ResetSelection::Kernels,
            _ => ResetSelection::Only(methods[at]),
        })
    };
    let resets = |method| method != ResetMethod::PowerManagement;
    let found = match any_suffices {
        true => first(resets),
        false => first(ResetMethod::clears_memory),
    };
    match (found, facts.need) {
        (Some(selection), _) => Ok(Some(selection)),
        // The external cleaner then finds the function at least in its state after power-on.
        (None, ResetNeed::WhereOffered) => {
            Ok(Some(first(resets).unwrap_or(ResetSelection::Kernels)))
        }
        (None, ResetNeed::Always) if methods.is_empty() => Err(NotCleanable::MemorySurvives),
        (None, ResetNeed::Always) => Err(match first(resets) {
            Some(_) => NotCleanable::MemorySurvives,
            None => NotCleanable::PowerStateOnly,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResetMethod::{
        Acpi, AdvancedFeatures, Bus, CxlBus, DeviceSpecific, FunctionLevel, PowerManagement,
    };
    use ResetSelection::{Kernels, Only};

    const GPU: u32 = 0x03_0200;
    const ACCELERATOR: u32 = 0x12_0000;
    const NIC: u32 = 0x02_0000;

    fn facts(class: u32, methods: &[ResetMethod]) -> CleaningFacts<'_> {
        CleaningFacts {
            class,
            methods: Some(methods),
            reset_clears_memory: None,
            need: ResetNeed::Always,
        }
    }

    #[test]
    fn a_power_state_is_not_taken_for_a_reset_where_the_bus_can_be_reset() {
        for (offered, planned) in [
            (vec![FunctionLevel, Bus], Ok(Some(Kernels))),
            (
                vec![DeviceSpecific, PowerManagement, Bus],
                Ok(Some(Kernels)),
            ),
            (vec![PowerManagement], Err(NotCleanable::PowerStateOnly)),
            (vec![PowerManagement, Bus], Ok(Some(Only(Bus)))),
            (vec![PowerManagement, CxlBus], Ok(Some(Only(CxlBus)))),
            // Before Linux 5.15 the kernel lists none.
            (vec![], Ok(Some(Kernels))),
        ] {
            assert_eq!(plan_cleaning(facts(NIC, &offered)), planned, "{offered:?}");
        }
    }

    #[test]
    fn a_bus_reset_does_not_clean_the_memory_of_a_gpu_or_an_accelerator() {
        let survives = Err(NotCleanable::MemorySurvives);
        for class in [GPU, 0x03_0000, ACCELERATOR] {
            for (offered, planned) in [
                (vec![FunctionLevel, Bus], Ok(Some(Kernels))),
                (vec![AdvancedFeatures], Ok(Some(Kernels))),
                (vec![DeviceSpecific, Bus], Ok(Some(Kernels))),
                (vec![Acpi, FunctionLevel], Ok(Some(Only(FunctionLevel)))),
                (vec![Bus], survives),
                (vec![Acpi, PowerManagement, CxlBus], survives),
                (vec![], survives),
                (vec![PowerManagement], Err(NotCleanable::PowerStateOnly)),
            ] {
                let plan = plan_cleaning(facts(class, &offered));
                assert_eq!(plan, planned, "{class:06x} {offered:?}");
            }
        }
    }

    #[test]
    fn a_hook_or_the_operators_word_makes_any_reset_suffice() {
        for (offered, planned) in [
            (vec![Bus], Kernels),
            (vec![PowerManagement, Bus], Only(Bus)),
            (vec![Acpi, FunctionLevel], Only(FunctionLevel)),
            (vec![PowerManagement], Kernels),
            (vec![], Kernels),
        ] {
            let with_hook = CleaningFacts {
                need: ResetNeed::WhereOffered,
                ..facts(GPU, &offered)
            };
            assert_eq!(plan_cleaning(with_hook), Ok(Some(planned)), "{offered:?}");
        }
        let without_reset = CleaningFacts {
            methods: None,
            ..facts(GPU, &[])
        };
        assert_eq!(plan_cleaning(without_reset), Err(NotCleanable::NoMethod));
        let cleaned = CleaningFacts {
            need: ResetNeed::WhereOffered,
            ..without_reset
        };
        assert_eq!(plan_cleaning(cleaned), Ok(None));
        let word = |class, methods, word| CleaningFacts {
            reset_clears_memory: Some(word),
            ..facts(class, methods)
        };
        assert_eq!(plan_cleaning(word(GPU, &[Bus], true)), Ok(Some(Kernels)));
        assert_eq!(plan_cleaning(word(GPU, &[], true)), Ok(Some(Kernels)));
        // Its memory survives a change of its power state, whatever else clears it.
        let power = plan_cleaning(word(GPU, &[PowerManagement], true));
        assert_eq!(power, Err(NotCleanable::PowerStateOnly));
        let strict = plan_cleaning(word(NIC, &[Bus], false));
        assert_eq!(strict, Err(NotCleanable::MemorySurvives));
    }
}
