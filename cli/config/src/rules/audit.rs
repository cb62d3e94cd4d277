//! Rules for `[audit]`.

use berth_output::ErrorCode;

use super::Judge;

impl Judge<'_> {
    /// Whether the log was written is unknown, so only the file can be required.
    pub(super) fn audit(&mut self) {
        let (file, required) = ("audit.file", "audit.required");
        let audit = &self.config.audit;
        if audit.required && audit.file.is_none() && !self.is_broken(&[file, required]) {
            self.refuse(
                required,
                "records can be required in a file only",
                "write file = \"/var/log/berth/audit.log\" in [audit]",
                ErrorCode::Missing,
            );
        }
    }
}
