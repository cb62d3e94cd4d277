//! Validation of [`AuthOptions`]: reports everything missing or contradictory by option name.

use std::fmt;

use super::{AuthOptions, AuthType};

/// Options that cannot work together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct OptionsError {
    /// Every problem found, in the order of [`AuthOptions`].
    pub problems: Vec<OptionProblem>,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", problem.option, problem.sentence)?;
        }
        Ok(())
    }
}

/// One problem with one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionProblem {
    pub option: &'static str,
    /// What is wrong and what would be right.
    pub sentence: String,
}

struct OptionsCheck<'a> {
    options: &'a AuthOptions,
    problems: Vec<OptionProblem>,
}

impl AuthOptions {
    /// Validates the options without accessing files or the network.
    pub fn check(&self) -> Result<(), OptionsError> {
        let mut check = OptionsCheck {
            options: self,
            problems: Vec::new(),
        };
        check.all();
        if check.problems.is_empty() {
            Ok(())
        } else {
            Err(OptionsError {
                problems: check.problems,
            })
        }
    }
}

impl OptionsCheck<'_> {
    fn wrong(&mut self, option: &'static str, sentence: impl Into<String>) {
        self.problems.push(OptionProblem {
            option,
            sentence: sentence.into(),
        });
    }

    fn all(&mut self) {
        let options = self.options;
        match options.auth_type {
            None => {
                let names = AuthType::NAMES.join(", ");
                self.wrong(
                    "auth_type",
                    format!("is not set; it must be one of {names}"),
                );
            }
            Some(AuthType::Password) => {
                self.keystone();
                self.user("auth_type password");
                self.need("password", options.password.is_some(), "auth_type password");
                self.scope(RequiredOption::Yes);
            }
            Some(AuthType::ApplicationCredential) => {
                self.keystone();
                self.application_credential();
            }
            Some(AuthType::Token) => {
                self.keystone();
                self.need("token", options.token.is_some(), "auth_type v3token");
                self.scope(RequiredOption::No);
            }
            Some(AuthType::AdminToken) => {
                self.need("token", options.token.is_some(), "auth_type admin_token");
                self.need(
                    "endpoint_override",
                    options.fixed_endpoint().is_some(),
                    "auth_type admin_token",
                );
            }
            Some(AuthType::None) => {
                self.need(
                    "endpoint_override",
                    options.fixed_endpoint().is_some(),
                    "auth_type none",
                );
            }
        }
        self.header("token");
        self.url("endpoint_override", options.endpoint_override.as_deref());
        self.url("endpoint", options.endpoint.as_deref());
        self.transport();
    }

    fn need(&mut self, option: &'static str, given: bool, by: &str) {
        if !given {
            self.wrong(option, format!("is not set; {by} needs it"));
        }
    }

    fn keystone(&mut self) {
        let by = self
            .options
            .auth_type
            .map(|kind| format!("auth_type {kind}"))
            .unwrap_or_default();
        self.need("auth_url", self.options.auth_url.is_some(), &by);
        self.url("auth_url", self.options.auth_url.as_deref());
        if self.options.valid_interfaces.is_empty() && self.options.fixed_endpoint().is_none() {
            self.wrong(
                "valid_interfaces",
                "is empty; name internal, public or admin",
            );
        }
    }

    fn user(&mut self, by: &str) {
        let o = self.options;
        if o.user_id.is_some() {
            return;
        }
        if o.username.is_none() {
            self.wrong(
                "username",
                format!("is not set; {by} needs username or user_id"),
            );
        } else if !any([
            &o.user_domain_name,
            &o.user_domain_id,
            &o.default_domain_name,
            &o.default_domain_id,
        ]) {
            self.wrong(
                "user_domain_name",
                "is not set; username needs user_domain_name or user_domain_id",
            );
        }
    }

    fn scope(&mut self, needed: RequiredOption) {
        let o = self.options;
        let project = any([&o.project_name, &o.project_id]);
        match (&o.system_scope, project) {
            (Some(_), true) => {
                self.wrong(
                    "system_scope",
                    "contradicts the project: a token is for the system or for one project",
                );
            }
            (Some(scope), false) if scope != "all" => {
                self.wrong("system_scope", format!("is {scope:?}; only all is known"));
            }
            (None, false) if matches!(needed, RequiredOption::Yes) => {
                self.wrong(
                    "project_name",
                    "is not set; name a project (project_name or project_id) or system_scope",
                );
            }
            _ => {}
        }
        let domain = any([
            &o.project_domain_name,
            &o.project_domain_id,
            &o.default_domain_name,
            &o.default_domain_id,
        ]);
        if o.project_name.is_some() && o.project_id.is_none() && !domain {
            self.wrong(
                "project_domain_name",
                "is not set; project_name needs project_domain_name or project_domain_id",
            );
        }
    }

    fn application_credential(&mut self) {
        let o = self.options;
        let by = "auth_type v3applicationcredential";
        self.need(
            "application_credential_secret",
            o.application_credential_secret.is_some(),
            by,
        );
        if o.application_credential_id.is_none() {
            if o.application_credential_name.is_none() {
                self.wrong(
                    "application_credential_id",
                    format!("is not set; {by} needs it (or its name and user)"),
                );
            } else {
                self.user("application_credential_name");
            }
        }
        for (option, given) in [
            ("project_name", o.project_name.is_some()),
            ("project_id", o.project_id.is_some()),
            ("system_scope", o.system_scope.is_some()),
        ] {
            if given {
                self.wrong(option, "contradicts the application credential, which brings its own scope; leave it out");
            }
        }
    }

    fn url(&mut self, option: &'static str, url: Option<&str>) {
        if let Some(url) = url
            && super::target::BaseUrl::new(url).is_none()
        {
            self.wrong(
                option,
                "is not a URL that paths can be appended to; http://HOST[:PORT][/PATH] or https://… is expected, \
                 without user, query and fragment",
            );
        }
    }

    fn header(&mut self, option: &'static str) {
        if self
            .options
            .token
            .as_ref()
            .is_some_and(|token| token.header().is_none())
        {
            self.wrong(
                option,
                "has characters that cannot be sent in a header (a line end?)",
            );
        }
    }

    fn transport(&mut self) {
        let o = self.options;
        if o.keyfile.is_some() && o.certfile.is_none() {
            self.wrong(
                "certfile",
                "is not set; keyfile is the key of the certificate in it",
            );
        }
        for code in &o.retriable_status_codes {
            if !(400..=599).contains(code) {
                self.wrong(
                    "retriable_status_codes",
                    format!("{code} is not a status of an error, 400 to 599"),
                );
            }
        }
        if o.timeout.is_some_and(|timeout| timeout.is_zero()) {
            self.wrong(
                "timeout",
                "is 0; it must be longer, or left out for the default",
            );
        }
    }
}

enum RequiredOption {
    Yes,
    No,
}

fn any<const N: usize>(texts: [&Option<String>; N]) -> bool {
    texts.iter().any(|text| text.is_some())
}
