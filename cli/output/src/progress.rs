//! Progress of long work: a bar on a terminal, nothing in a pipe.

use std::io::IsTerminal as _;
use std::time::Duration;

use berth_wire::guest::ImageComing;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress callback: how many of how many consumers' allocations were read for a node.
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

/// Waits for `time`, and shows the reason and the remaining time on a terminal.
pub async fn waiting(why: &str, time: Duration) {
    if time.is_zero() {
        return;
    }
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(time.as_secs()),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} s") {
        bar.set_style(style);
    }
    bar.set_message(why.to_owned());
    let end = tokio::time::Instant::now() + time;
    while let Some(left) = end.checked_duration_since(tokio::time::Instant::now()) {
        bar.set_position(time.saturating_sub(left).as_secs());
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
    }
    bar.finish_and_clear();
}

/// How often a spinner moves while no progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// The progress of an action on a guest: its current step, and the download of its image.
pub struct GuestProgress {
    bar: ProgressBar,
}

impl GuestProgress {
    /// Shows progress on a terminal, and nothing elsewhere.
    #[must_use]
    pub fn shown(is_terminal: bool) -> Self {
        let bar = match is_terminal {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Whether nothing is displayed.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Shows progress on the given target; tests read from it.
    #[must_use]
    pub fn on(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        Self { bar }
    }

    /// Draws at once; tests do not wait for the next tick.
    pub fn redraw(&self) {
        self.bar.force_draw();
    }

    /// Sets the current step.
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
                "fetch" => "downloading its image".to_owned(),
                "convert" => "flattening its image".to_owned(),
                stage => format!("its image: {stage}"),
            });
            if let Some(total) = total {
                self.bar.set_length(total);
            }
            self.bar.set_position(image.bytes);
        }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    fn coming(stage: &str, bytes: u64, total: Option<u64>) -> ImageComing {
        let stage = stage.to_owned();
        ImageComing {
            stage,
            bytes,
            total,
        }
    }

    #[test]
    fn a_boot_shows_its_step_and_how_much_of_its_image_is_there() {
        const MIB: u64 = 1 << 20;
        let terminal = InMemoryTerm::new(4, 100);
        let boot = GuestProgress::on(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        let shown = |image: Option<ImageComing>| {
            boot.is("building vm1".to_owned(), image.as_ref());
            boot.bar.force_draw();
            terminal.contents()
        };
        let step = shown(None);
        assert!(step.ends_with("building vm1"), "{step}");
        let unsized_yet = shown(Some(coming("fetch", 3 * MIB, None)));
        assert!(
            unsized_yet.contains("downloading its image 3.00 MiB"),
            "{unsized_yet}"
        );
        let half = shown(Some(coming("fetch", 256 * MIB, Some(512 * MIB))));
        assert!(half.contains("256.00 MiB/512.00 MiB"), "{half}");
        let filled = |bar: &str| bar.matches('█').count();
        let most = shown(Some(coming("fetch", 480 * MIB, Some(512 * MIB))));
        assert!(
            filled(&most) > filled(&half) && filled(&half) > 5,
            "{half}\n{most}"
        );
        let flat = shown(Some(coming("convert", 0, Some(512 * MIB))));
        assert!(flat.contains("flattening its image"), "{flat}");
        assert_eq!(filled(&flat), 0, "{flat}");
        boot.end();
        assert_eq!(terminal.contents(), "", "the line is free again");
    }

    #[test]
    fn nothing_is_shown_without_a_terminal() {
        assert!(GuestProgress::shown(false).is_hidden());
    }
}
