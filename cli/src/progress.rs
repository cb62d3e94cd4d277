//! Progress of long work: a bar on a terminal, nothing in a pipe.

use std::io::IsTerminal as _;
use std::time::Duration;

use berth_wire::guest::ImageComing;
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

/// How often a bar moves while nothing is told.
const TICK: Duration = Duration::from_millis(100);

/// A guest's boot: its step, and its image while that comes.
pub struct Boot {
    bar: ProgressBar,
}

impl Boot {
    /// Shows it on a terminal, and nothing anywhere else.
    #[must_use]
    pub fn shown(is_terminal: bool) -> Self {
        let bar = match is_terminal {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// It is so now.
    pub fn is(&self, message: String, image: Option<&ImageComing>) {
        self.bar.set_message(message);
        let total = image.and_then(|image| image.total);
        let template = match (image, total) {
            (None, _) => "{spinner} {msg}",
            (Some(_), None) => "{spinner} {msg}: {prefix} {bytes}",
            (Some(_), Some(_)) => "{msg}: {prefix} {wide_bar} {bytes}/{total_bytes} {eta}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        if let Some(image) = image {
            self.bar.set_prefix(match image.stage.as_str() {
                "fetch" => "its image comes".to_owned(),
                "convert" => "its image is made flat".to_owned(),
                stage => format!("its image: {stage}"),
            });
            if let Some(total) = total {
                self.bar.set_length(total);
            }
            self.bar.set_position(image.bytes);
        }
    }

    /// It is over: the line is free again.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
