//! The methods of one path; all other methods get a 405.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::HeaderValue;

use crate::fault::Fault;

/// The methods of one path. All others, including HEAD, get a 405 that lists the allowed ones.
pub struct RouteMethods<S> {
    methods: MethodRouter<S>,
    allow: &'static str,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $filter:ident),*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name<H, T>(mut self, handler: H) -> Self
            where
                H: Handler<T, S>,
                T: 'static,
            {
                self.methods = self.methods.on(MethodFilter::$filter, handler);
                self
            }
        )*
    };
}

impl<S: Clone + Send + Sync + 'static> RouteMethods<S> {
    /// `allow` is the value of the `allow` header of a 405: the methods that are added next.
    #[must_use]
    pub fn new(allow: &'static str) -> Self {
        let refused =
            move || async move { Fault::method_not_allowed(HeaderValue::from_static(allow)) };
        Self {
            methods: on(MethodFilter::HEAD, refused),
            allow,
        }
    }

    /// Like [`RouteMethods::new`], but HEAD is a GET without its body.
    #[must_use]
    pub fn with_head(allow: &'static str) -> Self {
        Self {
            methods: MethodRouter::new(),
            allow,
        }
    }

    /// The value of the `allow` header, such as `GET, PUT`.
    #[must_use]
    pub fn allow(&self) -> &'static str {
        self.allow
    }

    methods!(
        get = GET,
        post = POST,
        put = PUT,
        patch = PATCH,
        delete = DELETE
    );

    /// The path, ready for a router.
    pub fn build(self) -> MethodRouter<S> {
        let allow = self.allow;
        self.methods.fallback(move || async move {
            Fault::method_not_allowed(HeaderValue::from_static(allow))
        })
    }
}
