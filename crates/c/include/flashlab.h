/*
 * flashlab: virtual block devices and SD cards with the timing, the wear and the failures of real ones, for the tests of
 * firmware, drivers and filesystems. C99 and C++.
 *
 * Functions
 *   - A function that can fail returns a flashlab_code, which is FLASHLAB_OK (0) on success. The last argument, if it is
 *     not NULL, receives the code and a text that names the fault and a remedy. After a success, the text is empty.
 *   - After an error, the contents of all other outputs are unspecified, except that a function that opens or creates
 *     something sets the handle to NULL.
 *   - A pointer is NULL or valid for its type, for the given length and for the time of the call. NULL is an error
 *     except where this file permits it. An output does not overlap an input, except in flashlab_spi_transfer.
 *
 * Handles
 *   - There is no global state: handles do not affect each other. A handle may be used on any thread, but by one call at
 *     a time. A second call, even from a callback, returns FLASHLAB_ERROR_IN_USE.
 *   - A function that closes a handle accepts NULL, and does nothing while a call uses the handle.
 *
 * Time
 *   - Time is simulated, in nanoseconds since the device was opened. It advances only with requests, commands and bytes,
 *     in flashlab_device_restore_power, and in the functions with _wait in their names. The same calls give the same
 *     results at the same nanoseconds.
 *   - A wait or a limit must end at 2^62 ns (146 years) at the latest.
 *
 * A bug in the library is reported as FLASHLAB_ERROR_PANIC. If no memory is left, the library ends the process.
 */
#ifndef FLASHLAB_H
#define FLASHLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

/* Result of a function: one of the constants below. */
typedef int32_t flashlab_code;

enum {
    FLASHLAB_OK = 0,
    /* There is nothing to return. This is not a fault: no request is in flight, or no power cut has happened. */
    FLASHLAB_NONE = 1,

    /* Mistakes of the caller. */
    FLASHLAB_ERROR_NULL = 2,        /* A pointer is NULL. */
    FLASHLAB_ERROR_ARGUMENT = 3,    /* A number, a length or a text is out of range, or a pointer is misaligned. */
    FLASHLAB_ERROR_IN_USE = 4,      /* The handle is in use by another call. */
    FLASHLAB_ERROR_PANIC = 5,       /* A bug in the library. The handle can only be closed. */
    FLASHLAB_ERROR_OPEN = 6,        /* The device cannot be opened: its name or a file is wrong. */
    FLASHLAB_ERROR_NOT_A_CARD = 7,  /* The device does not accept SD commands. */
    FLASHLAB_ERROR_QUIRK = 8,       /* The quirk is unknown or malformed. */
    FLASHLAB_ERROR_FAULT_RULE = 9,  /* The fault rule is malformed. */
    FLASHLAB_ERROR_NO_POWER = 10,   /* The device has no timing, so its power cannot be cut. */
    FLASHLAB_ERROR_STORE = 11,      /* A callback of the store failed while the effects of a power cut were applied. */

    /* Errors of requests to a block device. */
    FLASHLAB_ERROR_READ_ONLY = 20,
    FLASHLAB_ERROR_MEDIUM = 21,     /* The medium failed, or the range is unreadable after a power cut (EIO). */
    FLASHLAB_ERROR_NO_MEMORY = 22,
    FLASHLAB_ERROR_INVALID = 23,    /* The request reaches beyond the end, or does not consist of whole blocks. */
    FLASHLAB_ERROR_NO_SPACE = 24,   /* A write reaches beyond the end, or a store is full. */
    FLASHLAB_ERROR_TOO_LARGE = 25,  /* The request is longer than flashlab_geometry.request_max. */
    FLASHLAB_ERROR_UNSUPPORTED = 26,
    FLASHLAB_ERROR_POWER_OFF = 27,  /* The power is off, or was cut during the request. */

    /* Errors of commands to a card in native mode. */
    FLASHLAB_ERROR_TIMEOUT = 40,    /* The response, the data or the end of the busy signal did not arrive in time. */
    FLASHLAB_ERROR_CRC = 41,        /* A checksum was wrong, at the host or at the card. */
    FLASHLAB_ERROR_WRITE = 42       /* The card reported a write error. */
};

/* The error of a call, owned by the caller. */
typedef struct flashlab_error {
    flashlab_code code;
    /* The fault and a remedy, in UTF-8, null-terminated. */
    char text[508];
} flashlab_error;

