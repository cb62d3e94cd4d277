//! `weight_classes`: the enabled weighers.

use super::range::Range;
use super::{ALL, Multiplier, Weigher};
use crate::custom_plugins::CustomPlugins;
use crate::options::SchedulerOptions;

/// Weighers in the order in which their scores are added up.
#[derive(Clone)]
pub struct Weighers {
    pub(super) weighers: Vec<&'static dyn Weigher>,
    pub(super) multipliers: Vec<Multiplier>,
    pub(super) range: Range,
}

/// `weight_classes` contains an unknown weigher.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "[filter_scheduler] weight_classes: there is no weigher {name}; there are {ALL_WEIGHERS} for all that are built in, and {}",
    ALL.iter().map(|one| one.name()).chain(own.iter().copied()).collect::<Vec<_>>().join(", ")
)]
pub struct WeighersError {
    /// As it was written.
    pub name: String,
    /// Names of the custom weighers.
    pub own: Vec<&'static str>,
}

const MODULES: &str = "nova.scheduler.weights.";
const ALL_WEIGHERS: &str = "nova.scheduler.weights.all_weighers";

impl Weighers {
    /// The weighers that the options name, by Nova's class path or class name. A weigher that is named twice counts
    /// twice.
    pub fn new(options: &SchedulerOptions) -> Result<Self, WeighersError> {
        Self::with_custom_plugins(options, &CustomPlugins::new())
    }

    /// As [`Weighers::new`], where options may also name weighers that are not built in.
    pub fn with_custom_plugins(
        options: &SchedulerOptions,
        own: &CustomPlugins,
    ) -> Result<Self, WeighersError> {
        let mut weighers = Vec::new();
        for name in &options.filter_scheduler.weight_classes {
            match name.as_str() {
                ALL_WEIGHERS | "all_weighers" => weighers.extend(ALL),
                name => weighers.push(named(name, own)?),
            }
        }
        let multipliers = weighers.iter().map(|one| one.multiplier()).collect();
        Ok(Self {
            weighers,
            multipliers,
            range: Range::Bounded,
        })
    }

    /// Uses Nova's arithmetic: infinite and NaN values are kept in multipliers of aggregates and in weights.
    #[must_use]
    pub fn by_novas_arithmetic(mut self) -> Self {
        self.range = Range::AsNova;
        self
    }

    /// Their names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.weighers.iter().map(|one| one.name())
    }
}

fn named(name: &str, own: &CustomPlugins) -> Result<&'static dyn Weigher, WeighersError> {
    let is_it = |one: &&&'static dyn Weigher| {
        name == one.name()
            || name
                .strip_prefix(MODULES)
                .and_then(|rest| rest.strip_prefix(one.module())?.strip_prefix('.'))
                .is_some_and(|class| class == one.name())
    };
    let found = ALL.iter().find(is_it).copied();
    found
        .or_else(|| own.weigher(name))
        .ok_or_else(|| WeighersError {
            name: name.to_owned(),
            own: own.weighers.iter().map(|one| one.name()).collect(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<Vec<&'static str>, WeighersError> {
        let mut options = SchedulerOptions::default();
        options.filter_scheduler.weight_classes = names.iter().map(|it| (*it).to_owned()).collect();
        Weighers::new(&options).map(|all| all.names().collect())
    }

    #[test]
    fn weighers_are_named_by_class_or_by_novas_path() {
        assert_eq!(of(&[ALL_WEIGHERS]).expect("all").len(), 13);
        assert_eq!(of(&["RAMWeigher"]), Ok(vec!["RAMWeigher"]));
        assert_eq!(
            of(&[
                "nova.scheduler.weights.cpu.CPUWeigher",
                "nova.scheduler.weights.affinity.ServerGroupSoftAffinityWeigher",
            ]),
            Ok(vec!["CPUWeigher", "ServerGroupSoftAffinityWeigher"])
        );
        assert_eq!(of(&[]), Ok(vec![]));
        for name in [
            "nova.scheduler.weights.ram.CPUWeigher",
            "our.weights.ram.RAMWeigher",
            "ramweigher",
            "",
        ] {
            let error = of(&["CPUWeigher", name]).expect_err(name).to_string();
            assert!(error.contains(&format!("no weigher {name};")), "{error}");
            assert!(error.contains("RAMWeigher"), "{error}");
        }
    }
}
