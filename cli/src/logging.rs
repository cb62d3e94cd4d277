//! Starts logging: to the journal under systemd, else to standard error, as text or JSON.

mod causes;

use std::io::{self, Write};
use std::os::fd::AsFd;

use berth_model::printable;
use berth_output::escape::EscapingWriter;
use berth_output::{ErrorCode, Failure, colour};
use nix::sys::stat::fstat;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use causes::WithCauses;

pub use tracing_subscriber::filter::LevelFilter;

/// The log options every subcommand takes.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Log")]
pub struct LogArguments {
    /// The lowest level that is logged; RUST_LOG sets it for each module.
    #[arg(long, value_name = "LEVEL", global = true, value_parser = ["error", "warn", "info", "debug", "trace"])]
    pub log_level: Option<String>,
    /// The log format; auto is the journal under systemd, else text.
    #[arg(
        long,
        value_name = "FORMAT",
        global = true,
        value_enum,
        default_value_t
    )]
    pub log_format: LogFormat,
}

/// The formats of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// The journal when standard error is connected to it, else text.
    #[default]
    Auto,
    /// Text lines on standard error.
    Text,
    /// One JSON object per line on standard error.
    Json,
    /// The systemd journal, with fields.
    Journald,
}

/// Starts logging. A second start in one process (tests) changes nothing.
///
/// Errors: `RUST_LOG` is not readable, or the journal was requested and does not exist.
pub fn start(log: &LogArguments, default: LevelFilter) -> Result<(), Failure> {
    let filter = filter(log, default, std::env::var("RUST_LOG").ok().as_deref())?;
    // Fails only when a subscriber is already in place.
    let _ = Registry::default()
        .with(WithCauses(layer(log.log_format)?).with_filter(filter))
        .try_init();
    Ok(())
}

/// `--log-level` wins over `RUST_LOG`, which wins over the command's default.
fn filter(
    log: &LogArguments,
    default: LevelFilter,
    rust_log: Option<&str>,
) -> Result<EnvFilter, Failure> {
    let text = match (&log.log_level, rust_log) {
        (Some(level), _) => level.clone(),
        (None, Some(text)) if !text.is_empty() => text.to_owned(),
        _ => default.to_string(),
    };
    EnvFilter::try_new(text).map_err(|error| {
        Failure::caused(ErrorCode::Usage, "RUST_LOG is not understood", &error).hint(
            "write a level such as info, or module=level pairs such as berth_agent=debug,info",
        )
    })
}

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

fn layer(format: LogFormat) -> Result<BoxedLayer, Failure> {
    let lines = || lines(io::stderr, colour::is_on());
    Ok(match format {
        LogFormat::Text => lines(),
        LogFormat::Json => json(io::stderr),
        LogFormat::Journald => journal().map_err(|error| {
            Failure::caused(
                ErrorCode::Unavailable,
                "the journal does not answer",
                &error,
            )
        })?,
        LogFormat::Auto
            if is_journal(
                io::stderr(),
                std::env::var("JOURNAL_STREAM").ok().as_deref(),
            ) =>
        {
            journal().unwrap_or_else(|_| lines())
        }
        LogFormat::Auto => lines(),
    })
}

/// One line per event; values from other parties are printed without control characters.
fn lines<M>(out: M, colour: bool) -> BoxedLayer
where
    M: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let fields = debug_fn(|line, field, value| {
        let value = format!("{value:?}");
        match field.name() {
            // The message of a pass has several lines; none of them begins like a line of the log.
            "message" => {
                let lines: Vec<_> = value.split('\n').map(printable).collect();
                write!(line, "{}", lines.join("\n    "))
            }
            // The source location of a line of the crate `log`.
            name if name.starts_with("log.") => Ok(()),
            name => write!(line, "{name}={}", printable(&value)),
        }
    });
    fmt::layer()
        .fmt_fields(fields.delimited(" "))
        .with_writer(out)
        .with_ansi(colour)
        .boxed()
}

/// The JSON formatter with all control characters escaped; its own escapes leave some.
fn json<W: Write + 'static>(out: impl Fn() -> W + Send + Sync + 'static) -> BoxedLayer {
    let out = move || EscapingWriter::new(out(), |byte| byte == b'\n');
    fmt::layer().json().with_writer(out).boxed()
}

