//! Probes Placement for the doctor: version, login, role and clock. The probe changes nothing.
//!
//! The typed client logs in and reads; a wrapper records its last exchange. The empty `POST /reshaper` repeats the
//! headers of that read, because no typed call can make a reshape without a proof.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use berth_client::{
    AuthOptions, HttpService, PlacementClient, PlacementError, ServiceCallError, TransportError,
};
use berth_compose::{placement_of_this_host, placement_socket};
use berth_config::Config;
use berth_output::sentence;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};

use super::placement_observation::{Answers, PlacementObservation};

/// The time limit of the whole probe.
const PATIENCE: Duration = Duration::from_secs(15);

/// Probes the Placement of `[placement]`; without one, that of `berth up` on this host.
pub(super) async fn placement(config: &Config) -> PlacementObservation {
    if config.placement.auth_type.is_some() {
        return over_network(&config.placement).await;
    }
    let socket = placement_socket(config);
    if !socket.exists() {
        return PlacementObservation::NotConfigured {
            socket: socket.display().to_string(),
        };
    }
    match placement_of_this_host(config) {
        Ok((http, options)) => match over(http, &options).await {
            PlacementObservation::Answered(answers) => PlacementObservation::Answered(Answers {
                endpoint: socket.display().to_string(),
                ..answers
            }),
            other => other,
        },
        Err(error) => PlacementObservation::NoLogin {
            error: error.explain(),
        },
    }
}

/// Probes over the network.
async fn over_network(options: &AuthOptions) -> PlacementObservation {
    match HttpService::network(&options.transport()) {
        Ok(http) => over(http, options).await,
        Err(error) => PlacementObservation::NoLogin {
            error: sentence(&error),
        },
    }
}

/// Probes through the given HTTP service.
pub(super) async fn over(http: HttpService, options: &AuthOptions) -> PlacementObservation {
    let late = PlacementObservation::Away {
        error: format!("no answer within {} s", PATIENCE.as_secs()),
    };
    tokio::time::timeout(PATIENCE, conversation(http, options))
        .await
        .unwrap_or(late)
}

async fn conversation(http: HttpService, options: &AuthOptions) -> PlacementObservation {
    let watch = ExchangeRecorder::default();
    let options = AuthOptions {
        connect_retries: 0,
        status_code_retries: 0,
        ..options.clone()
    };
    let client =
        match PlacementClient::from_options_over(watch.around(http.clone()), &options, None) {
            Ok(client) => client,
            Err(error) => {
                return PlacementObservation::NoLogin {
                    error: sentence(&error),
                };
            }
        };
    let document = match client.version_document().await {
        Err(PlacementError::Call(ServiceCallError::Auth(error))) => {
            return PlacementObservation::NoLogin {
                error: sentence(&error),
            };
        }
        Err(PlacementError::Call(error)) => {
            return PlacementObservation::Away {
                error: sentence(&error),
            };
        }
        other => other.ok(),
    };
    // A refusal is a result, too: the checks need its status.
    let read = client.resource_classes().await;
    let Some(seen) = watch.last() else {
        return PlacementObservation::Away {
            error: read.err().map(|error| sentence(&error)).unwrap_or_default(),
        };
    };
    let endpoint = seen.uri.to_string().trim_end_matches(READ).to_owned();
    match empty_reshape(&http, &endpoint, &seen.headers).await {
        Ok(reshaper_status) => PlacementObservation::Answered(Answers {
            endpoint,
            date: seen.date,
            highest_minor: document.and_then(|document| document.highest_minor()),
            read_status: seen.status,
            reshaper_status,
        }),
        Err(error) => PlacementObservation::Away {
            error: sentence(&error),
        },
    }
}

async fn empty_reshape(
    http: &HttpService,
    endpoint: &str,
    headers: &HeaderMap,
) -> Result<u16, TransportError> {
    let unsendable = |error: http::Error| TransportError::Unsendable {
        reason: error.to_string(),
    };
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!("{endpoint}/reshaper"))
        .body(Bytes::from_static(b"{}"))
        .map_err(unsendable)?;
    *request.headers_mut() = headers.clone();
    let headers = request.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        "openstack-api-version",
        HeaderValue::from_static("placement 1.30"),
    );
    Ok(http.send(request).await?.status().as_u16())
}

