//! Rules for scheduler plugins: each has a program and is enabled.

use berth_output::ErrorCode;

use super::Judge;

/// The options of a plugin, to find its section.
const OPTIONS: [&str; 4] = ["program", "time_budget", "on_failure", "weight_multiplier"];

impl Judge<'_> {
    pub(super) fn scheduler_plugins(&mut self) {
        let options = self.config.scheduler_options().filter_scheduler;
        for (plugin, section) in &self.config.scheduler_plugin {
            let named = |key: &str| format!("scheduler_plugin_{plugin}.{key}");
            let mut written = OPTIONS.iter().map(|key| named(key));
            let first = written.find(|name| self.is_set(name));
            let program = named("program");
            if section.program.is_none() && !self.is_broken(&[&program]) {
                let right = format!(
                    "write program = \"/PATH/OF/THE/PROGRAM\" in [scheduler_plugin_{plugin}]"
                );
                let mut problem =
                    self.problem(&program, "program is not set", right, ErrorCode::Missing);
                if let Some(first) = &first {
                    problem.at = self.problem(first, "", "", ErrorCode::Missing).at;
                }
                self.verdict.problems.push(problem);
            }
            let enabled = options
                .enabled_filters
                .iter()
                .chain(&options.weight_classes);
            let is_enabled = enabled.into_iter().any(|name| name == plugin);
            let of_names = [
                "filter_scheduler.enabled_filters",
                "filter_scheduler.weight_classes",
            ];
            if !is_enabled && !self.is_broken(&of_names) {
                let right = format!(
                    "add {plugin:?} to enabled_filters or weight_classes in [filter_scheduler]"
                );
                self.warn(
                    &first.unwrap_or(program),
                    "the plugin is not enabled",
                    right,
                );
            }
        }
    }
}
