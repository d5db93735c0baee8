//! sdmmc-protocol, native mode: its card driver on a controller that is a thin layer over our slot.
//!
//! The crate wants a controller with interrupts and DMA. Ours does a transaction when it is submitted, in simulated time, and its
//! interrupt has then come; its DMA memory is the heap's. A transfer of several blocks is closed with CMD12 by the controller, as the
//! trait asks, and each write is waited for as long as the specification lets a card be busy.

// The traits are of unsafe functions, for hardware that reads and writes memory by itself. Ours does not.
#![allow(unsafe_code)]

use crate::bench::{GIB, MIB, card, parameters};
use dma_api::{
    DeviceDma, DmaAllocHandle, DmaCoherency, DmaConstraints, DmaDeviceInfo, DmaDirection, DmaDomainId,
    DmaError, DmaMapHandle, DmaOp,
};
use flashlab_sd::{
    Card, CardParameters, Command, Expects, Fault, Identity, Ios, Mode, Native, Power, Response, Timing,
};
use flashlab_sim::{Duration, Instant, Store};
use sdmmc_host::{
    AdvanceRequestError, BusOp, BusWidth, ClockSpeed, DataBuffer, DataPhase, Error, HostParts, ProgressCause,
    RawResponse, RequestProgress, ResponseType, SdMmcHost, SignalVoltage, SubmitTransactionError,
    Transaction,
};
use sdmmc_protocol::sdio::{CardInfo, CardKind, SdMmcCard, SdMmcInitWait, SdMmcIrqHandle, SdMmcIrqHost};
use sdmmc_protocol::{DataCommandProgress, OperationProgress};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// The longest that the specification lets a card up to 32 GB be busy behind a block.
const BUSY_LIMIT: Duration = Duration::from_ms(250);
/// And the longest until the data of a read come.
const READ_LIMIT: Duration = Duration::from_ms(100);

/// Memory that a device could read and write.
struct Heap;

impl DmaOp for Heap {
    fn page_size(&self) -> usize {
        4096
    }
    unsafe fn alloc_contiguous(&self, _: DmaConstraints, layout: Layout) -> Option<DmaAllocHandle> {
        assert!(layout.size() > 0);
        // SAFETY: the layout is not of size zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let address = memory.addr().get() as u64;
        // SAFETY: both addresses are of the memory just had, which is of that layout and lives until it is given back below.
        Some(unsafe { DmaAllocHandle::new(memory, memory, address.into(), layout) })
    }
    unsafe fn dealloc_contiguous(&self, handle: DmaAllocHandle) {
        // SAFETY: the handle is one of those made above, with its layout, and the caller gives it back once.
        unsafe { dealloc(handle.allocation_ptr().as_ptr(), handle.layout()) }
    }
    unsafe fn alloc_coherent(&self, _: DmaConstraints, _: Layout) -> Option<DmaAllocHandle> {
        unreachable!("a device that is coherent needs no other memory")
    }
    unsafe fn dealloc_coherent(&self, _: DmaAllocHandle) -> Result<(), DmaError> {
        unreachable!("none was had")
    }
    unsafe fn map_streaming(
        &self,
        _: DmaConstraints,
        _: NonNull<u8>,
        _: NonZeroUsize,
        _: DmaDirection,
    ) -> Result<DmaMapHandle, DmaError> {
        unreachable!("the driver copies")
    }
    unsafe fn unmap_streaming(&self, _: DmaMapHandle) {
        unreachable!("none was mapped")
    }
}

/// An SD host controller with one slot.
struct Controller {
    native: Native,
    dma: DeviceDma,
    interrupts: bool,
    /// The commands sent, without tuning.
    sent: Vec<u8>,
}

/// A transaction that is done: the interrupt only has to be taken.
struct Done {
    result: Option<Result<RawResponse, Error>>,
    dma: Option<dma_api::CompletedDma>,
}

fn error(fault: Fault) -> Error {
    match fault {
        Fault::Timeout => Error::Timeout,
        Fault::Crc => Error::Crc,
        Fault::WriteError => Error::Bus,
    }
}

impl Controller {
    fn new(card: Card) -> Controller {
        let constraints = DmaConstraints::new(u64::MAX);
        let info = DmaDeviceInfo::new(DmaDomainId::Direct, DmaCoherency::Coherent, constraints);
        Controller {
            native: Native::new(Some(card)),
            dma: DeviceDma::new(info, &Heap),
            interrupts: false,
            sent: Vec::new(),
        }
    }

