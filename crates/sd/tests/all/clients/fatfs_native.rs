//! fatfs on a minimal host, which uses the card in native mode.

use super::bench::{GIB, MIB, card};
use flashlab_sd::opcode;
use flashlab_sd::{Card, Command, Fault, Ios, Native, Power, ResponseType, Timing};
use flashlab_sim::Duration;
use std::io::{self, Read, Seek, SeekFrom, Write};

const LIMIT: Duration = Duration::from_ms(500);

/// A host that reads and writes whole blocks on the bus, and serves byte ranges to its caller.
pub(crate) struct Host {
    native: Native,
    block_addressed: bool,
    at: u64,
    end: u64,
}

impl Host {
    pub(crate) fn bring_up(card: Card, end: u64) -> Result<Host, Fault> {
        let mut native = Native::new(Some(card));
        let mut ios = Ios { power: Power::On, clock_hz: 400_000, ..Ios::OFF };
        native.set_ios(&ios);
        native.advance(Duration::from_ms(2));
        native.command(Command::new(opcode::GO_IDLE_STATE, 0), ResponseType::None)?;
        native.command(Command::new(opcode::SEND_IF_COND, 0x1aa), ResponseType::R7)?;
        let ocr = loop {
            native.command(Command::new(opcode::APP_CMD, 0), ResponseType::R1)?;
            let ocr = native
                .command(Command::new(opcode::app::SD_SEND_OP_COND, 0x4030_0000), ResponseType::R3)?
                .word();
            if ocr >> 31 == 1 {
                break ocr;
            }
            native.advance(Duration::from_ms(10));
        };
        native.command(Command::new(opcode::ALL_SEND_CID, 0), ResponseType::R2)?;
        let address = native.command(Command::new(opcode::SEND_RELATIVE_ADDR, 0), ResponseType::R6)?.word()
            & 0xffff_0000;
        native.command(Command::new(opcode::SELECT_CARD, address), ResponseType::R1b)?;
        native.command(Command::new(opcode::SWITCH_FUNC, 0x80ff_fff1), ResponseType::R1)?;
        native.read_block(&mut [0; 64], 64, LIMIT)?;
        native.command(Command::new(opcode::APP_CMD, address), ResponseType::R1)?;
        native.command(Command::new(opcode::app::SET_BUS_WIDTH, 2), ResponseType::R1)?;
        (ios.clock_hz, ios.width, ios.timing) = (50_000_000, 4, Timing::HighSpeed);
        native.set_ios(&ios);
        Ok(Host { native, block_addressed: ocr >> 30 & 1 == 1, at: 0, end })
    }

    fn argument(&self, block: u64) -> u32 {
        if self.block_addressed { block as u32 } else { (block * 512) as u32 }
    }

    /// Reads blocks with CMD17, or CMD18 and CMD12.
    pub(crate) fn read_blocks(&mut self, first: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        let several = bytes.len() > 512;
        let command = Command::new(
            if several { opcode::READ_MULTIPLE_BLOCK } else { opcode::READ_SINGLE_BLOCK },
            self.argument(first),
        );
        self.native.command(command, ResponseType::R1)?;
        for block in bytes.chunks_mut(512) {
            self.native.read_block(block, 512, LIMIT)?;
        }
        if several {
            self.native.command(Command::new(opcode::STOP_TRANSMISSION, 0), ResponseType::R1b)?;
        }
        Ok(())
    }

    /// Writes blocks with CMD24, or CMD25 and CMD12.
    pub(crate) fn write_blocks(&mut self, first: u64, bytes: &[u8]) -> Result<(), Fault> {
        let several = bytes.len() > 512;
        let command = Command::new(
            if several { opcode::WRITE_MULTIPLE_BLOCK } else { opcode::WRITE_BLOCK },
            self.argument(first),
        );
        self.native.command(command, ResponseType::R1)?;
        for block in bytes.chunks(512) {
            self.native.write_block(block, 512, LIMIT)?;
        }
        if several {
            self.native.command(Command::new(opcode::STOP_TRANSMISSION, 0), ResponseType::R1b)?;
        }
        self.native.wait_ready(LIMIT)
    }
}

impl Read for Host {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (block, offset) = (self.at / 512, (self.at % 512) as usize);
        let wanted = buffer.len().min(64 * 1024).min((self.end - self.at) as usize);
        let mut bytes = vec![0; (offset + wanted).div_ceil(512) * 512];
        if wanted > 0 {
            self.read_blocks(block, &mut bytes).map_err(io::Error::other)?;
        }
        buffer[..wanted].copy_from_slice(&bytes[offset..offset + wanted]);
        self.at += wanted as u64;
        Ok(wanted)
    }
}

impl Write for Host {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let (block, offset) = (self.at / 512, (self.at % 512) as usize);
        let wanted = buffer.len().min(64 * 1024).min((self.end - self.at) as usize);
        let mut bytes = vec![0; (offset + wanted).div_ceil(512) * 512];
        if wanted > 0 {
            self.read_blocks(block, &mut bytes).map_err(io::Error::other)?;
            bytes[offset..offset + wanted].copy_from_slice(&buffer[..wanted]);
            self.write_blocks(block, &bytes).map_err(io::Error::other)?;
        }
        self.at += wanted as u64;
        Ok(wanted)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Host {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.at = at.filter(|at| *at <= self.end).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[test]
fn a_filesystem_is_made_filled_and_read_on_small_and_large_cards() {
    for capacity in [64 * MIB, 4 * GIB] {
        let mut host =
            Host::bring_up(card(capacity, &[]).0, 48 * MIB).expect("the driver initialises the card");
        fatfs::format_volume(&mut host, fatfs::FormatVolumeOptions::new())
            .expect("the volume is large enough");
        host.seek(SeekFrom::Start(0)).expect("the range is within the card");
        let data: Vec<u8> = (0..1_000_000u32).map(|n| (n ^ n >> 7) as u8).collect();
        let filesystem = fatfs::FileSystem::new(&mut host, fatfs::FsOptions::new())
            .expect("the volume was just formatted");
        filesystem.root_dir().create_dir("logs").expect("the name is new");
        let mut file = filesystem.root_dir().create_file("logs/one.bin").expect("the name is new");
        file.write_all(&data).expect("there is room");
        drop(file);
        filesystem.unmount().expect("the filesystem is consistent");

        host.seek(SeekFrom::Start(0)).expect("the range is within the card");
        let filesystem = fatfs::FileSystem::new(&mut host, fatfs::FsOptions::new()).expect("it is one");
        let mut back = Vec::new();
        let mut file = filesystem.root_dir().open_file("logs/one.bin").expect("it is there");
        file.read_to_end(&mut back).expect("it can be read");
        assert!(back == data, "the read data differs from the written data");
    }
}
