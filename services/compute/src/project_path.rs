//! Paths with a project, `/v2.1/{project_id}/servers`, as a catalog URL with `%(project_id)s` produces them. The
//! project is removed before routing and must be the caller's own.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use berth_http::fields::bounded;
use berth_http::{Caller, Fault};
use http::Uri;
use http::uri::PathAndQuery;

const VERSION: &str = "/v2.1/";

/// The path segments that may follow the version directly.
type Nouns = Arc<BTreeSet<&'static str>>;

/// The project that a path names.
#[derive(Clone)]
struct ProjectOfPath(String);

/// Removes the project from paths before they reach the router.
pub(crate) fn without_projects(router: Router, routes: Vec<&'static str>) -> Router {
    let nouns = routes
        .into_iter()
        .filter_map(|path| noun(path.strip_prefix(VERSION)?));
    let nouns: Nouns = Arc::new(nouns.collect());
    // A layer of the router itself would run after the route lookup.
    Router::new()
        .fallback_service(router)
        .layer(from_fn_with_state(nouns, take_out))
}

fn noun(rest: &str) -> Option<&str> {
    rest.split('/').next().filter(|noun| !noun.is_empty())
}

async fn take_out(State(nouns): State<Nouns>, mut request: Request, next: Next) -> Response {
    if let Some((project, uri)) = taken_out(request.uri(), &nouns) {
        *request.uri_mut() = uri;
        request.extensions_mut().insert(ProjectOfPath(project));
    }
    next.run(request).await
}

/// Splits a path into its project and the rest; `None` if it names no project.
fn taken_out(uri: &Uri, nouns: &BTreeSet<&'static str>) -> Option<(String, Uri)> {
    let (project, rest) = uri.path().strip_prefix(VERSION)?.split_once('/')?;
    if project.is_empty() || nouns.contains(project) || !nouns.contains(noun(rest)?) {
        return None;
    }
    let text = match uri.query() {
        None => format!("{VERSION}{rest}"),
        Some(query) => format!("{VERSION}{rest}?{query}"),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    Some((project.to_owned(), Uri::from_parts(parts).ok()?))
}

/// Behind the door: a path with another project than the caller's is refused.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    let extensions = request.extensions();
    let caller = extensions.get::<Caller>().and_then(Caller::project_id);
    if let Some(ProjectOfPath(named)) = extensions.get::<ProjectOfPath>()
        && caller != Some(named.as_str())
    {
        let sentence = format!(
            "Malformed request URL: URL's project_id '{}' doesn't match Context's project_id '{}'",
            bounded(named),
            caller.unwrap_or("None"),
        );
        return Fault::bad_request(sentence).into_response();
    }
    next.run(request).await
}
