//! A host controller for sdmmc-protocol in native mode, with interrupts and DMA: a thin layer over our slot.
//!
//! The controller executes a transaction when it is submitted, in simulated time, and raises its interrupt
//! immediately. Its DMA memory is on the heap, and the controller itself copies the data. As the trait
//! requires, the controller ends a transfer of several blocks with CMD12. After a write, the controller waits
//! for at most the busy time that the specification permits. It supports neither 1.8 V signals nor tuning.

// The traits have unsafe functions for hardware that performs DMA. This controller performs no DMA.
#![allow(unsafe_code)]

use dma_api::{
    DeviceDma, DmaAllocHandle, DmaCoherency, DmaConstraints, DmaDeviceInfo, DmaDirection, DmaDomainId,
    DmaError, DmaMapHandle, DmaOp,
};
use flashlab_sd::{
    Card, Command, Fault, Ios, Native, Power, Response, ResponseType as Expects, Timing, opcode,
};
use flashlab_sim::{Duration, Instant};
use sdmmc_host::{
    AdvanceRequestError, BusOp, BusWidth, ClockSpeed, DataBuffer, DataPhase, Error, HostParts, ProgressCause,
    RawResponse, RequestProgress, ResponseType, SdMmcHost, SignalVoltage, SubmitTransactionError,
    Transaction,
};
use sdmmc_protocol::sdio::{SdMmcIrqHandle, SdMmcIrqHost};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Longest busy time after a block of a write that the specification permits for a card of up to 32 GB.
const BUSY_LIMIT: Duration = Duration::from_ms(250);
/// Longest read access time that the specification permits.
const READ_LIMIT: Duration = Duration::from_ms(100);

/// Heap memory, which serves as DMA memory.
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
        // SAFETY: both addresses are those of the memory allocated above, which has that layout and lives until
        // `dealloc_contiguous` frees it.
        Some(unsafe { DmaAllocHandle::new(memory, memory, address.into(), layout) })
    }
    unsafe fn dealloc_contiguous(&self, handle: DmaAllocHandle) {
        // SAFETY: the handle comes from `alloc_contiguous`, with its layout, and the caller frees it once.
        unsafe { dealloc(handle.allocation_ptr().as_ptr(), handle.layout()) }
    }
    unsafe fn alloc_coherent(&self, _: DmaConstraints, _: Layout) -> Option<DmaAllocHandle> {
        unreachable!("a coherent device needs no separate coherent memory")
    }
    unsafe fn dealloc_coherent(&self, _: DmaAllocHandle) -> Result<(), DmaError> {
        unreachable!("no coherent memory was allocated")
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
        unreachable!("no buffer was mapped")
    }
}

/// An SD host controller with one slot.
pub(crate) struct Controller {
    pub(crate) native: Native,
    dma: DeviceDma,
    interrupts: bool,
    /// Indices of the commands sent.
    pub(crate) sent: Vec<u8>,
}

/// A completed transaction, whose interrupt is pending.
pub(crate) struct Done {
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
    pub(crate) fn new(card: Card) -> Controller {
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

    /// Sends the command, transfers its data, and sends CMD12 after several blocks even if a block failed.
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
        if matches!(command.index, opcode::READ_MULTIPLE_BLOCK | opcode::WRITE_MULTIPLE_BLOCK) {
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
                assert_eq!(memory.direction(), DmaDirection::FromDevice, "bring-up only reads");
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

pub(crate) struct Interrupt;

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
