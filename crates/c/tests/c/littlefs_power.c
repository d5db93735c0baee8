/*
 * littlefs keeps its promise on a device whose power is cut during each write of a workload: it mounts, every file that
 * was synced or removed before the cut is as it was then, and the file of the interrupted operation is as before or
 * after it. A new file may also be empty, since littlefs creates it when it is opened.
 *
 *     littlefs_power DEVICE SEED STEP [--no-flush]
 *
 * cuts at the writes 1, 1 + STEP, 1 + 2 * STEP, ... With --no-flush, the sync function of the block device does nothing,
 * as in a faulty port; the test must then fail on a device with a volatile cache.
 */

#include "check.h"
#include "littlefs/lfs.h"

enum { BLOCK = 4096, BLOCKS = 64, PROG = 512, LOOKAHEAD = 16, FILES = 6, OPERATIONS = 24, SIZE_MAX_OF_FILE = 9000 };

static flashlab_device *device;
static bool flushes = true;

/* ---- The port: the block device of littlefs ---- */

/* Unreadable data after a power cut is corrupt for littlefs, as a wrong checksum of a flash page is. */
static int port_result(flashlab_code code) {
    return code == FLASHLAB_OK ? LFS_ERR_OK : code == FLASHLAB_ERROR_MEDIUM ? LFS_ERR_CORRUPT : LFS_ERR_IO;
}

static int port_read(const struct lfs_config *c, lfs_block_t block, lfs_off_t off, void *buffer, lfs_size_t size) {
    return port_result(flashlab_device_read(device, (uint64_t)block * c->block_size + off, buffer, size, &error));
}

static int port_prog(const struct lfs_config *c, lfs_block_t block, lfs_off_t off, const void *buffer, lfs_size_t size) {
    return port_result(flashlab_device_write(device, (uint64_t)block * c->block_size + off, buffer, size, &error));
}

static int port_erase(const struct lfs_config *c, lfs_block_t block) {
    return port_result(flashlab_device_discard(device, (uint64_t)block * c->block_size, c->block_size, &error));
}

static int port_sync(const struct lfs_config *c) {
    (void)c;
    return flushes ? port_result(flashlab_device_flush(device, &error)) : LFS_ERR_OK;
}

static uint8_t read_buffer[PROG], prog_buffer[PROG], file_buffer[PROG];
static uint32_t lookahead_buffer[LOOKAHEAD / 4];

static const struct lfs_config config = {
    .read = port_read, .prog = port_prog, .erase = port_erase, .sync = port_sync,
    .read_size = PROG, .prog_size = PROG, .block_size = BLOCK, .block_count = BLOCKS, .block_cycles = 500,
    .cache_size = PROG, .lookahead_size = LOOKAHEAD,
    .read_buffer = read_buffer, .prog_buffer = prog_buffer, .lookahead_buffer = lookahead_buffer,
};
static const struct lfs_file_config file_config = {.buffer = file_buffer};

/* ---- The workload, and the files as they must be ---- */

/* Generation of each file's contents; 0 if the file does not exist. */
static uint32_t generations[FILES];
/* File and generation of the operation that runs; no file if -1. */
static int touched = -1;
static uint32_t touched_generation;

/* The contents of a new file that was opened and not synced: opening it creates it without data. */
#define CREATED UINT32_MAX

static lfs_size_t size_of(uint32_t generation) {
    return generation == CREATED ? 0 : generation * 2654435761u % SIZE_MAX_OF_FILE;
}

static uint8_t byte_of(uint32_t generation, lfs_size_t at) {
    return (uint8_t)((generation * 2246822519u + at * 3266489917u) >> 24);
}

static const char *name_of(int file) {
    static char name[32];
    snprintf(name, sizeof name, "/logs/file%d", file);
    return name;
}

static int write_file(lfs_t *lfs, int file, uint32_t generation) {
    lfs_file_t f;
    lfs_size_t at, size = size_of(generation);
    int result = lfs_file_opencfg(lfs, &f, name_of(file), LFS_O_WRONLY | LFS_O_CREAT | LFS_O_TRUNC, &file_config);
    if (result != LFS_ERR_OK) {
        return result;
    }
    for (at = 0; at < size && result >= 0;) {
        uint8_t part[700];
        lfs_size_t n;
        for (n = 0; n < sizeof part && at + n < size; n++) {
            part[n] = byte_of(generation, at + n);
        }
        result = (int)lfs_file_write(lfs, &f, part, n);
        at += n;
    }
    if (result >= 0) {
        result = lfs_file_sync(lfs, &f);
    }
    /* A file with an error is not written again when it is closed. */
    int closed = lfs_file_close(lfs, &f);
    return result < 0 ? result : closed;
}

