//! A minimal Keystone v3, for one machine and small clouds: `openstack` and services with keystoneauth use it in Keystone's place.
//!
//! | room | noun |
//! |---|---|
//! | `identity` | [`Identity`]: tokens made, believed and revoked, as its users in one process have it |
//! | `users` | who there is and who has which role where: a file; pure but for [`UsersFile`] |
//! | `passwords` | passwords as they are kept: Argon2id |
//! | `guesses` | how fast passwords can be guessed, from where; pure |
//! | `source` | where a request comes from, as far as that matters; pure |
//! | `logins` | a password is looked at: in turn, on threads of its own |
//! | `tokens` | tokens as texts, and when they are void |
//! | `catalog` | the services and where they are, as the caller says |
//! | `store` | the table of tokens |
//! | `validate` | [`Identity`] for services in the same process |
//! | `router`, `policies`, `handlers`, `shown` | the API |
//!
//! [`prepare`] brings a database to the schema, [`router()`] makes the routes. Users are changed in their file and nowhere else:
//! the API reads them.
//!
//! Callers: `cli` composes it, `tests`.

mod catalog;
mod guesses;
mod handlers;
mod identity;
mod logins;
mod openapi;
mod passwords;
mod policies;
mod router;
mod shown;
mod source;
mod store;
mod tokens;
mod users;
mod validate;

pub use berth_http::{Prefix, serve_tcp};
pub use catalog::{Catalog, CatalogService, Endpoint, Interface, NoInterface};
pub use identity::{Identity, IdentityOptions};
pub use logins::LoginError;
pub use openapi::openapi;
pub use passwords::{
    LONGEST_PASSWORD, PasswordError, PasswordHash, PasswordHashError, fresh_password,
};
pub use router::{Options, router};
pub use store::TableError;
pub use store::schema::{VERSION as SCHEMA_VERSION, prepare};
pub use tokens::{Clock, KnownToken};
pub use users::{
    Assignment, Domain, Look, Problem, Project, Role, Target, User, Users, UsersError, UsersFile,
    UsersFileError,
};
