//! An API operation: one method of one path, declared once, next to its handler.
//!
//! ```text
//! Operation::get("/v2.1/os-aggregates", list)    route
//!     .rule(admin("os_compute_api:..."))         policy rule with its default, which the handler checks
//!     .since(VERSION)                            before this microversion the path is a 404
//!     .id("listAggregates").summary("...")       OpenAPI document; also statuses, query keys, bodies
//! ```
//!
//! A service collects its operations in an [`OperationSet`]. The router, the default policy and the OpenAPI document
//! ([`crate::openapi`]) are derived from it.

use std::collections::BTreeMap;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::HeaderValue;
use schemars::JsonSchema;
use serde_json::Value;

use crate::audit::{RequestAudit, target};
use crate::fault::Fault;
use crate::microversion::Microversion;
use crate::openapi::Shapes;
use crate::policy::RuleDefault;

/// One method of one path of a service with the state `S`.
#[must_use = "an operation is served only as a part of an OperationSet"]
pub struct Operation<S> {
    declaration: OperationDeclaration,
    handler: MethodRouter<S>,
}

/// What an operation declares besides its handler.
#[derive(Debug, Clone)]
pub struct OperationDeclaration {
    /// `None` for methods that are only refused: they are neither documented nor in the `allow` header of a 405.
    pub method: Option<&'static str>,
    pub path: &'static str,
    /// The rule that the handler checks for the operation as a whole.
    pub rule: Option<RuleDefault>,
    /// Other rules that the handler checks, for parts of the operation.
    pub other_rules: Vec<RuleDefault>,
    /// The first microversion with this operation. `None` if all have it.
    pub since: Option<Microversion>,
    /// The same, if it is checked before the handler runs.
    enforced_since: Option<Microversion>,
    /// The API extensions that announce the operation to old clients: alias and name.
    pub extensions: Vec<(&'static str, &'static str)>,
    /// The operation id, unique in the service. Operations without one are not in the OpenAPI document.
    pub id: Option<&'static str>,
    pub summary: &'static str,
    /// How other microversions than the newest differ.
    pub older: Option<&'static str>,
    /// The responses of success. If there are none, `statuses` and `response_key` describe them.
    pub responses: Vec<SuccessResponse>,
    /// The statuses of success. Which one is returned depends on the microversion or on the previous state.
    pub statuses: &'static [u16],
    /// The single top-level key of the response body; `None` if there is no body or its keys are names chosen by users.
    pub response_key: Option<&'static str>,
    /// The allowed keys of the query string. The service knows the schema of each.
    pub query: &'static [&'static str],
    /// More parameters of the query string, each with its schema.
    pub query_parameters: Option<fn() -> Vec<Value>>,
    /// The schema of the request body.
    pub body: Option<fn() -> Value>,
    /// Error statuses that only some operations have.
    pub errors: &'static [u16],
    /// The action in audit records, if it does not follow from the method.
    pub action: Option<&'static str>,
    /// Whether callers that pass the rule may send a body up to [`LARGE_BODY`].
    pub has_large_body: bool,
    /// The time for the complete body. `None`: the least rate of the listener is its only limit.
    pub body_deadline: Option<Duration>,
}

/// The limit of a large body, in bytes.
pub const LARGE_BODY: usize = 8 << 20;

/// A response of success.
#[derive(Debug, Clone, Copy)]
pub struct SuccessResponse {
    pub status: u16,
    pub description: &'static str,
    /// The schema of the body, if there is one.
    pub schema: Option<fn(&mut Shapes) -> Value>,
}

/// What the handler of an operation learns from its declaration, in the request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeclaredOperation {
    pub(crate) rule: Option<&'static str>,
    pub(crate) since: Option<Microversion>,
    path: &'static str,
    action: Option<&'static str>,
    pub(crate) has_large_body: bool,
    pub(crate) body_deadline: Option<Duration>,
    /// Whether only agents and services need it.
    pub(crate) is_internal: bool,
}

impl DeclaredOperation {
    /// Adds action and target to the audit of a request.
    pub(crate) fn add_to(&self, audit: &RequestAudit, parameters: &[(String, String)]) {
        if let Some(action) = self.action {
            audit.set_action(action);
        }
        audit.set_target(target(&audit.observer(), self.path, parameters));
    }
}