/* Carries out the operations until one fails. Returns its result. */
static int workload(lfs_t *lfs, uint32_t seed) {
    uint32_t random = seed * 7919 + 1;
    int n, result = LFS_ERR_OK;
    for (n = 0; n < OPERATIONS && result == LFS_ERR_OK; n++) {
        random = random * 1664525 + 1013904223;
        touched = (int)(random >> 16) % FILES;
        if (generations[touched] != 0 && (random >> 8) % 4 == 0) {
            touched_generation = 0;
            result = lfs_remove(lfs, name_of(touched));
        } else {
            touched_generation = (uint32_t)n + 1 + 1000 * seed;
            result = write_file(lfs, touched, touched_generation);
        }
        if (result == LFS_ERR_OK) {
            generations[touched] = touched_generation;
            touched = -1;
        }
    }
    return result;
}

/* Returns true if the file has the contents of the generation. */
static bool has(lfs_t *lfs, int file, uint32_t generation) {
    lfs_file_t f;
    lfs_size_t at = 0, size = size_of(generation);
    bool same = true;
    int result = lfs_file_opencfg(lfs, &f, name_of(file), LFS_O_RDONLY, &file_config);
    if (generation == 0 || result == LFS_ERR_NOENT) {
        CHECK(result == LFS_ERR_NOENT || lfs_file_close(lfs, &f) == LFS_ERR_OK);
        return generation == 0 && result == LFS_ERR_NOENT;
    }
    CHECK(result == LFS_ERR_OK);
    same = lfs_file_size(lfs, &f) == (lfs_soff_t)size;
    while (same && at < size) {
        uint8_t part[700];
        lfs_ssize_t n, got = lfs_file_read(lfs, &f, part, sizeof part);
        same = got > 0;
        for (n = 0; n < got; n++, at++) {
            same = same && part[n] == byte_of(generation, at);
        }
    }
    CHECK(lfs_file_close(lfs, &f) == LFS_ERR_OK);
    return same;
}

static void check_files(lfs_t *lfs, uint64_t cut) {
    int file;
    for (file = 0; file < FILES; file++) {
        bool is_new = generations[file] == 0;
        if (has(lfs, file, generations[file])) {
            continue;
        }
        if (file == touched && has(lfs, file, touched_generation)) {
            generations[file] = touched_generation;
        } else if (file == touched && is_new && has(lfs, file, CREATED)) {
            generations[file] = CREATED;
        } else {
            fprintf(stderr, "cut at write %u: file %d is not generation %u\n", (unsigned)cut, file,
                    (unsigned)generations[file]);
            exit(1);
        }
    }
    touched = -1;
}

/* Opens the device with a new filesystem. */
static void open_formatted(const char *name, uint64_t seed, lfs_t *lfs) {
    flashlab_options *options;
    OK(flashlab_options_new(&options, &error));
    OK(flashlab_options_set_seed(options, seed, &error));
    OK(flashlab_device_open(name, options, &device, &error));
    flashlab_options_close(options);
    CHECK(lfs_format(lfs, &config) == LFS_ERR_OK);
    CHECK(lfs_mount(lfs, &config) == LFS_ERR_OK);
    CHECK(lfs_mkdir(lfs, "/logs") == LFS_ERR_OK);
}

/* Runs the workload with a cut during a write. Returns false if the workload has fewer writes. */
static bool run(const char *name, uint32_t seed, uint64_t cut) {
    lfs_t lfs;
    size_t ranges;
    bool interrupted;
    int result;
    memset(generations, 0, sizeof generations);
    touched = -1;
    open_formatted(name, seed * UINT64_C(1000000) + cut, &lfs);
    OK(flashlab_device_cut_power_during_write(device, cut, &error));
    interrupted = workload(&lfs, seed) != LFS_ERR_OK;
    lfs_unmount(&lfs); /* Frees memory, writes nothing. */
    CHECK(flashlab_device_last_cut(device, NULL, 0, &ranges, &error) == (interrupted ? FLASHLAB_OK : FLASHLAB_NONE));
    if (!interrupted) {
        /* The power fails while the device is idle. */
        OK(flashlab_device_cut_power(device, &error));
    }
    OK(flashlab_device_restore_power(device, &error));

    result = lfs_mount(&lfs, &config);
    if (result != LFS_ERR_OK) {
        fprintf(stderr, "cut at write %u: the mount fails with %d: %s\n", (unsigned)cut, result, error.text);
        exit(1);
    }
    check_files(&lfs, cut);
    /* The filesystem goes on after its recovery. */
    generations[0] = 77;
    CHECK(write_file(&lfs, 0, 77) == LFS_ERR_OK);
    check_files(&lfs, cut);
    CHECK(lfs_unmount(&lfs) == LFS_ERR_OK);
    flashlab_device_close(device);
    return interrupted;
}

int main(int count, char **arguments) {
    uint64_t cut = 1, cuts = 0, step;
    uint32_t seed;
    CHECK(count >= 4);
    seed = (uint32_t)strtoul(arguments[2], NULL, 10);
    step = strtoul(arguments[3], NULL, 10);
    flushes = !(count > 4 && strcmp(arguments[4], "--no-flush") == 0);
    for (; run(arguments[1], seed, cut); cut += step) {
        cuts++;
    }
    printf("%u cuts\n", (unsigned)cuts);
    return 0;
}
