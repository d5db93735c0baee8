//! TLS options of `flashlab serve`.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use flashlab_serve::uri::Uri;
use flashlab_serve::{Tls, TlsMode};
use std::path::PathBuf;

/// Value of `--tls`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Choice {
    /// No TLS.
    Off,
    /// Clients may use TLS.
    On,
    /// Clients must use TLS.
    Require,
}

#[derive(Args)]
pub(crate) struct TlsOptions {
    /// Use of TLS by clients; the default is `on` with certificates.
    #[arg(long, value_name = "MODE")]
    tls: Option<Choice>,
    /// Folder with server-cert.pem and server-key.pem, and with ca-cert.pem for --tls-verify-peer.
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,
    /// Requires clients to present a certificate from the authority in ca-cert.pem.
    #[arg(long, requires = "tls_certificates")]
    tls_verify_peer: bool,
}

impl TlsOptions {
    /// Loads the certificates for TLS; returns `None` if TLS is off.
    pub(crate) fn open(&self) -> Result<Option<Tls>, Failure> {
        let mode = match (self.tls, &self.tls_certificates) {
            (Some(Choice::Off), _) | (None, None) => return Ok(None),
            (Some(Choice::On) | None, _) => TlsMode::On,
            (Some(Choice::Require), _) => TlsMode::Require,
        };
        let Some(folder) = &self.tls_certificates else {
            return Err(Failure::usage("--tls: certificates are missing; give --tls-certificates DIR"));
        };
        Tls::new(folder, mode, self.tls_verify_peer).map(Some).map_err(Failure::usage)
    }

    /// Returns the URI for clients. If TLS is required, the URI says so and names the folder with the authority's
    /// certificate.
    pub(crate) fn uri(&self, uri: Uri) -> Result<Uri, Failure> {
        let (Some(Choice::Require), Some(folder)) = (self.tls, &self.tls_certificates) else {
            return Ok(uri);
        };
        let folder = std::path::absolute(folder).map_err(|error| Failure::io(folder, &error))?;
        Ok(Uri { tls: true, tls_certificates: Some(folder.to_string_lossy().into_owned()), ..uri })
    }
}