    fn drive(&mut self, change: impl FnOnce(&mut Ios)) {
        let mut ios = *self.native.ios();
        change(&mut ios);
        self.native.set_ios(&ios);
    }

    fn send(&mut self, command: sdmmc_host::Command) -> Result<RawResponse, Error> {
        let expects = match command.response {
            ResponseType::None => Expects::None,
            ResponseType::R1b => Expects::R1b,
            ResponseType::R2 => Expects::R2,
            ResponseType::R3 => Expects::R3,
            ResponseType::R6 => Expects::R6,
            ResponseType::R7 => Expects::R7,
            _ => Expects::R1,
        };
        self.sent.push(command.index);
        let sent = self.native.command(Command::new(command.index, command.argument), expects);
        let words = match sent.map_err(error)? {
            Response::R2(register) => {
                register.as_chunks().0.iter().copied().map(u32::from_be_bytes).collect()
            }
            short => vec![short.word()],
        };
        if expects == Expects::R1b {
            self.native.wait_ready(BUSY_LIMIT).map_err(error)?;
        }
        let words = core::array::from_fn(|n| words.get(n).copied().unwrap_or(0));
        Ok(RawResponse::new(command.response, words))
    }

    /// The command with its data, and CMD12 behind several blocks, whatever became of them.
    fn transfer(
        &mut self,
        command: sdmmc_host::Command,
        data: Data<'_>,
        block: u32,
    ) -> Result<RawResponse, Error> {
        let answer = self.send(command)?;
        let native = &mut self.native;
        let moved = match data {
            Data::Read(bytes) => bytes
                .chunks_mut(block as usize)
                .try_for_each(|bytes| native.read_block(bytes, block, READ_LIMIT)),
            Data::Write(bytes) => bytes
                .chunks(block as usize)
                .try_for_each(|bytes| native.write_block(bytes, block, BUSY_LIMIT))
                .and_then(|()| native.wait_ready(BUSY_LIMIT)),
        };
        if matches!(command.index, 18 | 25) {
            let stopped = self.send(sdmmc_protocol::cmd::CMD12);
            moved.map_err(error).and(stopped)?;
        }
        moved.map_err(error).map(|()| answer)
    }

    fn run(&mut self, command: sdmmc_host::Command, data: Option<DataPhase<'_>>) -> Done {
        let Some(DataPhase { block_size, buffer, .. }) = data else {
            return Done { result: Some(self.send(command)), dma: None };
        };
        let block = u32::from(block_size.get());
        let (result, dma) = match buffer {
            DataBuffer::Read(bytes) => (self.transfer(command, Data::Read(bytes), block), None),
            DataBuffer::Write(bytes) => (self.transfer(command, Data::Write(bytes), block), None),
            DataBuffer::Dma(prepared) => {
                let mut memory = prepared.into_cpu_buffer();
                assert_eq!(
                    memory.direction(),
                    DmaDirection::FromDevice,
                    "nothing else is prepared by bring-up"
                );
                let mut bytes = vec![0; memory.len().get()];
                let result = self.transfer(command, Data::Read(&mut bytes), block);
                memory.copy_from_slice_cpu(&bytes);
                (result, Some(memory.prepare_for_device().complete_without_device()))
            }
        };
        Done { result: Some(result), dma }
    }
}

enum Data<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

impl SdMmcHost for Controller {
    type TransactionRequest<'a> = Done;
    type BusRequest = Option<Result<(), Error>>;

