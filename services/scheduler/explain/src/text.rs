//! Explanations as text.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use super::{
    Claims, Diagnosis, Explanation, FilterRelaxation, Nearest, RejectedBy, RequestOutcome,
    ScoredHost, SearchRecord, WhyNone,
};
use berth_scheduler::select::PlacementStage;
use berth_scheduler_objects::request::Hints;
use berth_scheduler_objects::text::all_printable;

/// The minimum width of a column of names.
const NAME: usize = 24;

/// From the outcome to its causes, without a trailing newline. User-supplied text stays on its line, without control
/// characters.
impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match all_printable(self) {
            None => self.describe(f),
            Some(plain) => plain.describe(f),
        }
    }
}

impl Explanation {
    fn describe(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.outcome(f)?;
        self.asked(f)?;
        if let Some(placement) = &self.placement {
            write!(f, "\n\n{placement}")?;
        }
        for search in &self.searches {
            if self.asked.instances > 1 {
                write!(f, "\n\nInstance {}", search.instance_uuid)?;
            }
            write!(f, "\n\n{search}")?;
        }
        if self.more_searches > 0 {
            let more = counted(self.more_searches, "more instance");
            write!(f, "\n\nand {more}")?;
        }
        if let Some(diagnosis) = &self.diagnosis {
            write!(f, "\n\n{diagnosis}")?;
        }
        Ok(())
    }

    fn outcome(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            RequestOutcome::Selected { instances, more } => {
                for (at, one) in instances.iter().enumerate() {
                    let line = if at > 0 { "\n" } else { "" };
                    write!(f, "{line}{} was selected", on(&one.host, &one.node))?;
                    if !one.cell.is_empty() {
                        write!(f, " in {}", one.cell)?;
                    }
                    if self.asked.instances > 1 {
                        write!(f, " for {}", one.instance_uuid)?;
                    }
                    match one.alternates.as_slice() {
                        [] => write!(f, ", without alternates")?,
                        some => write!(f, ", with the alternates {}", some.join(", "))?,
                    }
                }
                match more {
                    0 => write!(f, "."),
                    more => write!(f, "\nand so for {}.", counted(*more, "more instance")),
                }
            }
            RequestOutcome::Failed { text } => {
                write!(f, "No host was chosen: {}.", text.trim_end_matches('.'))
            }
            RequestOutcome::NoValidHost { why, instance, .. } => {
                write!(f, "No valid host was found")?;
                if self.asked.instances > 1 {
                    write!(
                        f,
                        " for instance {} of {}",
                        instance + 1,
                        self.asked.instances
                    )?;
                }
                write!(f, ": {why}.")?;
                match self.placement.as_ref().and_then(PlacementStage::cut) {
                    None => Ok(()),
                    Some(cut) => write!(f, " {cut}."),
                }
            }
        }
    }

    fn asked(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let asked = &self.asked;
        let flavor = &asked.flavor;
        let cpus = counted(asked.vcpus, "CPU");
        let (memory, disk) = (asked.memory_mb, asked.disk_gb);
        write!(
            f,
            "\nAsked for: {flavor} ({cpus}, {memory} MiB, {disk} GiB)"
        )?;
        if let Some(zone) = &asked.availability_zone {
            write!(f, " in the zone {zone}")?;
        }
        if let Some(project) = &asked.project_id {
            write!(f, " by the project {project}")?;
        }
        for hint in &asked.unread_hints {
            write!(
                f,
                "\nThe hint {hint} does nothing: no enabled filter reads it"
            )?;
            if let Some(filter) = Hints::reader(hint) {
                write!(f, " ({filter} would)")?;
            }
        }
        for failed in &asked.failed_plugins {
            write!(f, "\n{failed}")?;
        }
        Ok(())
    }
}

impl Display for WhyNone {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCandidates => "Placement has no candidate",
            Self::NoHosts => "there is no host to check",
            Self::NoneAtDestination => "no host is what the request is for",
            Self::AllRejected => "every host was rejected",
            Self::NoneClaimed => "Placement granted no claim",
            Self::GivenUp => "a claim could not be decided",
        })
    }
}

impl Display for SearchRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Hosts: {}", self.hosts)?;
        if !self.left_out.is_empty() {
            write!(f, ", {}", self.left_out)?;
        }
        let named = self.at_destination + self.left_out.hosts;
        let not = self.hosts.saturating_sub(named);
        if not > 0 {
            write!(f, ", {not} of which are not what the request is for")?;
        }
        if !self.filters.is_empty() {
            let width = widest(self.filters.iter().map(|one| &*one.filter));
            write!(f, "\n\n  {:width$}  {:>7}  {:>7}", "FILTER", "IN", "OUT")?;
            for one in &self.filters {
                write!(
                    f,
                    "\n  {:width$}  {:>7}  {:>7}",
                    one.filter, one.before, one.after
                )?;
            }
        }
        if !self.rejected.is_empty() {
            write!(f, "\n\nRejected:")?;
        }
        for rejected in &self.rejected {
            write!(f, "\n{rejected}")?;
        }
        self.order(f)?;
        write!(f, "{}", self.claims)?;
        match &self.not_counted {
            None => Ok(()),
            Some(reason) => write!(f, "\n\nNot counted on the host: {}", reason.text),
        }
    }
}

