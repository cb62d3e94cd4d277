//! What is refused, and how it is said.

use axum::body::Body;
use http::Request;
use serde_json::json;

use super::service::{HERE, Service};

#[tokio::test]
async fn every_write_is_refused_and_only_operators_see_the_file_name() {
    let service = Service::start();
    let file = service.path("images.toml").display().to_string();
    for (method, path) in [
        ("POST", "/v2/images".to_owned()),
        ("PATCH", format!("/v2/images/{HERE}")),
        ("DELETE", format!("/v2/images/{HERE}")),
        ("PUT", format!("/v2/images/{HERE}/file")),
        ("PUT", format!("/v2/images/{HERE}/stage")),
        ("POST", format!("/v2/images/{HERE}/import")),
        ("POST", format!("/v2/images/{HERE}/members")),
        ("DELETE", format!("/v2/images/{HERE}/members/p")),
        ("PUT", format!("/v2/images/{HERE}/tags/t")),
        ("POST", format!("/v2/images/{HERE}/actions/deactivate")),
    ] {
        for (token, roles) in [
            (Some("admin"), ""),
            (Some("alice"), "member"),
            (Some("alice"), ""),
            (None, ""),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(format!("/image{path}"))
                .header("content-type", "application/octet-stream")
                .header("accept", "application/json");
            let request = match token {
                Some("admin") => request.header("x-auth-token", "admin"),
                Some(token) => request
                    .header("x-auth-token", token)
                    .header("x-roles", roles),
                None => request,
            };
            // More than would be read: an image may be.
            let body = Body::from(vec![0; 1 << 20]);
            let reply = service.send(request.body(body).unwrap()).await;
            let Some(token) = token else {
                assert_eq!(reply.status, 401, "{method} {path}");
                continue;
            };
            assert_eq!(reply.status, 403, "{method} {path}");
            let message = reply.body["message"].as_str().unwrap();
            let (names_file, is_operator) = (message.contains(&file), token == "admin");
            assert_eq!(names_file, is_operator, "{method} {path}: {message}");
            let asks = message.contains("ask the operator");
            assert_eq!(asks, !is_operator, "{method} {path}: {message}");
        }
    }
    let none = Service::without_images();
    let none = none
        .ask("POST", "/v2/images", &[("x-auth-token", "admin")])
        .await;
    assert!(
        none.body["message"]
            .as_str()
            .unwrap()
            .contains("images_file"),
        "{}",
        none.body
    );
}

#[tokio::test]
async fn callers_need_a_token_with_a_role() {
    let service = Service::start();
    let image = format!("/v2/images/{HERE}");
    let file = format!("{image}/file");
    for (path, roles, status) in [
        ("/v2/images", None, 401),
        ("/v2/images", Some(""), 403),
        ("/v2/images", Some("reader"), 200),
        (image.as_str(), Some(""), 403),
        (&image, Some("reader"), 200),
        (&file, Some("reader"), 403),
        (&file, Some("member"), 200),
        (&file, Some("admin"), 200),
    ] {
        let headers = roles.map(|roles| [("x-auth-token", "alice"), ("x-roles", roles)]);
        let headers = headers.as_ref().map_or(&[][..], |headers| &headers[..]);
        let reply = service.ask("GET", path, headers).await;
        assert_eq!(reply.status, status, "{path} by {roles:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_html_if_accepted_and_json_otherwise() {
    let service = Service::start();
    let ask = |accept| {
        let headers = [("x-auth-token", "admin"), ("accept", accept)];
        let service = &service;
        async move { service.ask("GET", "/v2/images/nowhere", &headers).await }
    };
    let json = ask("application/json").await;
    assert_eq!(json.status, 404);
    assert_eq!(
        json.body,
        json!({"message": "No image found with ID nowhere", "code": "404 Not Found", "title": "Not Found"})
    );
    // As OpenStack's client asks.
    let page = ask("*/*").await;
    assert_eq!(page.header("content-type"), "text/html; charset=UTF-8");
    assert!(page.text().contains("No image found with ID nowhere"));
    assert!(page.text().contains("<h1>404 Not Found</h1>"));
    let other = service
        .ask("POST", "/v2/schemas/image", &[("x-auth-token", "admin")])
        .await;
    assert_eq!(
        (other.status.as_u16(), other.header("allow")),
        (405, "GET, HEAD")
    );
    assert_eq!(service.get("/v2/nowhere").await.status, 404);
    assert_eq!(service.get("/v2/images?limit=x").await.status, 400);
}
