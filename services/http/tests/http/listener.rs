//! What a service learns about its client, over a real connection: with and without a trusted proxy.

use axum::Router;
use axum::extract::Request;
use berth_http::{HttpListener, TrustedProxies, client_address, serve_tcp};
use berth_options::{Json, OptionType as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The address of the client and the scheme of links, as a handler sees them.
async fn seen(request: Request) -> String {
    let scheme = request.headers().get("x-forwarded-proto");
    let scheme = scheme.map_or("none", |it| it.to_str().unwrap());
    let address = client_address(request.extensions()).unwrap();
    let forwarded = request.headers().contains_key("x-forwarded-for");
    format!("{address} {scheme} {forwarded}")
}

/// The answer to a request with the headers of a proxy, from a listener that trusts these.
async fn answer(proxies: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let proxies = TrustedProxies::read(&Json::from(proxies)).unwrap();
    let listener = HttpListener::from(listener).with_trusted_proxies(proxies);
    let router = Router::new().fallback(seen);
    let serving = tokio::spawn(serve_tcp(listener, router, std::future::pending()));
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = "GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\nx-forwarded-for: 127.0.0.1, 203.0.113.9\r\n\
                   x-forwarded-proto: https\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    serving.abort();
    answer.rsplit("\r\n").next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn only_a_trusted_proxy_names_the_client_of_a_request() {
    assert_eq!(answer(&[]).await, "127.0.0.1 none false");
    assert_eq!(answer(&["192.0.2.5"]).await, "127.0.0.1 none false");
    assert_eq!(answer(&["127.0.0.0/8"]).await, "203.0.113.9 https false");
}
