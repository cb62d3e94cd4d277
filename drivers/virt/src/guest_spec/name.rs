//! Names, ids and paths: texts that are valid both in a hypervisor's XML and in the host's file system.

use super::text::checked_text;

/// Whether XML 1.0 can contain the character and a line can display it. Markup characters are allowed,
/// because they are escaped.
fn is_plain(character: char) -> bool {
    !character.is_control()
        // Line and paragraph separators break lines, and the last two are not characters.
        && !matches!(character, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

fn is_line(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && text.chars().all(is_plain) && text.trim() == text
}

checked_text!(
    /// A guest's name on the hypervisor. libvirt uses it in file names (`NAME.xml.new`, `NAME.log`), so it is a file
    /// name of at most 240 bytes: printable characters except `/`.
    GuestName,
    "name",
    "1 to 240 bytes of printable characters without / are a guest's name, with no blanks at its ends, and not . or ..",
    |text| is_line(text, 240) && !text.contains('/') && text != "." && text != ".."
);

checked_text!(
    /// A project id of the identity service.
    ProjectId,
    "owner.project",
    "1 to 255 bytes of printable characters, with no blanks at the ends, are a project's id",
    |text| is_line(text, 255)
);

checked_text!(
    /// A name or id that is shown to users.
    Label,
    "description",
    "1 to 1020 bytes of printable characters, with no blanks at the ends, are expected",
    |text| is_line(text, 1020)
);

checked_text!(
    /// A file on the host: absolute, without `.` and `..` and without control characters.
    HostPath,
    "path",
    "an absolute path without . and .. parts, of at most 4095 bytes of printable characters, is expected",
    |text| {
        is_line(text, 4095)
            && text.len() > 1
            && text.strip_prefix('/').is_some_and(|rest| {
                rest.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
            })
    }
);

checked_text!(
    /// A kernel's command line. It is visible in the hypervisor's XML, so it must not contain secrets.
    KernelCommandLine,
    "boot.command_line",
    "at most 2047 bytes of printable characters, with no blanks at the ends, are a kernel's command line",
    |text| text.is_empty() || is_line(text, 2047)
);

impl HostPath {
    /// As a file system path.
    #[must_use]
    pub fn as_path(&self) -> &std::path::Path {
        std::path::Path::new(self.as_str())
    }
}
