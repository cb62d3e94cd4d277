//! [`Identity`] as a token validator for the services in the same process, without HTTP.

use berth_http::auth::{SERVICE_DOMAIN, Validation};
use berth_http::{Caller, HostAccount, TokenError, TokenRequest, TokenScope, ValidateToken};

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
        let user = token.user();
        // A user who may make users in another domain gets no power over hosts.
        let host = user.map(|user| match user.domain_id == SERVICE_DOMAIN {
            true => HostAccount::of_user_name(&user.name),
            false => HostAccount::of_other_domain(&user.name),
        });
        Self {
            user_id: token.user_id().to_owned(),
            user_name: user.map(|user| user.name.clone()),
            user_domain_id: user.map(|user| user.domain_id.clone()),
            scope,
            roles: token.roles().iter().map(|role| role.name.clone()).collect(),
            audit_ids: token.audit_ids().into_iter().map(str::to_owned).collect(),
            host: host.unwrap_or_default(),
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