/// The last request and its response.
#[derive(Clone)]
struct LastExchange {
    uri: Uri,
    headers: HeaderMap,
    status: u16,
    date: Option<SystemTime>,
}

/// The path of the read that is recorded.
const READ: &str = "/resource_classes";

/// Records the last exchange of the read, not those with Keystone.
#[derive(Clone, Default)]
struct ExchangeRecorder(Arc<Mutex<Option<LastExchange>>>);

impl ExchangeRecorder {
    fn around(&self, http: HttpService) -> HttpService {
        let watch = self.clone();
        HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let (watch, http) = (watch.clone(), http.clone());
            async move {
                let (uri, headers) = (request.uri().clone(), request.headers().clone());
                let answer: Response<Bytes> = http.send(request).await?;
                let date = answer
                    .headers()
                    .get(header::DATE)
                    .and_then(|date| date.to_str().ok());
                let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
                let exchange = LastExchange {
                    uri,
                    headers,
                    status: answer.status().as_u16(),
                    date,
                };
                if exchange.uri.path().ends_with(READ) {
                    watch.keep(exchange);
                }
                Ok(answer)
            }
        }))
    }

    fn keep(&self, exchange: LastExchange) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(exchange);
    }

    fn last(&self) -> Option<LastExchange> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use berth_client::AuthType;
    use http::StatusCode;

    use super::*;

    /// A Placement that answers each path with the given status, and other paths with 404.
    fn answering(script: &'static [(&str, u16)]) -> HttpService {
        HttpService::new(tower::service_fn(
            move |request: Request<Bytes>| async move {
                let path = request.uri().path().to_owned();
                let token = request.headers().contains_key("x-auth-token");
                let status = script
                    .iter()
                    .find(|(known, _)| *known == path)
                    .map_or(404, |(_, status)| *status);
                let body = match path.as_str() {
                    "/" => {
                        r#"{"versions": [{"id": "v1.0", "max_version": "1.39", "min_version": "1.0"}]}"#
                    }
                    READ => r#"{"resource_classes": []}"#,
                    _ => r#"{"errors": []}"#,
                };
                assert!(path == "/" || token, "{path} was asked without a token");
                let mut answer = Response::new(Bytes::from_static(body.as_bytes()));
                *answer.status_mut() = StatusCode::from_u16(status).unwrap();
                answer.headers_mut().insert(
                    header::DATE,
                    HeaderValue::from_static("Thu, 01 Jan 1970 00:01:00 GMT"),
                );
                Ok(answer)
            },
        ))
    }

    fn options() -> AuthOptions {
        AuthOptions {
            auth_type: Some(AuthType::AdminToken),
            token: Some("secret".into()),
            endpoint_override: Some("http://placement".to_owned()),
            ..AuthOptions::for_service("placement")
        }
    }

    #[tokio::test]
    async fn a_good_placement_refuses_the_empty_reshape_as_empty() {
        let http = answering(&[("/", 200), (READ, 200), ("/reshaper", 400)]);
        let expected = Answers {
            endpoint: "http://placement".to_owned(),
            date: Some(SystemTime::UNIX_EPOCH + Duration::from_mins(1)),
            highest_minor: Some(39),
            read_status: 200,
            reshaper_status: 400,
        };
        assert_eq!(
            over(http, &options()).await,
            PlacementObservation::Answered(expected)
        );
    }

    #[tokio::test]
    async fn refusals_are_answers() {
        let http = answering(&[("/", 200), (READ, 401), ("/reshaper", 403)]);
        let PlacementObservation::Answered(answers) = over(http, &options()).await else {
            panic!("not answered")
        };
        assert_eq!((answers.read_status, answers.reshaper_status), (401, 403));
    }

    #[tokio::test]
    async fn a_refused_connection_is_away() {
        let http = HttpService::new(tower::service_fn(|_: Request<Bytes>| async {
            Err(TransportError::Closed {
                reason: "nobody".to_owned(),
            })
        }));
        assert!(
            matches!(over(http, &options()).await, PlacementObservation::Away { error } if error.contains("nobody"))
        );
    }

    #[tokio::test]
    async fn without_a_login_and_a_socket_no_request_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.agent.admin_socket = folder.path().join("agent.sock");
        let seen = placement(&config).await;
        assert!(
            matches!(&seen, PlacementObservation::NotConfigured { socket } if socket.ends_with("placement.sock")),
            "{seen:?}"
        );
    }
}