/* Returns the meaning of a code. The text is constant. */
const char *flashlab_code_text(flashlab_code code);

/* Returns the version of the library, for example "0.1.0". The text is constant. */
const char *flashlab_version(void);

/* ---- Options ---- */

/* Options for opening devices and cards. Several devices may be opened with the same options. */
typedef struct flashlab_options flashlab_options;

/*
 * Functions of the caller that hold the bytes of a device. They return FLASHLAB_OK, FLASHLAB_ERROR_NO_SPACE, or any
 * other code for a failed medium. Ranges lie within the capacity of the device. Ranges that were never written, or were
 * discarded, read as zeroes. The functions must return: no longjmp and no C++ exception may leave them. The library calls
 * them only on the thread that uses the device. If devices share a context and are used on several threads, the functions
 * run at the same time.
 */
typedef struct flashlab_store {
    /* First argument of the functions. It must outlive the devices. */
    void *context;
    /* Reads length bytes at offset into buffer. */
    flashlab_code (*read)(void *context, uint64_t offset, void *buffer, size_t length);
    /* Writes length bytes at offset. */
    flashlab_code (*write)(void *context, uint64_t offset, const void *data, size_t length);
    /* Makes a range read as zeroes. If discard is NULL, the library writes zeroes. */
    flashlab_code (*discard)(void *context, uint64_t offset, uint64_t length);
    /* Makes all completed writes as durable as they can be. May be NULL. */
    flashlab_code (*sync)(void *context);
} flashlab_store;

/* Creates the default options: seed 1, no quirks, bytes in memory of the library. */
flashlab_code flashlab_options_new(flashlab_options **options, flashlab_error *error);

/* Sets the seed, from which the medium, the instants of power cuts during writes and injected errors are drawn. */
flashlab_code flashlab_options_set_seed(flashlab_options *options, uint64_t seed, flashlab_error *error);

/*
 * Adds a quirk to the cards that are opened with the options, for example "busy=400ms" or "stuck-busy@CMD25#3"
 * (docs/cards.md lists them). A block device ignores quirks.
 */
flashlab_code flashlab_options_add_quirk(flashlab_options *options, const char *quirk, flashlab_error *error);

/*
 * Keeps the bytes in the memory of the caller. The structure is copied. NULL stands for memory of the library. Only a
 * simulated device without layers can use a store.
 */
flashlab_code flashlab_options_set_store(flashlab_options *options, const flashlab_store *store,
                                         flashlab_error *error);

/* Effects of a rising chip select on a transfer of several blocks and on an incomplete command. Real cards differ. */
enum {
    FLASHLAB_CHIP_SELECT_ENDS_TRANSFERS = 0, /* Both end. The default. */
    FLASHLAB_CHIP_SELECT_PAUSES = 1          /* Neither ends: the card waits for the next clocks. */
};

/* Sets the effect of a rising chip select on the cards that are opened with flashlab_spi_open. */
flashlab_code flashlab_options_set_chip_select(flashlab_options *options, uint32_t chip_select,
                                               flashlab_error *error);

/* Destroys the options. Devices that were opened with them are not affected. */
void flashlab_options_close(flashlab_options *options);

/* ---- Counters ---- */

/* A counter of a device, for example the bytes that its host has written. */
typedef struct flashlab_counter {
    /* Name in ASCII, null-terminated. */
    char name[56];
    uint64_t value;
} flashlab_counter;

/* ---- Block devices ---- */

/* A device that stores bytes. */
typedef struct flashlab_device flashlab_device;

/* Sizes of a device in bytes. Offsets and lengths of requests are multiples of block_size. */
typedef struct flashlab_geometry {
    uint64_t capacity;
    uint64_t block_size;
    /* Length of the longest read or write. */
    uint64_t request_max;
} flashlab_geometry;

/* Values of flashlab_request.operation. */
enum {
    FLASHLAB_READ = 0,
    FLASHLAB_WRITE = 1,
    FLASHLAB_WRITE_DURABLE = 2, /* The request completes when the data is durable (FUA). */
    FLASHLAB_FLUSH = 3,         /* Makes every request durable that completed before. Has no range. */
    FLASHLAB_DISCARD = 4        /* The range then reads as zeroes or as before. */
};

/* A request. */
typedef struct flashlab_request {
    uint32_t operation;
    uint32_t reserved;
    uint64_t offset;
    uint64_t length;
    /* Bytes to write, which the library copies. Other operations ignore it. */
    const void *data;
} flashlab_request;

