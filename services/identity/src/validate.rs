//! [`Identity`] as a token validator for the services in the same process, without HTTP.

use berth_http::auth::Validation;
use berth_http::{Caller, TokenError, TokenRequest, TokenScope, ValidateToken};

use crate::identity::Identity;
use crate::tokens::ValidToken;
use crate::users::AssignmentTarget;

impl From<&ValidToken> for Caller {
    fn from(token: &ValidToken) -> Self {
        let scope = match token.target() {
            Some(AssignmentTarget::Project(id)) => TokenScope::Project(id.clone()),
            Some(AssignmentTarget::Domain(id)) => TokenScope::Domain(id.clone()),
            Some(AssignmentTarget::System) => TokenScope::System,
            None => TokenScope::Unscoped,
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