impl SearchRecord {
    fn order(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.best.is_empty() {
            return Ok(());
        }
        match self.left {
            1 => write!(f, "\n\nThe only host that is left:")?,
            left => write!(f, "\n\nThe best of {left} hosts that are left:")?,
        }
        for (at, one) in self.best.iter().enumerate() {
            write!(f, "\n  {:>2}. {one}", at + 1)?;
        }
        for one in &self.pivotal {
            write!(
                f,
                "\n\n{} decides: without it {} would be the best.",
                one.weigher, one.host
            )?;
        }
        Ok(())
    }
}

impl Display for RejectedBy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let hosts = counted(self.hosts, "host");
        write!(f, "  {}: {hosts}, {}", self.filter, self.code)?;
        for one in &self.named {
            write!(f, "\n    {}: {}", on(&one.host, &one.node), one.reason.text)?;
        }
        match self.hosts - self.named.len().min(self.hosts) {
            0 => Ok(()),
            more => write!(f, "\n    and {more} more"),
        }
    }
}

impl Display for ScoredHost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", on(&self.host, &self.node), plain(self.weight))?;
        if self.scores.is_empty() {
            return write!(f, " (alone, so it was not weighed)");
        }
        for one in self.scores.iter().filter(|one| one.score != 0.0) {
            let (raw, norm) = (plain(one.raw), plain(one.norm));
            let (times, score) = (plain(one.multiplier), plain(one.score));
            write!(
                f,
                "\n        {:NAME$} {raw:>12} -> {norm:>5} x {times:>8} = {score}",
                one.weigher
            )?;
        }
        Ok(())
    }
}

impl Display for Claims {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.tried.is_empty() {
            return Ok(());
        }
        write!(f, "\n\nClaims:")?;
        for one in &self.tried {
            let done = if one.granted { "granted" } else { "refused" };
            write!(
                f,
                "\n  {} by its candidate {}: {done}",
                one.host, one.candidate
            )?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more, which were refused"),
        }
    }
}

impl Display for Diagnosis {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "What rejects hosts (every filter, applied to {}):",
            match self.hosts {
                1 => "the only host".to_owned(),
                hosts => format!("each of {hosts} hosts"),
            }
        )?;
        let width = widest(self.filters.iter().map(|one| &*one.filter));
        for one in &self.filters {
            write!(
                f,
                "\n  {:width$} rejects {:>7}, and {} alone",
                one.filter, one.rejects, one.alone
            )?;
        }
        if self.passing > 0 {
            let verb = if self.passing == 1 { "passes" } else { "pass" };
            let hosts = counted(self.passing, "host");
            write!(f, "\n  {hosts} {verb} all filters, and cannot be weighed")?;
        }
        for one in &self.relaxations {
            write!(f, "\n{one}")?;
        }
        if self.more_relaxations > 0 {
            let sets = counted(self.more_relaxations, "more set");
            write!(f, "\nand {sets} of as many filters")?;
        }
        match &self.nearest {
            None => Ok(()),
            Some(nearest) => write!(
                f,
                "\nLeaving out three filters is not enough. Nearest: {nearest}"
            ),
        }
    }
}

impl Display for FilterRelaxation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = listed(&self.without);
        let hosts = counted(self.hosts, "host");
        write!(
            f,
            "Without {names} {hosts} would do. Nearest: {}",
            self.nearest
        )
    }
}

impl Display for Nearest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.host)?;
        for one in &self.verdicts {
            let why = one.reason.as_ref().map(|reason| reason.text.as_str());
            let why = why.unwrap_or("it leaves no candidate that the others let pass");
            write!(f, "\n  {}: {why}", one.filter)?;
        }
        Ok(())
    }
}

/// A host, with its node if that has another name.
fn on<'a>(host: &'a str, node: &str) -> Cow<'a, str> {
    match node.is_empty() || node == host {
        true => host.into(),
        false => format!("{host} (node {node})").into(),
    }
}

/// `1 host`, `2 hosts`.
fn counted<N: Display + PartialEq + From<u8>>(many: N, one: &str) -> String {
    let plural = if many == N::from(1) { "" } else { "s" };
    format!("{many} {one}{plural}")
}

/// Letters of a column for these names.
fn widest<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(str::len).fold(NAME, usize::max)
}

/// `A`, `A and B`, `A, B and C`.
fn listed(names: &[Cow<'static, str>]) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// Whole numbers without a decimal point, others with three decimals.
fn plain(number: f64) -> String {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        true => format!("{number:.0}"),
        false => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_is_counted_in_the_singular() {
        for (candidates, reason) in [
            (0, "Placement: 0 candidates for q"),
            (1, "Placement: 1 candidate for q"),
            (2, "Placement: 2 candidates for q"),
        ] {
            assert_eq!(PlacementStage::found("q", candidates).to_string(), reason);
        }
        assert_eq!(counted(1_i64, "CPU"), "1 CPU");
        assert_eq!(counted(4_i64, "CPU"), "4 CPUs");
    }
}