/// A handler without its type. axum instantiates ten generic layers for each type of handler, and the compiler examines
/// the whole future of the handler in each of them. With one type for all handlers of a service, it does so once.
struct ErasedHandler<S>(Arc<dyn Fn(Request, S) -> HandlerFuture + Send + Sync>);

type HandlerFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The arguments of an [`ErasedHandler`], in the place where axum names the extractors of a handler.
struct ErasedArguments;

impl<S> ErasedHandler<S> {
    fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, S>,
    {
        Self(Arc::new(move |request, state| {
            Box::pin(handler.clone().call(request, state))
        }))
    }
}

impl<S> Clone for ErasedHandler<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: 'static> Handler<ErasedArguments, S> for ErasedHandler<S> {
    type Future = HandlerFuture;

    fn call(self, request: Request, state: S) -> Self::Future {
        (self.0)(request, state)
    }
}

macro_rules! methods {
    ($($name:ident = $method:ident),*) => {
        $(
            pub fn $name<H, T>(path: &'static str, handler: H) -> Self
            where
                H: Handler<T, S>,
            {
                let handler = on(MethodFilter::$method, ErasedHandler::new(handler));
                Self::new(Some(stringify!($method)), path, handler)
            }
        )*
    };
}

impl<S: Clone + Send + Sync + 'static> Operation<S> {
    methods!(
        get = GET,
        post = POST,
        put = PUT,
        patch = PATCH,
        delete = DELETE
    );
}

impl<S> Operation<S> {
    /// Methods of a path that exist only to be refused with a better error than 405.
    pub fn refused(path: &'static str, handler: MethodRouter<S>) -> Self {
        Self::new(None, path, handler)
    }

    fn new(method: Option<&'static str>, path: &'static str, handler: MethodRouter<S>) -> Self {
        let declaration = OperationDeclaration {
            method,
            path,
            rule: None,
            other_rules: Vec::new(),
            since: None,
            enforced_since: None,
            extensions: Vec::new(),
            id: None,
            summary: "",
            older: None,
            responses: Vec::new(),
            statuses: &[200],
            response_key: None,
            query: &[],
            query_parameters: None,
            body: None,
            errors: &[],
            action: None,
            has_large_body: false,
            body_deadline: None,
        };
        Self {
            declaration,
            handler,
        }
    }

    /// The policy rule that the handler checks with [`crate::Policy::allow`]. A request with a body is checked before its
    /// body is read, too, for the caller's own project.
    pub fn rule(mut self, rule: RuleDefault) -> Self {
        self.declaration.rule = Some(rule);
        self
    }

    /// Rules that the handler checks by name.
    pub fn other_rules(mut self, rules: &[RuleDefault]) -> Self {
        self.declaration.other_rules.extend(rules);
        self
    }

    /// The first microversion with this operation. Before it, the path is a 404.
    pub fn since(mut self, version: Microversion) -> Self {
        self.declaration.enforced_since = Some(version);
        self.since_by_handler(version)
    }

    /// The first microversion with this operation. The handler refuses older ones, in its own way.
    pub fn since_by_handler(mut self, version: Microversion) -> Self {
        self.declaration.since = Some(version);
        self
    }

    pub fn extension(mut self, alias: &'static str, name: &'static str) -> Self {
        self.declaration.extensions.push((alias, name));
        self
    }

    /// The operation id in the OpenAPI document.
    pub fn id(mut self, id: &'static str) -> Self {
        self.declaration.id = Some(id);
        self
    }

    pub fn summary(mut self, summary: &'static str) -> Self {
        self.declaration.summary = summary;
        self
    }

    /// How other microversions than the newest differ.
    pub fn older(mut self, differences: &'static str) -> Self {
        self.declaration.older = Some(differences);
        self
    }

    /// A response with a body of this type.
    pub fn returns<T: JsonSchema>(self, status: u16, description: &'static str) -> Self {
        self.returns_shape(status, description, Shapes::of::<T>)
    }

    pub fn returns_shape(
        mut self,
        status: u16,
        description: &'static str,
        schema: fn(&mut Shapes) -> Value,
    ) -> Self {
        self.declaration.responses.push(SuccessResponse {
            status,
            description,
            schema: Some(schema),
        });
        self
    }

