#include "CSys.h"

#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

// Reflected polynomials: Castagnoli (RFC 9260 appendix A) and IEEE 802.3.
enum { CASTAGNOLI = 0x82F63B78, ETHERNET = 0xEDB88320 };
// Reflected polynomial of CRC-64/NVME (NVM Express NVM Command Set, "64b CRC definition").
static const uint64_t NVME = 0x9A6C9329AC4BC9B5;

typedef uint32_t table[8][256];
static table castagnoli, ethernet;
typedef uint64_t wide_table[8][256];
static wide_table nvme;

typedef uint32_t (*update)(uint32_t, const void *, size_t);
static update best;

static void fill(table t, uint32_t polynomial) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ (value & 1 ? polynomial : 0);
        t[0][byte] = value;
    }
    for (int slice = 1; slice < 8; slice++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t above = t[slice - 1][byte];
            t[slice][byte] = (above >> 8) ^ t[0][above & 255];
        }
    }
}

static void fill_wide(wide_table t, uint64_t polynomial) {
    for (int byte = 0; byte < 256; byte++) {
        uint64_t value = byte;
        for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ (value & 1 ? polynomial : 0);
        t[0][byte] = value;
    }
    for (int slice = 1; slice < 8; slice++) {
        for (int byte = 0; byte < 256; byte++) {
            uint64_t above = t[slice - 1][byte];
            t[slice][byte] = (above >> 8) ^ t[0][above & 255];
        }
    }
}

static uint64_t little_endian(const unsigned char *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

// Processes eight bytes in each step, each with its own table.
static uint32_t by_table(const table t, uint32_t value, const void *bytes, size_t count) {
    const unsigned char *p = bytes;
    value = ~value;
    for (; count >= 8; count -= 8, p += 8) {
        uint64_t word = little_endian(p) ^ value;
        value = 0;
        for (int slice = 0; slice < 8; slice++) value ^= t[7 - slice][word >> (8 * slice) & 255];
    }
    while (count--) value = (value >> 8) ^ t[0][(value ^ *p++) & 255];
    return ~value;
}

uint32_t csys_crc32c_portable(uint32_t value, const void *bytes, size_t count) {
    return by_table(castagnoli, value, bytes, count);
}

#if defined(__x86_64__)
__attribute__((target("sse4.2")))
static uint32_t by_instruction(uint32_t value, const void *bytes, size_t count) {
    const unsigned char *p = bytes;
    uint64_t wide = (uint32_t)~value;
    for (; count >= 8; count -= 8, p += 8) wide = _mm_crc32_u64(wide, little_endian(p));
    uint32_t narrow = (uint32_t)wide;
    while (count--) narrow = _mm_crc32_u8(narrow, *p++);
    return ~narrow;
}

static int has_instruction(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
__attribute__((target("crc")))
static uint32_t by_instruction(uint32_t value, const void *bytes, size_t count) {
    const unsigned char *p = bytes;
    value = ~value;
    for (; count >= 8; count -= 8, p += 8) value = __builtin_arm_crc32cd(value, little_endian(p));
    while (count--) value = __builtin_arm_crc32cb(value, *p++);
    return ~value;
}

static int has_instruction(void) {
    // HWCAP_CRC32 (asm/hwcap.h).
    return (getauxval(AT_HWCAP) >> 7) & 1;
}
#else
#define by_instruction csys_crc32c_portable
static int has_instruction(void) { return 0; }
#endif

__attribute__((constructor))
static void choose(void) {
    fill(castagnoli, CASTAGNOLI);
    fill(ethernet, ETHERNET);
    fill_wide(nvme, NVME);
    best = has_instruction() ? by_instruction : csys_crc32c_portable;
}

uint32_t csys_crc32c(uint32_t value, const void *bytes, size_t count) {
    return best(value, bytes, count);
}

uint32_t csys_crc32(uint32_t value, const void *bytes, size_t count) {
    return by_table(ethernet, value, bytes, count);
}

uint64_t csys_crc64nvme(uint64_t value, const void *bytes, size_t count) {
    const unsigned char *p = bytes;
    value = ~value;
    for (; count >= 8; count -= 8, p += 8) {
        uint64_t word = little_endian(p) ^ value;
        value = 0;
        for (int slice = 0; slice < 8; slice++) value ^= nvme[7 - slice][word >> (8 * slice) & 255];
    }
    while (count--) value = (value >> 8) ^ nvme[0][(value ^ *p++) & 255];
    return ~value;
}

uint32_t csys_adler32(uint32_t value, const void *bytes, size_t count) {
    const unsigned char *p = bytes;
    uint32_t a = value & 0xFFFF, b = value >> 16;
    while (count > 0) {
        // Largest number of bytes after which b still fits into 32 bits (RFC 1950 section 9).
        size_t step = count < 5552 ? count : 5552;
        count -= step;
        while (step--) {
            a += *p++;
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}
