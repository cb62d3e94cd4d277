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

#[cfg(test)]
mod tests {
    use crate::{ConfigDocument, resolve};

    #[test]
    fn records_are_required_in_a_file_only() {
        let of = |text: &str| {
            let document = ConfigDocument {
                name: "berth.toml".to_owned(),
                text: text.to_owned(),
            };
            resolve(&[document], &[])
        };
        let required = "[audit]\nrequired = true\n";
        let refused = of(required).unwrap_err().to_string();
        assert!(refused.contains("audit.required"), "{refused}");
        let named = format!("{required}file = \"/var/log/berth/audit.log\"\n");
        let audit = of(&named).unwrap().config.audit;
        assert!(audit.required && !audit.reads);
    }
}
