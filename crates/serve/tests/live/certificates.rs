//! Certificates for tests, with the file names of nbdkit and libnbd.

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::Path;

/// Creates a certificate authority in `folder`, and certificates for a server `localhost` and for a client.
pub(crate) fn make(folder: &Path) {
    fs::create_dir_all(folder).expect("the disk has room");
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("the disk has room");
    let key = || KeyPair::generate().expect("there is randomness");
    let mut params = parameters("an authority", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = key();
    write("ca-cert.pem", params.self_signed(&ca).expect("the parameters are right").pem());
    let issuer = Issuer::new(params, ca);
    for role in ["server", "client"] {
        let key = key();
        let signed = parameters(role, &["localhost"]).signed_by(&key, &issuer);
        write(&format!("{role}-cert.pem"), signed.expect("the parameters are right").pem());
        write(&format!("{role}-key.pem"), key.serialize_pem());
    }
}

fn parameters(role: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("they are names");
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, role);
    parameters
}