/* A completed request. */
typedef struct flashlab_completion {
    /* Number that flashlab_device_submit returned. */
    uint64_t ticket;
    /* Instant of the completion. */
    uint64_t at_ns;
    /* Bytes of a successful read, valid until the next call of flashlab_device_next_completion or
     * flashlab_device_close for this device; otherwise NULL. */
    const void *data;
    /* Length of data in bytes. */
    uint64_t length;
    /* Result of the request. */
    flashlab_code code;
    uint32_t reserved;
} flashlab_completion;

/* Values of flashlab_undecided.fate. */
enum {
    FLASHLAB_FATE_OLD = 0,       /* The last durable content. */
    FLASHLAB_FATE_NEW = 1,       /* The last written content, although no flush had made it durable. */
    FLASHLAB_FATE_UNREADABLE = 2 /* Neither content. Reads fail until the range is written again. */
};

/* A range that was not durable at a power cut, and its content after the cut. */
typedef struct flashlab_undecided {
    uint64_t offset;
    uint64_t length;
    uint32_t fate;
    uint32_t reserved;
} flashlab_undecided;

/*
 * Opens a device by name: "sd/kingston", "nvme/p32a80", "memory:size=1MiB"; with changed numbers of its profile:
 * "sd/kingston:flash.t_prog=250us"; with layers: "sd/kingston+error:on=write,rate=0.01". options may be NULL.
 */
flashlab_code flashlab_device_open(const char *name, flashlab_options *options, flashlab_device **device,
                                   flashlab_error *error);

/* Closes the device. */
void flashlab_device_close(flashlab_device *device);

/* Returns the sizes of the device. */
flashlab_code flashlab_device_geometry(flashlab_device *device, flashlab_geometry *geometry, flashlab_error *error);

/* Returns the simulated time. */
flashlab_code flashlab_device_now(flashlab_device *device, uint64_t *now_ns, flashlab_error *error);

/* Reads length bytes at offset. The time advances to the completion. */
flashlab_code flashlab_device_read(flashlab_device *device, uint64_t offset, void *buffer, size_t length,
                                   flashlab_error *error);

/* Writes length bytes at offset. Only a flush makes them durable. */
flashlab_code flashlab_device_write(flashlab_device *device, uint64_t offset, const void *data, size_t length,
                                    flashlab_error *error);

/* Writes length bytes at offset and makes them durable (FUA). */
flashlab_code flashlab_device_write_durable(flashlab_device *device, uint64_t offset, const void *data,
                                            size_t length, flashlab_error *error);

/* Makes every completed request durable. */
flashlab_code flashlab_device_flush(flashlab_device *device, flashlab_error *error);

/* Discards a range, which then reads as zeroes or as before. */
flashlab_code flashlab_device_discard(flashlab_device *device, uint64_t offset, uint64_t length,
                                      flashlab_error *error);

/* Submits a request at the current time, so that several can be in flight. Returns its number. */
flashlab_code flashlab_device_submit(flashlab_device *device, const flashlab_request *request, uint64_t *ticket,
                                     flashlab_error *error);

/*
 * Advances the time to the next completion and returns it. If the request failed, completion->code is the error,
 * and the function returns FLASHLAB_OK all the same. Returns FLASHLAB_NONE if no request is in flight.
 */
flashlab_code flashlab_device_next_completion(flashlab_device *device, flashlab_completion *completion,
                                              flashlab_error *error);

/* Lets time pass without a request: the device works in the background, and requests in flight go on. */
flashlab_code flashlab_device_wait(flashlab_device *device, uint64_t wait_ns, flashlab_error *error);

/* Returns false while the power is off. */
flashlab_code flashlab_device_is_powered(flashlab_device *device, bool *powered, flashlab_error *error);

/* Cuts the power now. Until the power is restored, requests fail with FLASHLAB_ERROR_POWER_OFF. */
flashlab_code flashlab_device_cut_power(flashlab_device *device, flashlab_error *error);

/* Plans a power cut for the instant at_ns, even in the middle of a request. Replaces the cut that was planned. */
flashlab_code flashlab_device_cut_power_at(flashlab_device *device, uint64_t at_ns, flashlab_error *error);

/*
 * Plans a power cut during the nth write or discard from now on, counted from 1, at an instant that is drawn from the
 * seed. Replaces the cut that was planned.
 */
flashlab_code flashlab_device_cut_power_during_write(flashlab_device *device, uint64_t nth, flashlab_error *error);

