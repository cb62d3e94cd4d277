//! A service for one test, its users and callers.

use std::any::Any;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use berth_http::{AuditTrail, audited, found_at};
use berth_identity::{
    Catalog, CatalogService, Endpoint, EndpointInterface, Identity, IdentityApiOptions,
    IdentityOptions, PasswordHash, TokenClock, UsersFile, prepare, router,
};
use berth_store::{SqlError, SqlStore, SqlTimestamp, Statement, Transaction, Work};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

use super::place;

/// The password of every user of these tests.
pub(crate) const PASSWORD: &str = "correct horse";

/// The hash of it, made once.
pub(crate) fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| PasswordHash::cheap(PASSWORD).unwrap().reveal().to_owned())
}

/// A user of the file.
pub(crate) fn user(name: &str, more: &str) -> String {
    format!(
        "[[user]]\nname = \"{name}\"\npassword_hash = \"{}\"\n{more}\n",
        hash()
    )
}

/// A cloud with an administrator, a service, a member, a user without roles, a disabled user and a user of another
/// domain.
pub(crate) fn cloud() -> String {
    [
        "[[domain]]\nname = \"Default\"\nid = \"default\"\n[[domain]]\nname = \"elsewhere\"\n".to_owned(),
        "[[project]]\nname = \"admin\"\n[[project]]\nname = \"service\"\n".to_owned(),
        "[[project]]\nname = \"research\"\ndescription = \"a group\"\nid = \"p-research\"\n".to_owned(),
        "[[project]]\nname = \"closed\"\nenabled = false\n".to_owned(),
        "[[project]]\nname = \"research\"\ndomain = \"elsewhere\"\n".to_owned(),
        "[[role]]\nname = \"operator\"\nimplies = [\"reader\"]\n".to_owned(),
        user("admin", "default_project = \"admin\""),
        user("nova", "default_project = \"service\""),
        user("alice", "email = \"alice@example.org\"\nid = \"u-alice\""),
        user("nobody", ""),
        user("gone", "enabled = false\ndefault_project = \"research\""),
        user("bob", "domain = \"elsewhere\""),
        "[[role_assignment]]\nuser = \"admin\"\nproject = \"admin\"\nroles = [\"admin\"]\n".to_owned(),
        "[[role_assignment]]\nuser = \"admin\"\nsystem = \"all\"\nroles = [\"admin\"]\n".to_owned(),
        "[[role_assignment]]\nuser = \"nova\"\nproject = \"service\"\nroles = [\"service\"]\n".to_owned(),
        "[[role_assignment]]\nuser = \"alice\"\nproject = \"research\"\nroles = [\"member\"]\n".to_owned(),
        "[[role_assignment]]\nuser = \"alice\"\nproject = \"closed\"\nroles = [\"member\"]\n".to_owned(),
        "[[role_assignment]]\nuser = \"gone\"\nproject = \"research\"\nroles = [\"member\"]\n".to_owned(),
        "[[role_assignment]]\nuser = \"bob\"\nuser_domain = \"elsewhere\"\ndomain = \"elsewhere\"\nroles = [\"operator\"]\n"
            .to_owned(),
    ]
    .concat()
}

/// The file of users with only its owner let in.
pub(crate) fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The names in a list.
    pub(crate) fn names(&self, list: &str) -> Vec<&str> {
        let items = self.body[list].as_array().unwrap();
        items
            .iter()
            .map(|item| item["name"].as_str().unwrap())
            .collect()
    }
}

/// One process of the service.
pub(crate) struct Service {
    pub(crate) identity: Identity,
    pub(crate) store: SqlStore,
    pub(crate) path: PathBuf,
    /// Seconds by which the clock is ahead of a moment in 2026.
    ahead: Arc<AtomicI64>,
    router: Router,
    _kept: Arc<dyn Any + Send + Sync>,
    _folder: Option<TempDir>,
}

