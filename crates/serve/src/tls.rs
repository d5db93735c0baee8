//! Authentication under TLS: certificates and keys in a directory, with the file names of nbdkit and libnbd.
//!
//! A server reads `server-cert.pem` and `server-key.pem`, and `ca-cert.pem` if it requires client certificates. A
//! client reads `ca-cert.pem` to verify the server, and `client-cert.pem` and `client-key.pem` if they exist. The
//! session implements the protocol's part (`NBD_OPT_STARTTLS`), and [`Link`](crate::link) encrypts the bytes.
//!
//! This module does not support pre-shared keys, anonymous TLS or certificate revocation lists.

pub(crate) use crate::secure::Secure;
use flashlab_block::read_whole;
use flashlab_nbd::server;
use flashlab_nbd::uri::{Transport, Uri};
pub(crate) use rustls::Connection;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme,
};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a certificate file in bytes. A system's complete list of trusted certificates has about 200 KB.
const PEM_BYTES_MAX: u64 = 16 << 20;

/// Use of TLS by clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// TLS is optional.
    On,
    /// TLS is required.
    Require,
}

/// TLS configuration of a server.
#[derive(Clone, Debug)]
pub struct Tls {
    mode: TlsMode,
    config: Arc<ServerConfig>,
}

/// Reason why TLS cannot be set up.
#[derive(Debug)]
pub enum TlsError {
    /// A certificate or key cannot be read.
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        error: pem::Error,
    },
    /// A certificate or key is unusable.
    Use {
        /// The directory.
        folder: PathBuf,
        /// The error.
        error: rustls::Error,
    },
    /// The certificates of the certificate authority are unusable.
    Authority {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// The URI requires a type of authentication other than certificates.
    Kind(String),
    /// The URI names no directory with the certificate of the authority.
    NoCertificates,
    /// The expected name of the server is not a valid certificate name.
    Name(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File { path, error } => write!(f, "{}: {error}", path.display()),
            TlsError::Use { folder, error } => write!(f, "{}: {error}", folder.display()),
            TlsError::Authority { path, why } => write!(f, "{}: {why}", path.display()),
            TlsError::Kind(kind) => write!(f, "tls-type={kind} is not supported; only x509 is"),
            TlsError::NoCertificates => f.write_str(
                "TLS needs a folder with ca-cert.pem: add tls-certificates=DIR to the URI, or tls-verify-peer=0 to trust any server",
            ),
            TlsError::Name(name) => {
                write!(f, "{name:?} is not a valid name in a certificate; give tls-hostname=NAME")
            }
        }
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// Loads the certificate and key in `folder`. With `verify_peer`, clients have to present a certificate of the
    /// authority in `ca-cert.pem`.
    pub fn new(folder: &Path, mode: TlsMode, verify_peer: bool) -> Result<Tls, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("ring has what TLS 1.2 and 1.3 need");
        let builder = if verify_peer {
            let path = folder.join("ca-cert.pem");
            let roots = Arc::new(roots(&path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| authority(&path, &error))?)
        } else {
            builder.with_no_client_auth()
        };
        let (chain, key) = identity(folder, "server")?;
        let config = builder.with_single_cert(chain, key);
        let config = config.map_err(|error| TlsError::Use { folder: folder.to_owned(), error })?;
        Ok(Tls { mode, config: Arc::new(config) })
    }

    /// Returns the mode: optional or required.
    pub fn mode(&self) -> TlsMode {
        self.mode
    }

    pub(crate) fn policy(&self) -> server::Tls {
        match self.mode {
            TlsMode::On => server::Tls::On,
            TlsMode::Require => server::Tls::Require,
        }
    }

    /// Returns the server's end of a TLS connection.
    pub(crate) fn accept(&self) -> Connection {
        ServerConnection::new(self.config.clone()).expect("the settings were checked before").into()
    }
}

/// Returns the client's end of a TLS connection to `uri`.
pub(crate) fn client(uri: &Uri) -> Result<Connection, TlsError> {
    if let Some(kind) = uri.tls_type.as_deref().filter(|kind| *kind != "x509") {
        return Err(TlsError::Kind(kind.to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring has what TLS 1.2 and 1.3 need");
    let folder = uri.tls_certificates.as_ref().map(Path::new);
    let builder = match (folder, uri.tls_verify_peer) {
        (_, Some(false)) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider())))
        }
        (None, _) => return Err(TlsError::NoCertificates),
        (Some(folder), _) => {
            let path = folder.join("ca-cert.pem");
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots(&path)?), provider()).build();
            builder.with_webpki_verifier(verifier.map_err(|error| authority(&path, &error))?)
        }
    };
    let unusable = |error| TlsError::Use { folder: folder.unwrap_or(Path::new("")).to_owned(), error };
    let config = match folder.filter(|folder| folder.join("client-cert.pem").exists()) {
        Some(folder) => {
            let (chain, key) = identity(folder, "client")?;
            builder.with_client_auth_cert(chain, key).map_err(unusable)?
        }
        None => builder.with_no_client_auth(),
    };
    let name = match (&uri.tls_hostname, &uri.transport) {
        (Some(name), _) => name.clone(),
        (None, Transport::Tcp { host, .. }) if !host.is_empty() => host.clone(),
        _ => "localhost".to_owned(),
    };
    let server = ServerName::try_from(name.clone()).map_err(|_| TlsError::Name(name))?;
    Ok(ClientConnection::new(Arc::new(config), server).map_err(unusable)?.into())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError::Authority { path: path.to_owned(), why: error.to_string() })?;
    }
    Ok(roots)
}

fn authority(path: &Path, error: &VerifierBuilderError) -> TlsError {
    let why = match error {
        VerifierBuilderError::NoRootAnchors => "the file contains no certificate".to_owned(),
        error => error.to_string(),
    };
    TlsError::Authority { path: path.to_owned(), why }
}

fn identity(
    folder: &Path,
    role: &str,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(&folder.join(format!("{role}-cert.pem")))?;
    let path = folder.join(format!("{role}-key.pem"));
    let key = PrivateKeyDer::from_pem_slice(&read(&path)?).map_err(|error| TlsError::File { path, error })?;
    Ok((chain, key))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<_, _>>();
    all.map_err(|error| TlsError::File { path: path.to_owned(), error })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let error = |error| TlsError::File { path: path.to_owned(), error: pem::Error::Io(error) };
    read_whole(path, PEM_BYTES_MAX).map_err(error)
}

/// Accepts any server that has the private key of the certificate it presents (`tls-verify-peer=0`).
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