    unsafe fn submit_transaction<'a>(&mut self, transaction: Transaction<'a>) -> Result<Done, Error>
    where
        Self: 'a,
    {
        Ok(self.run(transaction.command, transaction.data))
    }
    unsafe fn submit_transaction_owned<'a>(
        &mut self,
        transaction: Transaction<'a>,
    ) -> Result<Done, SubmitTransactionError<'a>>
    where
        Self: 'a,
    {
        Ok(self.run(transaction.command, transaction.data))
    }
    fn advance_transaction<'a>(
        &mut self,
        request: &mut Done,
        cause: ProgressCause,
    ) -> Result<RequestProgress<RawResponse>, AdvanceRequestError>
    where
        Self: 'a,
    {
        if cause != ProgressCause::AcknowledgedIrq {
            return Ok(RequestProgress::WaitingForIrq);
        }
        request.result.take().map(RequestProgress::Complete).ok_or(AdvanceRequestError::AlreadyCompleted)
    }
    fn abort_transaction<'a>(&mut self, request: &mut Done) -> Result<(), Error>
    where
        Self: 'a,
    {
        request.result = None;
        Ok(())
    }
    fn take_completed_dma<'a>(&mut self, request: &mut Done) -> Option<dma_api::CompletedDma>
    where
        Self: 'a,
    {
        request.dma.take()
    }
    unsafe fn submit_bus_op(&mut self, op: BusOp) -> Result<Self::BusRequest, Error> {
        match op {
            BusOp::ResetAll => self.native.set_ios(&Ios::OFF),
            BusOp::PowerOn => self.drive(|ios| ios.power = Power::On),
            BusOp::PowerOff => self.drive(|ios| ios.power = Power::Off),
            BusOp::SetClock(speed) => {
                let (clock_hz, timing) = match speed {
                    ClockSpeed::Identification => (400_000, Timing::Legacy),
                    ClockSpeed::Default => (25_000_000, Timing::Legacy),
                    ClockSpeed::HighSpeed => (50_000_000, Timing::HighSpeed),
                    _ => return Err(Error::Unsupported),
                };
                self.drive(|ios| (ios.clock_hz, ios.timing) = (clock_hz, timing));
            }
            BusOp::SetBusWidth(BusWidth::Bit1) => self.drive(|ios| ios.width = 1),
            BusOp::SetBusWidth(BusWidth::Bit4) => self.drive(|ios| ios.width = 4),
            BusOp::SetSignalVoltage(SignalVoltage::V330) => {}
            _ => return Err(Error::Unsupported),
        }
        Ok(Some(Ok(())))
    }
    fn advance_bus_op(
        &mut self,
        request: &mut Self::BusRequest,
        _: ProgressCause,
    ) -> Result<RequestProgress<()>, AdvanceRequestError> {
        request.take().map(RequestProgress::Complete).ok_or(AdvanceRequestError::AlreadyCompleted)
    }
    fn abort_bus_op(&mut self, request: &mut Self::BusRequest) -> Result<(), Error> {
        *request = None;
        Ok(())
    }
    fn now_ms(&self) -> Option<u64> {
        Some(self.native.now().since(Instant::ZERO).as_ns() / 1_000_000)
    }
}

struct Interrupt;

impl SdMmcIrqHandle for Interrupt {
    type Event = ();
    fn handle_irq(&mut self) {}
}

impl SdMmcIrqHost for Controller {
    type Event = ();
    type IrqHandle = Interrupt;
    type CardIrq = ();

    fn into_parts(self) -> HostParts<Self, Interrupt, ()> {
        HostParts { bus: self, irq: Interrupt, card_irq: None }
    }
    fn completion_irq_enabled(&self) -> bool {
        self.interrupts
    }
    fn enable_completion_irq(&mut self) -> Result<(), sdmmc_protocol::Error> {
        self.interrupts = true;
        Ok(())
    }
    fn device_dma(&self) -> Result<&DeviceDma, sdmmc_protocol::Error> {
        Ok(&self.dma)
    }
}

/// The driver, and what a system around it does: waits, takes interrupts.
struct Driver(SdMmcCard<Controller>);

impl Driver {
    fn new(card: Card) -> Driver {
        Driver(SdMmcCard::new(Controller::new(card)))
    }
    fn bring_up(&mut self) -> Result<CardInfo, sdmmc_protocol::Error> {
        let mut request = self.0.submit_init()?;
        loop {
            let cause = match request.wait_kind() {
                SdMmcInitWait::Irq => ProgressCause::AcknowledgedIrq,
                SdMmcInitWait::Register => ProgressCause::RegisterRetry,
            };
            if let OperationProgress::Complete(info) = self.0.advance_init_request(&mut request, cause)? {
                return Ok(info);
            }
            if request.take_needs_pace() {
                self.0.host_mut().native.advance(Duration::from_ms(10));
            }
        }
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), sdmmc_protocol::Error> {
        let mut request = self.0.submit_write_blocks_from(at, bytes)?;
        match self.0.advance_data_request(&mut request, ProgressCause::AcknowledgedIrq)? {
            DataCommandProgress::Complete(_) => Ok(()),
            DataCommandProgress::Pending => unreachable!("the interrupt has come"),
        }
    }
    fn read(&mut self, at: u32, bytes: &mut [u8]) -> Result<(), sdmmc_protocol::Error> {
        let mut request = self.0.submit_read_blocks_into(at, bytes)?;
        match self.0.advance_data_request(&mut request, ProgressCause::AcknowledgedIrq)? {
            DataCommandProgress::Complete(_) => Ok(()),
            DataCommandProgress::Pending => unreachable!("the interrupt has come"),
        }
    }
}

fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * 512).map(|n| (n / 512) as u8 ^ n as u8 ^ seed).collect()
}

#[test]
fn a_card_is_brought_up_and_blocks_move_one_and_several_at_a_time() {
    // Of 64 MiB: addressed by bytes. Of 4 GiB: by blocks.
    for capacity in [64 * MIB, 4 * GIB] {
        let (card, store) = card(capacity, &[]);
        let mut driver = Driver::new(card);
        let info = driver.bring_up().expect("it is a card");
        assert_eq!((info.kind, info.sd_v2, info.high_capacity), (CardKind::Sd, true, capacity > 2 * GIB));
        assert_eq!(info.capacity_blocks, Some(capacity / 512));
        assert!(info.cid.is_some());
        let controller = driver.0.host_mut();
        assert_eq!(info.rca, controller.native.card().expect("it is in").identity().relative_address);
        assert_eq!((controller.native.bus().width, controller.native.ios().timing), (4, Timing::HighSpeed));
        controller.sent.clear();
        let (one, many) = (pattern(7, 1), pattern(9, 40));
        driver.write(77, &one).expect("it can be written");
        driver.write(1000, &many).expect("they can be written");
        for (at, blocks) in [(77, &one), (1000, &many)] {
            let mut back = vec![0; blocks.len()];
            driver.read(at, &mut back).expect("it can be read");
            assert_eq!(back, *blocks, "at {at}");
            store.read(u64::from(at) * 512, &mut back).expect("it is there");
            assert_eq!(back, *blocks, "kept at {at}");
        }
        assert_eq!(driver.0.host().sent, [24, 25, 12, 17, 18, 12]);
        let mut status = driver.0.submit_status().expect("it is idle");
        let state = driver.0.advance_status_request(&mut status, ProgressCause::AcknowledgedIrq);
        let transfer = sdmmc_protocol::response::CardState::Transfer;
        assert!(matches!(state, Ok(OperationProgress::Complete(state)) if state == transfer), "{state:?}");
    }
}

/// The fast modes are on CMD6's list once the signals are of 1.8 V. It asks for these only when it has seen the fast modes there.
#[test]
fn a_uhs_card_is_driven_in_high_speed() {
    let parameters = CardParameters { modes: Mode::ALL.to_vec(), ..parameters(4 * GIB) };
    let identity = Identity::new(&parameters);
    let mut driver = Driver::new(Card::new(parameters, identity, None, 1));
    driver.bring_up().expect("it is a card");
    let controller = driver.0.host();
    assert!(!controller.sent.contains(&11));
    assert_eq!(controller.native.ios().timing, Timing::HighSpeed);
}

#[test]
fn a_card_that_is_busy_for_longer_than_the_specification_allows_makes_it_fail() {
    for (quirk, bears) in [
        ("busy=1us", true),
        ("busy=249ms", true),
        ("busy=251ms", false),
        ("busy=500ms", false),
        ("stuck-busy", false),
    ] {
        for blocks in [1, 3] {
            let (card, _) = card(4 * GIB, &[quirk]);
            let mut driver = Driver::new(card);
            driver.bring_up().expect("it is a card");
            let written = driver.write(5, &pattern(1, blocks));
            let expected =
                if bears { Ok(()) } else { Err(sdmmc_protocol::Error::Timeout(Default::default())) };
            assert_eq!(written, expected, "{quirk}, {blocks} blocks");
        }
    }
}

#[test]
fn what_is_wrong_on_the_wires_is_told_by_name() {
    let (timeout, crc) =
        (sdmmc_protocol::Error::Timeout(Default::default()), sdmmc_protocol::Error::Crc(Default::default()));
    let read = |quirk| {
        let (card, _) = card(4 * GIB, &[quirk]);
        let mut driver = Driver::new(card);
        driver.bring_up()?;
        driver.write(5, &pattern(1, 4))?;
        driver.read(5, &mut pattern(2, 4))
    };
    assert_eq!(read("silent"), Err(timeout));
    assert_eq!(read("no-data"), Err(timeout));
    assert_eq!(read("remove@CMD25"), Err(timeout));
    assert_eq!(read("power-cut@CMD18"), Err(timeout));
    assert_eq!(read("write-crc=3"), Err(crc));
    assert_eq!(read("read-crc=5"), Err(crc));
    assert_eq!(read("busy=1ms"), Ok(()));
}