    /// A response without a body.
    pub fn returns_nothing(mut self, status: u16, description: &'static str) -> Self {
        self.declaration.responses.push(SuccessResponse {
            status,
            description,
            schema: None,
        });
        self
    }

    /// The statuses of success, if they are not 200 alone.
    pub fn statuses(mut self, statuses: &'static [u16]) -> Self {
        self.declaration.statuses = statuses;
        self
    }

    pub fn errors(mut self, statuses: &'static [u16]) -> Self {
        self.declaration.errors = statuses;
        self
    }

    /// The action in audit records, in CADF's words, if it does not follow from the method. The action `monitor` is a
    /// heartbeat, which counts as a read.
    pub fn action(mut self, action: &'static str) -> Self {
        self.declaration.action = Some(action);
        self
    }

    /// Callers that pass the rule may send a body up to [`LARGE_BODY`]. An operation without a rule has no large body.
    pub fn large_body(mut self) -> Self {
        self.declaration.has_large_body = true;
        self
    }

    /// The time for the complete body.
    pub fn body_deadline(mut self, deadline: Duration) -> Self {
        self.declaration.body_deadline = Some(deadline);
        self
    }

    /// The single top-level key of the response body.
    pub fn responds(mut self, key: &'static str) -> Self {
        self.declaration.response_key = Some(key);
        self
    }

    pub fn query(mut self, keys: &'static [&'static str]) -> Self {
        self.declaration.query = keys;
        self
    }

    pub fn query_parameters(mut self, parameters: fn() -> Vec<Value>) -> Self {
        self.declaration.query_parameters = Some(parameters);
        self
    }

    pub fn body(mut self, schema: fn() -> Value) -> Self {
        self.declaration.body = Some(schema);
        self
    }
}

/// What a HEAD request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadRequests {
    /// A 405, as in Nova and Placement.
    Refused,
    /// The response to GET without its body, as in Keystone and Glance.
    Served,
}

/// The operations of a service.
pub struct OperationSet<S>(Vec<Operation<S>>);

impl<S> FromIterator<Operation<S>> for OperationSet<S> {
    fn from_iter<I: IntoIterator<Item = Operation<S>>>(operations: I) -> Self {
        Self(operations.into_iter().collect())
    }
}

impl<S> OperationSet<S> {
    pub fn declarations(&self) -> impl Iterator<Item = &OperationDeclaration> {
        self.0.iter().map(|operation| &operation.declaration)
    }

    /// All rules that the handlers check.
    pub fn rules(&self) -> impl Iterator<Item = RuleDefault> {
        self.declarations()
            .flat_map(|one| one.rule.iter().chain(&one.other_rules).copied())
    }
}

impl<S: Clone + Send + Sync + 'static> OperationSet<S> {
    /// The routes. A method that a path does not have gets a 405 that lists the others in the order of declaration.
    pub fn router(self, head: HeadRequests) -> Router<S> {
        let mut paths: BTreeMap<&str, (Vec<&str>, MethodRouter<S>)> = BTreeMap::new();
        for Operation {
            declaration,
            handler,
        } in self.0
        {
            let (allow, methods) = paths.entry(declaration.path).or_default();
            allow.extend(declaration.method);
            if declaration.method == Some("GET") && head == HeadRequests::Served {
                allow.push("HEAD");
            }
            let declared = DeclaredOperation {
                rule: declaration.rule.map(|rule| rule.name),
                since: declaration.enforced_since,
                path: declaration.path,
                action: declaration.action,
                has_large_body: declaration.has_large_body && declaration.rule.is_some(),
                body_deadline: declaration.body_deadline,
                is_internal: declaration.path.starts_with("/internal/"),
            };
            *methods = mem::take(methods).merge(handler.route_layer(Extension(declared)));
        }
        let routes = paths.into_iter();
        routes.fold(Router::new(), |router, (path, (allow, methods))| {
            // The names of methods are valid in a header.
            let allow = HeaderValue::try_from(allow.join(", "));
            let allow = allow.unwrap_or_else(|_| HeaderValue::from_static(""));
            let refuse = move || async move { Fault::method_not_allowed(allow) };
            let methods = match head {
                HeadRequests::Refused => methods.on(MethodFilter::HEAD, refuse.clone()),
                HeadRequests::Served => methods,
            };
            router.route(path, methods.fallback(refuse))
        })
    }
}