/*
 * Returns the ranges that were not durable at the last power cut, in ascending order. Sets count to the number of
 * ranges, and writes at most capacity of them to ranges, which may be NULL if capacity is 0. Returns FLASHLAB_NONE if no
 * cut has happened.
 */
flashlab_code flashlab_device_last_cut(flashlab_device *device, flashlab_undecided *ranges, size_t capacity,
                                       size_t *count, flashlab_error *error);

/* Restores the power, and advances the time to the instant at which the device has recovered. */
flashlab_code flashlab_device_restore_power(flashlab_device *device, flashlab_error *error);

/* Makes requests fail by a rule, for example "write after=3 times=1 EIO" (docs/layers.md). */
flashlab_code flashlab_device_add_fault(flashlab_device *device, const char *rule, flashlab_error *error);

/* Removes the rules that flashlab_device_add_fault added. */
flashlab_code flashlab_device_clear_faults(flashlab_device *device, flashlab_error *error);

/* Returns the counters of the device in the way in which flashlab_device_last_cut returns ranges. */
flashlab_code flashlab_device_counters(flashlab_device *device, flashlab_counter *counters, size_t capacity,
                                       size_t *count, flashlab_error *error);

/*
 * Returns the number of erases of each erase block in the way in which flashlab_device_last_cut returns ranges. The count
 * is 0 if the device does not model erase blocks.
 */
flashlab_code flashlab_device_erase_counts(flashlab_device *device, uint32_t *erase_counts, size_t capacity,
                                           size_t *count, flashlab_error *error);

/* ---- SD cards on an SPI bus ---- */

/* The host's end of an SPI bus with a card, which has power. */
typedef struct flashlab_spi flashlab_spi;

/* Opens a card by name on an SPI bus. options may be NULL. */
flashlab_code flashlab_spi_open(const char *name, flashlab_options *options, uint32_t clock_hz, flashlab_spi **spi,
                                flashlab_error *error);

/* Closes the bus and the card. */
void flashlab_spi_close(flashlab_spi *spi);

/* Drives chip select low if selected is true, high otherwise. */
flashlab_code flashlab_spi_select(flashlab_spi *spi, bool selected, flashlab_error *error);

/* Sends a byte and receives one, in eight clocks. */
flashlab_code flashlab_spi_exchange(flashlab_spi *spi, uint8_t sent, uint8_t *received, flashlab_error *error);

/*
 * Sends and receives length bytes. Sends 0xff if sent is NULL; discards the received bytes if received is NULL. sent and
 * received may be the same memory.
 */
flashlab_code flashlab_spi_transfer(flashlab_spi *spi, const void *sent, void *received, size_t length,
                                    flashlab_error *error);

/* Changes the clock rate. */
flashlab_code flashlab_spi_set_clock(flashlab_spi *spi, uint32_t clock_hz, flashlab_error *error);

/* Lets time pass without clocks. */
flashlab_code flashlab_spi_wait(flashlab_spi *spi, uint64_t wait_ns, flashlab_error *error);

/* Returns the simulated time. */
flashlab_code flashlab_spi_now(flashlab_spi *spi, uint64_t *now_ns, flashlab_error *error);

/* Cuts the power of the card and restores it at once, even in the middle of an operation. */
flashlab_code flashlab_spi_power_cycle(flashlab_spi *spi, flashlab_error *error);

/* Adds a quirk to the card. */
flashlab_code flashlab_spi_add_quirk(flashlab_spi *spi, const char *quirk, flashlab_error *error);

/* Returns the counters of the card, as flashlab_device_counters does. */
flashlab_code flashlab_spi_counters(flashlab_spi *spi, flashlab_counter *counters, size_t capacity, size_t *count,
                                    flashlab_error *error);

/* ---- SD cards in native mode ---- */

/* The slot of a host controller with a card. */
typedef struct flashlab_native flashlab_native;

/* Values of flashlab_ios.timing. */
enum {
    FLASHLAB_TIMING_LEGACY = 0,
    FLASHLAB_TIMING_HIGH_SPEED = 1,
    FLASHLAB_TIMING_SDR12 = 2,
    FLASHLAB_TIMING_SDR25 = 3,
    FLASHLAB_TIMING_SDR50 = 4,
    FLASHLAB_TIMING_DDR50 = 5,
    FLASHLAB_TIMING_SDR104 = 6
};

/* Values of flashlab_ios.signal. */
enum { FLASHLAB_SIGNAL_3V3 = 0, FLASHLAB_SIGNAL_1V8 = 1 };

