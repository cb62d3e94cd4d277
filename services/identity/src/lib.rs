//! A minimal Keystone v3 for one machine and small clouds. `openstack` and services with keystoneauth work with it
//! unchanged.
//!
//! | module | contents |
//! |---|---|
//! | `identity` | [`Identity`]: authenticates users; issues, validates and revokes tokens |
//! | `users` | users, projects, domains, roles and assignments, read from a file; pure except [`UsersFile`] |
//! | `passwords` | Argon2id password hashes |
//! | `login_throttle` | delays repeated wrong passwords, per user and address; pure |
//! | `password_verifier` | verifies passwords on a bounded number of threads |
//! | `tokens` | token texts and digests, and when a token is void |
//! | `catalog` | the service catalog, from the configuration |
//! | `store` | the table of tokens |
//! | `unified_limits` | the trait by which the API shows and changes the limits of another service |
//! | `validate` | [`Identity`] as a token validator for services in the same process |
//! | `router`, `policies`, `handlers`, `shown` | the HTTP API |
//!
//! [`prepare`] creates or checks the database schema; [`router()`] makes the routes. The users file is the only place where users
//! change: the API is read-only for them. `cli` composes this crate.

mod catalog;
mod handlers;
mod identity;
mod login_queue;
mod login_throttle;
mod openapi;
mod password_verifier;
mod passwords;
mod policies;
mod router;
mod shown;
mod store;
mod tokens;
mod unified_limits;
mod users;
mod validate;

pub use berth_http::{Prefix, serve_tcp};
pub use catalog::{Catalog, CatalogService, Endpoint, EndpointInterface, InvalidInterface};
pub use identity::{Identity, IdentityOptions};
pub use openapi::openapi;
pub use password_verifier::LoginError;
pub use passwords::{
    LONGEST_PASSWORD, PasswordError, PasswordHash, PasswordHashError, fresh_password,
};
pub use router::{IdentityApiOptions, router};
pub use store::TokenTableError;
pub use store::schema::{VERSION as SCHEMA_VERSION, prepare};
pub use tokens::{TokenClock, ValidToken};
pub use unified_limits::{
    DefaultLimit, LimitFuture, ProjectLimit, UnifiedLimitError, UnifiedLimits,
};
pub use users::{
    Assignment, AssignmentTarget, Domain, Project, ReloadOutcome, RoleEntry, User, Users,
    UsersError, UsersFile, UsersFileError,
};
