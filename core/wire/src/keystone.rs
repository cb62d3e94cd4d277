//! Bodies of the Identity v3 API: POST /v3/auth/tokens and its response with the catalog (Keystone, API version 3.14).
//!
//! Callers: the client's Keystone session and the built-in identity service. The request contains secrets, so it has no
//! `Debug`.

mod catalog;
mod errors;
mod expiry;
mod request;
mod validated;

pub use catalog::{CatalogEndpoint, CatalogService, Role, TokenBody, TokenDocument};
pub use errors::{IdentityError, IdentityErrorDocument};
pub use expiry::{ExpiryError, parse_expiry};
pub use request::{AuthRequest, DomainRef, Login, LoginScope, ProjectRef, UserRef};
pub use validated::{IdOf, SystemScope, ValidatedToken, ValidatedTokenDocument, ValidatedUser};