fn journal() -> io::Result<BoxedLayer> {
    Ok(tracing_journald::layer()?.boxed())
}

/// Whether this is the stream that systemd names in `JOURNAL_STREAM` (`DEVICE:INODE`), and not a pipe in its place.
fn is_journal(stream: impl AsFd, named: Option<&str>) -> bool {
    let Some((device, inode)) = named.and_then(|text| text.split_once(':')) else {
        return false;
    };
    fstat(stream)
        .is_ok_and(|stat| stat.st_dev.to_string() == device && stat.st_ino.to_string() == inode)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn the_option_wins_over_the_variable_and_the_variable_over_the_default() {
        let log = |level: Option<&str>| LogArguments {
            log_level: level.map(str::to_owned),
            ..LogArguments::default()
        };
        let shown = |level, variable| {
            filter(&log(level), LevelFilter::WARN, variable)
                .unwrap()
                .to_string()
        };
        assert_eq!(shown(Some("debug"), Some("error")), "debug");
        assert_eq!(shown(None, Some("berth_agent=trace")), "berth_agent=trace");
        assert_eq!(shown(None, Some("")), "warn");
        assert_eq!(shown(None, None), "warn");
    }

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_others_wrote() {
        let evil = "no host\n2026 ERROR forged\u{1b}[2J\0\u{9b}1m";
        for (has_colour, is_json) in [(false, false), (true, false), (false, true)] {
            let kept = Kept::default();
            let out = kept.clone();
            let writer = move || out.clone();
            let layer = match is_json {
                true => json(writer),
                false => lines(writer, has_colour),
            };
            tracing::subscriber::with_default(Registry::default().with(layer), || {
                tracing::warn!(reason = %evil, name = evil, "a boot is rolled back");
            });
            let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
            let line = text.strip_suffix('\n').unwrap();
            assert!(line.contains("a boot is rolled back"), "{text:?}");
            assert!(
                !line.contains(|it: char| it.is_control() && !(has_colour && it == '\u{1b}')),
                "{text:?}"
            );
            assert!(!line.contains("\u{1b}[2J"), "{text:?}");
            assert!(line.contains("no host\\n2026 ERROR forged"), "{text:?}");
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the database of tokens failed")]
    struct Failed(#[source] io::Error);

    #[test]
    fn an_error_is_logged_with_all_that_lies_beneath_it() {
        let failed = Failed(io::Error::other("the disk is full"));
        for is_json in [false, true] {
            let kept = Kept::default();
            let out = kept.clone();
            let writer = move || out.clone();
            let layer = WithCauses(match is_json {
                true => json(writer),
                false => lines(writer, false),
            });
            tracing::subscriber::with_default(Registry::default().with(layer), || {
                let error = &failed as &dyn std::error::Error;
                tracing::error!(error, hint = "make room", tries = 3, "no token made");
                tracing::warn!(error = "plain", "another");
            });
            let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            let wanted = match is_json {
                false => [
                    "no token made error=the database of tokens failed: the disk is full hint=\"make room\" tries=3",
                    "another error=\"plain\"",
                ],
                true => [
                    "{\"message\":\"no token made\",\"error\":\"the database of tokens failed: the disk is full\",\"hint\":\"make room\",\"tries\":3}",
                    "{\"message\":\"another\",\"error\":\"plain\"}",
                ],
            };
            for (line, wanted) in lines.iter().zip(wanted) {
                assert!(line.contains(wanted), "{line}");
            }
            assert_eq!(lines.len(), 2);
        }
    }

    #[test]
    fn an_unreadable_variable_is_a_usage_error() {
        let failure =
            filter(&LogArguments::default(), LevelFilter::WARN, Some("a=b=c")).unwrap_err();
        assert_eq!(failure.code(), ErrorCode::Usage);
    }

    #[test]
    fn only_the_stream_systemd_named_is_the_journal() {
        let file = tempfile::tempfile().unwrap();
        let stat = fstat(&file).unwrap();
        let named = format!("{}:{}", stat.st_dev, stat.st_ino);
        assert!(is_journal(&file, Some(&named)));
        assert!(!is_journal(&file, Some("8:1")));
        assert!(!is_journal(&file, Some("")));
        assert!(!is_journal(&file, None));
    }
}