/* Values of flashlab_ios.power. */
enum { FLASHLAB_POWER_OFF = 0, FLASHLAB_POWER_UP = 1, FLASHLAB_POWER_ON = 2 };

/* Settings of the slot, with the names of Linux's struct mmc_ios. */
typedef struct flashlab_ios {
    uint32_t clock_hz;    /* 0 if the clock is stopped. */
    uint32_t width;       /* Number of data lines: 1 or 4. */
    uint32_t timing;      /* Clock edges and sampling. */
    uint32_t signal;      /* Signal voltage. */
    uint32_t power;       /* Power supply. */
    uint32_t vdd;         /* Supply voltage, as a bit number of the OCR: 21 for 3.3 V. */
    uint32_t push_pull;   /* 1 if the command line is push-pull, 0 for open-drain. */
    uint32_t chip_select; /* 0 don't care, 1 high, 2 low. CMD0 with chip select low begins SPI mode. */
} flashlab_ios;

/* Initialiser of flashlab_ios: a slot without power. */
#define FLASHLAB_IOS_OFF {0, 1, FLASHLAB_TIMING_LEGACY, FLASHLAB_SIGNAL_3V3, FLASHLAB_POWER_OFF, 21, 1, 0}

/* Types of responses. After R1B, flashlab_native_wait_ready waits for the end of the busy signal. */
enum {
    FLASHLAB_RESPONSE_NONE = 0,
    FLASHLAB_RESPONSE_R1 = 1,
    FLASHLAB_RESPONSE_R1B = 2,
    FLASHLAB_RESPONSE_R2 = 3,
    FLASHLAB_RESPONSE_R3 = 4,
    FLASHLAB_RESPONSE_R6 = 5,
    FLASHLAB_RESPONSE_R7 = 6
};

/* A response. */
typedef struct flashlab_response {
    /* The 32 bits of a short response, or the first 32 bits of the register in an R2. */
    uint32_t word;
    /* The register in an R2, most significant byte first, with its CRC7 and end bit; otherwise zeroes. */
    uint8_t register_bytes[16];
} flashlab_response;

/* Opens a card by name in a slot without power. options may be NULL. */
flashlab_code flashlab_native_open(const char *name, flashlab_options *options, flashlab_native **native,
                                   flashlab_error *error);

/* Closes the slot and the card. */
void flashlab_native_close(flashlab_native *native);

/* Changes the settings of the slot. Without power, the card loses its state and everything that is not durable. */
flashlab_code flashlab_native_set_ios(flashlab_native *native, const flashlab_ios *ios, flashlab_error *error);

/* Sends CMD0 to CMD63 and waits for the response. An application command is CMD55 and then the command. */
flashlab_code flashlab_native_command(flashlab_native *native, uint8_t index, uint32_t argument,
                                      uint32_t response_type, flashlab_response *response, flashlab_error *error);

/* Reads a block of length bytes, 1 to 2048, whose data begins within limit_ns. */
flashlab_code flashlab_native_read_block(flashlab_native *native, void *buffer, size_t length, uint64_t limit_ns,
                                         flashlab_error *error);

/* Waits until the card is not busy, for limit_ns at most, and sends a block of length bytes, 1 to 2048. */
flashlab_code flashlab_native_write_block(flashlab_native *native, const void *data, size_t length,
                                          uint64_t limit_ns, flashlab_error *error);

/* Waits until the card is not busy, for limit_ns at most. */
flashlab_code flashlab_native_wait_ready(flashlab_native *native, uint64_t limit_ns, flashlab_error *error);

/* Returns true while the card holds its first data line low. */
flashlab_code flashlab_native_is_busy(flashlab_native *native, bool *busy, flashlab_error *error);

/* Lets time pass. */
flashlab_code flashlab_native_wait(flashlab_native *native, uint64_t wait_ns, flashlab_error *error);

/* Returns the simulated time. */
flashlab_code flashlab_native_now(flashlab_native *native, uint64_t *now_ns, flashlab_error *error);

/* Adds a quirk to the card. */
flashlab_code flashlab_native_add_quirk(flashlab_native *native, const char *quirk, flashlab_error *error);

/* Returns the counters of the card, as flashlab_device_counters does. */
flashlab_code flashlab_native_counters(flashlab_native *native, flashlab_counter *counters, size_t capacity,
                                       size_t *count, flashlab_error *error);

#ifdef __cplusplus
}
#endif

#endif
