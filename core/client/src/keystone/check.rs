//! Validation of [`AuthOptions`]: reports each missing, invalid or contradictory option by its name. `auth_type` decides
//! which options are required.

use std::fmt;

use super::{AuthOptions, AuthType};

/// Options with which no client can authenticate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct OptionsError {
    /// All problems, in the order of the checks.
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
        check.check_all();
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
    fn report(&mut self, option: &'static str, sentence: impl Into<String>) {
        self.problems.push(OptionProblem {
            option,
            sentence: sentence.into(),
        });
    }

    fn check_all(&mut self) {
        let options = self.options;
        match options.auth_type {
            None => {
                let names = AuthType::NAMES.join(", ");
                self.report(
                    "auth_type",
                    format!("is not set; it must be one of {names}"),
                );
            }
            Some(AuthType::Password) => {
                self.check_keystone_endpoint();
                self.check_user("auth_type password");
                self.need("password", options.password.is_some(), "auth_type password");
                self.check_scope(TokenScopeRule::Required);
            }
            Some(AuthType::ApplicationCredential) => {
                self.check_keystone_endpoint();
                self.check_application_credential();
            }
            Some(AuthType::Token) => {
                self.check_keystone_endpoint();
                self.need("token", options.token.is_some(), "auth_type v3token");
                // Without a scope, the new token has the scope of the given one.
                self.check_scope(TokenScopeRule::Optional);
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
        self.check_token();
        self.check_url("endpoint_override", options.endpoint_override.as_deref());
        self.check_url("endpoint", options.endpoint.as_deref());
        self.check_transport();
    }

    /// Reports the option as missing, unless it is set. `by` is what needs it.
    fn need(&mut self, option: &'static str, is_set: bool, by: &str) {
        if !is_set {
            self.report(option, format!("is not set; {by} needs it"));
        }
    }

    fn check_keystone_endpoint(&mut self) {
        let by = self
            .options
            .auth_type
            .map(|kind| format!("auth_type {kind}"))
            .unwrap_or_default();
        self.need("auth_url", self.options.auth_url.is_some(), &by);
        self.check_url("auth_url", self.options.auth_url.as_deref());
        if self.options.valid_interfaces.is_empty() && self.options.fixed_endpoint().is_none() {
            self.report(
                "valid_interfaces",
                "is empty; expected one or more of internal, public and admin",
            );
        }
    }

    fn check_user(&mut self, by: &str) {
        let o = self.options;
        if o.user_id.is_some() {
            return;
        }
        if o.username.is_none() {
            self.report(
                "username",
                format!("is not set; {by} needs username or user_id"),
            );
        } else if !any([
            &o.user_domain_name,
            &o.user_domain_id,
            &o.default_domain_name,
            &o.default_domain_id,
        ]) {
            self.report(
                "user_domain_name",
                "is not set; username needs user_domain_name, user_domain_id, default_domain_name or default_domain_id",
            );
        }
    }

    fn check_scope(&mut self, scope: TokenScopeRule) {
        let o = self.options;
        let project = any([&o.project_name, &o.project_id]);
        match (&o.system_scope, project) {
            (Some(_), true) => {
                self.report(
                    "system_scope",
                    "contradicts the project: a token is for the system or for one project",
                );
            }
            (Some(system), false) if system != "all" => {
                self.report("system_scope", format!("is {system:?}; only all is known"));
            }
            (None, false) if matches!(scope, TokenScopeRule::Required) => {
                self.report(
                    "project_name",
                    "is not set; set a project (project_name or project_id) or system_scope",
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
            self.report(
                "project_domain_name",
                "is not set; project_name needs project_domain_name, project_domain_id, default_domain_name or default_domain_id",
            );
        }
    }

    fn check_application_credential(&mut self) {
        let o = self.options;
        let by = "auth_type v3applicationcredential";
        self.need(
            "application_credential_secret",
            o.application_credential_secret.is_some(),
            by,
        );
        if o.application_credential_id.is_none() {
            if o.application_credential_name.is_none() {
                self.report(
                    "application_credential_id",
                    format!("is not set; {by} needs it, or application_credential_name and a user"),
                );
            } else {
                self.check_user("application_credential_name");
            }
        }
        for (option, is_set) in [
            ("project_name", o.project_name.is_some()),
            ("project_id", o.project_id.is_some()),
            ("system_scope", o.system_scope.is_some()),
        ] {
            if is_set {
                self.report(option, "contradicts the application credential, which brings its own scope; leave it out");
            }
        }
    }

    fn check_url(&mut self, option: &'static str, url: Option<&str>) {
        if let Some(url) = url
            && super::target::BaseUrl::new(url).is_none()
        {
            self.report(
                option,
                "is not a URL that paths can be appended to; http://HOST[:PORT][/PATH] or https://… is expected, \
                 without user, query and fragment",
            );
        }
    }

    fn check_token(&mut self) {
        if self
            .options
            .token
            .as_ref()
            .is_some_and(|token| token.header().is_none())
        {
            self.report(
                "token",
                "has characters that cannot be sent in a header (a line end?)",
            );
        }
    }

    fn check_transport(&mut self) {
        let o = self.options;
        if o.keyfile.is_some() && o.certfile.is_none() {
            self.report(
                "certfile",
                "is not set; keyfile needs the file of its certificate",
            );
        }
        for code in &o.retriable_status_codes {
            if !(400..=599).contains(code) {
                self.report(
                    "retriable_status_codes",
                    format!("{code} is not a status of an error, 400 to 599"),
                );
            }
        }
        if o.timeout.is_some_and(|timeout| timeout.is_zero()) {
            self.report(
                "timeout",
                "is 0; expected more than 0 seconds, or no value for the default",
            );
        }
    }
}

/// Whether a token needs a project or the system as its scope.
enum TokenScopeRule {
    Required,
    Optional,
}

fn any<const N: usize>(texts: [&Option<String>; N]) -> bool {
    texts.iter().any(|text| text.is_some())
}
