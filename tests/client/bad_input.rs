//! Whatever comes back, a call ends within its deadline in a typed error that names the URL and no
//! secret, and no more of it is read than fits the limit.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use mainstay::client::{Client, Error, ListOptions, POD, WatchOptions};

use crate::raw_server::{DEADLINE, SECRET, Says, client, serve};

/// Largest object, and largest frame of a watch.
const LIMIT: usize = 16 << 20;
/// What two sockets' buffers may hold beyond it.
const BUFFERS: usize = 16 << 20;

#[derive(Clone, Copy)]
enum Verb {
    Get,
    List,
    Watch,
}

impl Verb {
    async fn call(self, client: &Client) -> Error {
        match self {
            Self::Get => {
                let got: Result<Pod, Error> = client.get(POD, Some("ns"), "a").await;
                got.expect_err("an error")
            }
            Self::List => {
                let options = ListOptions {
                    label_selector: Some(format!("a={SECRET}")),
                    ..ListOptions::default()
                };
                client
                    .list::<serde_json::Value>(POD, Some("ns"), &options)
                    .await
                    .unwrap_err()
            }
            Self::Watch => {
                let options = WatchOptions::default();
                match client.watch(POD, Some("ns"), &options).await {
                    Err(error) => error,
                    Ok(mut watch) => watch
                        .next::<serde_json::Value>()
                        .await
                        .expect("a frame")
                        .unwrap_err(),
                }
            }
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Get => "/api/v1/namespaces/ns/pods/a",
            Self::List | Self::Watch => "/api/v1/namespaces/ns/pods",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Decode,
    Unavailable(Option<u16>),
    Timeout,
}

fn kind(error: &Error) -> Option<Kind> {
    match error {
        Error::Decode { .. } => Some(Kind::Decode),
        Error::Unavailable { code, .. } => Some(Kind::Unavailable(*code)),
        Error::Timeout { .. } => Some(Kind::Timeout),
        _ => None,
    }
}

/// A whole answer with this body.
fn body(status: &str, headers: &str, body: &[u8]) -> Says {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n");
    Says::Bytes([head.as_bytes(), body].concat())
}

fn ok(text: impl AsRef<[u8]>) -> Says {
    body(
        "200 OK",
        "content-type: application/json\r\n",
        text.as_ref(),
    )
}

fn bytes(text: &str) -> Says {
    Says::Bytes(text.as_bytes().to_vec())
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// A chunk of `size` times `byte`.
fn chunk(size: usize, byte: u8) -> Vec<u8> {
    [
        format!("{size:x}\r\n").into_bytes(),
        vec![byte; size],
        b"\r\n".to_vec(),
    ]
    .concat()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const SIGN_IN: &str = "<!DOCTYPE html>\n<html><h1>Sign in</h1></html>";
const BROKEN: Kind = Kind::Unavailable(None);

/// A name, what is asked, what comes back, which error that is, and words in it.
type Line = (&'static str, Verb, Says, Kind, &'static str);

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn table() -> Vec<Line> {
    use Kind::{Decode, Timeout, Unavailable};
    use Verb::{Get, List, Watch};
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"metadata\":";
    let huge = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n{";
    let flood = || Says::Flood(CHUNKED.into(), chunk(1 << 20, b' '));
    let trickle = || Says::Trickle(CHUNKED.into(), chunk(1, b' '));
    let location = |code: &str| {
        let headers = format!("location: http://127.0.0.1:1/?token={SECRET}\r\n");
        body(code, &headers, b"")
    };
    let html = || body("200 OK", "content-type: text/html\r\n", SIGN_IN.as_bytes());
    vec![
        ("cut by its length", Get, bytes(short), BROKEN, "broke off"),
        (
            "cut within a chunk",
            Get,
            bytes(&format!("{CHUNKED}9\r\n{{")),
            BROKEN,
            "broke off",
        ),
        (
            "cut JSON",
            Get,
            ok("{\"metadata\":{\"na"),
            Decode,
            "at byte 15",
        ),
        (
            "said to be huge",
            Get,
            bytes(huge),
            Decode,
            "larger than 16777216 bytes",
        ),
        (
            "without end",
            Get,
            flood(),
            Decode,
            "larger than 16777216 bytes",
        ),
        (
            "without end, slowly",
            Get,
            trickle(),
            Timeout,
            "no answer within 1s",
        ),
        (
            "a head without end",
            Get,
            Says::Flood("HTTP/1.1 200 OK\r\n".into(), b"a: b\r\n".repeat(9000)),
            BROKEN,
            "message head is too large",
        ),
        ("a number", Get, ok("7"), Decode, "not JSON but"),
        ("a text", Get, ok("\"a\""), Decode, "not JSON but"),
        (
            "an array",
            Get,
            ok("[1]"),
            Decode,
            "can't decode v1 Pod ns/a",
        ),
        (
            "a field of another type",
            Get,
            ok("{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":7}}"),
            Decode,
            "at byte",
        ),
        (
            "deeper than any object",
            Get,
            ok("{\"a\":".repeat(1000)),
            Decode,
            "EOF while parsing",
        ),
        ("nothing", Get, ok(""), Decode, "not JSON but \"\""),
        (
            "Latin-1",
            Get,
            ok(b"{\"a\":\"\xe9\"}"),
            Decode,
            "not UTF-8 after byte 6",
        ),
        (
            "UTF-16",
            Get,
            ok(utf16("{\"a\":\"\u{e9}\"}")),
            Decode,
            "not UTF-8",
        ),
        (
            "compressed",
            Get,
            ok(b"\x1f\x8b\x08\0\0\0\0\0\0\xff"),
            Decode,
            "not UTF-8 after byte 1",
        ),
        (
            "301",
            Get,
            location("301 Moved"),
            Unavailable(Some(301)),
            "redirects are not followed",
        ),
        (
            "302",
            List,
            location("302 Found"),
            Unavailable(Some(302)),
            "redirects are not followed",
        ),
        (
            "307",
            Watch,
            location("307 Temporary"),
            Unavailable(Some(307)),
            "is the server URL right?",
        ),
        (
            "a page",
            Get,
            html(),
            Decode,
            "not JSON but \"<!DOCTYPE html> <html><h1>Sign in",
        ),
        ("a page for a list", List, html(), Decode, "not JSON but"),
        (
            "a page for a watch",
            Watch,
            html(),
            Decode,
            "a watch frame is no event",
        ),
        (
            "a page with 502",
            Get,
            body("502 Bad Gateway", "", SIGN_IN.as_bytes()),
            Unavailable(Some(502)),
            "<h1>Sign in",
        ),
        (
            "a list without items of use",
            List,
            ok("{\"metadata\":{},\"items\":{}}"),
            Decode,
            "expected a sequence",
        ),
        (
            "a list of nothing known",
            List,
            ok("{}"),
            Decode,
            "missing field `metadata`",
        ),
        (
            "a line without end",
            Watch,
            Says::Flood(CHUNKED.into(), chunk(1 << 20, b'a')),
            Decode,
            "larger than 16777216 bytes",
        ),
        (
            "a frame in Latin-1",
            Watch,
            ok(b"{\"type\":\"\xe9\"}\n"),
            Decode,
            "not UTF-8 after byte 9",
        ),
        (
            "a frame of its own kind",
            Watch,
            ok("{\"type\":\"NEWS\",\"object\":{}}\n"),
            Decode,
            "unknown watch event \"NEWS\"",
        ),
        (
            "another protocol",
            Get,
            bytes("SSH-2.0-OpenSSH_9.2\r\n"),
            BROKEN,
            "invalid HTTP version",
        ),
        (
            "silence, then the end",
            Get,
            bytes(""),
            BROKEN,
            "connection closed",
        ),
    ]
}

/// What is wrong with what one line of the table gives.
async fn problems(line: Line) -> Vec<String> {
    let (name, verb, says, expected, words) = line;
    let (address, counts) = serve(says).await;
    let client = client(&format!("http://{address}"), None).await;
    let started = Instant::now();
    let call = tokio::time::timeout(Duration::from_secs(20), verb.call(&client));
    let Ok(error) = call.await else {
        return vec![format!("{name}: it hangs")];
    };
    let (message, took) = (error.to_string(), started.elapsed());
    let url = format!("http://{address}{}", verb.path());
    let requests = counts.requests.load(Ordering::SeqCst);
    let written = counts.written.load(Ordering::SeqCst);
    let redirected = matches!(expected, Kind::Unavailable(Some(301..=308)));
    let promises = [
        (kind(&error) == Some(expected), "of another kind"),
        (message.contains(&url), "names no URL"),
        (message.contains(words), "says something else"),
        (!message.contains(SECRET), "tells a secret"),
        (message.len() < 2000, "is long"),
        (written < LIMIT + BUFFERS, "and too much was read"),
        // A flood takes the time that the machine needs for it.
        (took < DEADLINE * 3 || written > LIMIT, "came late"),
        (requests == 1 || !redirected, "and was followed"),
    ];
    let broken = promises.into_iter().filter(|(kept, _)| !kept);
    broken
        .map(|(_, problem)| format!("{name}: {problem}: {message} ({took:?}, {written} bytes)"))
        .collect()
}

#[tokio::test]
async fn whatever_comes_back_is_a_typed_error_that_names_the_url_and_no_secret() {
    let mut all = Vec::new();
    for line in table() {
        all.extend(problems(line).await);
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[tokio::test]
async fn k34938_an_odd_retry_after_is_capped_or_nothing() {
    for (value, expected, asked) in [
        ("-5", None, 2..9),
        ("soon", None, 2..9),
        ("99999999999999999999999", Some(30), 1..2),
        ("Fri, 21 Oct 2095 07:28:00 GMT", Some(30), 1..2),
        ("Wed, 21 Oct 2015 07:28:00 GMT", Some(0), 2..9),
    ] {
        let headers = format!("retry-after: {value}\r\n");
        let (address, counts) = serve(body("429 Too Many Requests", &headers, b"")).await;
        let client = client(&format!("http://{address}"), None).await;
        let started = Instant::now();
        let error = Verb::Get.call(&client).await;
        let Error::TooManyRequests { retry_after, .. } = error else {
            panic!("{value}: {error}");
        };
        assert_eq!(retry_after, expected.map(Duration::from_secs), "{value}");
        assert!(started.elapsed() < DEADLINE * 3, "{value}");
        let requests = counts.requests.load(Ordering::SeqCst);
        assert!(asked.contains(&requests), "{value}: {requests} requests");
    }
}
