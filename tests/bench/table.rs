//! The page of results: sections of rows with the peer's figure, Berth's figure, the quotient, the goal, and whether it
//! is met.

use std::fmt::{self, Write as _};

use crate::machine::Machine;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Figure {
    /// Wall or CPU time.
    Ms(f64),
    /// The same, where it is very little.
    Us(f64),
    /// Memory or a file's size.
    Mib(f64),
    Count(f64),
}

impl Figure {
    fn value(self) -> f64 {
        match self {
            Figure::Ms(value) | Figure::Us(value) | Figure::Mib(value) | Figure::Count(value) => {
                value
            }
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.value() {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            _ => 2,
        };
        match self {
            Figure::Ms(value) => write!(f, "{value:.digits$} ms"),
            Figure::Us(value) => write!(f, "{value:.digits$} µs"),
            Figure::Mib(value) => write!(f, "{value:.1} MiB"),
            Figure::Count(value) if value.fract() == 0.0 => write!(f, "{value:.0}"),
            Figure::Count(value) => write!(f, "{value:.2}"),
        }
    }
}

/// What is wanted of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// At most this much.
    AtMost(Figure),
    /// At most the peer's figure divided by this.
    PartOfPeer(f64),
    /// At most the peer's figure times this.
    TimesPeer(f64),
}

/// A line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) what: String,
    /// What the peer takes, where it was there.
    pub(crate) peer: Option<Figure>,
    pub(crate) ours: Figure,
    /// What we want to take at most, where there is a goal.
    pub(crate) goal: Option<Goal>,
}

impl Row {
    fn verdict(&self) -> &'static str {
        let most = match (self.goal, self.peer) {
            (None, _) => return "",
            (Some(Goal::AtMost(most)), _) => most.value(),
            (Some(Goal::PartOfPeer(part)), Some(peer)) => peer.value() / part,
            (Some(Goal::TimesPeer(times)), Some(peer)) => peer.value() * times,
            (Some(Goal::PartOfPeer(_) | Goal::TimesPeer(_)), None) => return "no peer here",
        };
        if self.ours.value() <= most {
            "met"
        } else {
            "**missed**"
        }
    }

    fn share(&self) -> String {
        match self.peer.map(Figure::value) {
            Some(peer) if peer > self.ours.value() && self.ours.value() > 0.0 => {
                format!("1/{:.0}", peer / self.ours.value())
            }
            Some(peer) if peer > 0.0 => format!("{:.1}", self.ours.value() / peer),
            _ => String::new(),
        }
    }

    fn line(&self) -> String {
        let peer = self
            .peer
            .map_or_else(|| "-".to_owned(), |peer| peer.to_string());
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::AtMost(most)) => format!("≤ {most}"),
            Some(Goal::PartOfPeer(part)) => format!("≤ 1/{part}"),
            Some(Goal::TimesPeer(times)) => format!("≤ {times} ×"),
        };
        let share = self.share();
        let (what, ours, verdict) = (&self.what, self.ours, self.verdict());
        format!("| {what} | {peer} | {ours} | {share} | {goal} | {verdict} |")
    }
}

/// Rows that belong together.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// Who the peer is and how it was measured, in a sentence or two.
    pub(crate) note: &'static str,
    pub(crate) rows: Vec<Row>,
}

pub(crate) fn page(machine: &Machine, sections: &[Section]) -> String {
    let mut page = format!(
        "# Bench, {}\n\nWritten by `make bench`; do not edit.\n\n{}\n",
        machine.date,
        machine.sentence()
    );
    for section in sections {
        // Writing to a String cannot fail, here and below.
        let _ = write!(page, "\n## {}\n\n{}\n\n", section.title, section.note);
        page.push_str(
            "| what | peer | Berth | share | goal | |\n| --- | ---: | ---: | ---: | ---: | --- |\n",
        );
        for row in &section.rows {
            let _ = writeln!(page, "{}", row.line());
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(peer: Option<f64>, ours: f64, goal: Goal) -> Row {
        Row {
            what: "tick".to_owned(),
            peer: peer.map(Figure::Ms),
            ours: Figure::Ms(ours),
            goal: Some(goal),
        }
    }

    #[test]
    fn a_part_of_the_peer_is_judged_by_the_peer_of_the_same_run() {
        let goal = Goal::PartOfPeer(200.0);
        assert_eq!(row(Some(8600.0), 43.0, goal).verdict(), "met");
        assert_eq!(row(Some(8600.0), 43.1, goal).verdict(), "**missed**");
        assert_eq!(row(None, 43.0, goal).verdict(), "no peer here");
        let goal = Goal::TimesPeer(1.2);
        assert_eq!(row(Some(10.0), 12.0, goal).verdict(), "met");
        assert_eq!(row(Some(10.0), 12.1, goal).verdict(), "**missed**");
    }

    #[test]
    fn a_line_contains_the_complete_row() {
        let goal = Goal::AtMost(Figure::Ms(2.0));
        let line = row(Some(882.0), 1.5, goal).line();
        assert_eq!(
            line,
            "| tick | 882 ms | 1.50 ms | 1/588 | ≤ 2.00 ms | met |"
        );
    }
}
