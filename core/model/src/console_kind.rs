//! The kinds of consoles of a guest: [`ConsoleKind`].

use std::fmt;
use std::str::FromStr;

/// A console that a user can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsoleKind {
    /// The screen, by the VNC protocol (RFB).
    Vnc,
    /// The first serial port, byte by byte.
    Serial,
}

impl ConsoleKind {
    /// Nova's word for the protocol.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vnc => "vnc",
            Self::Serial => "serial",
        }
    }
}

/// A text is not the name of a kind of console.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected vnc or serial")]
pub struct UnknownConsoleKind;

impl FromStr for ConsoleKind {
    type Err = UnknownConsoleKind;

    fn from_str(text: &str) -> Result<Self, UnknownConsoleKind> {
        match text {
            "vnc" => Ok(Self::Vnc),
            "serial" => Ok(Self::Serial),
            _ => Err(UnknownConsoleKind),
        }
    }
}

impl fmt::Display for ConsoleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
