//! NBD URIs, as uri.md specifies them.

use flashlab_nbd::uri::{PORT, Transport, Uri, UriErrorKind};
use proptest::prelude::*;

fn tcp(host: &str, port: u16) -> Transport {
    Transport::Tcp { host: host.into(), port }
}

fn unix(socket: &[u8]) -> Transport {
    Transport::Unix { socket: socket.to_vec() }
}

/// "NBD URI export name": the table of examples.
#[test]
fn the_path_without_its_first_slash_is_the_export() {
    for (text, export) in [
        ("nbd://example.com/disk", "disk"),
        ("nbd+unix:///disk?socket=sock", "disk"),
        ("nbd://example.com/", ""),
        ("nbd://example.com", ""),
        ("nbd://example.com//disk", "/disk"),
        ("nbd://example.com/hello%20world", "hello world"),
        ("nbd://example.com/%C3%A9/%2F", "é//"),
    ] {
        assert_eq!(Uri::parse(text).unwrap().export, export, "{text}");
    }
}

#[test]
fn schemes_select_transport_and_encryption() {
    for (text, transport, tls) in [
        ("nbd://h", tcp("h", PORT), false),
        ("NBDS://h:1", tcp("h", 1), true),
        ("nbd://h:", tcp("h", PORT), false),
        ("nbd://[::1]:10810/x", tcp("::1", 10810), false),
        ("nbd://[fe80::1]", tcp("fe80::1", PORT), false),
        ("nbd:///x", tcp("", PORT), false),
        ("nbd+unix:///?socket=/a/b", unix(b"/a/b"), false),
        ("nbd+unix://?socket=/a/b", unix(b"/a/b"), false),
        ("nbd+unix:?socket=/a/b", unix(b"/a/b"), false),
        ("nbds+unix:///?tls-type=x509&socket=a%26b", unix(b"a&b"), true),
        ("nbd+unix:///?socket=%00/abstract", unix(b"\0/abstract"), false),
        ("nbd+vsock://3:7/x", Transport::Vsock { cid: 3, port: 7 }, false),
        ("nbds+vsock:///x", Transport::Vsock { cid: 2, port: 10809 }, true),
    ] {
        let uri = Uri::parse(text).unwrap();
        assert_eq!((uri.transport, uri.tls), (transport, tls), "{text}");
    }
}

#[test]
fn tls_and_experimental_parameters_are_stored() {
    let uri =
        Uri::parse("nbds://me@h/?tls-hostname=a.b&tls-verify-peer=0&x-why=no&tls-certificates=/c").unwrap();
    assert_eq!(uri.user.as_deref(), Some("me"));
    assert_eq!(uri.tls_hostname.as_deref(), Some("a.b"));
    assert_eq!(uri.tls_verify_peer, Some(false));
    assert_eq!(uri.tls_certificates.as_deref(), Some("/c"));
    assert_eq!(uri.experimental, [("x-why".to_string(), "no".to_string())]);
}

#[test]
fn errors_have_a_position() {
    let value = |parameter, expected| UriErrorKind::Value { parameter, expected };
    for (text, at, kind) in [
        ("disk.img", 0, UriErrorKind::NoScheme),
        ("http://x", 0, UriErrorKind::Scheme("http".into())),
        ("nbd://h/a%2", 9, UriErrorKind::Percent),
        ("nbd://h/a%é", 9, UriErrorKind::Percent),
        ("nbd://h/a b", 9, UriErrorKind::Character(' ')),
        ("nbd://h/a#b", 9, UriErrorKind::Character('#')),
        ("nbd://ä/€ b", 9, UriErrorKind::Character(' ')),
        ("nbd+unix:///€", 13, UriErrorKind::NoSocket),
        ("nbd://h/%FF", 8, UriErrorKind::NotText),
        ("nbd://h/a%00", 8, UriErrorKind::NotText),
        ("nbd://h:65536/", 8, UriErrorKind::Port("65536".into())),
        ("nbd://h:+1/", 8, UriErrorKind::Port("+1".into())),
        ("nbd://[::1/", 6, UriErrorKind::Bracket),
        ("nbd://[::1]1/", 11, UriErrorKind::Port("1".into())),
        ("nbd+vsock://x/", 12, UriErrorKind::Cid("x".into())),
        ("nbd+unix:///x", 13, UriErrorKind::NoSocket),
        ("nbd+unix://h/x?socket=s", 11, UriErrorKind::Host),
        ("nbd://h/?socket=s", 9, UriErrorKind::SocketParameter),
        ("nbd://h/?tls-typo=s", 9, UriErrorKind::Parameter("tls-typo".into())),
        ("nbd+unix:///?socket=s&socket=t", 22, UriErrorKind::Duplicate("socket".into())),
        ("nbds://h/?tls-type=rot13", 19, value("tls-type", "anon, x509 or psk")),
        ("nbds://h/?tls-verify-peer=yes", 26, value("tls-verify-peer", "0 or 1")),
    ] {
        let error = Uri::parse(text).unwrap_err();
        assert_eq!((error.at, error.kind.clone()), (at, kind), "{text}: {error}");
    }
}

fn uris() -> impl Strategy<Value = Uri> {
    let transport = prop_oneof![
        ("[a-z0-9.:%é-]{0,12}", any::<u16>()).prop_map(|(host, port)| Transport::Tcp { host, port }),
        prop::collection::vec(any::<u8>(), 1..20).prop_map(|socket| Transport::Unix { socket }),
        (any::<u32>(), any::<u32>()).prop_map(|(cid, port)| Transport::Vsock { cid, port }),
    ];
    let text = || prop::option::of("[^\0]{0,8}");
    let experimental = prop::collection::vec(("x-[a-z&=?]{0,5}", "[^\0]{0,8}"), 0..3);
    (transport, any::<bool>(), text(), "[^\0]{0,20}", text(), prop::option::of(any::<bool>()), experimental)
        .prop_map(|(transport, tls, user, export, tls_hostname, tls_verify_peer, experimental)| Uri {
            transport,
            tls,
            user,
            export,
            tls_type: None,
            tls_hostname: tls_hostname.clone(),
            tls_verify_peer,
            tls_certificates: tls_hostname,
            experimental,
        })
}

proptest! {
    #[test]
    fn a_written_uri_parses_to_the_same_uri(uri in uris()) {
        prop_assert_eq!(Uri::parse(&uri.to_string()), Ok(uri));
    }

    #[test]
    fn random_text_never_panics(text in "(nbds?(\\+unix|\\+vsock)?:(//)?)?[\\PC\\[\\]%/?&=:@0-9]{0,40}") {
        if let Err(error) = Uri::parse(&text) {
            prop_assert!(error.at <= text.chars().count());
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
