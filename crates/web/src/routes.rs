//! The resources of the server.
//!
//! | method and path | answer |
//! |---|---|
//! | `GET /` and the files of the page | the page |
//! | `GET /api/state` | the whole state as JSON |
//! | `GET /api/events` | states as server-sent events |
//! | `POST /api/control` | executes the command in the body, a JSON object; needs the token |
//! | `GET /metrics` | metrics in the text format of Prometheus |

use crate::access::{self, Denied, Token};
use crate::body::{Body, EventStream, Slot};
use crate::owner::{Calls, NoAnswer};
use crate::{Limits, Refused, page};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::time::timeout;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The parts that all connections share.
pub(crate) struct Shared {
    pub(crate) calls: Calls,
    pub(crate) token: Token,
    pub(crate) limits: Limits,
    pub(crate) has_page: bool,
    pub(crate) streams: Arc<AtomicUsize>,
}

impl Shared {
    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let checked = match self.has_page {
            true => access::check(&method, request.headers(), &self.token),
            // Metrics alone contain nothing to protect, and collectors may use any name of the machine.
            false => Ok(()),
        };
        if let Err(denied) = checked {
            let status = match denied {
                Denied::Host | Denied::Origin | Denied::Repeated(_) => StatusCode::FORBIDDEN,
                Denied::NoToken | Denied::WrongToken => StatusCode::UNAUTHORIZED,
            };
            return message(status, &denied.to_string());
        }
        let is_read = access::is_read(&method);
        match path.as_str() {
            "/metrics" if is_read => self.metrics().await,
            "/api/control" if self.has_page && method == Method::POST => self.control(request).await,
            "/api/state" if self.has_page && is_read => match self.calls.state().await {
                Ok(state) => response(StatusCode::OK, JSON, state.into()),
                Err(none) => unavailable(none),
            },
            "/api/events" if self.has_page && method == Method::GET => self.events(),
            path => match page::find(path).filter(|_| self.has_page) {
                Some(file) if is_read => {
                    response(StatusCode::OK, file.media_type, Bytes::from_static(file.content.as_bytes()))
                }
                _ => self.not_found(path),
            },
        }
    }

    fn not_found(&self, path: &str) -> Response<Body> {
        let allowed = match path {
            "/api/control" if self.has_page => "POST",
            "/api/events" if self.has_page => "GET",
            "/metrics" => "GET, HEAD",
            _ if self.has_page && (path == "/api/state" || page::find(path).is_some()) => "GET, HEAD",
            _ if !self.has_page => return message(StatusCode::NOT_FOUND, "the metrics are at /metrics"),
            _ => return message(StatusCode::NOT_FOUND, "the page is at /"),
        };
        let mut refused = message(StatusCode::METHOD_NOT_ALLOWED, &format!("{path} supports {allowed} only"));
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        refused
    }

    async fn metrics(&self) -> Response<Body> {
        match self.calls.metrics().await {
            Ok(Some(text)) => response(StatusCode::OK, METRICS, text.into()),
            Ok(None) => {
                message(StatusCode::NOT_FOUND, "there are no metrics here; `flashlab serve` has some")
            }
            Err(none) => unavailable(none),
        }
    }

    fn events(&self) -> Response<Body> {
        let Some(slot) = Slot::take(&self.streams, self.limits.streams) else {
            let mut refused = message(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open: close some");
            // A client that waits to try again must not hold a connection that a command could use.
            refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return refused;
        };
        let mut answer = response(StatusCode::OK, "text/event-stream", Bytes::new());
        *answer.body_mut() = Body::Events(EventStream::new(self.calls.events.clone(), slot));
        answer
    }

    async fn control(&self, request: Request<Incoming>) -> Response<Body> {
        let is_json = request.headers().get(header::CONTENT_TYPE).is_some_and(|media_type| {
            media_type
                .to_str()
                .is_ok_and(|text| text.split(';').next().is_some_and(|text| text.trim() == JSON))
        });
        if !is_json {
            return message(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a command has the media type application/json",
            );
        }
        let body = Limited::new(request.into_body(), self.limits.body).collect();
        let body = match timeout(self.limits.request, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                let most = self.limits.body;
                return message(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    &format!("a command has at most {most} bytes"),
                );
            }
            Ok(Err(_)) => return message(StatusCode::BAD_REQUEST, "the body of the request is incomplete"),
            Err(_) => {
                return message(StatusCode::REQUEST_TIMEOUT, "the body of the request arrived too slowly");
            }
        };
        let command = match serde_json::from_slice(&body) {
            Ok(command) => command,
            Err(error) => {
                return message(StatusCode::BAD_REQUEST, &format!("the command is not JSON: {error}"));
            }
        };
        match self.calls.execute(command).await {
            Ok(Ok(())) => response(StatusCode::OK, JSON, Bytes::from_static(b"{}")),
            Ok(Err(Refused(why))) => message(StatusCode::UNPROCESSABLE_ENTITY, &why),
            Err(none) => unavailable(none),
        }
    }
}

fn unavailable(none: NoAnswer) -> Response<Body> {
    message(
        StatusCode::SERVICE_UNAVAILABLE,
        match none {
            NoAnswer::Busy => "too many requests wait: try again",
            NoAnswer::Ended => "the server is shutting down",
        },
    )
}

fn message(status: StatusCode, text: &str) -> Response<Body> {
    response(status, TEXT, format!("{text}\n").into())
}

fn response(status: StatusCode, media_type: &'static str, content: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Text(content));
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
