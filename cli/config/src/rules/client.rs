//! Rules for the client sections: the login is complete, and certificates are checked.

use berth_client::AuthOptions;
use berth_output::ErrorCode;

use super::Judge;
use crate::problem::ConfigProblem;

impl Judge<'_> {
    pub(super) fn clients(&mut self) {
        let config = self.config;
        for (section, options) in [
            ("placement", &config.placement),
            ("cyborg", &config.cyborg),
            ("conductor", &config.conductor),
            ("glance", &config.glance),
            ("neutron", &config.neutron),
        ] {
            self.login(section, options);
            self.tls(section, options);
        }
    }

    /// The client's own check. Each problem is reported at its option or, if that is not set, at `auth_type`.
    fn login(&mut self, section: &str, options: &AuthOptions) {
        if options.auth_type.is_none() {
            return self.without_login(section);
        }
        let auth_type = format!("{section}.auth_type");
        let wrong = options
            .check()
            .err()
            .map(|error| error.problems)
            .unwrap_or_default();
        for problem in wrong {
            let name = format!("{section}.{}", problem.option);
            if self.is_broken(&[&name, &auth_type]) {
                continue;
            }
            let (at, code) = match self.is_set(&name) {
                true => (&name, ErrorCode::Contradiction),
                false => (&auth_type, ErrorCode::Missing),
            };
            let at = self.problem(at, "", "", code).at;
            self.verdict.problems.push(ConfigProblem {
                at,
                key: name,
                wrong: problem.sentence,
                right: String::new(),
                code,
            });
        }
        if let Some(url) = options.auth_url.as_deref().filter(|url| in_clear(url)) {
            let wrong = format!("{url} is not encrypted, so the secret is sent in clear text");
            self.warn(&format!("{section}.auth_url"), wrong, "write https://");
        }
    }

    fn without_login(&mut self, section: &str) {
        if self.is_broken(&[&format!("{section}.auth_type")]) {
            return;
        }
        let guesses = [
            ("password", "password"),
            ("application_credential_secret", "v3applicationcredential"),
            ("token", "v3token"),
            ("endpoint_override", "none"),
        ];
        for (key, auth_type) in guesses {
            let name = format!("{section}.{key}");
            if self.is_set(&name) {
                let right = format!("write auth_type = {auth_type:?} in [{section}]");
                return self.refuse(
                    &name,
                    "set, but auth_type is not",
                    right,
                    ErrorCode::Missing,
                );
            }
        }
    }

    fn tls(&mut self, section: &str, options: &AuthOptions) {
        let name = format!("{section}.insecure");
        if options.insecure && options.cafile.is_some() {
            self.warn(
                &name,
                "any certificate is accepted although cafile is set",
                "write insecure = false",
            );
        } else if options.insecure {
            self.warn(
                &name,
                "any certificate is accepted",
                "write insecure = false and name a cafile",
            );
        }
    }
}

/// Whether a URL is plain HTTP to another machine.
fn in_clear(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    !(host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]"))
}
