#!/bin/bash
# SPDX-License-Identifier: MIT
# The library calls nothing but itself and what is listed here: so it has no malloc, printf, exit,
# setjmp or assert, and no exp, log, tanh, pow or cos whose last bit differs between systems.
# tools/formats asks utf8proc for the classes and forms of characters, by calls that do not allocate, and zlib and
# libzstd to unpack, through memory that it gives them.
# device/host and device/fabric speak to the system, the latter to launchers and MPI, too, device/cuda to the driver that it loads; these have longer lists,
# without allocation of their own all the same.
# verifies house-1.7e35
pure='memcpy memmove memset memcmp memchr strlen strnlen strcmp strncmp strchr strrchr
strspn strcspn strpbrk strstr
fma fmaf sqrt sqrtf floor floorf ceil ceilf trunc truncf rint rintf nearbyint nearbyintf round roundf
lround lroundf llround fabs fabsf fmin fminf fmax fmaxf ldexp ldexpf frexp scalbn scalbnf copysign
copysignf __stack_chk_fail _GLOBAL_OFFSET_TABLE_'
system='pthread_create pthread_join pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock
pthread_mutex_unlock pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_signal
pthread_cond_broadcast pthread_cond_timedwait pthread_condattr_init pthread_condattr_destroy
pthread_condattr_setclock pthread_attr_init pthread_attr_destroy pthread_attr_setstacksize
pthread_sigmask sigfillset sigemptyset sched_yield sysconf nanosleep clock_gettime
__errno_location open open64 openat close read write pread pread64 pwrite pwrite64 lseek fsync
fdatasync rename unlink remove mkdir rmdir opendir fdopendir readdir closedir stat fstat lstat
stat64 fstat64 access faccessat statvfs statvfs64 fstatvfs ftruncate getpid
__cpu_model __cpu_indicator_init'
characters='utf8proc_category utf8proc_tolower utf8proc_decompose_char utf8proc_get_property
utf8proc_normalize_utf32 utf8proc_grapheme_break_stateful'
unpackers='inflateInit2_ inflate inflateReset inflateEnd ZSTD_isError ZSTD_getFrameHeader
ZSTD_estimateDStreamSize ZSTD_initStaticDStream ZSTD_initDStream ZSTD_DCtx_setMaxWindowSize ZSTD_decompressStream'
tiles='syscall' # arch_prctl has no function of its own: device/host/cpu.c asks for AMX's registers
tier='flock posix_fallocate fstatfs' # a file that is one run's, of which the disk's bytes are taken
# Other processes, and their hosts. fegetenv: a library that is loaded may change the arithmetic.
ranks='dlopen dlsym dlerror getenv gethostname sigaction kill alarm _exit __errno_location fegetenv fesetenv
socket bind listen accept connect send recv poll shutdown setsockopt getsockname getaddrinfo freeaddrinfo
gai_strerror fcntl fcntl64 strtoul'
driver='dlopen dlsym dlclose dlerror clock_gettime nanosleep getpid setenv' # setenv: what the driver reads

[[ -n ${LIBOBJ:-} ]] || { echo "LIBOBJ is not set: run make check"; exit 1; }
own=$(nm --defined-only -P "$BUILD/objects.a" 2>/dev/null | awk 'NF > 2 && $2 ~ /[A-Z]/ { print $1 }')
bad=$(for object in $LIBOBJ; do
    allowed="$own $pure"
    [[ $object != *tools/formats/unicode/unicode.o ]] || allowed="$allowed $characters"
    [[ $object != *tools/formats/files/unpack.o ]] || allowed="$allowed $unpackers"
    [[ $object != *device/host/* && $object != *device/fabric/* ]] || allowed="$allowed $system"
    [[ $object != *device/fabric/* ]] || allowed="$allowed $ranks"
    [[ $object != *device/host/storage/tier_posix.o ]] || allowed="$allowed $tier"
    [[ $object != *device/host/cpu.o ]] || allowed="$allowed $tiles"
    [[ $object != *device/cuda/* ]] || allowed="$allowed $driver"
    nm -u -P "$object" | awk -v object="${object#"$BUILD"/}" -v allowed="$allowed" '
        BEGIN { n = split(allowed, word); for (i = 1; i <= n; i++) may[word[i]] = 1 }
        !($1 in may) { print object ": calls " $1 }'
done)
[[ -z $bad ]] && exit 0
echo "$bad"
echo "the library has no such function (docs/contributing.md: no allocation, printf, exit, assert, libm)"
exit 1
