//! The request: identity and scope.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// The body of POST /v3/auth/tokens with borrowed texts. It contains secrets, so it has no `Debug`.
#[derive(Serialize)]
pub struct AuthRequest<'a> {
    auth: LoginAuth<'a>,
}

impl<'a> AuthRequest<'a> {
    /// Requests a token of `scope`.
    #[must_use]
    pub fn new(login: Login<'a>, scope: LoginScope<'a>) -> Self {
        Self {
            auth: LoginAuth {
                identity: login,
                scope,
            },
        }
    }
}

/// The authentication method with its data.
pub enum Login<'a> {
    Password {
        user: UserRef<'a>,
        password: &'a str,
    },
    /// An application credential, which has a scope of its own.
    ApplicationCredential {
        /// Its id; if missing, `name` and `user` identify it.
        id: Option<&'a str>,
        /// Its name, unique for its user.
        name: Option<&'a str>,
        user: Option<UserRef<'a>>,
        secret: &'a str,
    },
    /// A token, exchanged for another one.
    Token { id: &'a str },
}

pub enum LoginScope<'a> {
    /// Whatever the login has by itself.
    Unscoped,
    Project(ProjectRef<'a>),
    /// The whole system (`system_scope = all`).
    System,
}

/// A user by id, or by name and domain.
#[derive(Serialize)]
pub struct UserRef<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// The domain of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<DomainRef<'a>>,
}

/// A project by id, or by name and domain.
#[derive(Serialize)]
pub struct ProjectRef<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// The domain of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<DomainRef<'a>>,
}

/// A domain by id or name.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DomainRef<'a> {
    Id(&'a str),
    Name(&'a str),
}

struct LoginAuth<'a> {
    identity: Login<'a>,
    scope: LoginScope<'a>,
}

impl Serialize for LoginAuth<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut auth = serializer.serialize_struct("auth", 2)?;
        auth.serialize_field("identity", &self.identity)?;
        match &self.scope {
            LoginScope::Unscoped => auth.skip_field("scope")?,
            LoginScope::Project(project) => {
                auth.serialize_field("scope", &ProjectScope { project })?
            }
            LoginScope::System => auth.serialize_field("scope", &SystemScope::ALL)?,
        }
        auth.end()
    }
}

#[derive(Serialize)]
struct ProjectScope<'a> {
    project: &'a ProjectRef<'a>,
}

#[derive(Serialize)]
struct SystemScope {
    system: SystemAll,
}

#[derive(Serialize)]
struct SystemAll {
    all: bool,
}

impl SystemScope {
    const ALL: Self = Self {
        system: SystemAll { all: true },
    };
}

impl Serialize for Login<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut identity = serializer.serialize_struct("identity", 2)?;
        match self {
            Self::Password { user, password } => {
                identity.serialize_field("methods", &["password"])?;
                identity.serialize_field(
                    "password",
                    &LoginPassword {
                        user: WithPassword { user, password },
                    },
                )?;
            }
            Self::ApplicationCredential {
                id,
                name,
                user,
                secret,
            } => {
                identity.serialize_field("methods", &["application_credential"])?;
                let credential = Credential {
                    id: *id,
                    name: *name,
                    user: user.as_ref(),
                    secret,
                };
                identity.serialize_field("application_credential", &credential)?;
            }
            Self::Token { id } => {
                identity.serialize_field("methods", &["token"])?;
                identity.serialize_field("token", &TokenRef { id })?;
            }
        }
        identity.end()
    }
}

#[derive(Serialize)]
struct LoginPassword<'a> {
    user: WithPassword<'a>,
}

#[derive(Serialize)]
struct WithPassword<'a> {
    #[serde(flatten)]
    user: &'a UserRef<'a>,
    password: &'a str,
}

#[derive(Serialize)]
struct Credential<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a UserRef<'a>>,
    secret: &'a str,
}

#[derive(Serialize)]
struct TokenRef<'a> {
    id: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;

    fn text(login: Login<'_>, scope: LoginScope<'_>) -> String {
        String::from_utf8(encode(&AuthRequest::new(login, scope))).unwrap()
    }

    #[test]
    fn a_password_with_names_and_a_project() {
        let user = UserRef {
            id: None,
            name: Some("nova"),
            domain: Some(DomainRef::Name("Default")),
        };
        let project = ProjectRef {
            id: None,
            name: Some("service"),
            domain: Some(DomainRef::Id("default")),
        };
        insta::assert_snapshot!(
            text(Login::Password { user, password: "s" }, LoginScope::Project(project)),
            @r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"nova","domain":{"name":"Default"},"password":"s"}}},"scope":{"project":{"name":"service","domain":{"id":"default"}}}}}"#
        );
    }

    #[test]
    fn an_application_credential_brings_its_own_scope() {
        let login = Login::ApplicationCredential {
            id: Some("c"),
            name: None,
            user: None,
            secret: "s",
        };
        insta::assert_snapshot!(
            text(login, LoginScope::Unscoped),
            @r#"{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"c","secret":"s"}}}}"#
        );
    }

    #[test]
    fn a_token_for_the_whole_system() {
        insta::assert_snapshot!(
            text(Login::Token { id: "t" }, LoginScope::System),
            @r#"{"auth":{"identity":{"methods":["token"],"token":{"id":"t"}},"scope":{"system":{"all":true}}}}"#
        );
    }
}
