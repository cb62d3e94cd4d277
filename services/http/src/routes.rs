//! The methods of one path, and the 405 of all others.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::fault::Fault;

/// The methods of one path. Others, HEAD among them, are told which there are.
pub struct Methods<S> {
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

impl<S: Clone + Send + Sync + 'static> Methods<S> {
    /// `allow` is what the 405 says: the methods that follow, as a header writes them.
    #[must_use]
    pub fn new(allow: &'static str) -> Self {
        let refused = move || async move { Fault::method_not_allowed(allow) };
        Self {
            methods: on(MethodFilter::HEAD, refused),
            allow,
        }
    }

    /// As [`Methods::new`], where HEAD is a GET whose body is left out.
    #[must_use]
    pub fn with_head(allow: &'static str) -> Self {
        Self {
            methods: MethodRouter::new(),
            allow,
        }
    }

    /// What the 405 says: `GET, PUT` for instance.
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
    pub fn done(self) -> MethodRouter<S> {
        let allow = self.allow;
        self.methods
            .fallback(move || async move { Fault::method_not_allowed(allow) })
    }
}
