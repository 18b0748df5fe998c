/* SPDX-License-Identifier: MIT */
/* libzstd's archive also unpacks what zstd made before its format was resolved (0.5 to 0.7, before
 * 2016), in 90 KB of code. No such file gets that far: unpack.c looks at the magic number. These
 * names stand in for that code, so that the linker leaves it out. */

#define ABSENT(name)                                                                               \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return -1;                                                                                 \
    }

#define ABSENT_STREAM(version)                                                                     \
    ABSENT(ZBUFF##version##_createDCtx)                                                            \
    ABSENT(ZBUFF##version##_decompressContinue)                                                    \
    ABSENT(ZBUFF##version##_decompressInitDictionary)                                              \
    ABSENT(ZBUFF##version##_freeDCtx)

#define ABSENT_VERSION(version)                                                                    \
    ABSENT_STREAM(version)                                                                         \
    ABSENT(ZSTD##version##_createDCtx)                                                             \
    ABSENT(ZSTD##version##_decompress_usingDict)                                                   \
    ABSENT(ZSTD##version##_findFrameSizeInfoLegacy)                                                \
    ABSENT(ZSTD##version##_freeDCtx)                                                               \
    ABSENT(ZSTD##version##_getFrameParams)

ABSENT_VERSION(v05)
ABSENT_VERSION(v06)
ABSENT_VERSION(v07)
