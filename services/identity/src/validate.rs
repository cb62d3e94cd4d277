//! [`Identity`] as the services in the same process ask it whose a token is, without HTTP.

use berth_http::auth::Validation;
use berth_http::{Caller, Scope, TokenError, TokenRequest, ValidateToken};

use crate::identity::Identity;
use crate::tokens::KnownToken;
use crate::users::Target;

impl From<&KnownToken> for Caller {
    fn from(token: &KnownToken) -> Self {
        let scope = match token.target() {
            Some(Target::Project(id)) => Scope::Project(id.clone()),
            Some(Target::Domain(id)) => Scope::Domain(id.clone()),
            Some(Target::System) => Scope::System,
            None => Scope::Unscoped,
        };
        Self {
            user_id: token.user_id().to_owned(),
            scope,
            roles: token.roles().iter().map(|role| role.name.clone()).collect(),
        }
    }
}

impl ValidateToken for Identity {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        Box::pin(async move {
            match self.token(request.token).await {
                Ok(Some(token)) => Ok(Caller::from(&token)),
                Ok(None) => Err(TokenError::Refused),
                Err(error) => Err(TokenError::Unavailable(Box::new(error))),
            }
        })
    }
}