fn services() -> Catalog {
    let endpoints = |url: &str| {
        let endpoint = |interface| Endpoint {
            region: "RegionOne".to_owned(),
            interface,
            url: url.to_owned(),
        };
        EndpointInterface::ALL.into_iter().map(endpoint).collect()
    };
    let service = |service_type: &str, url: &str| CatalogService {
        service_type: service_type.to_owned(),
        name: service_type.to_owned(),
        endpoints: endpoints(url),
    };
    Catalog::new([
        service("identity", "http://cloud/identity/v3"),
        service("placement", "http://cloud/placement"),
    ])
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(&cloud(), IdentityApiOptions::default()).await
    }

    pub(crate) async fn with(users: &str, options: IdentityApiOptions) -> Self {
        let (store, kept) = place::fresh().await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.toml");
        write(&path, users);
        let service = Self::over(store, &path, options).await;
        Self {
            _kept: kept,
            _folder: Some(folder),
            ..service
        }
    }

    /// With this largest number of tokens of a user.
    pub(crate) async fn with_most_tokens(most: u64) -> Self {
        let service = Self::start().await;
        let options = (IdentityApiOptions::default(), most);
        let limited = Self::limited(service.store.clone(), &service.path, options).await;
        Self {
            _kept: service._kept,
            _folder: service._folder,
            ..limited
        }
    }

    pub(crate) async fn over(store: SqlStore, path: &Path, options: IdentityApiOptions) -> Self {
        let most = IdentityOptions::default().max_tokens_per_user;
        Self::limited(store, path, (options, most)).await
    }

    async fn limited(
        store: SqlStore,
        path: &Path,
        (options, max_tokens_per_user): (IdentityApiOptions, u64),
    ) -> Self {
        prepare(&store).await.unwrap();
        let ahead = Arc::new(AtomicI64::new(0));
        let clock = {
            let (ahead, start) = (
                Arc::clone(&ahead),
                "2026-11-23 10:00:00".parse::<SqlTimestamp>().unwrap(),
            );
            move || {
                let seconds = u64::try_from(ahead.load(Ordering::Relaxed)).unwrap();
                start.after(Duration::from_secs(seconds))
            }
        };
        let identity_options = IdentityOptions {
            catalog: services(),
            clock: TokenClock::new(clock),
            max_tokens_per_user,
            ..IdentityOptions::default()
        };
        let users = UsersFile::open(path).unwrap();
        let identity = Identity::new(store.clone(), users, identity_options);
        Self {
            router: found_at(router(identity.clone(), options), "http://cloud"),
            identity,
            store,
            path: path.to_owned(),
            ahead,
            _kept: Arc::new(()),
            _folder: None,
        }
    }

    /// The same with an audit trail.
    pub(crate) fn audited(self, trail: &AuditTrail) -> Self {
        Self {
            router: audited(self.router, trail),
            ..self
        }
    }

    pub(crate) fn passes(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::Relaxed);
    }

    /// The file of users is another now.
    pub(crate) fn rewrite(&self, text: &str) {
        write(&self.path, text);
        self.identity.users_file().reload_if_changed().unwrap();
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        }
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "evil.example")
            .header("x-forwarded-proto", "https");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Reply {
        self.ask("GET", path, &[("x-auth-token", token)]).await
    }

    pub(crate) async fn post_text(&self, text: &str) -> Reply {
        let request = Request::post("/v3/auth/tokens")
            .header("host", "evil.example")
            .header("content-type", "application/json")
            .header("content-length", text.len());
        self.send(request.body(Body::from(text.to_owned())).unwrap())
            .await
    }

    /// Asks for a token.
    pub(crate) async fn log_in(&self, user: Value, scope: Option<Value>) -> Reply {
        let mut auth = json!({"identity": {"methods": ["password"], "password": {"user": user}}});
        if let Some(scope) = scope {
            auth["scope"] = scope;
        }
        self.post_text(&json!({"auth": auth}).to_string()).await
    }

    /// A token that is issued for another one.
    pub(crate) async fn token_of(&self, token: &str) -> String {
        let auth = json!({"identity": {"methods": ["token"], "token": {"id": token}}});
        let reply = self.post_text(&json!({"auth": auth}).to_string()).await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        reply.header("x-subject-token").to_owned()
    }

    /// Whether a token is valid: it may look at itself.
    pub(crate) async fn is_valid(&self, token: &str) -> bool {
        let headers = [("x-auth-token", token), ("x-subject-token", token)];
        self.ask("GET", "/v3/auth/tokens", &headers).await.status == 200
    }

    /// A token of a user of the default domain, with its default scope.
    pub(crate) async fn token(&self, name: &str, scope: Option<Value>) -> String {
        let reply = self.log_in(by_name(name), scope).await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        reply.header("x-subject-token").to_owned()
    }

    pub(crate) async fn change(&self, sql: &'static str) {
        self.store.write(&Change(sql)).await.unwrap();
    }

    pub(crate) async fn count(&self) -> i64 {
        let rows = Statement::new("SELECT COUNT(*) FROM identity_tokens");
        self.store.rows(rows).await.unwrap()[0].int(0).unwrap()
    }
}

/// A user of the default domain with the password of these tests.
pub(crate) fn by_name(name: &str) -> Value {
    json!({"name": name, "domain": {"id": "default"}, "password": PASSWORD})
}

/// A project of the default domain, as a scope.
pub(crate) fn project(name: &str) -> Option<Value> {
    Some(json!({"project": {"name": name, "domain": {"name": "Default"}}}))
}

struct Change(&'static str);

impl Work for Change {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.execute(Statement::new(self.0)).await.map(drop)
    }
}
