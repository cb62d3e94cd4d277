//! The image service, asked over the network.

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use berth_client::{
    AdapterOptions, Auth, Disposition, DownloadError, Downloads, HttpService, ImageClient,
    ImageError, Secret, TransportError, TransportOptions,
};
use uuid::Uuid;

const IMAGE: &str = "11111111-2222-4333-8444-555555555555";

async fn serving(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://127.0.0.1:{port}")
}

fn downloads() -> Downloads {
    Downloads::network(&TransportOptions::default(), Duration::from_secs(5)).unwrap()
}

fn client(endpoint: &str) -> ImageClient {
    let http = HttpService::network(&TransportOptions::default()).unwrap();
    let auth = Auth::admin_token(endpoint, &Secret::from("token")).unwrap();
    ImageClient::new(http, downloads(), auth, &AdapterOptions::default())
}

fn in_process(router: Router) -> ImageClient {
    let downloads = Downloads::in_process::<_, axum::body::Body, _>(router.clone());
    let http = HttpService::in_process::<_, axum::body::Body, _>(router, 1 << 20);
    let auth = Auth::admin_token("http://image", &Secret::from("token")).unwrap();
    ImageClient::new(http, downloads, auth, &AdapterOptions::default())
}

#[tokio::test]
async fn an_image_and_its_bytes_are_asked_for_with_the_token() {
    let let_in = |headers: &HeaderMap| {
        headers
            .get("x-auth-token")
            .is_some_and(|token| token == "token")
    };
    let record = move |headers: HeaderMap| async move {
        match let_in(&headers) {
            true => format!(
                r#"{{"id": "{IMAGE}", "status": "active", "disk_format": "raw", "container_format": "bare", "size": 3,
                    "os_hash_algo": "sha512", "os_hash_value": "00", "tags": [], "visibility": "public", "name": "a",
                    "protected": false, "virtual_size": null, "self": "/v2/images/a", "owner_specified.x": 7,
                    "created_at": "2026-01-01T00:00:00Z", "hw_cpu_policy": "dedicated", "trait:CUSTOM_A": "required"}}"#
            )
            .into_response(),
            false => StatusCode::UNAUTHORIZED.into_response(),
        }
    };
    let file = move |headers: HeaderMap| async move {
        match let_in(&headers) {
            true => "abc".into_response(),
            false => StatusCode::UNAUTHORIZED.into_response(),
        }
    };
    let router = Router::new()
        .route(&format!("/v2/images/{IMAGE}"), get(record))
        .route(&format!("/v2/images/{IMAGE}/file"), get(file));
    let endpoint = serving(router.clone()).await;
    for client in [client(&endpoint), in_process(router)] {
        is_asked_with_the_token(client).await;
    }
}

async fn is_asked_with_the_token(client: ImageClient) {
    let image: Uuid = IMAGE.parse().unwrap();
    let record = client.image(image).await.unwrap().unwrap();
    assert_eq!((record.status.as_str(), record.size), ("active", Some(3)));
    let properties = [
        ("hw_cpu_policy", "dedicated"),
        ("trait:CUSTOM_A", "required"),
    ];
    let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(record.properties, properties.into());
    let mut body = client.file(image).await.unwrap();
    assert_eq!(body.length(), Some(3));
    let mut bytes = Vec::new();
    while let Some(piece) = body.piece().await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(bytes, b"abc");
    assert_eq!(client.image(Uuid::nil()).await.unwrap(), None);
    let error = client.file(Uuid::nil()).await.err().unwrap();
    assert!(error.to_string().contains("the answer is 404"), "{error}");
    assert_eq!(error.disposition(), Disposition::Fatal);
}

#[tokio::test]
async fn a_refusal_and_an_answer_that_is_no_image_are_distinguished() {
    let endpoint = serving(
        Router::new()
            .route(
                &format!("/v2/images/{IMAGE}"),
                get(|| async { (StatusCode::FORBIDDEN, "<html>no</html>") }),
            )
            .route(
                "/v2/images/00000000-0000-0000-0000-000000000000",
                get(|| async { "[]" }),
            ),
    )
    .await;
    let client = client(&endpoint);
    let refused = client.image(IMAGE.parse().unwrap()).await.unwrap_err();
    assert!(matches!(refused, ImageError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("[glance]"), "{refused}");
    let malformed = client.image(Uuid::nil()).await.unwrap_err();
    assert!(
        malformed.to_string().contains("is not an image"),
        "{malformed}"
    );
}

#[tokio::test]
async fn a_redirect_is_followed_to_the_web_and_nowhere_else() {
    let redirect =
        |to: &'static str| get(move || async move { (StatusCode::FOUND, [("location", to)]) });
    let endpoint = serving(
        Router::new()
            .route("/whole", get(|| async { "whole" }))
            .route("/near", redirect("whole"))
            .route("/file", redirect("file:///etc/passwd"))
            .route("/round", redirect("/round"))
            .route("/secret", redirect("http://user:S3KR1T@127.0.0.1:1/x"))
            .route("/nowhere", get(|| async { StatusCode::FOUND })),
    )
    .await;
    let ask = async |path: &str| downloads().get(&format!("{endpoint}{path}")).await;
    let mut near = ask("/near").await.unwrap();
    assert_eq!(near.piece().await.unwrap().unwrap(), "whole");
    for (path, sentence) in [
        ("/file", "file:///etc/passwd: only http and https"),
        ("/round", "five are followed"),
        ("/nowhere", "no Location"),
    ] {
        let error = ask(path).await.err().unwrap();
        assert!(error.to_string().contains(sentence), "{path}: {error}");
        assert!(!error.is_passing());
    }
    let secret = ask("/secret").await.err().unwrap().to_string();
    assert!(secret.contains("127.0.0.1:1"), "{secret}");
    assert!(!secret.contains("S3KR1T"), "{secret}");
    let closed = downloads().get("http://127.0.0.1:1/").await.err().unwrap();
    let refused = DownloadError::Transport(TransportError::Refused {
        peer: "127.0.0.1:1".to_owned(),
    });
    assert_eq!(closed, refused);
}
