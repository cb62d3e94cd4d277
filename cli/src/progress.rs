//! Progress of long work: a bar on a terminal, nothing in a pipe.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows how many of how many consumers' allocations are read for a node.
#[must_use]
pub fn consumers(node: &str) -> Box<dyn Fn(usize, usize) + Send + Sync> {
    if !std::io::stderr().is_terminal() {
        return Box::new(|_, _| {});
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} consumers {eta}");
    let bar = ProgressBar::new(0).with_message(format!("{node}: reading allocations"));
    if let Ok(style) = style {
        bar.set_style(style);
    }
    Box::new(move |read, all| {
        bar.set_length(all as u64);
        bar.set_position(read as u64);
        if read == all {
            bar.finish_and_clear();
        }
    })
}
