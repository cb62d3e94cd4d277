//! The request of POST /v3/auth/tokens.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The body. It contains secrets, so it has no `Debug`. Unknown keys are ignored, as in Keystone.
#[derive(Deserialize)]
pub struct AuthBody {
    pub auth: RequestedAuth,
}

/// The identity and the requested scope.
#[derive(Deserialize)]
pub struct RequestedAuth {
    identity: IdentityMethods,
    #[serde(default)]
    scope: Option<ScopeAsked>,
}

#[derive(Deserialize)]
struct IdentityMethods {
    methods: Vec<String>,
    #[serde(default)]
    password: Option<PasswordMethod>,
    #[serde(default)]
    token: Option<TokenMethod>,
}

#[derive(Deserialize)]
struct PasswordMethod {
    user: UserAsked,
}

#[derive(Deserialize)]
struct TokenMethod {
    id: String,
}

/// The authentication method with its data.
pub enum AuthAsked {
    Password(UserAsked),
    /// A token, for another one.
    Token(String),
    /// A method that the service does not know, by its name.
    Unsupported(String),
    /// A required part is missing; its path.
    Missing(&'static str),
}

impl AuthBody {
    /// The user that logs in with a password.
    #[must_use]
    pub fn user(&self) -> Option<&UserAsked> {
        let password = self.auth.identity.password.as_ref();
        password.map(|method| &method.user)
    }

    /// The authentication method and the requested scope; `None` for the user's default scope.
    #[must_use]
    pub fn into_parts(self) -> (AuthAsked, Option<ScopeAsked>) {
        let RequestedAuth { identity, scope } = self.auth;
        let IdentityMethods {
            methods,
            password,
            token,
        } = identity;
        let known = |method: &String| method == "password" || method == "token";
        let asked = if let Some(other) = methods.iter().find(|method| !known(method)) {
            AuthAsked::Unsupported(other.clone())
        } else if methods.iter().any(|method| method == "password") {
            match password {
                // With both methods, the token adds nothing to the password.
                Some(password) => AuthAsked::Password(password.user),
                None => AuthAsked::Missing("auth.identity.password"),
            }
        } else if methods.is_empty() {
            AuthAsked::Missing("auth.identity.methods[0]")
        } else {
            match token {
                Some(token) => AuthAsked::Token(token.id),
                None => AuthAsked::Missing("auth.identity.token"),
            }
        };
        (asked, scope)
    }
}

/// A user with a password, by id or by name and domain.
#[derive(Deserialize)]
pub struct UserAsked {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    /// The domain of the name.
    #[serde(default)]
    pub domain: Option<DomainAsked>,
    #[serde(default)]
    pub password: Option<String>,
}

/// A project by id, or by name and domain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ProjectAsked {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    /// The domain of the name.
    #[serde(default)]
    pub domain: Option<DomainAsked>,
}

/// A domain by id or name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DomainAsked {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
}

/// The requested scope of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopeAsked {
    /// For nothing in particular, and not for the user's default project either.
    Unscoped,
    Project(ProjectAsked),
    Domain(DomainAsked),
    /// For the cloud itself (`{"system": {"all": true}}`).
    System,
}

impl<'de> Deserialize<'de> for ScopeAsked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScopeBody;
        impl<'de> Visitor<'de> for ScopeBody {
            type Value = ScopeAsked;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"unscoped\" or an object with project, domain or system")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<ScopeAsked, E> {
                match word {
                    "unscoped" => Ok(ScopeAsked::Unscoped),
                    _ => Err(E::custom("the only string that is a scope is \"unscoped\"")),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ScopeAsked, A::Error> {
                Members::deserialize(MapAccessDeserializer::new(map))?.scope()
            }
        }
        deserializer.deserialize_any(ScopeBody)
    }
}

#[derive(Deserialize)]
struct Members {
    #[serde(default)]
    project: Option<ProjectAsked>,
    #[serde(default)]
    domain: Option<DomainAsked>,
    #[serde(default)]
    system: Option<System>,
    #[serde(default, rename = "OS-TRUST:trust")]
    trust: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct System {
    #[serde(default)]
    all: bool,
}

impl Members {
    fn scope<E: Error>(self) -> Result<ScopeAsked, E> {
        if self.trust.is_some() {
            return Err(E::custom("this service has no trusts"));
        }
        match (self.project, self.domain, self.system) {
            // `{"unscoped": {}}`, as older clients write it.
            (None, None, None) => Ok(ScopeAsked::Unscoped),
            (Some(project), None, None) => Ok(ScopeAsked::Project(project)),
            (None, Some(domain), None) => Ok(ScopeAsked::Domain(domain)),
            (None, None, Some(System { all: true })) => Ok(ScopeAsked::System),
            (None, None, Some(System { all: false })) => {
                Err(E::custom("a scope of the system is {\"all\": true}"))
            }
            _ => Err(E::custom(
                "a token is for a project, a domain or the system, not for several",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode;

    fn scope(text: &str) -> Result<Option<ScopeAsked>, String> {
        let body =
            format!(r#"{{"auth": {{"identity": {{"methods": ["password"]}}, "scope": {text}}}}}"#);
        decode::<AuthBody>(body.as_bytes())
            .map(|body| body.into_parts().1)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_scope_is_one_thing() {
        let domain = |name: &str| DomainAsked {
            id: None,
            name: Some(name.to_owned()),
        };
        let project = ProjectAsked {
            id: None,
            name: Some("p".to_owned()),
            domain: Some(domain("Default")),
        };
        for (text, expected) in [
            ("null", None),
            ("\"unscoped\"", Some(ScopeAsked::Unscoped)),
            ("{\"unscoped\": {}}", Some(ScopeAsked::Unscoped)),
            (
                r#"{"project": {"name": "p", "domain": {"name": "Default"}}}"#,
                Some(ScopeAsked::Project(project)),
            ),
            (
                r#"{"domain": {"name": "x"}}"#,
                Some(ScopeAsked::Domain(domain("x"))),
            ),
            (r#"{"system": {"all": true}}"#, Some(ScopeAsked::System)),
        ] {
            assert_eq!(scope(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_scopes_are_refused_with_a_reason() {
        for (text, words) in [
            ("\"all\"", "unscoped"),
            ("7", "expected \"unscoped\" or an object"),
            ("[]", "expected \"unscoped\" or an object"),
            (r#"{"system": {}}"#, "all"),
            (r#"{"project": {}, "domain": {}}"#, "not for several"),
            (r#"{"project": "p"}"#, "auth.scope"),
            (r#"{"OS-TRUST:trust": {"id": "x"}}"#, "trusts"),
        ] {
            let refused = scope(text).unwrap_err();
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }

    #[test]
    fn what_a_method_needs_is_named() {
        let missing = |methods: &str| {
            let body = format!(r#"{{"auth": {{"identity": {{"methods": {methods}}}}}}}"#);
            match decode::<AuthBody>(body.as_bytes()).unwrap().into_parts().0 {
                AuthAsked::Missing(part) => part.to_owned(),
                AuthAsked::Unsupported(method) => method,
                AuthAsked::Password(_) | AuthAsked::Token(_) => String::new(),
            }
        };
        for (methods, expected) in [
            ("[]", "auth.identity.methods[0]"),
            ("[\"password\"]", "auth.identity.password"),
            ("[\"token\"]", "auth.identity.token"),
            ("[\"token\", \"totp\"]", "totp"),
        ] {
            assert_eq!(missing(methods), expected);
        }
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(text in "\\PC*") {
            let _ = decode::<AuthBody>(text.as_bytes());
        }
    }
}
