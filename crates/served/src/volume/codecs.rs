//! Processor time of a volume's codecs in simulated time: the host that runs them, their costs, and remarks.

use super::OpenPool;
use crate::Served;
use flashlab_catalogue::device::HostCodecs;
use flashlab_sim::Duration;
use flashlab_volume::CodecCosts;
use flashlab_volume::encode::Compressor;
use flashlab_volume::keys::Cipher;

/// The host whose processors run the codecs of a simulated volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodecHost {
    /// The host that the argument names, or that all simulated members share.
    Known(HostCodecs),
    /// No member has a host.
    None,
    /// The members are in different hosts.
    Several(Vec<String>),
}

impl CodecHost {
    /// Returns the host of the members: `named` if the argument names one.
    pub(super) fn of(named: Option<HostCodecs>, members: &[Served]) -> CodecHost {
        if let Some(named) = named {
            return CodecHost::Known(named);
        }
        let mut hosts: Vec<&HostCodecs> = members.iter().filter_map(|member| member.host.as_ref()).collect();
        hosts.dedup();
        match hosts[..] {
            [] => CodecHost::None,
            [host] => CodecHost::Known(host.clone()),
            _ => CodecHost::Several(hosts.into_iter().map(|host| host.host.clone()).collect()),
        }
    }

    /// Returns the costs of the codecs; a codec takes no time if its cost is unknown.
    pub(super) fn costs(&self) -> CodecCosts {
        let CodecHost::Known(HostCodecs { processors, times, .. }) = self else {
            return CodecCosts::default();
        };
        let ps = |per_kib: Option<Duration>| per_kib.map_or(0, |time| time.as_ns() * 1000 / 1024);
        CodecCosts {
            cores: *processors,
            chacha20_poly1305_ps: ps(times.chacha20_poly1305),
            aes_256_gcm_ps: ps(times.aes_256_gcm),
            lz4_compress_ps: ps(times.lz4_compress),
            lz4_decompress_ps: ps(times.lz4_decompress),
            zstd_compress_ps: ps(times.zstd_compress),
            zstd_decompress_ps: ps(times.zstd_decompress),
        }
    }
}

impl OpenPool {
    /// Returns remarks on the processor time of the codecs that the volume uses; none for a volume without codecs.
    pub(super) fn codec_remarks(&self) -> Vec<String> {
        let Some(host) = &self.codecs else { return Vec::new() };
        let usage = self.volume.usage();
        let compressors = [usage.compression, usage.background_compression];
        let codecs = in_use(self.volume.cipher(), &compressors);
        if codecs.is_empty() {
            return Vec::new();
        }
        let known = match host {
            CodecHost::Known(host) => host,
            CodecHost::None => {
                let why = "no member is in a host, so encryption and compression take no time";
                return vec![format!("{why}; host=NAME in the argument names a host")];
            }
            CodecHost::Several(hosts) => {
                let hosts = hosts.join(", ");
                return vec![format!(
                    "the members are in different hosts ({hosts}), so encryption and compression take no time; host=NAME in the \
                     argument names one of them"
                )];
            }
        };
        let HostCodecs { host, processors, .. } = known;
        let spent = self.volume.codec_times();
        let seconds = |time: Duration| format!("{:.3} s", time.as_ns() as f64 / 1e9);
        let is_free = |codec: &Codec| (codec.time)(known).is_none();
        let mut remarks = Vec::new();
        if !codecs.iter().all(is_free) {
            remarks.push(format!(
                "codecs on {processors} processors of {host}: cipher {}, compression {}, decompression {} of processor time",
                seconds(spent.cipher),
                seconds(spent.compression),
                seconds(spent.decompression)
            ));
        }
        let free = codecs.into_iter().filter(is_free);
        remarks.extend(free.map(|Codec { what, path, .. }| {
            format!("{what} takes no time, because {path} of {host} is unknown")
        }));
        remarks
    }
}

/// A codec, and its time on a host.
#[derive(Clone, Copy)]
struct Codec {
    what: &'static str,
    path: &'static str,
    time: fn(&HostCodecs) -> Option<Duration>,
}

/// Returns the codecs that a volume uses.
fn in_use(cipher: Option<Cipher>, compressors: &[Compressor]) -> Vec<Codec> {
    let cipher = cipher.map(|cipher| match cipher {
        Cipher::ChaCha20Poly1305 => Codec {
            what: "ChaCha20-Poly1305",
            path: "codec.t_chacha20_poly1305",
            time: |host| host.times.chacha20_poly1305,
        },
        Cipher::Aes256Gcm => {
            Codec { what: "AES-256-GCM", path: "codec.t_aes_256_gcm", time: |host| host.times.aes_256_gcm }
        }
    });
    let has_lz4 = compressors.contains(&Compressor::Lz4);
    let has_zstd = compressors.iter().any(|compressor| matches!(compressor, Compressor::Zstd(_)));
    let lz4 = [
        Codec {
            what: "compression with LZ4",
            path: "codec.t_lz4_compress",
            time: |host| host.times.lz4_compress,
        },
        Codec {
            what: "decompression with LZ4",
            path: "codec.t_lz4_decompress",
            time: |host| host.times.lz4_decompress,
        },
    ];
    let zstd = [
        Codec {
            what: "compression with Zstandard",
            path: "codec.t_zstd_compress",
            time: |host| host.times.zstd_compress,
        },
        Codec {
            what: "decompression with Zstandard",
            path: "codec.t_zstd_decompress",
            time: |host| host.times.zstd_decompress,
        },
    ];
    let lz4 = lz4.into_iter().filter(|_| has_lz4);
    cipher.into_iter().chain(lz4).chain(zstd.into_iter().filter(|_| has_zstd)).collect()
}
